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
use crate::programs::{self, Availability};
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
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
enum Kind {
    /// `floor.c`.
    Floor,
    /// `cannery-server` with some flags.
    Cannery {
        #[serde(default = "yes")]
        serves_archive: bool,
        /// The folder of the site instead of its archive.
        #[serde(default)]
        serves_folder: bool,
        #[serde(default)]
        needs_io_uring: bool,
        #[serde(default)]
        flags: Vec<String>,
    },
    /// Another server; its program has the same name.
    Peer(Peer),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Peer {
    #[serde(default)]
    packages: Vec<String>,
    /// The path of the program in the folder of a newer Debian, if it comes from there.
    newer_debian: Option<String>,
    arguments: Vec<String>,
    /// The flag that prints the version.
    version: String,
    #[serde(default)]
    refuses_root: bool,
    #[serde(default = "one")]
    descriptors_per_connection: u64,
    connections_max: Option<u64>,
}

fn yes() -> bool {
    true
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
        Ok(Spec { name, kind })
    }

    /// Returns the servers of a list of names, with groups replaced by their members.
    pub(crate) fn resolve(&self, names: &[String]) -> Result<Vec<Spec<'_>>> {
        let members = |name: &String| self.groups.get(name).cloned().unwrap_or_else(|| vec![name.clone()]);
        names.iter().flat_map(members).map(|name| self.get(&name)).collect()
    }
}

impl Spec<'_> {
    /// Installs the server if it is not present.
    pub(crate) fn install(&self) -> Availability {
        match self.kind {
            Kind::Peer(Peer { newer_debian: Some(program), .. }) => newer_debian::install(program),
            Kind::Peer(peer) => programs::install_peer(self.name, &peer.packages),
            Kind::Cannery { needs_io_uring: true, .. } => {
                let disabled = fs::read_to_string("/proc/sys/kernel/io_uring_disabled");
                let is_enabled = disabled.is_ok_and(|disabled| disabled.trim() == "0");
                if is_enabled { Availability::Present } else { Availability::Missing }
            }
            _ => Availability::Present,
        }
    }

    /// Returns `true` for the lower bound.
    pub(crate) fn is_floor(&self) -> bool {
        matches!(self.kind, Kind::Floor)
    }

    /// Returns `true` if the responses depend on the site.
    pub(crate) fn serves_site(&self) -> bool {
        !matches!(self.kind, Kind::Floor | Kind::Cannery { serves_archive: false, .. })
    }

    /// Returns `true` if the server can hold this many connections and serve this many files on this machine.
    pub(crate) fn can_serve(&self, connections: u32, files: usize) -> bool {
        let Kind::Peer(peer) = self.kind else { return true };
        // A peer with two descriptors per connection also keeps files open, and answers 500 when none are left.
        let keeps_files_open = peer.descriptors_per_connection > 1;
        let files_max = machine::descriptor_limit() / peer.descriptors_per_connection;
        peer.connections_limit() >= u64::from(connections) && (!keeps_files_open || files_max >= files as u64)
    }

    /// Returns program and version.
    pub(crate) fn version(&self) -> Result<String> {
        match self.kind {
            Kind::Floor => Ok(machine::version(Command::new("gcc").arg("--version"))),
            Kind::Cannery { .. } => {
                let program = programs::binary("cannery-server")?;
                Ok(machine::version(Command::new(program).arg("--version")))
            }
            Kind::Peer(peer) => {
                let version = machine::version(self.command(peer)?.arg(&peer.version));
                let has_name = version.to_lowercase().contains(self.name);
                Ok(if has_name { version } else { format!("{} {version}", self.name) })
            }
        }
    }

    /// Returns a command that starts the peer's program.
    fn command(&self, peer: &Peer) -> Result<Command> {
        match &peer.newer_debian {
            Some(program) => newer_debian::command(program),
            None => {
                let program = find_program(self.name);
                Ok(Command::new(program.with_context(|| format!("{} is not installed", self.name))?))
            }
        }
    }

    /// Starts the server on the given processors.
    pub(crate) fn start(&self, launch: &Launch<'_>, processors: &str) -> Result<Server> {
        let folder = project::scratch(&format!("running/{}", self.name))?;
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(&folder)?;

        let address = machine::free_address()?;
        let command = match self.kind {
            Kind::Floor => {
                let mut command = Command::new(programs::c_program("floor")?);
                command.arg(address.port().to_string()).arg("--answers").arg(floor_responses()?);
                command.arg(launch.threads.to_string());
                command
            }
            Kind::Cannery { serves_archive, serves_folder, flags, .. } => {
                let mut command = cannery(launch, address)?;
                if *serves_folder {
                    command.arg("--folder").arg(&launch.site.sources);
                } else if *serves_archive {
                    command.arg("--archive").arg(&launch.site.archive).args(launch.flags);
                }
                let folder = folder.display().to_string();
                command.args(flags.iter().map(|flag| flag.replace("@FOLDER@", &folder)));
                command
            }
            Kind::Peer(peer) => self.peer(peer, launch, address, &folder)?,
        };
        let server = Server::start(&command, processors, address, &folder.join("stderr"))?;
        if matches!(self.kind, Kind::Cannery { serves_folder: true, .. })
            && launch.codings != Codings::Identity
        {
            await_coding(address, &launch.site.targets[0])?;
        }
        Ok(server)
    }

    /// Writes a peer's configuration and returns its command.
    fn peer(
        &self,
        peer: &Peer,
        launch: &Launch<'_>,
        address: SocketAddrV4,
        folder: &Path,
    ) -> Result<Command> {
        let configuration = folder.join("configuration");
        let root = if launch.codings == Codings::Precompressed {
            &launch.site.with_siblings
        } else {
            &launch.site.sources
        };
        let Certificate { public, private, bundle } = Certificate::for_wire(launch.wire)?;
        let coding = match launch.codings {
            Codings::Identity => String::new(),
            Codings::Compressing => read_configuration(self.name, ".compressing")?,
            Codings::Precompressed => read_configuration(self.name, ".precompressed")?,
        };
        // The configurations for HTTP/3 are for nothing else.
        let tls = match launch.wire {
            Wire::Clear | Wire::H3 => String::new(),
            Wire::Tls | Wire::TlsRsa | Wire::H2 => read_configuration(self.name, ".tls")?,
        };
        let descriptors = machine::descriptor_limit();
        let threads = launch.threads.to_string();
        let pool = (launch.connections + POOL_EXTRA).clamp(POOL_MIN, POOL_MAX);

        // `@TLS@` and `@CODING@` come first, because their text has placeholders too.
        let placeholders = [
            ("@TLS@", tls),
            ("@CODING@", coding),
            ("@LISTEN_OPTIONS@", if launch.wire.has_tls() { "ssl http2" } else { "" }.into()),
            ("@SCHEME@", launch.wire.scheme().into()),
            ("@PUBLIC@", public.display().to_string()),
            ("@PRIVATE@", private.display().to_string()),
            ("@BUNDLE@", bundle.display().to_string()),
            ("@CONFIGURATION@", configuration.display().to_string()),
            ("@FOLDER@", folder.display().to_string()),
            ("@ROOT@", root.display().to_string()),
            ("@FIRST_FILE@", launch.site.file(&launch.site.targets[0]).display().to_string()),
            ("@ADDRESS@", address.to_string()),
            ("@PORT@", address.port().to_string()),
            ("@THREADS@", threads.clone()),
            // Processes in addition to the first one, which serves alone if there are none.
            ("@WORKERS@", if launch.threads > 1 { threads.clone() } else { "0".into() }),
            ("@SENDFILE@", if launch.has_large_responses { "on" } else { "off" }.into()),
            ("@DESCRIPTORS@", descriptors.to_string()),
            ("@CONNECTIONS@", peer.connections_limit().to_string()),
            // The other half is for connections.
            ("@OPEN_FILES@", (descriptors / 2).to_string()),
            ("@POOL@", pool.to_string()),
            ("@POOLS@", (pool as usize * launch.threads).to_string()),
        ];
        let fill = |text: &str| {
            placeholders.iter().fold(text.to_owned(), |text, (name, value)| text.replace(name, value))
        };
        fs::write(&configuration, fill(&read_configuration(self.name, "")?))?;

        let mut command = self.command(peer)?;
        if peer.refuses_root && rustix::process::geteuid().is_root() {
            let program = command.get_program().to_owned();
            command = Command::new("setpriv");
            command.args(UNPRIVILEGED.split(' ')).arg(program);
        }
        command.args(peer.arguments.iter().map(|argument| fill(argument)));
        // Only Caddy reads these.
        command.env("GOMAXPROCS", threads).env("XDG_DATA_HOME", folder).env("XDG_CONFIG_HOME", folder);
        Ok(command)
    }
}

