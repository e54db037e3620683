//! One thread: one loop, one slab of connections, its own listeners.
//!
//! Does not know whether its loop is the kernel's or a simulation. Shares nothing that changes with any other worker.

use std::collections::VecDeque;
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cannery_eventloop::{Accepted, Event, EventLoop, Listener, Neighbours, Readiness, Token, Waker};
use cannery_secure::Context;
use cannery_site::Scratch;
use cannery_wire::Output;
use cannery_wire::h2::HeadStore;
use cannery_wire::limits::HANDSHAKES_PER_TURN_MAX;

use crate::cage::{Cage, Role};
use crate::config::{Config, ListenerKind, Timeouts};
use crate::connection::{Connection, Outcome, TURN_BYTES_MAX};
use crate::current::Current;
use crate::due::Due;
use crate::error::StartError;
use crate::io_choice::Loop;
use crate::observer::{Closed, Observer};
use crate::receiving::Share;
use crate::shared::{AddedFields, Fields, Shared};
use crate::slab::Slab;
use crate::transport::Buffers;
use crate::with_loop::WithLoop;

/// How often deadlines are looked at while there are connections: a peer may be late by as much.
const TICK: Duration = Duration::from_secs(1);

/// Connections that one turn accepts from a listener: thousands may wait, and those who are connected already
/// shall not wait for all of them.
pub(crate) const ACCEPTED_MAX: usize = 128;

/// Late connections that one turn sees to: each takes some microseconds, and nobody else shall notice that
/// thousands of peers, who came together, are late together.
pub(crate) const LATE_CONNECTIONS_MAX: usize = 64;

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
    /// What is spoken on the connections of each.
    kinds: Vec<ListenerKind>,
    current: Arc<Current>,
    fields: AddedFields,
    https_port: Option<u16>,
    http1: bool,
    http2: bool,
    tls: Option<Context>,
    timeouts: Option<Timeouts>,
    drain: Duration,
    stop: Arc<StopOrder>,
    connections_max: usize,
    proxied: bool,
    /// Whether the worker has a table of descriptors of its own, with nothing in it but what serving needs.
    owns_descriptors: bool,
    observer: Observer,
    turn_bytes_max: u64,
    neighbours: Option<Neighbours>,
}

impl<L> Plan<L> {
    pub(crate) fn new(
        config: &Config,
        listeners: impl IntoIterator<Item = (ListenerKind, L)>,
        current: Arc<Current>,
        stop: Arc<StopOrder>,
        observer: Observer,
    ) -> Plan<L> {
        let (kinds, listeners) = listeners.into_iter().unzip();
        let headers = config.security_headers;
        let in_the_clear = if config.has_tls() { headers.without_tls() } else { headers };
        let fields = AddedFields { plain: in_the_clear.fields(), secured: headers.fields() };
        let (timeouts, drain) = (config.timeouts, config.drain);
        let of_all = config.connections_max.map_or(usize::MAX, NonZeroUsize::get);
        let connections_max = of_all.div_ceil(config.threads.get());
        let proxied = config.proxy_protocol;
        Plan {
            listeners,
            kinds,
            current,
            fields,
            https_port: None,
            http1: config.http1,
            http2: config.http2,
            tls: None,
            timeouts,
            drain,
            stop,
            connections_max,
            proxied,
            owns_descriptors: true,
            observer,
            turn_bytes_max: TURN_BYTES_MAX,
            neighbours: None,
        }
    }

    /// The same for a worker that shares connections with others.
    pub(crate) fn beside(self, neighbours: Neighbours) -> Plan<L> {
        Plan { neighbours: Some(neighbours), ..self }
    }

    /// The same for a server that sends what is asked in the clear to this port of `https`.
    pub(crate) fn with_https_port(self, https_port: Option<u16>) -> Plan<L> {
        Plan { https_port, ..self }
    }

    /// The same with what makes TLS of its connections.
    pub(crate) fn with_tls(self, tls: Option<Context>) -> Plan<L> {
        Plan { tls, ..self }
    }

    /// The same with another bound on what a connection may receive and send in a turn.
    #[cfg(test)]
    pub(crate) fn with_turn_bytes_max(self, turn_bytes_max: u64) -> Plan<L> {
        Plan { turn_bytes_max, ..self }
    }

