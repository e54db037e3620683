//! Flags of `cannery-server`, and the configuration they mean.
//!
//! Note that this must not open the archive or a socket, or use the archiver.

mod issuing;

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use cannery_server::Config;
use cannery_server::config::{
    AccessLog, Account, Address, AdminPage, Content, DUMMY_BODY, ExactPages, ForwardedField, HostPattern, Io,
    Loading, LogFormat, LogTarget, NamedArchive, Profiler, ProxySource, ReleaseDirectory, Requirement,
    Responders, SandboxPolicy, SiteDirectory, SpecialPages, Thumbprint, Timeouts, TrustedProxies,
    VirtualHosts,
};
use clap::{Args, CommandFactory, FromArgMatches, Parser, value_parser};

pub use self::issuing::Issuing;
use self::issuing::IssuingFlags;
use super::folder::FolderFlags;
use super::hints;
use super::http3::Http3Flags;
use super::listen::{BindAddress, MissingPort, PortFlags};
use super::signing::TrustFlags;
use super::tls::TlsFlags;
use super::{About, AboutFlags, end_sentences, examples, one_of, unsupported};
use crate::output::Failure;

/// The server listens here if the command line gives no address.
pub const DEFAULT_ADDRESS: &str = "127.0.0.1:8080";

/// How much time passes between two lines of `--report`.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);

/// Limits `--dummy-delay`. A thread may take that long to notice that it should stop.
const DUMMY_DELAY_MAX: Duration = Duration::from_secs(60);

/// We refuse these flags from kawipiko's server by name, and suggest an alternative for each.
const UNSUPPORTED: [(&str, &str); 2] = [
    ("sources-md5", "the sources of this program are not part of it; `--sbom` lists what it is made of"),
    ("sources-cpio", "the sources of this program are not part of it; `--sbom` lists what it is made of"),
];

/// A parsed command line.
#[derive(Debug)]
pub enum Invocation {
    /// Serve.
    Serve(Box<ServerOptions>),
    /// Print information about the program.
    About(About),
}

/// A server to start.
#[derive(Debug)]
pub struct ServerOptions {
    /// Which content to serve, and all other settings.
    pub config: Config,
    /// How many processes serve under a supervisor. `None` means that we serve in this process.
    pub processes: Option<NonZeroUsize>,
    /// Limits open descriptors. Must be set before anything is opened.
    pub descriptors_max: Option<u64>,
    /// Limits memory, in bytes. Must be set before anything is opened.
    pub memory_max: Option<u64>,
    /// We write a CPU profile to this file.
    pub profile_cpu: Option<PathBuf>,
    /// We write a memory profile to this file.
    pub profile_mem: Option<PathBuf>,
    /// This program's file, if we serve the archive in it.
    pub own_archive: Option<PathBuf>,
    /// Which archives are compiled from folders. A separate process does this.
    pub folders: Vec<usize>,
    /// Flags for these builds, written for the archiver.
    pub folder_arguments: Vec<OsString>,
    /// Certificates that another process obtains.
    pub issuing: Option<Issuing>,
    /// The signatures that release directories demand.
    pub(crate) trust: TrustFlags,
    /// We change to this user. Written as on the command line.
    pub user: Option<String>,
    /// Flags that were given, but have no effect.
    pub without_effect: Vec<&'static str>,
    /// A flag that was given and needs a socket for HTTP/3. A service manager may pass one.
    pub http3_flag: Option<&'static str>,
    /// Prints only warnings and errors.
    pub quiet: bool,
    /// Prints how the server is set up, in addition to its addresses.
    pub debug: bool,
}

