//! The flags of `cannery-server`: archive in, answers out.
//!
//! Never opens the archive or a socket. Knows nothing of the archiver.

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use cannery_server::Config;
use cannery_server::config::{
    AccessLog, Account, Address, Content, DUMMY_BODY, ExactPages, ForwardedField, HostPattern, Io, Listener,
    Loading, LogFormat, LogTarget, NamedArchive, ProxySource, ReleaseDirectory, Sandbox, SecurityHeaders,
    SpecialPages, Timeouts, TrustedProxies, Wanted,
};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

use super::tls;
use super::{
    ABOUT, About, SAYING, absent, all, completions, examples, help, man, refuse_absent, required, sbom,
    sbom_json, sbom_text, switch, threads, value, version, words,
};
use crate::output::Failure;

/// Where the server listens if nothing else is said.
pub const DEFAULT_ADDRESS: &str = "127.0.0.1:8080";

/// How often `--report` tells the figures.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);

/// Flags of kawipiko's server that built tables in memory, or switched off what is not there.
const FLAGS_WITHOUT_EFFECT: [&str; 5] =
    ["index-all", "index-paths", "index-data-meta", "index-data-content", "http3-disable"];

/// Flags of kawipiko's server that are refused by name, with what to do instead.
const ABSENT_FLAGS: [(&str, &str); 7] = [
    ("sources-md5", "the sources of this program are not part of it; `--sbom` lists what it is made of"),
    ("sources-cpio", "the sources of this program are not part of it; `--sbom` lists what it is made of"),
    ("bind-quic", "there is no HTTP/3 yet; `--bind-tls` serves the same clients by HTTP/2"),
    ("http3-alt-svc", "there is no HTTP/3 yet, so there is nothing to advertise"),
    ("dummy-delay", "there is no delay; `--dummy` answers at once"),
    ("profile-cpu", "profile the process from outside: `perf record -p PID`, with `--sandbox off`"),
    ("profile-mem", "profile the process from outside, with `--sandbox off`"),
];

/// What a command line asks for.
#[derive(Debug)]
pub enum Invocation {
    /// To serve.
    Serve(Box<Server>),
    /// Something about the program itself.
    About(About),
}

/// What a server was told.
#[derive(Debug)]
pub struct Server {
    /// What to serve, and how.
    pub config: Config,
    /// How many processes shall serve, with a supervisor; without it, this one serves.
    pub processes: Option<usize>,
    /// The limit of open descriptors to set before anything is opened.
    pub descriptors_max: Option<u64>,
    /// The limit of memory, in bytes, to set likewise.
    pub memory_max: Option<u64>,
    /// Flags that were given, are accepted, and change nothing.
    pub without_effect: Vec<&'static str>,
    /// Nothing but errors.
    pub quiet: bool,
    /// More than where it listens.
    pub debug: bool,
}

/// The command.
#[must_use]
pub fn command() -> Command {
    super::command("cannery-server", "Serves an archive.")
        .override_usage("cannery-server [OPTIONS] [HOST=]ARCHIVE...")
        .disable_help_flag(true)
        .disable_version_flag(true)
        .args(content())
        .args(listening())
        .args(tls::arguments())
        .args(answers())
        .args(observing())
        .args(holding())
        .args(
            [
                switch(
                    "report",
                    "Print request rate, errors, latency (p99) and open connections every ten seconds.",
                ),
                switch("quiet", "Print nothing but warnings and errors.").conflicts_with("report"),
                switch("debug", "Print how the server is set up: threads, event loop, sandbox.")
                    .conflicts_with("quiet"),
            ]
            .map(|argument| argument.help_heading(SAYING)),
        )
        .args([man(), completions(), sbom(), help(), version()].map(|argument| argument.help_heading(ABOUT)))
        .args(FLAGS_WITHOUT_EFFECT.map(|name| {
            let accepted = "Accepted, and without effect: the server needs no table in memory, and has no HTTP/3.";
            switch(name, accepted).help_heading("For command lines that were written for kawipiko")
        }))
        .args([sbom_text(), sbom_json()])
        .args(absent(&ABSENT_FLAGS))
        .after_help(examples(
            &[
                "cannery-server site.cdb",
                "cannery-server site.cdb --bind :80 --user www-data",
                "cannery-server site.cdb --bind :80 --bind-tls :443 --tls-bundle example.com.pem --https-redirect",
                "cannery-server example.com=a.cdb '*.example.org=b.cdb' c.cdb --access-log access.log",
            ],
            "Exit codes: 0 stopped by a signal, 1 cannot start or serve, 2 wrong usage, 3 bad archive.",
        ))
}

