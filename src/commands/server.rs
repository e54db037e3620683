//! `cannery-server`: starts a server or the supervisor of several, and prints where it listens.
//!
//! Never contains a step of the server, or any code of the archiver: `--folder` starts `cannery-archiver`.

mod compilers;
mod failure;
mod inherited;
mod limits;
mod own_archive;
mod profile;

use std::ffi::OsString;
use std::fmt::Display;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use cannery_server::config::{ListenerKind, NoticeHandler, VirtualHosts};
use cannery_server::process::Datagrams;
use cannery_server::process::notify::{Notify, SOCKET_VARIABLE};
use cannery_server::process::supervisor::{ExitReason, ProcessSockets, Supervisor};
use cannery_server::process::takeover::Predecessor;
use cannery_server::{
    Address, AdminProcess, Claim, Config, Listener, Listening, Notice, Server, end_with_parent,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use self::compilers::Compilers;
pub(super) use self::failure::{listen_hint, start_failure};
use self::own_archive::Unchecked;
use self::profile::Profilers;
use super::reachable::LocalAddresses;
use crate::flags;
use crate::flags::server::{Invocation, ServerOptions};
use crate::format;
use crate::output::{self, Failure, Paint, one_line};
use crate::reference;

/// The variable that holds a process's number. The supervisor, and a process without one, do not have it.
const PROCESS_VARIABLE: &str = "CANNERY_PROCESS";

/// Runs the program with these arguments, the first of which is its name.
///
/// # Errors
/// The command line is wrong, or the server could not start.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> Result<(), Failure> {
    let own = own_archive::find(|| started_program().ok());
    run_invocation(flags::server::parse(arguments, own)?)
}

/// Runs a parsed command line.
///
/// # Errors
/// The server could not start.
pub fn run_invocation(invocation: Invocation) -> Result<(), Failure> {
    match invocation {
        Invocation::Serve(options) => start(&options),
        Invocation::About(about) => reference::print_about(about, flags::server::command()),
    }
}

/// Starts this process in its role: the only server, the supervisor of several, one of them, or the one that answers
/// operators for them.
fn start(options: &ServerOptions) -> Result<(), Failure> {
    limits::set_descriptors(options.descriptors_max)?;
    if let Some(bytes) = options.memory_max {
        limits::set_memory(bytes)?;
    }

    let mut config = options.config.clone();
    let quiet = options.quiet;
    config.on_notice = NoticeHandler(Arc::new(move |notice| print_notice(notice, quiet)));
    config.inherited = inherited::listeners()?;
    let datagrams = inherited::datagrams()?;
    if !datagrams.is_empty() && config.tls.is_some() && !options.http3_disabled {
        config.http3.get_or_insert_default().inherited = datagrams;
    }
    if let Some(http3) = &mut config.http3 {
        http3.generation = inherited::generation();
    }

    // The supervisor checks the archive for its processes.
    let own = options.own_archive.as_deref().filter(|_| process_number().is_none());
    // A supervisor must not exit while it starts processes, and one that takes over must not replace its predecessor in vain.
    let is_supervisor = options.processes.is_some();
    let unchecked = own.map(|path| Unchecked::open(path, is_supervisor)).transpose()?.flatten();

    match (options.processes, process_number()) {
        (None, _) => {
            let compilers = Compilers::start(options, &mut config)?;
            serve(options, &config, compilers, unchecked)
        }
        (Some(processes), None) => supervise(options, &config, processes),
        (Some(processes), Some(number)) => {
            // If the supervisor is killed, it can no longer stop this process.
            end_with_parent();
            if number == processes {
                return serve_operators(&config, &inherited::stats_sockets()?);
            }
            config.standby = inherited::standby_listeners()?;
            config.admin = None;
            config.stats_socket = inherited::stats_sockets()?.first().copied();
            if let Some(http3) = &mut config.http3 {
                http3.part = inherited::http3_part()?;
                http3.predecessors = inherited::forwarding_predecessors();
            }
            let seed = inherited::ticket_seed()?;
            if let Some(tls) = &mut config.tls {
                tls.seed = seed;
            }
            serve(options, &config, Compilers::default(), None)
        }
    }
}

/// Serves until a signal ends the server. Checks the archive in this program meanwhile.
fn serve(
    options: &ServerOptions,
    config: &Config,
    compilers: Compilers,
    unchecked: Option<Unchecked>,
) -> Result<(), Failure> {
    let notify = service_manager()?;
    let listen_quic = config.http3.iter().flat_map(|http3| &http3.listen);
    let local = LocalAddresses::find(config.listen.iter().chain(&config.listen_tls).chain(listen_quic));
    let profilers = Profilers::start(options)?;
    let config = &Config { profiler_file: profilers.temporary_file(), ..config.clone() };
    let server = Server::start(config)
        .map_err(|error| failure::memory_hint(start_failure(&error), &error, options.memory_max))?;
    server.handle_signals(notify.clone()).map_err(|error| start_failure(&error))?;
    compilers.follow(&server)?;
    // A thread that starts earlier would be outside the sandbox.
    unchecked.map(Unchecked::check_in_background).transpose()?;

    if is_first_process() && !options.quiet {
        server.report_sites();
    }
    if process_number().is_none() && !options.quiet {
        print_ignored_flags(options);
        print_addresses(server.addresses(), local);
        print_quic_addresses(server.quic_addresses(), local);
        if let Some(address) = server.admin_address() {
            print_admin_address(&address);
        }
    }
    if is_first_process() {
        print_setup(options, config, &server);
    }
    profilers.sample()?;
    notify.ready("serving");
    server.wait();
    profilers.finish()
}

