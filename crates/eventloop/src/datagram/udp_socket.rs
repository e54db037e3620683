//! UDP sockets of the kernel.

use std::cell::Cell;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};

use socket2::{Domain, Protocol, SockAddr, Socket as RawSocket, Type};

use super::batch::{Envelope, MESSAGES_MAX, Message, ReceiveBatch};
use super::control::{Report, Request};
use super::name::Name;
use super::outgoing::{OutgoingMessage, SENT_MAX};
use super::{Backlog, DatagramSocket, Progress, SegmentBatch, SendOutcome};
use crate::address::Address;
use crate::listener::IpVersions;
use crate::platform::{self, syscalls};

/// Maximum number of datagrams in a segment batch that the system splits (`UDP_MAX_SEGMENTS` before Linux 6.9).
const SEGMENTS_MAX: usize = 64;

/// Largest content of a datagram over IPv4, and therefore also the limit for segment batches that the system splits.
const BATCH_BYTES_MAX: usize = 65_507;

/// A kernel UDP socket. It belongs to one worker at a time.
#[derive(Debug)]
pub struct UdpSocket {
    socket: RawSocket,
    local: SocketAddr,
    has_gso: Cell<bool>,
    /// The error that made us turn off GSO, until it is taken.
    gso_error: Cell<Option<i32>>,
    discarded: Cell<u32>,
}

/// Options of UDP sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatagramOptions {
    /// Size of the receive buffer to request. Datagrams that do not fit will be lost.
    pub receive_buffer_bytes: usize,
    /// Size of the send buffer to request.
    pub send_buffer_bytes: usize,
}

impl Default for DatagramOptions {
    /// Requests 4 MiB each. Linux will grant less unless the operator has raised `net.core.rmem_max` and `wmem_max`.
    fn default() -> Self {
        DatagramOptions { receive_buffer_bytes: 4 << 20, send_buffer_bytes: 4 << 20 }
    }
}

/// Buffer sizes granted by the system, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferSizes {
    /// The receive buffer.
    pub receive: usize,
    /// The send buffer.
    pub send: usize,
}

impl UdpSocket {
    /// Sets options on a bound socket.
    pub(super) fn new(socket: RawSocket, options: DatagramOptions) -> io::Result<UdpSocket> {
        socket.set_nonblocking(true)?;
        // The system may grant less.
        socket.set_recv_buffer_size(options.receive_buffer_bytes)?;
        socket.set_send_buffer_size(options.send_buffer_bytes)?;

        let no_address = || io::Error::other("a datagram socket without an IP address");
        let local = socket.local_addr()?.as_socket().ok_or_else(no_address)?;
        let has_ipv4 = local.is_ipv4() || !socket.only_v6()?;
        platform::configure_udp(&socket, local, has_ipv4)?;
        Ok(UdpSocket {
            socket,
            local,
            has_gso: Cell::new(syscalls::HAS_GSO),
            gso_error: Cell::new(None),
            discarded: Cell::new(0),
        })
    }

