//! A worker's HTTP/3 side: UDP sockets, QUIC endpoint, connections.
//!
//! ```text
//! socket ──▶ endpoint ──▶ connection ──▶ request ──▶ response ──▶ connection ──▶ socket
//! ```
//!
//! In each iteration, all datagrams are received first, and every connection that got any is then run once.
//! This way, the responses of an iteration share packets, and a single call can send several packets of a
//! connection. Connection attempts are expensive and therefore processed last.

// Datagrams: the sockets, and routing to the right worker.
mod forwarding;
mod routing;
mod send_queue;

// New connections.
mod admission;
mod bounded_queue;

// The worker's connections by key, and their timers.
mod connections;
mod timers;

// One connection: its requests and streams, and the client's progress.
mod connection;
mod liveness;
mod own_stream;

// Response bodies, and the order in which they are sent.
mod bodies;
mod send_order;

mod limits;

#[cfg(test)]
pub(crate) use self::limits::{
    ATTEMPTS_PER_ITERATION_MAX, ATTEMPTS_WAITING_MAX, HANDSHAKE_SILENCE_MAX, HANDSHAKES_WAITING_MAX,
    SHARED_SOCKETS_MAX, SILENCE_MIN,
};

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use cannery_eventloop::{Backlog, DatagramSocket, EventLoop, ReceiveBatch, SegmentBatch};
use cannery_transport::quic::{
    Arrival, ConnectionKey, Context, Endpoint, Generation, Issuer, PacketType, Received, Transmit,
    drop_unused_keys,
};

use self::admission::Admission;
use self::bodies::Bodies;
use self::connection::{Connection, Late};
use self::connections::{Connections, Slot};
use self::limits::{
    BATCHES_PER_ITERATION_MAX, BLOCK_CHECK_INTERVAL, SEGMENT_BATCHES_PER_ITERATION_MAX,
    SEGMENTS_PER_BATCH_MAX,
};
use self::routing::{Peers, Route, Router};
use self::send_queue::SendQueue;
use self::timers::Timers;
use crate::context::{ConnectionMemory, ShedGoal, WorkerContext};
#[cfg(test)]
use crate::fault;
use crate::notice::Notice;
use crate::observe::{CloseReason, Http3Metric};
use crate::routes::DeliveryContent;

/// Everything that a worker needs to serve HTTP/3.
pub(crate) struct Http3Plan<D> {
    pub(crate) context: Context,
    /// This worker's number, which is contained in connection IDs.
    pub(crate) worker: u8,
    /// Tells our connection IDs from those issued by the process we are taking over from.
    pub(crate) generation: Generation,
    /// Random bytes. Must not be used for anything else.
    pub(crate) seed: [u8; 32],
    pub(crate) sockets: Vec<D>,
    /// Receives datagrams that arrived at other workers or at a process that takes over from us.
    pub(crate) forwarding_socket: Option<D>,
    /// Addresses of the workers' forwarding sockets, indexed by worker number. Empty for a single worker.
    pub(crate) workers: Vec<SocketAddr>,
    /// Addresses of the forwarding sockets of the process we are taking over from, indexed by worker number.
    pub(crate) predecessors: Vec<SocketAddr>,
    /// Time that our predecessor will take to drain its connections.
    pub(crate) drain: Duration,
    /// Sends notices to the operator.
    pub(crate) notices: Sender<Notice>,
}

impl<D: DatagramSocket> Http3Plan<D> {
    /// Returns all sockets of the worker, including the forwarding socket.
    pub(crate) fn sockets(&self) -> impl Iterator<Item = &D> {
        self.sockets.iter().chain(&self.forwarding_socket)
    }

    pub(crate) fn start(self) -> Http3<D> {
        let Http3Plan { context, worker, generation, seed, .. } = self;
        let endpoint = Endpoint::new(&context, worker, generation, seed);
        let peers = Peers { workers: self.workers, predecessors: self.predecessors, drain: self.drain };
        let router = Router::new(context, Issuer { worker, generation }, self.forwarding_socket, peers);
        Http3::new(endpoint, self.sockets, router, self.notices)
    }
}

