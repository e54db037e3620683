//! HTTP/3 metrics.

/// A metric that only exists for HTTP/3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Http3Metric {
    /// Connections with a complete handshake.
    Connections,
    /// Requests that were answered before the handshake was complete (0-RTT).
    EarlyRequests,
    /// QUIC packets sent.
    PacketsSent,
    /// QUIC packets declared lost (RFC 9002 §6).
    PacketsLost,
    /// Changes of clients' addresses or ports (RFC 9000 §9).
    Migrations,
    /// Retry packets. During a flood, they make clients prove their addresses (RFC 9000 §8.1.2).
    Retries,
    /// Datagrams of connection attempts that were dropped because too many were waiting.
    AttemptsDropped,
    /// Datagrams that the kernel has discarded because the receive buffer was full.
    DatagramsDiscarded,
    /// Datagrams that were forwarded to another worker, or to the process we are taking over from.
    DatagramsForwarded,
    /// Sockets that have stopped using GSO because the system refused it.
    GsoFailures,
}

impl Http3Metric {
    pub(crate) const ALL: [Http3Metric; 10] = [
        Http3Metric::Connections,
        Http3Metric::EarlyRequests,
        Http3Metric::PacketsSent,
        Http3Metric::PacketsLost,
        Http3Metric::Migrations,
        Http3Metric::Retries,
        Http3Metric::AttemptsDropped,
        Http3Metric::DatagramsDiscarded,
        Http3Metric::DatagramsForwarded,
        Http3Metric::GsoFailures,
    ];

    /// Returns the name of the metric, without the prefix that all metrics have.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Http3Metric::Connections => "http3_connections_total",
            Http3Metric::EarlyRequests => "http3_early_requests_total",
            Http3Metric::PacketsSent => "quic_packets_sent_total",
            Http3Metric::PacketsLost => "quic_packets_lost_total",
            Http3Metric::Migrations => "quic_migrations_total",
            Http3Metric::Retries => "quic_retries_total",
            Http3Metric::AttemptsDropped => "quic_attempts_dropped_total",
            Http3Metric::DatagramsDiscarded => "quic_datagrams_discarded_total",
            Http3Metric::DatagramsForwarded => "quic_datagrams_forwarded_total",
            Http3Metric::GsoFailures => "quic_gso_failures_total",
        }
    }

    /// Returns the description of the metric.
    pub(crate) const fn help(self) -> &'static str {
        match self {
            Http3Metric::Connections => "HTTP/3 connections that have completed their handshake.",
            Http3Metric::EarlyRequests => "Requests answered before the handshake was done (0-RTT).",
            Http3Metric::PacketsSent => "QUIC packets sent.",
            Http3Metric::PacketsLost => "QUIC packets declared lost.",
            Http3Metric::Migrations => "Changes of a QUIC client's address or port.",
            Http3Metric::Retries => "Retry packets, by which clients prove their addresses during a flood.",
            Http3Metric::AttemptsDropped => {
                "Datagrams of connection attempts dropped, because too many waited."
            }
            Http3Metric::DatagramsDiscarded => {
                "Datagrams that the kernel discarded, because the receive buffer of a socket was full."
            }
            Http3Metric::DatagramsForwarded => {
                "Datagrams forwarded to another thread, or to the program that is being replaced."
            }
            Http3Metric::GsoFailures => {
                "Sockets that send datagrams one by one, because the system refused GSO."
            }
        }
    }
}
