//! How much memory a connection keeps between events.
//!
//! Sizes of what is kept in fixed structures are estimates; buffers are counted by what they have room for.

use cannery_eventloop::Socket;
use cannery_wire::limits::HPACK_TABLE_BYTES;

use super::Connection;
use super::context::Shared;
use super::protocol::Protocol;

/// A connection in the clear: its place among the others.
pub(super) const PLAIN_BYTES: u32 = 256;

/// What TLS adds while it shakes hands, and from then on.
pub(super) const HANDSHAKE_BYTES: u32 = 12 * 1024;
pub(super) const SESSION_BYTES: u32 = 2560;

/// What HTTP/2 adds: the tables of both sides, and what else is there from the beginning.
const HTTP2_BYTES: u32 = 5 * 1024;
const _: () = assert!(HPACK_TABLE_BYTES < HTTP2_BYTES as usize, "a full table counts");

impl<S: Socket> Connection<S> {
    /// The memory that it keeps, in bytes.
    #[inline]
    pub(crate) fn memory(&self) -> u32 {
        self.memory
    }

    /// The memory that it keeps, with what the event loop has received for it, in bytes.
    pub(crate) fn memory_with_received(&self) -> u32 {
        self.memory.saturating_add(u32::try_from(self.socket().kept_bytes()).unwrap_or(u32::MAX))
    }

    /// Counts again if it may keep something else than what was counted last, now that it is idle.
    #[inline]
    pub(super) fn count_if_not_idle(&mut self, shared: &mut Shared) {
        // In the clear HTTP/2 begins without further ado.
        let is_new = self.memory < HTTP2_BYTES && matches!(self.protocol, Protocol::H2(_));
        if self.memory != self.idle_memory || is_new {
            self.count_memory(shared);
        }
    }

    /// Counts what TLS keeps: the beginning of a record, or records that the client is slow to take.
    #[inline]
    pub(super) fn count_sealed(&mut self, shared: &mut Shared) {
        if let Some(secured) = self.transport.secured()
            && (secured.memory() > 0 || self.memory != self.idle_memory)
        {
            self.count_memory(shared);
        }
    }

    /// Counts what it keeps now.
    #[cold]
    pub(super) fn count_memory(&mut self, shared: &mut Shared) {
        let of_tls = match self.transport.secured() {
            None => 0,
            Some(secured) if secured.is_established() => SESSION_BYTES,
            Some(_) => HANDSHAKE_BYTES,
        };
        let of_protocol = if matches!(self.protocol, Protocol::H2(_)) { HTTP2_BYTES } else { 0 };
        self.idle_memory = PLAIN_BYTES + of_tls + of_protocol;

        let unsent = self.unsent.as_ref().map_or(0, |unsent| unsent.memory());
        let sealed = self.transport.secured().map_or(0, |secured| secured.memory());
        let buffers = self.held.capacity() + unsent + sealed + self.protocol.memory();
        // No connection keeps gigabytes: each of these is bounded.
        let buffers = u32::try_from(buffers).unwrap_or(u32::MAX / 2);
        let memory = self.idle_memory + buffers;
        shared.memory.change(self.memory, memory);
        self.memory = memory;
    }

    /// Makes its end a reset: what its peer did not take is forgotten, by the kernel too.
    pub(crate) fn abandon(&self) {
        let reset = self.transport.abandon();
        debug_assert!(reset.is_ok(), "a connection cannot be reset: {reset:?}");
    }
}
