//! Issues connection IDs, and routes datagrams by them.
//!
//! ```text
//! byte 0                         [1..9]      then      then       last two
//! config 3 | generation 2 | r 3  server ID   worker    r 6 bytes  check
//! ```
//!
//! A connection ID has 10 bytes, or 18 bytes if it also contains a server ID for a load balancer
//! (draft-ietf-quic-load-balancers, plaintext algorithm). In the latter case, the highest three bits of the
//! first byte are 0; otherwise they are 7, which means "not routable".
//!
//! The kernel selects a socket by the worker and the generation of the process, so these are in plaintext.
//! `r` is random; with 51 bits, we can assume that an ID and its stateless reset token are never issued
//! twice.
//!
//! The check is a function of all other bytes, using a key derived from the seed. It allows us to
//! recognize IDs issued by a process of this server without a table, so foreign datagrams cause neither
//! stateless resets nor forwarding.

use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::aead::quic::{AES_128, AES_256, HeaderProtectionKey};
use quinn_proto::{ConnectionId, ConnectionIdGenerator, InvalidCid};
use zeroize::Zeroizing;

use super::packets::packet_type::LONG_HEADER;
use crate::credentials::seed::StaticSecret;

/// Identifies this server to a load balancer. All processes of the server use the same bytes.
pub type ServerId = [u8; SERVER_ID_BYTES];

const SERVER_ID_BYTES: usize = 8;
const RANDOM_BYTES: usize = 6;
const CHECK_BYTES: usize = 2;

/// Maximum length of a connection ID that we issue.
const BYTES_MAX: usize = 1 + SERVER_ID_BYTES + 1 + RANDOM_BYTES + CHECK_BYTES;

/// Maximum length of a connection ID in version 1 (RFC 9000 §17.2).
const VERSION_1_ID_BYTES_MAX: usize = 20;

/// Size of an AES block. A connection ID without the check fits into a block.
const BLOCK_BYTES: usize = 16;
const _: () = assert!(BYTES_MAX - CHECK_BYTES <= BLOCK_BYTES);

/// Configuration bits of an ID without a server ID, which tell a load balancer not to look for one.
const NOT_ROUTABLE: u8 = 0b1110_0000;

/// Positions of the destination connection ID in a datagram. In a long header, it follows the flags, the
/// version, and its own length; in a short header, it follows the flags.
const LONG_ID_START: usize = 6;
const SHORT_ID_START: usize = 1;

/// Tells the processes of a server apart that serve at the same time during a takeover.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Generation(u8);

impl Generation {
    /// Creates a generation from the lowest two bits of a number.
    pub const fn new(number: u8) -> Self {
        Self(number & 3)
    }

    /// Returns the generation for a process that takes over. They repeat after four.
    #[must_use]
    pub const fn next(self) -> Self {
        Self::new(self.0 + 1)
    }

    /// Returns the number, from 0 to 3.
    pub const fn number(self) -> u8 {
        self.0
    }
}

/// The endpoint that issued a connection ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Issuer {
    /// Number of the worker.
    pub worker: u8,
    /// Generation of the process.
    pub generation: Generation,
}

/// Length of connection IDs, and the position of the worker in them.
///
/// A filter in the kernel applies the same rule as [`worker_of`](Self::worker_of) to ensure that
/// all datagrams of a connection reach the same worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionIdLayout {
    server_id: Option<ServerId>,
}

impl ConnectionIdLayout {
    /// Returns the layout of connection IDs, with or without a server ID.
    #[must_use]
    pub const fn new(server_id: Option<ServerId>) -> Self {
        Self { server_id }
    }

    /// Returns the length of a connection ID, in bytes.
    pub const fn id_bytes(self) -> usize {
        self.worker_offset() + 1 + RANDOM_BYTES + CHECK_BYTES
    }

    /// Returns where a connection ID contains the worker.
    pub const fn worker_offset(self) -> usize {
        match self.server_id {
            None => 1,
            Some(_) => 1 + SERVER_ID_BYTES,
        }
    }

    /// Selects the byte of a datagram that determines the worker, to be taken modulo the number of
    /// workers.
    ///
    /// For the first datagrams of a client, which has chosen the ID itself, the byte is random. If the
    /// datagram is too short, this returns 0, just like a classic BPF program that loads beyond the end.
    pub fn worker_of(self, datagram: &[u8]) -> u8 {
        let byte = |position: usize| datagram.get(position).copied();
        let position = match (byte(0), byte(LONG_ID_START - 1)) {
            (None, _) | (Some(LONG_HEADER..), None) => return 0,
            (Some(..LONG_HEADER), _) => SHORT_ID_START + self.worker_offset(),
            (Some(_), Some(id_bytes)) if usize::from(id_bytes) > self.worker_offset() => {
                LONG_ID_START + self.worker_offset()
            }
            // The first ID of a client has at least eight bytes (RFC 9000 §7.2).
            (Some(_), Some(_)) => LONG_ID_START + 3,
        };
        byte(position).unwrap_or(0)
    }

    /// Reads the issuer named in a datagram's destination connection ID. Note that this does not check
    /// whether the ID was really issued by one of our processes.
    #[inline]
    pub fn named_issuer(self, datagram: &[u8]) -> Option<Issuer> {
        let id = self.destination(datagram)?;
        Some(Issuer { worker: id[self.worker_offset()], generation: Generation::new(id[0] >> 3) })
    }

