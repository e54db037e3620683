//! Notices to the operator about events while the server is running. Each is one line.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use cannery_archive::{Digest, Facts};

/// An event that operators should know about.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Notice {
    /// A site is being served, right from the start.
    #[non_exhaustive]
    Serving {
        /// The archive.
        path: PathBuf,
        /// Its host, or `None` for the default site.
        host: Option<String>,
        /// Its serial number, or zero if it has none.
        serial: u64,
        /// Its digest.
        digest: Digest,
        /// Number of paths in the archive.
        paths: u64,
    },
    /// The sites of a directory are being served, right from the start.
    #[non_exhaustive]
    ServingDirectory {
        /// The directory.
        path: PathBuf,
        /// Number of its sites.
        sites: usize,
    },
    /// A site of a directory cannot be served.
    #[non_exhaustive]
    SiteRefused {
        /// The archive, or the settings of the preview.
        path: PathBuf,
        /// The host.
        host: String,
        /// The error.
        why: String,
    },
    /// Something in a directory of sites is not one of them.
    #[non_exhaustive]
    SiteIgnored {
        /// The path and the reason.
        why: String,
    },
    /// A directory of sites cannot be listed. Its sites remain.
    #[non_exhaustive]
    SitesUnreadable {
        /// The directory.
        path: PathBuf,
        /// The error.
        why: String,
    },
    /// Another site cannot be opened, because all open ones were used just now.
    #[non_exhaustive]
    TooManySites {
        /// The directory of sites.
        path: PathBuf,
        /// Number of open sites.
        open: usize,
    },
    /// The server is going to stop once connections have finished their responses.
    #[non_exhaustive]
    Draining {
        /// Connections that it is waiting for.
        connections: usize,
        /// The drain timeout.
        within: Duration,
    },
    /// A new archive is being served.
    #[non_exhaustive]
    Reloaded {
        /// The archive.
        path: PathBuf,
        /// Its serial number, or zero if it has none.
        serial: u64,
        /// Its digest.
        digest: Digest,
        /// Number of paths in the archive.
        paths: u64,
        /// Time taken to open and check it.
        took: Duration,
    },
    /// A new archive is damaged, so the previous one is still being served.
    #[non_exhaustive]
    Refused {
        /// The archive.
        path: PathBuf,
        /// The error.
        why: String,
    },
    /// A large archive that has been served since the start is damaged. There is nothing else to serve.
    #[non_exhaustive]
    Damaged {
        /// The archive.
        path: PathBuf,
        /// The error.
        why: String,
    },
    /// The bytes of a signed archive may have been changed while it was served, so it isn't served any more.
    #[non_exhaustive]
    Withdrawn {
        /// The archive.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// A folder is no longer being followed, but its last version is still being served.
    #[non_exhaustive]
    NotFollowed {
        /// The folder.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// Other releases in a directory are being served, for paths that the current one does not have.
    #[non_exhaustive]
    OtherReleases {
        /// The release directory.
        path: PathBuf,
        /// Names of these releases, newest first.
        names: Vec<String>,
    },
    /// One of the other releases is damaged or cannot be opened.
    #[non_exhaustive]
    OtherReleaseRefused {
        /// The archive.
        path: PathBuf,
        /// The error.
        why: String,
    },
    /// A release directory cannot be listed. The open releases remain in use.
    #[non_exhaustive]
    ReleasesUnreadable {
        /// The release directory.
        path: PathBuf,
        /// The error.
        why: String,
    },
    /// A handler has returned an error or has panicked.
    #[non_exhaustive]
    HandlerFailed {
        /// The pattern of the route, and the error.
        why: String,
    },
    /// A handler does not return, and connections of its thread have to wait.
    #[non_exhaustive]
    HandlerHoldsWorker {
        /// The pattern of the route.
        route: String,
        /// Minimum time for which it has been running.
        after: Duration,
    },
    /// A handler does not return, and occupies a thread of the pool.
    #[non_exhaustive]
    HandlerLate {
        /// The pattern of the route.
        route: String,
        /// Minimum time for which it has been running.
        after: Duration,
        /// Threads that are currently occupied by handlers.
        occupied: u64,
        /// Total number of threads.
        threads: usize,
    },
    /// A handler does not return although its upload has ended.
    #[non_exhaustive]
    UploadLate {
        /// The pattern of the route.
        route: String,
        /// Time since the end.
        after: Duration,
        /// Threads that are currently occupied by uploads.
        occupied: u64,
        /// Total number of threads for uploads.
        threads: usize,
    },
    /// Uploads were cut off because others were waiting for their threads.
    #[non_exhaustive]
    UploadsEnded {
        /// Number of uploads.
        uploads: usize,
        /// How long the last one has occupied its thread.
        after: Duration,
        /// Total number of threads.
        threads: usize,
    },
    /// Bodies were cut off because others were waiting for their threads.
    #[non_exhaustive]
    BodiesEnded {
        /// Bodies that were cut off.
        bodies: usize,
        /// Time for which one of them had occupied its thread.
        after: Duration,
        /// Total number of threads for bodies.
        threads: usize,
    },
    /// Connections were closed because all connections of a thread took too much memory.
    #[non_exhaustive]
    Shed {
        /// Connections closed since the last notice.
        connections: usize,
        /// The limit of a thread, in bytes.
        limit_bytes: u64,
    },
    /// Some threads do not stop because their handlers do not return.
    #[non_exhaustive]
    WorkersStuck {
        /// Threads affected by this.
        threads: usize,
    },
    /// A reload was requested, but no archive has changed.
    Unchanged,
    /// A process is about to modify an archive that is currently being served. Its bytes have been
    /// copied to memory.
    #[non_exhaustive]
    WrittenInPlace {
        /// The archive.
        path: PathBuf,
    },
    /// A process is about to modify an archive whose bytes we could not copy. Clients may get wrong bytes.
    #[non_exhaustive]
    CopyFailed {
        /// The archive.
        path: PathBuf,
        /// The error.
        why: String,
    },
    /// A certificate needs attention.
    #[non_exhaustive]
    Certificate {
        /// The sentence to print.
        warning: String,
    },
    /// New certificates will be used for new connections.
    CertificatesReplaced,
    /// Files that were refused are back as they are served.
    CertificatesRestored,
    /// A new certificate can't be used.
    #[non_exhaustive]
    CertificatesRefused {
        /// The error.
        why: String,
        /// Whether the previous one is still being used. Otherwise, a temporary one is.
        is_kept: bool,
    },
    /// A process has exited and will be restarted.
    #[non_exhaustive]
    ProcessExited {
        /// Number of the process.
        number: usize,
        /// Its exit status.
        status: String,
        /// Time until it is restarted.
        delay: Duration,
    },
    /// A takeover was requested from a process without a supervisor.
    NoSupervisor,
    /// A new program was started to take over.
    #[non_exhaustive]
    SuccessorStarted {
        /// The process ID.
        process: u32,
    },
    /// The new program does not take over.
    #[non_exhaustive]
    SuccessorFailed {
        /// The error, or the exit status.
        why: String,
    },
    /// The new program was killed, either because it was not ready in time or because another takeover was
    /// requested.
    #[non_exhaustive]
    SuccessorKilled {
        /// The process ID.
        process: u32,
        /// Time for which it had been running.
        after: Duration,
        /// Whether the program will be started again.
        is_started_again: bool,
    },
    /// Statistics of the last reporting interval.
    #[non_exhaustive]
    Stats {
        /// Open connections.
        open: u64,
        /// Requests per second.
        rate: f64,
        /// Requests in this interval with a status of 400 or above.
        errors: u64,
        /// 99th percentile of the response time, in seconds.
        p99: f64,
    },
    /// A UDP socket will not use GSO any more, so it sends datagrams one by one.
    #[non_exhaustive]
    SegmentationOff {
        /// Address of the socket.
        address: SocketAddr,
        /// The system's error.
        why: String,
    },
    /// The access log cannot be written.
    #[non_exhaustive]
    LogFailed {
        /// The error.
        why: String,
    },
    /// The access log can be written again.
    LogWritten,
    /// The server exits without having written the last lines of the access log.
    LogAbandoned,
    /// A mapped archive cannot be protected against modification.
    #[non_exhaustive]
    Unguarded {
        /// The archive.
        path: PathBuf,
    },
    /// A mapped archive that the program has opened itself cannot be protected against modification.
    #[non_exhaustive]
    OpenedUnguarded {
        /// The name of the archive.
        name: PathBuf,
        /// Its host, or `None` for the default site.
        host: Option<String>,
    },
}

impl Notice {
    pub(crate) fn reloaded(path: PathBuf, facts: &Facts, took: Duration) -> Notice {
        Notice::Reloaded { path, serial: facts.serial, digest: facts.digest, paths: facts.paths, took }
    }

    /// Returns `true` if the notice is a warning or an error.
    #[must_use]
    pub fn is_warning(&self) -> bool {
        !matches!(
            self,
            Notice::Serving { .. }
                | Notice::ServingDirectory { .. }
                | Notice::Draining { .. }
                | Notice::Reloaded { .. }
                | Notice::OtherReleases { .. }
                | Notice::Unchanged
                | Notice::CertificatesReplaced
                | Notice::CertificatesRestored
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

            Notice::ServingDirectory { path, sites } => {
                let plural = if *sites == 1 { "" } else { "s" };
                write!(f, "serving {sites} site{plural} in {}, each opened at its first request", path.display())
            }
            Notice::SiteRefused { path, host, why } => {
                write!(f, "{}: {why}; requests for {host} get 503 until this is fixed", path.display())
            }
            Notice::SiteIgnored { why } => write!(f, "{why}, so it isn't served"),
            Notice::SitesUnreadable { path, why } => {
                write!(f, "{}: {why}; the known sites are still served", path.display())
            }
            Notice::TooManySites { path, open } => write!(
                f,
                "{}: {open} sites are open and in use, so requests for others get 503; a higher `--sites-open` permits more, and so does a lower `--releases-kept` if it is their archives that are too many",
                path.display()
            ),

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
                write!(f, "{}: {why}; the previous release is still served", path.display())
            }
            Notice::Damaged { path, why } => write!(
                f,
                "{}: {why}; it is served nevertheless, because there is no other: replace it, or go back to an earlier release",
                path.display()
            ),
            Notice::Withdrawn { path, why } => write!(
                f,
                "{}: {why}; it isn't served any more until its file has the signed bytes, or another release is current",
                path.display()
            ),
            Notice::NotFollowed { path, why } => write!(
                f,
                "{}: {why}; the last version is still served, without later changes, until the server is restarted",
                path.display()
            ),

            Notice::OtherReleases { path, names } if names.is_empty() => {
                write!(f, "{}: serving no other releases", path.display())
            }
            Notice::OtherReleases { path, names } => write!(
                f,
                "{}: serving immutable files of other releases too: {}",
                path.display(),
                names.join(", ")
            ),
            Notice::OtherReleaseRefused { path, why } => {
                write!(f, "{}: {why}; this release is not served", path.display())
            }
            Notice::ReleasesUnreadable { path, why } => {
                write!(f, "{}: {why}; the open releases remain in use", path.display())
            }

            Notice::HandlerFailed { why } => write!(f, "a handler has failed: {why}"),
            Notice::Unchanged => f.write_str("no archive has changed"),

            Notice::Certificate { warning } => f.write_str(warning),
            Notice::CertificatesReplaced => f.write_str("new certificates are used from now on"),
            Notice::CertificatesRestored => f.write_str("the certificate files can be used again"),
            Notice::CertificatesRefused { why, is_kept: true } => {
                write!(f, "{why}; the previous certificates are still used")
            }
            Notice::CertificatesRefused { why, is_kept: false } => {
                write!(f, "{why}; a temporary certificate is used until there is another one")
            }

            Notice::WrittenInPlace { path } => write!(
                f,
                "{}: this file is being modified while it is served; its bytes were copied in time. Replace an \
                 archive by renaming another one over it",
                path.display()
            ),
            Notice::CopyFailed { path, why } => write!(
                f,
                "{}: this file is being modified while it is served, and could not be copied ({why}): wrong bytes \
                 may be sent",
                path.display()
            ),

            Notice::ProcessExited { number, status, delay } => write!(
                f,
                "process {number} exited ({status}); restarting it in {:.1} s",
                delay.as_secs_f64()
            ),
            Notice::NoSupervisor => f.write_str(
                "SIGUSR2: this process cannot start a new program. Run it with `--processes`, and send the signal to \
                 the first process",
            ),
            Notice::SuccessorStarted { process } => {
                write!(f, "process {process} is starting, to take over")
            }
            Notice::SuccessorFailed { why } => {
                write!(f, "the new program does not take over ({why}): this one continues")
            }
            Notice::SuccessorKilled { process, after, is_started_again } => {
                let seconds = after.as_secs();
                write!(f, "the new program (process {process}) is not ready after {seconds} s, so it is killed")?;
                f.write_str(if *is_started_again {
                    ", and the program is started again"
                } else {
                    ": this one continues; SIGUSR2 starts another attempt"
                })
            }

            Notice::HandlerHoldsWorker { route, after } => write!(
                f,
                "{route}: this handler has not returned for {:.1} s, and the connections of its thread wait: a handler \
                 that may wait belongs to `blocking_route`",
                after.as_secs_f64()
            ),
            Notice::HandlerLate { route, after, occupied, threads } => write!(
                f,
                "{route}: this handler has not returned for {:.1} s; handlers occupy {occupied} of {threads} threads",
                after.as_secs_f64()
            ),
            Notice::BodiesEnded { bodies, after, threads } => {
                let plural = if *bodies == 1 { "streamed body was" } else { "streamed bodies were" };
                write!(
                    f,
                    "{bodies} {plural} cut off after {:.1} s: all {threads} threads were occupied, and \
                     others waited. Slow clients occupy them; see `handler_threads`, or use `Response::channel`",
                    after.as_secs_f64()
                )
            }

            Notice::UploadLate { route, after, occupied, threads } => write!(
                f,
                "{route}: this handler has not returned {:.1} s after its upload was cut off; uploads occupy \
                 {occupied} of {threads} threads",
                after.as_secs_f64()
            ),
            Notice::UploadsEnded { uploads, after, threads } => {
                let plural = if *uploads == 1 { "upload was" } else { "uploads were" };
                write!(
                    f,
                    "{uploads} {plural} cut off after {:.1} s: all {threads} threads were occupied, and \
                     others waited. Slow clients or handlers occupy them; see `handler_threads`",
                    after.as_secs_f64()
                )
            }

            Notice::WorkersStuck { threads } => {
                let plural = if *threads == 1 { "a thread does" } else { "threads do" };
                write!(f, "{plural} not stop, because a handler has not returned: the server ends without it")
            }
            Notice::Shed { connections, limit_bytes } => {
                let plural = if *connections == 1 { "connection was" } else { "connections were" };
                let mebibytes = limit_bytes >> 20;
                write!(
                    f,
                    "{connections} {plural} closed: all connections of a thread kept more than {mebibytes} MiB. Those that \
                     kept most are closed first; a higher `--limit-memory` permits more"
                )
            }

            Notice::Stats { open, rate, errors, p99 } => write!(
                f,
                "{rate:.0} requests a second, {errors} errors, p99 {:.2} ms, {open} connections",
                p99 * 1000.0
            ),

            Notice::SegmentationOff { address, why } => write!(
                f,
                "the system can't split datagrams at {address} (GSO): {why}; they are sent one by one, at more CPU time per byte"
            ),

            Notice::LogFailed { why } => {
                write!(f, "the access log cannot be written ({why}): lines are dropped and counted until it can")
            }
            Notice::LogAbandoned => f.write_str("the access log takes no more lines: the last ones are lost"),
            Notice::LogWritten => f.write_str("the access log is written again"),

            Notice::Unguarded { path } => write!(
                f,
                "{}: too large to be read into memory, and cannot be guarded while it is mapped, so it must not be \
                 modified. A file that the server's user owns can be guarded",
                path.display()
            ),
            Notice::OpenedUnguarded { name, host } => {
                write!(f, "{}", name.display())?;
                if let Some(host) = host {
                    write!(f, " for {host}")?;
                }
                f.write_str(
                    ": the program has opened it as a mapped file, which cannot be guarded, so the file must not be modified. \
                     Copy it into memory (`Site::from_bytes`), or let the server open it by its path",
                )
            }
        }
    }
}
