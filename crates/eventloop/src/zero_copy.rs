//! A pipe by way of which pages of memory go to a socket without a copy of their bytes.
//!
//! One for each thread, empty between two sends. What `sendfile(2)` does for a file this does for memory: so it needs
//! no descriptor of the archive, and serves one that was read into memory as well. Never holds bytes that change.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::os::fd::{BorrowedFd, OwnedFd};

use crate::header_arena::{FreshPages, PAGE_BYTES};
use crate::platform::syscalls as sys;

/// Bytes that are lent at a time. More would be lent in vain where the socket has no room for all of it.
const LENT_BYTES_MAX: usize = 128 * 1024;

/// Room that a pipe asks for, in bytes: it counts pages, and what is lent may begin within one. Where the system gives
/// less, less is lent at a time.
const PIPE_BYTES: usize = 2 * LENT_BYTES_MAX;

/// Bytes that always fit one segment, wherever in a page they begin: the kernel makes it of 17 pieces of pages, and never
/// larger than 64 KiB.
const ONE_SEGMENT_BYTES_MAX: usize = 15 * PAGE_BYTES;

/// Runs that are sent by one call together with the beginning of pages; a head is one.
const RUNS_MAX: usize = 8;

/// A pipe for pages.
#[derive(Debug)]
pub struct PagePipe(RefCell<State>);

#[derive(Debug)]
struct State {
    /// None once there is nothing to make one of: then bytes are sent as others are.
    pipe: Option<Pipe>,
    /// What stands before lent pages is copied to here, and lent with them.
    fresh: FreshPages,
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
        PagePipe(RefCell::new(State { pipe: Pipe::new(), fresh: FreshPages::new() }))
    }

    /// Whether there is a pipe to lend by.
    #[must_use]
    pub fn lends(&self) -> bool {
        self.0.borrow().pipe.is_some()
    }

    /// Sends as much of `runs`, and then of `pages`, as there is room for, and returns how much that was.
    pub(crate) fn send(
        &self,
        socket: BorrowedFd<'_>,
        runs: &[IoSlice<'_>],
        pages: &[u8],
    ) -> io::Result<usize> {
        let State { pipe, fresh } = &mut *self.0.borrow_mut();
        let before = runs.iter().map(|run| run.len()).sum();
        let begun = if runs.len() < RUNS_MAX { copied_with(before, pages) } else { 0 };
        let front = match begun {
            0 if before == 0 => Some(&[][..]),
            0 => fresh.copy(runs),
            _ => None,
        };
        if let Some(front) = front {
            return send_lent(pipe, socket, front, pages);
        }
        // Much stands before them, or their beginning is copied with it, or there is no memory to copy to.
        let (begun, pages) = pages.split_at(begun);
        let sent = send_copied(socket, runs, begun)?;
        if sent < before + begun.len() {
            return Ok(sent);
        }
        Ok(sent + send_lent(pipe, socket, &[], pages)?)
    }
}

/// Sends as much of several runs, and of one more behind them, as there is room for; more is to follow at once.
fn send_copied(socket: BorrowedFd<'_>, runs: &[IoSlice<'_>], last: &[u8]) -> io::Result<usize> {
    let sent = if last.is_empty() {
        sys::send_runs(socket, runs, true)?
    } else {
        let mut all = [IoSlice::new(&[]); RUNS_MAX];
        all[..runs.len()].copy_from_slice(runs);
        all[runs.len()] = IoSlice::new(last);
        sys::send_runs(socket, &all[..=runs.len()], true)?
    };
    Ok(sent.unwrap_or(0))
}

/// How many of the first bytes of `pages` are to be copied behind the so many that stand before them.
///
/// The kernel sends full segments only if it can fill them with 17 pieces, which sixteen whole pages and something before
/// them do. Two pieces before them are one too many, unless they make a page together; then the whole transfer costs half
/// as much again. Where they do not, the second is copied behind what stands before them. That happens to ranges, which
/// begin anywhere: what begins with a page, as large bodies do, is lent whole.
fn copied_with(before: usize, pages: &[u8]) -> usize {
    let begun = pages.as_ptr().align_offset(PAGE_BYTES);
    let is_one_too_many = before > 0 && before + begun <= PAGE_BYTES;
    if is_one_too_many && before + pages.len() > ONE_SEGMENT_BYTES_MAX { begun.min(pages.len()) } else { 0 }
}

/// Sends as much of `front` and `pages` as there is room for. Both are lent, or both are not.
fn send_lent(
    pipe: &mut Option<Pipe>,
    socket: BorrowedFd<'_>,
    mut front: &[u8],
    mut pages: &[u8],
) -> io::Result<usize> {
    let mut sent = 0;
    while !(front.is_empty() && pages.is_empty()) {
        let now = &pages[..pages.len().min(LENT_BYTES_MAX)];
        let Some((lent, moved)) = lend(pipe, socket, &[IoSlice::new(front), IoSlice::new(now)]) else {
            let rest = [IoSlice::new(front), IoSlice::new(pages)];
            return Ok(sent + sys::send_runs(socket, &rest, false)?.unwrap_or(0));
        };
        sent += moved;
        if moved < lent {
            break;
        }
        let of_front = lent.min(front.len());
        (front, pages) = (&front[of_front..], &pages[lent - of_front..]);
    }
    Ok(sent)
}

/// Lends bytes to the socket: how many, and how many of those it took. Nothing where that cannot be done.
fn lend(pipe: &mut Option<Pipe>, socket: BorrowedFd<'_>, runs: &[IoSlice<'_>]) -> Option<(usize, usize)> {
    let this = pipe.as_ref()?;
    let lent = sys::lend_pages(&this.to, runs).ok().flatten().filter(|lent| *lent > 0)?;
    let moved = this.move_to(socket, lent);
    if moved != Some(lent) {
        // The rest would be read from it next. It goes with its pipe: to read it would copy it.
        *pipe = Pipe::new();
    }
    Some((lent, moved?))
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
        let state = self.0.borrow();
        let Some(pipe) = state.pipe.as_ref() else { return true };
        let from = pipe.from.as_fd().try_clone_to_owned().expect("a descriptor");
        std::fs::File::from(from).read(&mut [0]).is_err()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_before_the_first_whole_page_makes_one_piece_or_a_page() {
        let bytes = vec![0; 40 * PAGE_BYTES];
        let aligned = &bytes[bytes.as_ptr().align_offset(PAGE_BYTES)..];
        // Nothing but whole pages behind the head.
        assert_eq!(copied_with(400, aligned), 0);
        // A head of 400 bytes and a piece of 96: together they are still little.
        assert_eq!(copied_with(400, &aligned[4000..]), 96);
        // Together with so much more it makes a page.
        assert_eq!(copied_with(400, &aligned[300..]), 0);
        // Without a head, one piece comes before the pages.
        assert_eq!(copied_with(0, &aligned[4000..]), 0);
        // In a single segment there is room for two.
        assert_eq!(copied_with(400, &aligned[4000..][..30_000]), 0);
    }
}
