//! Takeover: a new program inherits the listening sockets of a running supervisor and replaces it (graceful restart).
//!
//! At SIGUSR2 a supervisor starts the program that now has its file name. The new program is a supervisor too. It starts its
//! processes on the same sockets, and when they serve, it stops the old supervisor with SIGQUIT. One of the two accepts each
//! connection meanwhile. If the new program exits before it serves, nothing changes.

use std::io;
use std::os::fd::AsFd;
use std::process::{Child, Command, ExitStatus};

use cannery_eventloop::{DatagramSocket, Listener, UdpSocket};
use cannery_secure::Seed;
use cannery_secure::quic::Generation;
use rustix::process::{Pid, Signal, getppid, kill_process};

use super::inheritance::{
    ADMIN_VARIABLE, DATAGRAMS_VARIABLE, GENERATION_VARIABLE, PREDECESSORS_VARIABLE, SEED_VARIABLE,
    address_list, descriptor_list, seed_pipe, set_listener_variables, spawn,
};
use crate::config::ListenerKind;

/// Environment variable with the process ID of the supervisor that the program takes over from, which is its parent.
const PREDECESSOR_VARIABLE: &str = "CANNERY_PREDECESSOR";

/// Environment variable that is set if the new program becomes the only owner of the listeners. A service manager that owns
/// them would keep them open.
const OWNED_VARIABLE: &str = "CANNERY_LISTENERS_ARE_LEFT";

/// The supervisor that this process takes over from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Predecessor {
    process: Pid,
    /// `true` if this process becomes the only owner of the listeners.
    leaves_listeners: bool,
}

impl Predecessor {
    /// Returns the predecessor that the environment names, if it is the parent of this process.
    #[must_use]
    pub(super) fn from_environment() -> Option<Predecessor> {
        let process = std::env::var(PREDECESSOR_VARIABLE).ok()?.parse().ok().and_then(Pid::from_raw)?;
        let leaves_listeners = std::env::var_os(OWNED_VARIABLE).is_some();
        (getppid() == Some(process)).then_some(Predecessor { process, leaves_listeners })
    }

    /// Returns `true` if this process becomes the only owner of the listeners.
    #[must_use]
    pub(super) fn leaves_listeners(self) -> bool {
        self.leaves_listeners
    }

    /// Stops the predecessor, because this process serves with these listeners.
    pub(super) fn stop<'a>(self, listeners: impl Iterator<Item = &'a mut Listener>) {
        if self.leaves_listeners {
            for listener in listeners {
                listener.take_ownership();
            }
        }
        // This fails only if it has exited.
        let _ = kill_process(self.process, Signal::QUIT);
    }
}

/// The sockets of HTTP/3 for a program that takes over.
pub(super) struct Http3Handover<'a> {
    /// In the order in which they were bound.
    pub(super) sockets: Vec<&'a UdpSocket>,
    /// The forwarding sockets of the workers, which this program keeps.
    pub(super) forwarding: Vec<&'a UdpSocket>,
    /// The generation of the new program's connection IDs.
    pub(super) generation: Generation,
}

/// A program that has been started to take over.
#[derive(Debug)]
pub(super) struct Successor(Child);

impl Successor {
    /// Starts the program with all listening sockets.
    pub(super) fn start(
        mut command: Command,
        listeners: &[(ListenerKind, &Listener)],
        admin: Option<&Listener>,
        http3: &Http3Handover<'_>,
        seed: Option<&Seed>,
    ) -> io::Result<Successor> {
        set_listener_variables(&mut command, listeners, &[]);
        command.env(ADMIN_VARIABLE, admin.map(|listener| descriptor_list(&[listener])).unwrap_or_default());
        command.env(DATAGRAMS_VARIABLE, descriptor_list(&http3.sockets));
        command.env(GENERATION_VARIABLE, http3.generation.number().to_string());
        let forwarding = http3.forwarding.iter().map(|socket| socket.local_address());
        command.env(PREDECESSORS_VARIABLE, address_list(forwarding));
        let seed = seed.map(seed_pipe).transpose()?;
        if let Some(pipe) = &seed {
            command.env(SEED_VARIABLE, descriptor_list(&[pipe]));
        }
        command.env(PREDECESSOR_VARIABLE, std::process::id().to_string());
        if listeners.iter().any(|(_, listener)| listener.is_inherited()) {
            command.env_remove(OWNED_VARIABLE);
        } else {
            command.env(OWNED_VARIABLE, "1");
        }
        let listeners = listeners.iter().map(|(_, listener)| *listener);
        let datagrams = http3.sockets.iter().map(AsFd::as_fd);
        let seed = seed.iter().map(AsFd::as_fd);
        let descriptors: Vec<_> =
            listeners.chain(admin).map(AsFd::as_fd).chain(datagrams).chain(seed).collect();
        spawn(&mut command, &descriptors).map(Successor)
    }

    /// Returns its process ID.
    pub(super) fn process(&self) -> u32 {
        self.0.id()
    }

    /// Stops it with SIGTERM.
    pub(super) fn stop(&self) {
        if let Some(process) = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw) {
            // This fails only if it has exited.
            let _ = kill_process(process, Signal::TERM);
        }
    }

    /// Returns its exit status, or `None` while it runs.
    pub(super) fn exit_status(&mut self) -> Option<ExitStatus> {
        self.0.try_wait().ok().flatten()
    }
}
