//! Zero-copy sends: moves pages of memory to a socket through a pipe, without copying them.
//!
//! First, `vmsplice(2)` makes the pipe refer to pages, and then `splice(2)` moves these references to the socket. Each thread has a
//! pipe that is empty between sends. All this is like `sendfile(2)`, but for memory: we do not need a descriptor of the archive,
//! and it also works when the archive was read into memory. Note that the bytes in these pages must *never* change.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::os::fd::{BorrowedFd, OwnedFd};

use super::header_arena::{HeaderArena, PAGE_BYTES};
use super::syscalls;

/// Maximum number of bytes spliced at a time. With more, sockets typically do not have enough room, and some of the work would be
/// in vain.
const SPLICE_BYTES_MAX: usize = 128 * 1024;

/// The pipe capacity we request, in bytes. Pipes count pages, and data can start in the middle of a page. When the system grants
/// less, we need to splice fewer bytes at a time.
const PIPE_BYTES: usize = 2 * SPLICE_BYTES_MAX;

/// A body of this length always fits into one segment, wherever in a page it starts. Note that the kernel builds segments from up
/// to 17 fragments and 64 KiB.
const ONE_SEGMENT_BYTES_MAX: usize = 15 * PAGE_BYTES;

/// Maximum number of runs that can be sent together with the start of a body. A response head is one run.
const RUNS_MAX: usize = 8;

/// A pipe for zero-copy sends.
#[derive(Debug)]
pub struct SplicePipe(RefCell<State>);

#[derive(Debug)]
struct State {
    /// If the system does not give us a pipe, we need to copy.
    pipe: Option<Pipe>,
    /// Copies of response heads, so that we can splice them together with their bodies.
    arena: HeaderArena,
}

#[derive(Debug)]
struct Pipe {
    reader: OwnedFd,
    writer: OwnedFd,
}

/// The result of a splice.
struct Spliced {
    /// Number of bytes that went into the pipe.
    piped: usize,
    /// Number of them that the socket has accepted.
    sent: usize,
}

impl Pipe {
    fn new() -> Option<Pipe> {
        let (reader, writer) = syscalls::pipe().ok()?;
        // New pipes are small when this user has many of them. That works too.
        let _ = syscalls::set_pipe_capacity(&writer, PIPE_BYTES);
        Some(Pipe { reader, writer })
    }

    /// Moves the `piped` bytes from the pipe to the socket as far as there is room and returns the number of bytes moved. `None`
    /// means that the kind of socket or the kernel does not support this.
    fn move_to(&self, socket: BorrowedFd<'_>, piped: usize) -> Option<usize> {
        let mut moved = 0;
        while moved < piped {
            match syscalls::splice(&self.reader, socket, piped - moved) {
                Ok(Some(bytes)) if bytes > 0 => moved += bytes,
                Ok(_) => break,
                // We have moved some bytes, so report those first. If the socket has failed, the next call will tell.
                Err(_) if moved > 0 => break,
                Err(_) => return None,
            }
        }
        Some(moved)
    }
}

impl SplicePipe {
    /// Creates an empty pipe. If we cannot get one from the system, sends will copy.
    #[must_use]
    pub fn new() -> SplicePipe {
        SplicePipe(RefCell::new(State { pipe: Pipe::new(), arena: HeaderArena::new() }))
    }

    /// Returns `true` if the system has given us a pipe.
    #[must_use]
    pub fn is_available(&self) -> bool {
        self.0.borrow().pipe.is_some()
    }

    /// Sends as much of `runs` followed by `body` as there is room for and returns the number of bytes sent.
    pub(crate) fn send(
        &self,
        socket: BorrowedFd<'_>,
        runs: &[IoSlice<'_>],
        body: &[u8],
    ) -> io::Result<usize> {
        let State { pipe, arena } = &mut *self.0.borrow_mut();
        let runs_bytes = runs.iter().map(|run| run.len()).sum();
        let copied_bytes = if runs.len() < RUNS_MAX { copied_body_bytes(runs_bytes, body) } else { 0 };

        // If the runs are short and no part of the body should be copied, we can splice runs and body together.
        let head = match copied_bytes {
            0 if runs_bytes == 0 => Some(&[][..]),
            0 => arena.copy(runs),
            _ => None,
        };
        if let Some(head) = head {
            return splice_all(pipe, socket, head, body);
        }

        // Otherwise copy the runs first.
        let (copied, body) = body.split_at(copied_bytes);
        let sent = send_copied(socket, runs, copied)?;
        if sent < runs_bytes + copied.len() {
            return Ok(sent);
        }
        Ok(sent + splice_all(pipe, socket, &[], body)?)
    }
}

/// Sends as much of `runs` followed by `last` as there is room for, by copying everything. More data should follow at once.
fn send_copied(socket: BorrowedFd<'_>, runs: &[IoSlice<'_>], last: &[u8]) -> io::Result<usize> {
    let sent = if last.is_empty() {
        syscalls::send_vectored_more(socket, runs)?
    } else {
        let mut all = [IoSlice::new(&[]); RUNS_MAX];
        all[..runs.len()].copy_from_slice(runs);
        all[runs.len()] = IoSlice::new(last);
        syscalls::send_vectored_more(socket, &all[..=runs.len()])?
    };
    Ok(sent.unwrap_or(0))
}

