//! `cannery-server`: starts a server, and says where it listens.
//!
//! Never contains a step of the server, or any code of the archiver.

use std::error::Error;
use std::ffi::OsString;
use std::fmt::Display;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use cannery_server::config::{ListenerKind, NoticeHandler};
use cannery_server::process::inheritance::{
    ADMIN_VARIABLE, LISTENERS_VARIABLE, SEED_VARIABLE, STANDBY_VARIABLE, STATS_VARIABLE,
    TLS_LISTENERS_VARIABLE,
};
use cannery_server::process::notify::{Notify, SOCKET_VARIABLE};
use cannery_server::process::supervisor::{Ended, Supervisor};
use cannery_server::process::takeover::Predecessor;
use cannery_server::{
    Address, Claim, Config, Listener, Listening, Notice, Operators, Server, StartError, end_with_parent,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::open;
use super::reachable::OwnAddresses;
use crate::flags;
use crate::flags::server::{Invocation, ServerOptions};
use crate::format;
use crate::output::{self, Failure, Paint, one_line};
use crate::reference;

/// Runs the program with these words, its name first.
///
/// # Errors
/// The command line is wrong, or the server could not start.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> Result<(), Failure> {
    run_invocation(flags::server::parse(arguments)?)
}

/// Runs what a command line asked for.
///
/// # Errors
/// The server could not start.
pub fn run_invocation(invocation: Invocation) -> Result<(), Failure> {
    match invocation {
        Invocation::Serve(options) => serve(&options),
        Invocation::About(about) => reference::print_about(about, flags::server::command()),
    }
}

fn serve(options: &ServerOptions) -> Result<(), Failure> {
    raise_descriptors(options.descriptors_max)?;
    if let Some(limit) = options.memory_max {
        limit_memory(limit)?;
    }
    let mut config = options.config.clone();
    let quiet = options.quiet;
    config.on_notice = NoticeHandler(Arc::new(move |notice| tell(notice, quiet)));
    config.inherited = inherited()?;
    match (options.processes, process_number()) {
        (Some(processes), None) => return supervise(options, &config, processes),
        (None, _) => {}
        (Some(processes), Some(number)) => {
            // Nobody would stop this process if the supervisor were killed.
            end_with_parent();
            let figures = inherited_by(STATS_VARIABLE)?.unwrap_or_default();
            if number == processes {
                return answer_operators(&config, &figures);
            }
            config.standby = standby()?;
            config.admin = None;
            let seed = inherited_by(SEED_VARIABLE)?.unwrap_or_default();
            config.tls.iter_mut().for_each(|tls| tls.seed = seed.first().copied());
            config.stats_socket = figures.first().copied();
        }
    }
    let notify = notify()?;
    let own = OwnAddresses::find(config.listen.iter().chain(&config.listen_tls));
    let server =
        Server::start(&config).map_err(|error| memory_hint(failure(&error), &error, options.memory_max))?;
    server.handle_signals(notify.clone()).map_err(|error| failure(&error))?;
    let speaks = speaks_for_all();
    if speaks && !options.quiet {
        server.report_sites();
    }
    if !options.quiet && process_number().is_none() {
        say_what_is_not_needed(options);
        say_where(server.addresses(), own);
        server.admin_address().iter().for_each(say_where_operators_ask);
    }
    if speaks && config.tls.is_some() && !config.has_tls() {
        note("there are certificates, and no address where TLS is spoken (`--bind-tls`)");
    }
    let unreachable = server.sandbox_report().unreachable.iter().map(String::as_str);
    for words in server.sandbox_report().missing().chain(unreachable).filter(|_| speaks) {
        warn(words);
    }
    for words in server.sandbox_report().advice().filter(|_| speaks && !options.quiet) {
        note(words);
    }
    if options.debug && speaks {
        note(setting(options));
        note(format_args!("served by {}", server.io()));
        note(server.sandbox_report());
    }
    notify.ready("serving");
    server.wait();
    Ok(())
}

/// Says once which flags change nothing, however many of them there are.
fn say_what_is_not_needed(options: &ServerOptions) {
    if !options.without_effect.is_empty() {
        let flags: Vec<_> = options.without_effect.iter().map(|flag| format!("`--{flag}`")).collect();
        note(format_args!("no effect: {}; a lookup needs no table in memory", flags.join(", ")));
    }
}

fn say_where(addresses: &[(ListenerKind, Address)], own: OwnAddresses) {
    for (kind, address) in addresses {
        for address in own.visible(address) {
            note(format_args!("listening at {}", url(*kind, &address)));
        }
    }
}

fn say_where_operators_ask(address: &Address) {
    let url = url(ListenerKind::Plain, address);
    note(format_args!("admin page and metrics at {url}"));
}

