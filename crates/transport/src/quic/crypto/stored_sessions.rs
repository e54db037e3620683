//! Sessions that clients can resume with early data (0-RTT). They are stored by the server, and each can be
//! taken only once.
//!
//! When an observer repeats the first packets of a client, the session no longer exists, so the early data is
//! never read again (RFC 8446 §8.1). Other processes do not have the session either. Note that a client whose
//! session is gone needs a full handshake.

use std::collections::HashMap;
use std::fmt;
use std::mem;
use std::sync::{Mutex, PoisonError};

use rustls::server::StoresServerSessions;

use crate::limits::QUIC_STORED_SESSIONS_MAX;

/// Sessions of all endpoints of a context.
#[derive(Default)]
pub(crate) struct StoredSessions(Mutex<Halves>);

/// Two sets of sessions. When the newer one is full, it replaces the older one.
#[derive(Default)]
struct Halves {
    newer: HashMap<Vec<u8>, Vec<u8>>,
    older: HashMap<Vec<u8>, Vec<u8>>,
}

impl StoresServerSessions for StoredSessions {
    fn put(&self, id: Vec<u8>, session: Vec<u8>) -> bool {
        let mut dropped = HashMap::new();
        let mut halves = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if halves.newer.len() >= QUIC_STORED_SESSIONS_MAX / 2 {
            let full = mem::take(&mut halves.newer);
            dropped = mem::replace(&mut halves.older, full);
        }
        halves.newer.insert(id, session);

        // There can be thousands of old sessions. Free them after unlocking, otherwise other workers might
        // have to wait.
        drop(halves);
        drop(dropped);
        true
    }

    /// Always returns `None` because sessions may only be taken.
    fn get(&self, _id: &[u8]) -> Option<Vec<u8>> {
        None
    }

    fn take(&self, id: &[u8]) -> Option<Vec<u8>> {
        let mut halves = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        halves.newer.remove(id).or_else(|| halves.older.remove(id))
    }

    fn can_cache(&self) -> bool {
        true
    }
}

impl fmt::Debug for StoredSessions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("StoredSessions").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_is_taken_once() {
        let sessions = StoredSessions::default();
        assert!(sessions.can_cache() && sessions.put(vec![1], vec![7]));
        assert_eq!(sessions.get(&[1]), None);
        assert_eq!(sessions.take(&[1]), Some(vec![7]));
        assert_eq!(sessions.take(&[1]), None);
    }

    #[test]
    fn oldest_sessions_are_dropped() {
        let sessions = StoredSessions::default();
        let id = |number: usize| number.to_be_bytes().to_vec();
        for number in 0..3 * QUIC_STORED_SESSIONS_MAX {
            sessions.put(id(number), Vec::new());
            let halves = sessions.0.lock().unwrap();
            assert!(halves.newer.len() + halves.older.len() <= QUIC_STORED_SESSIONS_MAX);
        }
        let last = 3 * QUIC_STORED_SESSIONS_MAX - 1;
        assert!(sessions.take(&id(last)).is_some());
        assert!(sessions.take(&id(last - QUIC_STORED_SESSIONS_MAX / 2)).is_some());
        assert!(sessions.take(&id(last - QUIC_STORED_SESSIONS_MAX)).is_none());
    }
}
