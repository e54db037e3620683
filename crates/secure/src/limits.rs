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

/// Half-open connections of one endpoint: their handshake is not done. From this number on, each further client must prove its
/// address by a Retry packet. That costs the client a round trip, so it is for floods: 256 is what 2,500 clients in a second
/// have at a round trip of 0.1 seconds.
pub const QUIC_HALF_OPEN_BEFORE_RETRY: usize = 256;

/// Half-open connections of one endpoint. From this number on, Initial packets of further clients are dropped, so a caller keeps them
/// until one of the handshakes is done. Each connection has about 20 KB.
pub const QUIC_HALF_OPEN_MAX: usize = 1024;

/// Datagrams that are kept for a connection until the caller accepts it, in bytes: a few beyond the first, since a hello
/// with a post-quantum key share takes two.
pub const QUIC_EARLY_BYTES_MAX: u64 = 16 * 1024;

/// The same for all connections of an endpoint together, in bytes: the full share of a quarter of the connections that may
/// be half open.
pub const QUIC_EARLY_BYTES_TOTAL_MAX: u64 = 4 * 1024 * 1024;

/// Early datagrams kept per connection. Each costs a few hundred bytes in addition to its contents.
pub const QUIC_EARLY_DATAGRAMS_MAX: usize = 16;

/// Bidirectional streams that a client may have open at once: one for each request. RFC 9114 §6.1 recommends at least 100.
pub const QUIC_BIDIRECTIONAL_STREAMS_MAX: u32 = 100;

/// Bidirectional streams that a client may have open until it has had half as many open at once. The library allocates the state
/// of all permitted streams, and most connections need few: 100 take 4 kB, several microseconds of the handshake, and more misses
/// of the processor's caches with each request. The tables of `quinn-proto` have room for 14 streams before they double, and four are
/// unidirectional.
pub const QUIC_BIDIRECTIONAL_STREAMS_AT_FIRST: u32 = 10;

/// Unidirectional streams that a client may have open at once: the three of HTTP/3 and QPACK, and one more, of a reserved type
/// (RFC 9114 §6.2.3) or by mistake, so that the client gets an error code.
pub const QUIC_UNIDIRECTIONAL_STREAMS_MAX: u32 = 4;

/// Bytes that a client may send on a stream beyond those that were read: a request head of the largest size.
pub const QUIC_STREAM_WINDOW_BYTES: u32 = 16 * 1024;

/// Bytes that a client may send on all streams beyond those that were read: several large heads, many ordinary ones.
pub const QUIC_CONNECTION_WINDOW_BYTES: u32 = 128 * 1024;

/// Handshake messages that are kept until earlier ones arrive, in bytes: clients may send them in any order. Nearly the
/// same as [`HANDSHAKE_BYTES_MAX`].
pub const QUIC_HANDSHAKE_GAP_BYTES_MAX: usize = 16 * 1024;

/// CRYPTO frames with data of a connection. Browsers split their hello into up to two dozen, and may have to repeat them. Each that
/// waits for an earlier one takes 56 bytes in addition to its data.
pub const QUIC_HANDSHAKE_PIECES_MAX: u32 = 256;

/// Parts of a stream that wait for earlier ones: a client that sends tiny ones has most of a window in flight. Each takes 56 bytes in
/// addition to its data.
pub const QUIC_UNREAD_PIECES_MAX: u32 = 256;

/// Bytes that a client is sent before its address is validated, per byte that it has sent (RFC 9000 §8.1).
pub const QUIC_AMPLIFICATION_MAX: u64 = 3;

/// Datagrams of a connection that come from addresses that the client hasn't proved to have, and doesn't use, in one burst. Each may
/// cause one to an address that may be forged. A client that moves needs one or two.
pub const QUIC_FOREIGN_DATAGRAMS_MAX: u32 = 8;

/// Refill of this budget per second. No client moves more often.
pub const QUIC_FOREIGN_DATAGRAMS_PER_SECOND: u32 = 1;

/// Unvalidated addresses per connection for which we keep byte counts.
pub const QUIC_UNVALIDATED_ADDRESSES_MAX: usize = 4;

/// How long we keep them after the last datagram from such an address, in milliseconds.
pub const QUIC_UNVALIDATED_ADDRESS_MS: u64 = 30_000;

/// PATH_CHALLENGE frames that a new address of a client is sent before it may be sent a whole datagram: the first may be lost.
pub const QUIC_PATH_CHALLENGES_MAX: usize = 3;

/// Packets in flight per connection whose stream data we stripped, because the address was unvalidated.
pub const QUIC_HIDDEN_PACKETS_MAX: usize = 16;

/// Sequence numbers of peer connection IDs that we remember, to detect a reused one. Libraries issue up to eight IDs.
pub const QUIC_PEER_IDS_REMEMBERED_MAX: usize = 16;

/// Token bucket for packets that neither request anything nor belong to a response, and its capacity, in tokens: a packet costs
/// one. As for frames of HTTP/2. Beyond it, the connection is closed.
pub const QUIC_CREDIT_MAX: u32 = 2_000;

/// Refill of this bucket per second: keep-alive takes one packet in several seconds.
pub const QUIC_CREDIT_PER_SECOND: u32 = 100;

/// Refill of this bucket each time that a stream has returned data, or its end. A request takes a packet, and its response is
/// acknowledged by another one.
pub const QUIC_CREDIT_PER_READ: u64 = 2;

