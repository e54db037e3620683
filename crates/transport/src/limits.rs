//! Limits for work and memory that a peer can cause, below HTTP. Each has a unit, a value and a reason.
//!
//! Note that HTTP's limits are in `wire`, and that the server (which has the clock) limits the duration of
//! a handshake.

/// Maximum number of bytes that a peer may send during the handshake, including record headers.
///
/// With a post-quantum key share, a browser's hello has 2 KiB, and the client may have to send a second one.
/// We do not request client certificates. This is also the largest size that the caller's buffer needs, since
/// incomplete messages stay in it.
pub const HANDSHAKE_BYTES_MAX: usize = 20 * 1024;

/// The maximum length of a record including the header, in bytes. It consists of 16 KiB of content, the 2 KiB
/// by which content may grow in RFC 5246 §6.2.3 (RFC 8446 §5.2 allows 256 bytes), and five bytes of header.
pub const RECORD_BYTES_MAX: usize = 16 * 1024 + 2048 + 5;

/// A peer may send this many consecutive records without application data, e.g. empty records, warnings, key
/// updates, or attempts to renegotiate. Each of these is more expensive for us than for the peer. Libraries
/// typically send one at a time; BoringSSL and `rustls` accept 32 key updates.
pub const EMPTY_RECORDS_MAX: u8 = 32;

/// Limits the certificate messages that are kept in their compressed form, in bytes for each algorithm,
/// including the uncompressed messages. This is enough for about 200 chains; others are compressed in each
/// handshake with less effort.
pub const COMPRESSED_CERTIFICATES_BYTES_MAX: usize = 1024 * 1024;

/// Maximum content length of records that we send, in bytes (RFC 8446 §5.1).
pub const CONTENT_BYTES_MAX: usize = 16 * 1024;

/// Content length, in bytes, of each record at the start of a long response. A peer cannot open a record
/// until all of it has arrived, so the first flight of a connection should contain several.
pub const FIRST_CONTENT_BYTES: usize = 4 * 1024;

/// Amount of content, in bytes, to send in small records after a pause. The first flight of a connection
/// is ten segments of 1,460 bytes (RFC 6928), after which everything has to wait for a round trip anyway.
pub const FIRST_FLIGHT_BYTES: usize = 14 * 1024;

/// A connection should end when its key can only seal this many more records, if the TLS version does not
/// have key updates. This only affects TLS 1.2 with AES-GCM, where a key is limited to 2^24 records. The
/// value leaves room for responses of up to one gibibyte that are already in progress.
pub const KEY_RECORDS_LEFT: u64 = 1 << 16;

/// Once an endpoint has this many half-open connections, any other clients have to prove their address with a
/// Retry packet. This costs a round trip and should only happen during a flood. For example, 2,500 clients
/// per second with a round trip of 0.1 seconds have about 256 half-open connections.
pub const QUIC_HALF_OPEN_BEFORE_RETRY: usize = 256;

/// An endpoint has at most this many half-open connections, each of which takes about 20 KB. Beyond that,
/// Initial packets of other clients are dropped, so callers should keep these until one of the handshakes is
/// done.
pub const QUIC_HALF_OPEN_MAX: usize = 1024;

/// Limits the data that we keep for a connection until the caller accepts it, in bytes. Since a hello
/// with a post-quantum key share takes two datagrams, this is enough for a few in addition to the
/// first.
pub const QUIC_EARLY_BYTES_MAX: u64 = 16 * 1024;

/// Limits the data that we keep for all connections of an endpoint together until they are accepted, in
/// bytes. This allows a quarter of the possible half-open connections to use their full share.
pub const QUIC_EARLY_BYTES_TOTAL_MAX: u64 = 4 * 1024 * 1024;

/// Limits the number of datagrams that we keep for a connection until it is accepted. Each of them
/// takes a few hundred bytes in addition to its contents.
pub const QUIC_EARLY_DATAGRAMS_MAX: usize = 16;

/// A client may have this many bidirectional streams open. Each request needs one, and RFC 9114 §6.1
/// says that this SHOULD be at least 100.
pub const QUIC_BIDIRECTIONAL_STREAMS_MAX: u32 = 100;

/// Bidirectional streams that a client may have open at first. Once half of them are open, more are allowed.
///
/// Most connections only need a few streams, however the library allocates state for all that are permitted.
/// 100 of them would take 4 kB, several microseconds of the handshake, and more cache misses for each
/// request. The tables of `quinn-proto` have room for 14 streams before they double, four of which are
/// unidirectional.
pub const QUIC_BIDIRECTIONAL_STREAMS_AT_FIRST: u32 = 10;

