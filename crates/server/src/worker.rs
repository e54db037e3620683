//! One serving thread: an event loop, its listeners and its connections.
//!
//! Workers do not share any mutable state with each other. They are generic over the event loop, which can be
//! the kernel's or a simulated one.

mod accepting;
mod backend;
mod plan;
mod shedding;
mod slab;
mod standby_listeners;
mod threads;

// For tests: runs thousands of workers on a simulated network.
#[cfg(test)]
pub(crate) mod simulation;
// For benchmarks and tests: runs a worker one iteration at a time.
#[cfg(any(test, feature = "stepper"))]
pub mod stepper;

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
use cannery_wire::limits::HANDSHAKES_PER_ITERATION_MAX;

pub(crate) use self::accepting::ACCEPTED_MAX;
pub(crate) use self::plan::{Plan, StopFlag, StopReport, StopReporter};
pub(crate) use self::threads::start_all;

use self::accepting::Backlog;
use self::shedding::ShedLog;
use self::slab::Slab;
use self::standby_listeners::StandbyListeners;
use crate::config::{ListenerKind, Standby};
use crate::connection::{Connection, Next, ReadUntil};
use crate::context::WorkerContext;
#[cfg(test)]
use crate::fault;
use crate::http3::{Http3, Http3Plan};
use crate::notice::Notice;
use crate::observe::CloseReason;
use crate::process::UdpHandover;
use crate::routes::{ConnectionAddress, DeliveryContent};

/// Interval between deadline checks. A peer can therefore exceed a deadline by this much.
const TICK: Duration = Duration::from_secs(1);

/// Maximum number of late connections closed per loop iteration.
///
/// Closing a connection takes a few microseconds, however thousands that were accepted together will also
/// expire together, and the other clients should not have to wait for all of them.
pub(crate) const LATE_CONNECTIONS_MAX: usize = 64;

/// One serving thread.
pub(crate) struct Worker<L: EventLoop> {
    events: L,
    /// Our own listeners, followed by those of other processes. The event loop identifies a listener by its
    /// index.
    listeners: Vec<(ListenerKind, L::Listener)>,
    /// Tells which of the other processes' listeners we are watching.
    standbys: StandbyListeners,
    connections: Slab<Connection<L::Socket>>,
    /// `None` if this worker does not serve HTTP/3.
    http3: Option<Http3<L::Datagrams>>,
    /// Tells us when to leave the UDP sockets to a process that takes over.
    handover: UdpHandover,
    cx: WorkerContext,
    stop: Arc<StopFlag>,
    /// Becomes `false` if waiting for events has failed.
    can_wait: bool,
    /// `true` while there may be unhandled events from the last wait. This is needed because the event
    /// loop reports each event only once, and a panic can interrupt an iteration.
    has_events: bool,
    /// Time for connections to finish sending after the stop order.
    drain: Duration,
    stop_reporter: Option<StopReporter>,
    /// Sends notices to the operator.
    notices: Option<Sender<Notice>>,
    shed_log: ShedLog,
    next_tick: Instant,
    /// Connections that continue in the next iteration without an event. Contains each at most once.
    deferred: Vec<Token>,
    /// Connections waiting for the handshake budget, in order of arrival. Contains each at most once.
    handshakes: VecDeque<Token>,
    /// Slot where the deadline check continues, or `None` if it is complete.
    next_check: Option<u32>,
    /// Maximum number of open connections.
    connections_max: usize,
    /// Tells if clients are waiting to be accepted.
    backlog: Backlog,
    /// Whether clients were waiting for a free connection at the last tick.
    is_crowded: bool,
}

