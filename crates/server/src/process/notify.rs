//! Notifications to the service manager: ready, reloading, stopping (`sd_notify(3)`).
//!
//! They are datagrams to the socket that `NOTIFY_SOCKET` names; without the variable nothing is sent. We need no library for
//! these few calls. A process that our supervisor has started reports readiness to it over an inherited socket instead.

use std::io;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixStream};
use std::sync::Arc;
use std::time::Duration;

use rustix::net::{SendFlags, send};

use super::inheritance::SUPERVISOR_VARIABLE;
use super::platform::abstract_address;

/// The message to the supervisor that the process serves.
pub(super) const READY: &[u8] = b"READY=1";

/// Environment variable with the name of the service manager's socket.
pub const SOCKET_VARIABLE: &str = "NOTIFY_SOCKET";
/// Environment variable with the watchdog timeout in microseconds.
const WATCHDOG_VARIABLE: &str = "WATCHDOG_USEC";

/// Notifies the service manager or the supervisor.
#[derive(Debug, Clone, Default)]
pub struct Notify {
    /// The service manager's socket.
    socket: Option<Arc<UnixDatagram>>,
    /// The socket to our supervisor.
    supervisor: Option<Arc<UnixStream>>,
    /// Interval of watchdog notifications.
    watchdog: Option<Duration>,
}

impl Notify {
    /// Uses the sockets that the environment names. Without them, notifications have no effect.
    ///
    /// # Errors
    /// A variable names a socket that cannot be used.
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
        // A service manager that doesn't read must not block us.
        socket.set_nonblocking(true)?;
        // rustix looks for the vDSO at its first call, which the sandbox would forbid later.
        let _ = monotonic_microseconds();
        Ok(Notify { socket: Some(Arc::new(socket)), supervisor: None, watchdog: watchdog_interval() })
    }

    /// Reports that connections are accepted.
    pub fn ready(&self, status: &str) {
        if let Some(supervisor) = &self.supervisor {
            // This fails only if the supervisor has exited, or has unread notifications.
            let _ = send(supervisor, READY, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        }
        self.send(&format!("READY=1\nSTATUS={status}"));
    }

    /// Reports the start of a reload. [`ready`](Notify::ready) reports its end.
    pub fn reloading(&self) {
        if self.socket.is_some() {
            self.send(&format!("RELOADING=1\nMONOTONIC_USEC={}", monotonic_microseconds()));
        }
    }

    /// Reports that another process is the main process of the service.
    pub fn main_process(&self, process: u32) {
        self.send(&format!("MAINPID={process}"));
    }

    /// Reports the start of a graceful shutdown.
    pub fn stopping(&self) {
        self.send("STOPPING=1");
    }

    /// Returns the main function of a thread that sends watchdog notifications, or `None` if no watchdog is configured.
    pub(crate) fn watchdog(&self) -> Option<impl FnOnce() + Send + 'static> {
        let socket = self.socket.clone()?;
        let interval = self.watchdog?;
        Some(move || {
            loop {
                // If notifications don't arrive, the service manager restarts the service.
                let _ = socket.send(b"WATCHDOG=1");
                std::thread::sleep(interval);
            }
        })
    }

    /// Returns the socket to our supervisor if it has started this process.
    pub(crate) fn supervisor(&self) -> Option<Arc<UnixStream>> {
        self.supervisor.clone()
    }

    fn send(&self, message: &str) {
        if let Some(socket) = &self.socket {
            // An error means that the service manager doesn't read.
            let _ = socket.send(message.as_bytes());
        }
    }
}

/// Returns half of the watchdog timeout, as `sd_watchdog_enabled(3)` recommends.
fn watchdog_interval() -> Option<Duration> {
    let microseconds: u64 = std::env::var(WATCHDOG_VARIABLE).ok()?.parse().ok()?;
    (microseconds > 0).then(|| Duration::from_micros(microseconds / 2))
}

/// Returns the time of `CLOCK_MONOTONIC`, which the standard library doesn't expose.
fn monotonic_microseconds() -> i64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec.saturating_mul(1_000_000).saturating_add(now.tv_nsec / 1000)
}