fn listening() -> [Arg; 13] {
    let second = |name| {
        let as_in_kawipiko = "One more address. The flag that it is named after is repeatable.";
        value(name, "ADDRESS", as_in_kawipiko)
            .value_parser(value_parser!(Address))
            .action(ArgAction::Append)
            .hide(true)
    };
    [
        bind(),
        second("bind-2"),
        second("bind-tls-2"),
        value(
            "bind-unix-mode",
            "MODE",
            "Permissions of `unix:` sockets, as for `chmod`: with `660` the owner and the group may connect. Without it, \
             the umask decides.",
        )
        .value_parser(read_mode),
        switch(
            "defer-accept",
            "Have the kernel keep a TCP connection back until its client has sent something, for a second at most \
             (`TCP_DEFER_ACCEPT`). Cheaper where most connections ask once and go. Linux only.",
        ),
        switch(
            "proxy-protocol",
            "Expect a PROXY protocol header, version 1 or 2, at the beginning of every connection, and take the client's \
             address from it. Only for a server that nobody but a proxy can reach.",
        ),
        serving_threads(),
        value(
            "processes",
            "N",
            "Serve with N processes of `--threads` threads each, under a supervisor that restarts those that die. At \
             SIGUSR2 it starts the program anew and hands it the sockets. One more process answers at `--admin` for \
             all of them.",
        )
        .value_parser(value_parser!(u16).range(1..=256)),
        value(
            "io",
            "WAY",
            "The event loop. `auto` takes epoll, which every Linux has; `io_uring` needs Linux 6.1, and \
             takes less for new connections, more where thousands are kept.",
        )
        .value_parser(["auto", "epoll", "io_uring"]),
        value("drain", "SECONDS", "How long connections may go on sending after the order to stop.")
            .value_parser(value_parser!(u64).range(..=86_400))
            .default_value("10"),
        switch("timeout-disable", "Never give up on a slow or silent peer. Only for measurements."),
        value("limit-descriptors", "N", "The limit of open files and connections of a process. Without it, as many as the system allows.")
            .value_parser(value_parser!(u64).range(16..)),
        value(
            "limit-connections",
            "N",
            "The most connections at a time, over all threads of a process. Further clients wait until one ends.",
        )
        .value_parser(value_parser!(NonZeroUsize)),
    ]
    .map(|argument| argument.help_heading("Listening"))
}

fn holding() -> [Arg; 4] {
    [
        value(
            "sandbox",
            "HOW",
            "Confine the server once it listens: of all files it reaches only the folders of archives, certificates and \
             logs, of all system calls only those that serving needs. `auto` confines as far as the kernel can, \
             `require` refuses to start where anything is missing, `off` is for debuggers and profilers.",
        )
        .value_parser(["auto", "require", "off"])
        .default_value("auto"),
        switch("seccomp-enable", "Refuse to start where system calls cannot be filtered (seccomp)."),
        value(
            "user",
            "USER[:GROUP]",
            "Become this user once the server listens, if it was started as root. Names or numbers.",
        ),
        value(
            "limit-memory",
            "MIB",
            "The limit of memory of the server's own, in MiB. Mapped archives do not count.",
        )
        .value_parser(value_parser!(u64).range(16..=1 << 40)),
    ]
    .map(|argument| argument.help_heading("Sandbox"))
}

/// How much of a cage there must be.
fn sandbox(matches: &ArgMatches) -> Sandbox {
    let mut sandbox = match matches.get_one::<String>("sandbox").map(String::as_str) {
        Some("require") => Sandbox::REQUIRED,
        Some("off") => Sandbox::OFF,
        _ => Sandbox::AUTO,
    };
    if matches.get_flag("seccomp-enable") {
        sandbox.system_calls = Wanted::Must;
    }
    sandbox
}