/// Answers operators at `--admin` for the processes at the other ends of `stats_sockets`, until a signal.
fn serve_operators(config: &Config, stats_sockets: &[i32]) -> Result<(), Failure> {
    let notify = service_manager()?;
    let operators = AdminProcess::start(config, stats_sockets).map_err(|error| start_failure(&error))?;
    operators.handle_signals(notify.clone()).map_err(|error| start_failure(&error))?;
    notify.ready("answering operators");
    operators.wait();
    Ok(())
}

/// Runs `processes` servers, and one more process for operators, until a signal or a successor ends the supervisor.
fn supervise(options: &ServerOptions, config: &Config, processes: usize) -> Result<(), Failure> {
    let unknown = |error| Failure::failed(format!("cannot find this program to start it again: {error}"));
    let program = std::env::current_exe().map_err(unknown)?;
    let successor = started_program().map_err(unknown)?;
    let predecessor = Predecessor::from_environment();

    // We open all sockets before we start the first process, so that a port in use is an error now.
    let threads = config.threads.get();
    let listening = Listening::open(config, threads * processes).map_err(|error| start_failure(&error))?;
    let datagrams = config.http3.as_ref().map(|http3| Datagrams::open(http3, threads * processes));
    let datagrams = datagrams.transpose().map_err(|error| start_failure(&error))?;
    let addresses = listening.addresses().to_vec();
    let quic_addresses = datagrams.as_ref().map_or_else(Vec::new, |opened| opened.addresses().to_vec());
    let tcp_addresses = addresses.iter().map(|(_, address)| address);
    let local = LocalAddresses::find(tcp_addresses.chain(&quic_addresses));
    let (admin_claim, admin_listener) =
        config.admin.as_ref().map(inherited::admin_listener).transpose()?.unzip();
    let admin_address = admin_listener.as_ref().map(Listener::address).transpose().map_err(unknown)?;

    let (worker_listeners, mut claims) = listening.into_parts();
    if predecessor.is_some_and(Predecessor::leaves_listeners) {
        let serving = worker_listeners.iter().flatten().map(|(_, listener)| listener);
        for listener in serving.chain(&admin_listener) {
            claims.extend(listener.claim().map_err(unknown)?);
        }
    }
    claims.extend(admin_claim.flatten());
    let mut worker_listeners = worker_listeners.into_iter();
    let mut datagrams = match (datagrams, &config.http3) {
        (Some(datagrams), Some(http3)) => datagrams.into_processes(threads, http3.generation),
        _ => Ok(Vec::new()),
    }
    .map_err(|error| start_failure(&error))?
    .into_iter();
    let process_sockets = (0..processes)
        .map(|_| ProcessSockets {
            listeners: worker_listeners.by_ref().take(threads).flatten().collect(),
            datagrams: datagrams.next(),
        })
        .collect();

    let command = |number: usize| {
        let mut command = Command::new(&program);
        // The name tells the process where the next release of an archive in this program appears.
        command.arg0(&successor).args(std::env::args_os().skip(1)).env(PROCESS_VARIABLE, number.to_string());
        command
    };
    let supervisor = Supervisor {
        command: &command,
        successor: &|| {
            let mut command = Command::new(&successor);
            command.args(std::env::args_os().skip(1));
            command
        },
        predecessor,
        predecessor_seed: inherited::ticket_seed()?,
        has_tls: config.has_tls(),
        drain: config.drain,
        on_notice: &|notice| print_notice(notice, options.quiet),
    };
    let on_ready = || {
        if !options.quiet {
            print_ignored_flags(options);
            print_addresses(&addresses, local);
            print_quic_addresses(&quic_addresses, local);
            if let Some(address) = &admin_address {
                print_admin_address(address);
            }
        }
    };
    let ended = supervisor.run(process_sockets, admin_listener, on_ready);

    // Another process still uses the addresses: the successor, or the predecessor if this one could not take over.
    if matches!(ended, Ok(ExitReason::Replaced)) || ended.is_err() && predecessor.is_some() {
        claims.into_iter().for_each(Claim::release);
    }
    ended.map(drop).map_err(|error| Failure::failed(error.to_string()))
}

