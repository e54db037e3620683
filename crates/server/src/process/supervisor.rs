//! Supervisor of several processes on the same addresses: starts them, restarts those that exit, stops all.
//!
//! The supervisor serves nothing itself. It owns the listening sockets, so no connection is refused while a process is down.
//! Each process inherits the listening sockets of all others too, and accepts from them while their process is down
//! (`down_processes`). Each process has a private socket pair with the supervisor, over which it reports readiness. The
//! supervisor never forks without executing a program.
//!
//! The service survives the exit of any process. Because all processes have the same configuration, the supervisor fails at
//! start if none of them can serve. A program that takes over fails if any of its processes fails, and its predecessor
//! continues to serve.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant, SystemTime};

use cannery_eventloop::{Listener, UdpSocket};
use cannery_secure::Seed;
use cannery_secure::quic::Generation;
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;

use super::datagrams::ProcessDatagrams;
use super::handover::HAND_OVER;
use super::inheritance::{
    SEED_VARIABLE, STATS_VARIABLE, SUPERVISOR_VARIABLE, descriptor_list, seed_pipe, set_datagram_variables,
    set_listener_variables, spawn,
};
use super::notify::{Notify, READY, SOCKET_VARIABLE};
use super::takeover::{Http3Handover, Predecessor, Successor};
use crate::config::ListenerKind;
use crate::notice::Notice;

/// After this uptime, an exit is not counted as a failure at start.
const STABLE_UPTIME: Duration = Duration::from_secs(10);
/// Delay before a restart, doubled after each failure at start (exponential backoff).
const BACKOFF: Duration = Duration::from_millis(100);
/// Longest delay before a restart.
const BACKOFF_MAX: Duration = Duration::from_secs(30);
/// Interval at which the supervisor checks the readiness of a process that it has started.
const READY_CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// Longest wait for a signal, after which the ticket seed is advanced.
const SEED_INTERVAL: Duration = Duration::from_secs(3600);
/// Time after the drain timeout before processes are killed.
const GRACE: Duration = Duration::from_secs(2);

/// The sockets of a process.
#[derive(Debug)]
pub struct ProcessSockets {
    /// The listeners.
    pub listeners: Vec<(ListenerKind, Listener)>,
    /// The UDP sockets, if HTTP/3 is served.
    pub datagrams: Option<ProcessDatagrams>,
}

/// Configuration of a supervisor.
pub struct Supervisor<'a> {
    /// Returns the command of the process with this number, without its listeners.
    pub command: &'a dyn Fn(usize) -> Command,
    /// Returns the command of the program that takes over at SIGUSR2, without its listeners.
    pub successor: &'a dyn Fn() -> Command,
    /// The supervisor that this one takes over from.
    pub predecessor: Option<Predecessor>,
    /// The descriptor from which the predecessor's seed of ticket keys is read, if it has one.
    pub predecessor_seed: Option<i32>,
    /// `true` if there are TLS listeners, so that the processes must share ticket keys.
    pub has_tls: bool,
    /// Drain timeout: how long connections may complete their responses.
    pub drain: Duration,
    /// Receives the events.
    pub on_notice: &'a dyn Fn(&Notice),
}

/// The reason for which a supervisor exits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitReason {
    /// The service is stopped.
    Stopped,
    /// Another supervisor has the listeners: the successor, or the predecessor after a failed takeover.
    Replaced,
}

/// The outcome of waiting for the processes at start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StartOutcome {
    /// Processes serve.
    Ready,
    /// A signal stopped the service first.
    Stopped,
}

/// A process and its listeners. The slot persists while the process is restarted.
struct ProcessSlot {
    number: usize,
    listeners: Vec<(ListenerKind, Listener)>,
    /// The UDP sockets, if HTTP/3 is served.
    datagrams: Option<ProcessDatagrams>,
    /// Ends of socket pairs for statistics. They outlive the processes, so the admin process keeps its ends.
    stats: Vec<UnixDatagram>,
    child: Option<Child>,
    /// The supervisor's end of a socket to the process.
    socket: Option<UnixStream>,
    /// The latest line with the processes that are down that was sent to this process.
    announced: String,
    /// `true` after the process has reported that it serves.
    is_ready: bool,
    /// The exit status or start error of the latest process, until a new one serves.
    failure: Option<String>,
    started: Instant,
    backoff: Duration,
    /// Time of the next start.
    restart_at: Option<Instant>,
}