impl<L: EventLoop> Worker<L> {
    /// Creates a worker on the given event loop.
    ///
    /// # Errors
    /// Returns an error if the event loop cannot watch a listener.
    pub(crate) fn new(mut events: L, plan: Plan<L::Listener, L::Datagrams>) -> io::Result<Worker<L>> {
        let needs_addresses = plan.observer.needs_peer_addresses() || plan.routes.is_some();
        events.set_peer_addresses_needed(needs_addresses);
        for (number, (_, listener)) in (0..).zip(&plan.listeners) {
            events.add_listener(listener, number)?;
        }

        let http3 = plan.http3.map(Http3Plan::start);
        if let Some(http3) = &http3 {
            http3.watch(&mut events)?;
        }

        let Plan { mut listeners, standby, .. } = plan;
        let processes = standby.iter().map(|standby| standby.process);
        let standbys = StandbyListeners::new(listeners.len(), processes, plan.down_processes);
        // The event loop cannot number arbitrarily many listeners, so `standbys` might hold fewer than we
        // were given.
        for Standby { kind, listener, .. } in standby.into_iter().take(standbys.len()) {
            listeners.push((kind, listener));
        }

        let now = events.now();
        let mut cx = WorkerContext::new(plan.policy, now, plan.current, &plan.fields, plan.observer);
        if let Some(routes) = plan.routes {
            cx.set_routes(routes);
        }

        Ok(Worker {
            events,
            listeners,
            standbys,
            connections: Slab::new(),
            http3,
            handover: plan.handover,
            cx,
            stop: plan.stop,
            can_wait: true,
            has_events: false,
            drain: plan.drain,
            stop_reporter: plan.stop_reporter,
            notices: plan.notices,
            shed_log: ShedLog::default(),
            next_tick: now.instant + TICK,
            deferred: Vec::new(),
            handshakes: VecDeque::new(),
            next_check: None,
            connections_max: plan.connections_max,
            backlog: Backlog::Empty,
            is_crowded: false,
        })
    }

    /// Tells the observer that the calling thread is this worker's.
    pub(crate) fn report_thread(&self) {
        #[cfg(target_os = "linux")]
        self.cx.observer.set_thread(rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs());
    }

    /// Serves until the worker is ordered to stop. After that, it waits until all connections have
    /// finished sending.
    pub(crate) fn run(mut self) {
        while !self.stop.is_set() {
            self.run_guarded_iteration(None);
        }

        let end = self.begin_drain();
        if let Some(reporter) = &self.stop_reporter {
            reporter.draining(self.open_connections());
        }
        while !self.is_idle() && self.can_wait && self.now() < end {
            self.run_guarded_iteration(Some(end));
        }
        self.cx.observer.finish();
    }

