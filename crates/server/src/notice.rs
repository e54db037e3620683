//! What happens while the server runs and a person should know of: in words, one line each.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use cannery_archive::{Digest, Facts};

/// Something that a person should know of.
#[derive(Debug, Clone)]
pub enum Notice {
    /// What is served from the start.
    Serving {
        /// The archive.
        path: PathBuf,
        /// For which host; `None` for all others.
        host: Option<String>,
        /// The release that it says it is; zero if it does not say.
        serial: u64,
        /// Its digest.
        digest: Digest,
        /// How many paths it has.
        paths: u64,
    },
    /// The server stops, and waits for connections that still send.
    Draining {
        /// How many.
        connections: usize,
        /// For how long at most.
        within: Duration,
    },
    /// A new archive is served.
    Reloaded {
        /// Which.
        path: PathBuf,
        /// What it says of itself.
        serial: u64,
        /// Its digest.
        digest: Digest,
        /// How many paths it has.
        paths: u64,
        /// How long opening and checking took.
        took: Duration,
    },
    /// A new archive is not served; the one before still is.
    Refused {
        /// Which.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// Other releases of a directory answer paths that the current one lacks.
    OtherReleases {
        /// The release directory.
        path: PathBuf,
        /// Their names, the newest first.
        names: Vec<String>,
    },
    /// One of them cannot be opened, or is damaged.
    OtherReleaseRefused {
        /// Which.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// A release directory cannot be listed: the other releases stay as they were.
    ReleasesUnreadable {
        /// The release directory.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// It was asked for, and nothing has changed.
    Unchanged,
    /// Somebody has begun to write into an archive that is being served. Its bytes were copied before.
    WrittenInPlace {
        /// Which.
        path: PathBuf,
    },
    /// The same, and there was no memory for a copy: wrong bytes may be sent.
    NotKept {
        /// Which.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// Something about a certificate that an operator should know.
    Certificate {
        /// What.
        warning: String,
    },
    /// New certificates are shown to those who connect from now on.
    CertificatesReplaced,
    /// New certificates are not used; those before still are.
    CertificatesRefused {
        /// Why.
        why: String,
    },
    /// A process has died, and is started again.
    ProcessDied {
        /// Which.
        number: usize,
        /// How it ended.
        status: String,
        /// After what pause it is started again.
        pause: Duration,
    },
    /// A program that takes over was asked for, from a process that can start none.
    NoSupervisor,
    /// A new program has been started, to take over.
    SuccessorStarted {
        /// The number of its process.
        process: u32,
    },
    /// It does not take over.
    SuccessorFailed {
        /// Why, or how it ended.
        why: String,
    },
    /// The figures of the last seconds.
    Stats {
        /// Connections that are open.
        open: u64,
        /// Requests answered in a second.
        rate: f64,
        /// Of these requests, those answered with a status from 400 on.
        errors: u64,
        /// The time in seconds that all but one in a hundred of them did not exceed.
        p99: f64,
    },
    /// The access log cannot be written.
    LogFailed {
        /// Why.
        why: String,
    },
    /// The access log is written again.
    LogWritten,
    /// The server ends although the access log has not taken its last lines.
    LogAbandoned,
    /// An archive cannot be guarded against being written into.
    Unguarded {
        /// Which.
        path: PathBuf,
    },
}

impl Notice {
    pub(crate) fn reloaded(path: PathBuf, facts: &Facts, took: Duration) -> Notice {
        Notice::Reloaded { path, serial: facts.serial, digest: facts.digest, paths: facts.paths, took }
    }

    /// Whether something is wrong.
    #[must_use]
    pub fn is_warning(&self) -> bool {
        !matches!(
            self,
            Notice::Serving { .. }
                | Notice::Draining { .. }
                | Notice::Reloaded { .. }
                | Notice::OtherReleases { .. }
                | Notice::Unchanged
                | Notice::CertificatesReplaced
                | Notice::LogWritten
                | Notice::Stats { .. }
                | Notice::SuccessorStarted { .. }
        )
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Notice::Serving { path, host, serial, digest, paths } => {
                write!(f, "serving {}", path.display())?;
                if let Some(host) = host {
                    write!(f, " for {host}")?;
                }
                if *serial > 0 {
                    write!(f, ": release {serial}, {paths} paths, digest {digest}")
                } else {
                    write!(f, ": {paths} paths, digest {digest}")
                }
            }
            Notice::Draining { connections, within } => {
                let plural = if *connections == 1 { "" } else { "s" };
                let seconds = within.as_secs();
                write!(f, "waiting up to {seconds} s for {connections} connection{plural}; a second signal ends at once")
            }
            Notice::Reloaded { path, serial, digest, paths, took } => {
                write!(f, "{}: serves a new release", path.display())?;
                if *serial > 0 {
                    write!(f, ", serial {serial}")?;
                }
                let milliseconds = took.as_secs_f64() * 1000.0;
                write!(f, ", digest {digest}, {paths} paths, checked in {milliseconds:.1} ms")
            }
            Notice::Refused { path, why } => {
                write!(f, "{}: {why}; the release before is still served", path.display())
            }
            Notice::OtherReleases { path, names } if names.is_empty() => {
                write!(f, "{}: no other release answers for pages that were loaded before", path.display())
            }
            Notice::OtherReleases { path, names } => write!(
                f,
                "{}: immutable files of other releases are answered too: {}",
                path.display(),
                names.join(", ")
            ),
            Notice::OtherReleaseRefused { path, why } => {
                write!(f, "{}: {why}; nothing is answered from this release", path.display())
            }
            Notice::ReleasesUnreadable { path, why } => {
                write!(f, "{}: {why}; the releases that are open stay so", path.display())
            }
            Notice::Unchanged => f.write_str("no archive has changed"),
            Notice::Certificate { warning } => f.write_str(warning),
            Notice::CertificatesReplaced => f.write_str("new certificates are used from now on"),
            Notice::CertificatesRefused { why } => {
                write!(f, "{why}; the certificates before are still used")
            }
            Notice::WrittenInPlace { path } => write!(
                f,
                "{}: somebody writes into this file while it is served; its bytes were copied in time. Replace \
                 an archive by renaming another one over it",
                path.display()
            ),
            Notice::NotKept { path, why } => write!(
                f,
                "{}: somebody writes into this file while it is served, and it could not be copied ({why}): wrong \
                 bytes may be sent",
                path.display()
            ),
            Notice::ProcessDied { number, status, pause } => write!(
                f,
                "process {number} has ended ({status}); it is started again in {:.1} s",
                pause.as_secs_f64()
            ),
            Notice::NoSupervisor => f.write_str(
                "SIGUSR2: this process starts no other program. Run it with `--processes`, and send the signal to \
                 the first one",
            ),
            Notice::SuccessorStarted { process } => {
                write!(f, "process {process} is starting, to take over")
            }
            Notice::SuccessorFailed { why } => {
                write!(f, "the new program does not take over ({why}): this one goes on")
            }
            Notice::Stats { open, rate, errors, p99 } => write!(
                f,
                "{rate:.0} requests a second, {errors} errors, p99 {:.2} ms, {open} connections",
                p99 * 1000.0
            ),
            Notice::LogFailed { why } => {
                write!(f, "the access log cannot be written ({why}): lines are dropped and counted until it can")
            }
            Notice::LogAbandoned => f.write_str("the access log takes no more lines: the last ones are lost"),
            Notice::LogWritten => f.write_str("the access log is written again"),
            Notice::Unguarded { path } => write!(
                f,
                "{}: too large to be read into memory, and cannot be guarded while it is mapped: nobody may write \
                 into it. A file of the server's own user can be guarded",
                path.display()
            ),
        }
    }
}
