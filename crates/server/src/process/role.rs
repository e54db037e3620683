//! The role of a process: the only one, the supervisor of several, one of them, or the one that answers operators for them.
//!
//! All of them are the same program with the same arguments. The supervisor sets a variable in the environment of the others.

use std::io;
use std::num::NonZeroUsize;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use cannery_eventloop::{Address, Claim, Listener};

use super::datagrams::Datagrams;
use super::inherited;
use super::listening::Listening;
use super::platform::end_with_parent;
use super::process_slot::ProcessSockets;
use super::supervisor::{self, ExitReason, Supervisor};
use super::takeover::Predecessor;
use crate::config::{Config, ListenerKind};
use crate::error::StartError;

/// The variable that holds a process's number. The supervisor, and a process without one, do not have it.
const PROCESS_VARIABLE: &str = "CANNERY_PROCESS";

/// The role of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It serves alone.
    Only,
    /// It starts the processes that serve.
    Supervisor {
        /// Their number.
        processes: NonZeroUsize,
    },
    /// It serves, as one of several.
    Member {
        /// Its number, from 0.
        number: usize,
    },
    /// It answers operators for those that serve.
    Operators,
}

/// The addresses at which a server listens.
#[derive(Debug, Clone)]
pub struct Addresses {
    /// The kinds and addresses of the TCP listeners and local sockets, in the order of the configuration.
    pub listeners: Vec<(ListenerKind, Address)>,
    /// The addresses of HTTP/3.
    pub quic: Vec<Address>,
    /// The address of the admin listener, if there is one.
    pub admin: Option<Address>,
}

impl Role {
    /// Returns the role of this process in a server with this number of processes, or in one that has no supervisor.
    #[must_use]
    pub fn of(processes: Option<NonZeroUsize>) -> Role {
        match (processes, process_number()) {
            (None, _) => Role::Only,
            (Some(processes), None) => Role::Supervisor { processes },
            (Some(processes), Some(number)) if number == processes.get() => Role::Operators,
            (Some(_), Some(number)) => Role::Member { number },
        }
    }

    /// Adds the sockets and secrets to a configuration that this process inherits from a supervisor, or from a service manager.
    ///
    /// # Errors
    /// The environment names no descriptors, or there is no certificate for a listener.
    pub fn inherit(self, config: &mut Config) -> Result<(), StartError> {
        config.inherited = inherited::listeners()?;
        config.http3.inherited = inherited::datagrams()?;
        config.http3.generation = inherited::generation()?;
        // A supervisor opens no certificates, and its processes could not serve.
        if config.has_tls() && config.tls.is_none() {
            return Err(StartError::NoCertificate);
        }

        match self {
            Role::Only | Role::Supervisor { .. } => {}
            Role::Member { .. } => {
                // If the supervisor is killed, it can no longer stop this process.
                end_with_parent();
                config.standby = inherited::standby_listeners()?;
                config.admin = None;
                config.stats_sockets = inherited::stats_sockets()?;
                config.http3.part = inherited::http3_part()?;
                config.http3.predecessors = inherited::forwarding_predecessors()?;
                let seed = inherited::ticket_seed()?;
                if let Some(tls) = &mut config.tls {
                    tls.seed = seed;
                }
            }
            Role::Operators => {
                end_with_parent();
                config.stats_sockets = inherited::stats_sockets()?;
            }
        }
        Ok(())
    }
}

