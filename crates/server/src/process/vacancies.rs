//! Processes that are gone for a moment, and whose listening sockets the others serve meanwhile.
//!
//! The kernel goes on assigning connections to the listening sockets of a process that has ended, since its supervisor
//! keeps them open. Every process therefore has the sockets of all others too, and its supervisor says which processes are
//! gone: one line with their numbers, whenever that changes.

use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cannery_eventloop::{Listener, Waker};

use crate::config::ListenerKind;
use crate::error::StartError;
use crate::sandbox::{Sandbox, ThreadRole};
use crate::thread;

/// A listening socket of another process.
#[derive(Debug)]
pub(crate) struct Standby<L = Listener> {
    /// The number of the process.
    pub(crate) process: usize,
    pub(crate) kind: ListenerKind,
    pub(crate) listener: L,
}

/// Which processes are gone, by their numbers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Vacancies(Arc<[AtomicBool]>);

impl Vacancies {
    /// All of the processes up to this number run.
    pub(crate) fn new(last: usize) -> Vacancies {
        Vacancies((0..=last).map(|_| AtomicBool::new(false)).collect())
    }

    /// Whether a process is gone.
    pub(crate) fn is_vacant(&self, process: usize) -> bool {
        self.0.get(process).is_some_and(|vacant| vacant.load(Ordering::Acquire))
    }

    /// Takes a line of the supervisor: the processes that are gone, with commas between.
    fn set(&self, line: &str) {
        let gone: Vec<usize> = line.split(',').filter_map(|number| number.trim().parse().ok()).collect();
        for (process, vacant) in self.0.iter().enumerate() {
            vacant.store(gone.contains(&process), Ordering::Release);
        }
    }

    /// Follows what the supervisor says until it is gone, and wakes the workers at each change.
    pub(crate) fn follow(
        self,
        supervisor: Arc<UnixStream>,
        wakers: Vec<Waker>,
        sandbox: &Sandbox,
    ) -> Result<(), StartError> {
        thread::start("supervisor", sandbox, ThreadRole::Orders, move || {
            for line in BufReader::new(&*supervisor).lines().map_while(Result::ok) {
                self.set(&line);
                wakers.iter().for_each(Waker::wake);
            }
        })?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_which_processes_are_gone() {
        let vacancies = Vacancies::new(2);
        let gone = || [0, 1, 2, 3].map(|process| vacancies.is_vacant(process));
        assert_eq!(gone(), [false; 4]);
        vacancies.set("0,2,7");
        assert_eq!(gone(), [true, false, true, false]);
        vacancies.set("1");
        assert_eq!(gone(), [false, true, false, false]);
        vacancies.set("");
        assert_eq!(gone(), [false; 4]);
    }
}
