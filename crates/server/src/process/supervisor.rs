//! Supervisor of several processes that share their addresses. It starts them, restarts those that exit, and
//! finally stops all of them.
//!
//! The supervisor does not serve anything itself. It owns the listening sockets, so no connection is
//! refused while a process is down. Each process also inherits the listening sockets of all others, from
//! which it accepts while their process is down (`down_processes`). A process reports readiness over a
//! private socket pair between itself and the supervisor. Note that the supervisor never forks without
//! executing a program.
//!
//! The service survives the exit of any process. Since all processes have the same configuration, the
//! supervisor only fails at startup if none of them can serve. During a takeover, however, it fails as
//! soon as any of its processes does, and the predecessor will continue to serve.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant, SystemTime};

use cannery_eventloop::Listener;
use cannery_transport::Seed;
use cannery_transport::quic::Generation;
use rustix::process::Signal;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};

use super::notify::{Notify, SOCKET_VARIABLE};
use super::process_slot::ProcessSlot;
use super::process_slot::ProcessSockets;
use super::spawn::{
    DATAGRAMS_VARIABLE, SEED_VARIABLE, STATS_VARIABLE, SUPERVISOR_VARIABLE, descriptor_list, seed_pipe,
    set_datagram_variables, set_listener_variables, spawn,
};
use super::takeover::{Http3Handover, Predecessor, Readiness, Step, Successor, Takeover};
use crate::config::ListenerKind;
use crate::kept_signals::KeptSignals;
use crate::notice::Notice;

/// Interval at which to check whether a process that was started is ready.
const READY_CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// After waiting this long for a signal, the supervisor advances the ticket seed.
const SEED_INTERVAL: Duration = Duration::from_secs(3600);
/// Time after the drain timeout at which processes are killed.
const GRACE: Duration = Duration::from_secs(2);

/// Configuration of a supervisor.
pub(super) struct Supervisor<'a> {
    /// Returns the command for the process with this number, without listeners.
    pub(super) command: &'a dyn Fn(usize) -> Command,
    /// Returns the command for the program that takes over on SIGUSR2, without listeners.
    pub(super) successor: &'a dyn Fn() -> Command,
    /// The supervisor that we are taking over from.
    pub(super) predecessor: Option<Predecessor>,
    /// Descriptor of the predecessor's ticket key seed, if it has one.
    pub(super) predecessor_seed: Option<i32>,
    /// Whether the server has TLS listeners. In that case, the processes must share ticket keys.
    pub(super) has_tls: bool,
    /// Drain timeout, i.e. the time for connections to finish sending their responses.
    pub(super) drain: Duration,
    /// Receives notices.
    pub(super) on_notice: &'a dyn Fn(&Notice),
}

/// Why a supervisor exits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ExitReason {
    /// The service was stopped.
    Stopped,
    /// Another supervisor has the listeners. This is the successor, or the predecessor if the takeover has
    /// failed.
    Replaced,
}

/// Why a supervisor stops its processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ServiceEnd {
    /// A signal stops the service.
    Stopped,
    /// The process with this ID has taken over.
    Replaced { by: u32 },
}

/// Result of waiting for the processes at startup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StartOutcome {
    /// The processes are serving.
    Ready,
    /// Before that, a signal has stopped the service.
    Stopped,
}

/// Reason why the processes have ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StopOutcome {
    InOrder,
    /// They were killed because of the deadline or a second signal.
    Killed,
}

impl Supervisor<'_> {
    /// Starts a process for each set of sockets and keeps them running until SIGINT, SIGTERM or SIGQUIT. If
    /// there is an admin listener, another process (with the next number) is started for it. `ready` is
    /// called once all processes are serving.
    ///
    /// # Errors
    /// Returns an error if no process can serve.
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
                // We are serving, so the predecessor can stop.
                if let Some(predecessor) = &self.predecessor {
                    predecessor.stop(processes.listeners_mut());
                }
                end = processes.supervise();
            }
            // The predecessor still has the listeners and continues.
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
                // The signal is also meant for the new program.
                takeover.stop();
                let outcome = processes.stop(deadline);
                let deadline = if outcome == StopOutcome::Killed { Instant::now() } else { deadline };
                takeover.kill_at(deadline, &processes.signals);
            }
        }
        Ok(reason)
    }

    /// Gets the seed of the ticket keys. If possible, this is the predecessor's seed, which keeps its
    /// tickets and connection IDs valid; otherwise, it is a new one.
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

/// Processes of a running supervisor.
struct Processes<'a> {
    supervisor: &'a Supervisor<'a>,
    signals: Receiver<i32>,
    /// Number of serving processes.
    serving: usize,
    /// Slots of the serving processes, followed by that of the admin process (if any).
    slots: Vec<ProcessSlot>,
    /// Seed of the ticket keys. All processes inherit it.
    seed: Option<Seed>,
    /// The program that is taking over, if one was started.
    takeover: Takeover,
}