/// Serves an archive.
#[derive(Debug, Parser)]
#[command(
    name = "cannery-server",
    version,
    override_usage = "cannery-server [OPTIONS] [HOST=]ARCHIVE...",
    disable_help_flag = true,
    disable_version_flag = true,
    max_term_width = 100,
    args_override_self = true,
    args = unsupported(&UNSUPPORTED),
    after_help = examples(
        &[
            "cannery-server site.cdb",
            "cannery-server site.cdb --bind :80 --user www-data",
            "cannery-server site.cdb --certificates example.com,www.example.com --acme-agree",
            "cannery-server example.com=a.cdb '*.example.org=b.cdb' c.cdb --access-log access.log",
            "cannery-server --folder /srv/site --bind :80",
            "cannery-server --releases /srv/site --sites /srv/previews --bind :80",
        ],
        "Exit codes: 0 stopped by a signal, 1 cannot start or serve, 2 wrong usage, 3 bad archive, 4 cannot write, 130 stopped twice.",
    ),
)]
pub struct Flags {
    #[command(flatten, next_help_heading = "Content")]
    content: ContentFlags,
    #[command(flatten)]
    trust: TrustFlags,
    #[command(flatten, next_help_heading = "Listening")]
    listening: ListeningFlags,
    #[command(flatten, next_help_heading = "TLS")]
    tls: TlsFlags,
    #[command(flatten, next_help_heading = "Certificates (`--certificates`)")]
    issuing: IssuingFlags,
    #[command(flatten, next_help_heading = "HTTP/3")]
    http3: Http3Flags,
    #[command(flatten, next_help_heading = "Responses")]
    responses: ResponseFlags,
    #[command(flatten, next_help_heading = "Folders (`--folder`)")]
    compiling: FolderFlags,
    #[command(flatten, next_help_heading = "Logs and metrics")]
    monitoring: MonitoringFlags,
    #[command(flatten, next_help_heading = "Sandbox")]
    sandbox: SandboxFlags,
    #[command(flatten, next_help_heading = "Output")]
    output: OutputFlags,
    #[command(flatten, next_help_heading = "About the program")]
    about: AboutFlags,
    #[command(flatten, next_help_heading = "Compatibility with kawipiko")]
    ignored: IgnoredFlags,
    #[command(flatten, next_help_heading = "Measurements")]
    measurements: MeasurementFlags,
}

#[derive(Debug, Args)]
struct ContentFlags {
    /// The archive to serve, also accepted without the flag. Repeatable, with a host for each: `example.com=a.cdb`,
    /// `*.example.com=b.cdb`. The archive without a host serves all other hosts. Write `./FILE` if the file name
    /// contains `=`.
    #[arg(
        long,
        value_name = "[HOST=]FILE",
        value_parser = parse_named_archive
    )]
    archive: Vec<NamedArchive>,

    /// The same as `--archive`.
    #[arg(value_name = "[HOST=]ARCHIVE", value_parser = parse_named_archive)]
    archives: Vec<NamedArchive>,

    /// Serve the archive that the symbolic link DIR/current points at. Immutable files that it lacks are served from the
    /// other archives of this release directory, so pages that were loaded before a deploy or a rollback still work. Others that
    /// are damaged, or of another format version, are skipped with a warning. Examples: `--releases /srv/releases`,
    /// `--releases 'www.example.com=/srv/www'`. Repeatable, with hosts as for `--archive`.
    #[arg(long, value_name = "[HOST=]DIR", value_parser = parse_named_archive)]
    releases: Vec<NamedArchive>,

    /// Serve immutable files from this many other archives of each release directory: the last one that came, the last one that was
    /// current, and those with the highest serials; with `--sites`, from at most 1,000.
    #[arg(long, value_name = "N", default_value_t = 5, hide_short_help = true)]
    releases_kept: u16,

    /// Serve the sites of a directory, each for the host that it is named by: archives `HOST.cdb`, and release directories
    /// `HOST/` as for `--releases`. Sites may come and go while the server runs, and each is opened at the first request for it.
    /// Hosts that `--archive` and the other flags name exactly come first. Other hosts get the archive without a host, or
    /// 421 if there is none.
    #[arg(long, value_name = "DIR")]
    sites: Option<PathBuf>,

    /// Keep at most this many sites of `--sites` open. The one that was used least recently is closed first.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1000,
        requires = "sites",
        hide_short_help = true,
        value_parser = value_parser!(u16).range(1..=i64::from(SiteDirectory::OPEN_MAX))
    )]
    sites_open: u16,

    /// Serve a folder that need not be compiled: `cannery-archiver`, which must be next to this program, compiles it with its
    /// default flags except for those under "Folders", and again after each change. Contents are served uncompressed until they have been compressed in the
    /// background. Repeatable, with hosts as for `--archive`. Not with `--processes`: one process with `--threads` serves on
    /// all CPUs too.
    #[arg(long, value_name = "[HOST=]DIR", value_parser = parse_named_archive, conflicts_with = "processes")]
    folder: Vec<NamedArchive>,

    /// The content codings of folders, separated by commas: identity, gzip, zopfli, brotli or zstd. The default is that of
    /// `cannery-archiver`: `identity,gzip,brotli`.
    #[arg(long, value_name = "CODINGS", requires = "folder")]
    folder_compress: Option<String>,

    /// Look for new archives and certificates only at SIGHUP, not several times a second. With `--certificates`, certificates are still
    /// looked for twice a second.
    #[arg(long)]
    watch_disable: bool,

    /// Map the archive into memory. Without this flag and `--archive-inmem`, archives of up to 16 MiB are read into memory
    /// and larger ones are mapped.
    #[arg(long)]
    archive_mmap: bool,

    /// Read the archive into the server's own memory, from which large bodies are sent zero-copy.
    #[arg(long, conflicts_with_all = ["archive_mmap", "archive_preload"])]
    archive_inmem: bool,

    /// Map the archive, and read it into the page cache before the first response.
    #[arg(long)]
    archive_preload: bool,
}

