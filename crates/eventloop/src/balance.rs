//! Load balancing of connections between the event loops of a process.
//!
//! The kernel distributes connections by a hash of their addresses: evenly if there are thousands, unevenly if there are
//! few, and long-lived ones stay where they were accepted. An overloaded loop therefore transfers connections that it has
//! just accepted to the least loaded loop, before it reads from them. An established connection never moves, and requests
//! have no extra cost.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, recvmsg,
    sendmsg,
};

use crate::platform::{Waker, syscalls};
use crate::socket::Accepted;

/// Returns by how many connections a loop may exceed the least loaded one before it transfers the next one.
///
/// A transfer costs about as much as accepting a connection, so we tolerate one more, plus an eighth of the lightest load.
/// If the lightest load is less than four, one more would be a large part of the work: of four connections in all it could
/// leave three to one of two loops, or none to one of three.
fn tolerance(lightest: usize) -> usize {
    if lightest < 4 { 0 } else { 1 + lightest / 8 }
}

/// The load of a loop that has left load balancing: larger than any other, so that it is never the lightest.
const LEFT: usize = usize::MAX / 2;

/// One loop's part in load balancing.
#[derive(Debug)]
pub struct Balancer {
    /// The index of this loop in `loops`.
    own: usize,
    loops: Arc<[LoopLoad]>,
    /// The socket from which this loop receives transferred connections.
    receiver: UnixDatagram,
}

/// A loop as the others see it. Aligned so that no two share a cache line (or a pair that is prefetched together).
#[derive(Debug)]
#[repr(align(128))]
struct LoopLoad {
    /// Its open connections.
    open: AtomicUsize,
    /// Connections that were transferred to it and that it has not received.
    queued: AtomicUsize,
    sender: UnixDatagram,
    waker: Waker,
}

impl LoopLoad {
    fn total(&self) -> usize {
        self.open.load(Ordering::Relaxed) + self.queued.load(Ordering::Relaxed)
    }
}

impl Balancer {
    /// Creates a balancer for each loop, given their wakers. To be called before any thread has a descriptor table of its
    /// own.
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub fn for_loops(wakers: &[Waker]) -> io::Result<Vec<Balancer>> {
        let mut loops = Vec::new();
        let mut receivers = Vec::new();
        for waker in wakers {
            let (sender, receiver) = syscalls::message_pair()?;
            sender.set_nonblocking(true)?;
            receiver.set_nonblocking(true)?;
            loops.push(LoopLoad {
                open: AtomicUsize::new(0),
                queued: AtomicUsize::new(0),
                sender,
                waker: waker.clone(),
            });
            receivers.push(receiver);
        }
        let loops: Arc<[LoopLoad]> = loops.into();
        let balancer = |(own, receiver)| Balancer { own, loops: Arc::clone(&loops), receiver };
        Ok(receivers.into_iter().enumerate().map(balancer).collect())
    }

    /// Returns the descriptors that the loop's thread must keep in its descriptor table.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let others = self.loops.iter().flat_map(|load| [load.sender.as_fd(), load.waker.as_fd()]);
        others.chain([self.receiver.as_fd()])
    }

    /// Publishes the number of open connections of this loop.
    pub(crate) fn set_load(&self, connections: usize) {
        if !self.has_left() {
            self.loops[self.own].open.store(connections, Ordering::Relaxed);
        }
    }

    /// Leaves load balancing. Connections already queued for this loop can still be received.
    ///
    /// A loop that transfers one later is refused by the kernel and keeps it. Otherwise a connection that is queued for a
    /// loop would be lost when the thread of that loop exits.
    pub(crate) fn leave(&self) {
        self.loops[self.own].open.store(LEFT, Ordering::Relaxed);
        // Can fail only if there is no socket to send to.
        let _ = self.receiver.shutdown(Shutdown::Read);
    }

    fn has_left(&self) -> bool {
        self.loops[self.own].open.load(Ordering::Relaxed) == LEFT
    }

    /// Transfers a connection to the least loaded loop, with a tag, if this loop has notably more. Otherwise returns it.
    pub(crate) fn transfer<S: AsFd>(&self, accepted: Accepted<S>, tag: u32) -> Option<Accepted<S>> {
        let Some(lighter) = self.lighter_loop() else { return Some(accepted) };

        // Counted before it arrives: thousands may be transferred before that loop receives the first.
        lighter.queued.fetch_add(1, Ordering::Relaxed);
        if send(&lighter.sender, accepted.socket.as_fd(), tag).is_err() {
            // Its queue is full, or it has left.
            lighter.queued.fetch_sub(1, Ordering::Relaxed);
            return Some(accepted);
        }
        lighter.waker.wake();
        // The message holds a duplicate of the socket; ours is closed here.
        None
    }

    /// Returns the least loaded loop, or `None` if this one has not notably more connections.
    fn lighter_loop(&self) -> Option<&LoopLoad> {
        let lightest = self.loops.iter().min_by_key(|load| load.total())?;
        let load = lightest.total();
        let is_overloaded = !self.has_left() && self.loops[self.own].total() > load + tolerance(load);
        is_overloaded.then_some(lightest)
    }

    /// Returns the next connection that was transferred to this loop, and its tag.
    pub(crate) fn next_transferred(&self) -> Option<(u32, OwnedFd)> {
        let own = &self.loops[self.own];
        while own.queued.load(Ordering::Relaxed) > 0 {
            match receive(&self.receiver) {
                Message::Connection { tag, socket } => {
                    own.queued.fetch_sub(1, Ordering::Relaxed);
                    return Some((tag, socket));
                }
                Message::Lost => {
                    own.queued.fetch_sub(1, Ordering::Relaxed);
                }
                Message::None => return None,
            }
        }
        None
    }
}

/// Sends a duplicate of a socket, and its tag.
fn send(sender: &UnixDatagram, socket: BorrowedFd<'_>, tag: u32) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let sockets = [socket];
    ancillary.push(SendAncillaryMessage::ScmRights(&sockets));
    let tag = tag.to_ne_bytes();
    sendmsg(sender, &[IoSlice::new(&tag)], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// A received message.
enum Message {
    /// A connection and its tag.
    Connection { tag: u32, socket: OwnedFd },
    /// A message without its connection, which the kernel closed because this process had no descriptor left.
    Lost,
    /// The queue is empty.
    None,
}

fn receive(receiver: &UnixDatagram) -> Message {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut tag = [0; 4];
    let mut target = [IoSliceMut::new(&mut tag)];
    let received = recvmsg(receiver, &mut target, &mut ancillary, syscalls::RECV_DESCRIPTORS);
    // A message has four bytes; zero bytes are the end of the stream.
    if !received.is_ok_and(|received| received.bytes > 0) {
        return Message::None;
    }
    let sockets = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(sockets) => Some(sockets),
        _ => None,
    });
    match sockets.flatten().next() {
        Some(socket) => Message::Connection { tag: u32::from_ne_bytes(tag), socket },
        None => Message::Lost,
    }
}

#[cfg(test)]
mod tests;
