//! One ring of the kernel's: operations in, completions out, and the buffers that the kernel receives into.
//!
//! Besides `sys.rs` the only `unsafe` of this crate. No operation refers to memory but that of the buffers below,
//! which live for ever; so none can outlive what it refers to. Never decides what a completion means.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use io_uring::register::Restriction;
use io_uring::squeue::{Entry, Flags};
use io_uring::types::{BufRingEntry, Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode};

use super::data::Operation;
use crate::token::Token;

/// Operations that may wait for the next call. More make a call of their own.
const SUBMISSIONS: u32 = 512;

/// Completions that one call may bring. The kernel keeps more of them until they are fetched.
const COMPLETIONS: u32 = 4096;

/// Buffers that the kernel receives into, at most; a power of two. There need not be one for each connection: a buffer is
/// given back as soon as its event is handled.
const BUFFERS_MAX: u16 = 1024;

/// Those that it gets at first. It uses them in turn, so that fewer of them stay in the processor's caches, and newer
/// kernels bring no more than some twenty completions at a time. It gets more where they did not suffice.
const BUFFERS_AT_FIRST: u16 = 64;

/// Bytes that a buffer takes: most requests are a fraction of it, and what is longer comes in pieces.
const BUFFER_BYTES: u32 = 2048;

/// From one buffer to the next: a cache line more than a buffer, so that their first lines, all that most requests
/// need, do not all fall to the same few places of the processor's cache.
const STRIDE: usize = BUFFER_BYTES as usize + 64;

/// The one group of buffers.
const GROUP: u16 = 0;

/// A ring, for one thread.
pub(super) struct Ring {
    ring: IoUring,
    buffers: Buffers,
}

/// What came of an operation.
#[derive(Debug)]
pub(super) struct Completion {
    /// What was asked for.
    pub(super) operation: Operation,
    /// For whom. Of the generation only some bits are left.
    pub(super) owner: Token,
    /// What the system call of its name would return; an error is negative.
    pub(super) result: i32,
    /// Whether the operation goes on, and brings further completions.
    pub(super) goes_on: bool,
    /// The buffer that it has filled.
    pub(super) filled: Option<Filled>,
    /// The connection that it has accepted.
    pub(super) accepted: Option<OwnedFd>,
}

/// A buffer that the kernel has filled, and leaves alone until it is given back. To drop it instead takes it from
/// the ring.
#[derive(Debug)]
#[must_use]
pub(super) struct Filled {
    buffer: u16,
    length: usize,
}

impl Ring {
    /// A ring that can do what is done below, and nothing else from then on. Fails where the kernel does not have
    /// it, or does not let us.
    pub(super) fn new() -> io::Result<Ring> {
        let ring = disabled(SUBMISSIONS, COMPLETIONS)?;
        let buffers = Buffers::new();
        // SAFETY: the entries live for ever, and there are as many as is said.
        unsafe {
            let entries = buffers.entries.as_ptr() as u64;
            ring.submitter().register_buf_ring_with_flags(entries, BUFFERS_MAX, GROUP, 0)?;
        }
        ring.submitter().register_restrictions(&mut restrictions())?;
        ring.submitter().register_enable_rings()?;
        Ok(Ring { ring, buffers })
    }

    /// Whether the kernel gives us such a ring; else why not. Makes one of the smallest size, without buffers.
    pub(super) fn probe() -> io::Result<()> {
        let ring = disabled(1, 2)?;
        ring.submitter().register_restrictions(&mut restrictions())?;
        ring.submitter().register_enable_rings()
    }

    /// Accepts connections until it is cancelled; each comes in a completion.
    pub(super) fn accept(&mut self, listener: RawFd, number: u32) -> io::Result<()> {
        let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        let accept = opcode::AcceptMulti::new(Fd(listener)).flags(flags).build();
        self.push(accept, Operation::Accept, Token { slot: number, generation: 0 })
    }

    /// Receives once, into a buffer that comes in the completion.
    pub(super) fn receive_once(&mut self, socket: RawFd, owner: Token) -> io::Result<()> {
        // The kernel chooses the buffer, and takes all that it has room for.
        let receive = opcode::Recv::new(Fd(socket), std::ptr::null_mut(), 0).buf_group(GROUP).build();
        self.push(receive.flags(Flags::BUFFER_SELECT), Operation::Receive, owner)
    }