/// Flags for measurements of the server itself.
#[derive(Debug, Args)]
struct MeasurementFlags {
    /// Serve no archive, but respond `hello world!` to every request, to measure the highest throughput of the server.
    #[arg(long)]
    dummy: bool,

    /// Like `--dummy`, with an empty body.
    #[arg(long, conflicts_with = "dummy")]
    dummy_empty: bool,

    /// Like `--dummy`, and wait before each response: `500ms`, `2s`. The thread waits, so each of `--threads` responds to
    /// one request after another.
    #[arg(long, value_name = "TIME", value_parser = parse_delay)]
    dummy_delay: Option<Duration>,
}

#[derive(Debug, Args)]
struct ListeningFlags {
    /// Listen here for HTTP without TLS: `IP:PORT`, `[IPV6]:PORT`, `:PORT` for every address, `localhost:PORT` or
    /// `PORT` for this machine alone, or `unix:PATH`. Port 0 is any free port. Repeatable. If no address is given, it
    /// is 127.0.0.1:8080.
    #[arg(long, value_name = "ADDRESS", alias = "listen", value_parser = BindAddress::from_str)]
    bind: Vec<BindAddress>,

    #[command(flatten)]
    port: PortFlags,

    /// Another address, as in kawipiko. `--bind` is repeatable.
    #[arg(long, value_name = "ADDRESS", hide = true)]
    bind_2: Vec<Address>,

    /// The permissions of `unix:` sockets, as for `chmod`: with `660` the owner and the group may connect. Without this
    /// flag, they depend on the umask.
    #[arg(long, value_name = "MODE", value_parser = parse_mode)]
    bind_unix_mode: Option<u32>,

    /// Accept a TCP connection only when its client has sent data, or after a second (`TCP_DEFER_ACCEPT`). This is
    /// cheaper if most connections carry a single request. Linux only.
    #[arg(long)]
    defer_accept: bool,

    /// Expect a PROXY protocol header, version 1 or 2, at the beginning of every connection, and take the client's
    /// address from it. Use it only if no client can bypass the proxy.
    #[arg(long)]
    proxy_protocol: bool,

    /// The number of threads that serve, in each process. The default is the number of CPUs that the server may use,
    /// divided by the number of processes.
    #[arg(long, value_name = "N", value_parser = value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,

    /// Serve with N processes of `--threads` threads each, under a supervisor that restarts those that exit. At
    /// SIGUSR2, it starts the program again and passes the sockets to it (graceful restart). One more process responds
    /// at `--admin` for all of them.
    #[arg(long, value_name = "N", value_parser = value_parser!(u16).range(1..=256))]
    processes: Option<u16>,

