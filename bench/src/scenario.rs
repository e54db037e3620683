//! Scenarios: the site, the load and the servers of each benchmark, parsed from `scenarios.toml`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use serde::{Deserialize, Deserializer};

use crate::metric::Metric;
use crate::project;
use crate::promise::Promise;

/// All scenarios and sites.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scenarios {
    pub(crate) sites: BTreeMap<String, SiteSpec>,
    /// The rows of `docs/benchmarks.md`.
    pub(crate) deciding: Vec<Deciding>,
    /// In the order of the pages of tables.
    #[serde(rename = "scenario")]
    pub(crate) all: Vec<Scenario>,
}

/// A comparison that users decide by.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Deciding {
    /// The workload in words.
    pub(crate) row: String,
    pub(crate) scenario: String,
    pub(crate) step: String,
    /// The other server.
    pub(crate) peer: String,
    #[serde(default = "cpu_us")]
    pub(crate) metric: Metric,
}

/// One benchmark.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scenario {
    /// The name on the command line, in files and in links.
    pub(crate) name: String,
    pub(crate) group: Group,
    /// The measurement; load if absent.
    #[serde(default)]
    pub(crate) measures: Kind,
    pub(crate) title: String,
    /// The purpose of the scenario, in sentences.
    pub(crate) about: String,

    /// The site's name in `sites`; absent only for builds.
    #[serde(default)]
    pub(crate) site: String,
    #[serde(default)]
    pub(crate) codings: Codings,
    /// Flags of `cannery-server` in addition to archive, address and threads.
    #[serde(default)]
    pub(crate) flags: Vec<String>,
    /// Names of servers or groups of servers in `servers.toml`.
    #[serde(default)]
    pub(crate) servers: Vec<String>,
    /// The server that records the responses of the floor.
    #[serde(default = "cannery")]
    pub(crate) floor_sends: String,

    #[serde(default)]
    pub(crate) load: Load,
    #[serde(default)]
    pub(crate) wire: Wire,
    /// Request headers in addition to `Host`, each as `Name: value`.
    #[serde(default)]
    pub(crate) headers: Vec<String>,
    /// Requests carry the validators of an earlier response.
    #[serde(default)]
    pub(crate) conditional: bool,
    /// Responses are weather forecasts, each a different one.
    #[serde(default)]
    pub(crate) forecasts: bool,
    /// Whether page faults, context switches and the like are measured too.
    #[serde(default)]
    pub(crate) resources: bool,
    /// The status of every response.
    #[serde(default = "ok")]
    pub(crate) status: u16,
    /// First and last byte of the requested range.
    pub(crate) range: Option<[usize; 2]>,
    /// Seconds of load in a run, unless the command line has `--seconds`.
    #[serde(default = "three")]
    pub(crate) seconds: u64,

    #[serde(default, deserialize_with = "steps")]
    pub(crate) steps: Vec<Step>,
    #[serde(default)]
    pub(crate) builds: Vec<Build>,
    #[serde(default)]
    pub(crate) promises: Vec<Promise>,
}

/// Scenarios that one name on the command line selects together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Group {
    /// Comparisons without TLS.
    Clear,
    /// Comparisons over TLS.
    Secured,
    /// Comparisons over HTTP/3, in a network of their own.
    Http3,
    /// Comparisons of handlers with those of other libraries.
    Weather,
    /// Comparisons of a site in another program with other libraries.
    Library,
    /// Measurements of Cannery alone.
    Cannery,
}

/// The measurement of a scenario, each a module in `measure`; load is in `compare`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    #[default]
    Load,
    Adverse,
    Build,
    Calls,
    ColdStart,
    Folder,
    HeaderBytes,
    Hostile,
    IdleMemory,
    Observe,
    Reload,
}

