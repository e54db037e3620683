//! Counts the memory that a connection takes between events.
//!
//! Structures of fixed size are estimated, while buffers are counted by their capacity.

use cannery_eventloop::Socket;

use super::Connection;
use crate::context::{ConnectionMemory, WorkerContext};

/// An idle HTTP/1 connection without TLS. This is the slot in the slab.
pub(super) const PLAIN_BYTES: u32 = 256;

/// Additional memory for TLS during the handshake.
const HANDSHAKE_BYTES: u32 = 12 * 1024;

/// Additional memory for TLS after the handshake.
const SESSION_BYTES: u32 = 2560;

/// Additional memory for HTTP/2, except for the HPACK table (which can grow and is therefore counted by its
/// capacity).
const HTTP2_BYTES: u32 = 1024;

impl<S: Socket> Connection<S> {
    /// Returns the memory that the connection takes, in bytes.
    #[inline]
    pub(crate) fn memory(&self) -> u32 {
        self.memory
    }

    /// Like [`memory`](Self::memory), plus everything that others keep for this connection: data that the event loop has received,
    /// and responses that handlers have written.
    pub(crate) fn total_memory(&self) -> ConnectionMemory {
        // If it is more than 4 GiB, the exact number does not matter any more.
        let received = u32::try_from(self.socket().kept_bytes()).unwrap_or(u32::MAX);
        let handled = u32::try_from(self.protocol.kept_bytes()).unwrap_or(u32::MAX);
        ConnectionMemory { total: self.memory.saturating_add(received).saturating_add(handled), handled }
    }

    /// Updates the memory of a connection that has become idle, if it might have changed.
    #[inline]
    pub(super) fn count_idle_memory(&mut self, cx: &mut WorkerContext) {
        let has_changed = self.protocol.table_memory().is_some_and(|table| {
            // Connections without TLS did not count HTTP/2 after a handshake, so this may be the first time.
            let is_new_h2 = self.memory < HTTP2_BYTES;
            is_new_h2 || table != self.table_memory as usize
        });
        if self.memory != self.idle_memory || has_changed {
            self.count_memory(cx);
        }
    }

    /// Updates the memory of a TLS connection with incomplete records or records that are waiting to be
    /// sent.
    #[inline]
    pub(super) fn count_tls_memory(&mut self, cx: &mut WorkerContext) {
        if let Some(tls) = self.transport.tls()
            && (tls.memory() > 0 || self.memory != self.idle_memory)
        {
            self.count_memory(cx);
        }
    }

    /// Updates the memory of the connection.
    #[cold]
    pub(super) fn count_memory(&mut self, cx: &mut WorkerContext) {
        let tls = self.transport.tls();
        let session = match tls {
            None => 0,
            Some(tls) if tls.is_established() => SESSION_BYTES,
            Some(_) => HANDSHAKE_BYTES,
        };
        let table = self.protocol.table_memory();
        let http2 = if table.is_some() { HTTP2_BYTES } else { 0 };
        self.table_memory = u32::try_from(table.unwrap_or(0)).unwrap_or(u32::MAX / 4);
        self.idle_memory = PLAIN_BYTES + session + http2 + self.table_memory;

        let pending = self.pending.as_ref().map_or(0, |pending| pending.memory());
        let records = tls.map_or(0, |tls| tls.memory());
        let buffers = self.unprocessed.capacity() + pending + records + self.protocol.memory();
        debug_assert!(u32::try_from(buffers).is_ok_and(|bytes| bytes < u32::MAX / 2), "each one is bounded");
        let buffers = u32::try_from(buffers).unwrap_or(u32::MAX / 2);

        let memory = self.idle_memory + buffers;
        cx.memory.change(self.memory, memory);
        self.memory = memory;
    }

    /// Makes the kernel reset the connection on close, dropping anything that the peer has not
    /// acknowledged yet.
    pub(crate) fn abandon(&self) {
        let reset = self.transport.abandon();
        debug_assert!(reset.is_ok(), "a connection cannot be reset: {reset:?}");
    }
}