    /// The event loop. `auto` chooses epoll, which every Linux has. `io_uring` needs Linux 6.1; it is cheaper for new
    /// connections, and more expensive if thousands are kept open.
    #[arg(
        long,
        value_name = "LOOP",
        value_parser = one_of([("auto", Io::Auto), ("epoll", Io::Epoll), ("io_uring", Io::Uring)])
    )]
    io: Option<Io>,

    /// The time that connections have to finish their responses when the server stops.
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = value_parser!(u64).range(..=86_400))]
    drain: u64,

    /// Never close a connection because its client is slow or idle. Only for measurements.
    #[arg(long)]
    timeout_disable: bool,

    /// The limit of open files and connections of a process. The default is what the system allows.
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(16..))]
    limit_descriptors: Option<u64>,

    /// The limit of concurrent connections, over all threads of a process. Further clients wait until one is closed.
    #[arg(long, value_name = "N")]
    limit_connections: Option<NonZeroUsize>,
}

#[derive(Debug, Args)]
struct ResponseFlags {
    /// Do not serve the built-in pages: `/__/heartbeat`, and `about` and `manual` below `/__/cannery/`. Files of the site
    /// with these names are always served.
    #[arg(long)]
    special_pages_disable: bool,

    /// Also serve `version` and `sbom` below `/__/cannery/`. They disclose the exact versions of the server and of its
    /// libraries.
    #[arg(long, conflicts_with = "special_pages_disable")]
    special_pages_version: bool,

    /// Serve the files in `DIR/.well-known/acme-challenge/` at the same path, as soon as they exist, for every host and
    /// without a redirect to https: for `certbot certonly --webroot --webroot-path DIR` and other ACME clients.
    #[arg(long, value_name = "DIR")]
    acme_webroot: Option<PathBuf>,

    /// Answer the challenges of the ACME account with this thumbprint, for every token and host and without a redirect to https:
    /// for `cannery certificates`, which prints it, and other ACME clients in stateless mode.
    #[arg(long, value_name = "THUMBPRINT", allow_hyphen_values = true)]
    acme_thumbprint: Option<Thumbprint>,

    /// Ignore the `Host` of requests: serve the default site for every host.
    #[arg(long)]
    hosts_disable: bool,

    /// Do not send `Referrer-Policy: strict-origin-when-cross-origin`, `X-Content-Type-Options: nosniff` and
    /// `X-Frame-Options: sameorigin`, which are the default.
    #[arg(long)]
    security_headers_disable: bool,

    /// Add `Strict-Transport-Security: max-age=31536000` and
    /// `Content-Security-Policy: upgrade-insecure-requests` to responses over TLS or, if there is no `--bind-tls`, to all
    /// responses, for a server with a TLS proxy in front.
    #[arg(long)]
    security_headers_tls: bool,
}

#[derive(Debug, Args)]
struct MonitoringFlags {
    /// Append a line for each request to this file, or write it to standard output with `-`. SIGUSR1 reopens the
    /// file.
    #[arg(long, value_name = "FILE", value_parser = parse_log_target)]
    access_log: Option<LogTarget>,

