//! Other programs that listen: proxies, and stores.

use std::fs::File;
use std::net::TcpStream;
use std::os::unix::fs::FileExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::harness::{LOOK_INTERVAL, free_address};

/// Limit for the start.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A running program.
pub(crate) struct Program {
    child: Child,
    pub(crate) address: String,
    pub(crate) name: &'static str,
    /// Its error output.
    errors: File,
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Program {
    /// Starts a program and waits until it listens. `arguments` returns its arguments for a free address.
    pub(crate) fn start(
        name: &'static str,
        program: &str,
        arguments: impl FnOnce(&str) -> Vec<String>,
    ) -> Program {
        let address = free_address().to_string();
        let errors = tempfile::tempfile().unwrap();
        let mut command = Command::new(program);
        command.args(arguments(&address)).stdout(Stdio::null()).stderr(errors.try_clone().unwrap());
        // Debian installs these programs in sbin.
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{path}:/usr/local/sbin:/usr/sbin:/sbin"));
        let child = command
            .spawn()
            .unwrap_or_else(|error| panic!("{program}: {error}: `cargo xtask test` installs it"));
        let mut running = Program { child, address, name, errors };
        let began = Instant::now();
        while TcpStream::connect(&running.address).is_err() {
            if let Some(status) = running.child.try_wait().unwrap() {
                panic!("{name}: {status}: {}", running.errors());
            }
            assert!(began.elapsed() < TIMEOUT, "{name} never listened");
            std::thread::sleep(LOOK_INTERVAL);
        }
        running
    }

    /// Returns the process ID.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns what it has written to its error output until now.
    pub(crate) fn errors(&self) -> String {
        let mut text = vec![0; usize::try_from(self.errors.metadata().unwrap().len()).unwrap()];
        // Reading must not move the position at which the program writes.
        self.errors.read_exact_at(&mut text, 0).unwrap();
        String::from_utf8_lossy(&text).into_owned()
    }
}