fn notify() -> Result<Notify, Failure> {
    Notify::from_environment().map_err(|error| {
        Failure::failed(format!("cannot tell the service manager ({SOCKET_VARIABLE}): {error}"))
    })
}

/// The life of the process that answers operators for those that serve.
fn answer_operators(config: &Config, asked: &[i32]) -> Result<(), Failure> {
    let notify = notify()?;
    let operators = Operators::start(config, asked).map_err(|error| failure(&error))?;
    operators.handle_signals(notify.clone()).map_err(|error| failure(&error))?;
    notify.ready("answering operators");
    operators.wait();
    Ok(())
}

/// Keeps several processes running.
fn supervise(options: &ServerOptions, config: &Config, processes: usize) -> Result<(), Failure> {
    let unknown = |error| Failure::failed(format!("cannot find this program to start it again: {error}"));
    let (program, successor) = (std::env::current_exe().map_err(unknown)?, name().map_err(unknown)?);
    let predecessor = Predecessor::from_environment();
    let threads = config.threads.get();
    let listening = Listening::open(config, threads * processes).map_err(|error| failure(&error))?;
    let addresses = listening.addresses().to_vec();
    let own = OwnAddresses::find(addresses.iter().map(|(_, address)| address));
    let of_operators = config.admin.as_ref().map(listen_for_operators).transpose()?;
    let (admin_claim, of_operators) = of_operators.unzip();
    let admin_claim = admin_claim.flatten();
    let operators_address = of_operators.as_ref().map(Listener::address).transpose();
    let operators_address = operators_address.map_err(unknown)?;
    let (of_workers, mut claims) = listening.into_parts();
    if predecessor.is_some_and(Predecessor::leaves_listeners) {
        let serving = of_workers.iter().flatten().map(|(_, listener)| listener);
        for listener in serving.chain(&of_operators) {
            claims.extend(listener.claim().map_err(unknown)?);
        }
    }
    claims.extend(admin_claim);
    let mut of_workers = of_workers.into_iter();
    let of_processes =
        (0..processes).map(|_| of_workers.by_ref().take(threads).flatten().collect()).collect();
    let command = |number: usize| {
        let mut command = Command::new(&program);
        command.args(std::env::args_os().skip(1)).env(PROCESS_VARIABLE, number.to_string());
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
        has_tls: config.has_tls(),
        drain: config.drain,
        on_notice: &|notice| tell(notice, options.quiet),
    };
    let ready = || {
        if !options.quiet {
            say_what_is_not_needed(options);
            say_where(&addresses, own);
            operators_address.iter().for_each(say_where_operators_ask);
        }
    };
    let ended = supervisor.run(of_processes, of_operators, ready);
    if matches!(ended, Ok(Ended::Replaced)) || ended.is_err() && predecessor.is_some() {
        claims.into_iter().for_each(Claim::release);
    }
    ended.map(drop).map_err(|error| Failure::failed(error.to_string()))
}

/// The file that this program was started by. A link is not followed: it may have been turned when a new program is
/// to take over, and this file be replaced.
fn name() -> io::Result<PathBuf> {
    let named = std::env::args_os().next().map(PathBuf::from);
    match named.filter(|name| name.components().count() > 1) {
        Some(name) => std::path::absolute(name),
        // Found by the search path: what it has found is all that is known.
        None => std::env::current_exe(),
    }
}

/// The variable that tells a process its number; not there in the first one.
const PROCESS_VARIABLE: &str = "CANNERY_PROCESS";

fn process_number() -> Option<usize> {
    std::env::var(PROCESS_VARIABLE).ok()?.parse().ok()
}

/// What keeps the address of operators, and the socket that listens there: the predecessor's, if there is one.
fn listen_for_operators(address: &Address) -> Result<(Option<Claim>, Listener), Failure> {
    let failed = |source| failure(&StartError::Listen { address: address.clone(), source });
    if let Some([descriptor]) = inherited_by(ADMIN_VARIABLE)?.as_deref() {
        let listener = Listener::inherit(*descriptor).map_err(failed)?;
        return Ok((None, listener));
    }
    let claim = Claim::new(address).map_err(failed)?;
    let listener = claim.listen().map_err(failed)?;
    Ok((Some(claim), listener))
}

/// Whether this process says what holds for all of them, which are set up alike: the first of several, or the only one.
fn speaks_for_all() -> bool {
    process_number().unwrap_or(0) == 0
}

