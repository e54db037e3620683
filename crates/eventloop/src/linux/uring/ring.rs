//! A ring. It submits operations, returns completions and owns the buffers for received data.
//!
//! Together with `syscalls.rs`, this file contains all `unsafe` code for Linux. Operations refer to no memory except for the
//! buffers. We never free these, so no operation can outlive its memory. Completions are passed on as they are.

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

use super::user_data::Operation;
use crate::token::Token;

/// Maximum number of operations waiting for the next call. When there are more of them, an extra call is necessary.
const SUBMISSIONS: u32 = 512;

/// Maximum number of completions per call. The kernel will keep the rest for the next call.
const COMPLETIONS: u32 = 4096;

/// Maximum number of buffers. MUST be a power of two. This can be smaller than the number of connections because a buffer is
/// recycled as soon as its event has been handled.
const BUFFERS_MAX: u16 = 1024;

/// Initial number of buffers. The kernel uses them in turn, so a small number will stay in the processor's caches. Recent kernels
/// typically return about twenty completions at a time; we will add buffers if necessary.
const BUFFERS_INITIAL: u16 = 64;

/// Size of a buffer. Most requests are much shorter; longer data will arrive in several buffers.
const BUFFER_BYTES: u32 = 2048;

/// Distance between buffers, one cache line more than their size. Most requests only need the first few lines of a buffer; with
/// this distance, those lines will be in different sets of the processor's cache.
const STRIDE: usize = BUFFER_BYTES as usize + 64;

/// ID of the only buffer group.
const BUFFER_GROUP: u16 = 0;

pub(super) struct Ring {
    ring: IoUring,
    buffers: Buffers,
}

/// The result of an operation. Some operations have several results.
#[derive(Debug)]
pub(super) struct Completion {
    /// The kind of the operation.
    pub(super) operation: Operation,
    /// The token that the operation is for, with a truncated generation.
    pub(super) owner: Token,
    /// The result of the system call. If it is negative, it is an `errno`.
    pub(super) result: i32,
    /// Whether there will be more completions because the operation is multishot.
    pub(super) has_more: bool,
    /// A buffer filled by the kernel.
    pub(super) buffer: Option<FilledBuffer>,
    /// A connection accepted by the kernel.
    pub(super) accepted: Option<OwnedFd>,
}

/// A buffer filled by the kernel. It is ours until we pass it to [`Ring::recycle`]; note that just dropping it would leak the
/// buffer.
#[derive(Debug)]
#[must_use]
pub(super) struct FilledBuffer {
    index: u16,
    length: usize,
}

impl Ring {
    /// Creates a ring, restricted to the operations below. This fails if the kernel lacks a feature or forbids io_uring.
    pub(super) fn new() -> io::Result<Ring> {
        let ring = disabled(SUBMISSIONS, COMPLETIONS)?;
        let buffers = Buffers::new();
        // SAFETY: the entries are never freed, and there are `BUFFERS_MAX` of them.
        unsafe {
            let entries = buffers.entries.as_ptr() as u64;
            ring.submitter().register_buf_ring_with_flags(entries, BUFFERS_MAX, BUFFER_GROUP, 0)?;
        }
        ring.submitter().register_restrictions(&mut restrictions())?;
        ring.submitter().register_enable_rings()?;
        Ok(Ring { ring, buffers })
    }

    /// Checks if we can create such a ring, using a minimal one without buffers.
    pub(super) fn probe() -> io::Result<()> {
        let ring = disabled(1, 2)?;
        ring.submitter().register_restrictions(&mut restrictions())?;
        ring.submitter().register_enable_rings()
    }

    /// Accepts connections until cancelled. There will be a completion for each one.
    pub(super) fn accept(&mut self, listener: RawFd, number: u32) -> io::Result<()> {
        let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        let accept = opcode::AcceptMulti::new(Fd(listener)).flags(flags).build();
        self.push(accept, Operation::Accept, Token { slot: number, generation: 0 })
    }

