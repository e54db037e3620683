//! Collects processes that commands leave behind, such as the `sleep` of `sleep 60 &`.
//!
//! As the first process of a container, `cannery follow` would become their parent, but its sandbox doesn't let it wait for children.
//! So the processes that run commands for it become their parent instead.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{WaitOptions, wait};
use signal_hook::consts::SIGCHLD;
use signal_hook::low_level::pipe;

/// The parent of processes whose own parent has exited.
pub(super) struct Orphans {
    /// Readable after a child has exited.
    exits: UnixStream,
}

impl Orphans {
    /// Makes this process the parent of all orphans among its descendants.
    pub(super) fn adopt() -> io::Result<Orphans> {
        let (exits, sender) = UnixStream::pair()?;
        exits.set_nonblocking(true)?;
        pipe::register(SIGCHLD, sender)?;
        // Elsewhere, the first process remains their parent.
        #[cfg(target_os = "linux")]
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        Ok(Orphans { exits })
    }

    /// Collects orphans until the input is readable or has ended. The caller has no child whose exit status it wants to know.
    pub(super) fn collect_until_readable(&mut self, input: &impl AsFd) -> io::Result<()> {
        loop {
            // First, because a process that exits after the loop below makes it readable again.
            while self.exits.read(&mut [0; 64]).is_ok_and(|count| count > 0) {}
            while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}

            let mut polled = [PollFd::new(input, PollFlags::IN), PollFd::new(&self.exits, PollFlags::IN)];
            match poll(&mut polled, None) {
                Ok(_) if !polled[0].revents().is_empty() => return Ok(()),
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}
