//! A loop whose network and time are made up from a seed: the same seed, the same run.
//!
//! A [`Network`] plays the kernel and every peer. Bytes arrive in pieces of any size, sends are cut short,
//! connections break at any moment, events come late and in any order, and time passes only where nothing
//! else can happen. What the kernel promises is kept: bytes stay in order, and whoever was told that there
//! is no more gets an event when there is. Never touches the kernel.

mod network;
mod peer;
mod random;
mod wire;

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::time::Duration;

pub use network::{Network, UNIX_SECONDS};
pub use peer::{Act, Appetite, Fate, PeerNumber};
pub use random::Random;

use crate::clock::Now;
use crate::event::Event;
use crate::socket::{Received, Socket};
use crate::token::Token;
use crate::{Accepted, EventLoop};

/// A loop on a made-up network.
#[derive(Debug)]
pub struct Simulated {
    network: Network,
    fetched: VecDeque<Event>,
}

/// Where the peers of a network connect to.
#[derive(Debug)]
pub struct SimulatedListener;

/// The server's end of a made-up connection.
#[derive(Debug)]
pub struct SimulatedSocket {
    network: Network,
    peer: PeerNumber,
}

impl Simulated {
    /// The loop of the one server that this network has.
    #[must_use]
    pub fn new(network: Network) -> Simulated {
        Simulated { network, fetched: VecDeque::new() }
    }
}

impl EventLoop for Simulated {
    type Listener = SimulatedListener;
    type Socket = SimulatedSocket;

    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.fetched = self.network.go_on(timeout);
        Ok(())
    }

    fn next_event(&mut self) -> Option<Event> {
        self.fetched.pop_front()
    }

    fn now(&mut self) -> Now {
        self.network.now()
    }

    fn add_listener(&mut self, _: &SimulatedListener, number: u32) -> io::Result<()> {
        self.network.listen(number);
        Ok(())
    }

    fn add_socket(&mut self, socket: &SimulatedSocket, token: Token) -> io::Result<()> {
        self.network.watch(socket.peer, token);
        Ok(())
    }

    fn accept(&mut self, _: &SimulatedListener) -> io::Result<Option<Accepted<SimulatedSocket>>> {
        let peer = self.network.accept()?;
        let network = self.network.clone();
        Ok(peer.map(|peer| Accepted { socket: SimulatedSocket { network, peer }, peer: None }))
    }

    fn remove_listener(&mut self, _: &SimulatedListener) -> io::Result<()> {
        self.network.stop_listening();
        Ok(())
    }

    fn end_listening(&mut self, _: SimulatedListener) {
        self.network.end_listening();
    }
}

impl Socket for SimulatedSocket {
    fn receive(&self, buffer: &mut [u8]) -> io::Result<Received> {
        self.network.with_wire(self.peer, |wire, _| wire.receive(buffer))
    }

    fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        self.send_runs(&[IoSlice::new(bytes)])
    }

    fn send_runs(&self, runs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.network.with_wire(self.peer, |wire, random| wire.send(runs, random))
    }

    fn end_sending(&self) -> io::Result<()> {
        self.network.with_wire(self.peer, |wire, _| wire.end_sending())
    }

    fn unconfirmed(&self) -> io::Result<u64> {
        self.network.with_wire(self.peer, |wire, _| wire.unconfirmed())
    }

    fn abandon(&self) -> io::Result<()> {
        self.network.with_wire(self.peer, |wire, _| wire.break_off());
        Ok(())
    }
}

impl Drop for SimulatedSocket {
    fn drop(&mut self) {
        self.network.with_wire(self.peer, |wire, random| wire.close(random));
    }
}