    /// Receives until it is cancelled; each buffer that is filled comes in a completion.
    pub(super) fn receive(&mut self, socket: RawFd, owner: Token) -> io::Result<()> {
        self.push(opcode::RecvMulti::new(Fd(socket), GROUP).build(), Operation::Receive, owner)
    }

    /// Looks once for room to send, and for the end of a connection.
    pub(super) fn await_room(&mut self, socket: RawFd, owner: Token) -> io::Result<()> {
        let poll = opcode::PollAdd::new(Fd(socket), libc::POLLOUT as u32);
        self.push(poll.build(), Operation::Room, owner)
    }

    /// Tells of knocks until it is cancelled.
    pub(super) fn await_knock(&mut self, waker: RawFd) -> io::Result<()> {
        let poll = opcode::PollAdd::new(Fd(waker), libc::POLLIN as u32).multi(true);
        self.push(poll.build(), Operation::Knock, Token { slot: 0, generation: 0 })
    }

    /// Ends an operation, which tells so in a last completion.
    pub(super) fn cancel(&mut self, operation: Operation, owner: Token) -> io::Result<()> {
        let cancel = opcode::AsyncCancel::new(operation.pack(owner)).build();
        // It has a completion of its own only where there was nothing to end.
        self.push(cancel.flags(Flags::SKIP_SUCCESS), Operation::Cancel, owner)
    }

    fn push(&mut self, entry: Entry, operation: Operation, owner: Token) -> io::Result<()> {
        let entry = entry.user_data(operation.pack(owner));
        loop {
            // SAFETY: every operation that is built above refers to no memory of ours but the buffers of the
            // group, which live for ever.
            if unsafe { self.ring.submission().push(&entry) }.is_ok() {
                return Ok(());
            }
            self.submit()?;
        }
    }

    /// Hands over the operations that wait, without waiting for what comes of them.
    fn submit(&mut self) -> io::Result<()> {
        harmless(self.ring.submit())
    }

    /// Hands over the operations that wait, and waits for a completion, at most so long.
    pub(super) fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        harmless(match timeout {
            None => self.ring.submit_and_wait(1),
            Some(timeout) => {
                let timespec = Timespec::from(timeout);
                self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&timespec))
            }
        })
    }

    /// The next of the completions that have come.
    #[inline]
    pub(super) fn next(&mut self) -> Option<Completion> {
        let entry = self.ring.completion().next()?;
        let (flags, result) = (entry.flags(), entry.result());
        let length = usize::try_from(result).unwrap_or(0);
        let filled = cqueue::buffer_select(flags).map(|buffer| Filled { buffer, length });
        let (operation, owner) = Operation::unpack(entry.user_data());
        let is_accepted = operation == Operation::Accept && result >= 0;
        // SAFETY: accepting has just opened this descriptor for us, and tells of it this once.
        let accepted = is_accepted.then(|| unsafe { OwnedFd::from_raw_fd(result) });
        let goes_on = cqueue::more(flags);
        Some(Completion { operation, owner, result, goes_on, filled, accepted })
    }

    /// Lets the kernel have twice as many buffers, if there are so many.
    #[cold]
    pub(super) fn add_buffers(&mut self) {
        self.buffers.use_up_to(self.buffers.in_use * 2);
    }

    /// What the kernel has put into a buffer.
    #[inline]
    pub(super) fn bytes(&self, filled: &Filled) -> &[u8] {
        self.buffers.bytes(filled)
    }

    /// Lets the kernel have a buffer again.
    #[inline]
    #[allow(clippy::needless_pass_by_value, reason = "whoever gives it back has it no more")]
    pub(super) fn give_back(&mut self, filled: Filled) {
        self.buffers.give(filled.buffer);
    }
}

/// A ring that takes no operations yet, and lets itself be restricted.
fn disabled(submissions: u32, completions: u32) -> io::Result<IoUring> {
    let mut builder = IoUring::builder();
    // Work for us is done when we wait, and not by interrupting us; only this thread submits.
    builder.setup_single_issuer().setup_defer_taskrun().setup_cqsize(completions);
    builder.setup_r_disabled().build(submissions)
}