/// The load generator of a scenario.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "tool", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Load {
    Wrk {
        #[serde(default)]
        order: Order,
        /// Requests in flight on each connection.
        #[serde(default = "one")]
        pipeline: usize,
    },
    /// HTTP/1.0 from one thread.
    Ab {
        /// Whether connections are reused.
        keep_alive: bool,
    },
    H2load {
        /// Concurrent streams on each connection.
        streams: u32,
        #[serde(default)]
        count: Count,
    },
    /// `loadgen.c`, cheaper than a server.
    Loadgen {
        distribution: Distribution,
        /// The name in tables of the server whose saturated rate is halved: requests arrive at that constant rate. Without
        /// it, every connection sends its next request at once.
        half_of: Option<String>,
    },
    /// A connection and a resumed TLS handshake for each request.
    STime,
}

impl Default for Load {
    fn default() -> Load {
        Load::Wrk { order: Order::Random, pipeline: 1 }
    }
}

/// The order in which wrk requests several targets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Order {
    #[default]
    Random,
    Rotating,
}

/// The length of a run of h2load.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Count {
    /// The duration of the run.
    #[default]
    Duration,
    /// This number of requests over all connections.
    Requests(usize),
    /// This number of connections in each second of the duration, with one request each.
    ConnectionsPerS(u32),
}

/// The distribution of the generator's processes over the server's threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Distribution {
    /// Each process loads as few threads as possible.
    Apart,
    /// Each process loads all threads.
    Across,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Wire {
    /// HTTP/1 without TLS.
    #[default]
    Clear,
    /// HTTP/1 over TLS with a P-256 key.
    Tls,
    /// HTTP/1 over TLS with an RSA-2048 key.
    TlsRsa,
    /// HTTP/2 over TLS with a P-256 key.
    H2,
    /// HTTP/3 with a P-256 key.
    H3,
}

/// The key exchange of a TLS handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(crate) enum KeyExchange {
    X25519,
    /// The hybrid of ML-KEM-768 and X25519 that browsers prefer.
    #[serde(rename = "X25519MLKEM768")]
    X25519Mlkem768,
}

impl KeyExchange {
    /// Returns the name of the group in OpenSSL.
    pub(crate) fn name(self) -> &'static str {
        match self {
            KeyExchange::X25519 => "X25519",
            KeyExchange::X25519Mlkem768 => "X25519MLKEM768",
        }
    }
}

/// Content codings of the peers. Cannery always sends the codings in its archive.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Codings {
    #[default]
    Identity,
    /// Peers compress for every request.
    Compressing,
    /// Peers send siblings that were compressed in advance.
    Precompressed,
}

/// One step of a scenario.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Step {
    pub(crate) name: Option<String>,
    pub(crate) connections: u32,
    pub(crate) threads: usize,
    /// Overrides the wire of the scenario.
    pub(crate) wire: Option<Wire>,
    /// The key exchange that clients offer, with the TLS library of the newer Debian; if absent, X25519 with the system's.
    pub(crate) key_exchange: Option<KeyExchange>,
    // The following describe the two requests of a header measurement.
    pub(crate) targets: Vec<String>,
    pub(crate) headers: Vec<String>,
    pub(crate) conditional: bool,
    /// Overrides the status of the scenario.
    pub(crate) status: Option<u16>,
}

impl Default for Step {
    /// Returns a step with one connection and one serving thread.
    fn default() -> Step {
        Step {
            name: None,
            connections: 1,
            threads: 1,
            wire: None,
            key_exchange: None,
            targets: Vec::new(),
            headers: Vec::new(),
            conditional: false,
            status: None,
        }
    }
}

/// Parses steps, each a table or only a number of connections.
fn steps<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Step>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Connections(u32),
        Table(Step),
    }

    let written = Vec::<Written>::deserialize(deserializer)?.into_iter();
    let steps = written.map(|step| match step {
        Written::Connections(connections) => Step { connections, ..Step::default() },
        Written::Table(step) => step,
    });
    Ok(steps.collect())
}

/// Archives of one site.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Build {
    pub(crate) site: String,
    /// Values of `--compress`, or `default` for none.
    pub(crate) compress: Vec<String>,
    /// Whether a server is started with the archive and timed until its first response.
    #[serde(default)]
    pub(crate) then_start: bool,
}

