//! Every number that a peer can push against: its unit, its value, and why.
//!
//! A limit stands here or nowhere. Timeouts are the server's, where the clock is.

/// A request's head, in bytes, from its first line to the empty one. Browsers send under 4 KiB unless a
/// site sets cookies without measure; nginx and Apache allow 8 KiB for a single field.
pub const HEAD_BYTES_MAX: usize = 16 * 1024;

/// A method's name, in bytes. The longest that is registered has 17.
pub const METHOD_BYTES_MAX: usize = 64;

/// A request target, in bytes. RFC 9112 §3 asks for at least 8,000.
pub const TARGET_BYTES_MAX: usize = cannery_archive::KEY_BYTES_MAX;

/// Field lines in a head. Browsers send about 20, and proxies add a few: a hundred is room enough.
pub const FIELDS_MAX: usize = 100;

/// The content of a request that is read and thrown away to keep the connection, in bytes. No request
/// that we answer needs any; more is not worth reading.
pub const CONTENT_SKIPPED_BYTES_MAX: u64 = 64 * 1024;

/// A chunk's extensions, or a line of a trailer section, in bytes. Nobody sends either to read a file.
pub const CHUNK_LINE_BYTES_MAX: u16 = 256;

/// A PROXY header of version 1, in bytes with its end: the longest that its specification has.
pub const PROXY_LINE_BYTES_MAX: usize = 107;

/// A PROXY header of version 2, in bytes with its extensions. The largest that proxies send hold what a client's
/// certificate says, and stay below 2 KiB; nginx takes 4 KiB.
pub const PROXY_HEADER_BYTES_MAX: usize = 4096;

/// What a peer may put into its dynamic table of HPACK, in bytes as RFC 7541 §4.1 counts: what it may before it knows
/// any setting of ours, and enough for all that a browser sends again and again.
pub const HPACK_TABLE_BYTES: usize = 4096;

/// The fields of a request over HTTP/2, in bytes as RFC 9113 §6.5.2 counts: names, values, and 32 for each field. What
/// is beyond is read and not looked at, and the request is refused.
pub const FIELD_LIST_BYTES_MAX: usize = HEAD_BYTES_MAX;

/// The fields of a request over HTTP/2, in the same bytes, up to which the peer is only refused the request. Two bytes can
/// stand for a field of four thousand: nobody who asks for more of that wants an answer, so the connection ends.
pub const FIELD_LIST_BYTES_DECODED_MAX: usize = 8 * FIELD_LIST_BYTES_MAX;

/// The least that a peer must take of an answer, in bytes per second, as long as it does not take all of it.
/// A tenth of what a GSM telephone takes; below it, somebody only wants to keep us waiting.
pub const SEND_BYTES_PER_SECOND_MIN: u64 = 100;

/// Memory that the connections of a process may keep, in bytes: beginnings of requests, answers that clients are slow to
/// take, the state of TLS and HTTP/2. Ten thousand slow readers keep 160 MiB of sealed records. Each thread has an equal
/// share; `--limit-memory` makes it smaller.
pub const CONNECTIONS_BYTES_MAX: u64 = 256 << 20;

/// A body up to this many bytes is copied behind its head, so that one call with one buffer sends both: a
/// second buffer costs more than the copy.
pub const COPIED_BODY_BYTES_MAX: u64 = 8 * 1024;

/// A body from this many bytes on goes to the kernel by reference to its pages, which takes one call more and spares
/// the copy. By a program that does nothing else, 64 connections, microseconds of a processor for each answer, copied
/// and lent: 4 kB 3.5 and 3.9, 8 kB 3.9 and 3.9, 12 kB 4.3 and 4.0, 16 kB 4.6 and 4.0, 24 kB 5.4 and 4.1, 32 kB 5.2 and
/// 4.2, 48 kB 5.8 and 4.5, 64 KiB 8.6 and 6.0, 89.7 kB 10.5 and 6.5.
pub const ZERO_COPY_BODY_BYTES_MIN: usize = 8 * 1024;

/// Bytes that one turn spells for a connection before it sends: about sixteen of the largest copied
/// answers, or two hundred small ones.
pub const OUTPUT_BYTES: usize = 64 * 1024;

/// Runs of bytes that one call sends; each large body takes two.
pub const SEGMENTS_MAX: usize = 64;

/// Bytes of answers that are sealed at once for a peer that takes all of it: as many as a turn sends. What the socket has
/// no room for is kept sealed, so a peer that does not take them gets [`SEALED_BYTES_MIN`] the next time.
pub const SEALED_BYTES_MAX: usize = 256 * 1024;