/// Whom to be.
fn account(matches: &ArgMatches) -> Result<Option<Account>, Failure> {
    let account = matches.get_one::<String>("user").map(|text| Account::find(text)).transpose();
    account.map_err(|error| Failure::usage(format!("`--user`: {error}")))
}

/// `--bind`, without its default.
pub(super) fn bind() -> Arg {
    value(
        "bind",
        "ADDRESS",
        "Listen here for HTTP without TLS: `IP:PORT`, `[IPV6]:PORT`, `:PORT` for every IPv4 address, `localhost:PORT` or \
         `PORT` for this machine alone, or `unix:PATH`. Port 0 is any free port. Repeatable. If no address is given, it \
         is 127.0.0.1:8080.",
    )
    .action(ArgAction::Append)
    .value_parser(value_parser!(Address))
}

/// `--threads`, as servers understand it.
pub(super) fn serving_threads() -> Arg {
    threads(
        "How many threads serve, in each process. Without it, as many as the CPUs that the server may run on, shared \
         among the processes.",
    )
}

fn content() -> Vec<Arg> {
    let arguments = [
        value(
            "archive",
            "[HOST=]FILE",
            "The archive to serve. Repeatable, with the host that each is for: `example.com=a.cdb`, \
             `*.example.com=b.cdb`. The one without a host serves all other hosts. Write `./FILE` if the file's name \
             contains `=`. Or name it without the flag.",
        )
        .action(ArgAction::Append)
        .value_parser(read_named_archive)
        .required_unless_present_any(["releases", "dummy", "dummy-empty", "archives"]),
        Arg::new("archives")
            .value_name("[HOST=]ARCHIVE")
            .help("The same as `--archive`.")
            .action(ArgAction::Append)
            .num_args(0..)
            .value_parser(read_named_archive),
        value(
            "releases",
            "[HOST=]DIR",
            "Serve the archive that the link DIR/current leads to, and answer immutable files that it lacks from the other \
             archives of this release directory, so that pages loaded before a deploy or a rollback work after it. \
             Repeatable, with hosts like `--archive`.",
        )
        .action(ArgAction::Append)
        .value_parser(read_named_archive),
        value(
            "releases-kept",
            "N",
            "How many of the other archives of each release directory are answered from, the newest first.",
        )
        .value_parser(value_parser!(u16))
        .default_value("5"),
        switch("watch-disable", "Look for new archives and certificates at SIGHUP only, and not twice a second."),
        switch(
            "archive-mmap",
            "Map the archive into memory. Without this flag and the next, archives of up to 16 MiB are read into memory \
             and larger ones are mapped.",
        ),
        switch(
            "archive-inmem",
            "Read the archive into memory of the server's own, from which large bodies are sent without a copy.",
        )
        .conflicts_with_all(["archive-mmap", "archive-preload"]),
        switch("archive-preload", "Map the archive, and bring it into the page cache before the first answer."),
        switch(
            "dummy",
            "Serve no archive, but `hello world!` to every request: the most that the engine can do.",
        ),
        switch("dummy-empty", "The same with an empty body.").conflicts_with("dummy"),
    ];
    arguments.into_iter().map(|argument| argument.help_heading("What is served")).collect()
}

fn observing() -> [Arg; 6] {
    [
        value(
            "access-log",
            "FILE",
            "Append a line for each request to this file, or write it to standard output with `-`. SIGUSR1 reopens the \
             file.",
        ),
        value("access-log-format", "FORMAT", "The format of the access log's lines.")
            .value_parser(words(["combined", "json"]))
            .default_value("combined"),
        value(
            "admin",
            "ADDRESS",
            "Listen here for operators: a live page at `/`, metrics for Prometheus at `/metrics`, `/health`, `/ready`, \
             `/facts.json` and `/stats.json`. There is no password: let no stranger reach it.",
        )
        .value_parser(value_parser!(Address)),
        value(
            "admin-host",
            "NAME",
            "Answer at `--admin` if the request's `Host` is this name, too: `cannery`, `*.internal`. Without it, only IP \
             addresses and `localhost` are accepted. Repeatable.",
        )
        .action(ArgAction::Append)
        .value_parser(read_host)
        .requires("admin"),
        value(
            "trusted-proxy",
            "CIDR",
            "Log the client that this proxy names in `X-Forwarded-For`: an address, a network such as `10.0.0.0/8`, or \
             `unix` for all local sockets. The client is the rightmost address that is not itself a trusted proxy's. \
             Repeatable.",
        )
        .action(ArgAction::Append)
        .value_parser(value_parser!(ProxySource))
        .requires("access-log"),
        value(
            "trusted-proxy-header",
            "NAME",
            "The header in which trusted proxies name their clients. Only this one is read: name the one that your proxy \
             sets, since it passes the other one on as its client sent it.",
        )
        .value_parser(words(["x-forwarded-for", "forwarded"]))
        .default_value("x-forwarded-for"),
    ]
    .map(|argument| argument.help_heading("Logs and figures"))
}

