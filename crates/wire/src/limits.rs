//! Limits for the peer's bytes and for the work that they may cause, each with its unit and reason.
//!
//! This file has all limits of this crate, except for timeouts. The server is responsible for these because it has the clock.

/// Maximum length of a request head, in bytes, including the empty line at the end. Browsers typically send less than 4 KiB, unless
/// a site has set too many cookies. nginx and Apache allow 8 KiB for *each* field.
pub const HEAD_BYTES_MAX: usize = 16 * 1024;

/// Length of a method, in bytes. The longest registered one has 17.
pub const METHOD_BYTES_MAX: usize = 64;

/// Maximum length of a request target, in bytes. RFC 9112 §3 recommends at least 8,000.
pub const TARGET_BYTES_MAX: usize = cannery_archive::KEY_BYTES_MAX;

/// Maximum number of lines in a head. Browsers send about 20 fields (and proxies add a few).
pub const FIELDS_MAX: usize = 100;

/// Maximum amount of content to discard to keep the connection open, in bytes. It is not worthwhile to read more, since requests to
/// sites do not need content.
pub const CONTENT_SKIPPED_BYTES_MAX: u64 = 64 * 1024;

/// Clients get more time after they have sent this much content for a handler, in bytes.
pub const CONTENT_BLOCK_BYTES: usize = 16 * 1024;

/// Maximum length of a chunk's extensions, or of a line in trailers, in bytes. Clients of a file server do not send any.
pub const CHUNK_LINE_BYTES_MAX: u16 = 256;

/// Maximum length of a PROXY protocol header (version 1), in bytes, including the end of the line. The specification does not allow
/// more.
pub const PROXY_LINE_BYTES_MAX: usize = 107;

/// Maximum length of a PROXY protocol header (version 2), in bytes, including extensions. Even with a client certificate in it,
/// proxies send less than 2 KiB. nginx accepts 4 KiB.
pub const PROXY_HEADER_BYTES_MAX: usize = 4096;

/// Size of the peer's dynamic table in HPACK, in bytes as defined by RFC 7541 §4.1. We use the default before SETTINGS. This is
/// enough for the fields browsers repeat.
pub const HPACK_TABLE_BYTES: usize = 4096;

/// Size of the peer's dynamic table in QPACK, in bytes as defined by RFC 9204 §3.2.1. Same as in HPACK.
pub const QPACK_TABLE_BYTES: usize = 4096;

/// Maximum length of an instruction on a QPACK encoder stream, in bytes: two strings and their lengths. Strings must fit into the
/// table, and the Huffman code needs at most 30 bits for each byte.
pub const QPACK_INSTRUCTION_BYTES_MAX: usize = 4 * QPACK_TABLE_BYTES + 16;

/// Maximum length of an encoded field section in HTTP/3, in bytes. We do not decode longer ones, and refuse the request just as if
/// the fields themselves were too long.
pub const FIELD_SECTION_BYTES_MAX: u64 = HEAD_BYTES_MAX as u64;

/// Maximum length of a frame on the peer's control stream, in bytes. In browsers, SETTINGS typically has about 30 and priorities
/// have about 10.
pub const CONTROL_FRAME_BYTES_MAX: u64 = 1024;

/// Number of bytes of QPACK instructions that cost one token of [`CREDIT_MAX`]. A browser's table is full after 4 KiB.
pub const INSTRUCTION_BYTES_PER_TOKEN: usize = 64;

/// Maximum length of a body that HTTP/3 copies after the head, in bytes. QUIC copies the bytes into packets anyway, and this way it
/// only has to deal with one buffer.
pub const STREAM_BODY_COPIED_BYTES_MAX: u64 = 1024;

/// Maximum length of an HTTP/2 request's fields, in bytes as defined by RFC 9113 §6.5.2 (each field costs 32 in addition to its
/// name and value). We refuse the request when it exceeds the limit. Fields beyond the limit are still decoded, but ignored.
pub const FIELD_LIST_BYTES_MAX: usize = HEAD_BYTES_MAX;

/// Maximum length of the fields we decode at all, in the same unit. Beyond this, we close the connection. Two bytes can decode to a
/// field of 4,000, but only an attack would do that many times (decompression bomb).
pub const FIELD_LIST_BYTES_DECODED_MAX: usize = 8 * FIELD_LIST_BYTES_MAX;

/// Minimum rate at which a peer must accept our response until it has all of it, in bytes per second. We consider anything slower
/// an attack (slow read): even GSM phones are ten times faster.
pub const SEND_BYTES_PER_SECOND_MIN: u64 = 100;

/// Maximum amount of memory for the connections of a process, in bytes. This includes incomplete requests, responses that slow
/// clients have not accepted yet, and the state of TLS and HTTP/2; e.g. ten thousand slow readers take 160 MiB for encrypted
/// records. Each thread gets an equal share. `--limit-memory` reduces this.
pub const CONNECTIONS_BYTES_MAX: u64 = 256 << 20;

/// Maximum length of a body that we copy after the head, in bytes. This way, we only need to send one buffer. Up to this length, a
/// second buffer would cost more than copying.
pub const COPIED_BODY_BYTES_MAX: u64 = 8 * 1024;

