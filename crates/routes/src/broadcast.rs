//! Events for many clients.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::events::{Event, EventWriter};
use crate::response::Response;

/// Clients that have left are forgotten at the latest when there are this many.
const SWEEP_CLIENTS_MIN: usize = 64;

/// Sends each event to all clients that listen.
///
/// ```
/// # extern crate cannery_routes as cannery;
/// use cannery::{Broadcast, Event, Request, Response};
///
/// static NEWS: Broadcast = Broadcast::new();
///
/// fn listen(_: &Request) -> Response {
///     NEWS.subscribe()
/// }
///
/// fn publish(text: &str) {
///     NEWS.send(&Event::new(text));
/// }
/// ```
#[derive(Debug)]
pub struct Broadcast {
    clients: Mutex<Clients>,
}

#[derive(Debug)]
struct Clients {
    writers: Vec<EventWriter>,
    /// Number of clients at which we look for those that have left.
    sweep_at: usize,
}

impl Broadcast {
    /// Creates a broadcast without clients.
    #[must_use]
    pub const fn new() -> Broadcast {
        Broadcast { clients: Mutex::new(Clients { writers: Vec::new(), sweep_at: SWEEP_CLIENTS_MIN }) }
    }

    /// Returns a response that gets all events from now on. It occupies no thread.
    #[must_use]
    pub fn subscribe(&self) -> Response {
        let (writer, response) = Response::events();
        let mut clients = self.lock();
        if clients.writers.len() >= clients.sweep_at {
            // Without events, nothing else would forget them.
            clients.writers.retain(|writer| !writer.is_cancelled());
            clients.sweep_at = (2 * clients.writers.len()).max(SWEEP_CLIENTS_MIN);
        }
        clients.writers.push(writer);
        response
    }

    /// Sends an event to all clients, without blocking. Forgets those that have left, and those that are too slow: their stream ends,
    /// so browsers connect again.
    pub fn send(&self, event: &Event) {
        let text = event.to_text();
        self.lock().writers.retain_mut(|writer| writer.try_send_text(&text).is_ok());
    }

    /// Sends a comment to all clients. See [`EventWriter::keep_alive`].
    pub fn keep_alive(&self) {
        self.lock().writers.retain_mut(|writer| writer.keep_alive().is_ok());
    }

    fn lock(&self) -> MutexGuard<'_, Clients> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Broadcast {
    fn default() -> Broadcast {
        Broadcast::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listening(broadcast: &Broadcast) -> usize {
        broadcast.lock().writers.len()
    }

    #[test]
    fn all_clients_get_each_event() {
        let broadcast = Broadcast::new();
        broadcast.send(&Event::new("nobody listens"));
        let first = broadcast.subscribe();
        assert_eq!(first.header("Content-Type"), Some("text/event-stream"));
        broadcast.send(&Event::new("a"));
        let second = broadcast.subscribe();
        broadcast.send(&Event::new("b").with_name("n"));
        broadcast.keep_alive();
        for writer in broadcast.lock().writers.drain(..) {
            writer.finish();
        }
        assert_eq!(first.into_content().unwrap(), b"data: a\n\nevent: n\ndata: b\n\n:\n\n");
        assert_eq!(second.into_content().unwrap(), b"event: n\ndata: b\n\n:\n\n");
    }

    #[test]
    fn slow_clients_are_forgotten() {
        let broadcast = Broadcast::new();
        let slow = broadcast.subscribe();
        let event = Event::new("x".repeat(1000));
        for _ in 0..1000 {
            broadcast.send(&event);
        }
        assert_eq!(listening(&broadcast), 0);
        assert!(slow.into_content().is_err(), "the client can tell that it has missed some");
    }

    #[test]
    fn clients_that_have_left_are_forgotten() {
        let broadcast = Broadcast::new();
        let stays = broadcast.subscribe();
        for _ in 0..10 * SWEEP_CLIENTS_MIN {
            drop(broadcast.subscribe());
            assert!(listening(&broadcast) <= SWEEP_CLIENTS_MIN, "also without events");
        }
        broadcast.send(&Event::new("a"));
        assert_eq!(listening(&broadcast), 1);
        drop(stays);
    }
}
