//! Takeover: a new program inherits the listening sockets of a running supervisor and replaces it (graceful
//! restart).
//!
//! On SIGUSR2, a supervisor starts the program that now has its file name. The new program is a supervisor,
//! too, and starts its processes on the same sockets. Once they are serving, it sends a message over a pipe
//! that only it has inherited, and then wakes up the old supervisor with SIGQUIT. A SIGQUIT without a message
//! must come from an operator and will stop both.
//!
//! In the meantime, each connection is accepted by one of the two, so nothing changes if the new program
//! exits before it serves. It is killed if it does not become ready in time, or if there is another SIGUSR2.

use std::fs::File;
use std::io::{self, PipeReader, Read, Write};
use std::os::fd::AsFd;
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use cannery_eventloop::{DatagramSocket, Listener, UdpSocket};
use cannery_transport::Seed;
use cannery_transport::quic::Generation;
use rustix::io::ioctl_fionbio;
use rustix::process::{Pid, Signal, getppid, kill_process};
use signal_hook::consts::{SIGINT, SIGTERM};

use super::spawn::{
    ADMIN_VARIABLE, DATAGRAMS_VARIABLE, GENERATION_VARIABLE, PREDECESSORS_VARIABLE, SEED_VARIABLE,
    address_list, descriptor_list, seed_pipe, set_listener_variables, spawn,
};
use crate::config::ListenerKind;
use crate::notice::Notice;

/// Environment variable that contains the process ID of the supervisor (our parent process) to take over
/// from.
const PREDECESSOR_VARIABLE: &str = "CANNERY_PREDECESSOR";

/// Environment variable that contains the descriptor of the pipe over which the new program sends a message
/// once it is ready.
const READY_VARIABLE: &str = "CANNERY_READY";

/// The message.
const READY: &[u8] = b"r";

/// A new program must become ready within this time. It might have to read large archives.
pub(crate) const READY_WITHIN: Duration = Duration::from_secs(300);

/// After a program was killed, how long a message that it is ready may still take to arrive.
const MESSAGE_DELAY: Duration = Duration::from_millis(100);

/// Interval at which to check if the new program has exited while we are exiting ourselves.
const END_CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// Environment variable that is set if the new program will be the only owner of the listeners. Note that a
/// service manager would keep its listeners open, in which case this is not set.
const OWNED_VARIABLE: &str = "CANNERY_LISTENERS_ARE_LEFT";

/// The supervisor that we are taking over from.
#[derive(Debug)]
pub(super) struct Predecessor {
    process: Pid,
    /// The pipe for telling it that we are ready.
    ready: Option<File>,
    /// Whether we will be the only owner of the listeners.
    leaves_listeners: bool,
}

impl Predecessor {
    /// Returns the predecessor named in the environment, if that is our parent process.
    ///
    /// # Errors
    /// Returns an error if the environment names a pipe that is not open.
    pub(super) fn from_environment() -> io::Result<Option<Predecessor>> {
        let number = |variable| std::env::var(variable).ok()?.parse().ok();
        let process = number(PREDECESSOR_VARIABLE).and_then(Pid::from_raw);
        let Some(process) = process.filter(|process| getppid() == Some(*process)) else { return Ok(None) };
        let ready = number(READY_VARIABLE).map(cannery_eventloop::inherit_descriptor).transpose()?;
        let leaves_listeners = std::env::var_os(OWNED_VARIABLE).is_some();
        Ok(Some(Predecessor { process, ready: ready.map(File::from), leaves_listeners }))
    }

    /// Returns `true` if we will be the only owner of the listeners.
    #[must_use]
    pub(super) fn leaves_listeners(&self) -> bool {
        self.leaves_listeners
    }

    /// Stops the predecessor because we are serving with these listeners.
    pub(super) fn stop<'a>(&self, listeners: impl Iterator<Item = &'a mut Listener>) {
        if self.leaves_listeners {
            for listener in listeners {
                listener.take_ownership();
            }
        }
        // These will only fail if it has exited. We need to send the message first because the signal
        // makes the predecessor look for one.
        let _ = self.ready.as_ref().map(|mut pipe| pipe.write_all(READY));
        let _ = kill_process(self.process, Signal::QUIT);
    }
}

/// HTTP/3 sockets for a program that takes over.
pub(super) struct Http3Handover<'a> {
    /// UDP sockets, in the order in which they were bound.
    pub(super) sockets: Vec<&'a UdpSocket>,
    /// The workers' forwarding sockets. We keep these.
    pub(super) forwarding: Vec<&'a UdpSocket>,
    /// Generation for the new program's connection IDs.
    pub(super) generation: Generation,
}

