//! Notifies the service manager (ready, reloading, stopping) as described in `sd_notify(3)`.
//!
//! Notifications are datagrams to the socket in `NOTIFY_SOCKET`, and none are sent if that is not set. A
//! library would be out of proportion for these few calls. Processes that were started by our supervisor
//! report readiness over an inherited socket instead.

use std::io;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixStream};
use std::sync::Arc;
use std::time::Duration;

use rustix::net::{SendFlags, send};

use super::platform::abstract_address;
use super::spawn::SUPERVISOR_VARIABLE;

/// Tells the supervisor that the process is serving.
pub(super) const READY: &[u8] = b"READY=1";

/// Environment variable that contains the name of the service manager's socket.
pub const SOCKET_VARIABLE: &str = "NOTIFY_SOCKET";
/// Environment variable that contains the watchdog timeout, in microseconds.
const WATCHDOG_VARIABLE: &str = "WATCHDOG_USEC";

/// Notifies the service manager or the supervisor.
#[derive(Debug, Clone, Default)]
pub struct Notify {
    /// Socket of the service manager.
    socket: Option<Arc<UnixDatagram>>,
    /// Socket to our supervisor.
    supervisor: Option<Arc<UnixStream>>,
    /// Interval between watchdog notifications.
    watchdog: Option<Duration>,
}

impl Notify {
    /// Uses the sockets named in the environment. Without these, notifications have no effect.
    ///
    /// # Errors
    /// Returns an error if a variable names a socket that cannot be used.
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
        // If the service manager does not read, it must not block us.
        socket.set_nonblocking(true)?;
        // rustix looks for the vDSO in its first call, and the sandbox will not allow that later.
        let _ = monotonic_microseconds();
        Ok(Notify { socket: Some(Arc::new(socket)), supervisor: None, watchdog: watchdog_interval() })
    }

    /// Reports that we are accepting connections.
    pub fn ready(&self, status: &str) {
        if let Some(supervisor) = &self.supervisor {
            // This only fails if the supervisor has exited or has not read our notifications.
            let _ = send(supervisor, READY, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        }
        self.send(&format!("READY=1\nSTATUS={status}"));
    }

    /// Reports that a reload has started. To report its end, call [`ready`](Notify::ready).
    pub fn reloading(&self) {
        if self.socket.is_some() {
            self.send(&format!("RELOADING=1\nMONOTONIC_USEC={}", monotonic_microseconds()));
        }
    }

    /// Reports that another process is now the main process of the service.
    pub fn main_process(&self, process: u32) {
        self.send(&format!("MAINPID={process}"));
    }

    /// Reports that a graceful shutdown has started.
    pub fn stopping(&self) {
        self.send("STOPPING=1");
    }

    /// Returns the main function of a thread that sends watchdog notifications, or `None` if the watchdog is
    /// not configured.
    pub(crate) fn watchdog(&self) -> Option<impl FnOnce() + Send + 'static> {
        let socket = self.socket.clone()?;
        let interval = self.watchdog?;
        Some(move || {
            loop {
                // If the notifications get lost, the service manager restarts the service.
                let _ = socket.send(b"WATCHDOG=1");
                std::thread::sleep(interval);
            }
        })
    }

    /// If this process was started by our supervisor, returns the socket to it.
    pub(crate) fn supervisor(&self) -> Option<Arc<UnixStream>> {
        self.supervisor.clone()
    }

    fn send(&self, message: &str) {
        if let Some(socket) = &self.socket {
            // An error means that the service manager is not reading.
            let _ = socket.send(message.as_bytes());
        }
    }
}

/// Returns half of the watchdog timeout, as recommended in `sd_watchdog_enabled(3)`.
fn watchdog_interval() -> Option<Duration> {
    let microseconds: u64 = std::env::var(WATCHDOG_VARIABLE).ok()?.parse().ok()?;
    (microseconds > 0).then(|| Duration::from_micros(microseconds / 2))
}

/// Returns the time of `CLOCK_MONOTONIC`. The standard library does not expose it.
fn monotonic_microseconds() -> i64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec.saturating_mul(1_000_000).saturating_add(now.tv_nsec / 1000)
}
