//! Servers under measurement, parsed from `servers.toml`: the floor, Cannery's variants and the peers.
//!
//! Each starts in a folder of its own on an unused port.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddrV4;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::certificates;
use crate::http;
use crate::machine;
use crate::newer_debian;
use crate::process::Server;
use crate::programs;
use crate::project;
use crate::scenario::{Codings, Scenario, Step, Wire};
use crate::site::Site;

/// Descriptors that a server needs in addition to those of connections.
const EXTRA_DESCRIPTORS: u64 = 500;

/// setpriv's arguments for a peer that refuses to run as root: another user, with the right to read all files, because
/// the sites may be below a folder of root.
const UNPRIVILEGED: &str =
    "--reuid daemon --regid daemon --clear-groups --inh-caps +dac_override --ambient-caps +dac_override";

/// All servers, tools and groups of servers.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Servers {
    groups: BTreeMap<String, Vec<String>>,
    /// Debian packages by program or folder.
    pub(crate) tools: BTreeMap<String, String>,
    server: BTreeMap<String, Kind>,
}

/// A server with its names.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spec<'a> {
    /// The name in `servers.toml`, and of its configuration in `peers/`.
    key: &'a str,
    /// The name in tables.
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
    /// The flag that prints the version. For a program that a command builds, the command that prints the version of its
    /// library or compiler.
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
    /// `cannery` of the current sources.
    Cannery,
    /// `cannery-server` of the current sources.
    CanneryServer,
    /// Packages of Debian. The program has the server's name.
    Debian(Vec<String>),
    /// The path of the program in the folder of a newer Debian.
    NewerDebian(String),
    /// A program below the root of the project, and the command that builds it there.
    Build { command: String, program: PathBuf },
    /// The same for a program that never changes.
    Install { command: String, program: PathBuf },
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
    /// The scenario's site. Its archive is part of Cannery's executable.
    Bundle,
    /// Responses that another server sent.
    RecordedResponses,
    /// Datagrams of the length of the responses over HTTP/3.
    Datagrams,
    OwnContent,
}

fn version() -> String {
    "--version".into()
}

fn one() -> u64 {
    1
}

/// The configuration of one start.
#[derive(Clone, Copy)]
pub(crate) struct Launch<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) step: &'a Step,
    pub(crate) site: &'a Site,
    /// Whether responses are large enough that nginx profits from sendfile.
    pub(crate) has_large_responses: bool,
}

impl Servers {
    pub(crate) fn load() -> Result<Servers> {
        project::parse("servers.toml")
    }

    pub(crate) fn get(&self, name: &str) -> Result<Spec<'_>> {
        let (key, kind) = self.server.get_key_value(name).with_context(|| format!("no server `{name}`"))?;
        Ok(Spec { key, name: kind.series.as_ref().unwrap_or(key), kind })
    }

    /// Returns the servers of a list of names, with groups replaced by their members.
    pub(crate) fn resolve(&self, names: &[String]) -> Result<Vec<Spec<'_>>> {
        let members = |name: &String| self.groups.get(name).cloned().unwrap_or_else(|| vec![name.clone()]);
        names.iter().flat_map(members).map(|name| self.get(&name)).collect()
    }
}

