//! Tickets of earlier visits. They are collected first and given out afterwards: each once, as TLS 1.3 asks of clients
//! (RFC 8446 appendix C.4), and some servers send none in a handshake that was itself resumed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustls::NamedGroup;
use rustls::client::{ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls::pki_types::ServerName;

/// What a client keeps of one server, and of nobody else.
#[derive(Debug, Default)]
pub(super) struct Tickets {
    kept: Mutex<Vec<Tls13ClientSessionValue>>,
    gives: AtomicBool,
}

impl Tickets {
    /// From now on handshakes use them.
    pub(super) fn begin_giving(&self) {
        self.gives.store(true, Ordering::Relaxed);
    }

    pub(super) fn count(&self) -> usize {
        self.kept().len()
    }

    fn kept(&self) -> MutexGuard<'_, Vec<Tls13ClientSessionValue>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientSessionStore for Tickets {
    fn insert_tls13_ticket(&self, _: ServerName<'static>, ticket: Tls13ClientSessionValue) {
        self.kept().push(ticket);
    }

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        if self.gives.load(Ordering::Relaxed) { self.kept().pop() } else { None }
    }

    // There is one group, and no TLS 1.2.
    fn set_kx_hint(&self, _: ServerName<'static>, _: NamedGroup) {}

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        None
    }

    fn set_tls12_session(&self, _: ServerName<'static>, _: Tls12ClientSessionValue) {}

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        None
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {}
}
