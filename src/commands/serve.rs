//! `cannery serve DIR`: compiles a site folder and serves it, to preview a site while it is written.
//!
//! The archive is written to a temporary directory, which is removed as soon as the server has mapped the archive, or when
//! a signal ends the process before that. Never contains a step of the build or of the server.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::time::Instant;

use cannery_archiver::compile;
use cannery_server::{Address, Server, process::notify::Notify};

use super::interrupt::Interrupt;
use super::reachable::LocalAddresses;
use super::temporary_dir::TemporaryDir;
use super::{archiver, server, summary};
use crate::flags::site::{Serve, internet_addresses};
use crate::output::{self, Failure, Paint};
use crate::progress::ProgressDisplay;

/// The number of ports that are tried, from the default one on, before the kernel chooses a free one.
const PORTS_TRIED: u16 = 20;

/// Runs the command.
///
/// # Errors
/// The build failed, or the server could not start.
pub fn run(flags: &Serve) -> Result<(), Failure> {
    let config = flags.config("".into());
    let listen = addresses(flags, &config.listen)?;
    let listen_tls = addresses(flags, &config.listen_tls)?;

    let directory = TemporaryDir::create().map_err(|error| {
        Failure::output(format!("cannot create a temporary directory: {error}"))
            .hint("`TMPDIR` names another place")
    })?;
    let interrupt = Interrupt::watch(Some(directory.path()));
    let archive = directory.path().join("site.cdb");
    build(flags, &archive)?;

    let mut config = flags.config(archive);
    config.listen = listen;
    if let Some(http3) = &mut config.http3 {
        // The same ports, so that a person has one address for all versions of HTTP.
        http3.listen = internet_addresses(&listen_tls);
    }
    config.listen_tls = listen_tls;
    let local = LocalAddresses::find(config.listen.iter().chain(&config.listen_tls));
    let server = Server::start(&config).map_err(|error| server::start_failure(&error))?;
    // The server has mapped the archive, so the file is no longer needed.
    drop(directory);
    server.handle_signals(Notify::default()).map_err(|error| server::start_failure(&error))?;
    drop(interrupt);

    let mut is_reachable = false;
    for (kind, address) in server.addresses() {
        for address in local.reachable(address) {
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

fn build(flags: &Serve, archive: &Path) -> Result<(), Failure> {
    let started = Instant::now();
    let progress = ProgressDisplay::new(false, flags.quiet);
    let result = compile(&flags.options(archive.to_owned()), &progress);
    progress.finish();
    let report = result.map_err(|error| archiver::failure(&error))?;
    if flags.quiet {
        return Ok(());
    }
    archiver::print_diagnostics(&report.diagnostics);
    let seconds = started.elapsed().as_secs_f64();
    let details = summary::Details::Few;
    output::print(summary::summary(&flags.folder, &report, seconds, details, Paint::for_results()))?;
    output::print("\n")
}

/// Returns the addresses to listen at, each of which is free now.
///
/// The server binds its sockets with `SO_REUSEPORT`, so binding succeeds even if another server of this user listens at the
/// address, and each would get a part of the connections. So we try each address with a plain socket first.
fn addresses(flags: &Serve, wanted: &[Address]) -> Result<Vec<Address>, Failure> {
    if flags.has_named_addresses() {
        for address in wanted {
            let probed = match address {
                Address::Internet(address) => *address,
                Address::Every(port) => SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), *port),
                Address::Local(_) => continue,
            };
            TcpListener::bind(probed).map_err(|error| in_use(probed, &error))?;
        }
        return Ok(wanted.to_vec());
    }
    let near = |address| match address {
        Address::Internet(address) => free_near(address).into(),
        named => named,
    };
    Ok(wanted.iter().cloned().map(near).collect())
}

/// Returns the address with its own port if that is free, otherwise with one of the next ports, otherwise with port 0.
fn free_near(address: SocketAddr) -> SocketAddr {
    let ports = (0..PORTS_TRIED).filter_map(|offset| address.port().checked_add(offset));
    let mut near = ports.map(|port| SocketAddr::new(address.ip(), port));
    near.find(|address| TcpListener::bind(address).is_ok()).unwrap_or(SocketAddr::new(address.ip(), 0))
}

fn in_use(address: SocketAddr, error: &io::Error) -> Failure {
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
    fn a_port_in_use_is_skipped() {
        let holder = TcpListener::bind("127.0.0.1:0").unwrap();
        let held = holder.local_addr().unwrap();
        let free = free_near(held);
        assert_eq!(free.ip(), held.ip());
        assert_ne!(free.port(), held.port());
    }

    #[test]
    fn a_named_port_in_use_is_an_error() {
        let holder = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = holder.local_addr().unwrap().to_string();
        let flags = Serve::try_parse_from(["serve", "--bind", &address]).unwrap();
        let wanted = flags.config("".into()).listen;
        assert!(matches!(addresses(&flags, &wanted), Err(Failure::Message { hint: Some(_), .. })));
    }
}
