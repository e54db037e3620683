//! An event loop in memory, with a single client that sends requests in every iteration.
//!
//! It makes no system calls, its clock never advances, and no memory is allocated once it has started.

use std::cell::{Cell, RefCell};
use std::io::{self, IoSlice};
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::{Duration, Instant};

use cannery_eventloop::{Accepted, Event, EventLoop, NoDatagrams, Now, Readiness, Received, Socket, Token};

/// We keep this many bytes of the first response, which is enough for `HTTP/1.1 200`.
pub(super) const RESPONSE_START_BYTES: usize = 12;

/// The time in all iterations, in seconds since 1970. The choice does not matter as all dates have the
/// same length.
pub(super) const SECONDS: u64 = 1_763_700_000;

/// The client's requests, and the responses that it has received.
#[derive(Debug)]
pub(super) struct Client {
    /// Requests for each iteration. The last element is repeated.
    requests: RefCell<Vec<Vec<u8>>>,
    /// Index of the next element.
    next: Cell<usize>,
    /// `true` until the server has received the requests of this iteration.
    has_requests: Cell<bool>,
    /// Length of all responses in this iteration.
    received_bytes: Cell<usize>,
    /// Start of the first response in this iteration.
    response_start: Cell<[u8; RESPONSE_START_BYTES]>,
    /// `true` if the next receive call should panic.
    #[cfg(test)]
    panics: Cell<bool>,
    /// Result of the next call that waits for events.
    #[cfg(test)]
    wait_outcome: Cell<WaitOutcome>,
    /// Calls that did not succeed.
    #[cfg(test)]
    bad_waits: Cell<u32>,
}

/// Result of waiting for events.
#[cfg(test)]
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum WaitOutcome {
    #[default]
    Success,
    /// The call returns an error and the next call panics; otherwise, a server that ignores errors would loop
    /// forever.
    Error,
    Panic,
}

impl Client {
    pub(super) fn new() -> Rc<Client> {
        Rc::new(Client {
            requests: RefCell::default(),
            next: Cell::default(),
            has_requests: Cell::new(false),
            received_bytes: Cell::new(0),
            response_start: Cell::default(),
            #[cfg(test)]
            panics: Cell::default(),
            #[cfg(test)]
            wait_outcome: Cell::default(),
            #[cfg(test)]
            bad_waits: Cell::default(),
        })
    }

    #[cfg(test)]
    pub(super) fn panic_on_receive(&self) {
        self.panics.set(true);
    }

    #[cfg(test)]
    pub(super) fn fail_waiting(&self) {
        self.wait_outcome.set(WaitOutcome::Error);
    }

    #[cfg(test)]
    pub(super) fn panic_on_wait(&self) {
        self.wait_outcome.set(WaitOutcome::Panic);
    }

    #[cfg(test)]
    pub(super) fn bad_waits(&self) -> u32 {
        self.bad_waits.get()
    }

    /// Sets the requests for the next iterations. The last element is repeated.
    pub(super) fn set_requests(&self, requests: Vec<Vec<u8>>) {
        self.next.set(0);
        *self.requests.borrow_mut() = requests;
    }

    /// Lets the server receive the next requests, and resets the received bytes.
    pub(super) fn send_requests(&self) {
        self.has_requests.set(true);
        self.received_bytes.set(0);
    }

    pub(super) fn received_bytes(&self) -> usize {
        self.received_bytes.get()
    }

    pub(super) fn response_start(&self) -> [u8; RESPONSE_START_BYTES] {
        self.response_start.get()
    }

    fn receive(&self, bytes: &[u8]) {
        if self.received_bytes.get() == 0
            && let Some(start) = bytes.first_chunk()
        {
            self.response_start.set(*start);
        }
        self.received_bytes.set(self.received_bytes.get() + bytes.len());
    }
}

/// The server's end of the connection.
#[derive(Debug)]
pub(super) struct ClientSocket(Rc<Client>);

