//! A folder that is edited while `cannery serve` serves it: the first response, the cost of following, the time from saving
//! a page until a browser has it, and compressing everything in the background.

mod peers;

use std::fs;
use std::io::{BufReader, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use super::Context;
use crate::contents;
use crate::http::{self, Response};
use crate::latency::Latencies;
use crate::machine;
use crate::metric::{Metric, PERCENTILES};
use crate::process::Server;
use crate::programs;
use crate::project;
use crate::promise::OURS;
use crate::results::{Sample, Samples};
use crate::site;

/// The number of edits, of which one in a hundred decides.
const EDITS: u32 = 200;

/// A file that was modified longer ago than this is recognized by its metadata.
const SETTLED_AFTER: Duration = Duration::from_millis(2500);

/// The window in which the idle server is observed.
const IDLE: Duration = Duration::from_secs(10);

/// Limit for compressing everything at full effort.
const COMPRESSED_WITHIN: Duration = Duration::from_secs(600);

/// Pages in one folder.
const PAGES_PER_FOLDER: u32 = 100;

pub(super) fn run(context: &Context<'_>) -> Result<Samples> {
    let mut samples = Samples::default();
    for step in &context.plan.steps(context.scenario)? {
        let label = context.scenario.label(step);
        if step.connections == 0 {
            // One round: it takes minutes, and varies little.
            samples.record(&label, OURS, compress(context));
            continue;
        }

        let folder = Folder::create(context.connections(step))?;
        for _ in 0..context.plan.rounds {
            samples.record(&label, "cold", cold(&folder));
        }
        for (series, flags) in [("idle", &[][..]), ("polling", &["--poll"])] {
            let server = serve(&folder.root, flags)?;
            server.await_compressed()?;
            samples.record(&label, series, server.idle());
        }
        let server = serve(&folder.root, &[])?;
        server.await_compressed()?;
        let edits = if context.plan.is_quick() { 5 } else { EDITS };
        let mut browser = Browser::open(&server.0)?;
        samples.record(&label, OURS, folder.edit(edits, |target, mark| browser.show(target, mark)));
        drop(server);
        peers::run(&folder, edits, &label, &mut samples)?;
    }
    Ok(samples)
}

/// A folder of pages.
struct Folder {
    root: PathBuf,
    pages: u32,
}

impl Folder {
    fn create(pages: u32) -> Result<Folder> {
        let root = project::scratch("running/folder/site")?;
        if root.exists() {
            fs::remove_dir_all(&root)?;
        }
        let folder = Folder { root, pages };
        // The start page is one of them.
        fs::create_dir_all(&folder.root)?;
        fs::write(folder.root.join("index.html"), page(0, ""))?;
        for number in 1..pages {
            let path = folder.root.join(target(number));
            fs::create_dir_all(path.parent().expect("each page is in a folder"))?;
            fs::write(path, page(number, ""))?;
        }
        sleep(SETTLED_AFTER);
        Ok(folder)
    }

    /// Saves pages, and measures for each how long it takes to `show` its target with a mark.
    fn edit(&self, edits: u32, mut show: impl FnMut(&str, &str) -> Result<()>) -> Result<Sample> {
        let began = Instant::now();
        let mut latencies = Vec::new();
        for edit in 0..edits {
            // Primes spread pages and pauses.
            let number = 1 + edit * 7919 % (self.pages - 1);
            let mark = format!("edit {edit}.");
            let path = self.root.join(target(number));
            let saved = Instant::now();
            if edit % 2 == 0 {
                fs::write(&path, page(number, &mark))?;
            } else {
                let next = path.with_extension("html~");
                fs::write(&next, page(number, &mark))?;
                fs::rename(next, &path)?;
            }
            show(&format!("/{}", target(number)), &mark)?;
            latencies.push((saved - began, saved.elapsed()));
            sleep(Duration::from_millis(u64::from(50 + edit * 37 % 200)));
        }
        let latencies = Latencies::new(latencies);
        Ok(PERCENTILES.into_iter().zip(latencies.percentiles()).collect())
    }
}

fn target(number: u32) -> String {
    format!("{}/{number}.html", number / PAGES_PER_FOLDER)
}

/// Returns a page of two kilobytes.
fn page(number: u32, mark: &str) -> String {
    let text = String::from_utf8_lossy(&contents::letters(1900)).into_owned();
    format!(
        "<!doctype html><html><head><title>{number}</title></head><body>{mark}{text}{number}</body></html>"
    )
}

/// A server that follows a folder.
struct Followed(Server);

fn serve(root: &Path, flags: &[&str]) -> Result<Followed> {
    let address = machine::free_address()?;
    let mut command = Command::new(programs::binary("cannery")?);
    command.arg("serve").arg(root).args(["--quiet", "--bind"]).arg(address.to_string()).args(flags);
    let all = format!("0-{}", machine::processors() - 1);
    Ok(Followed(Server::start(&command, &all, address, &project::scratch("running/folder/stderr")?)?))
}

impl Followed {
    /// Waits until everything is compressed. All contents are at the same moment.
    fn await_compressed(&self) -> Result<()> {
        let headers = ["Accept-Encoding: br".to_owned()];
        let request = http::request("1.1", self.0.address(), "/index.html", &headers);
        loop {
            let response = http::exchange(self.0.address(), &request)?;
            if String::from_utf8_lossy(&response.bytes).contains("Content-Encoding: br") {
                return Ok(());
            }
            ensure!(self.0.age() < COMPRESSED_WITHIN, "it is never compressed");
            sleep(Duration::from_millis(50));
        }
    }

    /// Returns the processor time of an idle server as a share of a processor.
    fn idle(&self) -> Result<Sample> {
        let before = self.0.cpu_time()?;
        let began = Instant::now();
        sleep(IDLE);
        let used = self.0.cpu_time()?.saturating_sub(before);
        let peak = self.0.peak_bytes()? as f64 / 1_048_576.0;
        let share = used.as_secs_f64() / began.elapsed().as_secs_f64();
        Ok(vec![(Metric::Busy, share), (Metric::PeakMib, peak)])
    }
}

/// Measures the first response of a folder that the kernel has in its page cache.
fn cold(folder: &Folder) -> Result<Sample> {
    let server = serve(&folder.root, &[])?.0;
    let request = http::request("1.1", server.address(), &format!("/{}", target(folder.pages - 1)), &[]);
    let response = http::exchange(server.address(), &request)?;
    let milliseconds = server.age().as_secs_f64() * 1e3;
    ensure!(response.status == 200, "status {}", response.status);
    Ok(vec![(Metric::FirstResponseMs, milliseconds)])
}

/// Measures how long the Python documentation is served uncompressed.
fn compress(context: &Context<'_>) -> Result<Sample> {
    let spec = &context.scenarios.sites["documentation"];
    let server = serve(&site::sources("documentation", spec, context.plan.is_quick())?, &[])?;
    server.await_compressed()?;
    let peak = server.0.peak_bytes()? as f64 / 1_048_576.0;
    Ok(vec![(Metric::BuildS, server.0.age().as_secs_f64()), (Metric::PeakMib, peak)])
}

/// A page in a browser that follows the folder.
struct Browser<'a> {
    server: &'a Server,
    stream: BufReader<TcpStream>,
    state: String,
}