    pub(super) fn receive_once(&mut self, socket: RawFd, owner: Token) -> io::Result<()> {
        // The kernel chooses a buffer, so there is no need for address and length.
        let receive = opcode::Recv::new(Fd(socket), std::ptr::null_mut(), 0).buf_group(BUFFER_GROUP).build();
        self.push(receive.flags(Flags::BUFFER_SELECT), Operation::Receive, owner)
    }

    /// Receives until cancelled. There will be a completion for each filled buffer.
    pub(super) fn receive_multishot(&mut self, socket: RawFd, owner: Token) -> io::Result<()> {
        self.push(opcode::RecvMulti::new(Fd(socket), BUFFER_GROUP).build(), Operation::Receive, owner)
    }

    /// Waits until a connection has room to send or has failed, with a single completion.
    pub(super) fn poll_writable(&mut self, socket: RawFd, owner: Token) -> io::Result<()> {
        let poll = opcode::PollAdd::new(Fd(socket), libc::POLLOUT as u32);
        self.push(poll.build(), Operation::PollWritable, owner)
    }

    /// Waits for wake-ups until cancelled. There will be a completion for each one.
    pub(super) fn poll_waker(&mut self, waker: RawFd) -> io::Result<()> {
        let poll = opcode::PollAdd::new(Fd(waker), libc::POLLIN as u32).multi(true);
        self.push(poll.build(), Operation::PollWaker, Token { slot: 0, generation: 0 })
    }

    /// Waits for datagrams until cancelled. Expect a completion for each arrival, or a single one for several arrivals.
    pub(super) fn poll_datagrams(&mut self, socket: RawFd, owner: Token) -> io::Result<()> {
        let poll = opcode::PollAdd::new(Fd(socket), libc::POLLIN as u32).multi(true);
        self.push(poll.build(), Operation::PollDatagrams, owner)
    }

    /// Waits until a datagram socket has room to send, with a single completion.
    pub(super) fn poll_room(&mut self, socket: RawFd, owner: Token) -> io::Result<()> {
        let poll = opcode::PollAdd::new(Fd(socket), libc::POLLOUT as u32);
        self.push(poll.build(), Operation::PollRoom, owner)
    }

    /// Cancels an operation. There will be a last completion for it.
    pub(super) fn cancel(&mut self, operation: Operation, owner: Token) -> io::Result<()> {
        let cancel = opcode::AsyncCancel::new(operation.pack(owner)).build();
        // With this flag, cancelling itself doesn't cause a completion unless the operation is not found.
        self.push(cancel.flags(Flags::SKIP_SUCCESS), Operation::Cancel, owner)
    }

    fn push(&mut self, entry: Entry, operation: Operation, owner: Token) -> io::Result<()> {
        let entry = entry.user_data(operation.pack(owner));
        loop {
            // SAFETY: the operations that are built above refer to no memory of ours except the buffers of the group,
            // which are never freed.
            if unsafe { self.ring.submission().push(&entry) }.is_ok() {
                return Ok(());
            }
            self.submit()?;
        }
    }

    /// Submits pending operations. Does not wait for completions.
    fn submit(&mut self) -> io::Result<()> {
        ignore_transient(self.ring.submit())
    }