impl Socket for ClientSocket {
    fn receive(&self, buffer: &mut [u8]) -> io::Result<Received> {
        if !self.0.has_requests.replace(false) {
            return Ok(Received::WouldBlock);
        }
        #[cfg(test)]
        assert!(!self.0.panics.get(), "intended by a test");
        let all = self.0.requests.borrow();
        let index = self.0.next.get();
        let requests = &all[index];
        self.0.next.set((index + 1).min(all.len() - 1));
        buffer[..requests.len()].copy_from_slice(requests);
        Ok(Received::Bytes(requests.len()))
    }

    fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        self.0.receive(bytes);
        Ok(bytes.len())
    }

    fn send_vectored(&self, runs: &[IoSlice<'_>]) -> io::Result<usize> {
        runs.iter().for_each(|run| self.0.receive(run));
        Ok(runs.iter().map(|run| run.len()).sum())
    }

    fn shutdown_write(&self) -> io::Result<()> {
        Ok(())
    }

    fn unacknowledged_bytes(&self) -> io::Result<u64> {
        Ok(0)
    }

    fn reset_on_close(&self) -> io::Result<()> {
        Ok(())
    }
}

/// An event loop that accepts the client in the first iteration and reports it as ready in every later one.
#[derive(Debug)]
pub(super) struct SingleClientLoop {
    client: Rc<Client>,
    /// `None` until the client is accepted.
    token: Option<Token>,
    now: Now,
    has_event: bool,
}

impl SingleClientLoop {
    pub(super) fn new(client: Rc<Client>) -> SingleClientLoop {
        let now = Now { instant: Instant::now(), unix_seconds: SECONDS };
        SingleClientLoop { client, token: None, now, has_event: false }
    }
}

impl EventLoop for SingleClientLoop {
    type Listener = ();
    type Socket = ClientSocket;
    type Datagrams = NoDatagrams;

    fn wait(&mut self, _: Option<Duration>) -> io::Result<()> {
        #[cfg(test)]
        if self.client.wait_outcome.get() != WaitOutcome::Success {
            self.client.bad_waits.set(self.client.bad_waits.get() + 1);
            let outcome = self.client.wait_outcome.replace(WaitOutcome::Panic);
            assert!(outcome == WaitOutcome::Error, "intended by a test");
            return Err(io::Error::other("intended by a test"));
        }
        self.has_event = true;
        Ok(())
    }

    fn next_event(&mut self) -> Option<Event> {
        if !std::mem::replace(&mut self.has_event, false) {
            return None;
        }
        let readiness = Readiness { readable: true, read_closed: false, writable: true, failed: false };
        Some(self.token.map_or(Event::Acceptable(0), |token| Event::Ready(token, readiness)))
    }

    fn now(&mut self) -> Now {
        self.now
    }

    fn add_listener(&mut self, (): &(), _: u32) -> io::Result<()> {
        Ok(())
    }

    fn add_socket(&mut self, _: &ClientSocket, token: Token) -> io::Result<()> {
        self.token = Some(token);
        Ok(())
    }

    fn accept(&mut self, (): &()) -> io::Result<Option<Accepted<ClientSocket>>> {
        let is_accepted = self.token.is_some();
        let accepted = || {
            let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, 50_000));
            Accepted { socket: ClientSocket(Rc::clone(&self.client)), peer: Some(peer) }
        };
        Ok((!is_accepted).then(accepted))
    }

    fn remove_listener(&mut self, (): &()) -> io::Result<()> {
        Ok(())
    }

    fn close_listener(&mut self, (): ()) {}

    fn add_datagrams(&mut self, socket: &NoDatagrams, _: u32) -> io::Result<()> {
        match *socket {}
    }

    fn await_room(&mut self, socket: &NoDatagrams, _: u32) -> io::Result<()> {
        match *socket {}
    }

    fn remove_datagrams(&mut self, socket: &NoDatagrams, _: u32) -> io::Result<()> {
        match *socket {}
    }
}