/// A client may have this many unidirectional streams open. HTTP/3 and QPACK use three. One more may
/// have a reserved type (RFC 9114 §6.2.3) or be opened by mistake, and the client should then get an
/// error code.
pub const QUIC_UNIDIRECTIONAL_STREAMS_MAX: u32 = 4;

/// Flow-control window of a stream, in bytes. This is enough for the largest request head.
pub const QUIC_STREAM_WINDOW_BYTES: u32 = 16 * 1024;

/// Flow-control window of a connection (for all of its streams), in bytes. This is enough for several large
/// request heads or many ordinary ones.
pub const QUIC_CONNECTION_WINDOW_BYTES: u32 = 128 * 1024;

/// While earlier data is missing, we keep at most this many bytes of handshake messages (clients can
/// send them in any order). The value is nearly the same as [`HANDSHAKE_BYTES_MAX`].
pub const QUIC_HANDSHAKE_GAP_BYTES_MAX: usize = 16 * 1024;

/// A connection may receive this many CRYPTO frames with data. Browsers split their hello into up to two
/// dozen, which they may have to repeat. A frame that is waiting for an earlier one takes 56 bytes in
/// addition to its data.
pub const QUIC_HANDSHAKE_PIECES_MAX: u32 = 256;

/// This many parts of a stream can be waiting for earlier ones, e.g. because a client sends tiny parts
/// and has most of a window in flight. Each of them takes 56 bytes in addition to its data.
pub const QUIC_UNREAD_PIECES_MAX: u32 = 256;

/// Maximum ratio of the bytes we send to those received from the client until its address is validated. An
/// endpoint MUST NOT exceed this limit (RFC 9000 §8.1).
pub const QUIC_AMPLIFICATION_MAX: u64 = 3;

/// Limits the datagrams that a connection may receive in a burst from addresses that the client has
/// neither proved nor is using. Each of these can cause another one to an address that may be forged. A
/// client that migrates typically needs one or two.
pub const QUIC_FOREIGN_DATAGRAMS_MAX: u32 = 8;

/// Refill of this budget per second. Clients do not migrate more often.
pub const QUIC_FOREIGN_DATAGRAMS_PER_SECOND: u32 = 1;

/// Maximum number of unvalidated addresses per connection for which to keep byte counts.
pub const QUIC_UNVALIDATED_ADDRESSES_MAX: usize = 4;

/// Time, in milliseconds, for which the counts are kept after the last datagram from an address.
pub const QUIC_UNVALIDATED_ADDRESS_MS: u64 = 30_000;

/// If a client has a new address, we send up to this many PATH_CHALLENGE frames there (the first might be
/// lost) before we may send a whole datagram.
pub const QUIC_PATH_CHALLENGES_MAX: usize = 3;

/// Maximum number of a connection's packets in flight whose stream data was removed because the address
/// was not validated.
pub const QUIC_HIDDEN_PACKETS_MAX: usize = 16;

/// Sequence numbers of the peer's connection IDs to remember, in order to detect an ID that is used
/// twice. Libraries issue up to eight IDs.
pub const QUIC_PEER_IDS_REMEMBERED_MAX: usize = 16;

/// Capacity of the token bucket for packets that neither request anything nor belong to a response. Each
/// packet costs a token, and the connection is closed once none are left. HTTP/2 frames have a similar
/// budget.
pub const QUIC_CREDIT_MAX: u32 = 2_000;

/// Refill of this bucket per second. A keep-alive only takes one packet every few seconds.
pub const QUIC_CREDIT_PER_SECOND: u32 = 100;

/// Refill of this bucket whenever a stream returns some data or its end, considering that a request takes
/// one packet and that its response is acknowledged by another one.
pub const QUIC_CREDIT_PER_READ: u64 = 2;

/// Refill of this bucket for each STREAM frame that we send. It will be acknowledged by one packet, and
/// another one may enlarge a window.
pub const QUIC_CREDIT_PER_STREAM_FRAME: u64 = 2;

/// Minimum number of bytes sent for each STREAM frame that refills the bucket. Otherwise, clients would be
/// able to earn tokens by enlarging their windows byte by byte.
pub const QUIC_CREDITED_BYTES_MIN: u64 = 256;

/// This many frames cost one token, in addition to the token for their packet. While browsers send up
/// to a dozen frames per packet, hundreds would fit.
pub const QUIC_FRAMES_PER_TOKEN: u64 = 16;

/// Cost, in tokens, of a key update, which takes as long as 20 small packets. Clients typically update
/// their keys after gigabytes.
pub const QUIC_KEY_UPDATE_COST: u64 = 20;

/// A gap in a client's packet numbers counts for at most this many packets. Some clients skip numbers in
/// order to detect acknowledgments that are made up (RFC 9000 §21.4). Note that all older packets are dropped
/// by the library.
pub const QUIC_PACKET_GAP_MAX: u64 = 128;