/// The HTTP/3 side of one worker.
pub(crate) struct Http3<D> {
    endpoint: Endpoint,
    /// The UDP sockets. The index is the socket's number in the event loop.
    send_queues: Vec<SendQueue<D>>,
    batch: ReceiveBatch,
    connections: Connections,
    /// Number of connections that have not been closed by either side.
    open: usize,
    /// Maximum for `open`.
    open_max: usize,
    /// Whether we had to refuse a client since the last tick because of `open_max`.
    has_refused: bool,
    /// Connections with something to do. Contains each at most once.
    changed: Vec<ConnectionKey>,
    /// Connections that still have to run in this iteration. Should one of them panic, or should memory be scarce, the next
    /// iteration will continue with the rest.
    running_next: VecDeque<ConnectionKey>,
    /// Numbers of sockets that had more datagrams than we receive in one iteration.
    backlogged: Vec<usize>,
    admission: Admission,
    timers: Timers,
    bodies: Bodies,
    /// Buffer for replies of the endpoint.
    reply: Vec<u8>,
    /// Buffer for the datagrams that a connection sends.
    segments: Vec<u8>,
    running: Running,
    router: Router<D>,
    receiving: Receiving,
    notices: Sender<Notice>,
}

/// The process that reads the sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Receiving {
    /// We do.
    Own,
    /// A process that has taken over from us. It forwards the datagrams for our connections.
    HandedOver,
}

/// Tells if a visit has changed the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Visit {
    Changed,
    Unchanged,
}

/// The receiver of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Passed {
    ToConnection,
    ToEndpoint,
}

/// Code that is currently running. Tells us what to blame for a panic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Running {
    /// No HTTP/3 code.
    Nothing,
    Endpoint,
    Connection(ConnectionKey),
}

impl<D: DatagramSocket> Http3<D> {
    fn new(endpoint: Endpoint, sockets: Vec<D>, router: Router<D>, notices: Sender<Notice>) -> Http3<D> {
        Http3 {
            endpoint,
            send_queues: sockets.into_iter().map(SendQueue::new).collect(),
            batch: ReceiveBatch::new(),
            connections: Connections::default(),
            open: 0,
            open_max: usize::MAX,
            has_refused: false,
            changed: Vec::new(),
            running_next: VecDeque::new(),
            backlogged: Vec::new(),
            admission: Admission::default(),
            timers: Timers::default(),
            bodies: Bodies::default(),
            reply: Vec::new(),
            segments: Vec::new(),
            running: Running::Nothing,
            router,
            receiving: Receiving::Own,
            notices,
        }
    }

    /// Watches all sockets for datagrams.
    ///
    /// # Errors
    /// Returns an error if the event loop cannot watch a socket.
    pub(crate) fn watch<L: EventLoop<Datagrams = D>>(&self, events: &mut L) -> io::Result<()> {
        let mut numbered = (0..).zip(&self.send_queues);
        numbered.try_for_each(|(number, queue)| events.add_datagrams(queue.socket(), number))?;
        match self.router.socket() {
            Some(socket) => events.add_datagrams(socket, self.forwarding_number()),
            None => Ok(()),
        }
    }

    /// Returns the forwarding socket's number in the event loop. It comes after all others.
    fn forwarding_number(&self) -> u32 {
        u32::try_from(self.send_queues.len()).expect("an event loop has a number for each socket")
    }

    /// Stops reading the sockets because another process takes over. It will forward the datagrams for our
    /// connections.
    pub(crate) fn hand_over<L: EventLoop<Datagrams = D>>(&mut self, events: &mut L) {
        // Without a forwarding socket, we would not get any more datagrams.
        if self.router.socket().is_none() || self.receiving == Receiving::HandedOver {
            return;
        }
        self.receiving = Receiving::HandedOver;
        for (number, queue) in (0..).zip(&self.send_queues) {
            // This only fails if the socket was not being watched.
            let _ = events.remove_datagrams(queue.socket(), number);
        }
    }

    /// Returns the number of connections that have not been closed by either side.
    pub(crate) fn len(&self) -> usize {
        self.open
    }

    /// Limits the number of connections. The limit changes over time since connections of other protocols
    /// count as well.
    pub(crate) fn set_open_max(&mut self, open_max: usize) {
        self.open_max = open_max;
    }