/// Runs several processes that serve, and one more for operators if there is an admin address, until a signal or a successor
/// ends the supervisor. Calls `on_ready` when all of them serve.
///
/// # Errors
/// An address is not available, or no process can serve.
pub fn supervise(
    config: &Config,
    processes: NonZeroUsize,
    on_ready: impl FnOnce(&Addresses),
) -> Result<(), StartError> {
    let program = std::env::current_exe().map_err(StartError::Program)?;
    let successor = started_program().map_err(StartError::Program)?;
    let predecessor = Predecessor::from_environment().map_err(StartError::Supervisor)?;
    let takes_over = predecessor.is_some();

    // From here on, no signal ends this process, because connections are accepted as soon as there are sockets.
    let signals = supervisor::signals(config.kept_signals.as_ref()).map_err(StartError::Signals)?;
    // We open all sockets before we start the first process, so that a port in use is an error now.
    let workers = config.threads.get() * processes.get();
    let listening = Listening::open(config, workers)?;
    let datagrams = config.served_http3().map(|http3| Datagrams::open(http3, workers)).transpose()?;
    let (admin_claim, admin) = config.admin.as_ref().map(inherited::admin_listener).transpose()?.unzip();
    let addresses = Addresses {
        listeners: listening.addresses().to_vec(),
        quic: datagrams.as_ref().map_or_else(Vec::new, |opened| opened.addresses().to_vec()),
        admin: admin.as_ref().map(Listener::address).transpose().map_err(StartError::Supervisor)?,
    };

    let (listeners, mut claims) = listening.into_parts();
    if predecessor.as_ref().is_some_and(Predecessor::leaves_listeners) {
        let serving = listeners.iter().flatten().map(|(_, listener)| listener);
        for listener in serving.chain(&admin) {
            claims.extend(listener.claim().map_err(StartError::Supervisor)?);
        }
    }
    claims.extend(admin_claim.flatten());
    let sockets = divide(config, processes, listeners, datagrams)?;

    let arguments = || std::env::args_os().skip(1);
    let supervisor = Supervisor {
        command: &|number| {
            let mut command = Command::new(&program);
            // The name tells the process where the next release of an archive in this program appears.
            command.arg0(&successor).args(arguments()).env(PROCESS_VARIABLE, number.to_string());
            command
        },
        successor: &|| {
            let mut command = Command::new(&successor);
            command.args(arguments());
            command
        },
        predecessor,
        predecessor_seed: inherited::ticket_seed()?,
        has_tls: config.has_tls(),
        drain: config.drain,
        on_notice: &*config.on_notice.0,
    };
    let ended = supervisor.run(signals, sockets, admin, || on_ready(&addresses));

    // Another process still uses the addresses: the successor, or the predecessor if this one could not take over.
    if matches!(ended, Ok(ExitReason::Replaced)) || ended.is_err() && takes_over {
        claims.into_iter().for_each(Claim::release);
    }
    ended.map(drop).map_err(StartError::Supervisor)
}

/// Divides the sockets of all workers among the processes.
fn divide(
    config: &Config,
    processes: NonZeroUsize,
    listeners: Vec<Vec<(ListenerKind, Listener)>>,
    datagrams: Option<Datagrams>,
) -> Result<Vec<ProcessSockets>, StartError> {
    let threads = config.threads.get();
    let generation = config.http3.generation;
    let datagrams = datagrams.map(|opened| opened.into_processes(threads, generation)).transpose()?;
    let mut listeners = listeners.into_iter();
    let mut datagrams = datagrams.into_iter().flatten();
    let sockets = (0..processes.get()).map(|_| ProcessSockets {
        listeners: listeners.by_ref().take(threads).flatten().collect(),
        datagrams: datagrams.next(),
    });
    Ok(sockets.collect())
}

/// Returns the path by which this program was started, for its successor. A symbolic link is not resolved: an upgrade may
/// point it at the new program and delete this one.
///
/// # Errors
/// The system does not tell.
pub fn started_program() -> io::Result<PathBuf> {
    let named = std::env::args_os().next().map(PathBuf::from);
    match named.filter(|name| name.components().count() > 1) {
        Some(name) => std::path::absolute(name),
        // A bare name was found through `PATH`, so only the file that it led to is known.
        None => std::env::current_exe(),
    }
}

/// Returns the number that the supervisor gave this process, or `None` if this is the supervisor or the only process.
fn process_number() -> Option<usize> {
    std::env::var(PROCESS_VARIABLE).ok()?.parse().ok()
}
