//! A batch of received datagrams. Its memory is allocated only once.

use std::net::{IpAddr, SocketAddr};

use super::Ecn;
use super::control::CONTROL_BYTES;
use super::name::NAME_BYTES;

/// Maximum number of messages per receive call. A message is either a single datagram or several datagrams from the same peer,
/// merged by the system.
pub(crate) const MESSAGES_MAX: usize = 16;

/// Size of a buffer. Since the system merges datagrams up to this size, a smaller buffer could truncate them.
pub(crate) const BUFFER_BYTES: usize = 64 * 1024;

/// Distance between buffers. Single datagrams only need the first few cache lines of their buffer; with this distance, those lines
/// will be in different sets of the processor's cache.
pub(crate) const BUFFER_STRIDE: usize = BUFFER_BYTES + 33 * CACHE_LINE_BYTES;

const CACHE_LINE_BYTES: usize = 64;

/// Datagrams received by one call. A worker should use the same batch for all its sockets.
#[derive(Default)]
pub struct ReceiveBatch {
    /// We use zeroed memory here, so that a page will not take up real memory until a datagram reaches it.
    memory: Vec<u8>,
    /// Offset of the first buffer. We need to align buffers to cache lines because otherwise Linux may take seven times as long to
    /// copy 64 KB (`rep movsb` on an AMD EPYC: 25 µs instead of 3.6 µs).
    start: usize,
    envelopes: Vec<Envelope>,
    /// One per buffer in use.
    messages: Vec<Message>,
}

/// Message metadata written by the system.
#[derive(Debug, Clone)]
pub(crate) struct Envelope {
    /// The peer's socket address.
    pub(crate) name: [u8; NAME_BYTES],
    /// The control messages.
    pub(crate) control: Control,
    /// The length of the control messages.
    pub(crate) control_bytes: usize,
    /// The length of the message.
    pub(crate) bytes: usize,
    /// Whether the message was too long for its buffer.
    pub(crate) is_truncated: bool,
}

/// Control messages. Systems require this alignment.
#[derive(Debug, Clone)]
#[repr(align(8))]
pub(crate) struct Control(pub(crate) [u8; CONTROL_BYTES]);

/// A message in its buffer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Message {
    pub(crate) source: SocketAddr,
    pub(crate) destination: Option<IpAddr>,
    pub(crate) ecn: Option<Ecn>,
    pub(crate) bytes: usize,
    /// Size of each datagram in the message. The last one may be shorter.
    pub(crate) segment_bytes: usize,
}

/// A received datagram.
#[derive(Debug)]
pub struct Datagram<'a> {
    /// The peer's address. If the socket is bound to all IPv4 and IPv6 addresses, IPv4 addresses are mapped to IPv6.
    pub source: SocketAddr,
    /// The local address where it arrived. `None` if the system does not tell.
    pub destination: Option<IpAddr>,
    /// The ECN codepoint.
    pub ecn: Option<Ecn>,
    /// The content.
    pub bytes: &'a mut [u8],
}

impl ReceiveBatch {
    /// Creates an empty batch. This only allocates on first use: about a megabyte of address space, most of which will never be
    /// backed by real memory.
    #[must_use]
    pub fn new() -> ReceiveBatch {
        ReceiveBatch::default()
    }

    #[cold]
    fn allocate(&mut self) {
        let envelope = Envelope {
            name: [0; NAME_BYTES],
            control: Control([0; CONTROL_BYTES]),
            control_bytes: 0,
            bytes: 0,
            is_truncated: false,
        };
        self.memory = vec![0; MESSAGES_MAX * BUFFER_STRIDE + CACHE_LINE_BYTES];
        self.start = self.memory.as_ptr().align_offset(CACHE_LINE_BYTES);
        self.envelopes = vec![envelope; MESSAGES_MAX];
        self.messages.reserve(MESSAGES_MAX);
    }

    /// Returns the datagrams in the order they were received, without empty ones.
    pub fn datagrams(&mut self) -> impl Iterator<Item = Datagram<'_>> {
        let buffers = self.memory[self.start..].chunks_exact_mut(BUFFER_STRIDE);
        self.messages.iter().zip(buffers).flat_map(|(message, buffer)| {
            let Message { source, destination, ecn, bytes, segment_bytes } = *message;
            let segments = buffer[..bytes.min(BUFFER_BYTES)].chunks_mut(segment_bytes);
            segments.map(move |bytes| Datagram { source, destination, ecn, bytes })
        })
    }

    /// Returns the buffers and envelopes for a system call to fill.
    pub(super) fn targets(&mut self) -> (&mut [u8], &mut [Envelope]) {
        if self.memory.is_empty() {
            self.allocate();
        }
        (&mut self.memory[self.start..], &mut self.envelopes)
    }

    /// Adds a message from a simulated network.
    ///
    /// # Panics
    /// Panics if the batch is full, or if the message is longer than a buffer.
    pub(crate) fn push(&mut self, message: Message, bytes: &[u8]) {
        let start = self.messages.len() * BUFFER_STRIDE;
        self.targets().0[start..][..BUFFER_BYTES][..bytes.len()].copy_from_slice(bytes);
        self.messages.push(message);
    }

    /// Adds a datagram from an in-memory client.
    ///
    /// # Panics
    /// Panics if the batch is full, or if the datagram is longer than a buffer.
    pub fn push_datagram(&mut self, source: SocketAddr, destination: IpAddr, bytes: &[u8]) {
        let destination = Some(destination);
        let message =
            Message { source, destination, ecn: None, bytes: bytes.len(), segment_bytes: bytes.len().max(1) };
        self.push(message, bytes);
    }

    /// Removes all datagrams.
    pub fn clear(&mut self) {
        self.messages.clear();
    }

    /// Adds the messages in the first `count` buffers. The batch must be empty.
    pub(super) fn record(&mut self, count: usize, interpret: impl Fn(&Envelope) -> Message) {
        debug_assert!(self.messages.is_empty());
        self.messages.extend(self.envelopes[..count].iter().map(interpret));
    }
}

impl Envelope {
    pub(super) fn control(&self) -> &[u8] {
        self.control.0.get(..self.control_bytes).unwrap_or_default()
    }
}

impl std::fmt::Debug for ReceiveBatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReceiveBatch").field("messages", &self.messages).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