fn answers() -> [Arg; 6] {
    [
        switch(
            "special-pages-disable",
            "Do not serve the server's own pages: `/__/heartbeat`, and `about` and `manual` below `/__/cannery/`. A site's \
             own files of these names are served in any case.",
        ),
        switch(
            "special-pages-version",
            "Serve `version` and `sbom` below `/__/cannery/`, too. They tell everybody the exact version of the server and \
             of its parts.",
        )
        .conflicts_with("special-pages-disable"),
        value(
            "acme-webroot",
            "DIR",
            "Serve the files in `DIR/.well-known/acme-challenge/` at the same path, as soon as they are there, for every \
             host and without a redirect to https: for `certbot certonly --webroot --webroot-path DIR` and other ACME \
             clients.",
        )
        .value_parser(value_parser!(PathBuf)),
        switch("hosts-disable", "Ignore the `Host` of requests: serve the default site to everybody."),
        switch(
            "security-headers-disable",
            "Do not send `Referrer-Policy: strict-origin-when-cross-origin`, `X-Content-Type-Options: nosniff` \
             and `X-Frame-Options: sameorigin`, which are sent otherwise.",
        ),
        switch(
            "security-headers-tls",
            "Add `Strict-Transport-Security: max-age=31536000` and \
             `Content-Security-Policy: upgrade-insecure-requests` to answers over TLS; or, if there is no `--bind-tls`, \
             to all answers, for a server behind a TLS proxy.",
        ),
    ]
    .map(|argument| argument.help_heading("Answers"))
}

/// What the command line asks for.
///
/// # Errors
/// It is wrong.
pub fn read(arguments: impl IntoIterator<Item = OsString>) -> Result<Invocation, Failure> {
    from_matches(&super::read(command(), arguments)?)
}

/// The same from a command line that was read already.
///
/// # Errors
/// A value is wrong.
pub fn from_matches(matches: &ArgMatches) -> Result<Invocation, Failure> {
    if let Some(about) = About::read(matches) {
        return Ok(Invocation::About(about));
    }
    refuse_absent(matches, &ABSENT_FLAGS)?;
    let config = Config {
        listen: addresses(matches),
        listen_tls: [all(matches, "bind-tls"), all(matches, "bind-tls-2")].concat(),
        tls: tls::read(matches)?,
        http1: !matches.get_flag("http1-disable"),
        http2: !matches.get_flag("http2-disable"),
        https_redirect: tls::https_redirect(matches),
        local_mode: matches.get_one("bind-unix-mode").copied(),
        defer_accept: matches.get_flag("defer-accept"),
        inherited: Vec::new(),
        standby: Vec::new(),
        content: read_content(matches)?,
        threads: thread_count(matches),
        connections_max: matches.get_one("limit-connections").copied(),
        proxy_protocol: matches.get_flag("proxy-protocol"),
        hosts: !matches.get_flag("hosts-disable"),
        security_headers: SecurityHeaders {
            basic: !matches.get_flag("security-headers-disable"),
            tls: matches.get_flag("security-headers-tls"),
        },
        keeps_redirects: true,
        timeouts: (!matches.get_flag("timeout-disable")).then(Timeouts::default),
        drain: Duration::from_secs(required(matches, "drain")?),
        special_pages: (!matches.get_flag("special-pages-disable"))
            .then(|| special_pages(matches.get_flag("special-pages-version"))),
        acme_webroot: matches.get_one("acme-webroot").cloned(),
        access_log: matches.get_one::<String>("access-log").map(|target| AccessLog {
            target: if target == "-" { LogTarget::Stdout } else { LogTarget::File(target.into()) },
            format: match matches.get_one::<String>("access-log-format").map(String::as_str) {
                Some("json") => LogFormat::Json,
                _ => LogFormat::Combined,
            },
            proxies: trusted_proxies(matches),
        }),
        admin: matches.get_one("admin").cloned(),
        admin_hosts: all(matches, "admin-host"),
        figures: None,
        report: matches.get_flag("report").then_some(REPORT_INTERVAL),
        sandbox: sandbox(matches),
        account: account(matches)?,
        io: match matches.get_one::<String>("io").map(String::as_str) {
            Some("epoll") => Io::Epoll,
            Some("io_uring") => Io::Uring,
            _ => Io::Auto,
        },
        listener: Listener::nobody(),
    };
    Ok(Invocation::Serve(Box::new(Server {
        processes: matches.get_one::<u16>("processes").map(|processes| usize::from(*processes)),
        config,
        descriptors_max: matches.get_one("limit-descriptors").copied(),
        memory_max: matches.get_one::<u64>("limit-memory").map(|mebibytes| mebibytes << 20),
        without_effect: FLAGS_WITHOUT_EFFECT.into_iter().filter(|name| matches.get_flag(name)).collect(),
        quiet: matches.get_flag("quiet"),
        debug: matches.get_flag("debug"),
    })))
}

