//! The role of a process: the only one, the supervisor of several, one of these, or the one that serves
//! the admin pages for them.
//!
//! All of them run the same program with the same arguments, plus an environment variable that the
//! supervisor sets for the others.

use std::io;
use std::num::NonZeroUsize;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use cannery_base::FileVersion;
use cannery_eventloop::{Address, Claim, Listener};

use super::datagrams::Datagrams;
use super::environment;
use super::listening::Listening;
use super::platform::end_with_parent;
use super::process_slot::ProcessSockets;
use super::supervisor::{self, ExitReason, Supervisor};
use super::takeover::Predecessor;
use crate::config::{Config, Inheritance, InheritedUdp, ListenerKind};
use crate::error::StartError;
use crate::verification::verify_for_processes;

/// Environment variable that contains the number of a process. It is set neither for the supervisor nor for a
/// process on its own.
const PROCESS_VARIABLE: &str = "CANNERY_PROCESS";

/// Environment variable that contains the thumbprint of the ACME account for the processes of a supervisor. It asks for it once.
const THUMBPRINT_VARIABLE: &str = "CANNERY_ACME_THUMBPRINT";

/// Environment variable that contains the archives that the supervisor has verified.
const VERIFIED_VARIABLE: &str = "CANNERY_VERIFIED";

/// At most so many file versions are passed in it.
const PASSED_VERSIONS_MAX: usize = 1000;

/// The role of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It is the only process, and serves.
    Only,
    /// It starts the processes that serve.
    Supervisor {
        /// Number of processes.
        processes: NonZeroUsize,
    },
    /// It is one of several processes that serve.
    Member {
        /// Its number, starting at 0.
        number: usize,
    },
    /// It serves the admin pages for the others.
    Operators,
}

/// Addresses that a server listens on.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Addresses {
    /// Kinds and addresses of the TCP and Unix sockets, in the order of the configuration.
    pub listeners: Vec<(ListenerKind, Address)>,
    /// Addresses for HTTP/3.
    pub quic: Vec<Address>,
    /// Address of the admin listener (if any).
    pub admin: Option<Address>,
}

impl Role {
    /// Determines the role of this process. `processes` is the configured number, or `None` if
    /// there should be no supervisor.
    #[must_use]
    pub fn of(processes: Option<NonZeroUsize>) -> Role {
        match (processes, process_number()) {
            (None, _) => Role::Only,
            (Some(processes), None) => Role::Supervisor { processes },
            (Some(processes), Some(number)) if number == processes.get() => Role::Operators,
            (Some(_), Some(number)) => Role::Member { number },
        }
    }

    /// Adds sockets and secrets to the configuration that this process has inherited from a supervisor or a
    /// service manager.
    ///
    /// # Errors
    ///
    /// Returns an error if the environment does not contain valid descriptors, or if a listener needs a
    /// certificate that we do not have.
    pub fn inherit(self, config: &mut Config) -> Result<(), StartError> {
        let udp = if config.leaves_udp_sockets { InheritedUdp::None } else { environment::datagrams()? };
        let inherited = environment::listeners()?;
        let is_passed = inherited.is_none();
        let listeners = inherited.unwrap_or_else(environment::passed_listeners);
        config.inheritance = Inheritance {
            // Other processes pass all listeners of the server.
            opens_tls: is_passed && listeners.iter().all(|(kind, _)| *kind == ListenerKind::Plain),
            listeners,
            udp,
            generation: environment::generation()?,
            ..Inheritance::default()
        };
        // We need to check this here, too. A supervisor does not open any certificates, but its
        // processes would not be able to serve.
        if config.tls.is_none() && config.inheritance.needs_tls() {
            return Err(StartError::NoCertificate);
        }

        match self {
            Role::Only | Role::Supervisor { .. } => {}
            Role::Member { number } => {
                // If the supervisor is killed, it cannot stop this process any more.
                end_with_parent();
                config.admin = None;
                if let Ok(thumbprint) = std::env::var(THUMBPRINT_VARIABLE) {
                    config.acme_thumbprint.set(thumbprint.parse().ok());
                }
                let inheritance = &mut config.inheritance;
                inheritance.verified = parse_versions(&std::env::var(VERIFIED_VARIABLE).unwrap_or_default());
                inheritance.member = Some(number);
                inheritance.standby = environment::standby_listeners()?;
                inheritance.stats_sockets = environment::stats_sockets()?;
                inheritance.predecessors = environment::forwarding_predecessors()?;
                inheritance.ticket_seed = environment::ticket_seed()?;
                if let Some(part) = environment::http3_part()? {
                    inheritance.udp = InheritedUdp::Part(part);
                }
            }
            Role::Operators => {
                end_with_parent();
                config.inheritance.stats_sockets = environment::stats_sockets()?;
            }
        }
        Ok(())
    }
}

