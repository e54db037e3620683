//! A server under measurement: started, waited for, asked once, and ended. Only what we started is ended.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{SocketAddrV4, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::answer::Answer;
use super::conversation::Caller;
use super::question::Question;
use crate::error::Error;

/// A server that accepts connections. It ends with this value.
pub(crate) struct Running {
    child: Child,
    address: SocketAddrV4,
    started: Instant,
}

/// How long a server may take to its first accept, and to its end.
const PATIENCE: Duration = Duration::from_secs(10);

/// Between two looks. Short, because the time to the first accept is measured too.
const LOOK_EVERY: Duration = Duration::from_micros(500);

/// The request that every server is asked before and while it is timed.
pub(crate) const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";

impl Running {
    /// Starts a server pinned to some processors and waits until it accepts connections on an address.
    pub(crate) fn start(
        program: &mut Command,
        processors: &str,
        address: SocketAddrV4,
    ) -> Result<Running, Error> {
        Running::start_with(program, processors, address, Stdio::inherit())
    }

    /// The same, with what the server complains of in a file, which a failure names.
    pub(crate) fn start_quietly(
        program: &mut Command,
        processors: &str,
        address: SocketAddrV4,
        complaints: &Path,
    ) -> Result<Running, Error> {
        let file = File::create(complaints).map_err(|source| Error::file(complaints, source))?;
        Running::start_with(program, processors, address, file.into()).inspect_err(|_| {
            let text = fs::read_to_string(complaints).unwrap_or_default();
            println!("{} said:\n{}", complaints.display(), text.trim_end());
        })
    }

    fn start_with(
        program: &mut Command,
        processors: &str,
        address: SocketAddrV4,
        complaints: Stdio,
    ) -> Result<Running, Error> {
        // One of the servers ends its workers by a signal to its whole group: that must not be ours. Outside of it nobody
        // would end a server when we are interrupted, so the kernel is asked to.
        let mut command = Command::new("setpriv");
        command.process_group(0).args(["--pdeathsig", "TERM", "taskset"]);
        command.arg("--cpu-list").arg(processors).arg(program.get_program()).args(program.get_args());
        command.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(complaints);
        let started = Instant::now();
        let child = command.spawn().map_err(|source| Error::start(&command, source))?;
        let mut running = Running { child, address, started };
        while TcpStream::connect(address).is_err() {
            if let Some(status) = running.child.try_wait().map_err(|source| Error::start(program, source))? {
                return Err(Error::failed(program, status));
            }
            if started.elapsed() > PATIENCE {
                return Err(Error::Unexpected {
                    what: program.get_program().display().to_string(),
                    expected: format!("that it listens on {address} within {PATIENCE:?}"),
                    got: "nothing".into(),
                });
            }
            thread::sleep(LOOK_EVERY);
        }
        Ok(running)
    }

    /// The process that was started; setpriv and taskset have become the server by then.
    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    /// The time since it was started.
    pub(crate) fn age(&self) -> Duration {
        self.started.elapsed()
    }

    pub(crate) fn address(&self) -> SocketAddrV4 {
        self.address
    }

    /// Sends a request on a new connection and reads `bytes` bytes of the answer, or less at its end.
    pub(crate) fn ask(&self, request: &[u8], bytes: usize) -> Result<Vec<u8>, Error> {
        let broken = |source| Error::file(self.address.to_string(), source);
        let mut connection = TcpStream::connect(self.address).map_err(broken)?;
        connection.set_read_timeout(Some(PATIENCE)).map_err(broken)?;
        connection.write_all(request).map_err(broken)?;
        let mut answer = Vec::new();
        connection.take(bytes as u64).read_to_end(&mut answer).map_err(broken)?;
        Ok(answer)
    }

    /// Asks for some targets on one connection, and gives each answer to `take`.
    pub(crate) fn ask_each<'t>(
        &self,
        question: &Question,
        targets: impl IntoIterator<Item = &'t String>,
        mut take: impl FnMut(&str, Answer) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let broken = |source| Error::file(self.address.to_string(), source);
        let mut conversation = Caller::new(self.address, question)?.call().map_err(broken)?;
        for target in targets {
            let answer = conversation.ask(question, target);
            take(target, answer.map_err(|source| Error::file(format!("{}{target}", self.address), source))?)?;
        }
        Ok(())
    }

    /// Fails unless the answer is exactly the expected one: a benchmark of wrong answers says nothing.
    pub(crate) fn expect(&self, request: &[u8], expected: &[u8]) -> Result<(), Error> {
        let got = self.ask(request, expected.len())?;
        if got == expected {
            return Ok(());
        }
        Err(Error::Unexpected {
            what: self.address.to_string(),
            expected: String::from_utf8_lossy(expected).escape_debug().to_string(),
            got: String::from_utf8_lossy(&got).escape_debug().to_string(),
        })
    }
}

impl Drop for Running {
    /// Asks first, so that a server with processes of its own can end them, and then insists.
    fn drop(&mut self) {
        // The number of one that has ended by itself may be somebody else's by now.
        if !matches!(self.child.try_wait(), Ok(None)) {
            return;
        }
        let _ = Command::new("kill").arg("-TERM").arg(self.child.id().to_string()).status();
        let asked = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && asked.elapsed() < PATIENCE {
            thread::sleep(LOOK_EVERY);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
