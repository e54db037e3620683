//! One thread: one loop, one slab of connections, its own listeners.
//!
//! Does not know whether its loop is the kernel's or a simulation. Shares nothing that changes with any other worker.
//! What it is told, how its thread starts and where its connections come from are in files of their own below.

mod accepting;
mod backend;
mod plan;
mod shedding;
mod slab;
mod standby;
mod start;

#[cfg(test)]
pub(crate) use backend::DefaultLoop;
pub use backend::{Backend, BackendChoice};

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use cannery_eventloop::{Event, EventLoop, Readiness, Token};
use cannery_site::Scratch;
use cannery_wire::Output;
use cannery_wire::h2::HeadStore;
use cannery_wire::limits::HANDSHAKES_PER_ITERATION_MAX;

pub(crate) use self::accepting::ACCEPTED_MAX;
pub(crate) use self::plan::{Plan, StopOrder};
pub(crate) use self::start::start_all;

use self::accepting::Crowding;
use self::standby::Standbys;
use crate::config::ListenerKind;
use crate::connection::{Buffers, Connection, Due, Fields, Memory, Outcome, Share, Shared};
use crate::observe::Closed;
use crate::process::Standby;
use crate::reload::Current;
use slab::Slab;

/// How often deadlines are looked at while there are connections: a peer may be late by as much.
const TICK: Duration = Duration::from_secs(1);

/// Late connections that one turn sees to: each takes some microseconds, and nobody else shall notice that
/// thousands of peers, who came together, are late together.
pub(crate) const LATE_CONNECTIONS_MAX: usize = 64;

/// One serving thread.
pub(crate) struct Worker<L: EventLoop> {
    events: L,
    listeners: Vec<L::Listener>,
    /// What is spoken on the connections of each.
    kinds: Vec<ListenerKind>,
    /// Those of other processes.
    standbys: Standbys,
    connections: Slab<Connection<L::Socket>>,
    /// Whose turn it is, or was last.
    at: Option<Token>,
    shared: Shared,
    current: Arc<Current>,
    stop: Arc<StopOrder>,
    drain: Duration,
    /// Receives the number of connections that are waited for at the end.
    draining: Option<Sender<usize>>,
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

impl<L: EventLoop> Worker<L> {
    /// A worker on this loop.
    pub(crate) fn new(mut events: L, plan: Plan<L::Listener>) -> io::Result<Worker<L>> {
        events.set_peer_addresses_needed(plan.observer.names_peers());
        for (number, listener) in (0..).zip(&plan.listeners) {
            events.add_listener(listener, number)?;
        }
        let Plan { mut listeners, mut kinds, standby, .. } = plan;
        let of_processes = standby.iter().map(|standby| standby.process);
        let standbys = Standbys::new(listeners.len(), of_processes, plan.vacancies);
        for Standby { kind, listener, .. } in standby.into_iter().take(standbys.len()) {
            kinds.push(kind);
            listeners.push(listener);
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
            memory: Memory::new(plan.memory_max),
            timeouts: plan.timeouts,
            https_port: plan.https_port,
            proxied: plan.proxied,
            now: now.instant,
            is_draining: false,
            idle_until: None,
            seconds: now.unix_seconds,
            observer: plan.observer,
            turn_bytes_max: plan.turn_bytes_max,
            share: Share { bytes: plan.turn_bytes_max, handshakes: HANDSHAKES_PER_ITERATION_MAX },
            tls: plan.tls,
        };
        shared.set_time(now);
        shared.set_seconds(now.unix_seconds);
        Ok(Worker {
            events,
            listeners,
            kinds,
            standbys,
            connections: Slab::new(),
            at: None,
            put_off: Vec::new(),
            handshakes: VecDeque::new(),
            shared,
            current: plan.current,
            stop: plan.stop,
            drain: plan.drain,
            draining: plan.draining,
            next_tick: now.instant + TICK,
            next_look: None,
            connections_max: plan.connections_max,
            crowding: Crowding::None,
        })
    }

