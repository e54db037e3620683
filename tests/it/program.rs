//! Other programs that listen: proxies, and stores.

use std::io::{Read, Seek};
use std::net::TcpStream;
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
        let mut errors = tempfile::tempfile().unwrap();
        let mut command = Command::new(program);
        command.args(arguments(&address)).stdout(Stdio::null()).stderr(errors.try_clone().unwrap());
        // Debian installs these programs in sbin.
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{path}:/usr/local/sbin:/usr/sbin:/sbin"));
        let child = command
            .spawn()
            .unwrap_or_else(|error| panic!("{program}: {error}: `cargo xtask test` installs it"));
        let mut running = Program { child, address, name };
        let began = Instant::now();
        while TcpStream::connect(&running.address).is_err() {
            if let Some(status) = running.child.try_wait().unwrap() {
                let mut text = String::new();
                errors.rewind().unwrap();
                errors.read_to_string(&mut text).unwrap();
                panic!("{name}: {status}: {text}");
            }
            assert!(began.elapsed() < TIMEOUT, "{name} never listened");
            std::thread::sleep(LOOK_INTERVAL);
        }
        running
    }
}