    /// Takes over a UDP socket that the parent process has left open for us. Callers MUST NOT do this twice with the same
    /// descriptor.
    ///
    /// # Errors
    /// Fails if the descriptor is not open or is not a UDP socket.
    pub fn inherit(descriptor: i32, options: DatagramOptions) -> io::Result<UdpSocket> {
        let socket = RawSocket::from(syscalls::inherit(descriptor)?);
        if socket.r#type()? != Type::DGRAM {
            return Err(io::Error::other(format!("descriptor {descriptor} is no datagram socket")));
        }
        socket.set_cloexec(true)?;
        UdpSocket::new(socket, options)
    }

    /// Opens one more socket on this address, for another worker. It will be the last one in order (see
    /// [`WorkerRouting::attach`](super::WorkerRouting::attach)). On systems that cannot distribute datagrams among several sockets,
    /// the result is just another descriptor for the same socket.
    ///
    /// # Errors
    /// Fails if the address is not shared, which means that another program has opened the socket without this option.
    pub fn open_another(&self, options: DatagramOptions) -> io::Result<UdpSocket> {
        if !syscalls::BALANCES_LISTENERS {
            return self.try_clone();
        }
        let versions = if self.has_both_versions() { IpVersions::Both } else { IpVersions::One };
        let socket = new_socket(self.local, versions)?;
        socket.set_reuse_port(true)?;
        socket.bind(&SockAddr::from(self.local))?;
        UdpSocket::new(socket, options)
    }

    /// Opens another descriptor for the same socket. The two will share the buffers.
    ///
    /// # Errors
    /// Fails if the process has run out of descriptors.
    pub fn try_clone(&self) -> io::Result<UdpSocket> {
        Ok(UdpSocket {
            socket: self.socket.try_clone()?,
            local: self.local,
            has_gso: self.has_gso.clone(),
            gso_error: Cell::new(None),
            discarded: self.discarded.clone(),
        })
    }

    /// Returns the address as configured.
    #[must_use]
    pub fn address(&self) -> Address {
        let is_every = self.local.ip().is_unspecified() && self.has_both_versions();
        if is_every { Address::Every(self.local.port()) } else { Address::Internet(self.local) }
    }

    fn has_both_versions(&self) -> bool {
        self.local.is_ipv6() && matches!(self.socket.only_v6(), Ok(false))
    }

    /// Returns the buffer sizes that the system has granted.
    ///
    /// # Errors
    /// Returns the error of the system call.
    pub fn buffer_sizes(&self) -> io::Result<BufferSizes> {
        let receive = self.socket.recv_buffer_size()? / syscalls::BUFFER_SIZE_FACTOR;
        let send = self.socket.send_buffer_size()? / syscalls::BUFFER_SIZE_FACTOR;
        Ok(BufferSizes { receive, send })
    }

    /// Interprets what the system says about a message.
    #[inline]
    fn message(&self, envelope: &Envelope) -> Message {
        let report = Report::parse(envelope.control());
        if let Some(discarded) = report.discarded {
            self.discarded.set(discarded);
        }
        let source = Name::parse(&envelope.name);
        // The peer must be an IP address. Datagrams can't exceed our buffers.
        let is_whole = source.is_some() && !envelope.is_truncated;
        let bytes = if is_whole { envelope.bytes } else { 0 };
        Message {
            source: source.unwrap_or(self.local),
            // The system only reports the local address when there are several.
            destination: report.destination.or_else(|| self.fixed_address()),
            ecn: report.ecn,
            bytes,
            segment_bytes: report.segment_bytes.unwrap_or(bytes).max(1),
        }
    }

    /// Returns the local address if there is only one.
    fn fixed_address(&self) -> Option<IpAddr> {
        Some(self.local.ip()).filter(|address| !address.is_unspecified())
    }

    /// Returns the maximum number of bytes per call.
    fn part_bytes(&self, segment_bytes: usize) -> usize {
        let segments = if self.has_gso.get() { SEGMENTS_MAX.min(BATCH_BYTES_MAX / segment_bytes) } else { 1 };
        segment_bytes * segments.max(1)
    }

    /// Builds the message for datagrams of `segment_bytes` each, which must be less than 2^16 if there are several.
    #[inline]
    fn outgoing<'a>(
        &self,
        segments: &SegmentBatch<'_>,
        bytes: &'a [u8],
        segment_bytes: usize,
    ) -> OutgoingMessage<'a> {
        let mut control = Request::new();
        // If the socket has a single address, there is nothing to choose, and BSD would even refuse it.
        if let Some(source) = segments.source.filter(|_| self.fixed_address().is_none()) {
            control.set_source(source);
        }
        if let Some(ecn) = segments.ecn {
            control.set_ecn(ecn, segments.destination);
        }
        if bytes.len() > segment_bytes {
            control.set_segment_bytes(u16::try_from(segment_bytes).expect("less than 2^16"));
        }
        OutgoingMessage { name: Name::new(segments.destination), control, bytes }
    }

    /// Sends datagrams with a single call. When the system cannot split them, sends each one separately.
    fn send_part(&self, segments: &SegmentBatch<'_>, part: &[u8], segment_bytes: usize) -> SendOutcome {
        match syscalls::send_message(self.as_fd(), &self.outgoing(segments, part, segment_bytes)) {
            Ok(()) => SendOutcome::Sent,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => SendOutcome::Blocked { sent_bytes: 0 },
            Err(error) if part.len() > segment_bytes && is_gso_error(&error) => {
                self.send_after_gso_error(&SegmentBatch { bytes: part, ..*segments }, &error)
            }
            Err(_) => SendOutcome::Lost,
        }
    }

    /// Sends several segment batches with a single call, starting with the first. Returns the number of segment batches sent, possibly 0.
    fn send_several(&self, batches: &[SegmentBatch<'_>]) -> io::Result<usize> {
        let mut messages = [OutgoingMessage::NONE; SENT_MAX];
        let mut count = 0;
        for (message, segments) in messages.iter_mut().zip(batches) {
            let segment_bytes = segments.datagram_bytes();
            // Stop at the first segment batch that needs more than a single message.
            if segments.bytes.is_empty() || segments.bytes.len() > self.part_bytes(segment_bytes) {
                break;
            }
            *message = self.outgoing(segments, segments.bytes, segment_bytes);
            count += 1;
        }
        if count < 2 { Ok(0) } else { syscalls::send_messages(self.as_fd(), &messages[..count]) }
    }

    /// Sends a segment batch without GSO after the system has refused to split it. If this works, GSO was the problem, so we leave it off
    /// for good. Otherwise something must be wrong with the datagrams themselves (e.g. their size or an address).
    #[cold]
    fn send_after_gso_error(&self, segments: &SegmentBatch<'_>, error: &io::Error) -> SendOutcome {
        self.has_gso.set(false);
        let outcome = self.send(segments);
        if outcome == SendOutcome::Sent {
            self.gso_error.set(error.raw_os_error());
        } else {
            self.has_gso.set(true);
        }
        outcome
    }
}