    /// Lets observers know the thread that calls this, which is the worker's.
    fn note_thread(&self) {
        #[cfg(target_os = "linux")]
        self.shared.observer.set_thread(rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs());
    }

    /// Serves until the order to stop, then lets connections finish what they are sending.
    pub(crate) fn run(mut self) {
        while !self.stop.is_given() {
            self.guarded_turn(None);
        }
        let end = self.begin_drain();
        if let Some(draining) = self.draining.take() {
            // Nobody listens where the server is no more than its workers, as in tests.
            let _ = draining.send(self.connections.len());
        }
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

    /// What the connections keep in memory, in bytes.
    #[cfg(test)]
    pub(crate) fn memory(&self) -> u64 {
        self.connections.iter().map(|(_, connection)| u64::from(connection.memory())).sum()
    }

    /// The time of the last turn.
    pub(crate) fn now(&self) -> Instant {
        self.shared.now
    }

    /// Accepts nobody any more, and lets connections finish what they are sending; tells until when.
    pub(crate) fn begin_drain(&mut self) -> Instant {
        self.events.stop_balancing();
        for number in 0..self.listeners.len() {
            if !self.standbys.is_watched(number) {
                continue;
            }
            // Where it fails, it was not watched.
            let _ = self.events.remove_listener(&self.listeners[number]);
            // We may have been woken for people whom nobody else would be woken for again: all of them.
            self.accept(u32::try_from(number).unwrap_or(u32::MAX), usize::MAX);
        }
        for listener in self.listeners.drain(..) {
            self.events.close_listener(listener);
        }
        self.take_over();
        self.shared.begin_drain();
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
            || self.shared.observer.has_pending()
            || self.shared.memory.is_to_be_released();
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
        self.shared.share.handshakes = if is_waited_for { 0 } else { HANDSHAKES_PER_ITERATION_MAX };
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
                    self.watch_vacant();
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
        self.shared.memory.set_received(self.events.kept_bytes());
        self.check_memory();
        if self.shared.observer.asks_for_time() {
            let took = self.events.now().instant - self.shared.now;
            self.shared.observer.turned(took);
        }
        if self.shared.now >= self.next_tick {
            self.tick();
        } else if more_wait || self.crowding == Crowding::Full && self.has_place() {
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
        while let Some((token, range)) = self.shared.due.take() {
            let body = self.shared.due.take_body();
            let Some(connection) = self.connections.get_mut(token) else { continue };
            self.at = Some(token);
            if connection.send_due(range, body, &mut self.shared) != Outcome::Open {
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
        self.shared.share.handshakes = HANDSHAKES_PER_ITERATION_MAX;
        while self.shared.share.handshakes > 0
            && let Some(token) = self.handshakes.pop_front()
        {
            self.take_up_one(token);
        }
    }

    fn take_up_one(&mut self, token: Token) {
        if let Some(connection) = self.connections.get_mut(token) {
            let ended = connection.take_up();
            self.go_on(token, Readiness { read_closed: ended, ..Readiness::default() });
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
        let closed = if readiness.failed {
            Closed::Broken
        } else if connection.is_put_off() {
            // Its turn comes, and comes once.
            connection.put_off(readiness.read_closed);
            return;
        } else {
            let outcome = connection.turn(&mut self.shared, readiness.read_closed);
            match outcome {
                Outcome::Due => self.let_wait(token),
                Outcome::Open => self.check_memory(),
                other => self.settle(token, other, readiness.read_closed, Closed::InOrder),
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
        let Some(connection) = self.connections.get_mut(token) else { return };
        let was_late = connection.was_late();
        self.shared.memory.change(connection.memory(), 0);
        let timed_out = was_late && closed == Closed::InOrder;
        self.shared.observer.closed(if timed_out { Closed::TimedOut } else { closed });
        self.connections.remove(token);
        self.events.set_load(self.connections.len());
    }

    fn tick(&mut self) {
        self.next_tick = self.shared.now + TICK;
        self.shared.observer.tick();
        self.next_look = Some(0);
        self.tick_memory();
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
}
