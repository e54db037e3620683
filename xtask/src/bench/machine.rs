//! What a figure depends on besides us: the processor, the kernel, the versions of the tools.
//!
//! It never tells the date or the machine's name: a figure is repeated elsewhere, not there.

use std::fs;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};
use std::process::{Command, Stdio};
use std::thread;

use crate::error::Error;
use crate::project;

/// The processor's model.
fn model() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    model.map_or_else(|| "unknown processor".into(), |(_, model)| model.to_owned())
}

/// How many processors we may run on.
pub(crate) fn processors() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Whether we, and all that we start, come before the machine's other programs: under `chrt --fifo`.
pub(crate) fn is_real_time() -> bool {
    const PLACE_BEHIND_NAME: usize = 38;
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let policy = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(PLACE_BEHIND_NAME));
    matches!(policy, Some("1" | "2"))
}

/// One line: model, processors, kernel.
pub(crate) fn line() -> String {
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{}, {} processors, Linux {}", model(), processors(), kernel.trim())
}

/// The same as part of a file's name.
pub(crate) fn slug() -> String {
    let words = format!("{} {}", model(), processors()).to_lowercase();
    let parts: Vec<_> =
        words.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|part| !part.is_empty()).collect();
    parts.join("-")
}

/// The first line that a program prints about itself. Some end with a failure after it, which is fine.
pub(crate) fn version(program: &str, flag: &str) -> String {
    let output = Command::new(program).arg(flag).stdin(Stdio::null()).output();
    let text = output.map(|output| [output.stdout, output.stderr].concat()).unwrap_or_default();
    String::from_utf8_lossy(&text).lines().next().unwrap_or("version unknown").to_owned()
}

/// An address on which nobody listens.
///
/// A fixed port would be a trap: where both share it (SO_REUSEPORT), a second server starts silently
/// beside a forgotten one and gets half of the load.
pub(crate) fn free_address() -> Result<SocketAddrV4, Error> {
    let localhost = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0);
    let no_port = |source| Error::file(localhost.to_string(), source);
    let listener = TcpListener::bind(localhost).map_err(no_port)?;
    let port = listener.local_addr().map_err(no_port)?.port();
    Ok(SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))
}

/// Puts the calling thread on some processors.
pub(crate) fn pin(processors: &str) -> Result<(), Error> {
    let path = "/proc/thread-self";
    let link = fs::read_link(path).map_err(|source| Error::file(path, source))?;
    let thread = link.file_name().unwrap_or_default();
    let mut command = Command::new("taskset");
    command.args(["--cpu-list", "--pid", processors]).arg(thread).stdout(Stdio::null());
    project::run(&mut command)
}

/// Lets this process have a descriptor for each of ten thousand connections.
pub(crate) fn allow_descriptors() -> Result<(), Error> {
    limit_descriptors("16384:")
}

/// Lets this process, and all that it starts, have as many descriptors as the largest scenario wants, or as many as
/// the machine allows. To raise what is allowed at most needs root and its rights. Returns how many there are.
pub(crate) fn allow_descriptors_for_all() -> Result<u64, Error> {
    /// A connection each of 16,384, and for a server that keeps its files open one each of 250,000.
    const WANTED: u64 = 300_000;
    let (_, most) = descriptors()?;
    if most < WANTED && limit_descriptors(&format!("{WANTED}:{WANTED}")).is_ok() {
        return Ok(WANTED);
    }
    let allowed = WANTED.min(most);
    limit_descriptors(&format!("{allowed}:")).map(|()| allowed)
}

/// How many descriptors a process may have now, and how many it may allow itself.
pub(crate) fn descriptors() -> Result<(u64, u64), Error> {
    let path = "/proc/self/limits";
    let text = fs::read_to_string(path).map_err(|source| Error::file(path, source))?;
    let line = text.lines().find_map(|line| line.strip_prefix("Max open files"));
    let mut numbers = line.unwrap_or_default().split_whitespace().map_while(|word| word.parse().ok());
    numbers.next().zip(numbers.next()).ok_or_else(|| Error::Unexpected {
        what: path.into(),
        expected: "two limits of open files".into(),
        got: line.unwrap_or("no such line").into(),
    })
}

fn limit_descriptors(limits: &str) -> Result<(), Error> {
    let mut command = Command::new("prlimit");
    command.arg(format!("--nofile={limits}")).arg("--pid").arg(std::process::id().to_string());
    command.stderr(Stdio::null());
    project::run(&mut command)
}

/// Which processors servers and generators run on, as words for taskset: never the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Placement {
    pub(crate) server: String,
    pub(crate) generator: String,
}

/// The first processors for the threads of a server, and the last two for the generator, or the last one if there
/// are no more. Nothing if there is none left.
pub(crate) fn placement(available: usize, threads: usize) -> Option<Placement> {
    let generators = available.checked_sub(threads).filter(|left| *left > 0)?.min(2);
    let list =
        |from: usize, to: usize| (from..to).map(|number| number.to_string()).collect::<Vec<_>>().join(",");
    Some(Placement { server: list(0, threads), generator: list(available - generators, available) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_never_shares_a_processor_with_its_generator() {
        let words = |available, threads| {
            placement(available, threads).map(|placement| (placement.server, placement.generator))
        };
        let owned = |server: &str, generator: &str| Some((server.to_owned(), generator.to_owned()));
        assert_eq!(words(4, 1), owned("0", "2,3"));
        assert_eq!(words(4, 2), owned("0,1", "2,3"));
        assert_eq!(words(4, 3), owned("0,1,2", "3"));
        assert_eq!(words(2, 1), owned("0", "1"));
        assert_eq!(words(4, 4), None);
        assert_eq!(words(1, 1), None);
    }
}
