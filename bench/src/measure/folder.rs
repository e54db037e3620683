//! A folder that is edited while `cannery serve` and other servers serve it: the first response, the cost of following, the
//! time from saving a page until a browser has it, and compressing everything in the background.

use std::fs;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::{Context, build};
use crate::contents;
use crate::http::{self, Connection};
use crate::latency::Latencies;
use crate::machine::{self, wait_until};
use crate::metric::{Metric, mebibytes};
use crate::process::Server;
use crate::project;
use crate::promise::OURS;
use crate::results::{Sample, Samples};
use crate::scenario::Step;
use crate::servers::{Launch, Spec};
use crate::site::{self, Site};

/// The number of edits, of which one in a hundred decides.
const EDITS: u32 = 200;

/// A file that was modified longer ago than this is recognized by its metadata.
const SETTLED_AFTER: Duration = Duration::from_millis(2500);

/// live-server misses edits until it watches every file, and doesn't report when that is.
const WATCHED_AFTER: Duration = Duration::from_secs(5);

/// The window in which the idle server is observed.
const IDLE: Duration = Duration::from_secs(10);

/// Limit for compressing everything at full effort.
const COMPRESSED_WITHIN: Duration = Duration::from_secs(600);

/// Pages in one folder.
const PAGES_PER_FOLDER: u32 = 100;

pub(super) fn run(context: &Context<'_>) -> Result<Samples> {
    let cannery = context.servers.get("cannery-serve")?;
    let polling = context.servers.get("cannery-serve-poll")?;
    let mut samples = Samples::default();
    for step in &context.plan.steps(context.scenario)? {
        let label = context.scenario.label(step);
        if step.connections == 0 {
            // One round: it takes minutes, and varies little.
            let spec = &context.scenarios.sites["documentation"];
            let sources = site::sources("documentation", spec, context.plan.is_quick)?;
            samples.record(&label, "archiver", build::measure(&sources, "default"));
            samples.record(&label, OURS, compress(context, &cannery, sources));
            continue;
        }

        let folder = Folder::create(context, context.connections(step))?;
        for _ in 0..context.plan.rounds() {
            samples.record(&label, "cold", folder.cold(&cannery));
        }
        for (series, spec) in [("idle", &cannery), ("polling", &polling)] {
            samples.record(&label, series, folder.idle(spec));
        }
        let edits = if context.plan.is_quick { 5 } else { EDITS };
        for spec in context.present {
            samples.record(&label, spec.name, folder.edit(spec, edits));
        }
    }
    Ok(samples)
}

/// Measures how long the Python documentation at `sources` is served uncompressed.
fn compress(context: &Context<'_>, cannery: &Spec<'_>, sources: PathBuf) -> Result<Sample> {
    let server = start(context, cannery, &Site::from_files(sources, vec!["/index.html".into()]))?;
    await_compressed(&server)?;
    let peak = mebibytes(server.peak_bytes()?);
    Ok(vec![(Metric::BuildS, server.age().as_secs_f64()), (Metric::PeakMib, peak)])
}

/// Starts a server on all processors.
fn start(context: &Context<'_>, spec: &Spec<'_>, site: &Site) -> Result<Server> {
    let processors = machine::processors();
    let step = Step { threads: processors, ..Step::default() };
    let launch = Launch { scenario: context.scenario, step: &step, site, has_large_responses: false };
    spec.start(&launch, &format!("0-{}", processors - 1))
}

/// Waits until everything is compressed. All contents are at the same moment.
fn await_compressed(server: &Server) -> Result<()> {
    http::await_coding(server.address(), "/index.html", "br", COMPRESSED_WITHIN)
}

/// A folder of pages.
struct Folder<'a> {
    context: &'a Context<'a>,
    site: Site,
    pages: u32,
}

impl Folder<'_> {
    fn create<'a>(context: &'a Context<'a>, pages: u32) -> Result<Folder<'a>> {
        // The start page is one of them.
        let targets: Vec<_> = ["/index.html".into()].into_iter().chain((1..pages).map(target)).collect();
        let site = Site::from_files(project::empty_folder("running/site")?, targets);
        for (number, target) in (0..).zip(&site.targets) {
            let path = site.file(target);
            fs::create_dir_all(path.parent().expect("each page is in a folder"))?;
            fs::write(path, page(number, ""))?;
        }
        sleep(SETTLED_AFTER);
        Ok(Folder { context, site, pages })
    }

    /// Measures the first response of a folder that the kernel has in its page cache.
    fn cold(&self, spec: &Spec<'_>) -> Result<Sample> {
        let server = start(self.context, spec, &self.site)?;
        let response = http::get(server.address(), &target(self.pages - 1), &[])?;
        let milliseconds = server.age().as_secs_f64() * 1e3;
        ensure!(response.status == 200, "status {}", response.status);
        Ok(vec![(Metric::FirstResponseMs, milliseconds)])
    }

    /// Measures the processor time of an idle server as a share of a processor.
    fn idle(&self, spec: &Spec<'_>) -> Result<Sample> {
        let server = start(self.context, spec, &self.site)?;
        await_compressed(&server)?;
        let before = server.cpu_time()?;
        let began = Instant::now();
        sleep(IDLE);
        let share = server.cpu_seconds_since(before)? / began.elapsed().as_secs_f64();
        Ok(vec![(Metric::Busy, share), (Metric::PeakMib, mebibytes(server.peak_bytes()?))])
    }

    /// Saves pages, and measures for each how long it takes until a browser shows it.
    fn edit(&self, spec: &Spec<'_>, edits: u32) -> Result<Sample> {
        let server = start(self.context, spec, &self.site)?;
        let mut browser = Browser::open(&server, spec.name)?;

        let began = Instant::now();
        let mut latencies = Vec::new();
        for edit in 0..edits {
            // Primes spread pages and pauses.
            let number = 1 + edit * 7919 % (self.pages - 1);
            // Other servers have edited the same folder.
            let mark = format!("edit {edit} for {}.", spec.name);
            let path = self.site.file(&target(number));

            let saved = Instant::now();
            if edit % 2 == 0 {
                fs::write(&path, page(number, &mark))?;
            } else {
                let next = path.with_extension("html~");
                fs::write(&next, page(number, &mark))?;
                fs::rename(next, &path)?;
            }

            browser.show(&target(number), &mark)?;
            latencies.push((saved - began, saved.elapsed()));
            sleep(Duration::from_millis(u64::from(50 + edit * 37 % 200)));
        }
        Ok(Latencies::new(latencies).sample())
    }
}