    /// Returns a datagram's destination connection ID if its length is that of the IDs we issue.
    fn destination(self, datagram: &[u8]) -> Option<&[u8]> {
        let start = match datagram.first()? {
            ..LONG_HEADER => SHORT_ID_START,
            _ if usize::from(*datagram.get(LONG_ID_START - 1)?) == self.id_bytes() => LONG_ID_START,
            _ => return None,
        };
        datagram.get(start..)?.get(..self.id_bytes())
    }
}

/// Parses a datagram's destination connection ID if it starts with a long header. If it does not, or
/// if the ID is longer than version 1 allows (RFC 9000 §17.2), this is `None`.
pub(super) fn long_header_destination(datagram: &[u8]) -> Option<ConnectionId> {
    let (LONG_HEADER.., length) = (*datagram.first()?, usize::from(*datagram.get(LONG_ID_START - 1)?)) else {
        return None;
    };
    let id = datagram.get(LONG_ID_START..)?.get(..length)?;
    (length <= VERSION_1_ID_BYTES_MAX).then(|| ConnectionId::new(id))
}

/// Checks connection IDs, and computes the check for new ones.
pub(super) struct ConnectionIds {
    layout: ConnectionIdLayout,
    key: HeaderProtectionKey,
}

impl ConnectionIds {
    pub(super) fn new(layout: ConnectionIdLayout, secret: &StaticSecret) -> Self {
        let mut key = Zeroizing::new([0; 16]);
        secret.derive(b"cannery quic: connection ids", &mut *key);
        let key = HeaderProtectionKey::new(&AES_128, &*key).expect("the key has the algorithm's length");
        Self { layout, key }
    }

    pub(super) fn layout(&self) -> ConnectionIdLayout {
        self.layout
    }

    /// Verifies that a datagram's destination connection ID was issued by a process of this server. If
    /// so, the issuer is returned.
    pub(super) fn issuer_of(&self, datagram: &[u8]) -> Option<Issuer> {
        let id = self.layout.destination(datagram)?;
        if self.is_ours(id) { self.layout.named_issuer(datagram) } else { None }
    }

    /// Returns `true` if the connection ID was issued by a process of this server.
    fn is_ours(&self, id: &[u8]) -> bool {
        id.len() == self.layout.id_bytes()
            && id.split_last_chunk().is_some_and(|(start, check)| self.check(start) == *check)
    }

    /// Computes the check of an ID's other bytes, which must not be longer than a block.
    fn check(&self, start: &[u8]) -> [u8; CHECK_BYTES] {
        let mut block = [0; BLOCK_BYTES];
        block[..start.len()].copy_from_slice(start);
        let [first, second, ..] = encrypt(&self.key, block);
        [first, second]
    }
}

/// Generates connection IDs for an endpoint.
pub(super) struct IdGenerator {
    ids: Arc<ConnectionIds>,
    issuer: Issuer,
    /// Encrypts a counter. The output is unpredictable and will not repeat unless the endpoint's seed does.
    random: HeaderProtectionKey,
    count: u64,
}

impl IdGenerator {
    /// Creates a generator. `random_key` must not be used for anything else.
    pub(super) fn new(ids: Arc<ConnectionIds>, issuer: Issuer, random_key: &[u8; 32]) -> Self {
        let random =
            HeaderProtectionKey::new(&AES_256, random_key).expect("the key has the algorithm's length");
        Self { ids, issuer, random, count: 0 }
    }

    fn random(&mut self) -> [u8; MASK_BYTES] {
        let mut block = [0; BLOCK_BYTES];
        block[..8].copy_from_slice(&self.count.to_be_bytes());
        self.count += 1;
        encrypt(&self.random, block)
    }
}

impl ConnectionIdGenerator for IdGenerator {
    fn generate_cid(&mut self) -> ConnectionId {
        let layout = self.ids.layout;
        let [bits, r0, r1, r2, r3] = self.random();
        let [r4, r5, ..] = self.random();

        let mut id = [0; BYTES_MAX];
        let id = &mut id[..layout.id_bytes()];
        id[0] = self.issuer.generation.number() << 3 | bits & 7;
        match layout.server_id {
            None => id[0] |= NOT_ROUTABLE,
            Some(server_id) => id[1..=SERVER_ID_BYTES].copy_from_slice(&server_id),
        }

        let worker = layout.worker_offset();
        id[worker] = self.issuer.worker;
        id[worker + 1..][..RANDOM_BYTES].copy_from_slice(&[r0, r1, r2, r3, r4, r5]);

        let (start, check) = id.split_at_mut(layout.id_bytes() - CHECK_BYTES);
        check.copy_from_slice(&self.ids.check(start));
        ConnectionId::new(id)
    }

    fn validate(&self, id: &ConnectionId) -> Result<(), InvalidCid> {
        if self.ids.is_ours(id) { Ok(()) } else { Err(InvalidCid) }
    }

    fn cid_len(&self) -> usize {
        self.ids.layout.id_bytes()
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

/// Length, in bytes, of a header protection mask (RFC 9001 §5.4.1). The library returns this part of an
/// encrypted block.
const MASK_BYTES: usize = 5;

/// Encrypts a block with AES and returns the first bytes, which the library offers as the header protection
/// mask (RFC 9001 §5.4.3).
fn encrypt(key: &HeaderProtectionKey, block: [u8; BLOCK_BYTES]) -> [u8; MASK_BYTES] {
    key.new_mask(&block).expect("the sample has the length of a block")
}

#[cfg(test)]
mod tests;