/// Waits until a target is sent compressed.
fn await_coding(address: SocketAddrV4, target: &str) -> Result<()> {
    let request = http::request("1.1", address, target, &["Accept-Encoding: gzip".to_owned()]);
    let started = Instant::now();
    loop {
        let response = http::exchange(address, &request)?;
        if String::from_utf8_lossy(&response.bytes).contains("Content-Encoding: gzip") {
            return Ok(());
        }
        ensure!(started.elapsed() < http::TIMEOUT, "{target} is never compressed");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Returns the path of the file with the responses that the floor sends.
pub(crate) fn floor_responses() -> Result<PathBuf> {
    project::scratch("running/responses")
}

/// Returns `cannery-server` with address and threads.
fn cannery(launch: &Launch<'_>, address: SocketAddrV4) -> Result<Command> {
    let mut command = Command::new(programs::binary("cannery-server")?);
    command.args(["--quiet", "--threads"]).arg(launch.threads.to_string());
    if launch.wire.has_tls() {
        command.arg("--bind-tls").arg(address.to_string());
        command.arg("--tls-bundle").arg(Certificate::for_wire(launch.wire)?.bundle);
        if launch.wire == Wire::H3 {
            command.arg("--bind-quic").arg(address.to_string());
        }
    } else {
        command.arg("--bind").arg(address.to_string());
    }
    Ok(command)
}

impl Peer {
    /// Returns the number of connections that the peer can hold on this machine.
    fn connections_limit(&self) -> u64 {
        let available = machine::descriptor_limit().saturating_sub(EXTRA_DESCRIPTORS);
        (available / self.descriptors_per_connection).min(self.connections_max.unwrap_or(u64::MAX))
    }
}

fn read_configuration(name: &str, part: &str) -> Result<String> {
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
            assert!(read_configuration(name, "").unwrap().contains("@CODING@"), "{name}");
            assert!(read_configuration(name, ".tls").unwrap().contains("1.3"), "{name}");
            assert!(read_configuration(name, ".compressing").is_ok(), "{name}");
            assert!(read_configuration(name, ".precompressed").is_ok(), "{name}");
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