impl Supervisor<'_> {
    /// Starts a process for each set of sockets, and keeps them running until SIGINT, SIGTERM or SIGQUIT. If there is an
    /// admin listener, one more process with the next number serves it. Calls `ready` when all processes serve.
    ///
    /// # Errors
    /// No process can serve.
    pub fn run(
        &self,
        sockets: Vec<ProcessSockets>,
        admin: Option<Listener>,
        ready: impl FnOnce(),
    ) -> io::Result<ExitReason> {
        let signals = signals()?;
        let serving = sockets.len();
        let mut slots = slots(sockets, admin)?;
        let mut inherited = Inherited { seed: self.seed()? };

        for number in 0..slots.len() {
            // After an error, the slot is scheduled for a retry.
            let _ = start(&mut slots, number, serving, self.command, &mut inherited);
        }
        let notify = Notify::from_environment()?;
        if let Some(watchdog) = notify.watchdog() {
            std::thread::Builder::new().name("watchdog".into()).spawn(watchdog)?;
        }

        let mut successor = None;
        let mut ended = ExitReason::Replaced;
        if self.await_ready(&mut slots, serving, &signals, &mut inherited)? == StartOutcome::Ready {
            ready();
            notify.ready("serving");
            if let Some(predecessor) = self.predecessor {
                let listeners = slots.iter_mut().flat_map(|slot| &mut slot.listeners);
                predecessor.stop(listeners.map(|(_, listener)| listener));
            }
            successor = self.supervise(&mut slots, serving, &signals, &mut inherited);
            ended = ExitReason::Stopped;
        } else if self.predecessor.is_none() {
            ended = ExitReason::Stopped;
        }

        if let Some(successor) = successor {
            notify.main_process(successor.process());
            // The successor has the listeners. Ending them here would refuse connections.
            for slot in &mut slots {
                slot.listeners.clear();
                slot.hand_over();
            }
            ended = ExitReason::Replaced;
        } else {
            notify.stopping();
        }

        // The admin process reports on the others until they have exited.
        let (serving, admin) = slots.split_at_mut(serving);
        stop_all(serving, self.drain + GRACE, &signals);
        stop_all(admin, GRACE, &signals);
        Ok(ended)
    }

    /// Returns the seed of the ticket keys: that of the predecessor, so that its tickets and connection IDs remain valid, or
    /// a new one.
    fn seed(&self) -> io::Result<Option<Seed>> {
        match self.predecessor_seed {
            _ if !self.has_tls => Ok(None),
            Some(descriptor) => {
                Seed::read(File::from(cannery_eventloop::inherit_descriptor(descriptor)?)).map(Some)
            }
            None => Seed::generate(SystemTime::now()).map(Some).map_err(io::Error::other),
        }
    }

    /// Waits until every process serves, or at least one serves and all others have failed.
    ///
    /// # Errors
    /// All serving processes have failed, or any has while this supervisor takes over.
    fn await_ready(
        &self,
        slots: &mut [ProcessSlot],
        serving: usize,
        signals: &Receiver<i32>,
        inherited: &mut Inherited,
    ) -> io::Result<StartOutcome> {
        loop {
            for slot in &mut *slots {
                slot.reap();
                slot.read_readiness();
            }
            if slots.iter().all(|slot| slot.is_ready) {
                return Ok(StartOutcome::Ready);
            }

            let site_slots = &slots[..serving];
            let is_served = site_slots.iter().any(|slot| slot.is_ready);
            if let Some((number, failure)) = slots.iter().find_map(ProcessSlot::failure) {
                let all_failed = site_slots.iter().all(|slot| slot.failure.is_some());
                if all_failed || self.predecessor.is_some() {
                    kill_all(slots);
                    return Err(io::Error::other(format!("process {number} ended at its start: {failure}")));
                }
                if is_served && slots.iter().all(|slot| slot.is_ready || slot.failure.is_some()) {
                    return Ok(StartOutcome::Ready);
                }
            }

            if let Ok(SIGINT | SIGTERM | SIGQUIT) = signals.recv_timeout(READY_CHECK_INTERVAL) {
                return Ok(StartOutcome::Stopped);
            }

            for number in 0..slots.len() {
                if slots[number].should_start() {
                    // Reported only now, because no process is restarted while all fail.
                    slots[number].report_failure(self.on_notice);
                    // After an error, the slot is scheduled for a retry.
                    let _ = start(slots, number, serving, self.command, inherited);
                }
            }
            announce_down(&mut slots[..serving]);
        }
    }

    /// Restarts processes and forwards signals until the service is stopped. Returns the successor if one takes over.
    fn supervise(
        &self,
        slots: &mut [ProcessSlot],
        serving: usize,
        signals: &Receiver<i32>,
        inherited: &mut Inherited,
    ) -> Option<Successor> {
        let mut successor: Option<Successor> = None;
        loop {
            let next = slots.iter().filter_map(|slot| slot.restart_at).min();
            let until_next = next.map(|at| at.saturating_duration_since(Instant::now()));
            let is_starting = slots.iter().any(ProcessSlot::is_starting);
            let timeout = until_next.into_iter().chain(is_starting.then_some(READY_CHECK_INTERVAL)).min();
            let timeout = timeout.unwrap_or(SEED_INTERVAL);
            inherited.advance();

            match signals.recv_timeout(timeout) {
                Ok(SIGQUIT) => return successor,
                Ok(SIGINT | SIGTERM) | Err(RecvTimeoutError::Disconnected) => {
                    // The signal is meant for the new program too.
                    if let Some(successor) = &successor {
                        successor.stop();
                    }
                    return None;
                }
                Ok(SIGHUP) => signal_all(slots, Signal::HUP),
                Ok(SIGUSR1) => signal_all(slots, Signal::USR1),
                Ok(SIGUSR2) if successor.is_none() => {
                    successor = self.start_successor(slots, serving, inherited);
                }
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
            }

            if let Some(status) = successor.as_mut().and_then(Successor::exit_status) {
                successor = None;
                (self.on_notice)(&Notice::SuccessorFailed { why: status.to_string() });
            }
            for number in 0..slots.len() {
                if slots[number].reap().is_some() {
                    slots[number].report_failure(self.on_notice);
                }
                slots[number].read_readiness();
                if slots[number].should_start()
                    && start(slots, number, serving, self.command, inherited).is_err()
                {
                    slots[number].report_failure(self.on_notice);
                }
            }
            announce_down(&mut slots[..serving]);
        }
    }

    /// Starts the program that now has our file name, with all listeners.
    fn start_successor(
        &self,
        slots: &[ProcessSlot],
        serving: usize,
        inherited: &Inherited,
    ) -> Option<Successor> {
        let (serving, admin) = slots.split_at(serving);
        let listeners: Vec<_> = serving.iter().flat_map(ProcessSlot::listeners).collect();
        let admin = admin.iter().flat_map(ProcessSlot::listeners).map(|(_, listener)| listener).next();
        let generation =
            serving.iter().find_map(|slot| slot.datagrams.as_ref()).map_or(0, |part| part.generation);
        let http3 = Http3Handover {
            // Bound in the order of the workers, over all processes.
            sockets: serving.iter().flat_map(ProcessSlot::datagrams).map(|(_, socket)| socket).collect(),
            forwarding: serving.iter().flat_map(ProcessSlot::forwarding_sockets).collect(),
            generation: Generation::new(generation).next(),
        };
        let seed = inherited.seed.as_ref();
        match Successor::start((self.successor)(), &listeners, admin, &http3, seed) {
            Ok(successor) => {
                (self.on_notice)(&Notice::SuccessorStarted { process: successor.process() });
                Some(successor)
            }
            Err(error) => {
                (self.on_notice)(&Notice::SuccessorFailed { why: error.to_string() });
                None
            }
        }
    }
}

