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
    let mut command = Command::new("prlimit");
    command.args(["--nofile=16384:", "--pid"]).arg(std::process::id().to_string());
    project::run(&mut command)
}