/// The listening sockets that whoever started this process has left open for it: our own supervisor, or a
/// service manager (`sd_listen_fds(3)`).
fn inherited() -> Result<Vec<(ListenerKind, i32)>, Failure> {
    if let Some(numbers) = inherited_by(LISTENERS_VARIABLE)? {
        let secured = inherited_by(TLS_LISTENERS_VARIABLE)?.unwrap_or_default();
        return Ok(numbers.into_iter().map(|number| (kind(secured.contains(&number)), number)).collect());
    }
    let variable = |name| std::env::var(name).ok().and_then(|value| value.parse::<i32>().ok());
    let is_ours = variable("LISTEN_PID").is_some_and(|pid| u32::try_from(pid) == Ok(std::process::id()));
    let count = variable("LISTEN_FDS").filter(|_| is_ours).unwrap_or(0);
    let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
    let names = names.split(':').chain(std::iter::repeat(""));
    // As `FileDescriptorName=` of a socket unit says.
    Ok((3..3 + count).zip(names).map(|(number, name)| (kind(name.starts_with("tls")), number)).collect())
}

/// The listening sockets of other processes that our own supervisor has left open for this one.
fn standby() -> Result<Vec<(usize, ListenerKind, i32)>, Failure> {
    let secured = inherited_by(TLS_LISTENERS_VARIABLE)?.unwrap_or_default();
    let named = std::env::var(STANDBY_VARIABLE).unwrap_or_default();
    let entry = |entry: &str| {
        let (process, number) = entry.split_once(':')?;
        let number = number.parse().ok()?;
        Some((process.parse().ok()?, kind(secured.contains(&number)), number))
    };
    let entries = named.split(',').filter(|text| !text.is_empty()).map(entry).collect::<Option<Vec<_>>>();
    entries.ok_or_else(|| Failure::failed(format!("{STANDBY_VARIABLE} holds no list of listeners")))
}

/// What is spoken on the connections of a listener.
fn kind(secured: bool) -> ListenerKind {
    if secured { ListenerKind::Tls } else { ListenerKind::Plain }
}

/// The descriptors that a variable of our own supervisor names; nothing if it is not there.
fn inherited_by(variable: &str) -> Result<Option<Vec<i32>>, Failure> {
    let Ok(numbers) = std::env::var(variable) else { return Ok(None) };
    let numbers = numbers.split(',').filter(|number| !number.is_empty()).map(str::parse);
    let numbers: Result<Vec<i32>, _> = numbers.collect();
    numbers.map(Some).map_err(|_| Failure::failed(format!("{variable} holds no list of numbers")))
}

/// Prints what happens while the server runs; only what is wrong if it is to be quiet.
fn tell(notice: &Notice, quiet: bool) {
    if notice.is_warning() {
        warn(&notice.to_string());
    } else if !quiet {
        note(one_line(&notice.to_string()));
    }
}

/// Writes a line to standard error, or drops it if there is no room for it within a second.
///
/// The calling thread starts the server, reloads archives or waits for signals, so a reader that does not read must not
/// hold it up, nor the threads that wait for the lock.
fn note(text: impl Display) {
    // No other thread uses the room before this one does.
    let _lock = io::stderr().lock();
    if stderr_has_room() {
        output::note(text);
    }
}

/// Whether a line can be written to standard error without waiting for its reader for more than a second.
fn stderr_has_room() -> bool {
    let stderr = io::stderr();
    let mut asked = [PollFd::new(&stderr, PollFlags::OUT)];
    let second = Timespec { tv_sec: 1, tv_nsec: 0 };
    // What cannot be asked for is tried.
    !matches!(poll(&mut asked, Some(&second)), Ok(0))
}

fn warn(words: &str) {
    note(format_args!("{} {}", Paint::for_errors().error("warning:"), one_line(words)));
}

/// How the server is set up, on one line.
fn setting(options: &ServerOptions) -> String {
    let config = &options.config;
    format!(
        "{}, hosts {}, security headers {}, timeouts {}",
        format::counted(config.threads.get() as u64, "thread"),
        on_or_off(config.hosts),
        on_or_off(config.security_headers.basic),
        on_or_off(config.timeouts.is_some()),
    )
}

