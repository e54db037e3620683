//! A supervisor has a slot for each process. While the sockets in it persist, the process comes and goes.
//!
//! A process that has exited is restarted after a delay, which grows each time that the process fails to
//! start.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use cannery_eventloop::{Listener, UdpSocket};
use rustix::process::{Pid, Signal, kill_process};

use super::datagrams::ProcessDatagrams;
use super::notify::READY;
use super::restarts::Restarts;
use super::udp_handover::HAND_OVER;
use crate::config::{ListenerKind, Standby};
use crate::notice::Notice;

/// Sockets of a process.
#[derive(Debug)]
pub(super) struct ProcessSockets {
    /// Listening sockets.
    pub(super) listeners: Vec<(ListenerKind, Listener)>,
    /// UDP sockets, or `None` without HTTP/3.
    pub(super) datagrams: Option<ProcessDatagrams>,
}

/// A process and its listeners. The slot persists when the process is restarted.
pub(super) struct ProcessSlot {
    pub(super) number: usize,
    pub(super) listeners: Vec<(ListenerKind, Listener)>,
    /// UDP sockets, or `None` without HTTP/3.
    pub(super) datagrams: Option<ProcessDatagrams>,
    /// Ends of socket pairs for statistics. They need to outlive the processes because the admin process
    /// keeps its ends.
    pub(super) stats: Vec<UnixDatagram>,
    child: Option<Child>,
    /// Our end of a socket to the process.
    socket: Option<UnixStream>,
    /// The last line about processes that are down which we have sent to this process.
    announced: String,
    /// Whether the process has reported that it is serving.
    is_ready: bool,
    /// Signals that arrived before the process was ready. A program that has just been started does not
    /// handle them yet and would be terminated.
    deferred: Vec<Signal>,
    /// Exit status or start error of the last process. Kept until a new one is serving.
    failure: Option<String>,
    restarts: Restarts,
    /// The last delay before a restart.
    delay: Duration,
    /// When to start the process next.
    restart_at: Option<Instant>,
}

impl ProcessSlot {
    pub(super) fn new(number: usize, sockets: ProcessSockets) -> ProcessSlot {
        ProcessSlot {
            number,
            listeners: sockets.listeners,
            datagrams: sockets.datagrams,
            stats: Vec::new(),
            child: None,
            socket: None,
            announced: String::new(),
            is_ready: false,
            deferred: Vec::new(),
            failure: None,
            restarts: Restarts::of_process_started(Instant::now()),
            delay: Duration::ZERO,
            restart_at: None,
        }
    }

    /// Tells the process to leave its UDP sockets to the successor.
    pub(super) fn hand_over(&mut self) {
        if let Some(socket) = &mut self.socket {
            // This only fails if the process has exited.
            let _ = socket.write_all(format!("{HAND_OVER}\n").as_bytes());
        }
    }

    pub(super) fn listeners(&self) -> impl Iterator<Item = (ListenerKind, &Listener)> {
        self.listeners.iter().map(|(kind, listener)| (*kind, listener))
    }

    pub(super) fn datagrams(&self) -> impl Iterator<Item = &(usize, UdpSocket)> {
        self.datagrams.iter().flat_map(|part| &part.sockets)
    }

    pub(super) fn forwarding_sockets(&self) -> impl Iterator<Item = &UdpSocket> {
        self.datagrams.iter().flat_map(|part| &part.forwarding)
    }

    /// Returns the listeners that only this process accepts from. All processes share Unix sockets.
    pub(super) fn exclusive_listeners(&self) -> impl Iterator<Item = Standby<&Listener>> {
        let is_own = |listener: &Listener| listener.address().is_ok_and(|address| address.port().is_some());
        let own = self.listeners().filter(move |(_, listener)| is_own(listener));
        own.map(|(kind, listener)| Standby { process: self.number, kind, listener })
    }

