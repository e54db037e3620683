//! Handshakes: application protocol, resumption, server name, and the limits of those in progress.

use std::time::Duration;

use super::network::{Network, Server, client_config, context, random_seed, tls_client};

#[test]
fn handshake_establishes_both_sides() {
    let (mut network, handle) = Network::connected();
    let served = network.server.only();
    assert!(!served.connection.is_handshaking() && !served.connection.is_resumed());
    assert_eq!(served.connection.server_name().as_deref(), Some("localhost"));
    assert_eq!(network.server.endpoint.half_open(), 0);
    assert_eq!(network.server.endpoint.connections(), 1);
    assert!(!network.remote(handle).connection.is_handshaking());
}

#[test]
fn client_without_http3_is_refused() {
    let mut network = Network::new(Server::new(&context(&random_seed())));
    let handle = network.connect(client_config(&tls_client(&["h2"])));
    network.run(Duration::from_secs(5));
    let loss = network.remote(handle).loss().unwrap().to_string();
    assert!(loss.contains("error 120"), "no_application_protocol: {loss}");
    assert_eq!(network.server.endpoint.half_open(), 0);
}
