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
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant, SystemTime};

use cannery_eventloop::Listener;
use cannery_secure::Seed;
use cannery_secure::quic::Generation;
use rustix::process::Signal;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};

use super::inheritance::{
    DATAGRAMS_VARIABLE, SEED_VARIABLE, STATS_VARIABLE, SUPERVISOR_VARIABLE, descriptor_list, seed_pipe,
    set_datagram_variables, set_listener_variables, spawn,
};
use super::notify::{Notify, SOCKET_VARIABLE};
use super::process_slot::ProcessSlot;
use super::process_slot::ProcessSockets;
use super::takeover::{Http3Handover, Predecessor, Readiness, Step, Successor, Takeover};
use crate::config::ListenerKind;
use crate::kept_signals::KeptSignals;
use crate::notice::Notice;

/// Interval at which the supervisor checks the readiness of a process that it has started.
const READY_CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// Longest wait for a signal, after which the ticket seed is advanced.
const SEED_INTERVAL: Duration = Duration::from_secs(3600);
/// Time after the drain timeout before processes are killed.
const GRACE: Duration = Duration::from_secs(2);

/// Configuration of a supervisor.
pub(super) struct Supervisor<'a> {
    /// Returns the command of the process with this number, without its listeners.
    pub(super) command: &'a dyn Fn(usize) -> Command,
    /// Returns the command of the program that takes over at SIGUSR2, without its listeners.
    pub(super) successor: &'a dyn Fn() -> Command,
    /// The supervisor that this one takes over from.
    pub(super) predecessor: Option<Predecessor>,
    /// The descriptor from which the predecessor's seed of ticket keys is read, if it has one.
    pub(super) predecessor_seed: Option<i32>,
    /// `true` if there are TLS listeners, so that the processes must share ticket keys.
    pub(super) has_tls: bool,
    /// Drain timeout: how long connections may complete their responses.
    pub(super) drain: Duration,
    /// Receives the events.
    pub(super) on_notice: &'a dyn Fn(&Notice),
}

/// The reason for which a supervisor exits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ExitReason {
    /// The service is stopped.
    Stopped,
    /// Another supervisor has the listeners: the successor, or the predecessor after a failed takeover.
    Replaced,
}

/// The reason for which a supervisor stops its processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ServiceEnd {
    /// A signal stops the service.
    Stopped,
    /// The process with this ID has taken over.
    Replaced { by: u32 },
}

/// The outcome of waiting for the processes at start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StartOutcome {
    /// Processes serve.
    Ready,
    /// A signal stopped the service first.
    Stopped,
}

/// How processes have ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StopOutcome {
    InOrder,
    /// They were killed at the deadline, or because of a second signal.
    Killed,
}

impl Supervisor<'_> {
    /// Starts a process for each set of sockets, and keeps them running until SIGINT, SIGTERM or SIGQUIT. If there is an
    /// admin listener, one more process with the next number serves it. Calls `ready` when all processes serve.
    ///
    /// # Errors
    /// No process can serve.
    pub(super) fn run(
        &self,
        signals: Receiver<i32>,
        sockets: Vec<ProcessSockets>,
        admin: Option<Listener>,
        ready: impl FnOnce(),
    ) -> io::Result<ExitReason> {
        let mut processes = Processes {
            supervisor: self,
            signals,
            serving: sockets.len(),
            slots: slots(sockets, admin)?,
            seed: self.seed()?,
            takeover: Takeover::default(),
        };
        processes.start_all();
        let notify = Notify::from_environment()?;
        if let Some(watchdog) = notify.watchdog() {
            std::thread::Builder::new().name("watchdog".into()).spawn(watchdog)?;
        }

        let mut end = ServiceEnd::Stopped;
        let mut reason = ExitReason::Stopped;
        match processes.await_ready()? {
            StartOutcome::Ready => {
                ready();
                notify.ready("serving");
                if let Some(predecessor) = &self.predecessor {
                    predecessor.stop(processes.listeners_mut());
                }
                end = processes.supervise();
            }
            StartOutcome::Stopped if self.predecessor.is_some() => reason = ExitReason::Replaced,
            StartOutcome::Stopped => {}
        }

        let mut takeover = std::mem::take(&mut processes.takeover);
        let deadline = Instant::now() + self.drain + GRACE;
        match end {
            ServiceEnd::Replaced { by } => {
                notify.main_process(by);
                processes.hand_over();
                processes.stop(deadline);
                reason = ExitReason::Replaced;
            }
            ServiceEnd::Stopped => {
                notify.stopping();
                // The signal is meant for the new program too.
                takeover.stop();
                let outcome = processes.stop(deadline);
                let deadline = if outcome == StopOutcome::Killed { Instant::now() } else { deadline };
                takeover.kill_at(deadline, &processes.signals);
            }
        }
        Ok(reason)
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
}

