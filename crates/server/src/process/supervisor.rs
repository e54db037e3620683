//! Several processes on the same addresses: starts them, starts one again that died, stops all of them.
//!
//! Serves nothing itself. It holds the listening sockets, so that nobody is refused while a process is gone. Each process
//! has the listening sockets of all others too, and accepts there when its supervisor says that their process is gone. Each process has a socket to its supervisor, over which it says that it serves;
//! nobody else can reach that one. Never forks without starting a program.
//!
//! No process that ends takes the service with it. The supervisor fails at its start if not one of the processes could
//! begin to serve, since they are set up alike. A program that takes over fails if any of its processes does: the one
//! before goes on serving.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant, SystemTime};

use cannery_eventloop::Listener;
use cannery_secure::Seed;
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;

use super::inheritance::{
    FIGURES_VARIABLE, SEED_VARIABLE, SUPERVISOR_VARIABLE, name_listeners, numbers, pipe_of, spawn,
};
use super::notify::{Notify, READY, SOCKET_VARIABLE};
use super::takeover::{Predecessor, Successor};
use crate::config::ListenerKind;
use crate::notice::Notice;

/// A process that lived so long did not die of its start.
const GOOD_LIFE: Duration = Duration::from_secs(10);
/// The pause before a process is started again that died young, doubled each time.
const PAUSE: Duration = Duration::from_millis(100);
/// It grows no longer than this.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// How often the supervisor looks whether a process that it has started serves.
const LOOK: Duration = Duration::from_millis(20);
/// What processes get beyond the time to drain, before they are killed.
const GRACE: Duration = Duration::from_secs(2);

/// Keeps processes running.
pub struct Supervisor<'a> {
    /// Makes the command of the process of a number, without its listeners.
    pub command: &'a dyn Fn(usize) -> Command,
    /// Makes the command of the program that takes over at SIGUSR2, without its listeners.
    pub successor: &'a dyn Fn() -> Command,
    /// Whom this supervisor takes over from.
    pub predecessor: Option<Predecessor>,
    /// Whether connections speak TLS, so that processes have to agree on the keys of tickets.
    pub has_tls: bool,
    /// How long connections may finish what they are sending.
    pub drain: Duration,
    /// Who is told of what happens.
    pub tell: &'a dyn Fn(&Notice),
}

/// How a supervisor ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Nobody listens any more.
    Stopped,
    /// Another one listens: its successor, or the one that it should have taken over from.
    Left,
}

/// The place of one process.
struct ProcessSlot {
    number: usize,
    listeners: Vec<(ListenerKind, Listener)>,
    /// Ends of pairs of sockets. They stay while processes come and go, so nobody has to be told of a new one.
    figures: Vec<UnixDatagram>,
    child: Option<Child>,
    /// The supervisor's end of a socket to the process.
    socket: Option<UnixStream>,
    /// The line that says which processes are gone, as it was sent to this one last.
    told: String,
    /// Whether the process has said that it serves.
    is_ready: bool,
    /// How the last process ended, until another one serves.
    failure: Option<String>,
    started: Instant,
    pause: Duration,
    /// When it is to be started again.
    again: Option<Instant>,
}