/// The files of a site.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SiteSpec {
    #[serde(default)]
    pub(crate) files: BTreeMap<String, Content>,
    pub(crate) generated: Option<Generated>,
    /// The requested paths; all files if empty.
    #[serde(default)]
    pub(crate) targets: Vec<String>,
    /// The value of `--compress`; the archiver's default if absent.
    pub(crate) compress: Option<String>,
    /// Whether peers need `NAME.gz` and `NAME.br` next to each file.
    #[serde(default)]
    pub(crate) siblings: bool,
}

/// Sites that a program makes or Debian packages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Generated {
    Documentation,
    Tiles,
}

/// The content of a file. Letters, words and noise are pseudorandom, and the same on every machine.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Content {
    Text(String),
    /// A text that is repeated.
    Repeat(String, usize),
    /// The content of another file.
    Copy(PathBuf),
    /// Their number.
    Letters(usize),
    /// Words with the frequencies of a text: their length in bytes, and a seed.
    Words(usize, u64),
    /// Its length in bytes, and a seed.
    Noise(usize, u64),
}

fn cpu_us() -> Metric {
    Metric::CpuUs
}

fn cannery() -> String {
    "cannery".into()
}

fn ok() -> u16 {
    200
}

fn one() -> usize {
    1
}

fn three() -> u64 {
    3
}

impl Scenarios {
    /// Reads and checks `scenarios.toml`.
    pub(crate) fn load() -> Result<Scenarios> {
        let scenarios: Scenarios = project::parse("scenarios.toml")?;
        for scenario in &scenarios.all {
            scenarios.check(scenario).with_context(|| format!("scenarios.toml: {}", scenario.name))?;
        }
        Ok(scenarios)
    }

    fn check(&self, scenario: &Scenario) -> Result<()> {
        let namesakes = self.all.iter().filter(|other| other.name == scenario.name).count();
        ensure!(namesakes == 1, "another scenario has the same name");

        let sites = scenario.builds.iter().map(|build| &build.site).chain([&scenario.site]);
        for site in sites.filter(|site| !site.is_empty()) {
            ensure!(self.sites.contains_key(site), "there is no site `{site}`");
        }
        ensure!(scenario.measures == Kind::Build || !scenario.steps.is_empty(), "no steps");

        for promise in &scenario.promises {
            let is_measured = scenario.steps.iter().any(|step| scenario.label(step) == promise.step);
            ensure!(is_measured, "`{}` names no step", promise.promise);
        }
        Ok(())
    }
}

impl Scenario {
    pub(crate) fn wire(&self, step: &Step) -> Wire {
        step.wire.unwrap_or(self.wire)
    }

    /// Returns a step's name: its own, or the number that differs between the steps.
    pub(crate) fn label(&self, step: &Step) -> String {
        step.name.clone().unwrap_or_else(|| self.number(step).to_string())
    }

    /// Returns the number that differs between the steps.
    pub(crate) fn number(&self, step: &Step) -> u32 {
        // A machine has fewer than 2^32 processors.
        if self.compares_threads() {
            u32::try_from(step.threads).unwrap_or(u32::MAX)
        } else {
            step.connections
        }
    }

    /// Returns `true` if the steps differ by threads.
    pub(crate) fn compares_threads(&self) -> bool {
        self.steps.iter().any(|step| step.threads > 1)
    }

    /// Returns `true` if the steps differ by key exchange.
    pub(crate) fn compares_key_exchanges(&self) -> bool {
        self.steps.iter().any(|step| step.key_exchange.is_some())
    }

    /// Returns the step of the overview and of quick runs: 64 connections, or the first.
    pub(crate) fn usual_step(&self) -> &Step {
        self.steps.iter().find(|step| step.connections == 64).unwrap_or(&self.steps[0])
    }
}

impl Wire {
    pub(crate) fn scheme(self) -> &'static str {
        if self.has_tls() { "https" } else { "http" }
    }

    pub(crate) fn has_tls(self) -> bool {
        self != Wire::Clear
    }
}