/// Minimum length of a body for zero-copy sends, in bytes. The kernel will then refer to our pages instead of copying them, at the
/// price of one more system call.
///
/// CPU time per response in microseconds, first with copying and then zero-copy (from a program that measures just this, with 64
/// connections): 4 kB 3.5 and 3.9, 8 kB 3.9 and 3.9, 12 kB 4.3 and 4.0, 16 kB 4.6 and 4.0, 24 kB 5.4 and 4.1, 32 kB 5.2 and 4.2, 48
/// kB 5.8 and 4.5, 64 KiB 8.6 and 6.0, 89.7 kB 10.5 and 6.5.
pub const ZERO_COPY_BODY_BYTES_MIN: usize = 8 * 1024;

/// Size of the responses we collect on a connection before we send them, in bytes. This is enough for about 16 of the largest
/// responses we copy, or for 200 small ones.
pub const OUTPUT_BYTES: usize = 64 * 1024;

/// Maximum number of segments per call. A response with a large body needs two.
pub const SEGMENTS_MAX: usize = 64;

/// Number of bytes that we encrypt at once when the peer accepts all of them. This is what one loop iteration sends. Records that
/// the socket does not accept need to stay in memory, so with a slower peer, the limit will be [`SEALED_BYTES_MIN`] next time.
pub const SEALED_BYTES_MAX: usize = 256 * 1024;

/// Number of bytes we encrypt at once when the peer is slower than we are. This is one record. With ten thousand slow peers, it
/// takes 160 MiB.
pub const SEALED_BYTES_MIN: usize = 16 * 1024;

/// Maximum number of handshakes per loop iteration. Only the expensive part counts (a signature and the key exchange), as it makes
/// all other connections wait for 0.1 to 0.6 milliseconds. Further handshakes must wait for the next iterations, in order. However,
/// even if none are left, HTTP/3 still gets one for a new connection, and one for a ClientHello that has arrived in several
/// datagrams.
pub const HANDSHAKES_PER_ITERATION_MAX: u32 = 2;

/// Space needed to write another response, in bytes. This is enough for a large head and a body that is copied. A multipart
/// response can be larger; the buffer will grow until it is sent.
pub const RESPONSE_BYTES_RESERVED: usize = 12 * 1024;

/// Maximum number of segments in a response: a head, and for each part a text and a range of the archive.
pub const RESPONSE_SEGMENTS_MAX: usize = 2 * cannery_site::RANGES_MAX + 2;

/// Maximum number of streams of an HTTP/2 connection that wait at the same time, either for a window or for the rest of a request.
/// Streams we answer at once do not count. Browsers use at most 100, and RFC 9113 §6.5.2 recommends to allow at least as many.
pub const STREAMS_MAX: u32 = 128;

/// Maximum number of streams remembered as reset by us because late frames can still arrive and must be ignored (RFC 9113 §5.1).
/// This is the same number as for waiting streams, at four bytes each. When there are more, the oldest one is forgotten; its
/// content will then lead to another reset, and its trailers will make us close the connection.
pub const RESET_STREAMS_REMEMBERED_MAX: usize = STREAMS_MAX as usize;

/// Maximum number of priorities remembered for streams that are not open yet (RFC 9218 §7.1). If there are more, we forget the
/// oldest ones. Note that clients send them shortly before the request.
pub const PRIORITIES_REMEMBERED_MAX: usize = 16;

/// Maximum length of a header block in HTTP/2 as sent, in bytes, including all frames. With twice the limit for heads, a head that
/// is only slightly too large can still be decoded and refused with a status.
pub const BLOCK_BYTES_MAX: usize = 2 * HEAD_BYTES_MAX;

/// Maximum number of CONTINUATION frames in a header block. One is enough when they have 16 KiB, but some clients send smaller
/// ones. We consider too many of them an attack (CONTINUATION flood, CVE-2024-27316 and others).
pub const CONTINUATIONS_MAX: u8 = 8;

/// Tokens for HTTP/2 frames that do not lead to a response, e.g. PING, SETTINGS, PRIORITY, small window updates, and empty DATA.
/// For a page, a browser needs a few dozen.
pub const CREDIT_MAX: u32 = 2_000;

/// Number of these tokens added per second, enough for keep-alive and bandwidth measurements.
pub const CREDIT_PER_SECOND: u32 = 100;

/// Number of these tokens added for each response and for each DATA frame that we send. In return, the peer may send two window
/// updates and one or two priorities.
pub const CREDIT_PER_RESPONSE: u32 = 6;

/// Minimum length of a DATA frame that adds tokens, in bytes (the last frame of a response may well be shorter). Otherwise, a peer
/// could open all its windows byte by byte, make us send a frame for each byte, and earn tokens for it (CVE-2019-9511).
pub const CREDITED_DATA_BYTES_MIN: u32 = 256;

/// Cost of SETTINGS in these tokens, plus one for each parameter. The frame may change the windows of all streams and has to be
/// acknowledged. Clients typically send one or two of them.
pub const SETTINGS_COST: u32 = 20;

/// Tokens for streams that end before their response, because of a reset by the peer or an error that makes us reset the stream
/// (rapid reset, CVE-2023-44487). A browser resets all open streams (up to [`STREAMS_MAX`]) when its user leaves a page. Each
/// complete response adds one token.
pub const RESETS_MAX: u32 = 2 * STREAMS_MAX;

/// Number of these tokens added per second, so that clients can keep cancelling requests on a connection that lasts for hours.
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
