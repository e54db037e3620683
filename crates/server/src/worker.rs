//! One thread: one loop, one slab of connections, its own listeners.
//!
//! Shares nothing that changes with any other worker.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use cannery_eventloop::clock::Clock;
use cannery_eventloop::{Event, EventLoop, Listener, Readiness, Token, Waker};
use cannery_site::Scratch;
use cannery_wire::{Output, ServerFields};

use crate::config::{Config, Timeouts};
use crate::connection::{Connection, Outcome, RECEIVE_BYTES, Shared};
use crate::content::Content;
use crate::error::StartError;
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
pub(crate) struct Plan {
    addresses: Vec<SocketAddr>,
    content: Arc<Content>,
    fields: Vec<(&'static str, &'static str)>,
    timeouts: Option<Timeouts>,
    drain: Duration,
    stop: Arc<StopOrder>,
    waker: Waker,
}

impl Plan {
    pub(crate) fn new(
        config: &Config,
        addresses: &[SocketAddr],
        content: Arc<Content>,
        stop: Arc<StopOrder>,
        waker: Waker,
    ) -> Plan {
        let fields = config.security_headers.fields();
        let (timeouts, drain) = (config.timeouts, config.drain);
        Plan { addresses: addresses.to_vec(), content, fields, timeouts, drain, stop, waker }
    }
}

/// The life of a worker's thread. Tells how its start went, and serves if it went well.
#[allow(clippy::needless_pass_by_value, reason = "the main thread waits until every sender is gone")]
pub(crate) fn run(plan: Plan, started: mpsc::Sender<Result<(), StartError>>) {
    let (word, worker) = match Worker::new(plan) {
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

/// One serving thread.
struct Worker {
    events: EventLoop,
    clock: Clock,
    listeners: Vec<Listener>,
    connections: Slab<Connection>,
    shared: Shared,
    stop: Arc<StopOrder>,
    drain: Duration,
    next_tick: Instant,
    /// Whether the last accept found no descriptor: tried again at each tick, not in between.
    out_of_descriptors: bool,
}

impl Worker {
    /// Opens what the worker needs, in the thread that will use it.
    fn new(plan: Plan) -> Result<Worker, StartError> {
        // Only a matter of speed: where a sandbox forbids it, the shared table serves.
        let _ = cannery_eventloop::own_descriptors();
        let mut events = EventLoop::new(plan.waker).map_err(StartError::EventLoop)?;
        let mut listeners = Vec::new();
        for (number, address) in (0..).zip(plan.addresses) {
            let listener =
                Listener::bind(address).map_err(|source| StartError::Listen { address, source })?;
            events.add_listener(&listener, number).map_err(StartError::EventLoop)?;
            listeners.push(listener);
        }
        let mut clock = Clock::new();
        let now = clock.read();
        let shared = Shared {
            content: plan.content,
            fields: ServerFields::new(&plan.fields, now.unix_seconds),
            scratch: Scratch::default(),
            output: Output::new(),
            input: vec![0; RECEIVE_BYTES].into(),
            timeouts: plan.timeouts,
            now: now.instant,
        };
        Ok(Worker {
            events,
            clock,
            listeners,
            connections: Slab::new(),
            shared,
            stop: plan.stop,
            drain: plan.drain,
            next_tick: now.instant + TICK,
            out_of_descriptors: false,
        })
    }

    /// Serves until the order to stop, then lets connections finish what they are sending.
    fn run(mut self) {
        while !self.stop.is_given() {
            self.turn(None);
        }
        self.listeners.clear();
        self.connections.retain(|connection| connection.drain() == Outcome::Open);
        let end = self.clock.read().instant + self.drain;
        while !self.connections.is_empty() && self.shared.now < end {
            self.turn(Some(end));
        }
    }

    /// Waits for events and handles them.
    fn turn(&mut self, end: Option<Instant>) {
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
        let now = self.clock.read();
        self.shared.now = now.instant;
        self.shared.fields.set_time(now.unix_seconds);
        while let Some(event) = self.events.next_event() {
            match event {
                Event::Ready(token, readiness) => self.go_on(token, readiness),
                Event::Acceptable(number) => self.accept(number),
                Event::Woken => {}
            }
        }
        if self.shared.now >= self.next_tick {
            self.tick();
        }
    }

    #[inline]
    fn go_on(&mut self, token: Token, readiness: Readiness) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        if readiness.broken || connection.turn(&mut self.shared, readiness.ended) == Outcome::Closed {
            self.connections.remove(token);
        }
    }

    /// Accepts all connections that wait.
    fn accept(&mut self, number: u32) {
        while let Some(listener) = self.listeners.get(number as usize) {
            match listener.accept() {
                Ok(Some(socket)) => self.begin(Connection::new(socket, &self.shared)),
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

    fn begin(&mut self, connection: Connection) {
        let events = &mut self.events;
        // Where the kernel cannot watch it, the connection is closed: the peer will try again.
        let _ = self.connections.insert(|token| {
            events.add_socket(connection.socket(), token)?;
            Ok::<_, io::Error>(connection)
        });
    }

    fn tick(&mut self) {
        self.next_tick = self.shared.now + TICK;
        let shared = &mut self.shared;
        self.connections.retain(|connection| connection.check_deadline(shared) == Outcome::Open);
        if std::mem::take(&mut self.out_of_descriptors) {
            (0..).take(self.listeners.len()).for_each(|number| self.accept(number));
        }
    }
}
