//! Accepts connections: from listeners, and from workers that pass on some of theirs.

use std::io;

use cannery_eventloop::{Accepted, EventLoop};

use super::Worker;
use crate::config::ListenerKind;
use crate::connection::Connection;

/// In one iteration, we accept at most this many connections from a listener. While thousands may be
/// waiting, they should not hold up the connections that are already open.
pub(crate) const ACCEPTED_MAX: usize = 128;

/// Tells if clients are waiting to be accepted, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Backlog {
    /// None are waiting.
    Empty,
    /// They are waiting for a connection to close because we have reached the limit of connections or memory.
    Full,
    /// They have to wait for the next iteration (which will not block) because [`ACCEPTED_MAX`] connections
    /// were accepted in this one.
    Limit,
    /// They have to wait for the next tick because the kernel was out of descriptors or memory. Trying
    /// again in each iteration would make the worker spin.
    Kernel,
}

impl<L: EventLoop> Worker<L> {
    /// Accepts up to `accepted_max` connections from a listener.
    pub(super) fn accept(&mut self, number: u32, accepted_max: usize) {
        for _ in 0..accepted_max {
            let Some((kind, listener)) = self.listeners.get(number as usize) else { return };
            if !self.has_place() {
                self.backlog = Backlog::Full;
                return;
            }

            match self.events.accept(listener) {
                Ok(Some(accepted)) => {
                    let kind = *kind;
                    // Workers may number their listeners differently, so tag the connection with its kind.
                    if let Some(accepted) = self.events.transfer(accepted, kind.tag()) {
                        self.begin(accepted, kind);
                    }
                }
                Ok(None) => return,
                // The client has given up, but there might be others.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    self.backlog = Backlog::Kernel;
                    return;
                }
            }
        }
        self.backlog = Backlog::Limit;
    }

    /// Takes over connections that other workers have passed to us.
    pub(super) fn accept_handed_over(&mut self) {
        while let Some((tag, accepted)) = self.events.next_transferred() {
            self.begin(accepted, ListenerKind::from_tag(tag));
        }
    }

    fn begin(&mut self, accepted: Accepted<L::Socket>, kind: ListenerKind) {
        let connection = Connection::new(accepted, kind, &self.cx);
        let memory = connection.memory();
        let events = &mut self.events;

        // If the event loop cannot watch the socket, we drop it, and the client can try again.
        let begun = self.connections.insert(|token| {
            events.add_socket(connection.socket(), token)?;
            Ok::<_, io::Error>(connection)
        });

        if begun.is_ok() {
            self.cx.memory.change(0, memory);
            self.cx.observer.connection_accepted();
            self.events.set_load(self.connections.len());
        }
    }

    /// Accepts clients that have been waiting.
    pub(super) fn accept_waiting(&mut self) {
        self.backlog = Backlog::Empty;
        for number in (0..).take(self.listeners.len()) {
            if self.standbys.is_watched(number as usize) {
                self.accept(number, ACCEPTED_MAX);
            }
        }
    }
}