    /// Returns `true` if too many connections made us refuse a client since the last call.
    pub(crate) fn take_refused(&mut self) -> bool {
        std::mem::take(&mut self.has_refused)
    }

    /// Returns `true` if there is work to do that no event will announce.
    pub(crate) fn is_busy(&self) -> bool {
        let has_connections = !self.changed.is_empty() || !self.running_next.is_empty();
        has_connections || self.has_attempts_to_advance() || !self.backlogged.is_empty()
    }

    #[cfg(test)]
    pub(crate) fn half_open(&self) -> usize {
        self.endpoint.half_open()
    }

    /// Returns the number of datagrams waiting for admission.
    #[cfg(test)]
    pub(crate) fn waiting_attempts(&self) -> usize {
        self.admission.waiting()
    }

    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// Handles a socket event by receiving datagrams, and by sending those that did not fit into the socket
    /// before.
    pub(crate) fn resume(&mut self, number: u32, cx: &mut WorkerContext) {
        if number == self.forwarding_number() {
            return self.receive_forwarded(cx);
        }
        let number = number as usize;
        let Some(queue) = self.send_queues.get_mut(number) else { return };
        for key in queue.unblock() {
            self.mark(key);
        }
        self.receive(number, cx);
    }

    /// Runs everything that is due in this iteration, starting with connections that have received
    /// something or whose timer has expired. After that, as many connection attempts are processed as the
    /// budget allows.
    pub(crate) fn run<L: EventLoop<Datagrams = D>>(&mut self, events: &mut L, cx: &mut WorkerContext) {
        for number in std::mem::take(&mut self.backlogged) {
            if number < self.send_queues.len() {
                self.receive(number, cx);
            } else {
                self.receive_forwarded(cx);
            }
        }
        self.expire_timers(cx.clock.now);

        self.running_next.extend(self.changed.drain(..));
        if !self.running_next.is_empty() {
            cx.before_requests();
        }
        // We do this here because it may take longer than a connection should run.
        self.bodies.release(&cx.release.content);
        // A connection that has used up its budget will be marked again, to be continued in the next
        // iteration.
        while let Some(key) = self.running_next.pop_front() {
            self.run_connection(key, cx);
            // Connections need to be closed first. There is progress in any case, because closed ones free their memory when
            // they run.
            if cx.memory.is_over() {
                break;
            }
        }
        self.flush();

        self.advance_attempts(cx);
        self.flush();

        cx.memory.set_blocks(self.bodies.memory());
        for (number, queue) in (0..).zip(&mut self.send_queues) {
            queue.await_room(|socket| events.await_room(socket, number));
        }
    }

    /// Sends all segment batches that were gathered.
    fn flush(&mut self) {
        for queue in &mut self.send_queues {
            queue.flush();
        }
    }

    /// Passes output from a handler to the connection that requested it.
    pub(crate) fn deliver(&mut self, key: ConnectionKey, delivered: DeliveryContent) {
        if let Some(slot) = self.connections.get_mut(key) {
            slot.connection.deliver(delivered);
            self.mark(key);
        }
    }

    /// Returns `true` if HTTP/3 code was running when the worker panicked.
    pub(crate) fn has_panicked(&self) -> bool {
        self.running != Running::Nothing
    }

    /// Closes the connection that has panicked, and repairs the worker's state.
    pub(crate) fn recover(&mut self, cx: &mut WorkerContext) {
        match std::mem::replace(&mut self.running, Running::Nothing) {
            Running::Nothing => {}
            Running::Endpoint => self.endpoint.recover(),
            Running::Connection(key) => {
                self.changed.retain(|other| *other != key);
                if let Some(Slot { connection, is_counted, mut timer, .. }) = self.connections.remove(key) {
                    self.timers.disarm(key, &mut timer);
                    if is_counted {
                        self.open -= 1;
                        cx.observer.connection_closed(CloseReason::Broken);
                    }
                    cx.memory.change(connection.memory(), 0);
                    self.endpoint.remove(connection.into_quic());
                }
            }
        }

        // If the panic occurred while the batch's datagrams were being passed on, the batch was lost. There
        // will be no event for datagrams that have already arrived, so read all sockets again.
        self.batch = ReceiveBatch::new();
        self.backlogged = (0..=self.send_queues.len()).collect();
    }

