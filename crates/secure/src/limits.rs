//! Every number that a peer can push against below HTTP: its unit, its value, and why.
//!
//! A limit stands here or, if it is HTTP's, in the table of `wire`. How long a handshake may take is the
//! server's to say, where the clock is.

/// What a peer may send until its handshake is done, in bytes with the records' heads. Hellos of browsers have
/// 2 KiB with a post-quantum share, and a client may have to send a second one; it is asked for no certificate.
/// The part of it that is not a whole message yet waits with the caller, who thus keeps no more than this.
pub const HANDSHAKE_BYTES_MAX: usize = 20 * 1024;

/// The longest record, in bytes with its head: 16 KiB of content, what RFC 5246 §6.2.3 lets sealing add (2 KiB, where
/// RFC 8446 §5.2 lets it add 256 bytes), and five bytes of head.
pub const RECORD_BYTES_MAX: usize = 16 * 1024 + 2048 + 5;

/// Records that carry nothing for us, one after the other: empty ones, warnings, new keys, tries to shake hands again.
/// Each costs us more than the peer. Libraries send one at a time; BoringSSL and `rustls` bear 32 changes of key.
pub const BARREN_RECORDS_MAX: u8 = 32;

/// The content of the longest record that we send, in bytes (RFC 8446 §5.1).
pub const CONTENT_BYTES_MAX: usize = 16 * 1024;

/// The content of a record at the start of a long answer, in bytes: a peer can open none before all of it has
/// arrived, so the first flight of a connection should hold several.
pub const FIRST_CONTENT_BYTES: usize = 4 * 1024;

/// How much goes in such records after a pause, in bytes: ten segments of 1,460 bytes are a connection's first
/// flight (RFC 6928), and what comes behind them waits for a round trip anyway.
pub const FIRST_FLIGHT_BYTES: usize = 14 * 1024;

/// Records that a key may still seal when its connection is told to end, where the version of TLS knows no other key:
/// TLS 1.2 with AES-GCM, whose keys seal 2^24 records. Up to a gibibyte of answers that are under way is still sent.
pub const KEY_RECORDS_LEFT: u64 = 1 << 16;

const _: () = assert!(RECORD_BYTES_MAX <= HANDSHAKE_BYTES_MAX, "a hello may fill a record");
const _: () = assert!(FIRST_CONTENT_BYTES < FIRST_FLIGHT_BYTES, "several records in the first flight");
const _: () = assert!(FIRST_FLIGHT_BYTES <= CONTENT_BYTES_MAX, "what fits the first flight fits a record");