/// A program that we have started to take over from us.
#[derive(Debug)]
pub(super) struct Successor {
    child: Child,
    ready: ReadyPipe,
}

/// The pipe over which a new program tells us that it is ready. No other process is able to write
/// to it.
#[derive(Debug)]
pub(super) struct ReadyPipe(PipeReader);

impl ReadyPipe {
    /// Takes the message. Returns `false` if it has not arrived or was already taken.
    fn take_message(&mut self) -> bool {
        // Without a message, this would block, or find nothing to read if the program has exited.
        self.0.read(&mut [0; 1]).is_ok_and(|bytes| bytes == READY.len())
    }
}

impl Successor {
    /// Starts the program with all listening sockets.
    pub(super) fn start(
        mut command: Command,
        listeners: &[(ListenerKind, &Listener)],
        admin: Option<&Listener>,
        http3: &Http3Handover<'_>,
        seed: Option<&Seed>,
    ) -> io::Result<Successor> {
        // Tell the program about its sockets, secrets and predecessor.
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

        let (ready, theirs) = io::pipe()?;
        ioctl_fionbio(&ready, true)?;
        command.env(READY_VARIABLE, descriptor_list(&[&theirs]));

        if listeners.iter().any(|(_, listener)| listener.is_inherited()) {
            command.env_remove(OWNED_VARIABLE);
        } else {
            command.env(OWNED_VARIABLE, "1");
        }

        let listeners = listeners.iter().map(|(_, listener)| *listener);
        let datagrams = http3.sockets.iter().map(AsFd::as_fd);
        let seed = seed.iter().map(AsFd::as_fd);
        let sockets = listeners.chain(admin).map(AsFd::as_fd).chain(datagrams);
        let descriptors: Vec<_> = sockets.chain(seed).chain([theirs.as_fd()]).collect();
        let child = spawn(&mut command, &descriptors)?;
        Ok(Successor { child, ready: ReadyPipe(ready) })
    }

    /// Returns the process ID.
    pub(super) fn process(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal to the program.
    fn signal(&self, signal: Signal) {
        if let Some(process) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            // This only fails if it has exited.
            let _ = kill_process(process, signal);
        }
    }

    /// Returns the exit status, or `None` if the program is running.
    fn exit_status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }
}

/// A takeover in progress.
#[derive(Debug, Default)]
pub(super) enum Takeover {
    #[default]
    None,
    /// The program should be started at this time.
    Requested { at: Instant },
    /// The program was started and must be ready by `deadline`.
    Starting { successor: Successor, started: Instant, deadline: Instant },
    /// We have killed the program.
    Killed { successor: Successor, is_started_again: bool },
    /// The program has ended after being killed. Until this time, a message saying that it was ready may
    /// still arrive.
    Ended { ready: ReadyPipe, until: Instant, is_started_again: bool },
}

/// The meaning of SIGQUIT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Readiness {
    /// The program with this process ID has taken over.
    Ready { process: u32 },
    /// The program was about to take over, but we have killed it.
    Killed,
    /// No program has sent a message, which means that an operator has sent the signal.
    NotReady,
}

/// Next step of a takeover.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Start the program.
    Start,
    Wait,
}

impl Takeover {
    /// Waits for a program that was just started to become ready.
    pub(super) fn begin(successor: Successor) -> Takeover {
        let started = Instant::now();
        Takeover::Starting { successor, started, deadline: started + ready_within() }
    }

    /// Handles a request for a takeover. A program that is not ready yet might be hanging and will therefore
    /// be replaced.
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
            Takeover::Ended { ready, until, .. } => {
                *self = Takeover::Ended { ready, until, is_started_again: true };
            }