impl Browser<'_> {
    fn open(server: &Server) -> Result<Browser<'_>> {
        let stream = BufReader::new(http::connect(server.address())?);
        let mut browser = Browser { server, stream, state: String::new() };
        let script = browser.get("/__/cannery/live.js")?;
        let script = String::from_utf8_lossy(script.content()).into_owned();
        // The only number with a hyphen.
        let words = script.split(|letter: char| !letter.is_ascii_digit() && letter != '-');
        let state = words.into_iter().find(|word| word.len() > 10 && word.contains('-'));
        browser.state = state.context("no state in the script")?.to_owned();
        Ok(browser)
    }

    fn get(&mut self, target: &str) -> Result<Response> {
        let request = http::request("1.1", self.server.address(), target, &[]);
        self.stream.get_mut().write_all(&request)?;
        Response::read(&mut self.stream)
    }

    /// Waits until the script would reload the page, and loads it.
    fn show(&mut self, target: &str, mark: &str) -> Result<()> {
        self.await_reload()?;
        let shown = self.get(target)?;
        ensure!(String::from_utf8_lossy(shown.content()).contains(mark), "a stale page");
        Ok(())
    }

    /// Waits until the script would reload the page.
    fn await_reload(&mut self) -> Result<()> {
        loop {
            let response = self.get(&format!("/__/cannery/live?{}", self.state))?;
            let text = String::from_utf8_lossy(response.content()).into_owned();
            let value = |name: &str| {
                let (_, rest) = text.split_once(&format!("\"{name}\":\""))?;
                rest.split_once('"').map(|(value, _)| value.to_owned())
            };
            self.state = value("state").with_context(|| format!("no state: {text}"))?;
            if value("action").as_deref() == Some("reload") {
                return Ok(());
            }
        }
    }
}