    /// The format of the access log's lines.
    #[arg(
        long,
        value_name = "FORMAT",
        default_value = "combined",
        value_parser = one_of([("combined", LogFormat::Combined), ("json", LogFormat::Json)])
    )]
    access_log_format: LogFormat,

    /// Listen here for operators: a live page at `/`, metrics for Prometheus at `/metrics`, `/health`, `/ready`,
    /// `/facts.json` and `/stats.json`. There is no password, so the address must not be public.
    #[arg(long, value_name = "ADDRESS")]
    admin: Option<Address>,

    /// Accept this name in the `Host` of requests at `--admin`: `cannery`, `*.internal`. IP addresses and `localhost` are
    /// always accepted. Repeatable.
    #[arg(long, value_name = "NAME", value_parser = parse_host, requires = "admin")]
    admin_host: Vec<HostPattern>,

    /// Log the client that this proxy names in `X-Forwarded-For`: an address, a network such as `10.0.0.0/8`, or
    /// `unix` for all local sockets. The client is the rightmost address that is not itself a trusted proxy's.
    /// Repeatable.
    #[arg(long, value_name = "CIDR", requires = "access_log")]
    trusted_proxy: Vec<ProxySource>,

    /// The header in which trusted proxies name their clients. Choose the one that your proxy sets, because it forwards
    /// the other one as its client sent it. The other one is ignored.
    #[arg(
        long,
        value_name = "NAME",
        default_value = "x-forwarded-for",
        value_parser = one_of([
            ("x-forwarded-for", ForwardedField::XForwardedFor),
            ("forwarded", ForwardedField::Forwarded),
        ])
    )]
    trusted_proxy_header: ForwardedField,

    /// When the server stops, write a CPU profile of its whole run to this file, for `go tool pprof`: 99 samples for each
    /// second of CPU time, with the functions of all threads. Not with `--processes`.
    #[arg(long, value_name = "FILE", conflicts_with = "processes")]
    profile_cpu: Option<PathBuf>,

    /// When the server stops, write a memory profile to this file, for `go tool pprof`: the size of each mapping (heap,
    /// stacks, archives, program) in the second in which the server used most memory. Not with `--processes`.
    #[arg(long, value_name = "FILE", conflicts_with = "processes")]
    profile_mem: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct SandboxFlags {
    /// Sandbox the server after it has bound its addresses: it can open files only in the folders of archives,
    /// certificates and logs, and make only the system calls that serving needs. `auto` uses what the kernel has,
    /// `require` refuses to start if anything is missing, `off` is for debuggers and profilers.
    #[arg(
        long,
        value_name = "MODE",
        default_value = "auto",
        value_parser = one_of([("auto", SandboxPolicy::AUTO), ("require", SandboxPolicy::REQUIRED), ("off", SandboxPolicy::OFF)])
    )]
    sandbox: SandboxPolicy,

    /// Refuse to start if system calls cannot be filtered (seccomp).
    #[arg(long)]
    seccomp_enable: bool,

    /// Switch to this user after the addresses are bound, if the server was started as root. Names or numbers.
    #[arg(long, value_name = "USER[:GROUP]")]
    user: Option<String>,

    /// The limit of the server's private memory, in MiB. Mapped archives do not count.
    #[arg(long, value_name = "MIB", value_parser = value_parser!(u64).range(16..=1 << 40))]
    limit_memory: Option<u64>,
}

#[derive(Debug, Args)]
struct OutputFlags {
    /// Print request rate, errors, latency (p99) and open connections every ten seconds.
    #[arg(long)]
    report: bool,

    /// Print only warnings and errors.
    #[arg(long, short, conflicts_with = "report")]
    quiet: bool,

    /// Print how the server is set up: threads, event loop, sandbox.
    #[arg(long, conflicts_with = "quiet")]
    debug: bool,
}

/// Flags of kawipiko's server that built tables in memory.
#[derive(Debug, Args)]
struct IgnoredFlags {
    #[arg(long, help = NO_EFFECT)]
    index_all: bool,
    #[arg(long, help = NO_EFFECT)]
    index_paths: bool,
    #[arg(long, help = NO_EFFECT)]
    index_data_meta: bool,
    #[arg(long, help = NO_EFFECT)]
    index_data_content: bool,
}

const NO_EFFECT: &str = "No effect: the server needs no tables in memory";

/// Returns the clap command.
#[must_use]
pub fn command() -> clap::Command {
    end_sentences(Flags::command())
}

/// Parses the command line. `own` is the file of this program, if it contains an archive.
///
/// # Errors
/// A flag or a value is wrong, or two flags contradict each other.
pub fn parse(
    arguments: impl IntoIterator<Item = OsString>,
    own: Option<PathBuf>,
) -> Result<Invocation, Failure> {
    Flags::from_arg_matches(&super::parse(command(), arguments)?)?.into_invocation(own)
}

impl Flags {
    /// Turns the flags into settings. `own` is this program's file, if it contains an archive. This archive is served unless the flags
    /// name another one for all hosts.
    ///
    /// # Errors
    /// Two flags contradict each other, no archive is named, or a user is unknown.
    pub fn into_invocation(self, own: Option<PathBuf>) -> Result<Invocation, Failure> {
        if let Some(about) = self.about.requested() {
            return Ok(Invocation::About(about));
        }

        let archives = self.content.archive.len() + self.content.archives.len() + self.content.releases.len();
        let is_dummy = self.measurements.dummy_body().is_some();
        let own = own.filter(|_| !is_dummy && self.content.leaves_other_hosts());

        Ok(Invocation::Serve(Box::new(ServerOptions {
            profile_cpu: self.monitoring.profile_cpu.clone(),
            profile_mem: self.monitoring.profile_mem.clone(),
            own_archive: own.clone(),
            folders: (archives..archives + self.content.folder.len()).collect(),
            folder_arguments: self.folder_arguments()?,
            issuing: self.issuing.issuing()?,
            trust: self.checked_trust()?,
            user: self.sandbox.user.clone(),
            processes: self.listening.processes.map(usize::from).and_then(NonZeroUsize::new),
            descriptors_max: self.listening.limit_descriptors,
            memory_max: self.sandbox.limit_memory.map(|mebibytes| mebibytes << 20),
            without_effect: self.ignored.given(),
            http3_flag: self.http3.flag_for_sockets(),
            quiet: self.output.quiet,
            debug: self.output.debug,
            config: self.into_config(own)?,
        })))
    }

