//! New connections of a worker: from its listeners, and from overloaded workers.

use std::io;

use cannery_eventloop::{Accepted, EventLoop};

use super::Worker;
use crate::config::ListenerKind;
use crate::connection::Connection;

/// Connections that one loop iteration accepts from a listener. Thousands may wait, and open connections must not wait for
/// all of them.
pub(crate) const ACCEPTED_MAX: usize = 128;

/// Whether clients wait to be accepted, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Backlog {
    /// None wait.
    Empty,
    /// They wait for a connection to close: the limit of connections or of their memory is reached.
    Full,
    /// They wait for the next iteration, which doesn't wait for events: [`ACCEPTED_MAX`] is reached.
    Limit,
    /// They wait for the next tick: the kernel had no descriptor or no memory. To try again in each iteration would
    /// spin.
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
                    // Workers may number their listeners differently, so the tag is the kind.
                    if let Some(accepted) = self.events.transfer(accepted, kind.tag()) {
                        self.begin(accepted, kind);
                    }
                }
                Ok(None) => return,
                // The client has given up. Another one may wait.
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

    /// Begins the connections that other workers have passed to this one.
    pub(super) fn accept_handed_over(&mut self) {
        while let Some((tag, accepted)) = self.events.next_transferred() {
            self.begin(accepted, ListenerKind::from_tag(tag));
        }
    }

    fn begin(&mut self, accepted: Accepted<L::Socket>, kind: ListenerKind) {
        let connection = Connection::new(accepted, kind, &self.cx);
        let memory = connection.memory();
        let events = &mut self.events;
        // If the event loop can't watch it, the connection closes, and the client tries again.
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

    /// Accepts clients that wait.
    pub(super) fn accept_waiting(&mut self) {
        self.backlog = Backlog::Empty;
        for number in (0..).take(self.listeners.len()) {
            if self.standbys.is_watched(number as usize) {
                self.accept(number, ACCEPTED_MAX);
            }
        }
    }
}