/// Where to listen in the clear: somewhere at least, if there is nothing else.
fn addresses(matches: &ArgMatches) -> Vec<Address> {
    let named = [all(matches, "bind"), all(matches, "bind-2")].concat();
    if named.is_empty() && !matches.contains_id("bind-tls") && !matches.contains_id("bind-tls-2") {
        return DEFAULT_ADDRESS.parse().into_iter().collect();
    }
    named
}

/// A configuration that serves `path` as it is served by default, for commands that serve what they made.
pub(super) fn config_of(matches: &ArgMatches, path: PathBuf) -> Config {
    // Without a cage: the threads that compiled the folder are still there, and would be outside.
    Config {
        listen: all(matches, "bind"),
        threads: thread_count(matches),
        ..Config::plain(Content::Archives {
            archives: vec![NamedArchive::new(None, path)],
            loading: Loading::Automatic,
            // Whoever compiles into a temporary file compiles once.
            watch: false,
        })
    }
}

fn read_content(matches: &ArgMatches) -> Result<Content, Failure> {
    if matches.get_flag("dummy") {
        return Ok(Content::Dummy { body: DUMMY_BODY });
    }
    if matches.get_flag("dummy-empty") {
        return Ok(Content::Dummy { body: b"" });
    }
    let is_asked = |flag| matches.get_flag(flag);
    let loading = match (is_asked("archive-inmem"), is_asked("archive-preload"), is_asked("archive-mmap")) {
        (true, ..) => Loading::InMemory,
        (_, true, _) => Loading::Preloaded,
        (_, _, true) => Loading::Mapped,
        _ => Loading::Automatic,
    };
    let mut archives: Vec<NamedArchive> = [all(matches, "archive"), all(matches, "archives")].concat();
    let kept = usize::from(required::<u16>(matches, "releases-kept")?);
    archives.extend(all(matches, "releases").into_iter().map(|NamedArchive { host, path, .. }| {
        NamedArchive::of_directory(host, ReleaseDirectory { path, kept })
    }));
    for (place, named) in archives.iter().enumerate() {
        if archives[..place].iter().any(|before| before.host == named.host) {
            let host = named.host.as_ref().map_or("all other hosts".into(), ToString::to_string);
            return Err(Failure::usage(format!("two archives are named for {host}")));
        }
    }
    Ok(Content::Archives { archives, loading, watch: !matches.get_flag("watch-disable") })
}

/// A host, or all hosts below one.
fn read_host(text: &str) -> Result<HostPattern, String> {
    HostPattern::parse(text).ok_or_else(|| "write a name such as `metrics.internal` or `*.internal`".into())
}

