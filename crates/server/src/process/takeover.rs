//! Takeover: a new program inherits the listening sockets of a running supervisor and replaces it (graceful restart).
//!
//! At SIGUSR2 a supervisor starts the program that now has its file name. The new program is a supervisor too. It starts its
//! processes on the same sockets, and when they serve, it stops the old supervisor with SIGQUIT. One of the two accepts each
//! connection meanwhile. If the new program exits before it serves, nothing changes. If it doesn't get ready in time, or
//! another SIGUSR2 arrives, it is killed.

use std::io;
use std::os::fd::AsFd;
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use cannery_eventloop::{DatagramSocket, Listener, UdpSocket};
use cannery_secure::Seed;
use cannery_secure::quic::Generation;
use rustix::process::{Pid, Signal, getppid, kill_process};
use signal_hook::consts::{SIGINT, SIGTERM};

use super::inheritance::{
    ADMIN_VARIABLE, DATAGRAMS_VARIABLE, GENERATION_VARIABLE, PREDECESSORS_VARIABLE, SEED_VARIABLE,
    address_list, descriptor_list, seed_pipe, set_listener_variables, spawn,
};
use crate::config::ListenerKind;
use crate::notice::Notice;

/// Environment variable with the process ID of the supervisor that the program takes over from, which is its parent.
const PREDECESSOR_VARIABLE: &str = "CANNERY_PREDECESSOR";

/// Time for a new program to get ready, in which it may read large archives.
pub(crate) const READY_WITHIN: Duration = Duration::from_secs(300);

/// Time after the end of a killed program in which its message that it was ready may still arrive.
const MESSAGE_DELAY: Duration = Duration::from_millis(100);

/// Interval at which the end of a program is checked while this one exits.
const END_CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// Environment variable that is set if the new program becomes the only owner of the listeners. A service manager that owns
/// them would keep them open.
const OWNED_VARIABLE: &str = "CANNERY_LISTENERS_ARE_LEFT";

/// The supervisor that this process takes over from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Predecessor {
    process: Pid,
    /// `true` if this process becomes the only owner of the listeners.
    leaves_listeners: bool,
}

impl Predecessor {
    /// Returns the predecessor that the environment names, if it is the parent of this process.
    #[must_use]
    pub(super) fn from_environment() -> Option<Predecessor> {
        let process = std::env::var(PREDECESSOR_VARIABLE).ok()?.parse().ok().and_then(Pid::from_raw)?;
        let leaves_listeners = std::env::var_os(OWNED_VARIABLE).is_some();
        (getppid() == Some(process)).then_some(Predecessor { process, leaves_listeners })
    }

    /// Returns `true` if this process becomes the only owner of the listeners.
    #[must_use]
    pub(super) fn leaves_listeners(self) -> bool {
        self.leaves_listeners
    }

    /// Stops the predecessor, because this process serves with these listeners.
    pub(super) fn stop<'a>(self, listeners: impl Iterator<Item = &'a mut Listener>) {
        if self.leaves_listeners {
            for listener in listeners {
                listener.take_ownership();
            }
        }
        // This fails only if it has exited.
        let _ = kill_process(self.process, Signal::QUIT);
    }
}

/// The sockets of HTTP/3 for a program that takes over.
pub(super) struct Http3Handover<'a> {
    /// In the order in which they were bound.
    pub(super) sockets: Vec<&'a UdpSocket>,
    /// The forwarding sockets of the workers, which this program keeps.
    pub(super) forwarding: Vec<&'a UdpSocket>,
    /// The generation of the new program's connection IDs.
    pub(super) generation: Generation,
}

/// A program that has been started to take over.
#[derive(Debug)]
pub(super) struct Successor(Child);

