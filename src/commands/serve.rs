//! `cannery serve DIR`: compiles a folder and serves it, for people who work on a site.
//!
//! The archive lies in a temporary folder, which is removed as soon as the server holds the archive, or when a signal
//! ends the process before. Never contains a step of the build or of the server.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::Instant;

use cannery_archiver::compile;
use cannery_server::{Address, Server, process::notify::Notify};

use super::interrupt::Interrupt;
use super::reachable::OwnAddresses;
use super::workshop::Workshop;
use super::{archiver, server, summary};
use crate::flags::site::Serve;
use crate::output::{self, Failure, Paint};
use crate::progress::Shown;

/// How many ports after the default one are tried before any free one is taken.
const PORTS_TRIED: u16 = 20;

/// Runs what the command line asked for.
///
/// # Errors
/// The build failed, or the server could not start.
pub fn run(flags: &Serve) -> Result<(), Failure> {
    let config = flags.config("".into());
    let listen = addresses(flags, &config.listen)?;
    let listen_tls = addresses(flags, &config.listen_tls)?;
    let folder = Workshop::open().map_err(|error| {
        Failure::output(format!("cannot make a temporary folder: {error}"))
            .hint("`TMPDIR` names another place")
    })?;
    let interrupt = Interrupt::watch(Some(folder.path()));
    let archive = folder.path().join("site.cdb");
    build(flags, &archive)?;

    let mut config = flags.config(archive);
    config.listen = listen;
    config.listen_tls = listen_tls;
    let own = OwnAddresses::find(config.listen.iter().chain(&config.listen_tls));
    let server = Server::start(&config).map_err(|error| server::failure(&error))?;
    // The server has the archive mapped, and a mapped file lives on without its name.
    drop(folder);
    server.handle_signals(Notify::default()).map_err(|error| server::failure(&error))?;
    drop(interrupt);
    let mut is_reachable = false;
    for (kind, address) in server.addresses() {
        for address in own.visible(address) {
            is_reachable |= matches!(&address, Address::Internet(address) if !address.ip().is_loopback());
            output::print(format_args!("{}\n", Paint::for_results().strong(&server::url(*kind, &address))))?;
        }
    }
    if !flags.quiet {
        if is_reachable {
            output::note("Other machines on the network can reach this server.");
        }
        output::note("Ctrl-C stops. The folder is compiled once: run this again to see changes.");
    }
    server.wait();
    Ok(())
}

fn build(flags: &Serve, archive: &std::path::Path) -> Result<(), Failure> {
    let started = Instant::now();
    let shown = Shown::new(false, flags.quiet);
    let result = compile(&flags.options(archive.to_owned()), &shown);
    shown.finish();
    let report = result.map_err(|error| archiver::failure(&error))?;
    if flags.quiet {
        return Ok(());
    }
    archiver::tell(&report.diagnostics);
    let took = started.elapsed().as_secs_f64();
    let details = summary::Details::Few;
    output::print(summary::summary(&flags.folder, &report, took, details, Paint::for_results()))?;
    output::print("\n")
}

/// Returns the addresses to listen at, each of which is free now.
///
/// The server's own sockets share an address with other servers of the same user, which would answer
/// every other request. So a plain socket tries each address first.
fn addresses(flags: &Serve, wanted: &[Address]) -> Result<Vec<Address>, Failure> {
    if flags.has_named_addresses() {
        for address in wanted {
            let tried = match address {
                Address::Internet(address) => *address,
                Address::Every(port) => SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), *port),
                Address::Local(_) => continue,
            };
            TcpListener::bind(tried).map_err(|error| taken(tried, &error))?;
        }
        return Ok(wanted.to_vec());
    }
    let near = |address| match address {
        Address::Internet(address) => free_near(address).into(),
        named => named,
    };
    Ok(wanted.iter().cloned().map(near).collect())
}

/// The address itself if it is free, else one with a port soon after it, else one with any free port.
fn free_near(address: SocketAddr) -> SocketAddr {
    let ports = (0..PORTS_TRIED).filter_map(|more| address.port().checked_add(more));
    let mut near = ports.map(|port| SocketAddr::new(address.ip(), port));
    near.find(|address| TcpListener::bind(address).is_ok()).unwrap_or(SocketAddr::new(address.ip(), 0))
}

fn taken(address: SocketAddr, error: &io::Error) -> Failure {
    server::listen_hint(
        Failure::failed(format!("cannot listen at {address}: {error}")),
        &address.into(),
        error.kind(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn a_port_that_is_taken_is_stepped_over() {
        let holder = TcpListener::bind("127.0.0.1:0").unwrap();
        let held = holder.local_addr().unwrap();
        let free = free_near(held);
        assert_eq!(free.ip(), held.ip());
        assert_ne!(free.port(), held.port());
    }

    #[test]
    fn a_port_that_was_named_and_is_taken_is_an_error() {
        let holder = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = holder.local_addr().unwrap().to_string();
        let flags = Serve::try_parse_from(["serve", "--bind", &address]).unwrap();
        let wanted = flags.config("".into()).listen;
        assert!(matches!(addresses(&flags, &wanted), Err(Failure::Message { hint: Some(_), .. })));
    }
}
