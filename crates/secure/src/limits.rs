//! Limits on work and memory that a peer can cause, below HTTP: each with a unit, a value and the reason for it.
//!
//! HTTP's limits are in `wire`. The time limit for a handshake belongs to the server, which has the clock.

/// Maximum number of bytes that a peer may send during the handshake, including record headers.
///
/// A browser's hello has 2 KiB with a post-quantum key share, and the client may have to send a second one. We
/// do not request client certificates. Incomplete messages stay in the caller's buffer, so that does not need to
/// be larger than this.
pub const HANDSHAKE_BYTES_MAX: usize = 20 * 1024;

/// Maximum length of a record, including the header, in bytes. It consists of 16 KiB of content, 2 KiB by which
/// RFC 5246 §6.2.3 allows it to grow (RFC 8446 §5.2 allows 256 bytes), and five bytes of header.
pub const RECORD_BYTES_MAX: usize = 16 * 1024 + 2048 + 5;

/// Maximum number of consecutive records without application data. These may be empty records, warnings, key
/// updates, or attempts to renegotiate. Each is more expensive for us than for the peer. Libraries send one at
/// a time; BoringSSL and `rustls` accept 32 key updates.
pub const EMPTY_RECORDS_MAX: u8 = 32;

/// Maximum content length of records that we send, in bytes (RFC 8446 §5.1).
pub const CONTENT_BYTES_MAX: usize = 16 * 1024;

/// Content length of each record at the start of a long response, in bytes. Since a peer cannot open a record
/// until all of it has arrived, the first flight of a connection should contain several.
pub const FIRST_CONTENT_BYTES: usize = 4 * 1024;

/// How much content we send in small records after a pause, in bytes. The first flight of a connection is ten
/// segments of 1,460 bytes (RFC 6928), and everything after that has to wait for a round trip anyway.
pub const FIRST_FLIGHT_BYTES: usize = 14 * 1024;

/// A connection should end when its key can only seal this many more records, if the TLS version does not have
/// key updates. This affects TLS 1.2 with AES-GCM, where a key is limited to 2^24 records. It leaves enough for
/// responses of up to one gibibyte that are already in progress.
pub const KEY_RECORDS_LEFT: u64 = 1 << 16;

/// If an endpoint has this many half-open connections, any other clients have to prove their address with a
/// Retry packet. This costs a round trip, so it should only happen during a flood. For example, 2,500 clients
/// per second with a round trip of 0.1 seconds have about 256 half-open connections.
pub const QUIC_HALF_OPEN_BEFORE_RETRY: usize = 256;

/// Maximum number of half-open connections of an endpoint. If there are more, we drop Initial packets of other
/// clients, so callers should keep these until one of the handshakes is done. Each connection takes about 20
/// KB.
pub const QUIC_HALF_OPEN_MAX: usize = 1024;

/// How much data we keep for a connection until the caller accepts it, in bytes. This is enough for a few
/// datagrams in addition to the first because a hello with a post-quantum key share takes two.
pub const QUIC_EARLY_BYTES_MAX: u64 = 16 * 1024;

/// How much data we keep for all connections of an endpoint together until they are accepted, in bytes. This is
/// enough if a quarter of the possible half-open connections use their full share.
pub const QUIC_EARLY_BYTES_TOTAL_MAX: u64 = 4 * 1024 * 1024;

/// How many datagrams we keep for a connection until it's accepted. Each of them takes a few hundred bytes in
/// addition to its contents.
pub const QUIC_EARLY_DATAGRAMS_MAX: usize = 16;

/// How many bidirectional streams a client may have open. Each request needs one. RFC 9114 §6.1 recommends at
/// least 100.
pub const QUIC_BIDIRECTIONAL_STREAMS_MAX: u32 = 100;

/// How many bidirectional streams a client may have open at first. Once half of them are open, we allow more.
///
/// The library allocates state for all permitted streams, but most connections only need a few. 100 of them
/// would take 4 kB, several microseconds of the handshake, and more cache misses for each request. The tables
/// of `quinn-proto` have room for 14 streams before they double, and four of these are unidirectional.
pub const QUIC_BIDIRECTIONAL_STREAMS_AT_FIRST: u32 = 10;

/// How many unidirectional streams a client may have open. HTTP/3 and QPACK use three. One more may have a
/// reserved type (RFC 9114 §6.2.3), or be opened by mistake, and the client should then get an error code.
pub const QUIC_UNIDIRECTIONAL_STREAMS_MAX: u32 = 4;

