//! Several processes on the same addresses: starts them, starts one again that died, stops all of them.
//!
//! Serves nothing itself. It holds the listening sockets, so that nobody is refused while a process is
//! gone: who comes then waits a moment. Never forks without starting a program.

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use cannery_eventloop::Listener;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;

use crate::notice::Notice;
use crate::notify::{Notify, SOCKET_VARIABLE};

/// The variable that names the descriptors of inherited listeners, with commas between.
pub const LISTENERS_VARIABLE: &str = "CANNERY_LISTENERS";

/// A process that lived so long did not die of its start.
const GOOD_LIFE: Duration = Duration::from_secs(10);
/// The pause before a process is started again that died young, doubled each time.
const PAUSE: Duration = Duration::from_millis(100);
/// It grows no longer than this.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// What processes get beyond the time to drain, before they are killed.
const GRACE: Duration = Duration::from_secs(2);

/// Keeps processes running.
pub struct Supervisor<'a> {
    /// Makes the command of the process of a number, without its listeners.
    pub command: &'a dyn Fn(usize) -> Command,
    /// How long connections may finish what they are sending.
    pub drain: Duration,
    /// Who is told of what happens.
    pub tell: &'a dyn Fn(&Notice),
}

/// The place of one process.
struct Place {
    number: usize,
    listeners: Vec<Listener>,
    child: Option<Child>,
    started: Instant,
    pause: Duration,
    /// When it is to be started again.
    again: Option<Instant>,
}

