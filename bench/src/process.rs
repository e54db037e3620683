//! A server process under measurement: start, resource usage, end.

use std::collections::HashMap;
use std::fs::{self, File};
use std::net::{SocketAddrV4, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal};
use wait4::Wait4;

/// A running server. Dropping it ends the process.
pub(crate) struct Server {
    child: Child,
    address: SocketAddrV4,
    started: Instant,
}

/// Limit for a server's start and for its end.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Interval between checks. Short, because the time until the first accept is a measurement too.
const CHECK_EVERY: Duration = Duration::from_micros(500);

impl Server {
    /// Starts a program on the given processors and waits until it accepts connections. Its error output goes to a
    /// file.
    ///
    /// # Errors
    ///
    /// Fails with the error output if the program ends or doesn't accept connections in time.
    pub(crate) fn start(
        program: &Command,
        processors: &str,
        address: SocketAddrV4,
        stderr: &Path,
    ) -> Result<Server> {
        // One of the peers ends its workers by a signal to its process group, which must not be ours. Outside our group
        // an interrupt doesn't reach the server, so the kernel ends it with us.
        let mut command = Command::new("setpriv");
        command.process_group(0).args(["--pdeathsig", "TERM", "taskset", "--cpu-list", processors]);
        command.arg(program.get_program()).args(program.get_args());
        command.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(stderr)?);

        let started = Instant::now();
        let child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
        let mut server = Server { child, address, started };
        let output = || fs::read_to_string(stderr).unwrap_or_default();
        while TcpStream::connect(address).is_err() {
            if let Some(status) = server.child.try_wait()? {
                bail!("{program:?} ended ({status}): {}", output().trim_end());
            }
            ensure!(started.elapsed() < TIMEOUT, "{program:?} doesn't listen: {}", output().trim_end());
            thread::sleep(CHECK_EVERY);
        }
        Ok(server)
    }

    /// Returns the process ID; setpriv and taskset have replaced themselves with the server.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn address(&self) -> SocketAddrV4 {
        self.address
    }

    /// Returns the time since the start.
    pub(crate) fn age(&self) -> Duration {
        self.started.elapsed()
    }

    /// Returns user and system time of all threads and descendants since their start. The time of a thread that has ended
    /// is missing, so a later value may be smaller.
    ///
    /// It comes from the scheduler's account in nanoseconds; `/proc/PID/stat` has the same sum in hundredths of a
    /// second.
    pub(crate) fn cpu_time(&self) -> Result<Duration> {
        let mut nanoseconds = 0;
        for process in self.tree()? {
            for task in fs::read_dir(format!("/proc/{process}/task"))? {
                // A thread that just ended has no file any more.
                let Ok(text) = fs::read_to_string(task?.path().join("schedstat")) else { continue };
                let field = text.split(' ').next().unwrap_or_default();
                nanoseconds += field.parse::<u64>().with_context(|| format!("schedstat: {text}"))?;
            }
        }
        Ok(Duration::from_nanos(nanoseconds))
    }

    /// Returns the anonymous memory of the process tree, in bytes. Pages that a process shares with its parent since
    /// the fork count for both.
    ///
    /// `smaps_rollup` counts page by page; the kernel's quick sums lag by some pages for each processor.
    pub(crate) fn anonymous_bytes(&self) -> Result<u64> {
        self.sum_of_field("smaps_rollup", "Anonymous:")
    }

    /// Returns the sum of the peak resident memory of the process tree, in bytes.
    pub(crate) fn peak_bytes(&self) -> Result<u64> {
        self.sum_of_field("status", "VmHWM:")
    }

    fn sum_of_field(&self, file: &str, field: &str) -> Result<u64> {
        let mut kibibytes = 0;
        for process in self.tree()? {
            let path = format!("/proc/{process}/{file}");
            let text = fs::read_to_string(&path).with_context(|| path.clone())?;
            let value = text.lines().find_map(|line| line.strip_prefix(field)?.trim().strip_suffix(" kB"));
            kibibytes += value.with_context(|| format!("{path}: no {field}"))?.parse::<u64>()?;
        }
        Ok(kibibytes * 1024)
    }

    /// Returns the number of open descriptors. Threads may have tables of their own; the largest counts.
    pub(crate) fn descriptors(&self) -> Result<usize> {
        let mut most = 0;
        for process in self.tree()? {
            for task in fs::read_dir(format!("/proc/{process}/task"))? {
                most = most.max(fs::read_dir(task?.path().join("fd")).map_or(0, Iterator::count));
            }
        }
        Ok(most)
    }

    /// Sends a signal to the first process.
    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        send_signal(&self.child, signal)
    }

    /// Returns the IDs of the process and all its descendants.
    fn tree(&self) -> Result<Vec<u32>> {
        let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
        for entry in fs::read_dir("/proc")? {
            let entry = entry?;
            let Some(process) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            // A process that just ended has no parent any more.
            let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
            if let Some(parent) = parent(&stat) {
                children.entry(parent).or_default().push(process);
            }
        }

        let mut found = vec![self.id()];
        let mut next = 0;
        while let Some(process) = found.get(next) {
            found.extend(children.remove(process).unwrap_or_default());
            next += 1;
        }
        Ok(found)
    }
}