impl Supervisor<'_> {
    /// Starts a process for each set of listeners, and keeps them running until SIGINT, SIGTERM or SIGQUIT; one
    /// more, with the number that follows, for the listener of operators, if there is one. `ready` is called when
    /// all of them serve.
    ///
    /// # Errors
    /// None of the processes could begin to serve.
    pub fn run(
        &self,
        of_processes: Vec<Vec<(ListenerKind, Listener)>>,
        of_operators: Option<Listener>,
        ready: impl FnOnce(),
    ) -> io::Result<Ended> {
        let signals = signals()?;
        let serving = of_processes.len();
        let mut slots = slots(of_processes, of_operators)?;
        let seed = self.has_tls.then(|| Seed::generate(SystemTime::now())).transpose();
        let mut inherited = Inherited { seed: seed.map_err(io::Error::other)? };
        for number in 0..slots.len() {
            start(&mut slots, number, serving, self.command, &mut inherited);
        }
        let notify = Notify::from_environment()?;
        if let Some(life) = notify.signs_of_life() {
            std::thread::Builder::new().name("watchdog".into()).spawn(life)?;
        }
        let (mut successor, mut ended) = (None, Ended::Left);
        if self.await_ready(&mut slots, serving, &signals, &mut inherited)? {
            ready();
            notify.ready("serving");
            if let Some(predecessor) = self.predecessor {
                let listeners = slots.iter_mut().flat_map(|slot| &mut slot.listeners);
                predecessor.dismiss(listeners.map(|(_, listener)| listener));
            }
            (successor, ended) = (self.keep(&mut slots, serving, &signals, &mut inherited), Ended::Stopped);
        } else if self.predecessor.is_none() {
            ended = Ended::Stopped;
        }
        if let Some(successor) = successor {
            notify.hand_over(successor.process());
            // Its listeners now: nobody is to be refused.
            slots.iter_mut().for_each(|slot| slot.listeners.clear());
            ended = Ended::Left;
        } else {
            notify.stopping();
        }
        // Operators can ask how the others end until they have.
        let (serving, operators) = slots.split_at_mut(serving);
        self.stop(serving, self.drain + GRACE, &signals);
        self.stop(operators, GRACE, &signals);
        Ok(ended)
    }

    /// Waits until every process serves, or has failed where another one serves. Returns `false` if the order to stop
    /// came first.
    fn await_ready(
        &self,
        slots: &mut [ProcessSlot],
        serving: usize,
        signals: &Receiver<i32>,
        inherited: &mut Inherited,
    ) -> io::Result<bool> {
        loop {
            for slot in &mut *slots {
                slot.reap();
                slot.look();
            }
            if slots.iter().all(|slot| slot.is_ready) {
                return Ok(true);
            }
            let of_sites = &slots[..serving];
            let is_served = of_sites.iter().any(|slot| slot.is_ready);
            if let Some((number, failure)) = slots.iter().find_map(ProcessSlot::failed) {
                let all_failed = of_sites.iter().all(|slot| slot.failure.is_some());
                if all_failed || self.predecessor.is_some() {
                    self.kill(slots);
                    return Err(io::Error::other(format!("process {number} ended at its start: {failure}")));
                }
                if is_served && slots.iter().all(|slot| slot.is_ready || slot.failure.is_some()) {
                    return Ok(true);
                }
            }
            if let Ok(SIGINT | SIGTERM | SIGQUIT) = signals.recv_timeout(LOOK) {
                return Ok(false);
            }
            for number in 0..slots.len() {
                if slots[number].should_start() {
                    // Not said before: while all fail, none is started again.
                    slots[number].tell_failure(self.tell);
                    start(slots, number, serving, self.command, inherited);
                }
            }
            tell_who_is_gone(&mut slots[..serving]);
        }
    }

    /// Starts again who dies, and hands signals on, until the order to stop; tells who takes over then, if anybody
    /// does.
    fn keep(
        &self,
        slots: &mut [ProcessSlot],
        serving: usize,
        signals: &Receiver<i32>,
        inherited: &mut Inherited,
    ) -> Option<Successor> {
        let mut successor: Option<Successor> = None;
        loop {
            let next = slots.iter().filter_map(|slot| slot.again).min();
            let until_next = next.map(|at| at.saturating_duration_since(Instant::now()));
            let is_starting = slots.iter().any(ProcessSlot::is_starting);
            let patience = until_next.into_iter().chain(is_starting.then_some(LOOK)).min();
            let patience = patience.unwrap_or(Duration::from_secs(3600));
            inherited.advance();
            match signals.recv_timeout(patience) {
                Ok(SIGQUIT) => return successor,
                Ok(SIGINT | SIGTERM) | Err(RecvTimeoutError::Disconnected) => {
                    // Whoever stops the service means the new program as well.
                    successor.iter().for_each(Successor::stop);
                    return None;
                }
                Ok(SIGHUP) => signal_all(slots, Signal::HUP),
                Ok(SIGUSR1) => signal_all(slots, Signal::USR1),
                Ok(SIGUSR2) if successor.is_none() => successor = self.call_successor(slots, serving),
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
            }
            if let Some(status) = successor.as_mut().and_then(Successor::died) {
                successor = None;
                (self.tell)(&Notice::SuccessorFailed { why: status.to_string() });
            }
            for number in 0..slots.len() {
                if slots[number].reap() {
                    slots[number].tell_failure(self.tell);
                }
                slots[number].look();
                if slots[number].should_start() && !start(slots, number, serving, self.command, inherited) {
                    slots[number].tell_failure(self.tell);
                }
            }
            tell_who_is_gone(&mut slots[..serving]);
        }
    }

    /// Starts the program that now has our name, with all that we listen with.
    fn call_successor(&self, slots: &[ProcessSlot], serving: usize) -> Option<Successor> {
        let (serving, operators) = slots.split_at(serving);
        let listeners: Vec<_> = serving.iter().flat_map(ProcessSlot::listeners).collect();
        let of_operators =
            operators.iter().flat_map(ProcessSlot::listeners).map(|(_, listener)| listener).next();
        match Successor::start((self.successor)(), &listeners, of_operators) {
            Ok(successor) => {
                (self.tell)(&Notice::SuccessorStarted { process: successor.process() });
                Some(successor)
            }
            Err(error) => {
                (self.tell)(&Notice::SuccessorFailed { why: error.to_string() });
                None
            }
        }
    }

    /// Stops some of them: nobody new, time to drain, then the end.
    fn stop(&self, slots: &mut [ProcessSlot], patience: Duration, signals: &Receiver<i32>) {
        for slot in &mut *slots {
            slot.listeners.drain(..).for_each(|(_, listener)| listener.close());
        }
        signal_all(slots, Signal::TERM);
        let end = Instant::now() + patience;
        while slots.iter_mut().any(ProcessSlot::lives) {
            let patience = end.saturating_duration_since(Instant::now());
            match signals.recv_timeout(patience) {
                Ok(SIGCHLD) => {}
                Ok(SIGINT | SIGTERM) | Err(_) => {
                    self.kill(slots);
                    return;
                }
                Ok(_) => {}
            }
        }
    }

    #[allow(clippy::unused_self, reason = "reads as what the supervisor does")]
    fn kill(&self, slots: &mut [ProcessSlot]) {
        for slot in slots {
            if let Some(child) = &mut slot.child {
                // It fails only where the process is gone already.
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    }
}

/// What every process gets.
struct Inherited {
    /// What the keys of tickets grow from: the same in all of them.
    seed: Option<Seed>,
}

impl Inherited {
    /// Forgets what the keys of earlier hours grew from.
    fn advance(&mut self) {
        self.seed.iter_mut().for_each(|seed| seed.advance(SystemTime::now()));
    }
}

/// The places of the processes that serve, and behind them that of the operators'.
fn slots(
    of_processes: Vec<Vec<(ListenerKind, Listener)>>,
    of_operators: Option<Listener>,
) -> io::Result<Vec<ProcessSlot>> {
    let (mut slots, mut asked) = (Vec::new(), Vec::new());
    for (number, listeners) in of_processes.into_iter().enumerate() {
        let mut slot = ProcessSlot::new(number, listeners);
        if of_operators.is_some() {
            let (ours, theirs) = cannery_eventloop::message_pair()?;
            asked.push(ours);
            slot.figures.push(theirs);
        }
        slots.push(slot);
    }
    if let Some(listener) = of_operators {
        let slot = ProcessSlot::new(slots.len(), vec![(ListenerKind::Plain, listener)]);
        slots.push(ProcessSlot { figures: asked, ..slot });
    }
    Ok(slots)
}

impl ProcessSlot {
    fn new(number: usize, listeners: Vec<(ListenerKind, Listener)>) -> ProcessSlot {
        ProcessSlot {
            number,
            listeners,
            figures: Vec::new(),
            child: None,
            socket: None,
            told: String::new(),
            is_ready: false,
            failure: None,
            started: Instant::now(),
            pause: PAUSE,
            again: None,
        }
    }

    fn listeners(&self) -> impl Iterator<Item = (ListenerKind, &Listener)> {
        self.listeners.iter().map(|(kind, listener)| (*kind, listener))
    }

    /// Those that another process can serve. All processes share those of local sockets anyway.
    fn own_queues(&self) -> impl Iterator<Item = (usize, ListenerKind, &Listener)> {
        let is_own = |listener: &Listener| listener.address().is_ok_and(|address| address.port().is_some());
        let own = self.listeners().filter(move |(_, listener)| is_own(listener));
        own.map(|(kind, listener)| (self.number, kind, listener))
    }

    /// What the process gets for itself.
    fn handed_on(&self) -> Vec<BorrowedFd<'_>> {
        self.listeners()
            .map(|(_, listener)| listener.as_fd())
            .chain(self.figures.iter().map(AsFd::as_fd))
            .collect()
    }

    /// Takes note of the end of the process, and plans to start it again. Returns whether it has ended since this was
    /// last called.
    fn reap(&mut self) -> bool {
        let Some(Ok(Some(status))) = self.child.as_mut().map(Child::try_wait) else { return false };
        self.child = None;
        self.schedule_restart(status.to_string());
        true
    }

    fn schedule_restart(&mut self, failure: String) {
        self.socket = None;
        self.is_ready = false;
        self.failure = Some(failure);
        self.pause =
            if self.started.elapsed() >= GOOD_LIFE { PAUSE } else { (self.pause * 2).min(PAUSE_MAX) };
        self.again = Some(Instant::now() + self.pause);
    }

    /// Takes note of the process's word that it serves, if it has come.
    fn look(&mut self) {
        let Some(socket) = self.socket.as_mut().filter(|_| !self.is_ready) else { return };
        let mut word = [0; READY.len()];
        // The word is sent by one call, and is the first.
        if socket.read(&mut word).is_ok_and(|bytes| word[..bytes] == *READY) {
            self.is_ready = true;
            self.failure = None;
        }
    }

    /// Whether it has been started and doesn't serve yet.
    fn is_starting(&self) -> bool {
        self.child.is_some() && !self.is_ready
    }

    /// Whether the pause before its start is over.
    fn should_start(&self) -> bool {
        self.again.is_some_and(|at| at <= Instant::now())
    }

    /// Its number, and how the last process ended, if none serves since.
    fn failed(&self) -> Option<(usize, String)> {
        Some((self.number, self.failure.clone()?))
    }

    fn tell_failure(&self, tell: &dyn Fn(&Notice)) {
        if let Some((number, status)) = self.failed() {
            tell(&Notice::ProcessDied { number, status, pause: self.pause });
        }
    }

    fn lives(&mut self) -> bool {
        self.reap();
        self.child.is_some()
    }
}