/// Bytes of answers that are sealed at once for a peer that is slower than we are: one record. Ten thousand such peers
/// make us keep 160 MiB.
pub const SEALED_BYTES_MIN: usize = 16 * 1024;

/// Handshakes whose costly part, a signature and the agreement on a key, one turn of a worker does. Each takes 0.1 to 0.6
/// milliseconds, in which nobody else is served; the others wait for the turns that follow, in order.
pub const HANDSHAKES_PER_ITERATION_MAX: u32 = 2;

/// Room that must be left in an output before one more answer is spelled: a copied body and a large head. An
/// answer in several parts may take more, and makes the output grow for as long as it is sent.
pub const RESPONSE_BYTES_RESERVED: usize = 12 * 1024;

/// Runs of bytes that one answer takes at most: its head, and a range of the archive and text for each part.
pub const RESPONSE_SEGMENTS_MAX: usize = 2 * cannery_site::RANGES_MAX + 2;

/// Streams of an HTTP/2 connection that wait at once, for room or for the rest of a request; those that are answered
/// at once do not count. Browsers ask for a hundred at most, and RFC 9113 §6.5.2 advises no fewer.
pub const STREAMS_MAX: u32 = 128;

/// Streams that we have reset and whose frames are still let pass without an answer, for they may have been on their way
/// (RFC 9113 §5.1): as many as can be open at once, four bytes each. Of more, the first is forgotten; content for it is
/// answered with another reset, and trailers end the connection.
pub const RESET_STREAMS_REMEMBERED_MAX: usize = STREAMS_MAX as usize;

/// Priorities of streams that are not open yet (RFC 9218 §7.1). Clients send one shortly before its request; of
/// more, the oldest is forgotten.
pub const PRIORITIES_REMEMBERED_MAX: usize = 16;

/// A header block of HTTP/2, in bytes as it was sent, over all of its frames: twice what its head may have, so that
/// one that is too large can still be read, and its sender told.
pub const BLOCK_BYTES_MAX: usize = 2 * HEAD_BYTES_MAX;

/// CONTINUATION frames of one header block. With frames of 16 KiB none needs more than one; some clients cut
/// blocks smaller (the CONTINUATION flood, CVE-2024-27316 and its like).
pub const CONTINUATIONS_MAX: u8 = 8;

/// Frames of HTTP/2 that ask for nothing, beyond those that answers and time allow, in one go: PING, SETTINGS,
/// PRIORITY, windows opened in tiny steps, empty DATA. A page of a browser's takes some dozens.
pub const CREDIT_MAX: u32 = 2_000;

/// Such frames in a second, as long as they last: no keep-alive or measurement of a line needs more.
pub const CREDIT_PER_SECOND: u32 = 100;

/// Such frames for each answer, and for each frame that took content to the peer, who may widen two windows and
/// change a priority or two for it.
pub const CREDIT_PER_RESPONSE: u32 = 6;

/// The least that such a frame of content holds, in bytes, unless it is the last of its answer. Else who makes room byte by
/// byte would have us send a frame for each, on all streams at once, and be paid for it (CVE-2019-9511). Nobody who wants
/// an answer has so little room.
pub const CREDITED_DATA_BYTES_MIN: u32 = 256;

/// How many such frames one SETTINGS counts for, beside one for each of its parameters: it can change the windows of
/// all streams, and must be acknowledged. Clients send one or two.
pub const SETTINGS_COST: u32 = 20;

/// Streams that end before their answer, in one go: reset by the peer, or by us for its fault (rapid reset,
/// CVE-2023-44487). A browser that leaves a page resets what is under way, [`STREAMS_MAX`] at most; each answer
/// that was sent whole allows one more.
pub const RESETS_MAX: u32 = 2 * STREAMS_MAX;

/// Such streams in a second, as long as they last.
pub const RESETS_PER_SECOND: u32 = 10;

const _: () = assert!(PROXY_LINE_BYTES_MAX < PROXY_HEADER_BYTES_MAX, "the longest of both versions");
const _: () = assert!(TARGET_BYTES_MAX < HEAD_BYTES_MAX, "a target must fit its head");
const _: () = assert!(
    RESPONSE_BYTES_RESERVED as u64 == COPIED_BODY_BYTES_MAX + 4 * 1024,
    "a copied body, and four kibibytes of head"
);
const _: () = assert!(RESPONSE_SEGMENTS_MAX < SEGMENTS_MAX, "an empty output must take an answer");
const _: () = assert!(RESPONSE_BYTES_RESERVED <= OUTPUT_BYTES, "an empty output must take an answer");