/// Returns the number of bytes at the start of `body` that should be copied, given that `runs_bytes` bytes precede it.
///
/// To send full segments, the kernel needs 17 fragments for each: one fragment and then sixteen whole pages. With two fragments in
/// different pages before the first whole page, the transfer would cost half as much again. To avoid this, we copy the first
/// fragment of a body along with the runs, unless the body starts at a page boundary. Note that this only concerns ranges (large
/// bodies are page-aligned).
fn copied_body_bytes(runs_bytes: usize, body: &[u8]) -> usize {
    let before_page = body.as_ptr().align_offset(PAGE_BYTES);
    let has_extra_fragment = runs_bytes > 0 && runs_bytes + before_page <= PAGE_BYTES;
    if has_extra_fragment && runs_bytes + body.len() > ONE_SEGMENT_BYTES_MAX {
        before_page.min(body.len())
    } else {
        0
    }
}

/// Sends as much of `head` followed by `body` as there is room for. If we cannot splice, we copy both.
fn splice_all(
    pipe: &mut Option<Pipe>,
    socket: BorrowedFd<'_>,
    mut head: &[u8],
    mut body: &[u8],
) -> io::Result<usize> {
    let mut total = 0;
    while !(head.is_empty() && body.is_empty()) {
        let part = &body[..body.len().min(SPLICE_BYTES_MAX)];
        let Some(Spliced { piped, sent }) = splice(pipe, socket, &[IoSlice::new(head), IoSlice::new(part)])
        else {
            let rest = [IoSlice::new(head), IoSlice::new(body)];
            return Ok(total + syscalls::send_vectored(socket, &rest)?.unwrap_or(0));
        };
        total += sent;
        if sent < piped {
            break;
        }
        let head_bytes = piped.min(head.len());
        head = &head[head_bytes..];
        body = &body[piped - head_bytes..];
    }
    Ok(total)
}

/// Splices `runs` to the socket, as far as there is room. Returns `None` if the system does not support this.
fn splice(pipe: &mut Option<Pipe>, socket: BorrowedFd<'_>, runs: &[IoSlice<'_>]) -> Option<Spliced> {
    let current = pipe.as_ref()?;
    let piped = syscalls::vmsplice(&current.writer, runs).ok().flatten().filter(|piped| *piped > 0)?;
    let sent = current.move_to(socket, piped);
    if sent != Some(piped) {
        // The rest is still in the pipe, and the next splice would send it. We drop the pipe, since reading the rest would mean
        // copying it.
        *pipe = Pipe::new();
    }
    Some(Spliced { piped, sent: sent? })
}

impl Default for SplicePipe {
    fn default() -> Self {
        SplicePipe::new()
    }
}

#[cfg(test)]
impl SplicePipe {
    /// Returns `true` if the pipe is empty.
    pub(crate) fn is_empty(&self) -> bool {
        use std::io::Read;
        use std::os::fd::AsFd;
        let state = self.0.borrow();
        let Some(pipe) = state.pipe.as_ref() else { return true };
        let reader = pipe.reader.as_fd().try_clone_to_owned().expect("a free descriptor");
        std::fs::File::from(reader).read(&mut [0]).is_err()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extra_fragment_is_copied() {
        let bytes = vec![0; 40 * PAGE_BYTES];
        let aligned = &bytes[bytes.as_ptr().align_offset(PAGE_BYTES)..];
        // The head is followed by whole pages, so there's no extra fragment.
        assert_eq!(copied_body_bytes(400, aligned), 0);
        // A head of 400 bytes plus 96 bytes of the body are less than a page.
        assert_eq!(copied_body_bytes(400, &aligned[4000..]), 96);
        // Together they are more than a page.
        assert_eq!(copied_body_bytes(400, &aligned[300..]), 0);
        // Without a head, there is just one fragment before the whole pages.
        assert_eq!(copied_body_bytes(0, &aligned[4000..]), 0);
        // Both fit into a single segment.
        assert_eq!(copied_body_bytes(400, &aligned[4000..][..30_000]), 0);
    }
}
