//! How a worker gets its connections: from its listeners, and from other workers that have more.
//!
//! Never reads a byte of them.

use std::io;

use cannery_eventloop::{Accepted, EventLoop};

use super::Worker;
use crate::config::ListenerKind;
use crate::connection::Connection;

/// Connections that one turn accepts from a listener: thousands may wait, and those who are connected already
/// shall not wait for all of them.
pub(crate) const ACCEPTED_MAX: usize = 128;

/// Whether somebody waits to be accepted whom there was no place for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Crowding {
    /// Nobody.
    None,
    /// There are as many connections as there may be, or they keep as much memory as they may: looked at again when one
    /// ends.
    Full,
    /// There are more than one turn accepts: looked at again in the next, which does not wait.
    Turn,
    /// The kernel had no descriptor, or no memory: looked at again at each tick, since to ask in each turn
    /// would spin.
    Kernel,
}

impl<L: EventLoop> Worker<L> {
    /// Accepts connections that wait, up to so many.
    pub(super) fn accept(&mut self, number: u32, accepted_max: usize) {
        for _ in 0..accepted_max {
            let Some(listener) = self.listeners.get(number as usize) else { return };
            if !self.has_place() {
                self.crowding = Crowding::Full;
                return;
            }
            match self.events.accept(listener) {
                Ok(Some(accepted)) => {
                    let kind = self.kinds.get(number as usize).copied().unwrap_or(ListenerKind::Plain);
                    // Workers may number their listeners differently: what they tell each other is the kind.
                    if let Some(accepted) = self.events.transfer(accepted, kind.number()) {
                        self.begin(accepted, kind);
                    }
                }
                Ok(None) => return,
                // The peer gave up before we looked: the next one may not have.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    self.crowding = Crowding::Kernel;
                    return;
                }
            }
        }
        self.crowding = Crowding::Turn;
    }

    /// Begins with the connections that other workers have handed to this one.
    pub(super) fn take_over(&mut self) {
        while let Some((number, accepted)) = self.events.next_transferred() {
            self.begin(accepted, ListenerKind::of_number(number));
        }
    }

    fn begin(&mut self, accepted: Accepted<L::Socket>, kind: ListenerKind) {
        let connection = Connection::new(accepted, kind, &self.shared);
        let memory = connection.memory();
        let events = &mut self.events;
        // Where the kernel cannot watch it, the connection is closed: the peer will try again.
        let begun = self.connections.insert(|token| {
            events.add_socket(connection.socket(), token)?;
            Ok::<_, io::Error>(connection)
        });
        if begun.is_ok() {
            self.shared.memory.change(0, memory);
            self.shared.observer.accepted();
            self.events.set_load(self.connections.len());
        }
    }

    /// Tries again to accept those whom there was no place for.
    pub(super) fn accept_waiting(&mut self) {
        self.crowding = Crowding::None;
        for number in (0..).take(self.listeners.len()) {
            if self.standbys.is_watched(number as usize) {
                self.accept(number, ACCEPTED_MAX);
            }
        }
    }
}