    /// Starts a graceful shutdown of all connections.
    pub(crate) fn begin_drain(&mut self, cx: &mut WorkerContext) {
        self.ignore_admitted();
        self.for_each(cx, |connection, cx| {
            connection.begin_drain(cx);
            Visit::Changed
        });
    }

    /// Does the work of every second: closes late connections and frees memory that is no longer
    /// needed.
    ///
    /// `is_crowded` means that clients are waiting for a free connection.
    pub(crate) fn tick(&mut self, is_crowded: bool, cx: &mut WorkerContext) {
        self.admission.free_unused();
        self.count_blocks(cx);
        self.endpoint.free_unused(cx.clock.now);
        drop_unused_keys();

        for queue in &mut self.send_queues {
            if let Some(notice) = queue.count(&mut cx.observer) {
                // We can ignore an error here: the receiving thread may have stopped already.
                let _ = self.notices.send(notice);
            }
        }

        self.for_each(cx, |connection, cx| {
            connection.free_unused();
            connection.count_packets(&mut cx.observer);
            match connection.tick(is_crowded, cx) {
                Late::No if cx.is_draining() => {}
                // There can be thousands of idle connections, and they should cost next to nothing.
                Late::No => return Visit::Unchanged,
                Late::Handler => {}
                Late::Idle => connection.end_idle(cx),
                Late::Slow => connection.time_out(cx),
            }
            Visit::Changed
        });
    }

    /// Returns the memory that each open connection takes, in bytes.
    pub(crate) fn connection_memory(&self) -> impl Iterator<Item = ConnectionMemory> {
        self.connections.iter().filter(|connection| !connection.is_closed()).map(Connection::total_memory)
    }

    /// Removes closed connections. We only keep them in case the client has not received the reason, so when memory is scarce,
    /// they should go first. Late datagrams will be answered with a stateless reset.
    pub(crate) fn remove_closed(&mut self, cx: &mut WorkerContext) {
        for index in 0..self.connections.index_end() {
            let Some(connection) = self.connections.at_index(index) else { continue };
            if connection.is_closed() {
                let key = connection.key();
                connection.shed(cx);
                self.run_connection(key, cx);
            }
        }
        self.flush();
        self.count_blocks(cx);
    }

    /// Closes connections that `is_selected` picks by their memory until enough has been freed for `goal`.
    /// Returns the number of connections closed.
    pub(crate) fn shed(
        &mut self,
        goal: ShedGoal,
        is_selected: impl Fn(ConnectionMemory) -> bool,
        cx: &mut WorkerContext,
    ) -> usize {
        let mut closed = 0;
        for index in 0..self.connections.index_end() {
            if cx.memory.excess(goal) == 0 {
                break;
            }

            let Some(connection) = self.connections.at_index(index) else { continue };
            if connection.is_closed() || !is_selected(connection.total_memory()) {
                continue;
            }

            let key = connection.key();
            connection.shed(cx);
            self.run_connection(key, cx);
            cx.count_handled();
            closed += 1;
            // Blocks are shared, so we do not know in advance how much memory a connection will free.
            if closed % BLOCK_CHECK_INTERVAL == 0 {
                self.count_blocks(cx);
            }
        }

        if closed > 0 {
            self.flush();
            self.count_blocks(cx);
        }
        closed
    }

    /// Frees unused blocks and counts the others.
    fn count_blocks(&mut self, cx: &mut WorkerContext) {
        self.bodies.free_unused();
        cx.memory.set_blocks(self.bodies.memory());
    }

    /// Visits all connections. If `visit` changes a connection, it will run in the next iteration.
    fn for_each(
        &mut self,
        cx: &mut WorkerContext,
        mut visit: impl FnMut(&mut Connection, &mut WorkerContext) -> Visit,
    ) {
        for index in 0..self.connections.index_end() {
            let Some(connection) = self.connections.at_index(index) else { continue };
            let key = connection.key();
            self.running = Running::Connection(key);
            let visited = visit(connection, cx);
            self.running = Running::Nothing;
            if visited == Visit::Changed {
                self.mark(key);
            }
        }
    }