/// Refill of this bucket for each STREAM frame of ours: the packet with it is acknowledged, and another packet may enlarge a
/// window.
pub const QUIC_CREDIT_PER_STREAM_FRAME: u64 = 2;

/// Bytes that must have been sent for each STREAM frame that refills the bucket. Otherwise a client that enlarges its windows
/// byte by byte would earn tokens.
pub const QUIC_CREDITED_BYTES_MIN: u64 = 256;

/// Frames that cost one token in addition to that of their packet. Browsers send up to a dozen in a packet, but hundreds fit.
pub const QUIC_FRAMES_PER_TOKEN: u64 = 16;

/// Cost of an update of the keys in tokens: it takes as long as 20 small packets. Clients update their keys after gigabytes.
pub const QUIC_KEY_UPDATE_COST: u64 = 20;

/// Packets that a gap in the packet numbers of a client counts for at most. Some clients leave out numbers to detect
/// acknowledgments that are made up (RFC 9000 §21.4). Of older packets, the library drops all.
pub const QUIC_PACKET_GAP_MAX: u64 = 128;

/// The longest datagram of a handshake, in bytes of UDP payload: the size that every path of QUIC carries (RFC 9000 §14).
pub const QUIC_HANDSHAKE_DATAGRAM_BYTES: u16 = 1200;

/// How long a connection lasts without a datagram of the client, in milliseconds. Longer is of little use, because many
/// routers forget a UDP flow after 30 seconds (RFC 9308 §3.2).
pub const QUIC_IDLE_MS: u32 = 30_000;

/// The longest datagram that is sent, in bytes of UDP payload: 1,500 bytes with the headers of IPv6 and UDP. The path is
/// probed from 1,200 bytes up to this size (RFC 8899).
pub const QUIC_DATAGRAM_BYTES_MAX: u16 = 1452;

/// The longest datagram that is received, in bytes of UDP payload: 1,500 bytes with the headers of IPv4 and UDP. It is announced as
/// max_udp_payload_size (RFC 9000 §18.2). A part of a datagram that waits for earlier data keeps a buffer of this length.
pub const QUIC_RECEIVED_DATAGRAM_BYTES_MAX: u16 = 1472;

/// Stateless resets of an endpoint in one burst. After a crash, each of its clients needs one, and learns by it that it must connect
/// again. A reset is shorter than the datagram that it answers.
pub const QUIC_RESETS_MAX: u32 = 32;

/// Refill of this budget per second. Clients repeat their packets, and get a reset for a later one.
pub const QUIC_RESETS_PER_SECOND: u32 = 10;

/// The least time between two stateless resets that an endpoint computes, in milliseconds. One takes some microseconds, and an attacker
/// can cause thousands in an iteration. One that isn't sent, because its receiver has closed its connection, may so delay another.
pub const QUIC_RESET_COMPUTED_INTERVAL_MS: u64 = 1;

/// The least time between two version negotiations of an endpoint, in milliseconds. No client in use begins with a version
/// that we don't have.
pub const QUIC_VERSION_NEGOTIATION_INTERVAL_MS: u64 = 10;

/// How long late datagrams of a connection are dropped after its peer has closed it, in milliseconds, and up to twice as long. Three
/// probe timeouts are recommended (RFC 9000 §10.2), which is as much at a round trip of 0.3 seconds.
pub const QUIC_DRAINING_MS: u64 = 3000;

/// Connections that their peers have closed in that time, of which an endpoint drops datagrams. Each takes about 60 bytes, and twice as
/// many may be kept. Later, a datagram may get a stateless reset, or begin a connection if it is the first of the old one.
pub const QUIC_DRAINING_MAX: usize = 3584;

/// How long the token of a Retry packet is valid, in seconds: a client returns it at once.
pub const QUIC_RETRY_TOKEN_SECONDS: u64 = 15;

/// How long a token for a later connection is valid, in seconds. A day covers most visits that are followed by another.
pub const QUIC_TOKEN_SECONDS: u64 = 24 * 60 * 60;

/// Tokens that a client gets for later connections. Each is for one, in which the client gets the next.
pub const QUIC_TOKENS_PER_CONNECTION: u32 = 1;

/// Sessions that are stored for clients that resume them with early data, in one process. Each takes 300 bytes, and two are
/// stored per connection. The oldest ones are dropped.
pub const QUIC_STORED_SESSIONS_MAX: usize = 1 << 14;

/// Bits of a filter that remembers used tokens: with 20,000 tokens a day, it refuses one in 25 by mistake.
pub const QUIC_USED_TOKENS_BITS: usize = 1 << 17;

const _: () = assert!(QUIC_USED_TOKENS_BITS.is_power_of_two() && QUIC_USED_TOKENS_BITS >= 32);
const _: () = assert!(QUIC_BIDIRECTIONAL_STREAMS_AT_FIRST <= QUIC_BIDIRECTIONAL_STREAMS_MAX);
const _: () = assert!(QUIC_HALF_OPEN_BEFORE_RETRY < QUIC_HALF_OPEN_MAX);
const _: () = assert!(QUIC_STREAM_WINDOW_BYTES <= QUIC_CONNECTION_WINDOW_BYTES);
const _: () = assert!(RECORD_BYTES_MAX <= HANDSHAKE_BYTES_MAX, "a hello may fill a record");
const _: () = assert!(FIRST_CONTENT_BYTES < FIRST_FLIGHT_BYTES, "several records in the first flight");
const _: () =
    assert!(FIRST_FLIGHT_BYTES <= CONTENT_BYTES_MAX, "the content of the first flight fits one record");
