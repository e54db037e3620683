//! Processes: servers and other programs that end with us, and programs that run to their end.

use std::fs::{self, File};
use std::net::{SocketAddrV4, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal};
use wait4::Wait4;

use crate::machine::wait_until;
use crate::metric::{Metric, mebibytes};
use crate::results::Sample;

/// Limit for a server's start and for its end.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Interval between checks. Short, because the time until the first accept is a measurement too.
const CHECK_EVERY: Duration = Duration::from_micros(500);

/// A child process. Dropping it terminates the process, so it can end its own children first, and kills it after a timeout.
pub(crate) struct Running(pub(crate) Child);

impl Running {
    pub(crate) fn start(command: &mut Command) -> Result<Running> {
        Ok(Running(command.spawn().with_context(|| format!("cannot start {command:?}"))?))
    }

    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        let process = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw).context("not a process ID")?;
        rustix::process::kill_process(process, signal).context("kill")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The process ID of an ended child may already belong to another process.
        if !matches!(self.0.try_wait(), Ok(None)) {
            return;
        }

        let _ = self.signal(Signal::TERM);
        let _ = wait_until(TIMEOUT, CHECK_EVERY, || Ok(self.0.try_wait()?.is_some()));
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A running server; `resources` has what it uses. Dropping it ends the process.
pub(crate) struct Server {
    process: Running,
    address: SocketAddrV4,
    started: Instant,
}

impl Server {
    /// Starts a program on the given processors and waits until it accepts connections. Its error output goes to a file, and
    /// is part of the error if it ends or doesn't accept connections in time.
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
        let mut process = Running::start(&mut command)?;
        let listening = wait_until(TIMEOUT, CHECK_EVERY, || {
            let status = process.0.try_wait()?;
            ensure!(status.is_none(), "it ended: {status:?}");
            Ok(TcpStream::connect(address).is_ok())
        });
        listening.with_context(|| {
            let output = fs::read_to_string(stderr).unwrap_or_default();
            format!("{program:?} doesn't listen: {}", output.trim_end())
        })?;
        Ok(Server { process, address, started })
    }

    /// Returns the process ID; setpriv and taskset have replaced themselves with the server.
    pub(crate) fn id(&self) -> u32 {
        self.process.0.id()
    }

    pub(crate) fn address(&self) -> SocketAddrV4 {
        self.address
    }

    pub(crate) fn age(&self) -> Duration {
        self.started.elapsed()
    }

    /// Sends a signal to the first process.
    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        self.process.signal(signal)
    }
}

/// Runs a build to its end and returns the resources that it used. Fails if it exits with a failure.
pub(crate) fn measure_build(command: &mut Command) -> Result<Sample> {
    let started = Instant::now();
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let ended = command.spawn().with_context(|| format!("cannot start {command:?}"))?.wait4()?;
    ensure!(ended.status.success(), "{command:?} failed: {}", ended.status);
    let usage = ended.rusage;
    Ok(vec![
        (Metric::BuildS, started.elapsed().as_secs_f64()),
        // Of all its threads, and of the children it waited for.
        (Metric::BuildCpuS, (usage.utime + usage.stime).as_secs_f64()),
        // At least this program's own memory, because a new process starts as a copy of it.
        (Metric::PeakMib, mebibytes(usage.maxrss)),
    ])
}