    /// Receives datagrams from a socket until it is empty or the budget is used up.
    fn receive(&mut self, number: usize, cx: &mut WorkerContext) {
        if self.receiving == Receiving::HandedOver {
            return;
        }
        for _ in 0..BATCHES_PER_ITERATION_MAX {
            // The kernel may be out of memory. We will get an event for the next datagram.
            let Ok(backlog) = self.send_queues[number].socket().receive(&mut self.batch) else { return };
            self.route(number, cx);
            if backlog == Backlog::Empty {
                return;
            }
        }
        self.backlogged.push(number);
    }

    /// Passes each datagram in the batch to its connection.
    fn route(&mut self, number: usize, cx: &mut WorkerContext) {
        // Take the batch because the datagrams borrow from it.
        let mut batch = std::mem::take(&mut self.batch);
        for datagram in batch.datagrams() {
            let arrival = Arrival {
                source: datagram.source,
                destination: datagram.destination,
                ecn: datagram.ecn.map_or(0, |ecn| ecn as u8),
                bytes: datagram.bytes,
            };
            match self.router.route(number, &arrival, cx.clock.now) {
                Route::Own => self.pass_or_keep(number, &arrival, cx),
                Route::Attempt => self.keep(number, &arrival, cx),
                Route::Forwarded => cx.observer.count_http3(Http3Metric::DatagramsForwarded, 1),
                Route::Dropped => {}
            }
        }
        self.batch = batch;
    }

    /// Receives datagrams that were forwarded by other workers or by a process that is taking over.
    #[cold]
    fn receive_forwarded(&mut self, cx: &mut WorkerContext) {
        let mut batch = std::mem::take(&mut self.batch);
        let backlog = self.pass_forwarded(&mut batch, cx);
        self.batch = batch;
        if backlog == Backlog::Possible {
            self.backlogged.push(self.send_queues.len());
        }
    }

    /// Passes forwarded datagrams to their connections until the socket is empty or the budget is used up.
    fn pass_forwarded(&mut self, batch: &mut ReceiveBatch, cx: &mut WorkerContext) -> Backlog {
        for _ in 0..BATCHES_PER_ITERATION_MAX {
            // The kernel may be out of memory. We will get an event for the next datagram.
            let received = self.router.socket().map(|socket| socket.receive(batch));
            let Some(Ok(backlog)) = received else { return Backlog::Empty };
            for datagram in batch.datagrams() {
                if let Some((number, arrival)) = self.router.parse(datagram.bytes)
                    && number < self.send_queues.len()
                {
                    self.pass_or_keep(number, &arrival, cx);
                }
            }
            if backlog == Backlog::Empty {
                return backlog;
            }
        }
        Backlog::Possible
    }

    /// Passes a datagram to its connection, or to the endpoint if it does not belong to one.
    fn pass(&mut self, number: usize, arrival: &Arrival<'_>, cx: &mut WorkerContext) -> Passed {
        self.running = Running::Endpoint;
        let received = self.endpoint.receive(cx.clock.now, arrival, &mut self.reply);
        self.running = Running::Nothing;

        match received {
            Received::Connection(key, event) => {
                self.running = Running::Connection(key);
                if let Some(slot) = self.connections.get_mut(key) {
                    #[cfg(test)]
                    fault::check(fault::Place::Datagram, key.index());
                    slot.connection.receive(event, number);
                }
                self.running = Running::Nothing;
                self.mark(key);
                return Passed::ToConnection;
            }
            Received::Incoming(incoming) => {
                self.admission.count_processed();
                self.admit(incoming, number, cx);
            }
            Received::Reply(transmit) => {
                self.admission.count_processed();
                let is_retry = PacketType::of(&self.reply) == Some(PacketType::Retry);
                cx.observer.count_http3(Http3Metric::Retries, is_retry.into());
                self.reply(number, &transmit);
            }
            // Finding that out took as long as answering an attempt, so it counts as one.
            Received::Invalid => self.admission.count_processed(),
            Received::Dropped => {}
        }

        Passed::ToEndpoint
    }

    /// Sends a reply of the endpoint along with the others of this iteration. If the socket is full, the
    /// reply is dropped, just as it might be by the network.
    fn reply(&mut self, number: usize, transmit: &Transmit) {
        let queue = &mut self.send_queues[number];
        if !queue.is_blocked() {
            queue.send(&segment_batch(transmit, &self.reply));
        }
    }