            requested @ Takeover::Requested { .. } => *self = requested,
        }
    }

    /// Watches the program, and kills it if it is not ready in time.
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
                Some(_) => {
                    let until = now + MESSAGE_DELAY;
                    *self = Takeover::Ended { ready: successor.ready, until, is_started_again };
                }
                None => *self = Takeover::Killed { successor, is_started_again },
            },

            Takeover::Ended { until, is_started_again, .. } if until <= now => {
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

    /// Returns the meaning of a SIGQUIT that was just received.
    pub(super) fn readiness(&mut self) -> Readiness {
        let (ready, meaning) = match self {
            Takeover::Starting { successor, .. } => {
                let process = successor.process();
                (&mut successor.ready, Readiness::Ready { process })
            }
            Takeover::Killed { successor: Successor { ready, .. }, .. } | Takeover::Ended { ready, .. } => {
                (ready, Readiness::Killed)
            }
            Takeover::Requested { .. } | Takeover::None => return Readiness::NotReady,
        };
        if ready.take_message() { meaning } else { Readiness::NotReady }
    }

    /// Returns the time that the supervisor may wait, or `None` for any time. It will also be woken up when
    /// a process ends.
    pub(super) fn timeout(&self, now: Instant) -> Option<Duration> {
        match self {
            Takeover::Requested { at: until }
            | Takeover::Starting { deadline: until, .. }
            | Takeover::Ended { until, .. } => Some(until.saturating_duration_since(now)),
            Takeover::None | Takeover::Killed { .. } => None,
        }
    }

    /// Stops the new program because we are being stopped.
    pub(super) fn stop(&self) {
        if let Takeover::Starting { successor, .. } = self {
            successor.signal(Signal::TERM);
        }
    }

    /// Kills the new program at the deadline or after another signal to stop; until then, it can drain. We
    /// have to do this since no other process would.
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

/// Returns the time within which a program must become ready. In debug builds, tests can set an environment
/// variable.
fn ready_within() -> Duration {
    let set = cfg!(debug_assertions).then(|| std::env::var("CANNERY_READY_WITHIN_MS").ok()).flatten();
    set.and_then(|text| text.parse().ok()).map_or(READY_WITHIN, Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use std::io::PipeWriter;
    use std::os::unix::process::ExitStatusExt;
    use std::sync::mpsc::channel;

    use super::*;

    /// A program that does not exit by itself for a long time, and our end of its pipe.
    fn takeover() -> (Takeover, PipeWriter) {
        let (ready, theirs) = io::pipe().unwrap();
        ioctl_fionbio(&ready, true).unwrap();
        let child = Command::new("sleep").arg("1000").spawn().unwrap();
        (Takeover::begin(Successor { child, ready: ReadyPipe(ready) }), theirs)
    }

    fn wait(takeover: &mut Takeover) -> Option<i32> {
        let Takeover::Starting { successor, .. } = takeover else { panic!("{takeover:?}") };
        successor.child.wait().unwrap().signal()
    }

    #[test]
    fn second_signal_kills_the_new_program_at_once() {
        let (sender, signals) = channel();
        let (mut takeover, _theirs) = takeover();
        sender.send(SIGTERM).unwrap();
        takeover.kill_at(Instant::now() + Duration::from_secs(1000), &signals);
        assert_eq!(wait(&mut takeover), Some(Signal::KILL.as_raw()));
    }

    #[test]
    fn new_program_is_killed_at_the_deadline() {
        let (_sender, signals) = channel();
        let (mut takeover, _theirs) = takeover();
        takeover.kill_at(Instant::now(), &signals);
        assert_eq!(wait(&mut takeover), Some(Signal::KILL.as_raw()));
    }

    #[test]
    fn new_program_that_has_ended_is_not_awaited() {
        let (_sender, signals) = channel();
        let (mut takeover, _theirs) = takeover();
        takeover.stop();
        takeover.kill_at(Instant::now() + Duration::from_secs(1000), &signals);
        assert_eq!(wait(&mut takeover), Some(Signal::TERM.as_raw()));
    }

    #[test]
    fn only_the_new_program_says_that_it_is_ready() {
        let (mut takeover, mut theirs) = takeover();
        assert_eq!(takeover.readiness(), Readiness::NotReady);
        theirs.write_all(READY).unwrap();
        assert!(matches!(takeover.readiness(), Readiness::Ready { .. }));
        // Another signal must be from an operator, even after the program has ended.
        assert_eq!(takeover.readiness(), Readiness::NotReady);
        drop(theirs);
        assert_eq!(takeover.readiness(), Readiness::NotReady);
        takeover.stop();
        wait(&mut takeover);
    }

    #[test]
    fn message_of_a_killed_program_is_no_stop() {
        let (mut takeover, mut theirs) = takeover();
        theirs.write_all(READY).unwrap();
        takeover.request(Instant::now(), &|_| {});
        assert_eq!(takeover.readiness(), Readiness::Killed);
        assert_eq!(takeover.readiness(), Readiness::NotReady);

        theirs.write_all(READY).unwrap();
        let Takeover::Killed { successor, .. } = &mut takeover else { panic!("{takeover:?}") };
        successor.child.wait().unwrap();
        assert_eq!(takeover.advance(Instant::now(), &|_| {}), Step::Wait);
        assert!(matches!(takeover, Takeover::Ended { .. }));
        assert_eq!(takeover.readiness(), Readiness::Killed);
        assert_eq!(takeover.readiness(), Readiness::NotReady);
    }
}