/// Sends a signal to a child process.
pub(crate) fn send_signal(child: &Child, signal: Signal) -> Result<()> {
    let process = i32::try_from(child.id()).ok().and_then(Pid::from_raw).context("not a process ID")?;
    rustix::process::kill_process(process, signal).context("kill")
}

/// Returns the parent in a line of `/proc/PID/stat`. The program's name may contain parentheses and spaces.
fn parent(stat: &str) -> Option<u32> {
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_whitespace().nth(1)?.parse().ok()
}

impl Drop for Server {
    /// Terminates the process, so a server can end its own children first, and kills it after a timeout.
    fn drop(&mut self) {
        // The process ID of an ended child may already belong to another process.
        if !matches!(self.child.try_wait(), Ok(None)) {
            return;
        }

        let _ = self.signal(Signal::TERM);
        let asked = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && asked.elapsed() < TIMEOUT {
            thread::sleep(CHECK_EVERY);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Resources that a finished process has used.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Usage {
    pub(crate) wall: Duration,
    /// User and system time of all its threads and of the children it waited for.
    pub(crate) cpu: Duration,
    /// Peak resident memory in bytes. At least this program's own, because a new process starts as a copy of it.
    pub(crate) peak_bytes: u64,
}

/// Runs a program to its end and returns the resources that it used.
///
/// # Errors
///
/// Fails if the program doesn't start, exits with a failure, or takes longer than ten minutes.
pub(crate) fn measure(command: &mut Command) -> Result<Usage> {
    const WALL_MAX: Duration = Duration::from_secs(600);
    let started = Instant::now();
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let mut child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;

    let ended = loop {
        if let Some(ended) = child.try_wait4()? {
            break ended;
        }
        if started.elapsed() > WALL_MAX {
            child.kill()?;
        }
        // Adds one millisecond to the wall time on average.
        thread::sleep(Duration::from_millis(2));
    };
    ensure!(ended.status.success(), "{command:?} failed: {}", ended.status);
    let usage = ended.rusage;
    Ok(Usage { wall: started.elapsed(), cpu: usage.utime + usage.stime, peak_bytes: usage.maxrss })
}

/// Returns the kernel's memory for all TCP sockets of the machine, in bytes.
pub(crate) fn kernel_tcp_bytes() -> Result<u64> {
    const PAGE_BYTES: u64 = 4096;
    let path = PathBuf::from("/proc/net/sockstat");
    let text = fs::read_to_string(&path)?;
    let line = text.lines().find_map(|line| line.strip_prefix("TCP:"));
    let pages = line.and_then(|line| line.rsplit_once(" mem ")).context("sockstat: no TCP memory")?.1;
    Ok(pages.trim().parse::<u64>()? * PAGE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_name_with_parentheses_does_not_hide_the_parent() {
        assert_eq!(parent("812 (a) 3 b) S 77 812 812 0"), Some(77));
        assert_eq!(parent("garbage"), None);
    }

    #[test]
    fn a_finished_process_has_used_time_and_memory() {
        let mut busy = Command::new("sh");
        busy.args(["-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"]);
        let used = measure(&mut busy).unwrap();
        assert!(used.cpu > Duration::ZERO && used.wall > Duration::ZERO && used.peak_bytes > 100_000);
        assert!(measure(&mut Command::new("false")).is_err());
    }
}
