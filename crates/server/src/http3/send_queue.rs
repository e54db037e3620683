//! A UDP socket of the worker. It gathers short segment batches, and keeps those that do not fit into the
//! socket.
//!
//! Since many connections only send short responses, a single call can send the segment batches of several
//! connections. Long segment batches are sent separately in order to avoid the copy.

use std::io;
use std::net::{IpAddr, SocketAddr};

use cannery_eventloop::{DatagramSocket, Ecn, SegmentBatch, SendOutcome};
use cannery_transport::quic::ConnectionKey;

use super::limits::{GATHERED_BATCH_BYTES_MAX, GATHERED_BATCHES_MAX};
use crate::notice::Notice;
use crate::observe::{Http3Metric, Observer};

/// A UDP socket with a send queue.
#[derive(Debug)]
pub(super) struct SendQueue<D> {
    socket: D,
    writability: Writability,
    /// Next segment batches to send, in order.
    gathered: Gathered,
    /// Connections that will continue once there is room.
    waiting: Vec<ConnectionKey>,
    /// Discarded datagrams that have already been counted.
    discarded: u32,
}

/// Tells if the socket takes more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Writability {
    Writable,
    Full,
    /// The socket is full, and we have asked the event loop to tell us once this changes.
    Awaited,
}

/// Segment batches that have not been sent yet.
#[derive(Debug, Default)]
struct Gathered {
    batches: Vec<QueuedBatch>,
    /// Contents of all segment batches.
    bytes: Vec<u8>,
}

#[derive(Debug)]
struct QueuedBatch {
    destination: SocketAddr,
    source: Option<IpAddr>,
    ecn: Option<Ecn>,
    bytes: usize,
    segment_bytes: Option<usize>,
}

impl<D: DatagramSocket> SendQueue<D> {
    pub(super) fn new(socket: D) -> SendQueue<D> {
        SendQueue {
            socket,
            writability: Writability::Writable,
            gathered: Gathered::default(),
            waiting: Vec::new(),
            discarded: 0,
        }
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
        self.writability != Writability::Writable
    }

    /// Calls `request`, but only once, to get an event when a full socket has room again.
    pub(super) fn await_room(&mut self, request: impl FnOnce(&D) -> io::Result<()>) {
        if self.writability == Writability::Full {
            self.writability = Writability::Awaited;
            // If this fails, the connections will continue when the next datagram is received.
            let _ = request(&self.socket);
        }
    }

    /// Continues a connection once there is room.
    pub(super) fn resume_later(&mut self, key: ConnectionKey) {
        self.waiting.push(key);
    }

    /// Sends a segment batch. Short ones may be sent later, but no later than the next [`flush`](Self::flush). If
    /// the socket is full, the segment batch is kept and callers must not send any more.
    pub(super) fn send(&mut self, segments: &SegmentBatch<'_>) {
        debug_assert!(!self.is_blocked(), "batches keep their order");
        if segments.bytes.len() <= GATHERED_BATCH_BYTES_MAX {
            self.gathered.push(segments);
            if self.gathered.batches.len() == GATHERED_BATCHES_MAX {
                self.flush();
            }
            return;
        }

        self.flush();
        if self.is_blocked() {
            self.gathered.push(segments);
        } else if let SendOutcome::Blocked { sent_bytes } = self.socket.send(segments) {
            self.gathered.push(&segments.without_first(sent_bytes));
            self.writability = Writability::Full;
        }
    }

    /// Sends the gathered segment batches, if there is room.
    pub(super) fn flush(&mut self) {
        while !self.is_blocked() && !self.gathered.batches.is_empty() {
            self.writability = self.gathered.send(&self.socket);
        }
    }

    /// Must be called when there might be room again, in order to send the segment batches that were kept. Returns the
    /// connections that can continue, if any.
    pub(super) fn unblock(&mut self) -> Vec<ConnectionKey> {
        if !self.is_blocked() {
            return Vec::new();
        }
        self.writability = Writability::Writable;
        self.flush();
        if self.is_blocked() { Vec::new() } else { std::mem::take(&mut self.waiting) }
    }
}

impl Gathered {
    fn push(&mut self, segments: &SegmentBatch<'_>) {
        let SegmentBatch { destination, source, ecn, bytes, segment_bytes } = *segments;
        self.bytes.extend_from_slice(bytes);
        self.batches.push(QueuedBatch { destination, source, ecn, bytes: bytes.len(), segment_bytes });
    }

    /// Sends the first few segment batches with a single call before removing them.
    fn send<D: DatagramSocket>(&mut self, socket: &D) -> Writability {
        // Often, there is only one.
        if let [only] = self.batches.as_slice() {
            return match socket.send(&only.with_bytes(&self.bytes)) {
                SendOutcome::Sent | SendOutcome::Lost => {
                    self.batches.clear();
                    self.bytes.clear();
                    Writability::Writable
                }
                SendOutcome::Blocked { sent_bytes } => {
                    self.remove(0, sent_bytes);
                    Writability::Full
                }
            };
        }
        self.send_several(socket)
    }

    fn send_several<D: DatagramSocket>(&mut self, socket: &D) -> Writability {
        let Some(first) = self.batches.first() else { return Writability::Writable };
        let mut batches = [first.with_bytes(&[]); GATHERED_BATCHES_MAX];
        let mut rest = self.bytes.as_slice();
        let mut count = 0;

        for (segments, queued) in batches.iter_mut().zip(&self.batches) {
            let (bytes, after) = rest.split_at(queued.bytes);
            *segments = queued.with_bytes(bytes);
            rest = after;
            count += 1;
        }

        let progress = socket.send_all(&batches[..count]);
        self.remove(progress.batches, progress.sent_bytes);
        if progress.batches < count { Writability::Full } else { Writability::Writable }
    }

    /// Removes the first segment batches, and the first bytes of the next one.
    fn remove(&mut self, batches: usize, bytes_of_next: usize) {
        let bytes: usize = self.batches.drain(..batches).map(|segments| segments.bytes).sum();
        self.bytes.drain(..bytes + bytes_of_next);
        if let Some(next) = self.batches.first_mut() {
            next.bytes -= bytes_of_next;
        }
    }
}

impl QueuedBatch {
    fn with_bytes<'a>(&self, bytes: &'a [u8]) -> SegmentBatch<'a> {
        SegmentBatch {
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

        fn send(&self, _: &SegmentBatch<'_>) -> SendOutcome {
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
        let mut queue = SendQueue::new(Refused(Cell::new(Some(error))));
        let mut observer = Observer::default();
        let notice = queue.count(&mut observer).expect("GSO was refused");
        assert!(notice.is_warning());
        assert!(
            notice.to_string().contains("192.0.2.1:443") && notice.to_string().contains(&text),
            "{notice}"
        );
        assert!(queue.count(&mut observer).is_none());
    }
}