impl Successor {
    /// Starts the program with all listening sockets.
    pub(super) fn start(
        mut command: Command,
        listeners: &[(ListenerKind, &Listener)],
        admin: Option<&Listener>,
        http3: &Http3Handover<'_>,
        seed: Option<&Seed>,
    ) -> io::Result<Successor> {
        set_listener_variables(&mut command, listeners, &[]);
        command.env(ADMIN_VARIABLE, admin.map(|listener| descriptor_list(&[listener])).unwrap_or_default());
        command.env(DATAGRAMS_VARIABLE, descriptor_list(&http3.sockets));
        command.env(GENERATION_VARIABLE, http3.generation.number().to_string());
        let forwarding = http3.forwarding.iter().map(|socket| socket.local_address());
        command.env(PREDECESSORS_VARIABLE, address_list(forwarding));
        let seed = seed.map(seed_pipe).transpose()?;
        if let Some(pipe) = &seed {
            command.env(SEED_VARIABLE, descriptor_list(&[pipe]));
        }
        command.env(PREDECESSOR_VARIABLE, std::process::id().to_string());
        if listeners.iter().any(|(_, listener)| listener.is_inherited()) {
            command.env_remove(OWNED_VARIABLE);
        } else {
            command.env(OWNED_VARIABLE, "1");
        }
        let listeners = listeners.iter().map(|(_, listener)| *listener);
        let datagrams = http3.sockets.iter().map(AsFd::as_fd);
        let seed = seed.iter().map(AsFd::as_fd);
        let descriptors: Vec<_> =
            listeners.chain(admin).map(AsFd::as_fd).chain(datagrams).chain(seed).collect();
        spawn(&mut command, &descriptors).map(Successor)
    }

    /// Returns its process ID.
    pub(super) fn process(&self) -> u32 {
        self.0.id()
    }

    /// Sends it a signal.
    fn signal(&self, signal: Signal) {
        if let Some(process) = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw) {
            // This fails only if it has exited.
            let _ = kill_process(process, signal);
        }
    }

    /// Returns its exit status, or `None` while it runs.
    fn exit_status(&mut self) -> Option<ExitStatus> {
        self.0.try_wait().ok().flatten()
    }
}

/// A takeover in progress.
#[derive(Debug, Default)]
pub(super) enum Takeover {
    #[default]
    None,
    /// The program is to be started at this time.
    Requested { at: Instant },
    /// The program has been started, and is to be ready at `deadline`.
    Starting { successor: Successor, started: Instant, deadline: Instant },
    /// The program has been killed.
    Killed { successor: Successor, is_started_again: bool },
    /// The killed program has ended. Until this time, its message that it was ready may still arrive.
    Ended { until: Instant, is_started_again: bool },
}

/// The meaning of a message that a program has taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Readiness {
    Ready {
        process: u32,
    },
    /// It has been killed.
    Killed,
    /// It is a signal of an operator.
    NoProgram,
}

/// The next step of a takeover.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// The program is to be started.
    Start,
    Wait,
}

impl Takeover {
    /// Waits until a program that has been started is ready.
    pub(super) fn begin(successor: Successor) -> Takeover {
        let started = Instant::now();
        Takeover::Starting { successor, started, deadline: started + ready_within() }
    }

    /// Handles a request for a takeover. A program that isn't ready yet may hang, so it is replaced.
    pub(super) fn request(&mut self, now: Instant, on_notice: &dyn Fn(&Notice)) {
        match std::mem::take(self) {
            Takeover::None => *self = Takeover::Requested { at: now },
            Takeover::Starting { successor, started, .. } => {
                let after = now.saturating_duration_since(started);
                on_notice(&Notice::SuccessorKilled {
                    process: successor.process(),
                    after,
                    is_started_again: true,
                });
                *self = Takeover::kill(successor, true);
            }
            Takeover::Killed { successor, .. } => {
                *self = Takeover::Killed { successor, is_started_again: true }
            }
            Takeover::Ended { until, .. } => *self = Takeover::Ended { until, is_started_again: true },
            requested @ Takeover::Requested { .. } => *self = requested,
        }
    }

    /// Follows the program, and kills it if it isn't ready in time.
    pub(super) fn advance(&mut self, now: Instant, on_notice: &dyn Fn(&Notice)) -> Step {
        match std::mem::take(self) {
            Takeover::None => {}
            Takeover::Requested { at } if at <= now => return Step::Start,
            requested @ Takeover::Requested { .. } => *self = requested,
            Takeover::Starting { mut successor, started, deadline } => {
                if let Some(status) = successor.exit_status() {
                    on_notice(&Notice::SuccessorFailed { why: status.to_string() });
                } else if now >= deadline {
                    let after = now.saturating_duration_since(started);
                    let process = successor.process();
                    on_notice(&Notice::SuccessorKilled { process, after, is_started_again: false });
                    *self = Takeover::kill(successor, false);
                } else {
                    *self = Takeover::Starting { successor, started, deadline };
                }
            }
            Takeover::Killed { mut successor, is_started_again } => match successor.exit_status() {
                Some(_) => *self = Takeover::Ended { until: now + MESSAGE_DELAY, is_started_again },
                None => *self = Takeover::Killed { successor, is_started_again },
            },
            Takeover::Ended { until, is_started_again } if until <= now => {
                return if is_started_again { Step::Start } else { Step::Wait };
            }
            ended @ Takeover::Ended { .. } => *self = ended,
        }
        Step::Wait
    }