    /// The same with somebody who watches.
    #[cfg(test)]
    pub(crate) fn with_observer(self, observer: Observer) -> Plan<L> {
        Plan { observer, ..self }
    }

    /// The same for a listener of operators: they ask without a proxy between, and their worker may ask others.
    pub(crate) fn for_operators(self) -> Plan<L> {
        Plan { proxied: false, owns_descriptors: false, ..self }
    }
}

/// Starts a thread for each plan, on such a loop, and waits until all of them serve.
pub(crate) fn start_all(
    name: &str,
    io: Loop,
    plans: Vec<(Plan, Waker)>,
    cage: &Cage,
) -> Result<Vec<JoinHandle<()>>, StartError> {
    let (started, starts) = mpsc::channel();
    let mut threads = Vec::new();
    for (number, (plan, waker)) in plans.into_iter().enumerate() {
        let (started, cage) = (started.clone(), cage.clone());
        let thread = std::thread::Builder::new().name(format!("{name}-{number}"));
        let thread = thread.spawn(move || run(io, plan, waker, &cage, started));
        threads.push(thread.map_err(StartError::Thread)?);
    }
    drop(started);
    let all_started: Result<Vec<()>, StartError> = starts.into_iter().collect();
    all_started.map(|_| threads)
}

/// The life of a worker's thread. Tells how its start went, and serves if it went well.
fn run(io: Loop, mut plan: Plan, waker: Waker, cage: &Cage, started: mpsc::Sender<Result<(), StartError>>) {
    let neighbours = plan.neighbours.take();
    if plan.owns_descriptors {
        // Only a matter of speed: where a sandbox forbids it, the shared table serves.
        let of_neighbours = neighbours.iter().flat_map(Neighbours::descriptors);
        let kept = plan.listeners.iter().map(AsFd::as_fd).chain([waker.as_fd()]).chain(of_neighbours);
        let _ = cannery_eventloop::own_descriptors(kept);
    }
    io.make(waker, neighbours, Life { plan, cage, started });
}

/// What a thread needs besides a loop.
struct Life<'a> {
    plan: Plan,
    cage: &'a Cage,
    /// The main thread waits until every sender is gone.
    started: mpsc::Sender<Result<(), StartError>>,
}

impl WithLoop for Life<'_> {
    /// Serves on a loop that was just made, if it was. From then on the thread can do nothing else.
    fn live<L: EventLoop<Listener = Listener>>(self, events: io::Result<L>) {
        let Life { plan, cage, started } = self;
        let worker = events.and_then(|events| Worker::new(events, plan)).map_err(StartError::EventLoop);
        let worker = worker.and_then(|worker| {
            cage.enter_thread(Role::Worker)?;
            Ok(worker)
        });
        let (word, worker) = match worker {
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
}

/// One serving thread.
pub(crate) struct Worker<L: EventLoop> {
    events: L,
    listeners: Vec<L::Listener>,
    /// What is spoken on the connections of each.
    kinds: Vec<ListenerKind>,
    connections: Slab<Connection<L::Socket>>,
    /// Whose turn it is, or was last.
    at: Option<Token>,
    shared: Shared,
    current: Arc<Current>,
    stop: Arc<StopOrder>,
    drain: Duration,
    next_tick: Instant,
    /// Connections that go on in the next turn without an event, each once.
    put_off: Vec<Token>,
    /// Connections that wait for their handshake's turn, each once, in the order in which they came.
    handshakes: VecDeque<Token>,
    /// The slot where the look for late connections goes on, while it is not at its end.
    next_look: Option<u32>,
    /// How many connections there may be.
    connections_max: usize,
    /// Whether somebody waits to be accepted whom there was no place for.
    crowding: Crowding,
}

/// Whether somebody waits to be accepted whom there was no place for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Crowding {
    /// Nobody.
    None,
    /// There are as many connections as there may be: looked at again when one ends.
    Full,
    /// There are more than one turn accepts: looked at again in the next, which does not wait.
    Turn,
    /// The kernel had no descriptor, or no memory: looked at again at each tick, since to ask in each turn
    /// would spin.
    Kernel,
}