impl Processes<'_> {
    /// Starts all processes for the first time.
    fn start_all(&mut self) {
        for number in 0..self.slots.len() {
            // In case of an error, the slot schedules another attempt.
            let _ = self.start(number);
        }
    }

    /// Waits until all processes are serving, or until at least one of them is serving and all others have
    /// failed.
    ///
    /// # Errors
    /// Returns an error if all serving processes have failed. If this supervisor is taking over, it is enough
    /// that any has failed.
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
                // We have to be ready before another program can take over.
                Ok(SIGUSR2) => self.takeover = Takeover::Requested { at: Instant::now() },
                Ok(_) | Err(_) => {}
            }

            for number in 0..self.slots.len() {
                if self.slots[number].should_start() {
                    // Report this only now. While all processes fail, none of them is restarted.
                    self.slots[number].report_failure(self.supervisor.on_notice);
                    // In case of an error, the slot schedules another attempt.
                    let _ = self.start(number);
                }
            }
            self.announce_down();
        }
    }

    /// Restarts processes and forwards signals, until the service is stopped or another program has taken over.
    fn supervise(&mut self) -> ServiceEnd {
        loop {
            let timeout = self.timeout();
            self.advance_seed();
            match self.signals.recv_timeout(timeout) {
                Ok(SIGQUIT) => match self.takeover.readiness() {
                    Readiness::Ready { process } => return ServiceEnd::Replaced { by: process },
                    // It became ready in the moment when we killed it, so we have to go on.
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

    /// Returns the maximum time to wait for a signal.
    fn timeout(&self) -> Duration {
        let next = self.slots.iter().filter_map(ProcessSlot::restart_at).min();
        let until_next = next.map(|at| at.saturating_duration_since(Instant::now()));
        let is_starting = self.slots.iter().any(ProcessSlot::is_starting);
        let until_check = is_starting.then_some(READY_CHECK_INTERVAL);
        let until_takeover = self.takeover.timeout(Instant::now());
        until_next.into_iter().chain(until_check).chain(until_takeover).min().unwrap_or(SEED_INTERVAL)
    }

    /// Reaps processes that have exited and starts those whose delay is over.
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

    /// Starts the program that now has our file name, passing all listeners to it.
    fn start_successor(&self) -> Option<Successor> {
        let (serving, admin) = self.slots.split_at(self.serving);
        let listeners: Vec<_> = serving.iter().flat_map(ProcessSlot::listeners).collect();
        let admin = admin.iter().flat_map(ProcessSlot::listeners).map(|(_, listener)| listener).next();
        let generation =
            serving.iter().find_map(|slot| slot.datagrams.as_ref()).map_or(0, |part| part.generation);
        let http3 = Http3Handover {
            // These were bound in the order of the workers, over all processes.
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
    /// Returns an error if the program cannot be started. It will then be tried again.
    fn start(&mut self, number: usize) -> io::Result<()> {
        self.advance_seed();
        let spawned = self.spawn(number);
        self.slots[number].begin(spawned)
    }

    /// Starts a program with its listeners. Returns it together with our end of their socket pair.
    fn spawn(&self, number: usize) -> io::Result<(Child, UnixStream)> {
        let slot = &self.slots[number];
        let is_serving = number < self.serving;
        let others = self.slots[..self.serving].iter().filter(|other| is_serving && other.number != number);
        let standby: Vec<_> = others.flat_map(ProcessSlot::exclusive_listeners).collect();

        let mut command = (self.supervisor.command)(number);
        set_listener_variables(&mut command, &slot.listeners().collect::<Vec<_>>(), &standby);
        // The supervisor itself may have inherited UDP sockets from its predecessor. The processes should not
        // see these.
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

    /// If the set of processes that are down has changed, sends their numbers to each serving process.
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

    /// Leaves all sockets to the successor. If we closed the listeners here, connections would be refused.
    fn hand_over(&mut self) {
        for slot in &mut self.slots {
            slot.listeners.clear();
            slot.hand_over();
        }
    }

    /// Stops all processes and kills those that are still running at the deadline. The admin process comes
    /// last, since it should report on the others until they have exited.
    fn stop(&mut self, deadline: Instant) -> StopOutcome {
        let (serving, admin) = self.slots.split_at_mut(self.serving);
        let outcome = stop_all(serving, deadline, &self.signals);
        match stop_all(admin, Instant::now() + GRACE, &self.signals) {
            StopOutcome::InOrder => outcome,
            StopOutcome::Killed => StopOutcome::Killed,
        }
    }
}

/// Creates the slots of the serving processes, followed by that of the admin process.
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

/// Shuts processes down gracefully, and kills those that are still running at the deadline.
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
            // A second signal has arrived or the deadline has passed.
            Ok(SIGINT | SIGTERM) | Err(_) => {
                slots.iter_mut().for_each(ProcessSlot::kill);
                return StopOutcome::Killed;
            }
            Ok(_) => {}
        }
    }
}

/// Returns a channel that receives signals, including any that were kept.
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
