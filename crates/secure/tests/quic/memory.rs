//! Memory of connections, which limits how many a server can have.

use std::time::Duration;

use super::network::{Network, Server, client_config, context, random_seed, tls_client};

#[test]
fn idle_connection_takes_little_memory() {
    const COUNT: u32 = 50;
    let mut network = Network::new(Server::new(&context(&random_seed())));
    let tls = tls_client(&["h3"]);
    for _ in 0..COUNT {
        network.connect(client_config(&tls));
    }
    network.run(Duration::from_secs(20));
    assert_eq!(network.server.endpoint.connections(), COUNT as usize);

    let freed = allocation_counter::measure(|| {
        let connections = std::mem::take(&mut network.server.connections);
        for served in connections.into_values() {
            network.server.endpoint.remove(served.connection);
        }
    });
    let bytes = -freed.bytes_current / i64::from(COUNT);
    assert!((1..14_000).contains(&bytes), "{bytes} bytes per connection");
}
