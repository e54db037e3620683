//! Explains why a server does not start.

use std::error::Error;
use std::io;
use std::path::Path;

use cannery_server::sandbox::SandboxError;
use cannery_server::{Address, StartError, TlsError};
use rustix::io::Errno;

use crate::commands::{open, verify};
use crate::output::{Exit, Failure};

/// Converts a start error.
///
/// If there is a remedy, adds a hint.
pub(in crate::commands) fn start_failure(error: &StartError) -> Failure {
    match error {
        StartError::Archive { path, source, .. } => open::failure(path, source),
        StartError::Damaged { path, source, .. } => verify::failure(path, source),
        StartError::Untrusted { .. } => Failure::input(error.to_string()).hint(
            "publish it with `cannery push --secret-key FILE --site NAME`, list its key with `--public-key`, or turn `current` to a \
             release that is signed",
        ),
        StartError::Sites { path, source, .. } => sites_failure(path, source),
        StartError::Listen { address, source, .. } | StartError::ListenUdp { address, source, .. } => {
            listen_hint(Failure::failed(error.to_string()), address, source.kind())
        }
        StartError::NoCertificate => Failure::failed(error.to_string())
            .hint("`--tls-bundle FILE` names one, `--tls-self-ecdsa` makes one for tests"),
        StartError::Sandbox(sandbox) => Failure::failed(error.to_string()).hint_if(sandbox_hint(sandbox)),
        StartError::AccessLog { .. } => Failure::new(Exit::Output, error.to_string()),
        StartError::Tls(_) | StartError::Webroot { .. } => Failure::input(error.to_string()),
        // For the others, the message has to do.
        _ => Failure::failed(error.to_string()).hint_if(descriptors_hint(error)),
    }
}

/// Explains why the directory of `--sites` cannot be listed.
fn sites_failure(path: &Path, error: &io::Error) -> Failure {
    let shown = path.display();
    let failure = Failure::input(format!("cannot list the directory of sites {shown}: {error}"));
    match error.kind() {
        io::ErrorKind::NotFound => failure.hint(format!(
            "create it with `mkdir {shown}`: `{shown}/www.example.com.cdb` is the archive for this host"
        )),
        io::ErrorKind::NotADirectory => failure.hint(format!("`cannery-server {shown}` serves one archive")),
        io::ErrorKind::PermissionDenied => {
            failure.hint("give the user of the server the permission to read the directory")
        }
        _ => failure,
    }
}

fn sandbox_hint(error: &SandboxError) -> Option<&'static str> {
    match error {
        SandboxError::User { .. } if !rustix::process::getuid().is_root() => Some(
            "only a server that root starts can change its user: leave `--user` out, or start it as root",
        ),
        SandboxError::Privileges { .. } => Some(
            "the container or service manager that runs the server forbids this step: permit it, or add `--sandbox off`",
        ),
        SandboxError::Filesystem(_) | SandboxError::SystemCalls(_) => Some(
            "the kernel is too old for it, or a container forbids it: without `--sandbox require` and `--seccomp-enable`, \
             the server starts with what is left, and `--debug` prints that",
        ),
        _ => None,
    }
}

/// Returns a hint if no descriptor was left.
fn descriptors_hint(error: &StartError) -> Option<&'static str> {
    if any_io_error(error, |error| error.raw_os_error() == Some(Errno::MFILE.raw_os_error())) {
        return Some(
            "raise the limit of open files: `--limit-descriptors`, `ulimit -n`, or `LimitNOFILE=` of a unit of systemd",
        );
    }
    if any_io_error(error, |error| error.raw_os_error() == Some(Errno::NFILE.raw_os_error())) {
        return Some(
            "all processes together have too many open files: raise the system's limit, `fs.file-max`",
        );
    }
    None
}

/// Adds a hint if the server cannot listen at an address.
pub(in crate::commands) fn listen_hint(failure: Failure, address: &Address, kind: io::ErrorKind) -> Failure {
    match kind {
        io::ErrorKind::AddrInUse => {
            failure.hint("another program listens there: stop it, or choose another address")
        }
        io::ErrorKind::PermissionDenied => match address.port() {
            Some(port) => failure.hint(format!(
                "port {port} needs a privilege (CAP_NET_BIND_SERVICE); ports from 1024 on do not"
            )),
            None => failure.hint("this user may not create a socket in that directory"),
        },
        io::ErrorKind::AddrNotAvailable => failure.hint("this machine does not have that address"),
        io::ErrorKind::Unsupported => failure.hint("leave `--defer-accept` out"),
        _ => failure,
    }
}

