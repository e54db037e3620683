//! Runs single iterations of a worker that serves HTTP/3. Callers have to play the client's part by
//! exchanging datagrams with the worker.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use cannery_eventloop::{
    Accepted, Backlog, DatagramSocket, Event, EventLoop, Now, ReceiveBatch, SegmentBatch, SendOutcome, Token,
};
use cannery_transport::quic::{self, EarlyData, Generation};
use cannery_transport::{Certificates, Protocol, SelfSigned, Settings, Version};

use super::single_client::{ClientSocket, SECONDS};
use crate::config::{self, Config};
use crate::content::{Content, Current};
use crate::error::StartError;
use crate::http3::Http3Plan;
use crate::observe::Observer;
use crate::worker::{Plan, StopFlag, Worker};

/// Address of the server.
const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 443);

/// Address of the client.
const CLIENT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 50_000);

/// Number of datagrams that a call receives (the size of a batch).
const DATAGRAMS_PER_CALL: usize = 16;

/// A worker that exchanges datagrams with one client. The clock never advances.
pub struct Http3Stepper {
    worker: Worker<ClientLoop>,
    mailbox: Rc<Mailbox>,
    now: Instant,
}

impl Http3Stepper {
    /// Creates a worker that serves `content`, with a self-signed certificate.
    ///
    /// # Errors
    /// Returns an error if the content cannot be opened.
    ///
    /// # Panics
    /// Panics if the TLS library refuses the settings.
    pub fn new(content: config::Content) -> Result<Http3Stepper, StartError> {
        Http3Stepper::with(content, EarlyData::Refused, Observer::default())
    }

    /// Like [`Http3Stepper::new`], with a setting for early data and an observer.
    pub(crate) fn with(
        content: config::Content,
        early_data: EarlyData,
        observer: Observer,
    ) -> Result<Http3Stepper, StartError> {
        let wall_clock = SystemTime::now();
        let names = ["localhost".to_owned()];
        let settings = Settings {
            certificates: Certificates::self_signed(SelfSigned::Ecdsa, &names, wall_clock)
                .expect("the name is valid"),
            seed: None,
            versions: vec![Version::Tls13],
            protocols: vec![Protocol::Http11],
            now: wall_clock,
        };
        let context = cannery_transport::Context::new(settings)
            .and_then(|tls| quic::Context::new(&tls, None, early_data))
            .expect("the settings are valid");

        let mailbox = Rc::new(Mailbox::default());
        let http3 = Http3Plan {
            context,
            worker: 0,
            generation: Generation::new(0),
            seed: [7; 32],
            sockets: vec![MailboxSocket(Rc::clone(&mailbox))],
            forwarding_socket: None,
            workers: Vec::new(),
            predecessors: Vec::new(),
            drain: Duration::ZERO,
            notices: std::sync::mpsc::channel().0,
        };

        let config = Config::plain(content);
        let (content, _leases) = Content::open(&config, None)?;
        let current = Arc::new(Current::new(Arc::new(content)));
        let plan = Plan::new(&config, [], current, Arc::new(StopFlag::default()), observer);
        let plan = plan.with_http3(http3, String::new());
        let now = Now { instant: Instant::now(), unix_seconds: SECONDS };
        let worker =
            Worker::new(ClientLoop { now, has_event: false }, plan).map_err(StartError::EventLoop)?;
        Ok(Http3Stepper { worker, mailbox, now: now.instant })
    }

    /// Returns the time, which is the same in all iterations.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Runs one iteration in which these datagrams (up to 64) arrive. Returns the number of bytes the
    /// server has sent.
    pub fn step(&mut self, datagrams: Vec<Vec<u8>>) -> usize {
        *self.mailbox.to_server.borrow_mut() = datagrams;
        self.mailbox.sent_bytes.set(0);
        self.worker.run_iteration(None);
        self.mailbox.sent_bytes.get()
    }

    /// Like [`Http3Stepper::step`], but as if TLS handshakes over TCP had used up the budget. Returns the
    /// number of connections.
    #[cfg(test)]
    pub(crate) fn step_without_budget(&mut self, datagrams: Vec<Vec<u8>>) -> usize {
        *self.mailbox.to_server.borrow_mut() = datagrams;
        let Worker { http3, cx, events, .. } = &mut self.worker;
        let http3 = http3.as_mut().expect("the worker serves HTTP/3");
        cx.budget.handshakes = 0;
        http3.resume(0, cx);
        http3.run(events, cx);
        http3.len()
    }

