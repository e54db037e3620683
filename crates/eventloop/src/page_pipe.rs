//! A pipe by way of which pages of a mapping go to a socket without a copy of their bytes.
//!
//! One for each thread, empty between two sends. What `sendfile(2)` does for a file this does for memory: so it needs
//! no descriptor of the archive, and serves one that was read into memory as well. Never holds bytes that change.

use std::cell::RefCell;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use crate::sys;

/// Bytes that are lent at a time. More would be lent in vain where the socket has no room for all of it.
const LENT_BYTES_MAX: usize = 128 * 1024;

/// Room that a pipe asks for, in bytes: it counts pages, and what is lent may begin within one. Where the system gives
/// less, less is lent at a time.
const PIPE_BYTES: usize = 2 * LENT_BYTES_MAX;

/// A page, on most machines. Where pages are larger, what is lent begins within one, and costs a little more.
const PAGE_BYTES: usize = 4096;

/// A pipe for pages.
#[derive(Debug)]
pub struct PagePipe {
    /// None once there is nothing to make one of: then bytes are sent as others are.
    pipe: RefCell<Option<Pipe>>,
}

#[derive(Debug)]
struct Pipe {
    from: OwnedFd,
    to: OwnedFd,
}

impl Pipe {
    fn new() -> Option<Pipe> {
        let (from, to) = sys::pipe().ok()?;
        // A user who has many pipes is given small ones: they serve.
        let _ = sys::set_pipe_bytes(&to, PIPE_BYTES);
        Some(Pipe { from, to })
    }

    /// Moves what is in the pipe, so many bytes, into the socket as far as there is room. Nothing where this kind of
    /// socket, or this kernel, takes no pages.
    fn move_to(&self, socket: BorrowedFd<'_>, lent: usize) -> Option<usize> {
        let mut moved = 0;
        while moved < lent {
            match sys::splice(&self.from, socket, lent - moved) {
                Ok(Some(bytes)) if bytes > 0 => moved += bytes,
                Ok(_) => break,
                // What has gone has gone: a socket that breaks behind it says so at the next call.
                Err(_) if moved > 0 => break,
                Err(_) => return None,
            }
        }
        Some(moved)
    }
}

impl PagePipe {
    /// An empty pipe; one that lends nothing where the system has none to give.
    #[must_use]
    pub fn new() -> PagePipe {
        PagePipe { pipe: RefCell::new(Pipe::new()) }
    }

    /// Cuts bytes where the first page begins that is theirs alone. What is before is better copied: then the kernel
    /// fills whole segments with pages, where it else sends one that is not full, and pays for each segment.
    #[must_use]
    pub fn cut(bytes: &[u8]) -> (&[u8], &[u8]) {
        let before = bytes.as_ptr().align_offset(PAGE_BYTES);
        bytes.split_at(before.min(bytes.len()))
    }

    /// Sends as much of `bytes` as there is room for, and returns how much that was.
    pub(crate) fn send(&self, socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
        let mut sent = 0;
        while sent < bytes.len() {
            let rest = &bytes[sent..];
            let Some((lent, moved)) = self.lend(socket, &rest[..rest.len().min(LENT_BYTES_MAX)]) else {
                return Ok(sent + sys::send(socket, rest)?.unwrap_or(0));
            };
            sent += moved;
            if moved < lent {
                break;
            }
        }
        Ok(sent)
    }

    /// Lends bytes to the socket: how many, and how many of those it took. Nothing where that cannot be done.
    fn lend(&self, socket: BorrowedFd<'_>, bytes: &[u8]) -> Option<(usize, usize)> {
        let mut pipe = self.pipe.borrow_mut();
        let this = pipe.as_ref()?;
        let lent = sys::lend_pages(&this.to, bytes).ok().flatten().filter(|lent| *lent > 0)?;
        let moved = this.move_to(socket, lent);
        if moved != Some(lent) {
            // The rest would be read from it next. It goes with its pipe: to read it would copy it.
            *pipe = Pipe::new();
        }
        Some((lent, moved?))
    }
}

impl Default for PagePipe {
    fn default() -> Self {
        PagePipe::new()
    }
}

// Only tests ask whether something is left.
#[cfg(test)]
impl PagePipe {
    pub(crate) fn is_empty(&self) -> bool {
        use std::io::Read;
        use std::os::fd::AsFd;
        let pipe = self.pipe.borrow();
        let Some(pipe) = pipe.as_ref() else { return true };
        let from = pipe.from.as_fd().try_clone_to_owned().expect("a descriptor");
        std::fs::File::from(from).read(&mut [0]).is_err()
    }
}
