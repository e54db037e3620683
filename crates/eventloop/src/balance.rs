//! Load balancing between the event loops of a process.
//!
//! The kernel distributes connections by a hash of their addresses. This works well for thousands of connections, but not for a few
//! of them: long-lived connections would then stay wherever they were accepted. An overloaded loop will therefore hand connections
//! over to the least loaded one. We need to do this right after `accept`, before anything is read. Established connections never
//! move, so there is no cost per request.

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

/// Maximum number of connections a loop can have on top of the least loaded one. Beyond this, it will start to transfer them.
///
/// A transfer costs about as much as accepting a connection, so we tolerate one more connection plus an eighth of the lightest
/// load. However, if the lightest load is below four, even one more would be too much (e.g. of four connections, one loop could
/// have three and the other only one).
fn tolerance(lightest: usize) -> usize {
    if lightest < 4 { 0 } else { 1 + lightest / 8 }
}

/// Load of a loop that has left load balancing. Must be larger than any real load, so that such a loop is never considered the
/// lightest.
const LEFT: usize = usize::MAX / 2;

/// One loop's part in load balancing.
#[derive(Debug)]
pub struct Balancer {
    /// Index of this loop in `loops`.
    own: usize,
    loops: Arc<[LoopLoad]>,
    /// Receives connections that others transfer to this loop.
    receiver: UnixDatagram,
}

/// A loop as seen by others, aligned to avoid false sharing (processors may prefetch cache lines in pairs).
#[derive(Debug)]
#[repr(align(128))]
struct LoopLoad {
    /// Number of open connections.
    open: AtomicUsize,
    /// Number of connections that others transferred to this loop, but that it has not received yet.
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
    /// Creates a balancer for each loop, given their wakers. This must be called before threads get descriptor tables of their own.
    ///
    /// # Errors
    /// Fails if the process has run out of descriptors.
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

    /// Returns the descriptors that need to be in the descriptor table of the loop's thread.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let others = self.loops.iter().flat_map(|load| [load.sender.as_fd(), load.waker.as_fd()]);
        others.chain([self.receiver.as_fd()])
    }

    pub(crate) fn set_load(&self, connections: usize) {
        if !self.has_left() {
            self.loops[self.own].open.store(connections, Ordering::Relaxed);
        }
    }

    /// Leaves load balancing. You can still receive connections that are queued for this loop.
    ///
    /// A connection in our queue would be lost when this thread exits. From now on, if another loop tries to transfer one to us,
    /// the kernel will refuse that and the other loop will keep the connection.
    pub(crate) fn leave(&self) {
        self.loops[self.own].open.store(LEFT, Ordering::Relaxed);
        // This only fails when there is no socket to send to.
        let _ = self.receiver.shutdown(Shutdown::Read);
    }

    fn has_left(&self) -> bool {
        self.loops[self.own].open.load(Ordering::Relaxed) == LEFT
    }

    /// Transfers a connection and a tag to the least loaded loop. If this loop does not have notably more connections, returns the
    /// connection instead.
    pub(crate) fn transfer<S: AsFd>(&self, accepted: Accepted<S>, tag: u32) -> Option<Accepted<S>> {
        let Some(lighter) = self.lighter_loop() else { return Some(accepted) };

        // We need to count the connection before it arrives: thousands may be transferred before the other loop receives the first
        // one.
        lighter.queued.fetch_add(1, Ordering::Relaxed);
        if send(&lighter.sender, accepted.socket.as_fd(), tag).is_err() {
            // The queue is full, or the other loop has left.
            lighter.queued.fetch_sub(1, Ordering::Relaxed);
            return Some(accepted);
        }
        lighter.waker.wake();
        // Dropping ours will only close our descriptor: the message has a duplicate of the socket.
        None
    }

    /// Returns the least loaded loop. This is `None` if it does not have notably fewer connections than this loop.
    fn lighter_loop(&self) -> Option<&LoopLoad> {
        let lightest = self.loops.iter().min_by_key(|load| load.total())?;
        let load = lightest.total();
        let is_overloaded = !self.has_left() && self.loops[self.own].total() > load + tolerance(load);
        is_overloaded.then_some(lightest)
    }

    /// Returns the next connection that was transferred to this loop, with its tag.
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

/// Sends a duplicate of a socket along with a tag.
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
    /// A message without its connection. This happens when the process had run out of descriptors, so that the kernel closed it.
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
    // Messages have four bytes, so zero bytes mean the end of the stream.
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