    /// Returns the signatures that release directories demand.
    fn checked_trust(&self) -> Result<TrustFlags, Failure> {
        let TrustFlags { public_key, site } = &self.trust;
        if !public_key.is_empty() && self.content.releases.is_empty() {
            return Err(Failure::usage("`--public-key` has no effect without `--releases`")
                .hint("name the directory whose releases are signed: `--releases DIR`"));
        }
        if site.is_some() && self.content.releases.len() > 1 {
            return Err(Failure::usage("`--site` names one site, but there are several release directories")
                .hint("leave it out: the first release of each directory decides which site it belongs to"));
        }
        Ok(self.trust.clone())
    }

    /// Returns the archiver's arguments for folders.
    fn folder_arguments(&self) -> Result<Vec<OsString>, Failure> {
        let mut arguments = self.compiling.arguments();
        if let Some(flag) = arguments.first()
            && self.content.folder.is_empty()
        {
            let flag = flag.to_string_lossy();
            let flag = flag.split('=').next().unwrap_or_default();
            return Err(Failure::usage(format!("`{flag}` has no effect without `--folder`"))
                .hint(format!("an archive is served as it was built: give `{flag}` to `cannery-archiver`")));
        }

        arguments.extend(
            self.content.folder_compress.iter().map(|codings| format!("--compress={codings}").into()),
        );
        Ok(arguments)
    }

    fn into_config(self, own: Option<PathBuf>) -> Result<Config, Failure> {
        let Flags {
            content,
            listening,
            mut tls,
            issuing,
            mut http3,
            responses,
            monitoring,
            sandbox,
            output,
            measurements,
            ..
        } = self;

        let is_profiled = monitoring.profile_cpu.is_some() || monitoring.profile_mem.is_some();
        let threads = thread_count(listening.threads, listening.processes);

        let default_address: Address = DEFAULT_ADDRESS.parse().expect("the default address is valid");
        let default_port = default_address.port().unwrap_or_default();
        let mut listen = listening.port.addresses(&listening.bind, default_port, MissingPort::Refused)?;
        listen.extend(listening.bind_2);
        let issued = issuing.issuing()?.map(|issuing| issuing.served()).unwrap_or_default();
        if !issued.is_empty() && listen.is_empty() && !tls.has_address() && !http3.has_address() {
            // A site with certificates is for browsers, which try these ports.
            listen.push(Address::Every(80));
            tls.listen_by_default();
            http3.listen_by_default();
        }
        if !issued.is_empty() && !tls.has_address() && !http3.has_address() && !is_socket_activated() {
            return Err(Failure::usage("`--certificates` needs an address for TLS").hint(
                "add `--bind-tls :443`; without any address, the server listens on ports 80 and 443 and redirects to https",
            ));
        }
        // We listen on the loopback interface without TLS by default.
        if listen.is_empty() && !tls.has_address() {
            listen.push(default_address);
        }

        let versions = tls.versions();
        let https_redirect = tls.https_redirect();
        let leaves_udp_sockets = http3.is_disabled();
        let early_data = http3.early_data();
        let mut tls = tls.into_tls(issued)?;
        let http3 = http3.into_http3(tls.is_some())?;
        if let Some(tls) = &mut tls {
            tls.http3 = http3;
        }

        let special_pages =
            (!responses.special_pages_disable).then(|| special_pages(responses.special_pages_version));

        let delay = measurements.dummy_delay.unwrap_or_default();
        let site_directory = content.site_directory();
        let content = match measurements.dummy_body() {
            Some(body) => Content::Dummy { body, delay },
            None => content.into_content(own)?,
        };
        let mut config = Config::plain(content);

        config.site_directory = site_directory;
        config.listen = listen;
        config.tls = tls;
        config.versions = versions;
        config.leaves_udp_sockets = leaves_udp_sockets;
        config.https_redirect = https_redirect;
        config.local_mode = listening.bind_unix_mode;
        config.defer_accept = listening.defer_accept;
        config.connections_max = listening.limit_connections;
        config.proxy_protocol = listening.proxy_protocol;
        config.timeouts = (!listening.timeout_disable).then(Timeouts::default);
        config.drain = Duration::from_secs(listening.drain);
        config.threads = threads;
        config.io = listening.io.unwrap_or_default();

        if responses.hosts_disable {
            config.virtual_hosts = VirtualHosts::Ignored;
        }
        config.security_headers.basic = !responses.security_headers_disable;
        config.security_headers.tls = responses.security_headers_tls;
        config.special_pages = special_pages;
        config.acme_webroot = responses.acme_webroot;
        config.acme_thumbprint = responses.acme_thumbprint.into();

        config.admin = monitoring.admin_page();
        config.access_log = monitoring.into_access_log();
        config.report = output.report.then_some(REPORT_INTERVAL);
        config.profiler = is_profiled.then(Profiler::default);
        config.responders = Responders::Server { sandbox: sandbox.level(), early_data };
        config.account = sandbox.account()?;
        Ok(config)
    }
}