/// How much a client may send on a stream before we've read it, in bytes. This is enough for the largest
/// request head.
pub const QUIC_STREAM_WINDOW_BYTES: u32 = 16 * 1024;

/// How much a client may send on all streams before we've read it, in bytes. This is enough for several large
/// request heads, or many ordinary ones.
pub const QUIC_CONNECTION_WINDOW_BYTES: u32 = 128 * 1024;

/// How much data of handshake messages we keep while earlier data is missing, in bytes. Clients may send it in
/// any order. This is nearly the same as [`HANDSHAKE_BYTES_MAX`].
pub const QUIC_HANDSHAKE_GAP_BYTES_MAX: usize = 16 * 1024;

/// How many CRYPTO frames with data a connection may receive. Browsers split their hello into up to two dozen,
/// and may have to repeat them. While a frame is waiting for an earlier one, it takes 56 bytes in addition to
/// its data.
pub const QUIC_HANDSHAKE_PIECES_MAX: u32 = 256;

/// How many parts of a stream may be waiting for earlier ones. For example, a client may send tiny parts and
/// have most of a window in flight. Each of them takes 56 bytes in addition to its data.
pub const QUIC_UNREAD_PIECES_MAX: u32 = 256;

/// How many bytes we may send for each byte that the client has sent, until its address is validated
/// (RFC 9000 §8.1).
pub const QUIC_AMPLIFICATION_MAX: u64 = 3;

/// How many datagrams a connection may receive in a burst from addresses that the client has not proved and
/// is not using. Each of these may cause another one to an address that may be forged. A client that migrates
/// needs one or two.
pub const QUIC_FOREIGN_DATAGRAMS_MAX: u32 = 8;

/// Refill of this budget per second. Clients do not migrate more often.
pub const QUIC_FOREIGN_DATAGRAMS_PER_SECOND: u32 = 1;

/// How many unvalidated addresses of a connection we keep byte counts for.
pub const QUIC_UNVALIDATED_ADDRESSES_MAX: usize = 4;

/// How long we keep the counts after the last datagram from an address, in milliseconds.
pub const QUIC_UNVALIDATED_ADDRESS_MS: u64 = 30_000;

/// How many PATH_CHALLENGE frames we send to a client's new address before we may send a whole datagram there.
/// The first may be lost.
pub const QUIC_PATH_CHALLENGES_MAX: usize = 3;

/// How many packets of a connection may be in flight whose stream data we've removed because the address
/// was not validated.
pub const QUIC_HIDDEN_PACKETS_MAX: usize = 16;

/// How many sequence numbers of the peer's connection IDs we remember, so that we can tell if one is used
/// twice. Libraries issue up to eight IDs.
pub const QUIC_PEER_IDS_REMEMBERED_MAX: usize = 16;

/// Capacity of the token bucket for packets that neither request anything nor belong to a response. Each packet
/// costs a token. If there are not any left, the connection is closed. HTTP/2 frames have a similar budget.
pub const QUIC_CREDIT_MAX: u32 = 2_000;

/// Refill of this bucket per second. A keep-alive only takes one packet every few seconds.
pub const QUIC_CREDIT_PER_SECOND: u32 = 100;

/// Refill of this bucket whenever a stream returns some data or its end. A request takes one packet, and its
/// response is acknowledged by another one.
pub const QUIC_CREDIT_PER_READ: u64 = 2;

/// Refill of this bucket for each STREAM frame that we send. One packet will acknowledge it, and another one
/// may enlarge a window.
pub const QUIC_CREDIT_PER_STREAM_FRAME: u64 = 2;

/// How many bytes we must have sent for each STREAM frame that refills the bucket. Otherwise, clients could
/// earn tokens by enlarging their windows byte by byte.
pub const QUIC_CREDITED_BYTES_MIN: u64 = 256;

/// How many frames cost one token, in addition to the token for their packet. Browsers send up to a dozen
/// frames per packet, but hundreds would fit.
pub const QUIC_FRAMES_PER_TOKEN: u64 = 16;

/// Cost of a key update, in tokens. It takes as long as 20 small packets. Clients update their keys after
/// gigabytes.
pub const QUIC_KEY_UPDATE_COST: u64 = 20;

/// Maximum number of packets that a gap in a client's packet numbers counts for. Some clients skip numbers to
/// detect acknowledgments that are made up (RFC 9000 §21.4). The library drops all older packets.
pub const QUIC_PACKET_GAP_MAX: u64 = 128;