/// Runs several serving processes, plus an admin process if there is an admin address. `on_ready` is
/// called once all processes are serving. Returns when the supervisor is stopped by a signal or replaced
/// by a successor.
///
/// # Errors
/// Returns an error if an address is not available, or if no process can serve.
pub fn supervise(
    config: &Config,
    processes: NonZeroUsize,
    on_ready: impl FnOnce(&Addresses),
) -> Result<(), StartError> {
    let program = std::env::current_exe().map_err(StartError::Program)?;
    let successor = started_program().map_err(StartError::Program)?;
    let predecessor = Predecessor::from_environment().map_err(StartError::Supervisor)?;
    let takes_over = predecessor.is_some();

    // A process that finds a damaged archive at its start would be started again and again.
    let verified = format_versions(&verify_for_processes(config)?);

    // Connections are accepted as soon as there are sockets, so from here on, a signal must not terminate
    // this process.
    let signals = supervisor::signals(config.kept_signals.as_ref()).map_err(StartError::Signals)?;

    // Open all sockets before starting the first process. This way, a port that is in use will be an error
    // right now.
    let workers = config.threads.get() * processes.get();
    let listening = Listening::open(config, workers)?;
    let datagrams = config
        .served_http3()
        .map(|http3| Datagrams::open(http3, &config.inheritance.udp, workers))
        .transpose()?;
    let (admin_claim, admin) =
        config.admin.as_ref().map(|admin| environment::admin_listener(&admin.address)).transpose()?.unzip();
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
            // The name tells the process where it can find the next release of an archive embedded in this
            // program.
            command.arg0(&successor).args(arguments()).env(PROCESS_VARIABLE, number.to_string());
            command.env(VERIFIED_VARIABLE, &verified);
            match config.acme_thumbprint.get() {
                Some(thumbprint) => command.env(THUMBPRINT_VARIABLE, thumbprint.as_str()),
                None => command.env_remove(THUMBPRINT_VARIABLE),
            };
            command
        },
        successor: &|| {
            let mut command = Command::new(&successor);
            command.args(arguments());
            command
        },
        predecessor,
        predecessor_seed: environment::ticket_seed()?,
        has_tls: config.has_tls(),
        drain: config.drain,
        on_notice: &*config.on_notice.0,
    };
    let ended = supervisor.run(signals, sockets, admin, || on_ready(&addresses));

    // The addresses are still in use by the successor, or by the predecessor if we could not take over.
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
    let generation = config.inheritance.generation;
    let datagrams = datagrams.map(|opened| opened.into_processes(threads, generation)).transpose()?;
    let mut listeners = listeners.into_iter();
    let mut datagrams = datagrams.into_iter().flatten();
    let sockets = (0..processes.get()).map(|_| ProcessSockets {
        listeners: listeners.by_ref().take(threads).flatten().collect(),
        datagrams: datagrams.next(),
    });
    Ok(sockets.collect())
}

/// Gets the path that this program was started with, to be used for its successor. Symlinks are not
/// resolved because an upgrade might point one to the new program and delete this one.
///
/// # Errors
/// Returns an error if the system does not tell us.
pub fn started_program() -> io::Result<PathBuf> {
    let named = std::env::args_os().next().map(PathBuf::from);
    match named.filter(|name| name.components().count() > 1) {
        Some(name) => std::path::absolute(name),
        // If the name was found through `PATH`, we only know the file that it led to.
        None => std::env::current_exe(),
    }
}

/// Returns a text for [`parse_versions`].
fn format_versions(versions: &[FileVersion]) -> String {
    let format = |version: &FileVersion| {
        let FileVersion { device, inode, size, modified_ns } = version;
        format!("{device}:{inode}:{size}:{modified_ns}")
    };
    // A process can't get more than 128 KiB in one variable. It verifies the others itself.
    versions.iter().take(PASSED_VERSIONS_MAX).map(format).collect::<Vec<_>>().join(",")
}

/// Parses file versions. Those that we cannot parse are left out, so that their files are verified again.
fn parse_versions(text: &str) -> Vec<FileVersion> {
    let parse = |text: &str| {
        let [device, inode, size, modified_ns] = text.split(':').collect::<Vec<_>>().try_into().ok()?;
        Some(FileVersion {
            device: device.parse().ok()?,
            inode: inode.parse().ok()?,
            size: size.parse().ok()?,
            modified_ns: modified_ns.parse().ok()?,
        })
    };
    text.split(',').filter_map(parse).collect()
}

/// Returns the number that the supervisor gave to this process, or `None` if this is the supervisor or the
/// only process.
fn process_number() -> Option<usize> {
    std::env::var(PROCESS_VARIABLE).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_versions_survive_the_environment() {
        let version = |inode| FileVersion { device: 66, inode, size: u64::MAX, modified_ns: -5 };
        let versions = [version(1), version(2)];
        assert_eq!(parse_versions(&format_versions(&versions)), versions);
        assert_eq!(parse_versions(&format_versions(&[])), []);
        assert_eq!(
            parse_versions("1:2:3,1:2:3:4,x:1:1:1"),
            [FileVersion { device: 1, inode: 2, size: 3, modified_ns: 4 }]
        );
    }
}