/// Returns `true` if this error may mean that the system cannot split segment batches, e.g. because the device does not compute checksums or
/// the kernel is too old for GSO.
fn is_gso_error(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EIO | libc::EINVAL))
}

impl AsFd for UdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl DatagramSocket for UdpSocket {
    fn receive(&self, batch: &mut ReceiveBatch) -> io::Result<Backlog> {
        batch.clear();
        let (memory, envelopes) = batch.targets();
        let count = syscalls::receive_messages(self.as_fd(), memory, envelopes)?;
        batch.record(count, |envelope| self.message(envelope));
        Ok(if count < MESSAGES_MAX { Backlog::Empty } else { Backlog::Possible })
    }

    fn send(&self, segments: &SegmentBatch<'_>) -> SendOutcome {
        let segment_bytes = segments.datagram_bytes();
        let mut outcome = SendOutcome::Sent;
        let mut position = 0;
        while position < segments.bytes.len() {
            let rest = &segments.bytes[position..];
            let part = &rest[..rest.len().min(self.part_bytes(segment_bytes))];
            match self.send_part(segments, part, segment_bytes) {
                SendOutcome::Sent => {}
                SendOutcome::Blocked { sent_bytes } => {
                    return SendOutcome::Blocked { sent_bytes: position + sent_bytes };
                }
                SendOutcome::Lost => outcome = SendOutcome::Lost,
            }
            position += part.len();
        }
        outcome
    }

    fn send_all(&self, batches: &[SegmentBatch<'_>]) -> Progress {
        let mut progress = Progress::default();
        while let Some(next) = batches.get(progress.batches) {
            match self.send_several(&batches[progress.batches..]) {
                Ok(count) if count > 0 => progress.batches += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // Either the next segment batch needs several calls, or it's the last one, or it has failed.
                _ => {
                    if progress.add(self.send(next)).is_break() {
                        break;
                    }
                }
            }
        }
        progress
    }

    fn local_address(&self) -> SocketAddr {
        self.local
    }

    fn discarded(&self) -> u32 {
        self.discarded.get()
    }

    fn has_gso(&self) -> bool {
        self.has_gso.get()
    }

    fn take_gso_error(&self) -> Option<io::Error> {
        self.gso_error.take().map(io::Error::from_raw_os_error)
    }
}

pub(super) fn new_socket(address: SocketAddr, versions: IpVersions) -> io::Result<RawSocket> {
    let socket = RawSocket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    if address.is_ipv6() {
        // `[::]` should only mean IPv6, so that there can be another socket on `0.0.0.0`.
        socket.set_only_v6(versions == IpVersions::One)?;
    }
    Ok(socket)
}

#[cfg(test)]
mod tests;