impl ContentFlags {
    /// Returns `true` if there's no content for hosts without an archive of their own.
    fn leaves_other_hosts(&self) -> bool {
        let mut named = [&self.archive, &self.archives, &self.releases, &self.folder].into_iter().flatten();
        named.all(|named| named.host.is_some())
    }

    fn site_directory(&self) -> Option<SiteDirectory> {
        let path = self.sites.clone()?;
        Some(SiteDirectory::new(path, self.sites_open, usize::from(self.releases_kept)))
    }

    fn into_content(self, own: Option<PathBuf>) -> Result<Content, Failure> {
        let loading = if self.archive_inmem {
            Loading::InMemory
        } else if self.archive_preload {
            Loading::Preloaded
        } else if self.archive_mmap {
            Loading::Mapped
        } else {
            Loading::Automatic
        };

        let kept = usize::from(self.releases_kept);
        let mut archives = [self.archive, self.archives].concat();
        archives.extend(self.releases.into_iter().map(|named| {
            let directory = ReleaseDirectory::new(named.path().to_owned(), kept);
            NamedArchive::from_directory(named.host, directory)
        }));
        archives.extend(self.folder);
        archives.extend(own.map(|path| NamedArchive::new(None, path)));
        if archives.is_empty() && self.sites.is_none() {
            return Err(hints::no_archive());
        }
        for (position, named) in archives.iter().enumerate() {
            if archives[..position].iter().any(|other| other.host == named.host) {
                return Err(hints::two_archives(named, &archives));
            }
        }
        Ok(Content::Archives { archives, loading, watch: !self.watch_disable })
    }
}

impl MeasurementFlags {
    /// Every response has this body. Returns `None` if there's content to serve.
    fn dummy_body(&self) -> Option<&'static [u8]> {
        let is_dummy = self.dummy || self.dummy_empty || self.dummy_delay.is_some();
        is_dummy.then_some(if self.dummy_empty { b"" } else { DUMMY_BODY })
    }
}

impl MonitoringFlags {
    fn admin_page(&self) -> Option<AdminPage> {
        let mut page = AdminPage::new(self.admin.clone()?);
        page.hosts.clone_from(&self.admin_host);
        Some(page)
    }

    fn into_access_log(self) -> Option<AccessLog> {
        let log = AccessLog::new(self.access_log?, self.access_log_format);
        if self.trusted_proxy.is_empty() {
            return Some(log);
        }
        Some(log.with_proxies(TrustedProxies::new(self.trusted_proxy, self.trusted_proxy_header)))
    }
}

impl SandboxFlags {
    fn level(&self) -> SandboxPolicy {
        let mut sandbox = self.sandbox;
        if self.seccomp_enable {
            sandbox.system_calls = Requirement::Required;
        }
        sandbox
    }