    fn kill(successor: Successor, is_started_again: bool) -> Takeover {
        successor.signal(Signal::KILL);
        Takeover::Killed { successor, is_started_again }
    }

    /// Returns what the message that a program has taken over means.
    pub(super) fn readiness(&self) -> Readiness {
        match self {
            Takeover::Starting { successor, .. } => Readiness::Ready { process: successor.process() },
            Takeover::Killed { .. } | Takeover::Ended { .. } => Readiness::Killed,
            Takeover::Requested { .. } | Takeover::None => Readiness::NoProgram,
        }
    }

    /// Returns how long the supervisor may wait at most, or `None` for any time. It wakes up when a process ends.
    pub(super) fn timeout(&self, now: Instant) -> Option<Duration> {
        match self {
            Takeover::Requested { at: until }
            | Takeover::Starting { deadline: until, .. }
            | Takeover::Ended { until, .. } => Some(until.saturating_duration_since(now)),
            Takeover::None | Takeover::Killed { .. } => None,
        }
    }

    /// Stops the program, because this one is stopped.
    pub(super) fn stop(&self) {
        if let Takeover::Starting { successor, .. } = self {
            successor.signal(Signal::TERM);
        }
    }

    /// Kills the program unless it ends before the deadline, until which it may drain, or before another signal to stop: no other
    /// process would kill it.
    pub(super) fn kill_at(&mut self, deadline: Instant, signals: &Receiver<i32>) {
        let Takeover::Starting { successor, .. } = self else { return };
        while successor.exit_status().is_none() {
            let left = deadline.saturating_duration_since(Instant::now());
            let signal = signals.recv_timeout(left.min(END_CHECK_INTERVAL));
            if left.is_zero() || matches!(signal, Ok(SIGINT | SIGTERM) | Err(RecvTimeoutError::Disconnected))
            {
                successor.signal(Signal::KILL);
                return;
            }
        }
    }
}

/// Returns the time for a program to get ready. In debug builds, an environment variable of the tests may set it.
fn ready_within() -> Duration {
    let set = cfg!(debug_assertions).then(|| std::env::var("CANNERY_READY_WITHIN_MS").ok()).flatten();
    set.and_then(|text| text.parse().ok()).map_or(READY_WITHIN, Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::sync::mpsc::channel;

    use super::*;

    /// A program that doesn't end by itself for long.
    fn takeover() -> Takeover {
        Takeover::begin(Successor(Command::new("sleep").arg("1000").spawn().unwrap()))
    }

    fn wait(takeover: &mut Takeover) -> Option<i32> {
        let Takeover::Starting { successor, .. } = takeover else { panic!("{takeover:?}") };
        successor.0.wait().unwrap().signal()
    }

    #[test]
    fn second_signal_kills_the_new_program_at_once() {
        let (sender, signals) = channel();
        let mut takeover = takeover();
        sender.send(SIGTERM).unwrap();
        takeover.kill_at(Instant::now() + Duration::from_secs(1000), &signals);
        assert_eq!(wait(&mut takeover), Some(Signal::KILL.as_raw()));
    }

    #[test]
    fn new_program_is_killed_at_the_deadline() {
        let (_sender, signals) = channel();
        let mut takeover = takeover();
        takeover.kill_at(Instant::now(), &signals);
        assert_eq!(wait(&mut takeover), Some(Signal::KILL.as_raw()));
    }

    #[test]
    fn new_program_that_has_ended_is_not_awaited() {
        let (_sender, signals) = channel();
        let mut takeover = takeover();
        takeover.stop();
        takeover.kill_at(Instant::now() + Duration::from_secs(1000), &signals);
        assert_eq!(wait(&mut takeover), Some(Signal::TERM.as_raw()));
    }
}