/// Data that every process inherits.
struct Inherited {
    /// The seed of the ticket keys, shared by all processes.
    seed: Option<Seed>,
}

impl Inherited {
    /// Advances the seed, so that earlier ticket keys cannot be recovered (forward secrecy).
    fn advance(&mut self) {
        if let Some(seed) = &mut self.seed {
            seed.advance(SystemTime::now());
        }
    }
}

/// Returns the slots of the serving processes, followed by that of the admin process.
fn slots(by_process: Vec<ProcessSockets>, admin: Option<Listener>) -> io::Result<Vec<ProcessSlot>> {
    let mut slots = Vec::new();
    let mut admin_ends = Vec::new();
    for (number, sockets) in by_process.into_iter().enumerate() {
        let mut slot = ProcessSlot::new(number, sockets);
        if admin.is_some() {
            let (ours, theirs) = cannery_eventloop::message_pair()?;
            admin_ends.push(ours);
            slot.stats.push(theirs);
        }
        slots.push(slot);
    }
    if let Some(listener) = admin {
        let listeners = vec![(ListenerKind::Plain, listener)];
        let slot = ProcessSlot::new(slots.len(), ProcessSockets { listeners, datagrams: None });
        slots.push(ProcessSlot { stats: admin_ends, ..slot });
    }
    Ok(slots)
}

