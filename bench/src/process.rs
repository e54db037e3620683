//! A server process under measurement: start and end. `resources` has what it uses in between.

use std::fs::{self, File};
use std::net::{SocketAddrV4, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
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

    /// Sends a signal to the first process.
    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        send_signal(&self.child, signal)
    }
}

/// Sends a signal to a child process.
pub(crate) fn send_signal(child: &Child, signal: Signal) -> Result<()> {
    let process = i32::try_from(child.id()).ok().and_then(Pid::from_raw).context("not a process ID")?;
    rustix::process::kill_process(process, signal).context("kill")
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
/// Fails if the program doesn't start or exits with a failure.
pub(crate) fn measure(command: &mut Command) -> Result<Usage> {
    let started = Instant::now();
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let ended = command.spawn().with_context(|| format!("cannot start {command:?}"))?.wait4()?;
    ensure!(ended.status.success(), "{command:?} failed: {}", ended.status);
    let usage = ended.rusage;
    Ok(Usage { wall: started.elapsed(), cpu: usage.utime + usage.stime, peak_bytes: usage.maxrss })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finished_process_has_used_time_and_memory() {
        let mut busy = Command::new("sh");
        busy.args(["-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"]);
        let used = measure(&mut busy).unwrap();
        assert!(used.cpu > Duration::ZERO && used.wall > Duration::ZERO && used.peak_bytes > 100_000);
        assert!(measure(&mut Command::new("false")).is_err());
    }
}