/// Maximum size of a handshake datagram, in bytes of UDP payload. Every QUIC path MUST support this size
/// (RFC 9000 §14).
pub const QUIC_HANDSHAKE_DATAGRAM_BYTES: u16 = 1200;

/// Idle timeout, in milliseconds, of a connection without datagrams from the client. Many routers forget a
/// UDP flow after 30 seconds (RFC 9308 §3.2), so a longer timeout would not help much.
pub const QUIC_IDLE_MS: u32 = 30_000;

/// Maximum size of a datagram that we send, in bytes of UDP payload. Together with IPv6 and UDP headers, this
/// amounts to 1,500 bytes. The path is probed from 1,200 bytes up to this size (RFC 8899).
pub const QUIC_DATAGRAM_BYTES_MAX: u16 = 1452;

/// We announce this size (in bytes of UDP payload) as max_udp_payload_size (RFC 9000 §18.2) and do not
/// receive datagrams that are larger. Together with IPv4 and UDP headers, it amounts to 1,500 bytes. Note
/// that while a part of a datagram is waiting for earlier data, it keeps a buffer of this size.
pub const QUIC_RECEIVED_DATAGRAM_BYTES_MAX: u16 = 1472;

/// An endpoint may send this many stateless resets in a burst. After a crash, each client needs one in
/// order to learn that it has to reconnect. A reset is always shorter than the datagram it responds to.
pub const QUIC_RESETS_MAX: u32 = 32;

/// Refill of this budget per second. Clients repeat their packets, and will get a reset for a later
/// one.
pub const QUIC_RESETS_PER_SECOND: u32 = 10;

/// Minimum time, in milliseconds, between two stateless resets that an endpoint computes. Computing one takes
/// a few microseconds, and attackers can cause thousands of them per iteration. A reset may still delay
/// another one even if it is not sent because its receiver has closed the connection.
pub const QUIC_RESET_COMPUTED_INTERVAL_MS: u64 = 1;

/// Minimum time, in milliseconds, between two version negotiations of an endpoint. All clients currently in
/// use start with a version that we support.
pub const QUIC_VERSION_NEGOTIATION_INTERVAL_MS: u64 = 10;

/// After the peer has closed a connection, late datagrams are dropped for this many milliseconds (it may take
/// up to twice as long). RFC 9000 §10.2 says that this SHOULD be at least three probe timeouts, which
/// is about the same for a round trip of 0.3 seconds.
pub const QUIC_DRAINING_MS: u64 = 3000;

/// The number of connections closed by their peers that an endpoint remembers during that time. Each takes
/// about 60 bytes, and there can be twice as many. After that, a datagram may get a stateless reset, or even
/// start a new connection if it is the first of the old one.
pub const QUIC_DRAINING_MAX: usize = 3584;

/// Lifetime of a Retry packet's token, in seconds. Clients will return it immediately.
pub const QUIC_RETRY_TOKEN_SECONDS: u64 = 15;

/// Lifetime, in seconds, of a token for a later connection. Most visits that are followed by another one
/// are less than a day apart.
pub const QUIC_TOKEN_SECONDS: u64 = 24 * 60 * 60;

/// Tokens for later connections that a client gets. Each of them is valid for one connection, on which the
/// client will get the next.
pub const QUIC_TOKENS_PER_CONNECTION: u32 = 1;

/// Limits the number of sessions that a process stores for clients that resume them with early data. Each
/// takes 300 bytes, and every connection gets two. Once the limit is reached, the oldest are dropped.
pub const QUIC_STORED_SESSIONS_MAX: usize = 1 << 14;

/// Size, in bits, of a filter that remembers used tokens. With 20,000 tokens a day, one in 25 will be
/// refused by mistake.
pub const QUIC_USED_TOKENS_BITS: usize = 1 << 17;

const _: () = assert!(QUIC_USED_TOKENS_BITS.is_power_of_two() && QUIC_USED_TOKENS_BITS >= 32);
const _: () = assert!(QUIC_BIDIRECTIONAL_STREAMS_AT_FIRST <= QUIC_BIDIRECTIONAL_STREAMS_MAX);
const _: () = assert!(QUIC_HALF_OPEN_BEFORE_RETRY < QUIC_HALF_OPEN_MAX);
const _: () = assert!(QUIC_STREAM_WINDOW_BYTES <= QUIC_CONNECTION_WINDOW_BYTES);
const _: () = assert!(RECORD_BYTES_MAX <= HANDSHAKE_BYTES_MAX, "a hello may fill a record");
const _: () = assert!(FIRST_CONTENT_BYTES < FIRST_FLIGHT_BYTES, "several records in the first flight");
const _: () =
    assert!(FIRST_FLIGHT_BYTES <= CONTENT_BYTES_MAX, "the content of the first flight fits one record");
