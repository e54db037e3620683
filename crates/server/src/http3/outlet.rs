//! A UDP socket of the worker. It gathers short trains and keeps trains that do not fit into the
//! socket.
//!
//! Since many connections only send short responses, a single call can send the trains of several
//! connections. Long trains are sent separately in order to avoid the copy.

use std::io;
use std::net::{IpAddr, SocketAddr};

use cannery_eventloop::{DatagramSocket, Ecn, SendOutcome, Train};
use cannery_transport::quic::ConnectionKey;

use super::limits::{GATHERED_TRAIN_BYTES_MAX, GATHERED_TRAINS_MAX};
use crate::notice::Notice;
use crate::observe::{Http3Metric, Observer};

/// A UDP socket with a send queue.
#[derive(Debug)]
pub(super) struct Outlet<D> {
    socket: D,
    room: Room,
    /// Next trains to send, in order.
    queue: Queue,
    /// Connections that will continue once there is room.
    waiting: Vec<ConnectionKey>,
    /// Discarded datagrams that have already been counted.
    discarded: u32,
}

/// Tells if the socket has room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Room {
    Available,
    Missing,
    /// The socket is full, and we have asked the event loop to tell us once this changes.
    Awaited,
}

/// Trains that have not been sent.
#[derive(Debug, Default)]
struct Queue {
    trains: Vec<QueuedTrain>,
    /// Contents of all trains.
    bytes: Vec<u8>,
}

#[derive(Debug)]
struct QueuedTrain {
    destination: SocketAddr,
    source: Option<IpAddr>,
    ecn: Option<Ecn>,
    bytes: usize,
    segment_bytes: Option<usize>,
}

impl<D: DatagramSocket> Outlet<D> {
    pub(super) fn new(socket: D) -> Outlet<D> {
        Outlet { socket, room: Room::Available, queue: Queue::default(), waiting: Vec::new(), discarded: 0 }
    }

    pub(super) fn socket(&self) -> &D {
        &self.socket
    }

    /// Counts datagrams discarded by the kernel. If the system has refused GSO, this is also counted and a
    /// notice returned.
    pub(super) fn count(&mut self, observer: &mut Observer) -> Option<Notice> {
        let discarded = self.socket.discarded();
        let more = discarded.wrapping_sub(std::mem::replace(&mut self.discarded, discarded));
        observer.count_http3(Http3Metric::DatagramsDiscarded, more.into());
        let error = self.socket.take_gso_error()?;
        observer.count_http3(Http3Metric::GsoFailures, 1);
        Some(Notice::SegmentationOff { address: self.socket.local_address(), why: error.to_string() })
    }

    /// Returns `true` if the socket is full.
    pub(super) fn is_blocked(&self) -> bool {
        self.room != Room::Available
    }

    /// Calls `request`, but only once, to get an event when a full socket has room again.
    pub(super) fn await_room(&mut self, request: impl FnOnce(&D) -> io::Result<()>) {
        if self.room == Room::Missing {
            self.room = Room::Awaited;
            // If this fails, the connections will continue when the next datagram is received.
            let _ = request(&self.socket);
        }
    }

    /// Continues a connection once there is room.
    pub(super) fn resume_later(&mut self, key: ConnectionKey) {
        self.waiting.push(key);
    }

    /// Sends a train. Short ones may be sent later, but no later than the next [`flush`](Self::flush). If
    /// the socket is full, the train is kept and callers must not send any more.
    pub(super) fn send(&mut self, train: &Train<'_>) {
        debug_assert!(!self.is_blocked(), "trains keep their order");
        if train.bytes.len() <= GATHERED_TRAIN_BYTES_MAX {
            self.queue.push(train);
            if self.queue.trains.len() == GATHERED_TRAINS_MAX {
                self.flush();
            }
            return;
        }

        self.flush();
        if self.is_blocked() {
            self.queue.push(train);
        } else if let SendOutcome::Blocked { sent_bytes } = self.socket.send(train) {
            self.queue.push(&train.without_first(sent_bytes));
            self.room = Room::Missing;
        }
    }

    /// Sends the gathered trains, if there is room.
    pub(super) fn flush(&mut self) {
        while !self.is_blocked() && !self.queue.trains.is_empty() {
            self.room = self.queue.send(&self.socket);
        }
    }

    /// Must be called when there might be room again, in order to send the trains that were kept. Returns the
    /// connections that can continue, if any.
    pub(super) fn unblock(&mut self) -> Vec<ConnectionKey> {
        if !self.is_blocked() {
            return Vec::new();
        }
        self.room = Room::Available;
        self.flush();
        if self.is_blocked() { Vec::new() } else { std::mem::take(&mut self.waiting) }
    }
}

impl Queue {
    fn push(&mut self, train: &Train<'_>) {
        let Train { destination, source, ecn, bytes, segment_bytes } = *train;
        self.bytes.extend_from_slice(bytes);
        self.trains.push(QueuedTrain { destination, source, ecn, bytes: bytes.len(), segment_bytes });
    }

    /// Sends the first few trains with a single call before removing them.
    fn send<D: DatagramSocket>(&mut self, socket: &D) -> Room {
        let Some(first) = self.trains.first() else { return Room::Available };
        let mut trains = [first.with_bytes(&[]); GATHERED_TRAINS_MAX];
        let mut rest = self.bytes.as_slice();
        let mut count = 0;

        for (train, queued) in trains.iter_mut().zip(&self.trains) {
            let (bytes, after) = rest.split_at(queued.bytes);
            *train = queued.with_bytes(bytes);
            rest = after;
            count += 1;
        }

        let progress = socket.send_all(&trains[..count]);
        self.remove(progress.trains, progress.sent_bytes);
        if progress.trains < count { Room::Missing } else { Room::Available }
    }

    /// Removes the first trains, and the first bytes of the next one.
    fn remove(&mut self, trains: usize, bytes_of_next: usize) {
        let bytes: usize = self.trains.drain(..trains).map(|train| train.bytes).sum();
        self.bytes.drain(..bytes + bytes_of_next);
        if let Some(next) = self.trains.first_mut() {
            next.bytes -= bytes_of_next;
        }
    }
}

impl QueuedTrain {
    fn with_bytes<'a>(&self, bytes: &'a [u8]) -> Train<'a> {
        Train {
            destination: self.destination,
            source: self.source,
            ecn: self.ecn,
            bytes,
            segment_bytes: self.segment_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use cannery_eventloop::{Backlog, ReceiveBatch};

    use super::*;

    /// A socket for which the system has refused GSO.
    struct Refused(Cell<Option<io::Error>>);

    impl DatagramSocket for Refused {
        fn receive(&self, _: &mut ReceiveBatch) -> io::Result<Backlog> {
            Ok(Backlog::Empty)
        }

        fn send(&self, _: &Train<'_>) -> SendOutcome {
            SendOutcome::Sent
        }

        fn local_address(&self) -> SocketAddr {
            ([192, 0, 2, 1], 443).into()
        }

        fn take_gso_error(&self) -> Option<io::Error> {
            self.0.take()
        }
    }

    #[test]
    fn end_of_gso_is_reported_once() {
        let error = io::Error::from_raw_os_error(5);
        let text = error.to_string();
        let mut outlet = Outlet::new(Refused(Cell::new(Some(error))));
        let mut observer = Observer::default();
        let notice = outlet.count(&mut observer).expect("GSO was refused");
        assert!(notice.is_warning());
        assert!(
            notice.to_string().contains("192.0.2.1:443") && notice.to_string().contains(&text),
            "{notice}"
        );
        assert!(outlet.count(&mut observer).is_none());
    }
}