    /// Schedules a connection for this iteration, or for the next one if it is already running.
    fn mark(&mut self, key: ConnectionKey) {
        if let Some(slot) = self.connections.get_mut(key)
            && !std::mem::replace(&mut slot.is_marked, true)
        {
            self.changed.push(key);
        }
    }

    /// Runs a connection: processes its events, sends its datagrams and sets its timer.
    fn run_connection(&mut self, key: ConnectionKey, cx: &mut WorkerContext) {
        let Some(slot) = self.connections.get_mut(key) else { return };
        let Slot { connection, is_marked, is_counted, timer } = slot;
        self.running = Running::Connection(key);
        *is_marked = false;
        let memory_before = connection.memory();

        #[cfg(test)]
        fault::check(fault::Place::Run, key.index());
        connection.run(cx, &mut self.bodies);
        // Connection IDs may have been issued or retired by now. Sending can change them, too.
        self.endpoint.maintain(cx.clock.now, connection.quic());
        let sending = send(connection, &mut self.send_queues, &mut self.segments, cx.clock.now);
        self.endpoint.maintain(cx.clock.now, connection.quic());

        connection.count_memory();
        cx.memory.change(memory_before, connection.memory());
        // This may include bytes that handlers had written.
        cx.count_handled();
        // Since its last run, the connection might also have been closed because of a timeout or to free its
        // memory.
        if connection.is_closed() && std::mem::take(is_counted) {
            self.open -= 1;
            connection.count_packets(&mut cx.observer);
            cx.observer.connection_closed(connection.close_reason());
        }

        if connection.quic().is_drained() {
            self.timers.disarm(key, timer);
            cx.memory.change(connection.memory(), 0);
            self.connections.remove(key);
            cx.count_handled();
        } else {
            let timeout = connection.quic().timeout();
            self.timers.arm(key, timeout, timer);
            if sending == Sending::Continues {
                self.mark(key);
            }
        }
        self.running = Running::Nothing;
    }

    fn expire_timers(&mut self, now: Instant) {
        while let Some(key) = self.timers.pop_expired(now) {
            let Some(Slot { connection, timer, .. }) = self.connections.get_mut(key) else { continue };
            self.running = Running::Connection(key);
            *timer = None;
            let timeout = connection.quic().timeout();
            if timeout.is_some_and(|timeout| timeout <= now) {
                // Timers are not updated on every change, so this one may have expired too early.
                connection.quic().handle_timeout(now);
                self.mark(key);
            } else {
                self.timers.arm(key, timeout, timer);
            }
            self.running = Running::Nothing;
        }
    }
}

/// Tells if a connection has more to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sending {
    /// Waiting for a datagram, a timer, or room in the socket.
    Waits,
    /// Continues in the next iteration.
    Continues,
}

/// Sends a connection's datagrams until all are sent or the budget is used up.
fn send<D: DatagramSocket>(
    connection: &mut Connection,
    send_queues: &mut [SendQueue<D>],
    buffer: &mut Vec<u8>,
    now: Instant,
) -> Sending {
    const SEGMENTS: NonZeroUsize = NonZeroUsize::new(SEGMENTS_PER_BATCH_MAX).expect("a batch has segments");

    let key = connection.key();
    let queue = &mut send_queues[connection.socket()];
    for _ in 0..SEGMENT_BATCHES_PER_ITERATION_MAX {
        if queue.is_blocked() {
            queue.resume_later(key);
            return Sending::Waits;
        }
        let Some(transmit) = connection.quic().poll_transmit(now, SEGMENTS, buffer) else {
            return Sending::Waits;
        };
        queue.send(&segment_batch(&transmit, buffer));
    }
    Sending::Continues
}

/// Returns a segment batch made of the datagrams at the start of `buffer`.
fn segment_batch<'a>(transmit: &Transmit, buffer: &'a [u8]) -> SegmentBatch<'a> {
    SegmentBatch {
        destination: transmit.destination,
        source: transmit.source,
        ecn: cannery_eventloop::Ecn::from_traffic_class(transmit.ecn),
        bytes: &buffer[..transmit.bytes],
        segment_bytes: transmit.segment_bytes,
    }
}
