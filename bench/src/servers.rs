//! Servers under measurement, parsed from `servers.toml`: the floor, Cannery's variants and the peers.
//!
//! Each starts in a folder of its own on an unused port.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddrV4;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::certificates::Certificate;
use crate::http;
use crate::machine;
use crate::newer_debian;
use crate::process::Server;
use crate::programs;
use crate::project::{self, find_program};
use crate::scenario::{Codings, Wire};
use crate::site::Site;

/// Descriptors that a server needs in addition to those of connections.
const EXTRA_DESCRIPTORS: u64 = 500;

/// Bounds of Apache's threads, one for each busy connection. With fewer than there are connections, Apache closes kept
/// connections as soon as all threads are busy.
const POOL_EXTRA: u32 = 32;
const POOL_MIN: u32 = 64;
const POOL_MAX: u32 = 1100;

/// setpriv's arguments for a peer that refuses to run as root: another user, with the right to read all files, because
/// the sites may be below a folder of root.
const UNPRIVILEGED: &str =
    "--reuid daemon --regid daemon --clear-groups --inh-caps +dac_override --ambient-caps +dac_override";

/// All servers, tools and groups of servers.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Servers {
    groups: BTreeMap<String, Vec<String>>,
    /// Debian packages by program.
    pub(crate) tools: BTreeMap<String, String>,
    server: BTreeMap<String, Kind>,
}

/// A server with its name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spec<'a> {
    pub(crate) name: &'a str,
    kind: &'a Kind,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kind {
    from: Origin,
    #[serde(default)]
    serves: Serves,
    /// The name in tables, if it differs.
    series: Option<String>,
    /// Arguments with placeholders. `cannery-server` gets address, threads and content before them.
    #[serde(default)]
    arguments: Vec<String>,
    /// Further arguments over TLS.
    #[serde(default)]
    tls_arguments: Vec<String>,
    /// The flag that prints the version. Of a program that uses a library, the command that prints the library's.
    #[serde(default = "version")]
    version: String,
    #[serde(default)]
    needs_io_uring: bool,
    #[serde(default)]
    refuses_root: bool,
    #[serde(default = "one")]
    descriptors_per_connection: u64,
    connections_max: Option<u64>,
}

/// The origin of a server's program.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum Origin {
    /// `cannery-server` of the current sources.
    Cannery,
    /// A file in C in the folder of the benchmarks.
    C(String),
    /// Packages of Debian. The program has the server's name.
    Debian(Vec<String>),
    /// The path of the program in the folder of a newer Debian.
    NewerDebian(String),
    /// A program below the root of the project, and the command that builds it there.
    Build { command: String, program: PathBuf },
}

/// The content that a server sends.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Serves {
    /// The scenario's site. Cannery has its archive.
    #[default]
    Site,
    /// The scenario's site. Cannery has its folder.
    Folder,
    /// Responses that another server sent.
    RecordedResponses,
    OwnContent,
}

fn version() -> String {
    "--version".into()
}

fn one() -> u64 {
    1
}

/// The configuration of one start.
pub(crate) struct Launch<'a> {
    pub(crate) site: &'a Site,
    pub(crate) codings: Codings,
    pub(crate) threads: usize,
    /// The number of connections to expect.
    pub(crate) connections: u32,
    /// Whether responses are large enough that nginx profits from sendfile.
    pub(crate) has_large_responses: bool,
    pub(crate) wire: Wire,
    /// Flags of `cannery-server`.
    pub(crate) flags: &'a [String],
}

impl Servers {
    /// Reads `servers.toml`.
    pub(crate) fn load() -> Result<Servers> {
        project::parse("servers.toml")
    }

    /// Returns a server.
    pub(crate) fn get(&self, name: &str) -> Result<Spec<'_>> {
        let (name, kind) = self.server.get_key_value(name).with_context(|| format!("no server `{name}`"))?;
        Ok(Spec { name: kind.series.as_ref().unwrap_or(name), kind })
    }

    /// Returns the servers of a list of names, with groups replaced by their members.
    pub(crate) fn resolve(&self, names: &[String]) -> Result<Vec<Spec<'_>>> {
        let members = |name: &String| self.groups.get(name).cloned().unwrap_or_else(|| vec![name.clone()]);
        names.iter().flat_map(members).map(|name| self.get(&name)).collect()
    }
}

