//! The server's datagram sockets in a simulated network.

use std::io;
use std::net::{IpAddr, SocketAddr};

use super::datagrams::Datagrams;
use super::network::Network;
use super::random::Random;
use crate::datagram::{Backlog, DatagramSocket, ReceiveBatch, SegmentBatch, SendOutcome};

/// One of the server's datagram sockets.
#[derive(Debug)]
pub struct SimulatedDatagrams {
    network: Network,
    endpoint: usize,
    address: SocketAddr,
}

impl SimulatedDatagrams {
    /// Opens a socket for the server. With an unspecified IP address, it will receive datagrams for any
    /// address.
    #[must_use]
    pub fn bind(network: &Network, address: SocketAddr) -> SimulatedDatagrams {
        let endpoint = network.with_datagrams(|datagrams, _, _| datagrams.bind(address));
        SimulatedDatagrams { network: network.clone(), endpoint, address }
    }

    pub(super) fn watch(&self, number: Option<u32>) {
        self.network.with_datagrams(|datagrams, _, _| datagrams.watch(self.endpoint, number));
    }

    pub(super) fn await_room(&self) {
        self.network.with_datagrams(|datagrams, _, _| datagrams.await_room(self.endpoint));
    }

    /// Returns `true` if the socket may send from this address.
    fn is_own(&self, address: IpAddr) -> bool {
        self.address.ip().is_unspecified() || self.address.ip() == address
    }
}

impl DatagramSocket for SimulatedDatagrams {
    fn receive(&self, batch: &mut ReceiveBatch) -> io::Result<Backlog> {
        let receive = |datagrams: &mut Datagrams, _, random: &mut Random| {
            datagrams.receive(self.endpoint, batch, random)
        };
        Ok(self.network.with_datagrams(receive))
    }

    fn send(&self, segments: &SegmentBatch<'_>) -> SendOutcome {
        debug_assert!(
            segments.source.is_none_or(|source| self.is_own(source)),
            "{source:?}",
            source = segments.source
        );
        self.network
            .with_datagrams(|datagrams, time, random| datagrams.send(self.endpoint, segments, time, random))
    }

    fn local_address(&self) -> SocketAddr {
        self.address
    }

    fn has_gso(&self) -> bool {
        true
    }
}

impl Drop for SimulatedDatagrams {
    fn drop(&mut self) {
        self.network.with_datagrams(|datagrams, _, _| datagrams.close(self.endpoint));
    }
}
