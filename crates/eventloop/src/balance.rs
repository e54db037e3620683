//! Loops that share the connections of one process: who has more than another hands new ones on.
//!
//! The kernel deals connections out by a hash of their addresses: evenly where they are thousands, and by chance where
//! they are few, and those that live long stay where they fell. A connection is handed on before anything of it was
//! read. Never moves one that was begun, and costs nothing for a request.

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

use crate::Accepted;
use crate::Waker;
use crate::platform::syscalls as sys;

/// By how many connections a loop may be ahead of the lightest before it hands the next one on.
///
/// To hand a connection on costs about what it costs to accept it, so that one more, and an eighth of what the lightest
/// has, is even enough. Where that one has fewer than four, one more would be a large part of the work: with four
/// connections in all it would leave three on one of two loops, or nothing for one of three.
fn tolerated(lightest: usize) -> usize {
    if lightest < 4 { 0 } else { 1 + lightest / 8 }
}

/// What a loop holds that has left: more than any other, so that nobody hands it anything.
const LEFT: usize = usize::MAX / 2;

/// One loop's place among those of its process.
#[derive(Debug)]
pub struct Neighbours {
    own: usize,
    members: Arc<[Member]>,
    /// Where this loop is handed connections.
    from: UnixDatagram,
}

/// A loop, as the others see it. Apart from the next one, so that writing to one is not felt by those who read the other.
#[derive(Debug)]
#[repr(align(128))]
struct Member {
    /// Connections that it has.
    held: AtomicUsize,
    /// Connections that it was handed and has not taken.
    coming: AtomicUsize,
    to: UnixDatagram,
    waker: Waker,
}

impl Member {
    fn load(&self) -> usize {
        self.held.load(Ordering::Relaxed) + self.coming.load(Ordering::Relaxed)
    }
}

impl Neighbours {
    /// A place for each loop that one of these wakes. To be made before any thread has a table of descriptors of its
    /// own.
    ///
    /// # Errors
    /// There are no descriptors left.
    pub fn of(wakers: &[Waker]) -> io::Result<Vec<Neighbours>> {
        let (mut members, mut ends) = (Vec::new(), Vec::new());
        for waker in wakers {
            let (to, from) = sys::message_pair()?;
            to.set_nonblocking(true)?;
            from.set_nonblocking(true)?;
            let (held, coming) = (AtomicUsize::new(0), AtomicUsize::new(0));
            members.push(Member { held, coming, to, waker: waker.clone() });
            ends.push(from);
        }
        let members: Arc<[Member]> = members.into();
        let place = |(own, from)| Neighbours { own, members: Arc::clone(&members), from };
        Ok(ends.into_iter().enumerate().map(place).collect())
    }

    /// What a thread needs to have in its table for this.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let others = self.members.iter().flat_map(|member| [member.to.as_fd(), member.waker.as_fd()]);
        others.chain([self.from.as_fd()])
    }

    /// Says how many connections this loop has.
    pub(crate) fn set_held(&self, connections: usize) {
        if !self.has_left() {
            self.members[self.own].held.store(connections, Ordering::Relaxed);
        }
    }

    /// Hands nothing on any more, and is handed nothing. What it was handed until now is there to be taken: who hands on
    /// later is refused by the kernel and keeps it. Without that a connection would be lost that is handed to a loop whose
    /// thread ends.
    pub(crate) fn leave(&self) {
        self.members[self.own].held.store(LEFT, Ordering::Relaxed);
        // Where it fails there is no socket to hand anything to.
        let _ = self.from.shutdown(Shutdown::Read);
    }

    fn has_left(&self) -> bool {
        self.members[self.own].held.load(Ordering::Relaxed) == LEFT
    }

    /// Hands a connection that was accepted at a listener to a loop that has much fewer, if there is one; tells whether
    /// it did. The socket given is then one of two to the same connection, and is to be closed.
    pub(crate) fn hand_over(&self, socket: BorrowedFd<'_>, listener: u32) -> bool {
        let Some(lightest) = self.members.iter().min_by_key(|member| member.load()) else { return false };
        let load = lightest.load();
        if self.has_left() || self.members[self.own].load() <= load + tolerated(load) {
            return false;
        }
        // Counted before it is there: thousands may come before it takes the first.
        lightest.coming.fetch_add(1, Ordering::Relaxed);
        if send(&lightest.to, socket, listener).is_err() {
            // It is slow to take what it has: then it shall not get more.
            lightest.coming.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        lightest.waker.wake();
        true
    }

    /// The next connection that this loop was handed, and at which listener it was accepted.
    pub(crate) fn take_over(&self) -> Option<(u32, OwnedFd)> {
        let own = &self.members[self.own];
        while own.coming.load(Ordering::Relaxed) > 0 {
            let received = receive(&self.from);
            if let Handed::None = received {
                return None;
            }
            own.coming.fetch_sub(1, Ordering::Relaxed);
            if let Handed::Connection(listener, socket) = received {
                return Some((listener, socket));
            }
        }
        None
    }
}

/// What a loop does with its neighbours: nothing where it has none. The same for each loop over the kernel.
#[derive(Debug)]
pub(crate) struct Neighbourhood(Option<Neighbours>);

impl Neighbourhood {
    pub(crate) fn of(neighbours: Option<Neighbours>) -> Neighbourhood {
        Neighbourhood(neighbours)
    }

    /// Says how many connections this loop has.
    pub(crate) fn set_held(&self, connections: usize) {
        self.0.iter().for_each(|neighbours| neighbours.set_held(connections));
    }

    /// Hands nothing on any more, and is handed nothing.
    pub(crate) fn leave(&self) {
        self.0.iter().for_each(Neighbours::leave);
    }

    /// Hands a connection that was just accepted at a listener of this number to the loop that has much fewer, if there is
    /// one. Else it comes back.
    pub(crate) fn hand_over<S: AsFd>(&self, accepted: Accepted<S>, listener: u32) -> Option<Accepted<S>> {
        let handed = |neighbours: &Neighbours| neighbours.hand_over(accepted.socket.as_fd(), listener);
        if self.0.as_ref().is_some_and(handed) { None } else { Some(accepted) }
    }

    /// The next connection that this loop was handed, and the number of the listener that it was accepted at.
    pub(crate) fn take_over(&self) -> Option<(u32, OwnedFd)> {
        self.0.as_ref()?.take_over()
    }
}

fn send(to: &UnixDatagram, socket: BorrowedFd<'_>, listener: u32) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let sockets = [socket];
    ancillary.push(SendAncillaryMessage::ScmRights(&sockets));
    let number = listener.to_ne_bytes();
    sendmsg(to, &[IoSlice::new(&number)], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// What a loop was handed next.
enum Handed {
    /// A connection that was accepted at a listener of this number.
    Connection(u32, OwnedFd),
    /// A connection for which this process had no descriptor left: the kernel has closed it.
    Lost,
    /// There is nothing.
    None,
}

fn receive(from: &UnixDatagram) -> Handed {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut number = [0; 4];
    let mut into = [IoSliceMut::new(&mut number)];
    let received = recvmsg(from, &mut into, &mut ancillary, sys::RECEIVES_DESCRIPTORS);
    // A message has four bytes; none at all is the end.
    if !received.is_ok_and(|received| received.bytes > 0) {
        return Handed::None;
    }
    let sockets = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(sockets) => Some(sockets),
        _ => None,
    });
    match sockets.flatten().next() {
        Some(socket) => Handed::Connection(u32::from_ne_bytes(number), socket),
        None => Handed::Lost,
    }
}

#[cfg(test)]
mod tests;