/// Returns the path by which this program was started, for its successor. A symbolic link is not resolved: an upgrade may
/// point it at the new program and delete this one.
fn started_program() -> io::Result<PathBuf> {
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

/// Returns `true` if this process prints messages that are the same for all: the first of several, or the only one.
fn is_first_process() -> bool {
    process_number().unwrap_or(0) == 0
}

fn service_manager() -> Result<Notify, Failure> {
    Notify::from_environment().map_err(|error| {
        Failure::failed(format!("cannot notify the service manager ({SOCKET_VARIABLE}): {error}"))
    })
}

/// Prints warnings and advice about the running server, and with `--debug` how it is set up.
fn print_setup(options: &ServerOptions, config: &Config, server: &Server) {
    if config.tls.is_some() && !config.has_tls() {
        note("the certificates are not used: no `--bind-tls` names an address for TLS");
    }
    if config.https_redirect.is_some() && !config.has_tls() {
        warn(
            "`--https-redirect` without `--bind-tls` redirects every request to port 443: behind a proxy that terminates \
             TLS, the redirects never end",
        );
    }
    let sandbox = server.sandbox_report();
    for message in sandbox.missing().chain(sandbox.unreachable.iter().map(String::as_str)) {
        warn(message);
    }
    if !options.quiet {
        for message in sandbox.advice() {
            note(message);
        }
    }
    if options.debug {
        note(settings(config));
        note(format_args!("event loop {}", server.io()));
        note(sandbox);
    }
}

/// Prints the flags on the command line that have no effect, all in one line.
fn print_ignored_flags(options: &ServerOptions) {
    if !options.without_effect.is_empty() {
        let flags: Vec<_> = options.without_effect.iter().map(|flag| format!("`--{flag}`")).collect();
        note(format_args!("no effect: {}; a lookup needs no table in memory", flags.join(", ")));
    }
}

fn print_addresses(addresses: &[(ListenerKind, Address)], local: LocalAddresses) {
    for (kind, address) in addresses {
        for address in local.reachable(address) {
            note(format_args!("listening at {}", url(*kind, &address)));
        }
    }
}

fn print_quic_addresses(addresses: &[Address], local: LocalAddresses) {
    for address in addresses {
        for address in local.reachable(address) {
            note(format_args!("listening at {} (HTTP/3)", url(ListenerKind::Tls, &address)));
        }
    }
}

fn print_admin_address(address: &Address) {
    note(format_args!("admin page and metrics at {}", url(ListenerKind::Plain, address)));
}

/// Prints an event of the running server. With `quiet`, only warnings.
fn print_notice(notice: &Notice, quiet: bool) {
    if notice.is_warning() {
        warn(&notice.to_string());
    } else if !quiet {
        note(one_line(&notice.to_string()));
    }
}

fn warn(message: &str) {
    note(format_args!("{} {}", Paint::for_errors().warning("warning:"), one_line(message)));
}

/// Writes a line to standard error, or drops it if there is no room for it within a second.
///
/// The calling thread starts the server, reloads archives or waits for signals. A reader that does not read must not
/// block it, nor the threads that wait for the lock.
fn note(text: impl Display) {
    // While this thread holds the lock, no other one uses up the room.
    let _lock = io::stderr().lock();
    if stderr_has_room() {
        output::note(text);
    }
}

/// Returns `true` if standard error can take a line now or within a second, or if the kernel cannot tell.
fn stderr_has_room() -> bool {
    let stderr = io::stderr();
    let mut polled = [PollFd::new(&stderr, PollFlags::OUT)];
    let timeout = Timespec { tv_sec: 1, tv_nsec: 0 };
    !matches!(poll(&mut polled, Some(&timeout)), Ok(0))
}

/// Returns the main settings, on one line.
fn settings(config: &Config) -> String {
    let state = |is_on: bool| if is_on { "on" } else { "off" };
    format!(
        "{}, hosts {}, security headers {}, timeouts {}",
        format::counted(config.threads.get() as u64, "thread"),
        state(config.virtual_hosts == VirtualHosts::Enabled),
        state(config.security_headers.basic),
        state(config.timeouts.is_some()),
    )
}

/// Returns the URL under which a client on this machine reaches a server at `address`. For a local socket, the path.
pub(super) fn url(kind: ListenerKind, address: &Address) -> String {
    let address = match address {
        Address::Internet(address) => *address,
        Address::Every(port) => SocketAddr::new(Ipv4Addr::LOCALHOST.into(), *port),
        Address::Local(_) => return address.to_string(),
    };
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    let scheme = match kind {
        ListenerKind::Plain => "http",
        ListenerKind::Tls => "https",
    };
    format!("{scheme}://{}/", SocketAddr::new(ip, address.port()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unspecified_addresses_are_printed_as_loopback() {
        let url = |address: &str| url(ListenerKind::Plain, &address.parse().unwrap());
        assert_eq!(url("127.0.0.1:8080"), "http://127.0.0.1:8080/");
        assert_eq!(url("0.0.0.0:80"), "http://127.0.0.1:80/");
        assert_eq!(url("[::]:8080"), "http://[::1]:8080/");
        assert_eq!(url(":8080"), "http://127.0.0.1:8080/");
        assert_eq!(url("unix:/run/s"), "unix:/run/s");
    }
}