const fn on_or_off(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

/// Sets the number of descriptors that may be open; without one, to as many as the system lets us have.
fn raise_descriptors(wanted: Option<u64>) -> Result<(), Failure> {
    let now = getrlimit(Resource::Nofile);
    let Some(limit) = wanted else {
        // Where it cannot be raised, what there is has to do.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: now.maximum, maximum: now.maximum });
        return Ok(());
    };
    let maximum = now.maximum.map(|maximum| maximum.max(limit));
    setrlimit(Resource::Nofile, Rlimit { current: Some(limit), maximum }).map_err(|error| {
        let most =
            now.maximum.map_or("any number".into(), |maximum| format!("at most {}", format::count(maximum)));
        Failure::failed(format!("`--limit-descriptors {limit}`: {}", io::Error::from(error)))
            .hint(format!("this user may open {most} here; see `ulimit -Hn`"))
    })
}

/// Limits the memory that is the process's own: what it writes to, and not the files that it maps, which are
/// the page cache's. A limit of addresses would count those, and say nothing about memory.
fn limit_memory(limit: u64) -> Result<(), Failure> {
    let now = getrlimit(Resource::Data);
    let maximum = Some(now.maximum.map_or(limit, |maximum| maximum.min(limit)));
    setrlimit(Resource::Data, Rlimit { current: maximum, maximum })
        .map_err(|error| Failure::failed(format!("`--limit-memory`: {}", io::Error::from(error))))
}

/// The URL under which whoever is on this machine reaches a server at `address`; of a local socket, the path.
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

/// Why a server did not start, and what to turn.
pub(super) fn failure(error: &StartError) -> Failure {
    match error {
        StartError::Archive { path, source } => open::failure(path, source),
        StartError::Listen { address, source } => {
            listen_hint(Failure::failed(error.to_string()), address, source.kind())
        }
        StartError::NoCertificate => Failure::failed(error.to_string())
            .hint("`--tls-bundle FILE` names one, `--tls-self-ecdsa` makes one for trying out"),
        StartError::AccessLog { .. }
        | StartError::Webroot { .. }
        | StartError::Inherited { .. }
        | StartError::Tls(_)
        | StartError::Seed { .. }
        | StartError::NoOperators
        | StartError::EventLoop(_)
        | StartError::Thread(_)
        | StartError::Sandbox(_)
        | StartError::Uring(_)
        | StartError::Signals(_) => Failure::failed(error.to_string()),
    }
}

/// Names the limit that a server has run into when it ran out of memory at its start.
fn memory_hint(failure: Failure, error: &StartError, memory_max: Option<u64>) -> Failure {
    let Some(limit) = memory_max else { return failure };
    let mut cause = Some(error as &dyn Error);
    let is_lack_of_memory = |error: &io::Error| match error.kind() {
        io::ErrorKind::OutOfMemory => true,
        // A thread for which there is no stack fails like this.
        io::ErrorKind::WouldBlock => true,
        _ => false,
    };
    while let Some(error) = cause.filter(|error| !error.downcast_ref().is_some_and(is_lack_of_memory)) {
        cause = error.source();
    }
    if cause.is_none() {
        return failure;
    }
    let mebibytes = limit >> 20;
    failure.hint(format!(
        "`--limit-memory {mebibytes}` is too small for this: raise it, or map the archive (`--archive-mmap`), which does \
         not count"
    ))
}

/// What to do about an address that cannot be listened at.
pub(super) fn listen_hint(failure: Failure, address: &Address, kind: io::ErrorKind) -> Failure {
    match kind {
        io::ErrorKind::AddrInUse => {
            failure.hint("another program listens there: stop it, or name another address with `--bind`")
        }
        io::ErrorKind::PermissionDenied => match address.port() {
            Some(port) => failure.hint(format!(
                "port {port} needs a privilege (CAP_NET_BIND_SERVICE); ports from 1024 on do not"
            )),
            None => failure.hint("this user may not make a socket in that folder"),
        },
        io::ErrorKind::AddrNotAvailable => failure.hint("this machine does not have that address"),
        io::ErrorKind::Unsupported => failure.hint("leave `--defer-accept` out"),
        _ => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_is_every_address_is_shown_as_one_that_can_be_visited() {
        let shown = |address: &str| url(ListenerKind::Plain, &address.parse().unwrap());
        assert_eq!(shown("127.0.0.1:8080"), "http://127.0.0.1:8080/");
        assert_eq!(shown("0.0.0.0:80"), "http://127.0.0.1:80/");
        assert_eq!(shown("[::]:8080"), "http://[::1]:8080/");
        assert_eq!(shown(":8080"), "http://127.0.0.1:8080/");
        assert_eq!(shown("unix:/run/s"), "unix:/run/s");
    }

    #[test]
    fn an_address_that_cannot_be_had_has_a_hint() {
        let address = "127.0.0.1:80".parse::<Address>().unwrap();
        for kind in [
            io::ErrorKind::AddrInUse,
            io::ErrorKind::PermissionDenied,
            io::ErrorKind::AddrNotAvailable,
            io::ErrorKind::Unsupported,
        ] {
            let failure = failure(&StartError::Listen { address: address.clone(), source: kind.into() });
            assert!(matches!(failure, Failure::Message { hint: Some(_), .. }), "{kind}");
        }
    }
}
