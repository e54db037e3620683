//! Limits for the peer's bytes, and for the work that they can cause. Each comes with its unit and reason.
//!
//! All limits of this crate are in this file. The server is responsible for timeouts because it has the clock.

/// Length of a request head, including the empty line at the end. In bytes. Browsers send less than 4 KiB, unless a site has set
/// too many cookies. nginx and Apache allow 8 KiB for each field.
pub const HEAD_BYTES_MAX: usize = 16 * 1024;

/// Length of a method, in bytes. The longest registered one has 17.
pub const METHOD_BYTES_MAX: usize = 64;

/// Length of a request target, in bytes. RFC 9112 §3 recommends at least 8,000.
pub const TARGET_BYTES_MAX: usize = cannery_archive::KEY_BYTES_MAX;

/// Number of lines in a head. Browsers send about 20 fields, and proxies add a few.
pub const FIELDS_MAX: usize = 100;

/// How much content we discard to keep the connection open, in bytes. Requests to sites do not need content, so reading more is not
/// worthwhile.
pub const CONTENT_SKIPPED_BYTES_MAX: u64 = 64 * 1024;

/// Clients get more time after they've sent this much content for a handler, in bytes.
pub const CONTENT_BLOCK_BYTES: usize = 16 * 1024;

/// Length of a chunk's extensions, or of a line in trailers. In bytes. Clients of a file server do not send them.
pub const CHUNK_LINE_BYTES_MAX: u16 = 256;

/// Length of a PROXY protocol header (version 1), including the end of the line. In bytes. The specification does not allow more.
pub const PROXY_LINE_BYTES_MAX: usize = 107;

/// Length of a PROXY protocol header (version 2), including extensions. In bytes. It can contain a client certificate, but even
/// then proxies send less than 2 KiB. nginx accepts 4 KiB.
pub const PROXY_HEADER_BYTES_MAX: usize = 4096;

/// Size of the peer's dynamic table in HPACK. In bytes as defined by RFC 7541 §4.1. It's the default before SETTINGS, and it's
/// enough for the fields that browsers repeat.
pub const HPACK_TABLE_BYTES: usize = 4096;

/// Size of the peer's dynamic table in QPACK. In bytes as defined by RFC 9204 §3.2.1. The same as in HPACK.
pub const QPACK_TABLE_BYTES: usize = 4096;

/// Length of an instruction on a QPACK encoder stream, in bytes. There are two strings and their lengths. Strings have to fit into
/// the table, and the Huffman code needs at most 30 bits for each byte.
pub const QPACK_INSTRUCTION_BYTES_MAX: usize = 4 * QPACK_TABLE_BYTES + 16;

/// Length of an encoded field section in HTTP/3, in bytes. If it's longer, we do not decode it, and refuse the request just like we
/// do if the fields themselves are too long.
pub const FIELD_SECTION_BYTES_MAX: u64 = HEAD_BYTES_MAX as u64;

/// Length of a frame on the peer's control stream, in bytes. In browsers, SETTINGS has about 30, and priorities have about 10.
pub const CONTROL_FRAME_BYTES_MAX: u64 = 1024;

/// How many bytes of QPACK instructions cost one token of [`CREDIT_MAX`]. A browser's table is full after 4 KiB.
pub const INSTRUCTION_BYTES_PER_TOKEN: usize = 64;

/// If a body is not longer than this, HTTP/3 copies it after the head. In bytes. Then QUIC only has to deal with one buffer. It
/// copies the bytes into packets anyway.
pub const STREAM_BODY_COPIED_BYTES_MAX: u64 = 1024;

/// Length of an HTTP/2 request's fields. In bytes as defined by RFC 9113 §6.5.2, so each field costs 32 more than its name and
/// value. If they're longer, we refuse the request. Fields beyond this limit are decoded, but ignored.
pub const FIELD_LIST_BYTES_MAX: usize = HEAD_BYTES_MAX;

/// Length of the fields that we decode at all, in the same unit. If there are more, we close the connection. Two bytes can decode
/// to a field of 4,000, but it takes an attack to do that many times (decompression bomb).
pub const FIELD_LIST_BYTES_DECODED_MAX: usize = 8 * FIELD_LIST_BYTES_MAX;

/// How fast a peer must accept our response, in bytes per second, until it has all of it. GSM phones are ten times faster, so
/// anything slower is an attack (slow read).
pub const SEND_BYTES_PER_SECOND_MIN: u64 = 100;

/// How much memory the connections of a process can take, in bytes. This counts incomplete requests, responses that slow clients
/// have not accepted yet, and the state of TLS and HTTP/2. Ten thousand slow readers take 160 MiB for encrypted records. Each
/// thread gets an equal share. `--limit-memory` reduces this.
pub const CONNECTIONS_BYTES_MAX: u64 = 256 << 20;

/// If a body is not longer than this, we copy it after the head, in bytes. Then we only have to send one buffer. A second buffer
/// would cost more than copying.
pub const COPIED_BODY_BYTES_MAX: u64 = 8 * 1024;