/// Explains that the file of `--tls-ticket-seed` can't be used. The messages about certificates fit to it only in part.
pub(super) fn seed_hint(failure: Failure, error: &StartError, seed: Option<&Path>) -> Failure {
    const CREATE: &str = "`openssl rand -out FILE 64` writes one, which all machines that share sessions need; \
        `chmod 600 FILE`, as the user who starts the server";
    let Some(seed) = seed else { return failure };
    let named = |why: &str| {
        let shown = seed.display();
        Failure::input(format!("the file {shown} of `--tls-ticket-seed` can't be used: {why}")).hint(CREATE)
    };
    match error {
        StartError::Tls(TlsError::Unreadable { path, cause, .. }) if path == seed => {
            named(&cause.to_string())
        }
        StartError::Tls(TlsError::NotRegular { path, .. }) if path == seed => {
            named("it isn't a regular file")
        }
        StartError::Tls(TlsError::TooLarge { path, limit, .. }) if path == seed => {
            named(&format!("it is longer than {limit} bytes"))
        }
        StartError::Tls(TlsError::ShortTicketSeed { path, bytes, .. }) if path == seed => {
            named(&format!("it has {bytes} bytes, and a seed needs 32 or more"))
        }
        _ => failure,
    }
}

/// Adds a hint about `--limit-memory` if the server ran out of memory during startup.
pub(super) fn memory_hint(failure: Failure, error: &StartError, memory_max: Option<u64>) -> Failure {
    let Some(limit) = memory_max else { return failure };
    if !is_out_of_memory(error) {
        return failure;
    }
    let mebibytes = limit >> 20;
    failure.hint(format!(
        "`--limit-memory {mebibytes}` is too small for this: raise it, or map the archive (`--archive-mmap`), which does \
         not count"
    ))
}

/// Whether there is not enough memory, according to the error or one of its sources.
fn is_out_of_memory(error: &StartError) -> bool {
    // If there is no memory for the stack of a thread, `pthread_create` fails with EAGAIN.
    any_io_error(error, |error| {
        matches!(error.kind(), io::ErrorKind::OutOfMemory | io::ErrorKind::WouldBlock)
    })
}

/// Whether the error or one of its sources is an I/O error that `matches` accepts.
fn any_io_error(error: &StartError, matches: impl Fn(&io::Error) -> bool) -> bool {
    let mut source: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = source {
        if error.downcast_ref::<io::Error>().is_some_and(&matches) {
            return true;
        }
        source = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listen_errors_have_hints() {
        let address = "127.0.0.1:80".parse::<Address>().unwrap();
        for kind in [
            io::ErrorKind::AddrInUse,
            io::ErrorKind::PermissionDenied,
            io::ErrorKind::AddrNotAvailable,
            io::ErrorKind::Unsupported,
        ] {
            let failure = listen_hint(Failure::failed("no"), &address, kind);
            assert!(matches!(failure, Failure::Message { hint: Some(_), .. }), "{kind}");
        }
    }

    #[test]
    fn full_descriptors_and_refused_sandboxes_have_hints() {
        let no_descriptor = || io::Error::from(Errno::MFILE);
        let refused = |what| SandboxError::privileges(what, io::ErrorKind::PermissionDenied.into());
        for (error, words) in [
            (StartError::EventLoop(no_descriptor()), "--limit-descriptors"),
            (StartError::Uring(no_descriptor()), "--limit-descriptors"),
            (StartError::Signals(Errno::NFILE.into()), "fs.file-max"),
            (StartError::Sandbox(refused("forbid new privileges")), "--sandbox off"),
            (StartError::Sandbox(SandboxError::Filesystem("no".into())), "--sandbox require"),
            (StartError::Sandbox(SandboxError::SystemCalls("no".into())), "--seccomp-enable"),
        ] {
            let Failure::Message { hint: Some(hint), .. } = start_failure(&error) else {
                panic!("{error} has no hint")
            };
            assert!(hint.contains(words), "{error}: {hint}");
        }
    }
}
