//! Datagrams: UDP sockets, received datagrams, and segment batches to send.
//!
//! Since all peers share a socket, received datagrams come with an address, and outgoing ones need a destination. The system may
//! merge datagrams received from the same peer (GRO) and split a message into datagrams (GSO). With both, a call with sixty datagrams
//! costs about as much as a call with one.

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

/// A non-blocking, unconnected UDP socket. The socket will be closed when the value is dropped.
pub trait DatagramSocket {
    /// Receives datagrams into `batch`, replacing what was in there.
    ///
    /// # Errors
    /// Returns the error of the system call, e.g. if the kernel is out of memory. Peers should never be able to cause this.
    fn receive(&self, batch: &mut ReceiveBatch) -> io::Result<Backlog>;

    /// Sends a segment batch with as few calls as possible.
    fn send(&self, segments: &SegmentBatch<'_>) -> SendOutcome;

    /// Sends several segment batches in order with as few calls as possible.
    fn send_all(&self, batches: &[SegmentBatch<'_>]) -> Progress {
        let mut progress = Progress::default();
        for segments in batches {
            if progress.add(self.send(segments)).is_break() {
                break;
            }
        }
        progress
    }

    /// Returns the socket's address with the actual port. The IP address is unspecified if the socket is bound to all addresses.
    fn local_address(&self) -> SocketAddr;

    /// Returns the number of datagrams discarded by the kernel because the receive buffer was full. Note that this is only updated
    /// when the next datagram is received, and that it will wrap around.
    fn discarded(&self) -> u32 {
        0
    }

    /// Returns `true` if the system can split segment batches into datagrams.
    fn has_gso(&self) -> bool {
        false
    }

    /// Returns the error that made the socket stop using GSO (only once). Some network devices and tunnels currently do not support
    /// it.
    fn take_gso_error(&self) -> Option<io::Error> {
        None
    }
}

/// Whether there may be more datagrams to receive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backlog {
    /// There are no more datagrams. You will get an event when one arrives.
    Empty,
    /// There can be more. You should receive again, because you will not get an event for them.
    Possible,
}

/// Datagrams for one peer. All of them have the same size, except that the last may be shorter (GSO).
///
/// This is what callers send. If necessary, the socket will pass it to the system as several messages.
#[derive(Debug, Clone, Copy)]
pub struct SegmentBatch<'a> {
    /// The peer's address. If the socket is bound to all IPv4 and IPv6 addresses, IPv4 addresses are mapped to IPv6.
    pub destination: SocketAddr,
    /// The local address to send from, typically the address where the peer's datagrams arrived. If it is `None`, the system will
    /// choose.
    pub source: Option<IpAddr>,
    /// The ECN codepoint of each datagram.
    pub ecn: Option<Ecn>,
    /// The concatenated contents.
    pub bytes: &'a [u8],
    /// Size of a datagram. `None` if there is only one.
    pub segment_bytes: Option<usize>,
}

impl<'a> SegmentBatch<'a> {
    /// Returns the segment batch without its first bytes, after [`SendOutcome::Blocked`] has reported them as sent.
    ///
    /// # Panics
    /// Panics if the segment batch is shorter than that.
    #[must_use]
    pub fn without_first(&self, bytes: usize) -> SegmentBatch<'a> {
        SegmentBatch { bytes: &self.bytes[bytes..], ..*self }
    }

    pub(crate) fn datagram_bytes(&self) -> usize {
        self.segment_bytes.unwrap_or(self.bytes.len()).max(1)
    }
}

/// The result of sending a segment batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendOutcome {
    /// The system has accepted all datagrams.
    Sent,
    /// The send buffer is full. Call [`EventLoop::await_room`](crate::EventLoop::await_room) in order to get an event once there is
    /// room, and then send the rest of the segment batch.
    Blocked {
        /// Number of bytes sent, always complete datagrams.
        sent_bytes: usize,
    },
    /// The system has refused some of the datagrams, e.g. because they exceed the path MTU, there is no route to the peer, or a
    /// firewall forbids them. Trying again will not help; callers should act as if the network had lost the datagrams.
    Lost,
}

/// The number of segment batches sent, out of several. If there are some left, the send buffer is full, as with [`SendOutcome::Blocked`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// Number of segment batches sent or lost.
    pub batches: usize,
    /// Number of sent segment batches lost, completely or partly.
    pub lost: usize,
    /// Number of bytes of the next segment batch that were sent.
    pub sent_bytes: usize,
}

impl Progress {
    /// Adds the outcome for the next segment batch, breaking when the send buffer is full.
    fn add(&mut self, outcome: SendOutcome) -> ControlFlow<()> {
        if let SendOutcome::Blocked { sent_bytes } = outcome {
            self.sent_bytes = sent_bytes;
            return ControlFlow::Break(());
        }
        self.lost += usize::from(outcome == SendOutcome::Lost);
        self.batches += 1;
        ControlFlow::Continue(())
    }
}

/// ECN codepoints (RFC 3168 §5). Without one, the transport is not capable of ECN.
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
    /// Returns the codepoint from a Type of Service or Traffic Class field (where it is in the last two bits).
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

/// For event loops that do not support datagrams.
#[derive(Debug)]
pub enum NoDatagrams {}

impl DatagramSocket for NoDatagrams {
    fn receive(&self, _: &mut ReceiveBatch) -> io::Result<Backlog> {
        match *self {}
    }

    fn send(&self, _: &SegmentBatch<'_>) -> SendOutcome {
        match *self {}
    }

    fn local_address(&self) -> SocketAddr {
        match *self {}
    }
}
