//! `cannery-server`: starts a server, and says where it listens.
//!
//! Never contains a step of the server, or any code of the archiver.

use std::ffi::OsString;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use cannery_server::config::Listener;
use cannery_server::{Notice, Server, StartError};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::open;
use crate::flags::{self, server::Told};
use crate::reference;
use crate::say::{self, Failure, Paint, one_line};
use crate::sbom;
use crate::text;

/// Runs the program with these words, its name first.
///
/// # Errors
/// The command line is wrong, or the server could not start.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> Result<(), Failure> {
    run_read(flags::server::read(arguments)?)
}

/// Runs what a command line asked for.
///
/// # Errors
/// The server could not start.
pub fn run_read(told: Told) -> Result<(), Failure> {
    match told {
        Told::Serve(server) => serve(&server),
        Told::ManualPage => reference::print_manual_page(flags::server::command()),
        Told::Sbom => say::print(sbom::spell()),
    }
}

fn serve(told: &flags::server::Server) -> Result<(), Failure> {
    if let Some(limit) = told.descriptors_max {
        limit_descriptors(limit)?;
    }
    let quiet = told.quiet;
    let mut config = told.config.clone();
    config.listener = Listener(Arc::new(move |notice| tell(notice, quiet)));
    let server = Server::start(&config).map_err(|error| failure(&error))?;
    server.obey_signals().map_err(|error| failure(&error))?;
    if !told.quiet {
        for flag in &told.without_effect {
            say::note(format_args!("`--{flag}` is not needed: a lookup uses no table in memory"));
        }
        for address in server.addresses() {
            say::note(format_args!("listening at {}", url(*address)));
        }
    }
    if let Some(address) = server.admin_address().filter(|_| !told.quiet) {
        say::note(format_args!("operators may ask at {}", url(address)));
    }
    if told.debug {
        say::note(setting(told));
    }
    server.wait();
    Ok(())
}

/// Says what happens while the server runs; only what is wrong if it is to be quiet.
fn tell(notice: &Notice, quiet: bool) {
    if notice.is_warning() {
        say::note(format_args!(
            "{} {}",
            Paint::for_errors().error("warning:"),
            one_line(&notice.to_string())
        ));
    } else if !quiet {
        say::note(one_line(&notice.to_string()));
    }
}

/// How the server is set up, on one line.
fn setting(told: &flags::server::Server) -> String {
    let config = &told.config;
    format!(
        "{}, hosts {}, security headers {}, timeouts {}",
        text::counted(config.threads.get() as u64, "thread"),
        on_or_off(config.hosts),
        on_or_off(config.security_headers.basic),
        on_or_off(config.timeouts.is_some()),
    )
}

const fn on_or_off(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

/// Lowers, or raises as far as the system lets us, the number of descriptors that may be open.
fn limit_descriptors(limit: u64) -> Result<(), Failure> {
    let now = getrlimit(Resource::Nofile);
    let maximum = now.maximum.map(|maximum| maximum.max(limit));
    setrlimit(Resource::Nofile, Rlimit { current: Some(limit), maximum }).map_err(|error| {
        let most =
            now.maximum.map_or("any number".into(), |maximum| format!("at most {}", text::count(maximum)));
        Failure::failed(format!("`--limit-descriptors {limit}`: {}", io::Error::from(error)))
            .hint(format!("this user may open {most} here; see `ulimit -Hn`"))
    })
}

/// The URL under which whoever is on this machine reaches a server at `address`.
pub(super) fn url(address: SocketAddr) -> String {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    format!("http://{}/", SocketAddr::new(ip, address.port()))
}

/// Why a server did not start, and what to turn.
pub(super) fn failure(error: &StartError) -> Failure {
    match error {
        StartError::Archive { path, source } => open::failure(path, source),
        StartError::Listen { address, source } => {
            listen_hint(Failure::failed(error.to_string()), *address, source.kind())
        }
        StartError::AccessLog(_)
        | StartError::EventLoop(_)
        | StartError::Thread(_)
        | StartError::Signals(_) => Failure::failed(error.to_string()),
    }
}

/// What to do about an address that cannot be listened at.
pub(super) fn listen_hint(failure: Failure, address: SocketAddr, kind: io::ErrorKind) -> Failure {
    match kind {
        io::ErrorKind::AddrInUse => {
            failure.hint("another program listens there: stop it, or name another address with `--bind`")
        }
        io::ErrorKind::PermissionDenied => failure.hint(format!(
            "port {} needs a privilege (CAP_NET_BIND_SERVICE); ports from 1024 on do not",
            address.port()
        )),
        io::ErrorKind::AddrNotAvailable => failure.hint("this machine does not have that address"),
        _ => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_is_every_address_is_shown_as_one_that_can_be_visited() {
        let shown = |address: &str| url(address.parse().unwrap());
        assert_eq!(shown("127.0.0.1:8080"), "http://127.0.0.1:8080/");
        assert_eq!(shown("0.0.0.0:80"), "http://127.0.0.1:80/");
        assert_eq!(shown("[::]:8080"), "http://[::1]:8080/");
    }

    #[test]
    fn an_address_that_cannot_be_had_has_a_hint() {
        let address = "127.0.0.1:80".parse().unwrap();
        for kind in
            [io::ErrorKind::AddrInUse, io::ErrorKind::PermissionDenied, io::ErrorKind::AddrNotAvailable]
        {
            let failure = failure(&StartError::Listen { address, source: kind.into() });
            assert!(matches!(failure, Failure::Told { hint: Some(_), .. }), "{kind}");
        }
    }
}
