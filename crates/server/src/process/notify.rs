//! Words to whoever started the service: that it is ready, that it reloads, that it stops (`sd_notify(3)`).
//!
//! Datagrams to the socket that `NOTIFY_SOCKET` names, and nothing where there is none. A few lines of the
//! standard library, so no library of its own. A process that our own supervisor has started says that it is ready over
//! a socket that it was started with, and nothing else.

use std::io;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixStream};
use std::sync::Arc;
use std::time::Duration;

use rustix::net::{SendFlags, send};

use super::inheritance::SUPERVISOR_VARIABLE;
use super::platform::abstract_address;

/// The word to a supervisor that the process serves.
pub(super) const READY: &[u8] = b"READY=1";

/// The variable that names the socket.
pub const SOCKET_VARIABLE: &str = "NOTIFY_SOCKET";
/// The variable that says how often a sign of life is expected, in microseconds.
const WATCHDOG_VARIABLE: &str = "WATCHDOG_USEC";

/// Tells whoever started the service.
#[derive(Debug, Clone, Default)]
pub struct Notify {
    /// The service manager's.
    socket: Option<Arc<UnixDatagram>>,
    /// Our own supervisor's.
    supervisor: Option<Arc<UnixStream>>,
    /// How often a sign of life is given.
    watchdog: Option<Duration>,
}

impl Notify {
    /// As the environment says; nothing is told where it says nothing.
    pub fn from_environment() -> io::Result<Notify> {
        if let Some(number) = std::env::var(SUPERVISOR_VARIABLE).ok().and_then(|number| number.parse().ok()) {
            let supervisor = UnixStream::from(cannery_eventloop::inherit_descriptor(number)?);
            return Ok(Notify { supervisor: Some(Arc::new(supervisor)), ..Notify::default() });
        }
        let Some(name) = std::env::var_os(SOCKET_VARIABLE).filter(|name| !name.is_empty()) else {
            return Ok(Notify::default());
        };
        let address = match name.as_encoded_bytes() {
            [b'@', name @ ..] => abstract_address(name)?,
            _ => SocketAddr::from_pathname(&name)?,
        };
        let socket = UnixDatagram::unbound()?;
        socket.connect_addr(&address)?;
        // Whoever should listen and does not must not stop us.
        socket.set_nonblocking(true)?;
        // The library looks where the kernel keeps its clock when it is first asked, which the cage forbids.
        let _ = monotonic_microseconds();
        Ok(Notify { socket: Some(Arc::new(socket)), supervisor: None, watchdog: watchdog_interval() })
    }

    /// New connections are accepted.
    pub fn ready(&self, status: &str) {
        if let Some(supervisor) = &self.supervisor {
            // It fails only if the supervisor is gone, or has heard it often enough.
            let _ = send(supervisor, READY, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        }
        self.send(&format!("READY=1\nSTATUS={status}"));
    }

    /// New releases are looked for; `ready` says when that is done.
    pub fn reloading(&self) {
        if self.socket.is_some() {
            self.send(&format!("RELOADING=1\nMONOTONIC_USEC={}", monotonic_microseconds()));
        }
    }

    /// Another process is the service from now on.
    pub fn hand_over(&self, process: u32) {
        self.send(&format!("MAINPID={process}"));
    }

    /// No new connections are wanted.
    pub fn stopping(&self) {
        self.send("STOPPING=1");
    }

    /// The life of a thread that gives signs of life for as long as the process runs; nothing where none are
    /// expected.
    pub(crate) fn signs_of_life(&self) -> Option<impl FnOnce() + Send + 'static> {
        let (socket, every) = (self.socket.clone()?, self.watchdog?);
        Some(move || {
            loop {
                // Where it does not arrive, whoever waits for it knows what to do.
                let _ = socket.send(b"WATCHDOG=1");
                std::thread::sleep(every);
            }
        })
    }

    /// The socket to our own supervisor, if it has started this process.
    pub(crate) fn supervisor(&self) -> Option<Arc<UnixStream>> {
        self.supervisor.clone()
    }

    fn send(&self, words: &str) {
        if let Some(socket) = &self.socket {
            // Where it does not arrive, there is nobody to tell.
            let _ = socket.send(words.as_bytes());
        }
    }
}

/// Half of what is expected, as `sd_watchdog_enabled(3)` advises.
fn watchdog_interval() -> Option<Duration> {
    let microseconds: u64 = std::env::var(WATCHDOG_VARIABLE).ok()?.parse().ok()?;
    (microseconds > 0).then(|| Duration::from_micros(microseconds / 2))
}

/// The time of `CLOCK_MONOTONIC`, which the standard library keeps to itself.
fn monotonic_microseconds() -> i64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec.saturating_mul(1_000_000).saturating_add(now.tv_nsec / 1000)
}
