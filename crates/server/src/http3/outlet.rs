//! A UDP socket of a worker, and the connections that wait for room in it.

use std::net::{IpAddr, SocketAddr};

use cannery_eventloop::{DatagramSocket, Ecn, SendOutcome, Train};
use cannery_secure::quic::ConnectionKey;

use crate::observe::{Http3Metric, Observer};

/// A UDP socket.
#[derive(Debug)]
pub(super) struct Outlet<D> {
    socket: D,
    room: Room,
    /// Connections that continue when there is room.
    waiting: Vec<ConnectionKey>,
    /// Discarded datagrams that were counted.
    discarded: u32,
}

/// Whether the socket has room to send.
#[derive(Debug)]
enum Room {
    Available,
    /// This train comes first when there is room.
    Blocked {
        train: PendingTrain,
        /// Whether the event loop was asked for an event.
        is_awaited: bool,
    },
}

/// A train that the socket had no room for.
#[derive(Debug)]
struct PendingTrain {
    destination: SocketAddr,
    source: Option<IpAddr>,
    ecn: Option<Ecn>,
    bytes: Vec<u8>,
    segment_bytes: Option<usize>,
}

impl<D: DatagramSocket> Outlet<D> {
    pub(super) fn new(socket: D) -> Outlet<D> {
        Outlet { socket, room: Room::Available, waiting: Vec::new(), discarded: 0 }
    }

    pub(super) fn socket(&self) -> &D {
        &self.socket
    }

    /// Counts the datagrams that the kernel has discarded, and the end of GSO.
    pub(super) fn count(&mut self, observer: &mut Observer) {
        let discarded = self.socket.discarded();
        let more = discarded.wrapping_sub(std::mem::replace(&mut self.discarded, discarded));
        observer.count_http3(Http3Metric::DatagramsDiscarded, more.into());
        observer.count_http3(Http3Metric::GsoFailures, self.socket.take_gso_error().is_some().into());
    }

    /// Returns `true` if the socket has no room.
    pub(super) fn is_blocked(&self) -> bool {
        matches!(self.room, Room::Blocked { .. })
    }

    /// Returns `true`, once, if an event is needed that reports room.
    pub(super) fn must_await_room(&mut self) -> bool {
        match &mut self.room {
            Room::Available => false,
            Room::Blocked { is_awaited, .. } => !std::mem::replace(is_awaited, true),
        }
    }

    /// Resumes a connection when there is room.
    pub(super) fn resume_later(&mut self, key: ConnectionKey) {
        self.waiting.push(key);
    }

    /// Sends a train. If there is no room, it is kept, and no other may be sent before.
    pub(super) fn send(&mut self, train: &Train<'_>) {
        debug_assert!(!self.is_blocked(), "trains keep their order");
        if let SendOutcome::Blocked { sent_bytes } = self.socket.send(train) {
            self.block(&train.without_first(sent_bytes));
        }
    }

    #[cold]
    fn block(&mut self, train: &Train<'_>) {
        let Train { destination, source, ecn, bytes, segment_bytes } = *train;
        let train = PendingTrain { destination, source, ecn, bytes: bytes.to_vec(), segment_bytes };
        self.room = Room::Blocked { train, is_awaited: false };
    }

    /// Sends the train that was kept. Returns the connections that waited for it, if there is room now.
    pub(super) fn unblock(&mut self) -> Vec<ConnectionKey> {
        let Room::Blocked { train, .. } = std::mem::replace(&mut self.room, Room::Available) else {
            return Vec::new();
        };
        let PendingTrain { destination, source, ecn, ref bytes, segment_bytes } = train;
        self.send(&Train { destination, source, ecn, bytes, segment_bytes });
        if self.is_blocked() { Vec::new() } else { std::mem::take(&mut self.waiting) }
    }
}