    fn account(&self) -> Result<Option<Account>, Failure> {
        let account = self.user.as_deref().map(Account::find).transpose();
        account.map_err(|error| Failure::usage(format!("`--user`: {error}")))
    }
}

impl IgnoredFlags {
    /// Names the flags that were given.
    fn given(&self) -> Vec<&'static str> {
        let flags = [
            ("index-all", self.index_all),
            ("index-paths", self.index_paths),
            ("index-data-meta", self.index_data_meta),
            ("index-data-content", self.index_data_content),
        ];
        flags.into_iter().filter_map(|(name, is_given)| is_given.then_some(name)).collect()
    }
}

/// Whether a service manager passes sockets, which replace all addresses.
fn is_socket_activated() -> bool {
    std::env::var_os("LISTEN_FDS").is_some()
}

/// Parses a host name, or `*.` and a name that all matching hosts end with.
pub(super) fn parse_host(text: &str) -> Result<HostPattern, String> {
    HostPattern::parse(text).ok_or_else(|| "write a name such as `metrics.internal` or `*.internal`".into())
}

/// Parses a time with a unit, like Go does: `500ms`, `1.5s`.
fn parse_delay(text: &str) -> Result<Duration, String> {
    let units = [("ms", 1e-3), ("us", 1e-6), ("µs", 1e-6), ("s", 1.0)];
    let parsed = units.into_iter().find_map(|(unit, seconds)| {
        let number: f64 = text.strip_suffix(unit)?.parse().ok()?;
        Duration::try_from_secs_f64(number * seconds).ok()
    });
    let delay = parsed.filter(|delay| *delay <= DUMMY_DELAY_MAX);
    delay.ok_or_else(|| "write a number and a unit, such as `500ms` or `2s`, of at most 60 seconds".into())
}

/// Parses permissions from octal digits. There are nine bits, because sockets have no setuid, setgid or sticky bit.
fn parse_mode(text: &str) -> Result<u32, String> {
    let is_octal = text.bytes().all(|digit| matches!(digit, b'0'..=b'7'));
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| is_octal && *mode <= 0o777);
    mode.ok_or_else(|| "write three octal digits, such as `660`".into())
}

/// Parses `HOST=FILE` or `FILE`. If the text before `=` is no host, it belongs to the file name.
#[allow(clippy::unnecessary_wraps, reason = "the signature of a parser of clap")]
fn parse_named_archive(text: &str) -> Result<NamedArchive, String> {
    let named = text.split_once('=').and_then(|(host, path)| Some((HostPattern::parse(host)?, path)));
    Ok(match named {
        Some((host, path)) => NamedArchive::new(Some(host), path.into()),
        None => NamedArchive::new(None, text.into()),
    })
}

/// Parses a path, or `-` for standard output.
#[allow(clippy::unnecessary_wraps, reason = "the signature of a parser of clap")]
fn parse_log_target(text: &str) -> Result<LogTarget, String> {
    Ok(if text == "-" { LogTarget::Stdout } else { LogTarget::File(text.into()) })
}

/// Returns the server's built-in pages. Some state the exact version, and may be left out.
pub(crate) fn special_pages(with_version: bool) -> SpecialPages {
    let exact = || ExactPages {
        version: concat!(env!("CARGO_PKG_VERSION"), "\n").to_owned(),
        sbom: crate::sbom::json(),
    };
    let about = "This server is Cannery: it serves a site that was compiled into one archive, as responses that \
        were prepared in advance.\n";
    let mut pages = SpecialPages::new(about.to_owned(), command().render_long_help().to_string());
    pages.exact = with_version.then(exact);
    pages
}

/// Returns how many threads each process has: `threads`, or else its share of the machine's CPUs.
pub(super) fn thread_count(threads: Option<u16>, processes: Option<u16>) -> NonZeroUsize {
    let named = threads.and_then(|threads| NonZeroUsize::new(threads.into()));
    let cpus_per_process = || {
        let cpus = std::thread::available_parallelism().ok()?;
        NonZeroUsize::new(cpus.get() / processes.map_or(1, usize::from))
    };
    named.or_else(cpus_per_process).unwrap_or(NonZeroUsize::MIN)
}

#[cfg(test)]
mod tests;
