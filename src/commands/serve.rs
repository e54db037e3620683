//! `cannery serve DIR`: serves a folder while it's being edited.
//!
//! The folder is compiled at startup and after each change (see `folder`). Builds are left to the archiver crate, requests to
//! the server crate.

mod browser;
mod live;
mod qr_code;
mod updates;

use std::io::{self, IsTerminal};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Instant;

use cannery_archiver::{CancelFlag, Compiler, Effort};
use cannery_server::config::{LiveFolder, NamedArchive};
use cannery_server::{Address, KeptSignals, RunningServer, process::notify::Notify};
use socket2::{Domain, Socket, Type};

use self::updates::Updates;
use super::folder::{EventLog, Style};
use super::reachable::LocalAddresses;
use super::{build_failure, server};
use crate::flags::site::{Serve, listen_with_tls};
use crate::output::{self, Failure};
use crate::progress::ProgressDisplay;

/// Number of ports to try, starting with the default one, before leaving the choice to the kernel.
const PORTS_TRIED: u16 = 20;

/// Runs the command.
///
/// # Errors
///
/// Returns an error if the first build has failed or the server could not be started.
pub fn run(flags: &Serve) -> Result<(), Failure> {
    let mut config = flags.config(NamedArchive::new(None, flags.folder.clone()), flags.addresses()?);
    // Find free ports first: if there are none, it is better to fail before a long build than after it.
    let listen = addresses(flags, &config.listen)?;
    let listen_tls = addresses(flags, config.tls.as_ref().map_or(&[], |tls| &tls.listen))?;
    let mut log = EventLog::new(match flags {
        Serve { json: true, .. } => Style::Json,
        Serve { quiet: true, .. } => Style::Quiet,
        Serve { .. } => Style::Text,
    });

    // We need to follow the folder before compiling it; otherwise, changes made during the first build would
    // be missed.
    let mut options = flags.options();
    options.page_script = flags.reloads_browsers();
    let compiler = Compiler::new(options);
    let updates = Updates::follow(flags)?;

    let started = Instant::now();
    let progress =
        if flags.quiet || flags.json { ProgressDisplay::hidden() } else { ProgressDisplay::on_terminal() };
    let result = compiler.build(Effort::Quick, &CancelFlag::default(), &progress);
    progress.finish();
    let build = result.map_err(|error| build_failure::first_failure(&error))?;
    let archive = build.archive.try_clone().map_err(|error| Failure::failed(error.to_string()))?;

    config = flags.config(NamedArchive::from_file(None, flags.folder.clone(), archive), flags.addresses()?);
    config.listen = listen;
    // TCP and UDP should use the same ports, so that there is a single URL for all HTTP versions.
    listen_with_tls(&mut config, listen_tls.into_iter().map(with_shared_port).collect());

    config.live_folder = updates.live().map(|live| LiveFolder(live.clone()));

    let local = LocalAddresses::find(config.listen_addresses().map(|(_, address)| address));
    let kept = KeptSignals::new();
    config.kept_signals =
        Some(kept.map_err(|error| Failure::failed(format!("cannot handle signals: {error}")))?);
    let server = RunningServer::start(&config).map_err(|error| server::start_failure(&error))?;
    server.handle_signals(Notify::default()).map_err(|error| server::start_failure(&error))?;
    if let Some(live) = updates.live() {
        live.set_server(server.wake_handle());
        if log.is_for_people() {
            live.report_service_worker();
        }
    }

    log.first_build(&flags.folder, &build, started.elapsed())?;
    // Print one URL for each interface, because the browser may well run on another machine.
    let mut urls = Vec::new();
    // The first URL that works from other machines.
    let mut reachable = None;
    for (kind, address) in server.addresses().listeners {
        for address in local.reachable(&address) {
            let url = server::url(kind, &address);
            if matches!(&address, Address::Internet(address) if !address.ip().is_loopback()) {
                reachable.get_or_insert_with(|| url.clone());
            }
            urls.push(url);
        }
    }
    for url in &urls {
        log.listening(url)?;
    }
    if let Some(url) = &reachable {
        if log.is_for_people()
            && io::stderr().is_terminal()
            && let Some(code) = qr_code::render(url)
        {
            // So that a phone's camera can open it.
            output::note(code);
        }
        log.hint("Other machines on the network can reach this server.");
    }
    log.hint(if flags.no_follow {
        "Ctrl-C stops. The folder is compiled once: run this again to see changes."
    } else {
        "Ctrl-C stops. Changes of the folder are served when they are saved."
    });
    if flags.open
        && let Some(url) = urls.iter().find(|url| url.starts_with("http"))
    {
        browser::open(url);
    }

    // From now on, a new archive will be published by another thread after each change.
    let publisher = server.publisher().expect("the archive is an open file");
    updates.serve(compiler, &build, publisher, log)?;
    // This handle would keep the first archive in memory, even once another one is served.
    drop(build);
    server.wait();
    Ok(())
}

