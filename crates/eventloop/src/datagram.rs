//! Datagrams: UDP sockets, received batches, and trains to send.
//!
//! One socket serves all peers. Received datagrams therefore carry their addresses, and those to send name their peer. The
//! system merges datagrams of one peer when it receives (GRO), and splits a train when it sends (GSO), so that a call costs
//! about the same for sixty datagrams as for one.

pub(crate) mod batch;
mod claim;
mod control;
mod name;
pub(crate) mod outgoing;
pub(crate) mod routing;
mod udp_socket;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::ControlFlow;

pub use batch::{Datagram, ReceiveBatch};
pub use claim::DatagramClaim;
pub use routing::WorkerRouting;
pub use udp_socket::{BufferSizes, DatagramOptions, UdpSocket};

/// A UDP socket in non-blocking mode, which is not connected. Closed when dropped.
pub trait DatagramSocket {
    /// Receives datagrams into `batch`, and discards those that it held.
    ///
    /// # Errors
    /// The system call fails, for example because the kernel has no memory. No peer can cause that.
    fn receive(&self, batch: &mut ReceiveBatch) -> io::Result<Backlog>;

    /// Sends a train, with as few calls as possible.
    fn send(&self, train: &Train<'_>) -> SendOutcome;

    /// Sends several trains in order, with as few calls as possible.
    fn send_all(&self, trains: &[Train<'_>]) -> Progress {
        let mut progress = Progress::default();
        for train in trains {
            if progress.add(self.send(train)).is_break() {
                break;
            }
        }
        progress
    }

    /// Returns the address of the socket, with the port that the kernel chose. Unspecified if the socket has all addresses.
    fn local_address(&self) -> SocketAddr;

    /// Returns how many datagrams the kernel has discarded, because the receive buffer was full. Counted when the next
    /// datagram is received; wraps around.
    fn discarded(&self) -> u32 {
        0
    }

    /// Returns `true` if the system splits trains into datagrams.
    fn has_gso(&self) -> bool {
        false
    }

    /// Returns the error for which the socket has stopped using GSO, once. Some network devices and tunnels refuse it.
    fn take_gso_error(&self) -> Option<io::Error> {
        None
    }
}

/// Whether a socket may have more datagrams to receive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backlog {
    /// There is none: an event follows when one arrives.
    Empty,
    /// There may be more. No event reports them: receive again.
    Possible,
}

/// Datagrams to one peer, all of the same size except the last, which may be shorter (GSO).
///
/// This is what callers send. The socket passes it to the system as one or several messages.
#[derive(Debug, Clone, Copy)]
pub struct Train<'a> {
    /// The peer's address. For a socket with all IPv4 and IPv6 addresses, an IPv4 address is mapped to IPv6.
    pub destination: SocketAddr,
    /// The local address to send from: where the peer's datagrams arrived. `None` leaves the choice to the system.
    pub source: Option<IpAddr>,
    /// The ECN codepoint of each datagram.
    pub ecn: Option<Ecn>,
    /// The concatenated contents.
    pub bytes: &'a [u8],
    /// The size of a datagram; `None` if there is only one.
    pub segment_bytes: Option<usize>,
}

impl<'a> Train<'a> {
    /// Returns the train without its first bytes, which [`SendOutcome::Blocked`] reports as sent.
    ///
    /// # Panics
    /// The train is shorter.
    #[must_use]
    pub fn without_first(&self, bytes: usize) -> Train<'a> {
        Train { bytes: &self.bytes[bytes..], ..*self }
    }

    /// Returns the size of a datagram.
    pub(crate) fn datagram_bytes(&self) -> usize {
        self.segment_bytes.unwrap_or(self.bytes.len()).max(1)
    }
}

/// The result of sending a train.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendOutcome {
    /// The system has taken all datagrams.
    Sent,
    /// The send buffer is full. After [`EventLoop::await_room`](crate::EventLoop::await_room) an event reports when there is
    /// room, for the train without what was sent.
    Blocked {
        /// The number of bytes that were sent: whole datagrams.
        sent_bytes: usize,
    },
    /// The system refused some of the datagrams, as if the network had lost them: they exceed the path's MTU, no route leads
    /// to the peer, a firewall forbids them, or a queue is full. Trying again does not help.
    Lost,
}

/// How much of several trains was sent. If it is less than all of them, the send buffer is full, as with
/// [`SendOutcome::Blocked`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// The number of trains that were sent or lost.
    pub trains: usize,
    /// The number of them that were lost, entirely or in part.
    pub lost: usize,
    /// The number of bytes of the next train that were sent.
    pub sent_bytes: usize,
}

impl Progress {
    /// Adds the outcome of the next train. Breaks if the send buffer is full.
    fn add(&mut self, outcome: SendOutcome) -> ControlFlow<()> {
        if let SendOutcome::Blocked { sent_bytes } = outcome {
            self.sent_bytes = sent_bytes;
            return ControlFlow::Break(());
        }
        self.lost += usize::from(outcome == SendOutcome::Lost);
        self.trains += 1;
        ControlFlow::Continue(())
    }
}

/// The codepoints of Explicit Congestion Notification (RFC 3168 §5). Without one, the transport is not capable of ECN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ecn {
    /// Capable of ECN: ECT(1).
    Ect1 = 1,
    /// Capable of ECN: ECT(0).
    Ect0 = 2,
    /// Congestion experienced.
    Ce = 3,
}

impl Ecn {
    /// Returns the codepoint in a Type of Service or Traffic Class field: its last two bits.
    #[must_use]
    pub fn from_traffic_class(bits: u8) -> Option<Ecn> {
        match bits & 0b11 {
            1 => Some(Ecn::Ect1),
            2 => Some(Ecn::Ect0),
            3 => Some(Ecn::Ce),
            _ => None,
        }
    }
}

/// The datagram socket of an event loop that has none.
#[derive(Debug)]
pub enum NoDatagrams {}

impl DatagramSocket for NoDatagrams {
    fn receive(&self, _: &mut ReceiveBatch) -> io::Result<Backlog> {
        match *self {}
    }

    fn send(&self, _: &Train<'_>) -> SendOutcome {
        match *self {}
    }

    fn local_address(&self) -> SocketAddr {
        match *self {}
    }
}
