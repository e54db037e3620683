//! Limits: every number that bounds a peer's bytes or the work that they cause, with its unit and its reason.
//!
//! There are no limits elsewhere in this crate. Timeouts belong to the server, which has the clock.

/// A request head, in bytes, from its first line to the empty line. Browsers send less than 4 KiB unless a
/// site sets too many cookies; nginx and Apache allow 8 KiB for a single field.
pub const HEAD_BYTES_MAX: usize = 16 * 1024;

/// A method name, in bytes. The longest registered one has 17.
pub const METHOD_BYTES_MAX: usize = 64;

/// A request target, in bytes. RFC 9112 §3 recommends at least 8,000.
pub const TARGET_BYTES_MAX: usize = cannery_archive::KEY_BYTES_MAX;

/// Field lines in a head. Browsers send about 20, and proxies add a few.
pub const FIELDS_MAX: usize = 100;

/// Request content that is read and discarded to keep the connection open, in bytes. No request that we
/// answer needs content, so more is not worth reading.
pub const CONTENT_SKIPPED_BYTES_MAX: u64 = 64 * 1024;

/// Content for a handler after which a client gets more time for the rest, in bytes.
pub const CONTENT_BLOCK_BYTES: usize = 16 * 1024;

/// The extensions of a chunk, or a line of a trailer section, in bytes. Clients of a file server send
/// neither.
pub const CHUNK_LINE_BYTES_MAX: u16 = 256;

/// A PROXY protocol header of version 1, in bytes with its line end: the longest that the specification
/// allows.
pub const PROXY_LINE_BYTES_MAX: usize = 107;

/// A PROXY protocol header of version 2, in bytes with its extensions. The largest that proxies send describe
/// a client certificate, and stay below 2 KiB; nginx accepts 4 KiB.
pub const PROXY_HEADER_BYTES_MAX: usize = 4096;

/// The peer's dynamic table in HPACK, in bytes as defined in RFC 7541 §4.1: the default before any SETTINGS,
/// and enough for the fields that a browser repeats.
pub const HPACK_TABLE_BYTES: usize = 4096;

/// The peer's dynamic table in QPACK, in bytes as defined in RFC 9204 §3.2.1: as in HPACK.
pub const QPACK_TABLE_BYTES: usize = 4096;

/// An instruction of a QPACK encoder stream, in bytes: two strings that fit the table even if every byte takes 30 bits in the
/// Huffman code, and their lengths.
pub const QPACK_INSTRUCTION_BYTES_MAX: usize = 4 * QPACK_TABLE_BYTES + 16;

/// An encoded field section of an HTTP/3 request, in bytes. One that is larger is not decoded, and refused like a
/// field list that is too large.
pub const FIELD_SECTION_BYTES_MAX: u64 = HEAD_BYTES_MAX as u64;

/// A frame of the peer's control stream, in bytes. SETTINGS of browsers take about 30, and priorities about 10.
pub const CONTROL_FRAME_BYTES_MAX: u64 = 1024;

/// Bytes of QPACK instructions that cost one token of [`CREDIT_MAX`]. A browser's table is full after 4 KiB of them.
pub const INSTRUCTION_BYTES_PER_TOKEN: usize = 64;

/// A body of up to this many bytes is copied after its head in HTTP/3, so that QUIC handles one buffer instead of two. It
/// copies both into packets again.
pub const STREAM_BODY_COPIED_BYTES_MAX: u64 = 1024;

/// The field list of an HTTP/2 request, in bytes as defined in RFC 9113 §6.5.2: names, values, and 32 for
/// each field. A request beyond it is refused; its other fields are decoded and ignored.
pub const FIELD_LIST_BYTES_MAX: usize = HEAD_BYTES_MAX;

/// The field list that is decoded at all, in the same unit. Beyond it the connection closes: two bytes can
/// expand to a field of 4,000, and only an attack uses that so often (decompression bomb).
pub const FIELD_LIST_BYTES_DECODED_MAX: usize = 8 * FIELD_LIST_BYTES_MAX;

/// The minimum rate at which a peer must accept a response, in bytes per second, until it has accepted all of
/// it. A tenth of the rate of a GSM phone; only an attack is slower (slow read).
pub const SEND_BYTES_PER_SECOND_MIN: u64 = 100;

/// Memory that all connections of a process may hold, in bytes: incomplete requests, responses that slow
/// clients haven't accepted, TLS and HTTP/2 state. Ten thousand slow readers hold 160 MiB of encrypted
/// records. It is divided equally among the threads; `--limit-memory` reduces it.
pub const CONNECTIONS_BYTES_MAX: u64 = 256 << 20;

/// A body of up to this many bytes is copied after its head, so that one call with one buffer sends both: a
/// second buffer costs more than the copy.
pub const COPIED_BODY_BYTES_MAX: u64 = 8 * 1024;

/// A body of at least this many bytes is sent zero-copy, by reference to its pages. That takes one more
/// system call and saves the copy.
///
/// CPU time per response, copied and zero-copy, in microseconds (a program for this measurement alone, 64
/// connections): 4 kB 3.5 and 3.9, 8 kB 3.9 and 3.9, 12 kB 4.3 and 4.0, 16 kB 4.6 and 4.0, 24 kB 5.4 and 4.1,
/// 32 kB 5.2 and 4.2, 48 kB 5.8 and 4.5, 64 KiB 8.6 and 6.0, 89.7 kB 10.5 and 6.5.
pub const ZERO_COPY_BODY_BYTES_MIN: usize = 8 * 1024;