/// Being interrupted, and having waited long enough, is no fault. Where completions wait to be fetched, they are.
fn harmless(done: io::Result<usize>) -> io::Result<()> {
    match done.map_err(|error| (error.raw_os_error(), error)) {
        Err((Some(libc::EINTR | libc::ETIME | libc::EBUSY | libc::EAGAIN), _)) | Ok(_) => Ok(()),
        Err((_, error)) => Err(error),
    }
}

/// What the ring may be asked for: filters of system calls see nothing of what goes through it.
fn restrictions() -> [Restriction; 5] {
    [
        Restriction::sqe_op(opcode::AcceptMulti::CODE),
        Restriction::sqe_op(opcode::RecvMulti::CODE),
        Restriction::sqe_op(opcode::PollAdd::CODE),
        Restriction::sqe_op(opcode::AsyncCancel::CODE),
        Restriction::sqe_flags_allowed((Flags::BUFFER_SELECT | Flags::SKIP_SUCCESS).bits()),
    ]
}

/// The buffers, and the ring by which the kernel gets them. Never freed, since the kernel may still write to them
/// some time after the ring was closed: there is one for each thread that serves, and those end with the process.
struct Buffers {
    entries: NonNull<BufRingEntry>,
    memory: NonNull<u8>,
    tail: u16,
    /// How many of them the kernel has, or had and gets again.
    in_use: u16,
}

impl Buffers {
    fn new() -> Buffers {
        let mut buffers = Buffers {
            // The kernel wants whole pages.
            entries: allocate(usize::from(BUFFERS_MAX) * size_of::<BufRingEntry>(), 4096).cast(),
            memory: allocate(usize::from(BUFFERS_MAX) * STRIDE, 64),
            tail: 0,
            in_use: 0,
        };
        buffers.use_up_to(BUFFERS_AT_FIRST);
        buffers
    }

    /// Gives the kernel more of them, until it has so many.
    fn use_up_to(&mut self, buffers: u16) {
        let buffers = buffers.min(BUFFERS_MAX);
        (self.in_use..buffers).for_each(|buffer| self.give(buffer));
        self.in_use = self.in_use.max(buffers);
    }

    fn start(&self, buffer: u16) -> *mut u8 {
        let buffer = usize::from(buffer % BUFFERS_MAX);
        // SAFETY: the memory has room for `BUFFERS_MAX` strides.
        unsafe { self.memory.as_ptr().add(buffer * STRIDE) }
    }

    fn bytes(&self, filled: &Filled) -> &[u8] {
        let length = filled.length.min(BUFFER_BYTES as usize);
        // SAFETY: the buffer lies within the memory, which is initialised and lives for ever. Each `Filled` is
        // the only one of its buffer, since the kernel has named it; it writes there again only when it is
        // given back, which takes the `Filled`.
        unsafe { std::slice::from_raw_parts(self.start(filled.buffer), length) }
    }

    #[inline]
    fn give(&mut self, buffer: u16) {
        let start = self.start(buffer) as u64;
        let place = usize::from(self.tail % BUFFERS_MAX);
        // SAFETY: there are `BUFFERS_MAX` entries, of which the kernel reads those before the tail: this one is
        // behind it. Its fields are set one by one, because the tail lies in an unused field of the first.
        unsafe {
            let entry = &mut *self.entries.as_ptr().add(place);
            entry.set_addr(start);
            entry.set_len(BUFFER_BYTES);
            entry.set_bid(buffer);
        }
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: the tail is a field of the first entry, is aligned, and is read by the kernel at any time;
        // so it is written as a whole, and after the entry.
        unsafe {
            let tail = BufRingEntry::tail(self.entries.as_ptr()).cast_mut();
            AtomicU16::from_ptr(tail).store(self.tail, Ordering::Release);
        }
    }
}

/// Zeroed memory that is never freed. By way of a vector: its memory comes from the kernel page by page, when it is
/// touched, where an allocation with an alignment of its own would be written to at once.
fn allocate(bytes: usize, alignment: usize) -> NonNull<u8> {
    let memory = vec![0u8; bytes + alignment].leak();
    let skipped = memory.as_ptr().align_offset(alignment);
    NonNull::from(&mut memory[skipped..][..bytes]).cast()
}