impl Supervisor<'_> {
    /// Starts a process for each set of listeners, and keeps them running until SIGINT or SIGTERM. `ready` is
    /// called when all of them serve.
    ///
    /// # Errors
    /// A process cannot be started at all.
    pub fn run(&self, of_processes: Vec<Vec<Listener>>, ready: impl FnOnce()) -> io::Result<()> {
        let signals = signals()?;
        let door = Door::open()?;
        let mut places: Vec<Place> = of_processes
            .into_iter()
            .enumerate()
            .map(|(number, listeners)| Place::new(number, listeners))
            .collect();
        for place in &mut places {
            place.start(self.command, &door.name)?;
        }
        let notify = Notify::from_environment()?;
        if let Some(life) = notify.signs_of_life() {
            std::thread::Builder::new().name("watchdog".into()).spawn(life)?;
        }
        if self.await_ready(&mut places, &door, &signals)? {
            ready();
            notify.ready("serving");
            self.keep(&mut places, &signals, &door.name);
        }
        notify.stopping();
        self.stop(places, &signals);
        Ok(())
    }

    /// Waits until every process has said that it serves; false if the order to stop came first.
    fn await_ready(&self, places: &mut [Place], door: &Door, signals: &Receiver<i32>) -> io::Result<bool> {
        let mut left = places.len();
        while left > 0 {
            left -= door.count_ready()?;
            match signals.recv_timeout(Duration::from_millis(20)) {
                Ok(SIGINT | SIGTERM) => return Ok(false),
                Ok(SIGCHLD) => {
                    // One that dies before it ever served has said why: all would.
                    if let Some((number, status)) = places.iter_mut().find_map(Place::died) {
                        let why = io::Error::other(format!("process {number} ended at its start: {status}"));
                        self.kill(places);
                        return Err(why);
                    }
                }
                Ok(_) | Err(_) => {}
            }
        }
        Ok(true)
    }

    /// Starts again who dies, and hands signals on, until the order to stop.
    fn keep(&self, places: &mut [Place], signals: &Receiver<i32>, door: &str) {
        loop {
            let next = places.iter().filter_map(|place| place.again).min();
            let patience =
                next.map_or(Duration::from_secs(3600), |at| at.saturating_duration_since(Instant::now()));
            match signals.recv_timeout(patience) {
                Ok(SIGINT | SIGTERM) | Err(RecvTimeoutError::Disconnected) => return,
                Ok(SIGHUP) => signal_all(places, Signal::HUP),
                Ok(SIGUSR1) => signal_all(places, Signal::USR1),
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
            }
            for place in &mut *places {
                if let Some((number, status)) = place.died() {
                    let pause = place.mourn();
                    (self.tell)(&Notice::ProcessDied { number, status: status.to_string(), pause });
                }
                if place.again.is_some_and(|at| at <= Instant::now())
                    && let Err(error) = place.start(self.command, door)
                {
                    let pause = place.mourn();
                    (self.tell)(&Notice::ProcessDied {
                        number: place.number,
                        status: error.to_string(),
                        pause,
                    });
                }
            }
        }
    }

    /// Stops all: nobody new, time to drain, then the end.
    fn stop(&self, mut places: Vec<Place>, signals: &Receiver<i32>) {
        for place in &mut places {
            place.listeners.drain(..).for_each(Listener::end);
        }
        signal_all(&mut places, Signal::TERM);
        let end = Instant::now() + self.drain + GRACE;
        while places.iter_mut().any(Place::lives) {
            let patience = end.saturating_duration_since(Instant::now());
            match signals.recv_timeout(patience) {
                Ok(SIGCHLD) => {}
                Ok(SIGINT | SIGTERM) | Err(_) => {
                    self.kill(&mut places);
                    return;
                }
                Ok(_) => {}
            }
        }
    }

    #[allow(clippy::unused_self, reason = "reads as what the supervisor does")]
    fn kill(&self, places: &mut [Place]) {
        for place in places {
            if let Some(child) = &mut place.child {
                // It fails only where the process is gone already.
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    }
}

impl Place {
    fn new(number: usize, listeners: Vec<Listener>) -> Place {
        Place { number, listeners, child: None, started: Instant::now(), pause: PAUSE, again: None }
    }

    fn start(&mut self, command: &dyn Fn(usize) -> Command, door: &str) -> io::Result<()> {
        let numbers: Vec<String> = self
            .listeners
            .iter()
            .map(|listener| std::os::fd::AsFd::as_fd(listener).as_raw_fd().to_string())
            .collect();
        let mut command = command(self.number);
        command.env(LISTENERS_VARIABLE, numbers.join(",")).env(SOCKET_VARIABLE, door);
        // Left open for this process alone: the others have listeners of their own.
        for listener in &self.listeners {
            fcntl_setfd(listener, FdFlags::empty())?;
        }
        let child = command.spawn();
        for listener in &self.listeners {
            fcntl_setfd(listener, FdFlags::CLOEXEC)?;
        }
        self.child = Some(child?);
        self.started = Instant::now();
        self.again = None;
        Ok(())
    }

    /// How the process ended, if it has since this was last asked.
    fn died(&mut self) -> Option<(usize, ExitStatus)> {
        let status = self.child.as_mut()?.try_wait().ok()??;
        self.child = None;
        Some((self.number, status))
    }

    fn lives(&mut self) -> bool {
        self.died();
        self.child.is_some()
    }

    /// Plans to start the process again; tells after what pause.
    fn mourn(&mut self) -> Duration {
        self.pause =
            if self.started.elapsed() >= GOOD_LIFE { PAUSE } else { (self.pause * 2).min(PAUSE_MAX) };
        self.again = Some(Instant::now() + self.pause);
        self.pause
    }
}

fn signal_all(places: &mut [Place], signal: Signal) {
    for child in places.iter().filter_map(|place| place.child.as_ref()) {
        if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
            // It fails only where the process is gone already.
            let _ = kill_process(pid, signal);
        }
    }
}

/// Signals, as they come.
fn signals() -> io::Result<Receiver<i32>> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGCHLD])?;
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

/// Where the processes say that they serve.
struct Door {
    socket: UnixDatagram,
    /// As `NOTIFY_SOCKET` spells it.
    name: String,
}

impl Door {
    fn open() -> io::Result<Door> {
        use std::os::linux::net::SocketAddrExt;
        let name = format!("cannery-supervisor-{}", std::process::id());
        let address = std::os::unix::net::SocketAddr::from_abstract_name(&name)?;
        let socket = UnixDatagram::bind_addr(&address)?;
        socket.set_nonblocking(true)?;
        Ok(Door { socket, name: format!("@{name}") })
    }

    /// How many have said so since this was last asked.
    fn count_ready(&self) -> io::Result<usize> {
        let mut ready = 0;
        let mut buffer = [0; 512];
        loop {
            match self.socket.recv(&mut buffer) {
                Ok(bytes) if buffer[..bytes].starts_with(b"READY=1") => ready += 1,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(ready),
                Err(error) => return Err(error),
            }
        }
    }
}
