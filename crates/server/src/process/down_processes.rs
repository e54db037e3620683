//! Keeps track of processes that are down. Until they are restarted, their listening sockets are served by
//! other processes.
//!
//! The supervisor keeps the listening sockets open, so the kernel will still assign connections to those of a
//! process that has exited. To serve these, each process inherits the sockets of all others, too. Whenever a
//! process exits or is restarted, the supervisor sends a line with the numbers of all processes that are
//! currently down.

use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cannery_eventloop::Waker;

use super::udp_handover::{HAND_OVER, UdpHandover};
use crate::error::StartError;
use crate::sandbox::{Sandbox, ThreadRole};
use crate::thread;

/// Numbers of the processes that are down. This set is shared by all workers and updated by lines from
/// the supervisor.
#[derive(Debug, Clone, Default)]
pub(crate) struct DownProcesses(Arc<[AtomicBool]>);

impl DownProcesses {
    /// Creates an empty set with room for processes 0 to `last`.
    pub(crate) fn with_last(last: usize) -> DownProcesses {
        DownProcesses((0..=last).map(|_| AtomicBool::new(false)).collect())
    }

    /// Returns `true` if a process is down.
    pub(crate) fn contains(&self, process: usize) -> bool {
        self.0.get(process).is_some_and(|is_down| is_down.load(Ordering::Acquire))
    }

    /// Applies a line from the supervisor. It contains the numbers of the processes that are down,
    /// separated by commas.
    fn set(&self, line: &str) {
        let down: Vec<usize> = line.split(',').filter_map(|number| number.trim().parse().ok()).collect();
        for (process, is_down) in self.0.iter().enumerate() {
            is_down.store(down.contains(&process), Ordering::Release);
        }
    }

    /// Starts a thread that reads lines from the supervisor until it exits, waking up the workers after
    /// each line.
    pub(crate) fn follow(
        self,
        supervisor: Arc<UnixStream>,
        handover: UdpHandover,
        wakers: Vec<Waker>,
        sandbox: &Sandbox,
    ) -> Result<(), StartError> {
        thread::start("supervisor", sandbox, ThreadRole::Coordinator, move || {
            for line in BufReader::new(&*supervisor).lines().map_while(Result::ok) {
                if line == HAND_OVER {
                    handover.order();
                } else {
                    self.set(&line);
                }
                for waker in &wakers {
                    waker.wake();
                }
            }
        })?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_lists_the_processes_that_are_down() {
        let down_processes = DownProcesses::with_last(2);
        let down = || [0, 1, 2, 3].map(|process| down_processes.contains(process));
        assert_eq!(down(), [false; 4]);
        down_processes.set("0,2,7");
        assert_eq!(down(), [true, false, true, false]);
        down_processes.set("1");
        assert_eq!(down(), [false, true, false, false]);
        down_processes.set("");
        assert_eq!(down(), [false; 4]);
    }
}