impl Spec<'_> {
    /// Installs or builds the server if it is not present.
    ///
    /// # Errors
    ///
    /// Fails if the server can't be measured on this machine.
    pub(crate) fn install(&self) -> Result<()> {
        if self.kind.needs_io_uring {
            let disabled = fs::read_to_string("/proc/sys/kernel/io_uring_disabled");
            ensure!(disabled.is_ok_and(|disabled| disabled.trim() == "0"), "io_uring is disabled");
        }
        match &self.kind.from {
            Origin::Cannery | Origin::C(_) => Ok(()),
            Origin::Debian(packages) => programs::install_peer(self.name, packages),
            Origin::NewerDebian(program) => newer_debian::install(program),
            Origin::Build { command, .. } => project::run(&mut programs::at_root(command)),
        }
    }

    /// Returns `true` for the lower bound.
    pub(crate) fn is_floor(&self) -> bool {
        self.kind.serves == Serves::RecordedResponses
    }

    /// Returns `true` if the responses depend on the site.
    pub(crate) fn serves_site(&self) -> bool {
        matches!(self.kind.serves, Serves::Site | Serves::Folder)
    }

    /// Returns `true` if the server can hold this many connections and serve this many files on this machine.
    pub(crate) fn can_serve(&self, connections: u32, files: usize) -> bool {
        // A peer with two descriptors per connection also keeps files open, and answers 500 when none are left.
        let per_connection = self.kind.descriptors_per_connection;
        let has_descriptors =
            per_connection == 1 || machine::descriptor_limit() / per_connection >= files as u64;
        !self.is_peer() || (self.connections_limit() >= u64::from(connections) && has_descriptors)
    }

    /// Returns the number of connections that a peer can hold on this machine.
    fn connections_limit(&self) -> u64 {
        let available = machine::descriptor_limit().saturating_sub(EXTRA_DESCRIPTORS);
        (available / self.kind.descriptors_per_connection).min(self.kind.connections_max.unwrap_or(u64::MAX))
    }

    fn is_peer(&self) -> bool {
        matches!(self.kind.from, Origin::Debian(_) | Origin::NewerDebian(_))
    }

    /// Returns program and version.
    pub(crate) fn version(&self) -> Result<String> {
        let version = match self.kind.from {
            Origin::C(_) => machine::version(Command::new("gcc").arg("--version")),
            Origin::Build { .. } => machine::version(&mut programs::at_root(&self.kind.version)),
            _ => machine::version(self.program()?.arg(&self.kind.version)),
        };
        let has_name = !self.is_peer() || version.to_lowercase().contains(self.name);
        Ok(if has_name { version } else { format!("{} {version}", self.name) })
    }

    /// Returns a command that starts the program.
    fn program(&self) -> Result<Command> {
        Ok(Command::new(match &self.kind.from {
            Origin::Cannery => programs::binary("cannery-server")?,
            Origin::C(name) => programs::c_program(name)?,
            Origin::Debian(_) => {
                find_program(self.name).with_context(|| format!("{} is not installed", self.name))?
            }
            Origin::NewerDebian(program) => return newer_debian::command(program),
            Origin::Build { program, .. } => project::root().join(program),
        }))
    }

    /// Starts the server on the given processors.
    pub(crate) fn start(&self, launch: &Launch<'_>, processors: &str) -> Result<Server> {
        let folder = project::empty_folder(&format!("running/{}", self.name))?;
        let address = machine::free_address()?;
        let command = self.command(launch, address, &folder)?;
        let server = Server::start(&command, processors, address, &folder.join("stderr"))?;
        if self.kind.serves == Serves::Folder && launch.codings != Codings::Identity {
            await_coding(address, &launch.site.targets[0])?;
        }
        Ok(server)
    }

    /// Returns the command of a start, after writing the configuration of a peer.
    fn command(&self, launch: &Launch<'_>, address: SocketAddrV4, folder: &Path) -> Result<Command> {
        let placeholders = self.placeholders(launch, address, folder)?;
        let fill = |text: &str| {
            placeholders.iter().fold(text.to_owned(), |text, (name, value)| text.replace(name, value))
        };
        if self.is_peer() {
            fs::write(folder.join("configuration"), fill(&configuration(self.name, "")?))?;
        }

        let mut command = self.program()?;
        if self.kind.refuses_root && rustix::process::geteuid().is_root() {
            let program = command.get_program().to_owned();
            command = Command::new("setpriv");
            command.args(UNPRIVILEGED.split(' ')).arg(program);
        }
        if matches!(self.kind.from, Origin::Cannery) {
            self.add_cannery_arguments(&mut command, launch, address)?;
        }
        command.args(self.kind.arguments.iter().map(|argument| fill(argument)));
        if launch.wire.has_tls() {
            command.args(self.kind.tls_arguments.iter().map(|argument| fill(argument)));
        }
        // Only Caddy reads the folders, and programs in Go the threads.
        command.env("GOMAXPROCS", launch.threads.to_string());
        command.env("XDG_DATA_HOME", folder).env("XDG_CONFIG_HOME", folder);
        Ok(command)
    }

    /// Adds address, threads and content.
    fn add_cannery_arguments(
        &self,
        command: &mut Command,
        launch: &Launch<'_>,
        address: SocketAddrV4,
    ) -> Result<()> {
        let address = address.to_string();
        command.args(["--quiet", "--threads"]).arg(launch.threads.to_string());
        if launch.wire.has_tls() {
            command
                .args(["--bind-tls", &address, "--tls-bundle"])
                .arg(Certificate::for_wire(launch.wire)?.bundle);
        } else {
            command.args(["--bind", &address]);
        }
        if launch.wire == Wire::H3 {
            command.args(["--bind-quic", &address]);
        }
        match self.kind.serves {
            Serves::Site => command.arg("--archive").arg(&launch.site.archive).args(launch.flags),
            Serves::Folder => command.arg("--folder").arg(&launch.site.sources),
            Serves::RecordedResponses | Serves::OwnContent => command,
        };
        Ok(())
    }

    /// Returns the placeholders of arguments and configurations, with their values.
    fn placeholders(
        &self,
        launch: &Launch<'_>,
        address: SocketAddrV4,
        folder: &Path,
    ) -> Result<Vec<(&'static str, String)>> {
        let path = |path: &Path| path.display().to_string();
        let root = match launch.codings {
            Codings::Precompressed => &launch.site.with_siblings,
            Codings::Identity | Codings::Compressing => &launch.site.sources,
        };
        let Certificate { public, private, bundle } = Certificate::for_wire(launch.wire)?;
        let coding = match launch.codings {
            Codings::Compressing if self.is_peer() => configuration(self.name, ".compressing")?,
            Codings::Precompressed if self.is_peer() => configuration(self.name, ".precompressed")?,
            _ => String::new(),
        };
        // The configurations for HTTP/3 are for nothing else.
        let tls = match launch.wire {
            Wire::Tls | Wire::TlsRsa | Wire::H2 if self.is_peer() => configuration(self.name, ".tls")?,
            _ => String::new(),
        };
        let descriptors = machine::descriptor_limit();
        let threads = launch.threads;
        let pool = (launch.connections + POOL_EXTRA).clamp(POOL_MIN, POOL_MAX);

        // `@TLS@` and `@CODING@` come first, because their text has placeholders too.
        Ok(vec![
            ("@TLS@", tls),
            ("@CODING@", coding),
            ("@LISTEN_OPTIONS@", if launch.wire.has_tls() { "ssl http2" } else { "" }.into()),
            ("@SCHEME@", launch.wire.scheme().into()),
            ("@PUBLIC@", path(&public)),
            ("@PRIVATE@", path(&private)),
            ("@BUNDLE@", path(&bundle)),
            ("@CONFIGURATION@", path(&folder.join("configuration"))),
            ("@FOLDER@", path(folder)),
            ("@ROOT@", path(root)),
            ("@FIRST_FILE@", path(&launch.site.file(&launch.site.targets[0]))),
            ("@RESPONSES@", path(&floor_responses()?)),
            ("@ADDRESS@", address.to_string()),
            ("@PORT@", address.port().to_string()),
            ("@THREADS@", threads.to_string()),
            // Processes in addition to the first one, which serves alone if there are none.
            ("@WORKERS@", if threads > 1 { threads } else { 0 }.to_string()),
            ("@SENDFILE@", if launch.has_large_responses { "on" } else { "off" }.into()),
            ("@DESCRIPTORS@", descriptors.to_string()),
            ("@CONNECTIONS@", self.connections_limit().to_string()),
            // The other half is for connections.
            ("@OPEN_FILES@", (descriptors / 2).to_string()),
            ("@POOL@", pool.to_string()),
            ("@POOLS@", (pool as usize * threads).to_string()),
        ])
    }
}