/// Permissions in octal digits: nine bits, since no others mean anything to a socket.
fn read_mode(text: &str) -> Result<u32, String> {
    let is_octal = text.bytes().all(|digit| matches!(digit, b'0'..=b'7'));
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| is_octal && *mode <= 0o777);
    mode.ok_or_else(|| "write three octal digits, such as `660`".into())
}

/// `HOST=FILE`, or a file alone. What is no host before `=` belongs to the name of the file.
#[allow(clippy::unnecessary_wraps, reason = "as clap wants it")]
fn read_named_archive(text: &str) -> Result<NamedArchive, String> {
    let named = text.split_once('=').and_then(|(host, path)| Some((HostPattern::parse(host)?, path)));
    Ok(match named {
        Some((host, path)) => NamedArchive::new(Some(host), path.into()),
        None => NamedArchive::new(None, text.into()),
    })
}

/// Proxies that are believed when they name a client, if there are any.
fn trusted_proxies(matches: &ArgMatches) -> Option<TrustedProxies> {
    let sources: Vec<ProxySource> = all(matches, "trusted-proxy");
    let field = match matches.get_one::<String>("trusted-proxy-header").map(String::as_str) {
        Some("forwarded") => ForwardedField::Forwarded,
        _ => ForwardedField::XForwardedFor,
    };
    (!sources.is_empty()).then_some(TrustedProxies { sources, field })
}

/// The pages that the server has of its own, with or without those that have the exact version.
pub(crate) fn special_pages(with_version: bool) -> SpecialPages {
    let exact = || ExactPages {
        version: concat!(env!("CARGO_PKG_VERSION"), "\n").to_owned(),
        sbom: crate::sbom::spell(),
    };
    SpecialPages {
        about:
            "This server is Cannery: it serves a site that was compiled into one archive, as responses that \
                were prepared before anybody asked.\n"
                .to_owned(),
        manual: command().render_long_help().to_string(),
        exact: with_version.then(exact),
    }
}