impl<L: EventLoop> Worker<L> {
    /// A worker on this loop.
    pub(crate) fn new(mut events: L, plan: Plan<L::Listener>) -> io::Result<Worker<L>> {
        events.name_peers(plan.observer.names_peers());
        for (number, listener) in (0..).zip(&plan.listeners) {
            events.add_listener(listener, number)?;
        }
        let now = events.now();
        let mut shared = Shared {
            content: plan.current.get(),
            fields: Fields::new(&plan.fields, now.unix_seconds),
            scratch: Scratch::default(),
            heads: HeadStore::new(),
            http1: plan.http1,
            http2: plan.http2,
            content_since: now.instant,
            output: Output::new(),
            due: Due::new(),
            buffers: Buffers::new(),
            timeouts: plan.timeouts,
            https_port: plan.https_port,
            proxied: plan.proxied,
            now: now.instant,
            idle_until: None,
            seconds: now.unix_seconds,
            observer: plan.observer,
            turn_bytes_max: plan.turn_bytes_max,
            share: Share { bytes: plan.turn_bytes_max, handshakes: HANDSHAKES_PER_TURN_MAX },
            tls: plan.tls,
        };
        shared.set_time(now);
        shared.set_seconds(now.unix_seconds);
        Ok(Worker {
            events,
            listeners: plan.listeners,
            kinds: plan.kinds,
            connections: Slab::new(),
            at: None,
            put_off: Vec::new(),
            handshakes: VecDeque::new(),
            shared,
            current: plan.current,
            stop: plan.stop,
            drain: plan.drain,
            next_tick: now.instant + TICK,
            next_look: None,
            connections_max: plan.connections_max,
            crowding: Crowding::None,
        })
    }

    /// Serves until the order to stop, then lets connections finish what they are sending.
    pub(crate) fn run(mut self) {
        while !self.stop.is_given() {
            self.guarded_turn(None);
        }
        let end = self.begin_drain();
        while !self.is_idle() && self.now() < end {
            self.guarded_turn(Some(end));
        }
        self.shared.observer.finish();
    }