impl Spec<'_> {
    /// Installs or builds the server if it is not present. Fails if it can't be measured on this machine.
    pub(crate) fn install(&self) -> Result<()> {
        if self.kind.needs_io_uring {
            let disabled = fs::read_to_string("/proc/sys/kernel/io_uring_disabled");
            ensure!(disabled.is_ok_and(|disabled| disabled.trim() == "0"), "io_uring is disabled");
        }
        match &self.kind.from {
            Origin::Cannery | Origin::CanneryServer => Ok(()),
            Origin::Debian(packages) => programs::install_peer(self.name, packages),
            Origin::NewerDebian(program) => newer_debian::install(program),
            Origin::Install { program, .. } if project::root().join(program).exists() => Ok(()),
            Origin::Install { command, .. } | Origin::Build { command, .. } => {
                project::run(&mut project::shell(command))
            }
        }
    }

    /// Returns `true` for the lower bound.
    pub(crate) fn is_floor(&self) -> bool {
        self.kind.serves == Serves::RecordedResponses
    }

    /// Returns `true` for the lower bound over UDP, which doesn't speak HTTP.
    pub(crate) fn sends_datagrams(&self) -> bool {
        self.kind.serves == Serves::Datagrams
    }

    /// Returns `true` if the responses depend on the site.
    pub(crate) fn serves_site(&self) -> bool {
        matches!(self.kind.serves, Serves::Site | Serves::Folder | Serves::Bundle)
    }

    /// Returns the size of an executable in bytes beyond those of the server and the archive in it.
    pub(crate) fn extra_bytes(&self, site: &Site) -> Result<Option<u64>> {
        if self.kind.serves != Serves::Bundle {
            return Ok(None);
        }
        let bytes = |path: &Path| Ok::<_, std::io::Error>(fs::metadata(path)?.len());
        let parts = bytes(&programs::cannery("cannery-server"))? + bytes(&site.archive)?;
        let bundle = bytes(&site.bundle()?)?;
        Ok(Some(bundle.checked_sub(parts).context("the bundle is smaller than its parts")?))
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
            Origin::Build { .. } => machine::version(&mut project::shell(&self.kind.version)),
            _ => machine::version(self.program()?.arg(&self.kind.version)),
        };
        let is_ours = matches!(self.kind.from, Origin::Cannery | Origin::CanneryServer);
        let has_name = is_ours || version.to_lowercase().contains(self.name);
        Ok(if has_name { version } else { format!("{} {version}", self.name) })
    }

    /// Returns a command that starts the program.
    fn program(&self) -> Result<Command> {
        Ok(Command::new(match &self.kind.from {
            Origin::Cannery => programs::cannery("cannery"),
            Origin::CanneryServer => programs::cannery("cannery-server"),
            Origin::Debian(_) => {
                programs::find(self.name).with_context(|| format!("{} is not installed", self.name))?
            }
            Origin::NewerDebian(program) => return newer_debian::command(program),
            Origin::Build { program, .. } | Origin::Install { program, .. } => project::root().join(program),
        }))
    }

    /// Starts the server on the given processors.
    pub(crate) fn start(&self, launch: &Launch<'_>, processors: &str) -> Result<Server> {
        let folder = project::empty_folder(&format!("running/{}", self.name))?;
        let address = machine::free_address()?;
        let command = self.command(launch, address, &folder)?;
        let server = Server::start(&command, processors, address, &folder.join("stderr"))?;
        if self.kind.serves == Serves::Folder && launch.scenario.codings != Codings::Identity {
            http::await_coding(address, &launch.site.targets[0], "gzip", http::TIMEOUT)?;
        }
        Ok(server)
    }

    /// Returns the command of a start, after writing the configuration of a peer.
    fn command(&self, launch: &Launch<'_>, address: SocketAddrV4, folder: &Path) -> Result<Command> {
        let Launch { scenario, step, site, .. } = launch;
        let wire = scenario.wire(step);
        let placeholders = self.placeholders(launch, address, folder)?;
        let fill = |text: &str| {
            placeholders.iter().fold(text.to_owned(), |text, (name, value)| text.replace(name, value))
        };
        if self.kind.arguments.iter().any(|argument| argument == "@CONFIGURATION@") {
            let configuration = configuration(self.key, scenario.codings, wire)?;
            fs::write(folder.join("configuration"), fill(&configuration))?;
        }

        let mut command =
            if self.kind.serves == Serves::Bundle { Command::new(site.bundle()?) } else { self.program()? };
        if self.kind.refuses_root && rustix::process::geteuid().is_root() {
            let program = command.get_program().to_owned();
            command = Command::new("setpriv");
            command.args(UNPRIVILEGED.split(' ')).arg(program);
        }
        if matches!(self.kind.from, Origin::CanneryServer) {
            command.args(["--quiet", "--threads"]).arg(step.threads.to_string());
            let bind = if wire.has_tls() { "--bind-tls" } else { "--bind" };
            command.arg(bind).arg(address.to_string());
            if wire.has_tls() {
                command.arg("--tls-bundle").arg(certificates::folder(wire)?.join("bundle.pem"));
            }
            if wire == Wire::H3 {
                command.arg("--bind-quic").arg(address.to_string());
            }
            match self.kind.serves {
                Serves::Site => command.arg("--archive").arg(&site.archive).args(&scenario.flags),
                Serves::Folder => command.arg("--folder").arg(&site.sources),
                Serves::Bundle | Serves::RecordedResponses | Serves::Datagrams | Serves::OwnContent => {
                    &mut command
                }
            };
        }
        command.args(self.kind.arguments.iter().map(|argument| fill(argument)));
        if wire.has_tls() {
            command.args(self.kind.tls_arguments.iter().map(|argument| fill(argument)));
        }
        // Only Caddy reads the folders, and programs in Go the threads. vite ends with its standard input, which is empty,
        // unless it runs in continuous integration.
        command.env("GOMAXPROCS", step.threads.to_string()).env("CI", "true");
        command.env("XDG_DATA_HOME", folder).env("XDG_CONFIG_HOME", folder);
        Ok(command)
    }

    /// Returns the placeholders of arguments and configurations, with their values.
    fn placeholders(
        &self,
        launch: &Launch<'_>,
        address: SocketAddrV4,
        folder: &Path,
    ) -> Result<Vec<(&'static str, String)>> {
        let Launch { scenario, step: Step { threads, connections, .. }, site, .. } = launch;
        let path = |path: &Path| path.display().to_string();
        let root = match scenario.codings {
            Codings::Precompressed => &site.with_siblings,
            Codings::Identity | Codings::Compressing => &site.sources,
        };

        // Other servers don't need the folder, which takes minutes to create.
        let newer_debian = match self.kind.from {
            Origin::NewerDebian(_) => path(&newer_debian::folder()?),
            _ => String::new(),
        };
        let wire = scenario.wire(launch.step);
        let certificate = certificates::folder(wire)?;
        let descriptors = machine::descriptor_limit();
        // Threads of Apache, one for each busy connection. With fewer than there are connections, it closes kept connections
        // as soon as all threads are busy.
        let pool = (connections + 32).clamp(64, 1100);

        Ok(vec![
            ("@LISTEN_OPTIONS@", if wire.has_tls() { "ssl http2" } else { "" }.into()),
            ("@SCHEME@", wire.scheme().into()),
            ("@PUBLIC@", path(&certificate.join("public.pem"))),
            ("@PRIVATE@", path(&certificate.join("private.pem"))),
            ("@BUNDLE@", path(&certificate.join("bundle.pem"))),
            ("@CONFIGURATION@", path(&folder.join("configuration"))),
            ("@FOLDER@", path(folder)),
            ("@NEWER_DEBIAN@", newer_debian),
            ("@ROOT@", path(root)),
            ("@FIRST_FILE@", path(&site.file(&site.targets[0]))),
            ("@RESPONSES@", path(&floor_responses()?)),
            ("@DATAGRAM_BYTES@", datagram_bytes(site).to_string()),
            ("@ADDRESS@", address.to_string()),
            ("@PORT@", address.port().to_string()),
            ("@THREADS@", threads.to_string()),
            // Processes in addition to the first one, which serves alone if there are none.
            ("@WORKERS@", if *threads > 1 { *threads } else { 0 }.to_string()),
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

/// Returns the path of the file with the responses that the floor sends.
pub(crate) fn floor_responses() -> Result<PathBuf> {
    project::scratch("running/responses")
}

/// Returns the length of a response over HTTP/3 to the site's first target: the content, and what a small response has around
/// it.
pub(crate) fn datagram_bytes(site: &Site) -> u64 {
    const AROUND: u64 = 97;
    fs::metadata(site.file(&site.targets[0])).map_or(0, |file| file.len()) + AROUND
}

/// Returns a server's configuration with the parts that it has placeholders for.
fn configuration(key: &str, codings: Codings, wire: Wire) -> Result<String> {
    let read = |part: &str| {
        let path = project::folder().join(format!("peers/{key}{part}.conf"));
        fs::read_to_string(&path).with_context(|| path.display().to_string())
    };
    let coding = match codings {
        Codings::Identity => None,
        Codings::Compressing => Some(".compressing"),
        Codings::Precompressed => Some(".precompressed"),
    };
    let mut text = read("")?;
    for (placeholder, part) in [("@TLS@", wire.has_tls().then_some(".tls")), ("@CODING@", coding)] {
        if text.contains(placeholder) {
            text = text.replace(placeholder, &part.map_or(Ok(String::new()), read)?);
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenarios;

    #[test]
    fn every_peer_has_all_configurations() {
        let servers = Servers::load().unwrap();
        for name in &servers.groups["peers"] {
            for codings in [Codings::Identity, Codings::Compressing, Codings::Precompressed] {
                let text = configuration(name, codings, Wire::Tls).unwrap();
                assert!(text.contains("1.3") && !text.contains("@CODING@"), "{name}: {text}");
            }
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