/// Waits until a target is sent compressed.
fn await_coding(address: SocketAddrV4, target: &str) -> Result<()> {
    let request = http::request("1.1", address, target, &["Accept-Encoding: gzip".to_owned()]);
    let started = Instant::now();
    while http::exchange(address, &request)?.header("content-encoding") != Some("gzip") {
        ensure!(started.elapsed() < http::TIMEOUT, "{target} is never compressed");
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Returns the path of the file with the responses that the floor sends.
pub(crate) fn floor_responses() -> Result<PathBuf> {
    project::scratch("running/responses")
}

/// Returns a peer's configuration, or a part of it.
fn configuration(name: &str, part: &str) -> Result<String> {
    let path = project::folder().join(format!("peers/{name}{part}.conf"));
    fs::read_to_string(&path).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenarios;

    #[test]
    fn every_peer_has_all_configurations() {
        let servers = Servers::load().unwrap();
        for name in &servers.groups["peers"] {
            assert!(configuration(name, "").unwrap().contains("@CODING@"), "{name}");
            assert!(configuration(name, ".tls").unwrap().contains("1.3"), "{name}");
            assert!(configuration(name, ".compressing").is_ok(), "{name}");
            assert!(configuration(name, ".precompressed").is_ok(), "{name}");
        }
    }

    #[test]
    fn every_server_of_a_scenario_exists() {
        let servers = Servers::load().unwrap();
        for scenario in Scenarios::load().unwrap().all {
            servers.resolve(&scenario.servers).unwrap();
            servers.get(&scenario.floor_sends).unwrap();
        }
    }
}