fn target(number: u32) -> String {
    format!("/{}/{number}.html", number / PAGES_PER_FOLDER)
}

/// Returns a page of two kilobytes.
fn page(number: u32, mark: &str) -> String {
    let text = String::from_utf8_lossy(&contents::letters(1900)).into_owned();
    format!(
        "<!doctype html><html><head><title>{number}</title></head><body>{mark}{text}{number}</body></html>"
    )
}

/// A page in a browser.
struct Browser<'a> {
    server: &'a Server,
    connection: Connection,
    reload: Reload,
}

/// The reason for which a browser loads a page again.
enum Reload {
    /// A person reloads it.
    Hand,
    /// The server sends a message over a WebSocket.
    Socket,
    /// The server answers a request of Cannery's script, which has the state that the page shows.
    Script { state: String },
}

impl Browser<'_> {
    fn open<'a>(server: &'a Server, name: &str) -> Result<Browser<'a>> {
        // vite listens for a moment to find out whether the port is free.
        let responds = || Ok(http::get(server.address(), "/index.html", &[]).is_ok());
        wait_until(http::TIMEOUT, Duration::from_millis(20), responds).context("it does not respond")?;
        let connection = Connection::open(server.address())?;
        let mut browser = Browser { server, connection, reload: Reload::Hand };
        match name {
            OURS => browser.follow_script()?,
            "live-server" => browser.open_socket()?,
            _ => {}
        }
        Ok(browser)
    }

    /// Follows the folder as the script of `cannery serve` does, once everything is compressed.
    fn follow_script(&mut self) -> Result<()> {
        await_compressed(self.server)?;
        self.request("/__/cannery/live.js", &[])?;
        let script = self.connection.receive()?.text();
        // The only number with a hyphen.
        let mut words = script.split(|letter: char| !letter.is_ascii_digit() && letter != '-');
        let state = words.find(|word| word.len() > 10 && word.contains('-'));
        self.reload = Reload::Script { state: state.context("no state in the script")?.to_owned() };
        self.poll()
    }

    /// Opens a WebSocket as the script of live-server does, and waits until the server has accepted it (RFC 6455 §4.1) and
    /// watches the folder.
    fn open_socket(&mut self) -> Result<()> {
        let headers = [
            "Connection: Upgrade",
            "Upgrade: websocket",
            "Sec-WebSocket-Version: 13",
            "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
        ];
        self.request("/ws", &headers.map(String::from))?;
        self.connection.skip_to(b"connected")?;
        sleep(WATCHED_AFTER);
        self.reload = Reload::Socket;
        Ok(())
    }

    fn request(&mut self, target: &str, headers: &[String]) -> Result<()> {
        self.connection.send(&http::request("1.1", self.server.address(), target, headers))
    }

    /// Sends the request that is answered when the page is to be reloaded, as the script does all the time.
    fn poll(&mut self) -> Result<()> {
        let Reload::Script { state } = &self.reload else { return Ok(()) };
        let target = format!("/__/cannery/live?{state}");
        self.request(&target, &[])
    }

    /// Waits for the reason to reload a page, and loads it with its mark.
    fn show(&mut self, target: &str, mark: &str) -> Result<()> {
        let shows_mark = || Ok(http::get(self.server.address(), target, &[])?.text().contains(mark));
        match &self.reload {
            Reload::Hand => wait_until(http::TIMEOUT, Duration::ZERO, shows_mark).context("a stale page"),
            Reload::Socket => {
                // The message is unmasked in one frame (RFC 6455 §5.1).
                self.connection.skip_to(b"reload")?;
                wait_until(http::TIMEOUT, Duration::ZERO, shows_mark).context("a stale page")
            }
            Reload::Script { .. } => {
                self.await_change()?;
                self.request(target, &[])?;
                ensure!(self.connection.receive()?.text().contains(mark), "a stale page");
                self.poll()
            }
        }
    }

    /// Waits until the script would reload the page.
    fn await_change(&mut self) -> Result<()> {
        loop {
            let response = self.connection.receive()?.text();
            let change: Value = serde_json::from_str(&response)?;
            let state = change["state"].as_str().context(response)?.to_owned();
            self.reload = Reload::Script { state };
            if change["action"] == "reload" {
                return Ok(());
            }
            self.poll()?;
        }
    }
}
