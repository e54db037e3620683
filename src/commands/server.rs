//! `cannery-server`: starts a server (or a supervisor if there are several) and prints where it listens.
//!
//! The server itself is located in its own crate. There is no archiver code in this program either: for `--folder`, it
//! runs `cannery-archiver`.

mod compilers;
mod failure;
mod issuing;
mod limits;
mod own_archive;
mod profile;

use std::ffi::OsString;
use std::fmt::Display;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::sync::Arc;

use cannery_server::config::{ListenerKind, NoticeHandler, VirtualHosts};
use cannery_server::process::notify::{Notify, SOCKET_VARIABLE};
use cannery_server::process::{self, Addresses, Role, started_program};
use cannery_server::{Address, AdminProcess, Config, KeptSignals, Notice, RunningServer};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use self::compilers::Compilers;
pub(super) use self::failure::{listen_hint, start_failure};
use self::issuing::CertificateProcess;
use self::profile::Profilers;
use super::reachable::LocalAddresses;
use super::release_trust::ReleaseTrust;
use crate::flags;
use crate::flags::server::{Invocation, ServerOptions};
use crate::format;
use crate::output::{self, Failure, Paint, one_line};
use crate::reference;

/// Runs the program with these arguments. The first is the program's name.
///
/// # Errors
///
/// Returns an error if the command line is wrong or the server could not be started.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> Result<(), Failure> {
    let own = own_archive::find(|| started_program().ok());
    run_invocation(flags::server::parse(arguments, own)?)
}

/// Runs a parsed command line.
///
/// # Errors
///
/// Returns an error if the server could not be started.
pub fn run_invocation(invocation: Invocation) -> Result<(), Failure> {
    match invocation {
        Invocation::Serve(options) => start(&options),
        Invocation::About(about) => reference::print_about(about, flags::server::command()),
    }
}

/// Runs this process in its role. This may be the only server, the supervisor of several servers, one of these, or
/// the process that answers operators on their behalf.
fn start(options: &ServerOptions) -> Result<(), Failure> {
    limits::set_descriptors(options.descriptors_max)?;
    if let Some(bytes) = options.memory_max {
        limits::set_memory(bytes)?;
    }

    let role = Role::of(options.processes);
    let mut config = options.config.clone();
    let kept = KeptSignals::new();
    config.kept_signals =
        Some(kept.map_err(|error| Failure::failed(format!("cannot handle signals: {error}")))?);

    let trust = ReleaseTrust::from_flags(&options.trust)?;
    config.release_trust = trust.map(|trust| Arc::new(trust.into_policy()));

    let quiet = options.quiet;
    let own = options.own_archive.clone().filter(|_| role == Role::Only);
    config.on_notice = NoticeHandler(Arc::new(move |notice| match notice {
        Notice::Damaged { path, why, .. } if own.as_ref() == Some(path) => {
            own_archive::exit_damaged(path, why)
        }
        _ => print_notice(notice, quiet),
    }));

    role.inherit(&mut config).map_err(|error| start_failure(&error))?;

    // We are not able to check this any earlier: supervised processes have the same flags, and the admin process does not
    // have any HTTP/3 sockets.
    if matches!(role, Role::Only | Role::Supervisor { .. })
        && config.served_http3().is_none()
        && let Some(flag) = options.http3_flag
    {
        return Err(Failure::usage(format!("`{flag}` needs a socket for HTTP/3"))
            .hint("`--bind-quic ADDRESS` opens one, and a service manager may pass some"));
    }

    // Programs that we start should not keep our sockets. Without the system's support, they do until we exit.
    let _ = process::close_on_exec();
    match role {
        Role::Only => {
            let compilers = Compilers::start(options, &mut config)?;
            let issuing = CertificateProcess::start(options, &config)?;
            serve(options, role, &config, compilers, issuing.as_ref())
        }
        Role::Supervisor { processes } => {
            // The archive is checked once for all processes. This must be done before starting them: the supervisor should not exit
            // in the middle of this, nor should a successor replace its predecessor in vain.
            options.own_archive.as_deref().map(own_archive::check_large).transpose()?;
            let issuing = CertificateProcess::start(options, &config)?;
            supervise(options, &config, processes, issuing.as_ref())
        }
        Role::Member { .. } => serve(options, role, &config, Compilers::default(), None),
        Role::Operators => serve_operators(&config),
    }
}

/// Serves until the server is ended by a signal.
fn serve(
    options: &ServerOptions,
    role: Role,
    config: &Config,
    compilers: Compilers,
    issuing: Option<&CertificateProcess>,
) -> Result<(), Failure> {
    let notify = service_manager()?;
    let listen_quic = config.served_http3().into_iter().flat_map(|http3| &http3.listen);
    let listen = config.listen_addresses().map(|(_, address)| address).chain(listen_quic);
    let local = LocalAddresses::find(listen.chain(config.admin.as_ref().map(|admin| &admin.address)));

    let profilers = Profilers::start(options)?;
    let mut config = config.clone();
    if let Some(profiler) = &mut config.profiler {
        profiler.file = profilers.temporary_file();
    }

    let server = RunningServer::start(&config).map_err(|error| {
        let failure = failure::memory_hint(start_failure(&error), &error, options.memory_max);
        let seed = config.tls.as_ref().and_then(|tls| tls.ticket_seed.as_deref());
        failure::seed_hint(failure, &error, seed)
    })?;
    server.handle_signals(notify.clone()).map_err(|error| start_failure(&error))?;

    compilers.follow(&server)?;

    // Messages that would be the same for all processes should only be printed by the first one.
    let is_first = matches!(role, Role::Only | Role::Member { number: 0 });
    if is_first && !options.quiet {
        server.report_sites();
    }
    if role == Role::Only && !options.quiet {
        print_ignored_flags(options);
        print_addresses(&server.addresses(), local);
    }
    if role == Role::Only {
        warn_of_open_admin(server.addresses().admin.as_ref());
    }
    if is_first {
        print_setup(options, &config, &server);
    }

    profilers.sample()?;

    // From here on, nothing needs to be started or opened except by a profiler, so the sandbox can be
    // tightened.
    if config.profiler.is_none() {
        server.restrict_waiting_thread().map_err(|error| start_failure(&error))?;
    }

    notify.ready("serving");
    if let Some(issuing) = issuing {
        issuing.begin();
    }
    server.wait();
    profilers.finish()
}