/// If a body is at least this long, we send it zero-copy, in bytes. So the kernel refers to our pages. This costs one more system
/// call, but we do not have to copy.
///
/// CPU time per response in microseconds, first with copying and then zero-copy (from a program that measures just this, with 64
/// connections): 4 kB 3.5 and 3.9, 8 kB 3.9 and 3.9, 12 kB 4.3 and 4.0, 16 kB 4.6 and 4.0, 24 kB 5.4 and 4.1, 32 kB 5.2 and 4.2, 48
/// kB 5.8 and 4.5, 64 KiB 8.6 and 6.0, 89.7 kB 10.5 and 6.5.
pub const ZERO_COPY_BODY_BYTES_MIN: usize = 8 * 1024;

/// How many bytes of responses we collect on a connection before we send them. This is about 16 of the largest responses that we
/// copy, or 200 small ones.
pub const OUTPUT_BYTES: usize = 64 * 1024;

/// How many segments we send with one call. A response with a large body needs two.
pub const SEGMENTS_MAX: usize = 64;

/// How many bytes we encrypt at once if the peer accepts all of them. It's the same number that one loop iteration sends. Records
/// that the socket does not accept stay in memory, so if the peer is slower, the limit is [`SEALED_BYTES_MIN`] next time.
pub const SEALED_BYTES_MAX: usize = 256 * 1024;

/// How many bytes we encrypt at once if the peer is slower than we are. It's one record. With ten thousand slow peers, they take
/// 160 MiB.
pub const SEALED_BYTES_MIN: usize = 16 * 1024;

/// How many handshakes we do in each loop iteration. We only count the expensive part, which is a signature and the key exchange.
/// It takes 0.1 to 0.6 milliseconds, and all other connections have to wait. If there are more, they have to wait for the next
/// iterations, in order. If none are left, HTTP/3 still gets one for a new connection, and one for a ClientHello
/// that has arrived in several datagrams.
pub const HANDSHAKES_PER_ITERATION_MAX: u32 = 2;

/// If there is less space than this, we do not write another response. In bytes. It's enough for a body that is copied, and a large
/// head. A multipart response can be larger. Then the buffer grows until it's sent.
pub const RESPONSE_BYTES_RESERVED: usize = 12 * 1024;

/// How many segments a response can have. There is a head, and for each part there is text and a range of the archive.
pub const RESPONSE_SEGMENTS_MAX: usize = 2 * cannery_site::RANGES_MAX + 2;

/// How many streams of an HTTP/2 connection can wait at the same time, either for a window or for the rest of a request. Streams
/// that we answer at once do not count. Browsers use at most 100, and RFC 9113 §6.5.2 recommends at least as many.
pub const STREAMS_MAX: u32 = 128;

/// How many streams we remember that we've reset. Late frames can still arrive, and we ignore them (RFC 9113 §5.1). It's the same
/// number that can wait. Each takes four bytes. If there are more, we forget the oldest one. After this, its content leads to
/// another reset, and its trailers make us close the connection.
pub const RESET_STREAMS_REMEMBERED_MAX: usize = STREAMS_MAX as usize;

/// How many priorities we remember for streams that are not open yet (RFC 9218 §7.1). Clients send them shortly before the request.
/// If there are more, we forget the oldest one.
pub const PRIORITIES_REMEMBERED_MAX: usize = 16;

/// Length of a header block in HTTP/2 as sent, in bytes. Includes all frames. It's twice the limit for heads. So if a head is only
/// slightly too large, we can still decode it and refuse it with a status.
pub const BLOCK_BYTES_MAX: usize = 2 * HEAD_BYTES_MAX;

/// How many CONTINUATION frames a header block can have. One is enough if they have 16 KiB, but some clients send smaller ones. If
/// there are too many, it's an attack (CONTINUATION flood, CVE-2024-27316 and others).
pub const CONTINUATIONS_MAX: u8 = 8;

/// Tokens for HTTP/2 frames that do not lead to a response: PING, SETTINGS, PRIORITY, small window updates, and empty DATA. For a
/// page, a browser needs a few dozen.
pub const CREDIT_MAX: u32 = 2_000;

/// How many of these tokens are added per second. This is enough for keep-alive and bandwidth measurements.
pub const CREDIT_PER_SECOND: u32 = 100;

/// How many of these tokens are added for each response, and for each DATA frame that we send. In return, the peer may send two
/// window updates and one or two priorities.
pub const CREDIT_PER_RESPONSE: u32 = 6;

/// How long a DATA frame has to be, in bytes, to add tokens. The last frame of a response can be shorter. Without this limit, a
/// peer could open all its windows byte by byte, make us send a frame for each byte, and earn tokens for it (CVE-2019-9511).
pub const CREDITED_DATA_BYTES_MIN: u32 = 256;

/// How many of these tokens SETTINGS costs. Each parameter costs one more. The frame can change the windows of all streams, and we
/// have to acknowledge it. Clients send one or two of them.
pub const SETTINGS_COST: u32 = 20;

/// Tokens for streams that end before their response. This can be a reset by the peer, or an error that makes us reset the stream
/// (rapid reset, CVE-2023-44487). If you leave a page, the browser resets all open streams, up to [`STREAMS_MAX`]. Each complete
/// response adds one token.
pub const RESETS_MAX: u32 = 2 * STREAMS_MAX;

/// How many of these tokens are added per second. So clients can keep cancelling requests on a connection that lasts for hours.
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