/// Maximum size of a handshake datagram, in bytes of UDP payload. Every QUIC path must support this size
/// (RFC 9000 §14).
pub const QUIC_HANDSHAKE_DATAGRAM_BYTES: u16 = 1200;

/// Idle timeout of a connection without datagrams from the client, in milliseconds. A longer timeout would not
/// help much because many routers forget a UDP flow after 30 seconds (RFC 9308 §3.2).
pub const QUIC_IDLE_MS: u32 = 30_000;

/// Maximum size of a datagram that we send, in bytes of UDP payload. With IPv6 and UDP headers, this is 1,500
/// bytes. We probe the path from 1,200 bytes up to this size (RFC 8899).
pub const QUIC_DATAGRAM_BYTES_MAX: u16 = 1452;

/// Maximum size of a datagram that we receive, in bytes of UDP payload. With IPv4 and UDP headers, this is
/// 1,500 bytes. We announce it as max_udp_payload_size (RFC 9000 §18.2). If a part of a datagram is waiting for
/// earlier data, it keeps a buffer of this size.
pub const QUIC_RECEIVED_DATAGRAM_BYTES_MAX: u16 = 1472;

/// How many stateless resets an endpoint may send in a burst. After a crash, each client needs one to learn
/// that it has to reconnect. A reset is always shorter than the datagram it responds to.
pub const QUIC_RESETS_MAX: u32 = 32;

/// Refill of this budget per second. Clients repeat their packets, and will get a reset for a later one.
pub const QUIC_RESETS_PER_SECOND: u32 = 10;

/// Minimum time between two stateless resets that an endpoint computes, in milliseconds. Computing one takes a
/// few microseconds, and attackers can cause thousands per iteration. If a reset is not sent because its
/// receiver has closed the connection, it may still delay another one.
pub const QUIC_RESET_COMPUTED_INTERVAL_MS: u64 = 1;

/// Minimum time between two version negotiations of an endpoint, in milliseconds. All clients in use start with
/// a version that we support.
pub const QUIC_VERSION_NEGOTIATION_INTERVAL_MS: u64 = 10;

/// How long we drop late datagrams after the peer has closed a connection, in milliseconds. May take up to
/// twice as long. RFC 9000 §10.2 recommends three probe timeouts, which is about the same for a round trip of
/// 0.3 seconds.
pub const QUIC_DRAINING_MS: u64 = 3000;

/// How many connections closed by their peers an endpoint remembers during that time. Each takes about 60
/// bytes, and there may be twice as many. After that, a datagram may get a stateless reset. If it's the first
/// of the old connection, it may start a new one.
pub const QUIC_DRAINING_MAX: usize = 3584;

/// How long the token of a Retry packet is valid, in seconds. Clients return it immediately.
pub const QUIC_RETRY_TOKEN_SECONDS: u64 = 15;

/// How long a token for a later connection is valid, in seconds. Most visits that are followed by another one
/// are less than a day apart.
pub const QUIC_TOKEN_SECONDS: u64 = 24 * 60 * 60;

/// How many tokens for later connections a client gets. Each of them is for one connection, where the client
/// will get the next.
pub const QUIC_TOKENS_PER_CONNECTION: u32 = 1;

/// How many sessions a process stores for clients that resume them with early data. Each takes 300 bytes, and
/// we store two per connection. The oldest are dropped.
pub const QUIC_STORED_SESSIONS_MAX: usize = 1 << 14;

/// Size of a filter that remembers used tokens, in bits. With 20,000 tokens a day, it refuses one in 25 by
/// mistake.
pub const QUIC_USED_TOKENS_BITS: usize = 1 << 17;

const _: () = assert!(QUIC_USED_TOKENS_BITS.is_power_of_two() && QUIC_USED_TOKENS_BITS >= 32);
const _: () = assert!(QUIC_BIDIRECTIONAL_STREAMS_AT_FIRST <= QUIC_BIDIRECTIONAL_STREAMS_MAX);
const _: () = assert!(QUIC_HALF_OPEN_BEFORE_RETRY < QUIC_HALF_OPEN_MAX);
const _: () = assert!(QUIC_STREAM_WINDOW_BYTES <= QUIC_CONNECTION_WINDOW_BYTES);
const _: () = assert!(RECORD_BYTES_MAX <= HANDSHAKE_BYTES_MAX, "a hello may fill a record");
const _: () = assert!(FIRST_CONTENT_BYTES < FIRST_FLIGHT_BYTES, "several records in the first flight");
const _: () =
    assert!(FIRST_FLIGHT_BYTES <= CONTENT_BYTES_MAX, "the content of the first flight fits one record");