    /// Returns the descriptors that the process should inherit.
    pub(super) fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        self.listeners()
            .map(|(_, listener)| listener.as_fd())
            .chain(self.datagrams().map(|(_, socket)| socket.as_fd()))
            .chain(self.forwarding_sockets().map(AsFd::as_fd))
            .chain(self.stats.iter().map(AsFd::as_fd))
            .collect()
    }

    /// Reaps the process if it has exited and schedules a restart. Returns the exit status, or `None` if the
    /// process is running or was already reaped.
    pub(super) fn reap(&mut self) -> Option<ExitStatus> {
        let status = self.child.as_mut()?.try_wait().ok().flatten()?;
        self.child = None;
        self.schedule_restart(status.to_string());
        Some(status)
    }

    fn schedule_restart(&mut self, failure: String) {
        self.socket = None;
        self.is_ready = false;
        self.deferred.clear();
        self.failure = Some(failure);
        let now = Instant::now();
        self.delay = self.restarts.delay_after_exit(now);
        self.restart_at = Some(now + self.delay);
    }

    /// Reads the process's readiness report, if it has arrived.
    pub(super) fn read_readiness(&mut self) {
        let Some(socket) = self.socket.as_mut().filter(|_| !self.is_ready) else { return };
        let mut message = [0; READY.len()];
        // The report is the first message, and was sent with a single call.
        if socket.read(&mut message).is_ok_and(|bytes| message[..bytes] == *READY) {
            self.is_ready = true;
            self.failure = None;
            for signal in std::mem::take(&mut self.deferred) {
                self.signal(signal);
            }
        }
    }

    /// Sends a signal to the process. If it is not ready yet, this happens later.
    pub(super) fn signal_when_ready(&mut self, signal: Signal) {
        if self.is_ready {
            self.signal(signal);
        } else if !self.deferred.contains(&signal) {
            self.deferred.push(signal);
        }
    }

    /// Stores a process that was just started, and our end of the socket to it.
    ///
    /// # Errors
    /// Returns an error if the program could not be started. It will then be tried again.
    pub(super) fn begin(&mut self, spawned: io::Result<(Child, UnixStream)>) -> io::Result<()> {
        self.restarts.start(Instant::now());
        self.restart_at = None;
        self.announced.clear();

        let (child, socket) = spawned.inspect_err(|error| self.schedule_restart(error.to_string()))?;
        self.child = Some(child);
        self.socket = Some(socket);
        Ok(())
    }

    /// Sends the line about processes that are down, unless the process already has it.
    pub(super) fn announce_down(&mut self, line: &str) {
        if self.announced == line {
            return;
        }
        if let Some(socket) = &mut self.socket {
            // A line is much smaller than the socket's buffer, so this should only fail if the process
            // has exited, too.
            let _ = socket.write_all(format!("{line}\n").as_bytes());
            line.clone_into(&mut self.announced);
        }
    }

    /// Closes the listeners, so that the service ends at their addresses.
    pub(super) fn close_listeners(&mut self) {
        for (_, listener) in self.listeners.drain(..) {
            listener.close();
        }
    }

    /// Sends a signal to the process, if it is running.
    pub(super) fn signal(&self, signal: Signal) {
        let process = self.child.as_ref().and_then(|child| i32::try_from(child.id()).ok());
        if let Some(process) = process.and_then(Pid::from_raw) {
            // This only fails if the process has exited.
            let _ = kill_process(process, signal);
        }
    }

    /// Kills the process, and reaps it.
    pub(super) fn kill(&mut self) {
        if let Some(child) = &mut self.child {
            // This only fails if the process has exited.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Returns `true` if the process is running.
    pub(super) fn is_running(&self) -> bool {
        self.child.is_some()
    }

    /// Returns `true` if the process has reported that it is serving.
    pub(super) fn is_ready(&self) -> bool {
        self.is_ready
    }

    /// Returns `true` if the last process has failed and no new one is serving yet.
    pub(super) fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Returns when the process will be started next, if that is scheduled.
    pub(super) fn restart_at(&self) -> Option<Instant> {
        self.restart_at
    }

    /// Returns `true` if the process has been started but is not serving yet.
    pub(super) fn is_starting(&self) -> bool {
        self.child.is_some() && !self.is_ready
    }

    /// Returns `true` if the delay before the restart is over.
    pub(super) fn should_start(&self) -> bool {
        self.restart_at.is_some_and(|at| at <= Instant::now())
    }

    /// Returns the slot's number and the reason why the last process has failed, or `None` if it has
    /// not.
    pub(super) fn failure(&self) -> Option<(usize, String)> {
        Some((self.number, self.failure.clone()?))
    }

    pub(super) fn report_failure(&self, on_notice: &dyn Fn(&Notice)) {
        if let Some((number, status)) = self.failure() {
            on_notice(&Notice::ProcessExited { number, status, delay: self.delay });
        }
    }
}