    /// Submits pending operations and waits until there is a completion or a timeout.
    pub(super) fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        ignore_transient(match timeout {
            None => self.ring.submit_and_wait(1),
            Some(timeout) => {
                let timespec = Timespec::from(timeout);
                self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&timespec))
            }
        })
    }

    /// Returns the next available completion.
    #[inline]
    pub(super) fn next(&mut self) -> Option<Completion> {
        let entry = self.ring.completion().next()?;
        let flags = entry.flags();
        let result = entry.result();
        // If it is an error, there are no bytes.
        let length = usize::try_from(result).unwrap_or(0);
        let buffer = cqueue::buffer_select(flags).map(|index| FilledBuffer { index, length });
        let (operation, owner) = Operation::unpack(entry.user_data());
        let is_accepted = operation == Operation::Accept && result >= 0;
        // SAFETY: the operation has just opened this descriptor for us, and reports it only once.
        let accepted = is_accepted.then(|| unsafe { OwnedFd::from_raw_fd(result) });
        Some(Completion { operation, owner, result, has_more: cqueue::more(flags), buffer, accepted })
    }

    /// Doubles the number of buffers, up to [`BUFFERS_MAX`].
    #[cold]
    pub(super) fn add_buffers(&mut self) {
        self.buffers.grow_to(self.buffers.in_use * 2);
    }

    #[inline]
    pub(super) fn bytes(&self, buffer: &FilledBuffer) -> &[u8] {
        self.buffers.bytes(buffer)
    }

    #[inline]
    #[allow(clippy::needless_pass_by_value, reason = "takes the buffer from its owner")]
    pub(super) fn recycle(&mut self, buffer: FilledBuffer) {
        self.buffers.provide(buffer.index);
    }
}

/// Creates a disabled ring. Restrictions are only possible while it is disabled.
fn disabled(submissions: u32, completions: u32) -> io::Result<IoUring> {
    let mut builder = IoUring::builder();
    // Let the kernel complete operations only while we are waiting, so that it does not need to interrupt us. Only this thread
    // submits.
    builder.setup_single_issuer().setup_defer_taskrun().setup_cqsize(completions);
    builder.setup_r_disabled().build(submissions)
}

/// Ignores signals, timeouts, and a full completion queue. We will empty the queue next.
fn ignore_transient(result: io::Result<usize>) -> io::Result<()> {
    match result.map_err(|error| (error.raw_os_error(), error)) {
        Err((Some(libc::EINTR | libc::ETIME | libc::EBUSY | libc::EAGAIN), _)) | Ok(_) => Ok(()),
        Err((_, error)) => Err(error),
    }
}

/// Operations that the ring permits. We need to restrict them here, since system call filters do not see them.
fn restrictions() -> [Restriction; 5] {
    [
        Restriction::sqe_op(opcode::AcceptMulti::CODE),
        Restriction::sqe_op(opcode::RecvMulti::CODE),
        Restriction::sqe_op(opcode::PollAdd::CODE),
        Restriction::sqe_op(opcode::AsyncCancel::CODE),
        Restriction::sqe_flags_allowed((Flags::BUFFER_SELECT | Flags::SKIP_SUCCESS).bits()),
    ]
}

/// Buffers, and the ring of entries that gives them to the kernel.
///
/// We never free buffers, because the kernel might still write to them for some time after the ring was closed. There is only one
/// set per worker, and workers live as long as the process.
struct Buffers {
    entries: NonNull<BufRingEntry>,
    memory: NonNull<u8>,
    tail: u16,
    /// Number of buffers currently shared with the kernel.
    in_use: u16,
}

impl Buffers {
    fn new() -> Buffers {
        let mut buffers = Buffers {
            // The kernel requires these to be page-aligned.
            entries: allocate(usize::from(BUFFERS_MAX) * size_of::<BufRingEntry>(), 4096).cast(),
            memory: allocate(usize::from(BUFFERS_MAX) * STRIDE, 64),
            tail: 0,
            in_use: 0,
        };
        buffers.grow_to(BUFFERS_INITIAL);
        buffers
    }

    /// Gives the kernel more buffers, until it has `count`.
    fn grow_to(&mut self, count: u16) {
        let count = count.min(BUFFERS_MAX);
        for index in self.in_use..count {
            self.provide(index);
        }
        self.in_use = self.in_use.max(count);
    }

    fn start(&self, index: u16) -> *mut u8 {
        let index = usize::from(index % BUFFERS_MAX);
        // SAFETY: the memory has room for `BUFFERS_MAX` strides.
        unsafe { self.memory.as_ptr().add(index * STRIDE) }
    }