impl ProcessSlot {
    fn new(number: usize, sockets: ProcessSockets) -> ProcessSlot {
        ProcessSlot {
            number,
            listeners: sockets.listeners,
            datagrams: sockets.datagrams,
            stats: Vec::new(),
            child: None,
            socket: None,
            announced: String::new(),
            is_ready: false,
            failure: None,
            started: Instant::now(),
            backoff: BACKOFF,
            restart_at: None,
        }
    }

    /// Orders the process to leave its UDP sockets to the successor.
    fn hand_over(&mut self) {
        if let Some(socket) = &mut self.socket {
            // This fails only if the process has exited.
            let _ = socket.write_all(format!("{HAND_OVER}\n").as_bytes());
        }
    }

    fn listeners(&self) -> impl Iterator<Item = (ListenerKind, &Listener)> {
        self.listeners.iter().map(|(kind, listener)| (*kind, listener))
    }

    fn datagrams(&self) -> impl Iterator<Item = &(usize, UdpSocket)> {
        self.datagrams.iter().flat_map(|part| &part.sockets)
    }

    fn forwarding_sockets(&self) -> impl Iterator<Item = &UdpSocket> {
        self.datagrams.iter().flat_map(|part| &part.forwarding)
    }

    /// Returns the listeners that only this process accepts from. All processes share Unix sockets.
    fn exclusive_listeners(&self) -> impl Iterator<Item = (usize, ListenerKind, &Listener)> {
        let is_own = |listener: &Listener| listener.address().is_ok_and(|address| address.port().is_some());
        let own = self.listeners().filter(move |(_, listener)| is_own(listener));
        own.map(|(kind, listener)| (self.number, kind, listener))
    }

    /// Returns the descriptors that the process inherits.
    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        self.listeners()
            .map(|(_, listener)| listener.as_fd())
            .chain(self.datagrams().map(|(_, socket)| socket.as_fd()))
            .chain(self.forwarding_sockets().map(AsFd::as_fd))
            .chain(self.stats.iter().map(AsFd::as_fd))
            .collect()
    }

    /// Reaps the process if it has exited, and schedules its restart. Returns its exit status, or `None` if it runs or was
    /// reaped before.
    fn reap(&mut self) -> Option<ExitStatus> {
        let status = self.child.as_mut()?.try_wait().ok().flatten()?;
        self.child = None;
        self.schedule_restart(status.to_string());
        Some(status)
    }

    fn schedule_restart(&mut self, failure: String) {
        self.socket = None;
        self.is_ready = false;
        self.failure = Some(failure);
        self.backoff = if self.started.elapsed() >= STABLE_UPTIME {
            BACKOFF
        } else {
            (self.backoff * 2).min(BACKOFF_MAX)
        };
        self.restart_at = Some(Instant::now() + self.backoff);
    }

    /// Reads the readiness report of the process, if it has arrived.
    fn read_readiness(&mut self) {
        let Some(socket) = self.socket.as_mut().filter(|_| !self.is_ready) else { return };
        let mut message = [0; READY.len()];
        // The report is the first message, and is sent by one call.
        if socket.read(&mut message).is_ok_and(|bytes| message[..bytes] == *READY) {
            self.is_ready = true;
            self.failure = None;
        }
    }

    /// Returns `true` if the process has been started and doesn't serve yet.
    fn is_starting(&self) -> bool {
        self.child.is_some() && !self.is_ready
    }

    /// Returns `true` if the delay before its restart is over.
    fn should_start(&self) -> bool {
        self.restart_at.is_some_and(|at| at <= Instant::now())
    }

    /// Returns the number of the slot and the failure of its latest process, or `None` if it hasn't failed.
    fn failure(&self) -> Option<(usize, String)> {
        Some((self.number, self.failure.clone()?))
    }

    fn report_failure(&self, on_notice: &dyn Fn(&Notice)) {
        if let Some((number, status)) = self.failure() {
            on_notice(&Notice::ProcessExited { number, status, delay: self.backoff });
        }
    }
}

