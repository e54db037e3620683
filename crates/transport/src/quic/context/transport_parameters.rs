//! Transport parameters, and limits for connections and endpoints in `quinn-proto`.

use std::sync::Arc;
use std::time::Duration;

use quinn_proto::{
    EndpointConfig, IdleTimeout, MtuDiscoveryConfig, ServerConfig, TransportConfig, ValidationTokenConfig,
    VarInt,
};

use crate::limits;
use crate::quic::packets::packet_type::VERSION;

/// Returns the transport parameters of a connection.
pub(super) fn transport_config() -> TransportConfig {
    let mut discovery = MtuDiscoveryConfig::default();
    let [min, max] = [limits::QUIC_HANDSHAKE_DATAGRAM_BYTES, limits::QUIC_DATAGRAM_BYTES_MAX];
    discovery.upper_bound(max);
    // `quinn-proto` bisects the range down to this step, and probes the upper bound once half of the range is
    // smaller. With this value, it will probe the upper bound first, which works on most paths, and only then
    // the middle. A probe takes a full datagram and another one for the acknowledgment, so a short connection
    // would be over before four of them pay off.
    discovery.minimum_change((max - min) / 2 + 1);

    let mut config = TransportConfig::default();
    config
        .max_concurrent_bidi_streams(VarInt::from_u32(limits::QUIC_BIDIRECTIONAL_STREAMS_AT_FIRST))
        .max_concurrent_uni_streams(VarInt::from_u32(limits::QUIC_UNIDIRECTIONAL_STREAMS_MAX))
        .stream_receive_window(VarInt::from_u32(limits::QUIC_STREAM_WINDOW_BYTES))
        .receive_window(VarInt::from_u32(limits::QUIC_CONNECTION_WINDOW_BYTES))
        .max_idle_timeout(Some(IdleTimeout::from(VarInt::from_u32(limits::QUIC_IDLE_MS))))
        .crypto_buffer_size(limits::QUIC_HANDSHAKE_GAP_BYTES_MAX)
        .initial_mtu(limits::QUIC_HANDSHAKE_DATAGRAM_BYTES)
        .mtu_discovery_config(Some(discovery))
        // Unacknowledged data does not take any memory since content is in the archive, and the congestion
        // window limits the amount in flight.
        .send_window(u64::MAX)
        // HTTP/3 does not need datagrams (RFC 9221).
        .datagram_receive_buffer_size(None)
        // The bit would show the round trip time to observers of the path.
        .allow_spin(false);
    config
}

/// Sets the limits of an endpoint.
pub(super) fn limit_endpoint(config: &mut EndpointConfig) {
    config
        .max_udp_payload_size(limits::QUIC_RECEIVED_DATAGRAM_BYTES_MAX)
        .expect("RFC 9000 permits this length")
        // Drop packets without the fixed bit (RFC 9000 §17.2, §17.3.1) because we currently do not implement
        // the extension that uses it (RFC 9287).
        .grease_quic_bit(false)
        .supported_versions(vec![VERSION])
        // This limit is for resets that are computed, whereas the endpoint has its own for those that it
        // sends.
        .min_reset_interval(Duration::from_millis(limits::QUIC_RESET_COMPUTED_INTERVAL_MS));
}

/// Sets the limits for connections that are not accepted yet, and how tokens are used.
pub(super) fn limit_server(config: &mut ServerConfig, mut tokens: ValidationTokenConfig) {
    tokens.sent(limits::QUIC_TOKENS_PER_CONNECTION).lifetime(Duration::from_secs(limits::QUIC_TOKEN_SECONDS));
    config
        .transport_config(Arc::new(transport_config()))
        .validation_token_config(tokens)
        .retry_token_lifetime(Duration::from_secs(limits::QUIC_RETRY_TOKEN_SECONDS))
        .max_incoming(limits::QUIC_HALF_OPEN_MAX)
        .incoming_buffer_size(limits::QUIC_EARLY_BYTES_MAX)
        .incoming_buffer_size_total(limits::QUIC_EARLY_BYTES_TOTAL_MAX);
}
