//! One thread: one loop, one slab of connections, its own listeners.
//!
//! Does not know whether its loop is the kernel's or a simulation. Shares nothing that changes with any other worker.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use cannery_eventloop::{Accepted, Epoll, Event, EventLoop, Listener, Readiness, Token, Waker};
use cannery_site::Scratch;
use cannery_wire::{Output, ServerFields};

use crate::config::{Config, Timeouts};
use crate::connection::{Connection, Outcome, RECEIVE_BYTES, Shared};
use crate::current::Current;
use crate::error::StartError;
use crate::observer::{Closed, Observer};
use crate::slab::Slab;

/// How often deadlines are looked at while there are connections: a peer may be late by as much.
const TICK: Duration = Duration::from_secs(1);

/// The order to stop, which a worker looks at when it is woken.
#[derive(Debug, Default)]
pub(crate) struct StopOrder(AtomicBool);

impl StopOrder {
    pub(crate) fn give(&self) {
        self.0.store(true, Ordering::Release);
    }

    fn is_given(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// What a worker needs to know before it starts: all that threads share, and nothing that changes.
pub(crate) struct Plan<L = Listener> {
    listeners: Vec<L>,
    current: Arc<Current>,
    fields: Vec<(&'static str, &'static str)>,
    timeouts: Option<Timeouts>,
    drain: Duration,
    stop: Arc<StopOrder>,
    waker: Waker,
}

impl<L> Plan<L> {
    pub(crate) fn new(
        config: &Config,
        listeners: Vec<L>,
        current: Arc<Current>,
        stop: Arc<StopOrder>,
        waker: Waker,
    ) -> Plan<L> {
        let fields = config.security_headers.fields();
        let (timeouts, drain) = (config.timeouts, config.drain);
        Plan { listeners, current, fields, timeouts, drain, stop, waker }
    }
}

/// The life of a worker's thread. Tells how its start went, and serves if it went well.
#[allow(clippy::needless_pass_by_value, reason = "the main thread waits until every sender is gone")]
pub(crate) fn run(plan: Plan, started: mpsc::Sender<Result<(), StartError>>) {
    let (word, worker) = match start(plan) {
        Ok(worker) => (Ok(()), Some(worker)),
        Err(error) => (Err(error), None),
    };
    // The main thread waits for this word: it is there to take it.
    let _ = started.send(word);
    drop(started);
    if let Some(worker) = worker {
        worker.run();
    }
}

/// Opens what the worker needs, in the thread that will use it.
fn start(plan: Plan) -> Result<Worker<Epoll>, StartError> {
    // Only a matter of speed: where a sandbox forbids it, the shared table serves.
    let _ = cannery_eventloop::own_descriptors();
    let events = Epoll::new(plan.waker.clone()).map_err(StartError::EventLoop)?;
    Worker::new(events, plan).map_err(StartError::EventLoop)
}

/// One serving thread.
pub(crate) struct Worker<L: EventLoop> {
    events: L,
    listeners: Vec<L::Listener>,
    connections: Slab<Connection<L::Socket>>,
    shared: Shared,
    current: Arc<Current>,
    stop: Arc<StopOrder>,
    drain: Duration,
    next_tick: Instant,
    /// Whether the last accept found no descriptor: tried again at each tick, not in between.
    out_of_descriptors: bool,
}

impl<L: EventLoop> Worker<L> {
    /// A worker on this loop.
    pub(crate) fn new(mut events: L, plan: Plan<L::Listener>) -> io::Result<Worker<L>> {
        for (number, listener) in (0..).zip(&plan.listeners) {
            events.add_listener(listener, number)?;
        }
        let now = events.now();
        let shared = Shared {
            content: plan.current.get(),
            fields: ServerFields::new(&plan.fields, now.unix_seconds),
            scratch: Scratch::default(),
            output: Output::new(),
            input: vec![0; RECEIVE_BYTES].into(),
            timeouts: plan.timeouts,
            now: now.instant,
            observer: Observer::default(),
        };
        Ok(Worker {
            events,
            listeners: plan.listeners,
            connections: Slab::new(),
            shared,
            current: plan.current,
            stop: plan.stop,
            drain: plan.drain,
            next_tick: now.instant + TICK,
            out_of_descriptors: false,
        })
    }

    /// Serves until the order to stop, then lets connections finish what they are sending.
    pub(crate) fn run(mut self) {
        while !self.stop.is_given() {
            self.turn(None);
        }
        for listener in self.listeners.drain(..) {
            self.events.end_listening(listener);
        }
        self.connections.retain(|connection| connection.drain() == Outcome::Open);
        let end = self.events.now().instant + self.drain;
        while !self.connections.is_empty() && self.shared.now < end {
            self.turn(Some(end));
        }
    }

    /// Waits for events and handles them.
    pub(crate) fn turn(&mut self, end: Option<Instant>) {
        let ticking = !self.connections.is_empty() || self.out_of_descriptors;
        let tick = ticking.then_some(self.next_tick);
        let until = tick.into_iter().chain(end).min();
        // Counted from the turn before: waking a moment late is better than asking for the time twice.
        let timeout = until.map(|until| until.saturating_duration_since(self.shared.now));
        if self.events.wait(timeout).is_err() {
            // Only a fault of ours makes this call fail; to go on waiting would spin.
            self.stop.give();
            return;
        }
        let now = self.events.now();
        self.shared.now = now.instant;
        self.shared.fields.set_time(now.unix_seconds);
        while let Some(event) = self.events.next_event() {
            match event {
                Event::Ready(token, readiness) => self.go_on(token, readiness),
                Event::Acceptable(number) => self.accept(number),
                Event::Woken => self.shared.content = self.current.get(),
            }
        }
        if self.shared.now >= self.next_tick {
            self.tick();
        }
    }

    #[inline]
    fn go_on(&mut self, token: Token, readiness: Readiness) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        let closed = if readiness.broken {
            Closed::Broken
        } else {
            match connection.turn(&mut self.shared, readiness.ended) {
                Outcome::Open => return,
                Outcome::Closed => Closed::InOrder,
            }
        };
        self.shared.observer.closed(closed);
        self.connections.remove(token);
    }

    /// Accepts all connections that wait.
    fn accept(&mut self, number: u32) {
        while let Some(listener) = self.listeners.get(number as usize) {
            match self.events.accept(listener) {
                Ok(Some(accepted)) => self.begin(accepted),
                Ok(None) => return,
                // The peer gave up before we looked: the next one may not have.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    self.out_of_descriptors = true;
                    return;
                }
            }
        }
    }

    fn begin(&mut self, accepted: Accepted<L::Socket>) {
        let connection = Connection::new(accepted, &self.shared);
        let events = &mut self.events;
        // Where the kernel cannot watch it, the connection is closed: the peer will try again.
        let begun = self.connections.insert(|token| {
            events.add_socket(connection.socket(), token)?;
            Ok::<_, io::Error>(connection)
        });
        if begun.is_ok() {
            self.shared.observer.accepted();
        }
    }

    fn tick(&mut self) {
        self.next_tick = self.shared.now + TICK;
        let shared = &mut self.shared;
        self.connections.retain(|connection| {
            let goes_on = connection.check_deadline(shared) == Outcome::Open;
            if !goes_on {
                shared.observer.closed(Closed::TimedOut);
            }
            goes_on
        });
        if std::mem::take(&mut self.out_of_descriptors) {
            (0..).take(self.listeners.len()).for_each(|number| self.accept(number));
        }
    }
}