/// Starts the process with this number.
///
/// # Errors
/// The program cannot be started. It is then scheduled for a retry.
fn start(
    slots: &mut [ProcessSlot],
    number: usize,
    serving: usize,
    command: &dyn Fn(usize) -> Command,
    inherited: &mut Inherited,
) -> io::Result<()> {
    let spawned = spawn_process(slots, number, serving, command, inherited);
    let slot = &mut slots[number];
    slot.started = Instant::now();
    slot.restart_at = None;
    slot.announced.clear();

    let (child, socket) = spawned.inspect_err(|error| slot.schedule_restart(error.to_string()))?;
    slot.child = Some(child);
    slot.socket = Some(socket);
    Ok(())
}

/// Starts a program with its listeners, and returns it with the supervisor's end of their socket pair.
fn spawn_process(
    slots: &[ProcessSlot],
    number: usize,
    serving: usize,
    command: &dyn Fn(usize) -> Command,
    inherited: &mut Inherited,
) -> io::Result<(Child, UnixStream)> {
    let slot = &slots[number];
    let others = slots[..serving].iter().filter(|other| number < serving && other.number != number);
    let standby: Vec<_> = others.flat_map(ProcessSlot::exclusive_listeners).collect();

    let mut command = command(number);
    set_listener_variables(&mut command, &slot.listeners().collect::<Vec<_>>(), &standby);
    if let Some(part) = &slot.datagrams {
        set_datagram_variables(&mut command, part);
    }
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    // Only the supervisor notifies the service manager.
    command.env_remove(SOCKET_VARIABLE);
    command.env(SUPERVISOR_VARIABLE, descriptor_list(&[&theirs]));
    command.env(STATS_VARIABLE, descriptor_list(&slot.stats));

    inherited.advance();
    let uses_tls = slot.datagrams.is_some() || slot.listeners().any(|(kind, _)| kind == ListenerKind::Tls);
    let seed = inherited.seed.as_ref().filter(|_| uses_tls).map(seed_pipe).transpose()?;
    if let Some(pipe) = &seed {
        command.env(SEED_VARIABLE, descriptor_list(&[pipe]));
    }

    let mut descriptors = slot.descriptors();
    descriptors.push(theirs.as_fd());
    descriptors.extend(standby.iter().map(|(_, _, listener)| listener.as_fd()));
    descriptors.extend(seed.iter().map(AsFd::as_fd));
    Ok((spawn(&mut command, &descriptors)?, ours))
}

/// Sends the numbers of the processes that are down to each serving process, if they have changed.
fn announce_down(serving: &mut [ProcessSlot]) {
    let down = serving.iter().filter(|slot| slot.failure.is_some()).map(|slot| slot.number.to_string());
    let line = down.collect::<Vec<_>>().join(",");
    for slot in serving.iter_mut().filter(|slot| slot.announced != line) {
        if let Some(socket) = &mut slot.socket {
            // This fails only if the process has exited too. A line is far smaller than the socket's buffer.
            let _ = socket.write_all(format!("{line}\n").as_bytes());
            slot.announced.clone_from(&line);
        }
    }
}

/// Shuts processes down gracefully, and kills those that still run after the timeout.
fn stop_all(slots: &mut [ProcessSlot], timeout: Duration, signals: &Receiver<i32>) {
    for slot in &mut *slots {
        for (_, listener) in slot.listeners.drain(..) {
            listener.close();
        }
    }
    signal_all(slots, Signal::TERM);

    let end = Instant::now() + timeout;
    loop {
        for slot in &mut *slots {
            slot.reap();
        }
        if slots.iter().all(|slot| slot.child.is_none()) {
            return;
        }
        let left = end.saturating_duration_since(Instant::now());
        match signals.recv_timeout(left) {
            // A second signal, or the timeout.
            Ok(SIGINT | SIGTERM) | Err(_) => return kill_all(slots),
            Ok(_) => {}
        }
    }
}

/// Kills all processes, and reaps them.
fn kill_all(slots: &mut [ProcessSlot]) {
    for child in slots.iter_mut().filter_map(|slot| slot.child.as_mut()) {
        // This fails only if the process has exited.
        let _ = child.kill();
        let _ = child.wait();
    }
}

fn signal_all(slots: &[ProcessSlot], signal: Signal) {
    for child in slots.iter().filter_map(|slot| slot.child.as_ref()) {
        if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
            // This fails only if the process has exited.
            let _ = kill_process(pid, signal);
        }
    }
}

/// Returns a channel of received signals.
fn signals() -> io::Result<Receiver<i32>> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD])?;
    let (sender, receiver) = channel();
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        for signal in signals.forever() {
            if sender.send(signal).is_err() {
                return;
            }
        }
    })?;
    Ok(receiver)
}