/// Returns the addresses to listen at. All of them are free right now.
///
/// We need to check this with a plain socket. The server's own sockets use `SO_REUSEPORT`, so binding them would succeed even
/// if another server of this user listens at the address, and then each server would get some of the connections.
fn addresses(flags: &Serve, wanted: &[Address]) -> Result<Vec<Address>, Failure> {
    if flags.has_named_port() {
        for address in wanted {
            let probed = match address {
                Address::Internet(address) => *address,
                Address::Every(port) => SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), *port),
                Address::Local(_) => continue,
            };
            reserve(probed).map_err(|error| in_use(probed, &error))?;
        }
        return Ok(wanted.to_vec());
    }
    let near = |address| match address {
        Address::Internet(address) => free_near(address).into(),
        named => named,
    };
    Ok(wanted.iter().cloned().map(near).collect())
}

/// Binds a TCP socket to this address. If this succeeds, the address is free.
///
/// The socket does not listen, since it would otherwise accept connections that the server never sees, only to
/// reset them.
fn reserve(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    // Like the server's sockets, because there may be connections of an earlier server in TIME-WAIT.
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

/// Returns the address itself if it is free.
///
/// Otherwise, the next ports are tried before falling back to port 0.
fn free_near(address: SocketAddr) -> SocketAddr {
    let ports = (0..PORTS_TRIED).filter_map(|offset| address.port().checked_add(offset));
    let mut near = ports.map(|port| SocketAddr::new(address.ip(), port));
    near.find(|address| reserve(*address).is_ok()).unwrap_or(SocketAddr::new(address.ip(), 0))
}

/// Replaces port 0 with a port that is free for both TCP and UDP, for which the kernel would choose two
/// different ones.
fn with_shared_port(address: Address) -> Address {
    match address {
        Address::Internet(address) if address.port() == 0 => {
            let shared = (0..PORTS_TRIED).find_map(|_| {
                let reserved = reserve(address).ok()?;
                let free = reserved.local_addr().ok()?.as_socket()?;
                UdpSocket::bind(free).is_ok().then_some(free)
            });
            shared.unwrap_or(address).into()
        }
        named => named,
    }
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
    use std::net::{TcpListener, TcpStream};

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

    /// Regression test: these connections used to be accepted and then reset, so a browser that was opened a moment too early
    /// would show an error.
    #[test]
    fn connections_to_a_reserved_address_are_refused() {
        let reserved = reserve("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = reserved.local_addr().unwrap().as_socket().unwrap();
        let refused = TcpStream::connect(address).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    }

    #[test]
    fn tcp_and_udp_share_a_free_port() {
        let Address::Internet(shared) = with_shared_port("127.0.0.1:0".parse().unwrap()) else { panic!() };
        assert_ne!(shared.port(), 0);
        assert!(TcpListener::bind(shared).is_ok() && UdpSocket::bind(shared).is_ok());
        let named: Address = "127.0.0.1:8443".parse().unwrap();
        assert_eq!(with_shared_port(named.clone()), named);
    }

    #[test]
    fn a_named_port_in_use_is_an_error() {
        let holder = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = holder.local_addr().unwrap().to_string();
        let flags = Serve::try_parse_from(["serve", "--bind", &address]).unwrap();
        let wanted = flags.addresses().unwrap();
        assert!(matches!(addresses(&flags, &wanted), Err(Failure::Message { hint: Some(_), .. })));
    }
}