    /// Returns the number of connection attempt datagrams that are waiting for later iterations.
    #[cfg(test)]
    pub(crate) fn waiting_attempts(&self) -> usize {
        self.worker.http3.as_ref().expect("the worker serves HTTP/3").waiting_attempts()
    }

    /// Returns the number of half-open connections.
    #[cfg(test)]
    pub(crate) fn half_open(&self) -> usize {
        self.worker.http3.as_ref().expect("the worker serves HTTP/3").half_open()
    }

    /// Returns `true` if work can be done without a new datagram.
    #[cfg(test)]
    pub(crate) fn is_busy(&self) -> bool {
        self.worker.http3.as_ref().expect("the worker serves HTTP/3").is_busy()
    }

    /// Returns the datagrams that the server has sent since the last call.
    #[must_use]
    pub fn take_sent(&mut self) -> Vec<Vec<u8>> {
        self.mailbox.to_client.take()
    }
}

impl std::fmt::Debug for Http3Stepper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Http3Stepper").field("mailbox", &self.mailbox).finish_non_exhaustive()
    }
}

/// Datagrams in transit.
#[derive(Debug, Default)]
struct Mailbox {
    to_server: RefCell<Vec<Vec<u8>>>,
    to_client: RefCell<Vec<Vec<u8>>>,
    /// Bytes sent by the server in this iteration.
    sent_bytes: Cell<usize>,
}

/// The server's socket.
#[derive(Debug)]
struct MailboxSocket(Rc<Mailbox>);

impl DatagramSocket for MailboxSocket {
    fn receive(&self, batch: &mut ReceiveBatch) -> io::Result<Backlog> {
        batch.clear();
        let mut waiting = self.0.to_server.borrow_mut();
        let received = waiting.len().min(DATAGRAMS_PER_CALL);
        for datagram in waiting.drain(..received) {
            batch.push_datagram(CLIENT, SERVER.ip(), &datagram);
        }
        Ok(if waiting.is_empty() { Backlog::Empty } else { Backlog::Possible })
    }

    fn send(&self, segments: &SegmentBatch<'_>) -> SendOutcome {
        self.0.sent_bytes.set(self.0.sent_bytes.get() + segments.bytes.len());
        let segment_bytes = segments.segment_bytes.unwrap_or(segments.bytes.len()).max(1);
        self.0.to_client.borrow_mut().extend(segments.bytes.chunks(segment_bytes).map(<[u8]>::to_vec));
        SendOutcome::Sent
    }

    fn local_address(&self) -> SocketAddr {
        SERVER
    }

    fn has_gso(&self) -> bool {
        true
    }
}

/// An event loop that reports datagrams in every iteration.
#[derive(Debug)]
struct ClientLoop {
    now: Now,
    has_event: bool,
}

impl EventLoop for ClientLoop {
    type Listener = ();
    type Socket = ClientSocket;
    type Datagrams = MailboxSocket;

    fn wait(&mut self, _: Option<Duration>) -> io::Result<()> {
        self.has_event = true;
        Ok(())
    }

    fn next_event(&mut self) -> Option<Event> {
        std::mem::take(&mut self.has_event).then_some(Event::Datagrams(0))
    }

    fn now(&mut self) -> Now {
        self.now
    }

    fn add_listener(&mut self, (): &(), _: u32) -> io::Result<()> {
        Ok(())
    }

    fn add_socket(&mut self, _: &ClientSocket, _: Token) -> io::Result<()> {
        Ok(())
    }

    fn accept(&mut self, (): &()) -> io::Result<Option<Accepted<ClientSocket>>> {
        Ok(None)
    }

    fn remove_listener(&mut self, (): &()) -> io::Result<()> {
        Ok(())
    }

    fn close_listener(&mut self, (): ()) {}

    fn add_datagrams(&mut self, _: &MailboxSocket, _: u32) -> io::Result<()> {
        Ok(())
    }

    fn await_room(&mut self, _: &MailboxSocket, _: u32) -> io::Result<()> {
        Ok(())
    }

    fn remove_datagrams(&mut self, _: &MailboxSocket, _: u32) -> io::Result<()> {
        Ok(())
    }
}