    /// A turn in which a fault of ours ends the connection that has met it, and no other: nothing that a peer sends is
    /// meant to make us panic, and if something does all the same, it shall not take everybody else's connection.
    pub(crate) fn guarded_turn(&mut self, end: Option<Instant>) {
        let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.turn(end))) else { return };
        // The panic itself has been said by then. Where it was nobody's, it would only come again.
        let Some(token) = self.at.take() else { resume_unwind(panic) };
        self.shared.begin_anew();
        self.end(token, Closed::Broken);
        self.send_due();
    }

    /// Whether there is no connection.
    pub(crate) fn is_idle(&self) -> bool {
        self.connections.is_empty()
    }

    /// How many connections there are.
    #[cfg(test)]
    pub(crate) fn connections(&self) -> usize {
        self.connections.len()
    }

    /// The time of the last turn.
    pub(crate) fn now(&self) -> Instant {
        self.shared.now
    }

    /// Accepts nobody any more, and lets connections finish what they are sending; tells until when.
    pub(crate) fn begin_drain(&mut self) -> Instant {
        for number in 0..self.listeners.len() {
            // Where it fails, it was not watched.
            let _ = self.events.remove_listener(&self.listeners[number]);
            // We may have been woken for people whom nobody else would be woken for again: all of them.
            self.accept(u32::try_from(number).unwrap_or(u32::MAX), usize::MAX);
        }
        for listener in self.listeners.drain(..) {
            self.events.end_listening(listener);
        }
        self.take_over();
        let mut slot = 0;
        while let Some(token) = self.connections.find_from(slot, |_| true) {
            slot = token.slot + 1;
            let Some(connection) = self.connections.get_mut(token) else { continue };
            let outcome = connection.drain(&mut self.shared);
            self.settle(token, outcome, true, Closed::InOrder);
        }
        self.send_due();
        self.events.now().instant + self.drain
    }

    /// Waits for events and handles them.
    pub(crate) fn turn(&mut self, end: Option<Instant>) {
        let ticking = !self.connections.is_empty()
            || self.crowding != Crowding::None
            || self.shared.observer.has_pending();
        let tick = ticking.then_some(self.next_tick);
        let more_wait = self.crowding == Crowding::Turn;
        let put_off = self.put_off.len();
        let is_waited_for = !self.handshakes.is_empty();
        let is_busy = more_wait || put_off > 0 || is_waited_for || self.next_look.is_some();
        let look = is_busy.then_some(self.shared.now);
        let until = look.into_iter().chain(tick).chain(end).min();
        // Counted from the turn before: waking a moment late is better than asking for the time twice.
        let timeout = until.map(|until| until.saturating_duration_since(self.shared.now));
        if self.events.wait(timeout).is_err() {
            // Only a fault of ours makes this call fail; to go on waiting would spin.
            self.stop.give();
            return;
        }
        let now = self.events.now();
        self.shared.set_time(now);
        // Who waits since an earlier turn comes before who comes in this one.
        self.shared.share.handshakes = if is_waited_for { 0 } else { HANDSHAKES_PER_TURN_MAX };
        while let Some(event) = self.events.next_event() {
            match event {
                Event::Ready(token, readiness) => self.go_on(token, readiness),
                Event::Acceptable(number) => {
                    self.send_due();
                    self.accept(number, ACCEPTED_MAX);
                }
                Event::Woken => {
                    self.send_due();
                    self.take_up_release();
                    self.take_over();
                }
            }
        }
        self.send_due();
        if put_off > 0 {
            self.take_up(put_off);
        }
        if is_waited_for {
            self.shake_hands();
        }
        self.send_due();
        if self.shared.observer.asks_for_time() {
            let took = self.events.now().instant - self.shared.now;
            self.shared.observer.turned(took);
        }
        if self.shared.now >= self.next_tick {
            self.tick();
        } else if more_wait
            || self.crowding == Crowding::Full && self.connections.len() < self.connections_max
        {
            self.accept_waiting();
        }
        if let Some(slot) = self.next_look {
            self.end_late(slot);
            self.send_due();
        }
    }

    /// Sends the answers that wait for each other.
    #[inline]
    fn send_due(&mut self) {
        if !self.shared.due.is_empty() {
            self.send_all_due();
        }
    }

    fn send_all_due(&mut self) {
        while let Some(due) = self.shared.due.take() {
            let token = due.whose;
            let Some(connection) = self.connections.get_mut(token) else { continue };
            self.at = Some(token);
            if connection.send_due(due, &mut self.shared) != Outcome::Open {
                self.end(token, Closed::InOrder);
            }
        }
    }

    /// Remembers whose the answer is that was let wait last.
    #[inline]
    fn let_wait(&mut self, token: Token) {
        if !self.shared.due.belongs_to(token) {
            self.send_all_due();
        }
    }

    /// Serves the release that is current now.
    fn take_up_release(&mut self) {
        let content = self.current.get();
        if !Arc::ptr_eq(&content, &self.shared.content) {
            self.shared.content = content;
            self.shared.content_since = self.shared.now;
        }
    }

    /// Lets a connection go on in the next turn.
    #[cold]
    fn put_off(&mut self, token: Token, ended: bool) {
        if self.connections.get_mut(token).is_some_and(|connection| connection.put_off(ended)) {
            self.put_off.push(token);
        }
    }

    /// Lets a connection go on when there is time for its handshake.
    #[cold]
    fn put_off_handshake(&mut self, token: Token, ended: bool) {
        if self.connections.get_mut(token).is_some_and(|connection| connection.put_off(ended)) {
            self.handshakes.push_back(token);
        }
    }

    /// Goes on with those who have waited longest for their handshake's turn, as many as one turn may.
    #[cold]
    fn shake_hands(&mut self) {
        self.shared.share.handshakes = HANDSHAKES_PER_TURN_MAX;
        while self.shared.share.handshakes > 0
            && let Some(token) = self.handshakes.pop_front()
        {
            self.take_up_one(token);
        }
    }

    fn take_up_one(&mut self, token: Token) {
        if let Some(connection) = self.connections.get_mut(token) {
            let ended = connection.take_up();
            self.go_on(token, Readiness { ended, ..Readiness::default() });
        }
    }

    /// Goes on with the first so many that were put off.
    #[cold]
    fn take_up(&mut self, count: usize) {
        for place in 0..count {
            self.take_up_one(self.put_off[place]);
        }
        self.put_off.drain(..count);
    }

    #[inline]
    fn go_on(&mut self, token: Token, readiness: Readiness) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        if connection.is_due() {
            // Nothing that it does may overtake its answer.
            return self.go_on_behind_due(token, readiness);
        }
        self.at = Some(token);
        let closed = if readiness.broken {
            Closed::Broken
        } else if connection.is_put_off() {
            // Its turn comes, and comes once.
            connection.put_off(readiness.ended);
            return;
        } else {
            let outcome = connection.turn(&mut self.shared, readiness.ended);
            match outcome {
                Outcome::Due => self.let_wait(token),
                Outcome::Open => {}
                other => self.settle(token, other, readiness.ended, Closed::InOrder),
            }
            return;
        };
        self.end(token, closed);
    }

    #[cold]
    fn go_on_behind_due(&mut self, token: Token, readiness: Readiness) {
        self.send_due();
        self.go_on(token, readiness);
    }

    /// Does what came of a connection. Whether its peer has `ended` is to be read for by whoever goes on; without an
    /// event nobody knows, so that it may have.
    fn settle(&mut self, token: Token, outcome: Outcome, ended: bool, closed: Closed) {
        match outcome {
            Outcome::Open => {}
            Outcome::Due => self.let_wait(token),
            Outcome::PutOff => self.put_off(token, ended),
            Outcome::Handshake => self.put_off_handshake(token, ended),
            Outcome::Closed => self.end(token, closed),
        }
    }

    fn end(&mut self, token: Token, closed: Closed) {
        let was_late = self.connections.get_mut(token).is_some_and(|connection| connection.was_late());
        let timed_out = was_late && closed == Closed::InOrder;
        self.shared.observer.closed(if timed_out { Closed::TimedOut } else { closed });
        self.connections.remove(token);
        self.events.set_load(self.connections.len());
    }

    /// Accepts connections that wait, up to so many.
    fn accept(&mut self, number: u32, accepted_max: usize) {
        for _ in 0..accepted_max {
            let Some(listener) = self.listeners.get(number as usize) else { return };
            if self.connections.len() >= self.connections_max {
                self.crowding = Crowding::Full;
                return;
            }
            match self.events.accept(listener) {
                Ok(Some(accepted)) => {
                    let kind = self.kinds.get(number as usize).copied().unwrap_or(ListenerKind::Plain);
                    // Workers may number their listeners differently: what they tell each other is the kind.
                    if let Some(accepted) = self.events.hand_over(accepted, kind.number()) {
                        self.begin(accepted, kind);
                    }
                }
                Ok(None) => return,
                // The peer gave up before we looked: the next one may not have.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    self.crowding = Crowding::Kernel;
                    return;
                }
            }
        }
        self.crowding = Crowding::Turn;
    }

    /// Begins with the connections that other workers have handed to this one.
    fn take_over(&mut self) {
        while let Some((number, accepted)) = self.events.take_over() {
            self.begin(accepted, ListenerKind::of_number(number));
        }
    }

    fn begin(&mut self, accepted: Accepted<L::Socket>, kind: ListenerKind) {
        let connection = Connection::new(accepted, kind, &self.shared);
        let events = &mut self.events;
        // Where the kernel cannot watch it, the connection is closed: the peer will try again.
        let begun = self.connections.insert(|token| {
            events.add_socket(connection.socket(), token)?;
            Ok::<_, io::Error>(connection)
        });
        if begun.is_ok() {
            self.shared.observer.accepted();
            self.events.set_load(self.connections.len());
        }
    }

    fn tick(&mut self) {
        self.next_tick = self.shared.now + TICK;
        self.shared.observer.tick();
        self.next_look = Some(0);
    }

    /// Sees to connections whose peers are late, from a slot on, for as long as one turn may take for it.
    fn end_late(&mut self, mut slot: u32) {
        let crowded = matches!(self.crowding, Crowding::Full | Crowding::Kernel);
        self.next_look = None;
        for seen in 1..=LATE_CONNECTIONS_MAX {
            let is_late = |connection: &Connection<_>| connection.is_late(crowded, &self.shared);
            let Some(token) = self.connections.find_from(slot, is_late) else { break };
            slot = token.slot + 1;
            self.next_look = (seen == LATE_CONNECTIONS_MAX).then_some(slot);
            let Some(connection) = self.connections.get_mut(token) else { continue };
            self.at = Some(token);
            let outcome = connection.end_wait(&mut self.shared);
            self.settle(token, outcome, true, Closed::TimedOut);
        }
        if crowded {
            self.accept_waiting();
        }
    }

    /// Tries again to accept those whom there was no place for.
    fn accept_waiting(&mut self) {
        self.crowding = Crowding::None;
        (0..).take(self.listeners.len()).for_each(|number| self.accept(number, ACCEPTED_MAX));
    }
}
