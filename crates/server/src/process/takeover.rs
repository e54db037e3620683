//! A new program takes over from a running supervisor: it gets the listening sockets, and says when it serves.
//!
//! At SIGUSR2 a supervisor starts the program that now has its name. That one is a supervisor itself; it starts its
//! processes on the same sockets, and when they serve it dismisses the old one, by SIGQUIT. Who connects meanwhile is
//! accepted by one or the other. A new program that ends before leaves all as it was.

use std::io;
use std::os::fd::AsFd;
use std::process::{Child, Command, ExitStatus};

use cannery_eventloop::Listener;
use rustix::process::{Pid, Signal, getppid, kill_process};

use super::inheritance::{OPERATORS_VARIABLE, name_listeners, numbers, spawn};
use crate::config::ListenerKind;

/// The variable that tells a program whom it takes over from: the process that has started it.
const PREDECESSOR_VARIABLE: &str = "CANNERY_PREDECESSOR";

/// The variable that tells it, where it is there, that the listeners are nobody else's then: not a service
/// manager's, which would go on listening.
const LEFT_VARIABLE: &str = "CANNERY_LISTENERS_ARE_LEFT";

/// The supervisor that this process takes over from.
#[derive(Debug, Clone, Copy)]
pub struct Predecessor {
    process: Pid,
    /// Whether it leaves the listeners to this process.
    leaves_listeners: bool,
}

impl Predecessor {
    /// As the environment says, if it speaks of whoever has started this process.
    #[must_use]
    pub fn from_environment() -> Option<Predecessor> {
        let process = std::env::var(PREDECESSOR_VARIABLE).ok()?.parse().ok().and_then(Pid::from_raw)?;
        let leaves_listeners = std::env::var_os(LEFT_VARIABLE).is_some();
        (getppid() == Some(process)).then_some(Predecessor { process, leaves_listeners })
    }

    /// Whether the listeners are nobody else's when it is gone.
    #[must_use]
    pub fn leaves_listeners(self) -> bool {
        self.leaves_listeners
    }

    /// Dismisses it: this process serves, with these listeners.
    pub(super) fn dismiss<'a>(self, listeners: impl Iterator<Item = &'a mut Listener>) {
        if self.leaves_listeners {
            listeners.for_each(Listener::take_ownership);
        }
        // It fails only where it is gone already.
        let _ = kill_process(self.process, Signal::QUIT);
    }
}

/// A program that has been started to take over.
#[derive(Debug)]
pub(super) struct Successor(Child);

impl Successor {
    /// Starts it with all listening sockets.
    pub(crate) fn start(
        mut command: Command,
        listeners: &[(ListenerKind, &Listener)],
        of_operators: Option<&Listener>,
    ) -> io::Result<Successor> {
        name_listeners(&mut command, listeners, &[]);
        command.env(OPERATORS_VARIABLE, of_operators.map(|one| numbers(&[one])).unwrap_or_default());
        command.env(PREDECESSOR_VARIABLE, std::process::id().to_string());
        if listeners.iter().any(|(_, listener)| listener.is_inherited()) {
            command.env_remove(LEFT_VARIABLE);
        } else {
            command.env(LEFT_VARIABLE, "1");
        }
        let listeners = listeners.iter().map(|(_, listener)| *listener);
        let handed_on: Vec<_> = listeners.chain(of_operators).map(AsFd::as_fd).collect();
        spawn(&mut command, &handed_on).map(Successor)
    }

    /// The number of its process.
    pub(crate) fn process(&self) -> u32 {
        self.0.id()
    }

    /// Orders it to stop.
    pub(crate) fn stop(&self) {
        if let Some(process) = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw) {
            // It fails only where it is gone already.
            let _ = kill_process(process, Signal::TERM);
        }
    }

    /// How it ended, if it has.
    pub(super) fn died(&mut self) -> Option<ExitStatus> {
        self.0.try_wait().ok().flatten()
    }
}
