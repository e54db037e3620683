//! Zero-copy sends: a pipe by which pages of memory reach a socket without being copied.
//!
//! `vmsplice(2)` makes the pipe refer to pages, and `splice(2)` moves the references to the socket. Each thread has one
//! pipe, which is empty between sends. This does for memory what `sendfile(2)` does for files: it needs no descriptor of
//! the archive, and works for an archive that was read into memory. The bytes of the pages must never change.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::os::fd::{BorrowedFd, OwnedFd};

use super::header_arena::{HeaderArena, PAGE_BYTES};
use super::syscalls;

/// Bytes that are spliced at a time. With more, a socket would often lack room, and the rest be spliced in vain.
const SPLICE_BYTES_MAX: usize = 128 * 1024;

/// The requested capacity of the pipe, in bytes. A pipe counts pages, and data may begin within one. If the system grants
/// less, fewer bytes are spliced at a time.
const PIPE_BYTES: usize = 2 * SPLICE_BYTES_MAX;

/// Bytes that always fit one segment, wherever in a page they begin: the kernel builds a segment of at most 17 fragments
/// and 64 KiB.
const ONE_SEGMENT_BYTES_MAX: usize = 15 * PAGE_BYTES;

/// Runs that one call sends together with the start of a body. A response head is one run.
const RUNS_MAX: usize = 8;

/// A pipe for zero-copy sends.
#[derive(Debug)]
pub struct SplicePipe(RefCell<State>);

#[derive(Debug)]
struct State {
    /// `None` once the system grants no pipe: then sends copy.
    pipe: Option<Pipe>,
    /// Response heads are copied here, and then spliced with their bodies.
    arena: HeaderArena,
}

#[derive(Debug)]
struct Pipe {
    reader: OwnedFd,
    writer: OwnedFd,
}

/// The result of a splice.
struct Spliced {
    /// Bytes that the pipe took.
    piped: usize,
    /// The part of them that the socket took.
    sent: usize,
}

impl Pipe {
    fn new() -> Option<Pipe> {
        let (reader, writer) = syscalls::pipe().ok()?;
        // Users with many pipes get small ones, which work too.
        let _ = syscalls::set_pipe_capacity(&writer, PIPE_BYTES);
        Some(Pipe { reader, writer })
    }

    /// Moves the `piped` bytes in the pipe to the socket as far as there is room. Returns the number of bytes moved, or
    /// `None` if this kind of socket, or this kernel, does not support that.
    fn move_to(&self, socket: BorrowedFd<'_>, piped: usize) -> Option<usize> {
        let mut moved = 0;
        while moved < piped {
            match syscalls::splice(&self.reader, socket, piped - moved) {
                Ok(Some(bytes)) if bytes > 0 => moved += bytes,
                Ok(_) => break,
                // Bytes that were moved count. If the socket has failed, the next call reports it.
                Err(_) if moved > 0 => break,
                Err(_) => return None,
            }
        }
        Some(moved)
    }
}

impl SplicePipe {
    /// Creates an empty pipe. If the system grants none, sends copy.
    #[must_use]
    pub fn new() -> SplicePipe {
        SplicePipe(RefCell::new(State { pipe: Pipe::new(), arena: HeaderArena::new() }))
    }

    /// Returns `true` if there is a pipe.
    #[must_use]
    pub fn is_available(&self) -> bool {
        self.0.borrow().pipe.is_some()
    }

    /// Sends as much of `runs` and then of `body` as there is room for. Returns the number of bytes sent.
    pub(crate) fn send(
        &self,
        socket: BorrowedFd<'_>,
        runs: &[IoSlice<'_>],
        body: &[u8],
    ) -> io::Result<usize> {
        let State { pipe, arena } = &mut *self.0.borrow_mut();
        let runs_bytes = runs.iter().map(|run| run.len()).sum();
        let copied_bytes = if runs.len() < RUNS_MAX { copied_body_bytes(runs_bytes, body) } else { 0 };

        // Splice the runs together with the body, if they are short and no start of the body must be copied.
        let head = match copied_bytes {
            0 if runs_bytes == 0 => Some(&[][..]),
            0 => arena.copy(runs),
            _ => None,
        };
        if let Some(head) = head {
            return splice_all(pipe, socket, head, body);
        }

        // Otherwise copy them first.
        let (copied, body) = body.split_at(copied_bytes);
        let sent = send_copied(socket, runs, copied)?;
        if sent < runs_bytes + copied.len() {
            return Ok(sent);
        }
        Ok(sent + splice_all(pipe, socket, &[], body)?)
    }
}

/// Sends as much of `runs` and then of `last` as there is room for, by a copy. More data follows at once.
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

/// Returns how many bytes at the start of `body` are better copied, if `runs_bytes` bytes precede it.
///
/// The kernel sends full segments only if 17 fragments fill them: sixteen whole pages and one fragment before them. If two
/// fragments precede the first whole page and don't share a page, the transfer costs half as much again. The second one is
/// the start of a body that does not begin with a page, so it is copied after the runs. This concerns ranges; large bodies
/// begin with a page.
fn copied_body_bytes(runs_bytes: usize, body: &[u8]) -> usize {
    let before_page = body.as_ptr().align_offset(PAGE_BYTES);
    let has_extra_fragment = runs_bytes > 0 && runs_bytes + before_page <= PAGE_BYTES;
    if has_extra_fragment && runs_bytes + body.len() > ONE_SEGMENT_BYTES_MAX {
        before_page.min(body.len())
    } else {
        0
    }
}

/// Sends as much of `head` and then of `body` as there is room for: spliced, or copied if the system can't splice.
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

/// Splices `runs` to the socket as far as there is room. Returns `None` if that is not supported.
fn splice(pipe: &mut Option<Pipe>, socket: BorrowedFd<'_>, runs: &[IoSlice<'_>]) -> Option<Spliced> {
    let current = pipe.as_ref()?;
    let piped = syscalls::vmsplice(&current.writer, runs).ok().flatten().filter(|piped| *piped > 0)?;
    let sent = current.move_to(socket, piped);
    if sent != Some(piped) {
        // The next splice would send the rest. Reading it would copy it, so it is dropped with its pipe.
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
    /// Returns `true` if the pipe holds no bytes.
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
        // The head precedes whole pages: no extra fragment.
        assert_eq!(copied_body_bytes(400, aligned), 0);
        // A head of 400 bytes and 96 bytes of the body make less than a page.
        assert_eq!(copied_body_bytes(400, &aligned[4000..]), 96);
        // Together they exceed a page.
        assert_eq!(copied_body_bytes(400, &aligned[300..]), 0);
        // Without a head, one fragment precedes the whole pages.
        assert_eq!(copied_body_bytes(0, &aligned[4000..]), 0);
        // A single segment has room for both.
        assert_eq!(copied_body_bytes(400, &aligned[4000..][..30_000]), 0);
    }
}