/// Answers operators at `--admin` on behalf of the other processes, until a signal arrives.
fn serve_operators(config: &Config) -> Result<(), Failure> {
    let notify = service_manager()?;
    let operators = AdminProcess::start(config).map_err(|error| start_failure(&error))?;
    operators.handle_signals(notify.clone()).map_err(|error| start_failure(&error))?;
    operators.restrict_waiting_thread().map_err(|error| start_failure(&error))?;
    notify.ready("answering operators");
    operators.wait();
    Ok(())
}

/// Runs several servers, and a process for operators, until a signal or a successor ends the supervisor.
fn supervise(
    options: &ServerOptions,
    config: &Config,
    processes: NonZeroUsize,
    issuing: Option<&CertificateProcess>,
) -> Result<(), Failure> {
    let on_ready = |addresses: &Addresses| {
        if let Some(issuing) = issuing {
            issuing.begin();
        }
        if !options.quiet {
            let listeners = addresses.listeners.iter().map(|(_, address)| address);
            print_ignored_flags(options);
            let all = listeners.chain(&addresses.quic).chain(&addresses.admin);
            print_addresses(addresses, LocalAddresses::find(all));
        }
        warn_of_open_admin(addresses.admin.as_ref());
    };
    process::supervise(config, processes, on_ready).map_err(|error| start_failure(&error))
}

fn service_manager() -> Result<Notify, Failure> {
    Notify::from_environment().map_err(|error| {
        Failure::failed(format!("cannot notify the service manager ({SOCKET_VARIABLE}): {error}"))
    })
}

/// Prints warnings and advice about the running server. If `--debug` is given, also prints its settings.
fn print_setup(options: &ServerOptions, config: &Config, server: &RunningServer) {
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

    // The first process in a container usually runs as root, so advising against this would be pointless.
    if !options.quiet && std::process::id() != 1 {
        for message in sandbox.advice() {
            warn(message);
        }
    }

    if options.debug {
        note(settings(config));
        note(format_args!("event loop {}", server.io()));
        note(sandbox);
    }
}

/// Prints the flags that have no effect, all on one line.
fn print_ignored_flags(options: &ServerOptions) {
    if !options.without_effect.is_empty() {
        let flags: Vec<_> = options.without_effect.iter().map(|flag| format!("`--{flag}`")).collect();
        note(format_args!("no effect: {}; a lookup needs no table in memory", flags.join(", ")));
    }
}

fn print_addresses(addresses: &Addresses, local: LocalAddresses) {
    for (kind, address) in &addresses.listeners {
        for address in local.reachable(address) {
            note(format_args!("listening at {}", url(*kind, &address)));
        }
    }
    for address in &addresses.quic {
        for address in local.reachable(address) {
            note(format_args!("listening at {} (HTTP/3)", url(ListenerKind::Tls, &address)));
        }
    }
    if let Some(admin) = &addresses.admin {
        for address in local.reachable(admin) {
            note(format_args!("admin page and metrics at {}", url(ListenerKind::Plain, &address)));
        }
    }
}

/// Warns if other machines can reach the admin page.
fn warn_of_open_admin(admin: Option<&Address>) {
    let is_open = match admin {
        None | Some(Address::Local(_)) => false,
        Some(Address::Every(_)) => true,
        Some(Address::Internet(address)) => !address.ip().to_canonical().is_loopback(),
    };
    if let Some(address) = admin.filter(|_| is_open) {
        warn(&format!(
            "the admin page at `--admin {address}` has no password: all machines that reach this address can read it"
        ));
    }
}

/// Prints a notice from the running server. If `quiet` is set, only warnings are printed.
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

/// Writes a line to standard error, or drops it if this would block for more than a second.
///
/// The calling thread starts the server, reloads archives or waits for signals. Neither this thread nor those that wait for the
/// lock should block just because the reader of our standard error is stuck.
fn note(text: impl Display) {
    // As long as we hold the lock, no other thread can take the room.
    let _lock = io::stderr().lock();
    if stderr_has_room() {
        output::note(text);
    }
}

/// Whether a line can be written to standard error within a second.
///
/// This is assumed to be possible when the kernel cannot tell.
fn stderr_has_room() -> bool {
    let stderr = io::stderr();
    let mut polled = [PollFd::new(&stderr, PollFlags::OUT)];
    let timeout = Timespec { tv_sec: 1, tv_nsec: 0 };
    !matches!(poll(&mut polled, Some(&timeout)), Ok(0))
}

/// Summarizes the main settings on one line.
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

/// Returns the URL for clients on this machine, or the path of a local socket.
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
    format!("{}://{}/", kind.scheme(), SocketAddr::new(ip, address.port()))
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
