//! Limits on work and memory that a peer can cause, below HTTP: each with its unit, its value and the reason for it.
//!
//! HTTP's limits are in `wire`. The time limit for a handshake belongs to the server, which has the clock.

/// The most that a peer may send before its handshake is done, in bytes including record headers. A browser's hello has
/// 2 KiB with a post-quantum key share, and a client may have to send a second one; we request no client certificate.
/// An incomplete message stays in the caller's buffer, which therefore needs no more than this.
pub const HANDSHAKE_BYTES_MAX: usize = 20 * 1024;

/// The longest record, in bytes including its header: 16 KiB of content, the expansion that RFC 5246 §6.2.3 allows (2 KiB;
/// RFC 8446 §5.2 allows 256 bytes), and five bytes of header.
pub const RECORD_BYTES_MAX: usize = 16 * 1024 + 2048 + 5;

/// Consecutive records without application data: empty ones, warnings, key updates, attempts to renegotiate. Each costs us
/// more than the peer. Libraries send one at a time; BoringSSL and `rustls` accept 32 key updates.
pub const EMPTY_RECORDS_MAX: u8 = 32;

/// The content of the longest record that we send, in bytes (RFC 8446 §5.1).
pub const CONTENT_BYTES_MAX: usize = 16 * 1024;

/// The content of each record at the start of a long response, in bytes. A peer can't open a record before all of it has
/// arrived, so the first flight of a connection should hold several.
pub const FIRST_CONTENT_BYTES: usize = 4 * 1024;

/// Content that is sent in such small records after a pause, in bytes. A connection's first flight is ten segments of
/// 1,460 bytes (RFC 6928), and everything after it waits for a round trip anyway.
pub const FIRST_FLIGHT_BYTES: usize = 14 * 1024;

/// Records that a key may still seal when its connection should end, if the TLS version has no key update: TLS 1.2 with
/// AES-GCM, which limits a key to 2^24 records. Responses of up to one gibibyte that are in progress can still be sent.
pub const KEY_RECORDS_LEFT: u64 = 1 << 16;

const _: () = assert!(RECORD_BYTES_MAX <= HANDSHAKE_BYTES_MAX, "a hello may fill a record");
const _: () = assert!(FIRST_CONTENT_BYTES < FIRST_FLIGHT_BYTES, "several records in the first flight");
const _: () =
    assert!(FIRST_FLIGHT_BYTES <= CONTENT_BYTES_MAX, "the content of the first flight fits one record");
