//! Keeps track of the peer's addresses and of the amount of data that may be sent to each of them.
//!
//! A peer proves an address by responding to a PATH_CHALLENGE frame that was sent there (RFC 9000 §8.2).
//! Before that, we MUST NOT send more than three times as much to the address as we have received from it
//! (§8.1, §9.3). While `quinn-proto` also validates paths, it does not tell us the result and may exceed the
//! limit.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::limits::{
    QUIC_AMPLIFICATION_MAX, QUIC_PATH_CHALLENGES_MAX, QUIC_UNVALIDATED_ADDRESS_MS,
    QUIC_UNVALIDATED_ADDRESSES_MAX,
};

/// PATH_CHALLENGE frames to an address that can still be answered.
const CHALLENGES_REMEMBERED: usize = 4;

/// Addresses of a peer.
#[derive(Default)]
pub(super) struct Addresses {
    /// The address that was validated last.
    validated: Option<SocketAddr>,
    /// Most peers only have that one.
    others: Option<Box<Others>>,
}

/// Other addresses of a peer.
#[derive(Default)]
struct Others {
    /// The address that was validated before the last one.
    validated: Option<SocketAddr>,
    unvalidated: Vec<Unvalidated>,
}

/// An address that may be forged.
struct Unvalidated {
    address: SocketAddr,
    received: u64,
    sent: u64,
    /// Data of the PATH_CHALLENGE frames that were sent there. `quinn-proto` repeats a frame until it gives
    /// up.
    challenges: Vec<[u8; 8]>,
    /// The number of times that the last frame was sent.
    challenge_count: usize,
    last_received: Instant,
}

impl Addresses {
    /// Returns the address that was validated last.
    pub(super) fn last_validated(&self) -> Option<SocketAddr> {
        self.validated
    }

    #[inline]
    pub(super) fn is_validated(&self, address: SocketAddr) -> bool {
        self.validated == Some(address)
            || self.others.as_ref().is_some_and(|others| others.validated == Some(address))
    }

    /// Returns the addresses that have a limit.
    #[inline]
    fn unvalidated(&self) -> &[Unvalidated] {
        self.others.as_ref().map_or(&[], |others| &others.unvalidated)
    }

    /// Returns `true` if no address has a limit.
    #[inline]
    pub(super) fn are_validated(&self) -> bool {
        self.unvalidated().is_empty()
    }

    /// Records that the peer has proved this address.
    pub(super) fn validate(&mut self, address: SocketAddr) {
        if let Some(others) = &mut self.others {
            others.unvalidated.retain(|unvalidated| unvalidated.address != address);
        }
        if self.validated != Some(address)
            && let Some(previous) = self.validated.replace(address)
        {
            self.others.get_or_insert_default().validated = Some(previous);
        }
    }

    /// Counts a datagram from an address that is not validated. `current` is the address currently used by
    /// the connection.
    pub(super) fn receive(&mut self, now: Instant, address: SocketAddr, bytes: usize, current: SocketAddr) {
        let lifetime = Duration::from_millis(QUIC_UNVALIDATED_ADDRESS_MS);
        let is_recent = |last: Instant| now.saturating_duration_since(last) < lifetime;
        let unvalidated = &mut self.others.get_or_insert_default().unvalidated;
        unvalidated.retain(|known| {
            known.address == address || known.address == current || is_recent(known.last_received)
        });

        if let Some(known) = unvalidated.iter_mut().find(|known| known.address == address) {
            known.received += bytes as u64;
            known.last_received = now;
            return;
        }
        // Replace the oldest address, but keep the current one.
        if unvalidated.len() >= QUIC_UNVALIDATED_ADDRESSES_MAX {
            let others = unvalidated.iter().enumerate().filter(|(_, known)| known.address != current);
            let oldest = others.min_by_key(|(_, known)| known.last_received).map(|(index, _)| index);
            unvalidated.swap_remove(oldest.unwrap_or(0));
        }

        let received = bytes as u64;
        unvalidated.push(Unvalidated {
            address,
            received,
            sent: 0,
            challenges: Vec::new(),
            challenge_count: 0,
            last_received: now,
        });
    }

    /// Returns the number of bytes that can be sent to an address, or `None` if it has no limit.
    pub(super) fn allowance(&self, address: SocketAddr) -> Option<u64> {
        if self.is_validated(address) {
            return None;
        }
        let known = self.unvalidated().iter().find(|known| known.address == address);
        Some(known.map_or(0, Unvalidated::allowance))
    }

    /// Returns the smallest nonzero allowance of the other addresses.
    pub(super) fn least_allowance_of_others(&self, address: SocketAddr) -> Option<u64> {
        let others = self.unvalidated().iter().filter(|known| known.address != address);
        others.map(Unvalidated::allowance).filter(|allowance| *allowance > 0).min()
    }

    /// Counts a datagram to an address. Returns `false` if it must not be sent.
    pub(super) fn send(&mut self, address: SocketAddr, bytes: usize, challenge: Option<[u8; 8]>) -> bool {
        if self.is_validated(address) {
            return true;
        }
        let Some(known) = self.find(address) else { return false };
        if known.allowance() < bytes as u64 {
            return false;
        }
        known.sent += bytes as u64;
        if let Some(challenge) = challenge {
            known.challenge_count += 1;
            if known.challenges.last() != Some(&challenge) {
                known.challenge_count = 1;
                if known.challenges.len() == CHALLENGES_REMEMBERED {
                    known.challenges.remove(0);
                }
                known.challenges.push(challenge);
            }
        }
        true
    }

    /// Whether another PATH_CHALLENGE frame can be sent to an address because the last one might be lost.
    pub(super) fn may_challenge(&self, address: SocketAddr) -> bool {
        let known = self.unvalidated().iter().find(|known| known.address == address);
        known.is_some_and(|known| known.challenge_count < QUIC_PATH_CHALLENGES_MAX)
    }

    /// Validates the address that we have sent a PATH_CHALLENGE frame with this data to.
    pub(super) fn answer(&mut self, response: [u8; 8]) {
        let asked = self.unvalidated().iter().find(|known| known.challenges.contains(&response));
        if let Some(address) = asked.map(|known| known.address) {
            self.validate(address);
        }
    }

    fn find(&mut self, address: SocketAddr) -> Option<&mut Unvalidated> {
        self.others.as_mut()?.unvalidated.iter_mut().find(|known| known.address == address)
    }
}

impl Unvalidated {
    fn allowance(&self) -> u64 {
        (QUIC_AMPLIFICATION_MAX * self.received).saturating_sub(self.sent)
    }
}

#[cfg(test)]
mod tests;
