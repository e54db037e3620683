//! A simulated event loop. Network and virtual clock are generated from a seed to make each run reproducible.
//!
//! A [`Network`] simulates both the kernel and all peers. Bytes arrive in pieces of any size, sends are short, connections may fail
//! at any time, and events can be late and out of order. Datagrams are lost, reordered and modified. Time only advances when
//! nothing else can happen. However, the kernel's guarantees still hold: bytes stay in order, and after a call that would block,
//! there will be an event. The simulation makes no system calls.

mod datagram_socket;
mod datagrams;
mod network;
mod peer;
mod random;
mod wire;

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::time::Duration;

pub use datagram_socket::SimulatedDatagrams;
pub use datagrams::{DatagramPeer, DatagramPeerId, Path, Traffic};
pub use network::{Network, UNIX_SECONDS};
pub use peer::{Action, ConnectionState, PeerId, ReadRate};
pub use random::Random;

use crate::clock::Now;
use crate::event::Event;
use crate::event_loop::EventLoop;
use crate::socket::{Accepted, Received, Socket};
use crate::token::Token;

/// An event loop in a simulated network.
#[derive(Debug)]
pub struct Simulated {
    network: Network,
    fetched: VecDeque<Event>,
}

/// The listener that all peers in a network connect to.
#[derive(Debug)]
pub struct SimulatedListener;

/// The server's end of a simulated connection.
#[derive(Debug)]
pub struct SimulatedSocket {
    network: Network,
    peer: PeerId,
}

impl Simulated {
    /// Creates the event loop for a network's only server.
    #[must_use]
    pub fn new(network: Network) -> Simulated {
        Simulated { network, fetched: VecDeque::new() }
    }
}

impl EventLoop for Simulated {
    type Listener = SimulatedListener;
    type Socket = SimulatedSocket;
    type Datagrams = SimulatedDatagrams;

    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.fetched = self.network.run(timeout);
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

    fn close_listener(&mut self, _: SimulatedListener) {
        self.network.close_listener();
    }

    fn add_datagrams(&mut self, socket: &SimulatedDatagrams, number: u32) -> io::Result<()> {
        socket.watch(Some(number));
        Ok(())
    }

    fn await_room(&mut self, socket: &SimulatedDatagrams, _: u32) -> io::Result<()> {
        socket.await_room();
        Ok(())
    }

    fn remove_datagrams(&mut self, socket: &SimulatedDatagrams, _: u32) -> io::Result<()> {
        socket.watch(None);
        Ok(())
    }
}

impl Socket for SimulatedSocket {
    fn receive(&self, buffer: &mut [u8]) -> io::Result<Received> {
        self.network.with_wire(self.peer, |wire, _| wire.receive(buffer))
    }

    fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        self.send_vectored(&[IoSlice::new(bytes)])
    }

    fn send_vectored(&self, runs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.network.with_wire(self.peer, |wire, random| wire.send(runs, random))
    }

    fn shutdown_write(&self) -> io::Result<()> {
        self.network.with_wire(self.peer, |wire, _| wire.shutdown_write())
    }

    fn unacknowledged_bytes(&self) -> io::Result<u64> {
        self.network.with_wire(self.peer, |wire, _| wire.unacknowledged_bytes())
    }

    fn reset_on_close(&self) -> io::Result<()> {
        self.network.with_wire(self.peer, |wire, _| wire.reset());
        Ok(())
    }
}

impl Drop for SimulatedSocket {
    fn drop(&mut self) {
        self.network.with_wire(self.peer, |wire, random| wire.close(random));
    }
}