/// The processes of a supervisor that runs.
struct Processes<'a> {
    supervisor: &'a Supervisor<'a>,
    signals: Receiver<i32>,
    /// The number of serving processes.
    serving: usize,
    /// The slots of the serving processes, followed by that of the admin process if there is one.
    slots: Vec<ProcessSlot>,
    /// The seed of the ticket keys, which all processes inherit.
    seed: Option<Seed>,
    /// The program that takes over, if one has been started.
    takeover: Takeover,
}

impl Processes<'_> {
    /// Starts all processes for the first time.
    fn start_all(&mut self) {
        for number in 0..self.slots.len() {
            // After an error, the slot is scheduled for a retry.
            let _ = self.start(number);
        }
    }

    /// Waits until every process serves, or at least one serves and all others have failed.
    ///
    /// # Errors
    /// All serving processes have failed, or any has while this supervisor takes over.
    fn await_ready(&mut self) -> io::Result<StartOutcome> {
        loop {
            for slot in &mut self.slots {
                slot.reap();
                slot.read_readiness();
            }
            if self.slots.iter().all(ProcessSlot::is_ready) {
                return Ok(StartOutcome::Ready);
            }

            let serving = &self.slots[..self.serving];
            let is_served = serving.iter().any(ProcessSlot::is_ready);
            if let Some((number, failure)) = self.slots.iter().find_map(ProcessSlot::failure) {
                let all_failed = serving.iter().all(ProcessSlot::has_failed);
                if all_failed || self.supervisor.predecessor.is_some() {
                    self.slots.iter_mut().for_each(ProcessSlot::kill);
                    return Err(io::Error::other(format!("process {number} ended at its start: {failure}")));
                }
                if is_served && self.slots.iter().all(|slot| slot.is_ready() || slot.has_failed()) {
                    return Ok(StartOutcome::Ready);
                }
            }

            match self.signals.recv_timeout(READY_CHECK_INTERVAL) {
                Ok(SIGINT | SIGTERM | SIGQUIT) => return Ok(StartOutcome::Stopped),
                Ok(SIGHUP) => self.signal_all(Signal::HUP),
                Ok(SIGUSR1) => self.signal_all(Signal::USR1),
                // A takeover has to wait until there is something to take over.
                Ok(SIGUSR2) => self.takeover = Takeover::Requested { at: Instant::now() },
                Ok(_) | Err(_) => {}
            }

            for number in 0..self.slots.len() {
                if self.slots[number].should_start() {
                    // Reported only now, because no process is restarted while all fail.
                    self.slots[number].report_failure(self.supervisor.on_notice);
                    // After an error, the slot is scheduled for a retry.
                    let _ = self.start(number);
                }
            }
            self.announce_down();
        }
    }

    /// Restarts processes and forwards signals until the service is stopped, or another program has taken over.
    fn supervise(&mut self) -> ServiceEnd {
        loop {
            let timeout = self.timeout();
            self.advance_seed();
            match self.signals.recv_timeout(timeout) {
                Ok(SIGQUIT) => match self.takeover.readiness() {
                    Readiness::Ready { process } => return ServiceEnd::Replaced { by: process },
                    // It was ready in the moment in which we killed it, so this program has to go on.
                    Readiness::Killed => {}
                    Readiness::NotReady => return ServiceEnd::Stopped,
                },
                Ok(SIGINT | SIGTERM) | Err(RecvTimeoutError::Disconnected) => return ServiceEnd::Stopped,
                Ok(SIGHUP) => self.signal_all(Signal::HUP),
                Ok(SIGUSR1) => self.signal_all(Signal::USR1),
                Ok(SIGUSR2) => self.takeover.request(Instant::now(), self.supervisor.on_notice),
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
            }

            if self.takeover.advance(Instant::now(), self.supervisor.on_notice) == Step::Start {
                self.takeover = self.start_successor().map_or_else(Takeover::default, Takeover::begin);
            }
            self.restart();
            self.announce_down();
        }
    }

    /// Returns how long to wait for a signal at most.
    fn timeout(&self) -> Duration {
        let next = self.slots.iter().filter_map(ProcessSlot::restart_at).min();
        let until_next = next.map(|at| at.saturating_duration_since(Instant::now()));
        let is_starting = self.slots.iter().any(ProcessSlot::is_starting);
        let until_check = is_starting.then_some(READY_CHECK_INTERVAL);
        let until_takeover = self.takeover.timeout(Instant::now());
        until_next.into_iter().chain(until_check).chain(until_takeover).min().unwrap_or(SEED_INTERVAL)
    }

    /// Reaps the processes that have exited, and starts those whose delay is over.
    fn restart(&mut self) {
        for number in 0..self.slots.len() {
            let slot = &mut self.slots[number];
            if slot.reap().is_some() {
                slot.report_failure(self.supervisor.on_notice);
            }
            slot.read_readiness();
            if slot.should_start() && self.start(number).is_err() {
                self.slots[number].report_failure(self.supervisor.on_notice);
            }
        }
    }

    /// Starts the program that now has our file name, with all listeners.
    fn start_successor(&self) -> Option<Successor> {
        let (serving, admin) = self.slots.split_at(self.serving);
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

        let command = (self.supervisor.successor)();
        match Successor::start(command, &listeners, admin, &http3, self.seed.as_ref()) {
            Ok(successor) => {
                (self.supervisor.on_notice)(&Notice::SuccessorStarted { process: successor.process() });
                Some(successor)
            }
            Err(error) => {
                (self.supervisor.on_notice)(&Notice::SuccessorFailed { why: error.to_string() });
                None
            }
        }
    }

    /// Starts the process with this number.
    ///
    /// # Errors
    /// The program cannot be started. It is then scheduled for a retry.
    fn start(&mut self, number: usize) -> io::Result<()> {
        self.advance_seed();
        let spawned = self.spawn(number);
        self.slots[number].begin(spawned)
    }

    /// Starts a program with its listeners, and returns it with the supervisor's end of their socket pair.
    fn spawn(&self, number: usize) -> io::Result<(Child, UnixStream)> {
        let slot = &self.slots[number];
        let is_serving = number < self.serving;
        let others = self.slots[..self.serving].iter().filter(|other| is_serving && other.number != number);
        let standby: Vec<_> = others.flat_map(ProcessSlot::exclusive_listeners).collect();

        let mut command = (self.supervisor.command)(number);
        set_listener_variables(&mut command, &slot.listeners().collect::<Vec<_>>(), &standby);
        // The sockets of the predecessor are the supervisor's.
        command.env_remove(DATAGRAMS_VARIABLE);
        if let Some(part) = &slot.datagrams {
            set_datagram_variables(&mut command, part);
        }
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        // Only the supervisor notifies the service manager.
        command.env_remove(SOCKET_VARIABLE);
        command.env(SUPERVISOR_VARIABLE, descriptor_list(&[&theirs]));
        command.env(STATS_VARIABLE, descriptor_list(&slot.stats));

        let uses_tls =
            slot.datagrams.is_some() || slot.listeners().any(|(kind, _)| kind == ListenerKind::Tls);
        let seed = self.seed.as_ref().filter(|_| uses_tls).map(seed_pipe).transpose()?;
        if let Some(pipe) = &seed {
            command.env(SEED_VARIABLE, descriptor_list(&[pipe]));
        }

        let mut descriptors = slot.descriptors();
        descriptors.push(theirs.as_fd());
        descriptors.extend(standby.iter().map(|standby| standby.listener.as_fd()));
        descriptors.extend(seed.iter().map(AsFd::as_fd));
        Ok((spawn(&mut command, &descriptors)?, ours))
    }

    /// Advances the seed, so that earlier ticket keys cannot be recovered (forward secrecy).
    fn advance_seed(&mut self) {
        if let Some(seed) = &mut self.seed {
            seed.advance(SystemTime::now());
        }
    }

    /// Sends the numbers of the processes that are down to each serving process, if they have changed.
    fn announce_down(&mut self) {
        let serving = &mut self.slots[..self.serving];
        let down = serving.iter().filter(|slot| slot.has_failed()).map(|slot| slot.number.to_string());
        let line = down.collect::<Vec<_>>().join(",");
        for slot in serving {
            slot.announce_down(&line);
        }
    }

    fn signal_all(&mut self, signal: Signal) {
        for slot in &mut self.slots {
            slot.signal_when_ready(signal);
        }
    }

    fn listeners_mut(&mut self) -> impl Iterator<Item = &mut Listener> {
        self.slots.iter_mut().flat_map(|slot| &mut slot.listeners).map(|(_, listener)| listener)
    }

    /// Leaves all sockets to the successor. Closing the listeners here would refuse connections.
    fn hand_over(&mut self) {
        for slot in &mut self.slots {
            slot.listeners.clear();
            slot.hand_over();
        }
    }

    /// Stops all processes, and kills those that serve after the deadline. The admin process is last, because it reports on the others
    /// until they have exited.
    fn stop(&mut self, deadline: Instant) -> StopOutcome {
        let (serving, admin) = self.slots.split_at_mut(self.serving);
        let outcome = stop_all(serving, deadline, &self.signals);
        match stop_all(admin, Instant::now() + GRACE, &self.signals) {
            StopOutcome::InOrder => outcome,
            StopOutcome::Killed => StopOutcome::Killed,
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
        let mut slot = ProcessSlot::new(slots.len(), ProcessSockets { listeners, datagrams: None });
        slot.stats = admin_ends;
        slots.push(slot);
    }
    Ok(slots)
}

/// Shuts processes down gracefully, and kills those that still run after the deadline.
fn stop_all(slots: &mut [ProcessSlot], deadline: Instant, signals: &Receiver<i32>) -> StopOutcome {
    for slot in &mut *slots {
        slot.close_listeners();
    }
    for slot in &*slots {
        slot.signal(Signal::TERM);
    }

    loop {
        for slot in &mut *slots {
            slot.reap();
        }
        if !slots.iter().any(ProcessSlot::is_running) {
            return StopOutcome::InOrder;
        }
        let left = deadline.saturating_duration_since(Instant::now());
        match signals.recv_timeout(left) {
            // A second signal, or the deadline.
            Ok(SIGINT | SIGTERM) | Err(_) => {
                slots.iter_mut().for_each(ProcessSlot::kill);
                return StopOutcome::Killed;
            }
            Ok(_) => {}
        }
    }
}

/// Returns a channel of received signals, and of those that were kept.
pub(super) fn signals(kept: Option<&KeptSignals>) -> io::Result<Receiver<i32>> {
    let mut signals = KeptSignals::take(kept)?;
    signals.add_signal(SIGCHLD)?;
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