fn thread_count(matches: &ArgMatches) -> NonZeroUsize {
    let asked = matches.get_one::<u16>("threads").and_then(|threads| NonZeroUsize::new((*threads).into()));
    let processes =
        matches.try_get_one::<u16>("processes").ok().flatten().map_or(1, |count| usize::from(*count));
    let of_machine = || {
        let threads = std::thread::available_parallelism().ok()?;
        NonZeroUsize::new(threads.get() / processes)
    };
    asked.or_else(of_machine).unwrap_or(NonZeroUsize::MIN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Exit;

    fn server(line: &str) -> Result<Server, Failure> {
        let words = ["cannery-server"].into_iter().chain(line.split_whitespace());
        read(words.map(OsString::from)).map(|told| match told {
            Invocation::Serve(server) => *server,
            other => panic!("{line}: {other:?}"),
        })
    }

    #[test]
    fn an_archive_is_all_that_is_needed() {
        let server = server("--archive site.cdb").unwrap();
        assert_eq!(server.config.listen, [DEFAULT_ADDRESS.parse().unwrap()]);
        assert!(matches!(server.config.content, Content::Archives { loading: Loading::Automatic, .. }));
        assert!(server.config.hosts && server.config.security_headers.basic);
        assert!(!server.config.security_headers.tls && server.config.timeouts.is_some());
    }

    #[test]
    fn addresses_add_up_and_replace_the_default() {
        let server = server("--archive a --bind 127.0.0.1:1 --bind [::1]:2").unwrap();
        let expected: Vec<Address> = ["127.0.0.1:1", "[::1]:2"].map(|text| text.parse().unwrap()).into();
        assert_eq!(server.config.listen, expected);
    }

    #[test]
    fn the_archive_can_be_held_in_three_ways() {
        for (flag, expected) in [
            ("--archive-mmap", Loading::Mapped),
            ("--archive-inmem", Loading::InMemory),
            ("--archive-preload", Loading::Preloaded),
            ("--archive-mmap --archive-preload", Loading::Preloaded),
        ] {
            let Content::Archives { loading, .. } =
                server(&format!("--archive a {flag}")).unwrap().config.content
            else {
                panic!("{flag}: no archive");
            };
            assert_eq!(loading, expected, "{flag}");
        }
    }

    #[test]
    fn archives_for_hosts_stand_beside_the_one_for_all_others() {
        let archives = |line: &str| match server(line).unwrap().config.content {
            Content::Archives { archives, .. } => archives,
            Content::Dummy { .. } => panic!("{line}: no archive"),
        };
        let found = archives("--archive a=b.cdb --archive *.c.d=e.cdb --archive /g/h=i.cdb");
        let shown: Vec<_> = found
            .iter()
            .map(|named| (named.host.as_ref().map(ToString::to_string), named.path.to_str().unwrap()))
            .collect();
        let host = |name: &str| Some(name.to_owned());
        assert_eq!(shown, [(host("a"), "b.cdb"), (host("*.c.d"), "e.cdb"), (None, "/g/h=i.cdb")]);
        assert!(server("--archive a=b --archive A=c").is_err() && server("--archive b --archive c").is_err());
    }

    #[test]
    fn release_directories_stand_beside_archives() {
        let content = server("--archive a=b.cdb --releases c.d=one --releases two --releases-kept 3")
            .unwrap()
            .config
            .content;
        let Content::Archives { archives, .. } = content else { panic!("no archive") };
        let shown: Vec<_> = archives
            .iter()
            .map(|named| {
                (named.path.to_str().unwrap(), named.releases.as_ref().map(|releases| releases.kept))
            })
            .collect();
        assert_eq!(shown, [("b.cdb", None), ("one/current", Some(3)), ("two/current", Some(3))]);
        assert!(server("--archive a --releases b").is_err(), "two for all other hosts");
        assert!(server("--releases a=b --archive a=c").is_err());
    }

    #[test]
    fn an_archive_needs_no_flag() {
        let paths = |line: &str| match server(line).unwrap().config.content {
            Content::Archives { archives, .. } => {
                archives.into_iter().map(|named| named.path.display().to_string()).collect::<Vec<_>>()
            }
            Content::Dummy { .. } => panic!("{line}: no archive"),
        };
        assert_eq!(paths("site.cdb"), ["site.cdb"]);
        assert_eq!(paths("a.example=a.cdb --bind 1 b.cdb"), ["a.cdb", "b.cdb"]);
        assert_eq!(paths("--archive a.cdb b=b.cdb"), ["a.cdb", "b.cdb"]);
    }

    #[test]
    fn second_addresses_are_addresses() {
        let config =
            server("a --bind 1 --bind-2 2 --bind-tls 3 --bind-tls-2 4 --tls-self-ecdsa").unwrap().config;
        assert_eq!((config.listen.len(), config.listen_tls.len()), (2, 2));
    }

    #[test]
    fn old_words_without_meaning_are_accepted_and_named() {
        let server = server("--archive a --index-all --index-data-meta --http3-disable --threads 2").unwrap();
        assert_eq!(server.without_effect, ["index-all", "index-data-meta", "http3-disable"]);
        assert_eq!(server.config.threads.get(), 2);
    }

    #[test]
    fn old_words_that_are_not_supported_are_refused_by_name() {
        for (name, instead) in ABSENT_FLAGS {
            let Err(Failure::Message { exit, message, hint }) = server(&format!("--archive a --{name} 1"))
            else {
                panic!("{name} is not refused in words of ours");
            };
            assert_eq!((exit, hint.as_deref()), (Exit::Usage, Some(instead)));
            assert!(message.contains(name), "{message}");
        }
    }

    #[test]
    fn a_dummy_needs_no_archive() {
        let content = |line| server(line).unwrap().config.content;
        assert!(matches!(content("--dummy"), Content::Dummy { body } if body == DUMMY_BODY));
        assert!(matches!(content("--dummy-empty"), Content::Dummy { body: b"" }));
        assert!(server("").is_err());
    }

    #[test]
    fn wrong_values_are_refused() {
        for line in [
            "--bind localhost",
            "--bind example.com:80",
            "--bind 127.0.0.1",
            "--threads 0",
            "--limit-descriptors 3",
            "--dummy --dummy-empty",
            "--bind-unix-mode 888",
            "--bind-unix-mode 1777",
            "--bind-unix-mode +77",
            "--bind-unix-mode rw",
        ] {
            assert!(server(&format!("--archive a {line}")).is_err(), "{line}");
        }
    }
}