/// Starts the process of a number. Returns `false` if that failed: then it is tried again after a pause.
fn start(
    slots: &mut [ProcessSlot],
    number: usize,
    serving: usize,
    command: &dyn Fn(usize) -> Command,
    inherited: &mut Inherited,
) -> bool {
    let started = spawn_process(slots, number, serving, command, inherited);
    let slot = &mut slots[number];
    slot.started = Instant::now();
    slot.again = None;
    slot.told.clear();
    match started {
        Ok((child, socket)) => {
            (slot.child, slot.socket) = (Some(child), Some(socket));
            true
        }
        Err(error) => {
            slot.schedule_restart(error.to_string());
            false
        }
    }
}

fn spawn_process(
    slots: &[ProcessSlot],
    number: usize,
    serving: usize,
    command: &dyn Fn(usize) -> Command,
    inherited: &mut Inherited,
) -> io::Result<(Child, UnixStream)> {
    let slot = &slots[number];
    let others = slots[..serving].iter().filter(|other| number < serving && other.number != number);
    let standby: Vec<_> = others.flat_map(ProcessSlot::own_queues).collect();
    let mut command = command(number);
    name_listeners(&mut command, &slot.listeners().collect::<Vec<_>>(), &standby);
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    // The service manager is told by the supervisor alone.
    command.env_remove(SOCKET_VARIABLE);
    command.env(SUPERVISOR_VARIABLE, numbers(&[&theirs]));
    command.env(FIGURES_VARIABLE, numbers(&slot.figures));
    inherited.advance();
    let speaks_tls = slot.listeners().any(|(kind, _)| kind == ListenerKind::Tls);
    let seed = inherited.seed.as_ref().filter(|_| speaks_tls).map(pipe_of).transpose()?;
    if let Some(pipe) = &seed {
        command.env(SEED_VARIABLE, numbers(&[pipe]));
    }
    let mut handed_on = slot.handed_on();
    handed_on.push(theirs.as_fd());
    handed_on.extend(standby.iter().map(|(_, _, listener)| listener.as_fd()));
    handed_on.extend(seed.iter().map(AsFd::as_fd));
    Ok((spawn(&mut command, &handed_on)?, ours))
}

/// Tells each process that serves which ones are gone, if that has changed.
fn tell_who_is_gone(serving: &mut [ProcessSlot]) {
    let gone = serving.iter().filter(|slot| slot.failure.is_some()).map(|slot| slot.number.to_string());
    let line = gone.collect::<Vec<_>>().join(",");
    for slot in serving.iter_mut().filter(|slot| slot.told != line) {
        if let Some(socket) = &mut slot.socket {
            // It fails only if the process is gone too. A line is far smaller than what the socket holds.
            let _ = socket.write_all(format!("{line}\n").as_bytes());
            slot.told.clone_from(&line);
        }
    }
}

fn signal_all(slots: &[ProcessSlot], signal: Signal) {
    for child in slots.iter().filter_map(|slot| slot.child.as_ref()) {
        if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
            // It fails only where the process is gone already.
            let _ = kill_process(pid, signal);
        }
    }
}

/// Signals, as they come.
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
