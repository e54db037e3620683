//! Explains why a server does not start.

use std::error::Error;
use std::io;

use cannery_server::sandbox::SandboxError;
use cannery_server::{Address, StartError};

use crate::commands::open;
use crate::output::{Exit, Failure};

/// Converts a start error.
///
/// If there is a remedy, adds a hint.
pub(in crate::commands) fn start_failure(error: &StartError) -> Failure {
    match error {
        StartError::Archive { path, source } => open::failure(path, source),
        StartError::Listen { address, source } | StartError::ListenUdp { address, source } => {
            listen_hint(Failure::failed(error.to_string()), address, source.kind())
        }
        StartError::NoCertificate => Failure::failed(error.to_string())
            .hint("`--tls-bundle FILE` names one, `--tls-self-ecdsa` makes one for tests"),
        StartError::Sandbox(SandboxError::Privileges { .. }) if !rustix::process::getuid().is_root() => {
            Failure::failed(error.to_string()).hint(
                "only a server that root starts can change its user: leave `--user` out, or start it as root",
            )
        }
        StartError::AccessLog { .. } => Failure::new(Exit::Output, error.to_string()),
        StartError::Tls(_) | StartError::Webroot { .. } => Failure::input(error.to_string()),
        // For the others, the message has to do.
        _ => Failure::failed(error.to_string()),
    }
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
    let mut source: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = source {
        if let Some(error) = error.downcast_ref::<io::Error>()
            // If there is no memory for the stack of a thread, `pthread_create` fails with EAGAIN.
            && matches!(error.kind(), io::ErrorKind::OutOfMemory | io::ErrorKind::WouldBlock)
        {
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
            let failure =
                start_failure(&StartError::Listen { address: address.clone(), source: kind.into() });
            assert!(matches!(failure, Failure::Message { hint: Some(_), .. }), "{kind}");
        }
    }
}