    /// Runs a loop iteration. In case of a panic, only the connection that caused it will be closed.
    ///
    /// Data from a peer should never be able to cause a panic. If we ever get this wrong, though, a
    /// single client must not be able to take down everyone else's connections.
    pub(crate) fn run_guarded_iteration(&mut self, end: Option<Instant>) {
        let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.run_iteration(end))) else { return };

        if let Some(http3) = &mut self.http3
            && http3.has_panicked()
        {
            http3.recover(&mut self.cx);
            self.cx.recover();
            return;
        }

        // A panic that was not caused by a connection would only repeat itself, so let it end the worker.
        // It has already been reported by the panic hook.
        let Some(token) = self.cx.current.take() else { resume_unwind(panic) };
        self.cx.recover();
        self.end(token, CloseReason::Broken);
        self.send_batch();
    }

    /// Returns `true` if no connection is open.
    pub(crate) fn is_idle(&self) -> bool {
        self.open_connections() == 0
    }

    /// Returns the number of open connections, including HTTP/3.
    fn open_connections(&self) -> usize {
        self.connections.len() + self.http3.as_ref().map_or(0, Http3::len)
    }

    /// Returns the number of TCP connections.
    #[cfg(test)]
    pub(crate) fn connections(&self) -> usize {
        self.connections.len()
    }

    /// Returns the memory that all TCP connections take, in bytes.
    #[cfg(test)]
    pub(crate) fn memory(&self) -> u64 {
        self.connections.iter().map(|(_, connection)| u64::from(connection.memory())).sum()
    }

    /// Returns the most memory that all connections took at a time in the current second, in bytes.
    #[cfg(test)]
    pub(crate) fn recent_peak_memory(&self) -> u64 {
        self.cx.memory.recent_peak()
    }

    /// Returns the time when the current loop iteration began.
    pub(crate) fn now(&self) -> Instant {
        self.cx.clock.now
    }

    /// Stops accepting and starts a graceful shutdown of all connections. Returns the time at which the
    /// shutdown must be over.
    pub(crate) fn begin_drain(&mut self) -> Instant {
        self.events.stop_balancing();
        for number in 0..self.listeners.len() {
            if !self.standbys.is_watched(number) {
                continue;
            }
            // This only fails if the listener was not being watched.
            let _ = self.events.remove_listener(&self.listeners[number].1);
            // For the waiting clients, the kernel might have woken only this worker, so we need to accept all
            // of them.
            self.accept(u32::try_from(number).expect("a listener has a 32-bit number"), usize::MAX);
        }
        for (_, listener) in self.listeners.drain(..) {
            self.events.close_listener(listener);
        }
        self.accept_handed_over();

        self.cx.begin_drain();
        let mut slot = 0;
        while let Some(token) = self.connections.find_from(slot, |_| true) {
            slot = token.slot + 1;
            let Some(connection) = self.connections.get_mut(token) else { continue };
            self.cx.current = Some(token);
            let next = connection.drain(&mut self.cx);
            self.apply(token, next, ReadUntil::Eof, CloseReason::InOrder);
        }

        self.send_batch();
        if let Some(http3) = &mut self.http3 {
            http3.begin_drain(&mut self.cx);
            http3.run(&mut self.events, &mut self.cx);
        }
        self.events.now().instant + self.drain
    }

    /// Waits for events (until `end` at the latest) and handles them.
    pub(crate) fn run_iteration(&mut self, end: Option<Instant>) {
        // If a panic occurs outside of any connection, we must not blame the last connection we ran.
        self.cx.current = None;

        // Do not block while work is left over from earlier iterations.
        let accepts_more = self.backlog == Backlog::Limit;
        let deferred = self.deferred.len();
        let has_handshakes = !self.handshakes.is_empty();
        let has_datagrams = self.http3.as_ref().is_some_and(Http3::is_busy);
        let is_busy =
            accepts_more || deferred > 0 || has_handshakes || has_datagrams || self.next_check.is_some();
        if !self.has_events && self.wait(is_busy, end).is_err() {
            // Waiting should only fail because of a bug of ours, in which case it would fail again.
            self.can_wait = false;
            self.stop.set();
            return;
        }

        self.cx.begin_iteration(self.events.now());
        // Handshakes left over from an earlier iteration come before new ones.
        self.cx.budget.handshakes = if has_handshakes { 0 } else { HANDSHAKES_PER_ITERATION_MAX };

        self.has_events = true;
        while let Some(event) = self.events.next_event() {
            match event {
                Event::Ready(token, readiness) => self.resume(token, readiness),
                Event::Acceptable(number) => {
                    self.send_batch();
                    self.accept(number, ACCEPTED_MAX);
                }
                Event::Datagrams(number) => {
                    if let Some(http3) = &mut self.http3 {
                        http3.resume(number, &mut self.cx);
                    }
                }
                Event::Woken => {
                    // The batch refers to the current release, so send it before we adopt a new one.
                    self.send_batch();
                    self.cx.adopt_release();
                    self.update_standbys();
                    self.apply_handover();
                    self.accept_handed_over();
                    if self.cx.policy.live.is_active() {
                        self.process_again();
                    }
                    self.take_deliveries();
                }
            }
        }
        self.has_events = false;
        self.send_batch();

        // Only run connections that were deferred before this iteration. This way, new events get their turn
        // first.
        if deferred > 0 {
            self.resume_deferred(deferred);
        }
        if has_handshakes {
            self.run_handshakes();
        }
        self.send_batch();

        // HTTP/3 runs once, after all datagrams were received.
        if let Some(http3) = &mut self.http3 {
            http3.set_open_max(self.connections_max.saturating_sub(self.connections.len()));
            http3.run(&mut self.events, &mut self.cx);
        }

        self.check_memory();

        if self.cx.observer.needs_iteration_time() {
            let took = self.events.now().instant - self.cx.clock.now;
            self.cx.observer.iteration_done(took);
        }

        if self.cx.clock.now >= self.next_tick {
            self.tick();
        // A connection may have been closed since the backlog filled up.
        } else if accepts_more || self.backlog == Backlog::Full && self.has_place() {
            self.accept_waiting();
        }
        if let Some(slot) = self.next_check {
            self.check_deadlines(slot);
            self.send_batch();
        }
    }

    /// Waits for events, without blocking if the worker `is_busy`, or else until the next tick or `end`.
    fn wait(&mut self, is_busy: bool, end: Option<Instant>) -> io::Result<()> {
        if is_busy {
            return self.events.wait(Some(Duration::ZERO));
        }
        // A worker without any connections or other work should sleep until there is an event.
        let has_ticks = !self.is_idle()
            || self.backlog != Backlog::Empty
            || self.cx.observer.has_log_lines()
            || self.cx.memory.has_memory_to_release();

        let tick = has_ticks.then_some(self.next_tick);
        let timer = self.http3.as_ref().and_then(Http3::next_timeout);
        let until = earlier(earlier(tick, timer), end);
        // Since this is relative to the start of the previous iteration, we might wake up a little late;
        // reading the clock again would be more expensive.
        let timeout = until.map(|until| until.saturating_duration_since(self.cx.clock.now));
        self.events.wait(timeout)
    }

    /// Stops reading the UDP sockets if another process takes them over.
    fn apply_handover(&mut self) {
        if self.handover.is_ordered()
            && let Some(http3) = &mut self.http3
        {
            http3.hand_over(&mut self.events);
        }
    }

    #[inline]
    fn send_batch(&mut self) {
        if !self.cx.batch.is_empty() {
            self.send_full_batch();
        }
    }

    fn send_full_batch(&mut self) {
        while let Some((token, inline)) = self.cx.batch.pop() {
            let body = self.cx.batch.pop_body();
            let Some(connection) = self.connections.get_mut(token) else { continue };
            self.cx.current = Some(token);
            if connection.send_batched(inline, body, &mut self.cx) != Next::Event {
                self.end(token, CloseReason::InOrder);
            }
        }
        self.check_memory();
    }

    /// Adds the connection to the batched response that it just wrote.
    #[inline]
    fn enqueue(&mut self, token: Token) {
        self.cx.batch.complete(token);
        if self.cx.batch.is_full() {
            self.send_full_batch();
        }
    }

    /// Runs all connections that are waiting for a page until the folder changes.
    #[cold]
    fn process_again(&mut self) {
        let mut slot = 0;
        while let Some(token) = self.connections.find_from(slot, Connection::has_unprocessed_request) {
            slot = token.slot + 1;
            let Some(connection) = self.connections.get_mut(token) else { continue };
            self.cx.current = Some(token);
            let next = connection.process_again(&mut self.cx);
            self.apply(token, next, ReadUntil::Eof, CloseReason::InOrder);
        }
    }

    /// Passes output from handlers to the connections that requested it.
    fn take_deliveries(&mut self) {
        while let Some(delivery) = self.cx.routes.as_ref().and_then(|routes| routes.next_delivery()) {
            match delivery.address {
                ConnectionAddress::Tcp(token) => self.deliver(token, delivery.content),
                ConnectionAddress::Quic(key) => {
                    if let Some(http3) = &mut self.http3 {
                        http3.deliver(key, delivery.content);
                    }
                }
            }
        }
        self.cx.memory.all_delivered();
        self.check_memory();
    }

    #[cold]
    fn deliver(&mut self, token: Token, delivered: DeliveryContent) {
        if self.connections.get_mut(token).is_some_and(|connection| connection.is_batched()) {
            // The batched response comes first in the stream.
            self.send_batch();
        }
        let Some(connection) = self.connections.get_mut(token) else { return };
        self.cx.current = Some(token);
        let next = connection.deliver(delivered, &mut self.cx);
        self.apply(token, next, ReadUntil::Eof, CloseReason::InOrder);
    }

    /// Schedules a connection to continue in the next iteration.
    #[cold]
    fn defer(&mut self, token: Token, until: ReadUntil) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        if !connection.is_deferred() {
            self.deferred.push(token);
        }
        connection.defer(until);
    }

    /// Schedules a connection to continue once the handshake budget allows it.
    #[cold]
    fn defer_handshake(&mut self, token: Token, until: ReadUntil) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        if !connection.is_deferred() {
            self.handshakes.push_back(token);
        }
        connection.defer(until);
    }

    /// Continues the handshakes that have been waiting longest, as far as the budget allows.
    #[cold]
    fn run_handshakes(&mut self) {
        self.cx.budget.handshakes = HANDSHAKES_PER_ITERATION_MAX;
        while self.cx.budget.handshakes > 0
            && let Some(token) = self.handshakes.pop_front()
        {
            self.resume_one(token);
        }
    }

    #[cold]
    fn resume_deferred(&mut self, count: usize) {
        for index in 0..count {
            self.resume_one(self.deferred[index]);
        }
        self.deferred.drain(..count);
    }

    fn resume_one(&mut self, token: Token) {
        if let Some(connection) = self.connections.get_mut(token) {
            let readiness = connection.take_deferred_readiness();
            self.resume(token, readiness);
        }
    }

    /// Runs a connection after an event, or once its deferral is over.
    #[inline]
    fn resume(&mut self, token: Token, readiness: Readiness) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        if connection.is_batched() {
            // The batched response comes first in the stream.
            return self.resume_after_batch(token, readiness);
        }

        self.cx.current = Some(token);
        #[cfg(test)]
        fault::check(fault::Place::Event, token.slot as usize);

        if readiness.failed {
            return self.end(token, CloseReason::Broken);
        }
        if connection.is_deferred() {
            // Nothing to do yet: the connection will run when its deferral ends.
            return connection.defer(readiness.into());
        }

        let until = readiness.into();
        match connection.run(until, &mut self.cx) {
            Next::Batch => self.enqueue(token),
            Next::Event => self.check_memory(),
            next => self.apply(token, next, until, CloseReason::InOrder),
        }
    }

    #[cold]
    fn resume_after_batch(&mut self, token: Token, readiness: Readiness) {
        self.send_batch();
        self.resume(token, readiness);
    }

    /// Does what `next` asks for.
    ///
    /// If the connection continues later, it will read `until` there. Callers that did not get an event
    /// cannot know whether the stream has ended and should therefore pass [`ReadUntil::Eof`].
    fn apply(&mut self, token: Token, next: Next, until: ReadUntil, reason: CloseReason) {
        match next {
            Next::Event => {}
            Next::Batch => self.enqueue(token),
            Next::Iteration => self.defer(token, until),
            Next::Handshake => self.defer_handshake(token, until),
            Next::Close => self.end(token, reason),
        }
        // An iteration may run hundreds of connections, so we can't leave this to its end.
        self.check_memory();
    }

    fn end(&mut self, token: Token, reason: CloseReason) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        let has_timed_out = connection.has_timed_out() && reason == CloseReason::InOrder;
        self.cx.memory.change(connection.memory(), 0);
        self.cx.observer.connection_closed(if has_timed_out { CloseReason::TimedOut } else { reason });
        self.connections.remove(token);
        self.events.set_load(self.connections.len());
    }

    /// Does the work of every second: access log, deadlines, memory.
    fn tick(&mut self) {
        self.next_tick = self.cx.clock.now + TICK;
        self.cx.observer.tick();
        self.next_check = Some(0);
        self.is_crowded = matches!(self.backlog, Backlog::Full | Backlog::Kernel);
        if let Some(http3) = &mut self.http3 {
            self.is_crowded |= http3.take_refused();
            http3.tick(self.is_crowded, &mut self.cx);
        }
        self.tick_memory();
    }

    /// Closes late connections, starting with the given slot. If there are more than [`LATE_CONNECTIONS_MAX`]
    /// of them, the next iteration will continue from there.
    fn check_deadlines(&mut self, mut slot: u32) {
        let is_crowded = self.is_crowded;
        self.next_check = None;
        for ended in 1..=LATE_CONNECTIONS_MAX {
            let is_late = |connection: &Connection<_>| connection.is_late(is_crowded, &self.cx);
            let Some(token) = self.connections.find_from(slot, is_late) else { break };
            slot = token.slot + 1;
            self.next_check = (ended == LATE_CONNECTIONS_MAX).then_some(slot);

            let Some(connection) = self.connections.get_mut(token) else { continue };
            self.cx.current = Some(token);
            let next = connection.on_deadline(&mut self.cx);
            self.apply(token, next, ReadUntil::Eof, CloseReason::TimedOut);
        }

        // Closing connections has made room for others.
        if is_crowded {
            self.accept_waiting();
        }
    }
}

fn earlier(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