/// Bytes of responses that are collected for a connection before they are sent: about 16 of the largest
/// copied responses, or 200 small ones.
pub const OUTPUT_BYTES: usize = 64 * 1024;

/// Segments that one call sends; a response with a large body takes two.
pub const SEGMENTS_MAX: usize = 64;

/// Bytes of responses that are encrypted at once for a peer that accepts all of them: as many as one loop
/// iteration sends. Records that the socket doesn't accept stay in memory, so a peer that is slower gets
/// [`SEALED_BYTES_MIN`] next time.
pub const SEALED_BYTES_MAX: usize = 256 * 1024;

/// Bytes of responses that are encrypted at once for a peer that is slower than we are: one record. Ten
/// thousand such peers make us hold 160 MiB.
pub const SEALED_BYTES_MIN: usize = 16 * 1024;

/// Handshakes per loop iteration, counted by their expensive part (a signature and the key exchange). Each
/// takes 0.1 to 0.6 milliseconds, which all other connections wait for. More handshakes wait for the next
/// iterations, in order. If others take all of them, HTTP/3 has one more for a new connection, and one more
/// for a ClientHello that came in several datagrams.
pub const HANDSHAKES_PER_ITERATION_MAX: u32 = 2;

/// Free space that an output needs before another response is written, in bytes: a copied body and a large
/// head. A multipart response may take more, and makes the output grow until it is sent.
pub const RESPONSE_BYTES_RESERVED: usize = 12 * 1024;

/// The most segments that one response takes: its head, and for each part a range of the archive and text.
pub const RESPONSE_SEGMENTS_MAX: usize = 2 * cannery_site::RANGES_MAX + 2;

/// Streams of an HTTP/2 connection that wait at the same time, for a window or for the rest of a request.
/// Those that are answered at once don't count. Browsers use at most 100, and RFC 9113 §6.5.2 recommends no
/// fewer.
pub const STREAMS_MAX: u32 = 128;

/// Streams that we reset, and on which late frames are ignored, because these may have been in flight (RFC
/// 9113 §5.1): as many as can wait, four bytes each. Beyond that the oldest is forgotten: content on it
/// causes another reset, and trailers close the connection.
pub const RESET_STREAMS_REMEMBERED_MAX: usize = STREAMS_MAX as usize;

/// Priorities of streams that are not open yet (RFC 9218 §7.1). Clients send one shortly before its request.
/// Beyond that the oldest is forgotten.
pub const PRIORITIES_REMEMBERED_MAX: usize = 16;

/// An HTTP/2 header block as sent, in bytes over all of its frames: twice the limit of a head, so that a head
/// that is slightly too large is still decoded, and refused with a status.
pub const BLOCK_BYTES_MAX: usize = 2 * HEAD_BYTES_MAX;

/// CONTINUATION frames of one header block. With frames of 16 KiB one is enough, but some clients send
/// smaller ones (CONTINUATION flood, CVE-2024-27316 and similar).
pub const CONTINUATIONS_MAX: u8 = 8;

/// Token bucket for HTTP/2 frames that produce no response, and its capacity: PING, SETTINGS, PRIORITY, small
/// window updates, empty DATA. A page in a browser takes a few dozen.
pub const CREDIT_MAX: u32 = 2_000;

/// Refill of this bucket per second: no keep-alive or bandwidth measurement needs more.
pub const CREDIT_PER_SECOND: u32 = 100;

/// Refill of this bucket for each response, and for each DATA frame of ours: a peer may send two window
/// updates and one or two priorities for it.
pub const CREDIT_PER_RESPONSE: u32 = 6;

/// The shortest DATA frame of ours that refills the bucket, in bytes, unless it ends its response. Otherwise
/// a peer that opens its windows byte by byte would make us send a frame for each, on all streams at once,
/// and earn tokens for it (CVE-2019-9511).
pub const CREDITED_DATA_BYTES_MIN: u32 = 256;

/// Cost of a SETTINGS frame in this bucket, in addition to one token for each of its parameters: it can
/// change the windows of all streams, and must be acknowledged. Clients send one or two.
pub const SETTINGS_COST: u32 = 20;

/// Token bucket for streams that end before their response, and its capacity: reset by the peer, or by us for
/// an error of its (rapid reset, CVE-2023-44487). A browser that leaves a page resets the open streams, at
/// most [`STREAMS_MAX`]. Each complete response refills one token.
pub const RESETS_MAX: u32 = 2 * STREAMS_MAX;

/// Refill of this bucket, in resets per second, so that a connection that lasts for hours can go on cancelling requests.
pub const RESETS_PER_SECOND: u32 = 10;

const _: () = assert!(PROXY_LINE_BYTES_MAX < PROXY_HEADER_BYTES_MAX, "the limit of version 2 holds for both");
const _: () = assert!(TARGET_BYTES_MAX < HEAD_BYTES_MAX, "a target must fit its head");
const _: () = assert!(
    RESPONSE_BYTES_RESERVED as u64 == COPIED_BODY_BYTES_MAX + 4 * 1024,
    "a copied body, and 4 KiB of head"
);
const _: () = assert!(RESPONSE_SEGMENTS_MAX < SEGMENTS_MAX, "an empty output must have room for a response");
const _: () =
    assert!(RESPONSE_BYTES_RESERVED <= OUTPUT_BYTES, "an empty output must have room for a response");