    fn bytes(&self, buffer: &FilledBuffer) -> &[u8] {
        let length = buffer.length.min(BUFFER_BYTES as usize);
        // SAFETY: the buffer is within the memory, which is initialized and never freed. Each `FilledBuffer` is the only
        // one of its buffer because the kernel reports a buffer once. The kernel writes to it again only after
        // `recycle`, which takes the `FilledBuffer`.
        unsafe { std::slice::from_raw_parts(self.start(buffer.index), length) }
    }

    #[inline]
    fn provide(&mut self, index: u16) {
        let start = self.start(index) as u64;
        let position = usize::from(self.tail % BUFFERS_MAX);
        // SAFETY: there are `BUFFERS_MAX` entries, and the kernel reads only those before the tail, which this one is not.
        // Its fields are set one by one because an unused field of the first entry holds the tail.
        unsafe {
            let entry = &mut *self.entries.as_ptr().add(position);
            entry.set_addr(start);
            entry.set_len(BUFFER_BYTES);
            entry.set_bid(index);
        }
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: the tail is an aligned field of the first entry. The kernel may read it at any time, so it is written
        // atomically, and after the entry.
        unsafe {
            let tail = BufRingEntry::tail(self.entries.as_ptr()).cast_mut();
            AtomicU16::from_ptr(tail).store(self.tail, Ordering::Release);
        }
    }
}

/// Allocates zeroed memory that will never be freed. If we asked the allocator for the alignment, it would zero all of the memory
/// right away; a larger vector, however, does not take up real memory before its pages are used.
fn allocate(bytes: usize, alignment: usize) -> NonNull<u8> {
    let memory = vec![0u8; bytes + alignment].leak();
    let skipped = memory.as_ptr().align_offset(alignment);
    NonNull::from(&mut memory[skipped..][..bytes]).cast()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ring_refuses_all_operations_but_its_own() {
        let mut ring = match Ring::new() {
            Ok(ring) => ring,
            Err(error) => return println!("skipped: this kernel gives no ring: {error}"),
        };
        let standard_input = Fd(0);
        let nothing = std::ptr::null();
        let no_message = std::ptr::null();
        let refused = [
            ("send", opcode::Send::new(standard_input, nothing, 0).build()),
            ("sendto", opcode::Send::new(standard_input, nothing, 0).dest_addr(std::ptr::null()).build()),
            ("fast open", opcode::Send::new(standard_input, nothing, 0).flags(libc::MSG_FASTOPEN).build()),
            ("send without a copy", opcode::SendZc::new(standard_input, nothing, 0).build()),
            ("sendmsg", opcode::SendMsg::new(standard_input, no_message).build()),
            ("connect", opcode::Connect::new(standard_input, std::ptr::null(), 0).build()),
            ("socket", opcode::Socket::new(libc::AF_INET, libc::SOCK_STREAM, 0).build()),
            ("open", opcode::OpenAt::new(standard_input, c"/etc/passwd".as_ptr()).build()),
            ("read", opcode::Read::new(standard_input, std::ptr::null_mut(), 0).build()),
            ("write", opcode::Write::new(standard_input, nothing, 0).build()),
            ("splice", opcode::Splice::new(standard_input, -1, standard_input, -1, 0).build()),
            ("shutdown", opcode::Shutdown::new(standard_input, 0).build()),
            ("close", opcode::Close::new(Fd(-1)).build()),
            ("unlink", opcode::UnlinkAt::new(standard_input, c"/nowhere".as_ptr()).build()),
            ("a linked operation", opcode::PollAdd::new(standard_input, 0).build().flags(Flags::IO_LINK)),
        ];
        for (name, entry) in refused {
            ring.push(entry, Operation::PollWritable, Token { slot: 1, generation: 1 }).unwrap();
            ring.wait(Some(Duration::from_secs(5))).unwrap();
            let completion = ring.next().unwrap_or_else(|| panic!("{name}: no completion"));
            assert_eq!(completion.result, -libc::EACCES, "{name}");
        }
    }
}
