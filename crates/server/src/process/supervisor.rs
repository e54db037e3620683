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
use signal_hook::iterator::Signals;

use super::inheritance::{
    SEED_VARIABLE, STATS_VARIABLE, SUPERVISOR_VARIABLE, descriptor_list, seed_pipe, set_datagram_variables,
    set_listener_variables, spawn,
};
use super::notify::{Notify, SOCKET_VARIABLE};
use super::process_slot::ProcessSlot;
pub use super::process_slot::ProcessSockets;
use super::takeover::{Http3Handover, Predecessor, Successor};
use crate::config::ListenerKind;
use crate::notice::Notice;

/// Interval at which the supervisor checks the readiness of a process that it has started.
const READY_CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// Longest wait for a signal, after which the ticket seed is advanced.
const SEED_INTERVAL: Duration = Duration::from_secs(3600);
/// Time after the drain timeout before processes are killed.
const GRACE: Duration = Duration::from_secs(2);

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
            if slots.iter().all(ProcessSlot::is_ready) {
                return Ok(StartOutcome::Ready);
            }

            let site_slots = &slots[..serving];
            let is_served = site_slots.iter().any(ProcessSlot::is_ready);
            if let Some((number, failure)) = slots.iter().find_map(ProcessSlot::failure) {
                let all_failed = site_slots.iter().all(ProcessSlot::has_failed);
                if all_failed || self.predecessor.is_some() {
                    slots.iter_mut().for_each(ProcessSlot::kill);
                    return Err(io::Error::other(format!("process {number} ended at its start: {failure}")));
                }
                if is_served && slots.iter().all(|slot| slot.is_ready() || slot.has_failed()) {
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
            let next = slots.iter().filter_map(ProcessSlot::restart_at).min();
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
                Ok(SIGHUP) => slots.iter().for_each(|slot| slot.signal(Signal::HUP)),
                Ok(SIGUSR1) => slots.iter().for_each(|slot| slot.signal(Signal::USR1)),
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
        let mut slot = ProcessSlot::new(slots.len(), ProcessSockets { listeners, datagrams: None });
        slot.stats = admin_ends;
        slots.push(slot);
    }
    Ok(slots)
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
    slots[number].begin(spawned)
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
    descriptors.extend(standby.iter().map(|standby| standby.listener.as_fd()));
    descriptors.extend(seed.iter().map(AsFd::as_fd));
    Ok((spawn(&mut command, &descriptors)?, ours))
}

/// Sends the numbers of the processes that are down to each serving process, if they have changed.
fn announce_down(serving: &mut [ProcessSlot]) {
    let down = serving.iter().filter(|slot| slot.has_failed()).map(|slot| slot.number.to_string());
    let line = down.collect::<Vec<_>>().join(",");
    for slot in serving {
        slot.announce_down(&line);
    }
}

/// Shuts processes down gracefully, and kills those that still run after the timeout.
fn stop_all(slots: &mut [ProcessSlot], timeout: Duration, signals: &Receiver<i32>) {
    slots.iter_mut().for_each(ProcessSlot::close_listeners);
    slots.iter().for_each(|slot| slot.signal(Signal::TERM));

    let end = Instant::now() + timeout;
    loop {
        for slot in &mut *slots {
            slot.reap();
        }
        if !slots.iter().any(ProcessSlot::is_running) {
            return;
        }
        let left = end.saturating_duration_since(Instant::now());
        match signals.recv_timeout(left) {
            // A second signal, or the timeout.
            Ok(SIGINT | SIGTERM) | Err(_) => return slots.iter_mut().for_each(ProcessSlot::kill),
            Ok(_) => {}
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
