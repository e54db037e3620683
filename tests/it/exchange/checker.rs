//! Clients that send random requests over every transport and compare each response with its release.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cannery_testkit::tls::{self, ClientOptions, TlsStream};
use cannery_testkit::{Ended, Response, http1, http2, http3};

use super::releases::{MISSING, RESOURCES, Resource, content};
use crate::harness::{TIMEOUT, decode};
use crate::random::Random;
use crate::transports::connect;

/// RFC 9114 §8.1.
const H3_REQUEST_CANCELLED: u32 = 0x10c;

/// Addresses of the server.
pub(super) struct Target {
    pub(super) plain: String,
    pub(super) tls: String,
    pub(super) quic: SocketAddr,
}

/// The consequence of a connection that breaks before a response is complete.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Failures {
    /// The test fails.
    Forbidden,
    /// The client sends the request again on another connection, because processes are killed.
    Tolerated,
}

/// Progress of the clients.
#[derive(Default)]
pub(super) struct Progress {
    seen: Mutex<Seen>,
    has_changed: Condvar,
    /// Entity tags, by release, path and content coding.
    tags: Mutex<HashMap<(u64, &'static str, String), String>>,
}

#[derive(Default)]
struct Seen {
    /// Responses that were compared.
    checked: u64,
    /// Release of the latest response to the first batch of a connection.
    release: u64,
    /// Set when the exchanges are done or a client has failed.
    is_over: bool,
}

impl Progress {
    /// Waits until clients have checked this number of further responses.
    pub(super) fn await_responses(&self, responses: u64) {
        let goal = self.seen().checked + responses;
        self.wait_until("more responses", |seen| seen.checked >= goal);
    }

    /// Waits until a client has received a response from this release over a new connection.
    pub(super) fn await_release(&self, release: u64) {
        self.wait_until("a response of the new release", |seen| seen.release == release);
    }

    /// Waits for a condition, or until a client has failed.
    fn wait_until(&self, what: &str, is_met: impl Fn(&Seen) -> bool) {
        let is_awaited = |seen: &mut Seen| !is_met(seen) && !seen.is_over;
        let (seen, result) =
            self.has_changed.wait_timeout_while(self.seen(), 3 * TIMEOUT, is_awaited).unwrap();
        drop(seen);
        assert!(!result.timed_out(), "timed out: {what}");
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Seen)) {
        change(&mut self.seen());
        self.has_changed.notify_all();
    }

    fn is_over(&self) -> bool {
        self.seen().is_over
    }
}

/// Ends the clients when one of them panics, or when the exchanges are done.
struct EndOnDrop<'a>(&'a Progress);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.change(|seen| seen.is_over = true);
    }
}

/// Runs clients over every transport while `exchange` changes the server. Fails if any response is wrong.
pub(super) fn check_under_load(target: &Target, failures: Failures, exchange: impl FnOnce(&Progress)) {
    let progress = Progress::default();
    std::thread::scope(|scope| {
        for (seed, transport) in (1..).zip(Transport::ALL) {
            let progress = &progress;
            scope.spawn(move || {
                let _end = EndOnDrop(progress);
                let mut client = Client { target, transport, failures, progress, random: Random::new(seed) };
                client.run();
            });
        }
        let _end = EndOnDrop(&progress);
        exchange(&progress);
    });
    println!("{} responses compared", progress.seen().checked);
}

/// A protocol over a kind of connection.
#[derive(Debug, Clone, Copy)]
enum Transport {
    Http1,
    Http1OverTls,
    Http2,
    Http2OverTls,
    Http3,
}

impl Transport {
    const ALL: [Transport; 5] = [
        Transport::Http1,
        Transport::Http1OverTls,
        Transport::Http2,
        Transport::Http2OverTls,
        Transport::Http3,
    ];
}

/// Each protocol, the first two over either kind of connection.
enum Connection {
    Http1(http1::Client<Box<dyn Stream>>),
    /// With the scheme of its requests.
    Http2(http2::Client<Box<dyn Stream>>, &'static str),
    Http3(http3::Client),
}

trait Stream: Read + Write {}

impl Stream for TcpStream {}

impl Stream for TlsStream {}

/// A request, and the data that is needed to check its response.
struct Request {
    method: &'static str,
    resource: Resource,
    /// The path that is requested, which for a missing resource is not the resource's own.
    path: String,
    fields: Vec<(&'static str, String)>,
    /// First and last byte of a range request.
    range: Option<(usize, usize)>,
}

struct Client<'a> {
    target: &'a Target,
    transport: Transport,
    failures: Failures,
    progress: &'a Progress,
    random: Random,
}

impl Client<'_> {
    /// Opens connections, and sends a few batches of requests over each, until the exchanges are over.
    fn run(&mut self) {
        while !self.progress.is_over() {
            let Some(mut connection) = self.connect() else { continue };

            // The first batch shows which release a new connection is served from.
            for batch in 0..1 + self.random.below(12) {
                let requests: Vec<_> = (0..1 + self.random.below(6)).map(|_| self.request()).collect();
                if self.random.below(4) == 0 {
                    connection.cancel_a_request();
                }
                let (responses, broken) = connection.exchange(&requests);
                self.check_all(&requests, &responses, batch == 0);

                if let Some(broken) = broken {
                    let is_allowed = self.failures == Failures::Tolerated || broken.is_orderly(batch);
                    assert!(is_allowed, "{:?}, batch {batch}: {broken:?}", self.transport);
                    break;
                }
                if self.progress.is_over() {
                    return;
                }
            }
        }
    }

    /// Opens a connection. Returns `None` if the process that accepted it was killed during the handshake.
    fn connect(&mut self) -> Option<Connection> {
        let plain = || Box::new(connect(&self.target.plain));
        let tls = |protocol: &str| -> Option<Box<dyn Stream>> {
            let config = Arc::new(ClientOptions::default().protocols(&[protocol]).build());
            match tls::connect(connect(&self.target.tls), "localhost", config) {
                Ok(stream) => Some(Box::new(stream)),
                Err(_) if self.failures == Failures::Tolerated => None,
                Err(error) => panic!("no TLS connection: {error}"),
            }
        };
        Some(match self.transport {
            Transport::Http1 => Connection::Http1(http1::Client::new(plain())),
            Transport::Http1OverTls => Connection::Http1(http1::Client::new(tls("http/1.1")?)),
            Transport::Http2 => Connection::Http2(http2::Client::new(plain()), "http"),
            Transport::Http2OverTls => Connection::Http2(http2::Client::new(tls("h2")?), "https"),
            Transport::Http3 => Connection::Http3(self.connect_http3()?),
        })
    }

    /// Opens an HTTP/3 connection. Returns `None` if the process that it reached was killed during the handshake.
    fn connect_http3(&mut self) -> Option<http3::Client> {
        // A process that is killed sends nothing, so the client finds out by this time.
        let timeout = if self.failures == Failures::Tolerated { Duration::from_secs(5) } else { TIMEOUT };
        // A large response needs several windows, or fits one.
        let stream_window = [20_000, 100_000, 1 << 20, 6 << 20][self.random.index(4)];
        let options = http3::Options { timeout, stream_window, ..Default::default() };
        match http3::Client::connect_with(self.target.quic, &options) {
            Ok(client) => Some(client),
            Err(_) if self.failures == Failures::Tolerated => None,
            Err(error) => panic!("no HTTP/3 connection: {error}"),
        }
    }

    /// Makes up a request: any resource, coding, method, condition and range.
    fn request(&mut self) -> Request {
        let is_missing = self.random.below(12) == 0;
        let resource = if is_missing { MISSING } else { RESOURCES[self.random.index(RESOURCES.len())] };
        let path = if is_missing { "/no/such/page".to_owned() } else { resource.path.to_owned() };
        let mut request = Request { method: "GET", resource, path, fields: Vec::new(), range: None };
        let coding = ["identity", "gzip", "br", "zstd"][self.random.index(4)];
        request.fields.push(("accept-encoding", coding.to_owned()));

        if self.random.below(4) == 0 {
            let priority = ["u=0", "u=5, i", "i"][self.random.index(3)];
            request.fields.push(("priority", priority.to_owned()));
        }
        match self.random.below(8) {
            0 => request.method = "HEAD",
            1 if resource.length > 0 && !is_missing => {
                let first = self.random.index(resource.length);
                let last = first + self.random.index(resource.length - first);
                request.fields[0].1 = "identity".to_owned();
                request.fields.push(("range", format!("bytes={first}-{last}")));
                request.range = Some((first, last));
            }
            2 => {
                let known = self.progress.tags.lock().unwrap();
                let tags = known.iter().filter(|((_, path, _), _)| *path == resource.path);
                let tags: Vec<_> = tags.map(|(_, tag)| tag.clone()).collect();
                if !tags.is_empty() && !is_missing {
                    request.fields.push(("if-none-match", tags.join(", ")));
                }
            }
            _ => {}
        }
        request
    }

    fn check_all(&self, requests: &[Request], responses: &[Response], is_first_batch: bool) {
        for (request, response) in requests.iter().zip(responses) {
            let release = self.check(request, response);
            self.progress.change(|seen| {
                seen.checked += 1;
                if is_first_batch {
                    seen.release = release;
                }
            });
        }
    }

    /// Compares a response with the release that it names, and returns that release.
    fn check(&self, request: &Request, response: &Response) -> u64 {
        let context = || {
            let fields = (&request.fields, &response.fields);
            format!("{:?} {} {} {fields:?}", self.transport, request.method, request.path)
        };
        let release = response.field("x-release").unwrap_or_else(|| panic!("no release: {}", context()));
        let release: u64 = release.parse().unwrap();
        let coding = response.field("content-encoding");
        let tag = response.field("etag").map(str::to_owned);
        let expected = content(&request.resource, release);

        match response.status {
            404 => assert_eq!(request.resource.path, MISSING.path, "{}", context()),
            304 => {
                assert!(request.fields.iter().any(|(name, _)| *name == "if-none-match"), "{}", context());
                return release;
            }
            206 => {
                let (first, last) = request.range.unwrap_or_else(|| panic!("no range: {}", context()));
                let range = format!("bytes {first}-{last}/{}", expected.len());
                assert_eq!(response.field("content-range"), Some(range.as_str()), "{}", context());
                assert!(response.body == expected[first..=last], "wrong range: {}", context());
                return release;
            }
            200 => assert!(request.range.is_none(), "{}", context()),
            status => panic!("status {status}: {}", context()),
        }

        if request.method != "HEAD" {
            assert!(decode(coding, &response.body) == expected, "wrong content: {}", context());
        }
        if let (200, Some(tag)) = (response.status, tag) {
            let key = (release, request.resource.path, coding.unwrap_or("identity").to_owned());
            let known = self.progress.tags.lock().unwrap().entry(key).or_insert(tag.clone()).clone();
            assert_eq!(known, tag, "an entity tag changed: {}", context());
        }
        release
    }
}

/// A connection that ended before the last response of a batch.
#[derive(Debug)]
struct Broken {
    ended: Ended,
    /// `true` if bytes of an incomplete response had been received.
    is_cut: bool,
}

impl Broken {
    /// Returns `true` if a server may end a connection like this after earlier batches: between two responses over
    /// HTTP/1.1, with GOAWAY and NO_ERROR over HTTP/2. The client then sends the rest over another connection.
    fn is_orderly(&self, batch: u64) -> bool {
        batch > 0 && !self.is_cut && matches!(self.ended, Ended::Closed(_) | Ended::GoneAway(0))
    }
}

impl Connection {
    /// Sends a request, and wants no more of its response.
    fn cancel_a_request(&mut self) {
        let Connection::Http3(connection) = self else { return };
        let fields =
            [(":method", "GET"), (":scheme", "https"), (":authority", "localhost"), (":path", "/large.txt")];
        // The connection may have ended, which the next request shows.
        if let Ok(stream) = connection.send_request(&fields) {
            connection.stop(stream, H3_REQUEST_CANCELLED);
        }
    }

    /// Sends all requests at once. Returns the responses in the order of the requests, up to the first that is missing.
    fn exchange(&mut self, requests: &[Request]) -> (Vec<Response>, Option<Broken>) {
        match self {
            Connection::Http1(connection) => exchange_http1(connection, requests),
            Connection::Http2(connection, scheme) => exchange_http2(connection, scheme, requests),
            Connection::Http3(connection) => exchange_http3(connection, requests),
        }
    }
}

fn exchange_http1(
    connection: &mut http1::Client<Box<dyn Stream>>,
    requests: &[Request],
) -> (Vec<Response>, Option<Broken>) {
    let mut responses = Vec::new();
    let heads: String = requests.iter().map(Request::to_http1).collect();
    if let Err(error) = connection.send(heads.as_bytes()) {
        return (responses, Some(Broken { ended: Ended::Closed(error), is_cut: false }));
    }

    for request in requests {
        match connection.receive(request.method) {
            Ok(response) => responses.push(response),
            Err(ended) => return (responses, Some(Broken { ended, is_cut: connection.has_received() })),
        }
    }
    (responses, None)
}

fn exchange_http2(
    connection: &mut http2::Client<Box<dyn Stream>>,
    scheme: &str,
    requests: &[Request],
) -> (Vec<Response>, Option<Broken>) {
    let mut exchanges = Vec::new();
    for request in requests {
        match connection.send_request(&request.to_http2(scheme)) {
            Ok(stream) => exchanges.push(http2::Exchange::new(stream, request.method)),
            Err(error) => return (Vec::new(), Some(Broken { ended: Ended::Closed(error), is_cut: false })),
        }
    }

    let result = connection.receive_into(&mut exchanges);
    let is_cut = exchanges.iter().any(http2::Exchange::is_partial);
    let broken = result.err().map(|ended| Broken { ended, is_cut });
    (exchanges.into_iter().map_while(http2::Exchange::into_response).collect(), broken)
}

fn exchange_http3(connection: &mut http3::Client, requests: &[Request]) -> (Vec<Response>, Option<Broken>) {
    let mut streams = Vec::new();
    for request in requests {
        match connection.send_request(&request.to_http2("https")) {
            Ok(stream) => streams.push(stream),
            Err(ended) => return (Vec::new(), Some(Broken { ended, is_cut: false })),
        }
    }

    let mut responses = Vec::new();
    for (stream, request) in streams.iter().zip(requests) {
        match connection.receive(*stream, request.method) {
            Ok(response) => responses.push(response),
            Err(ended) => {
                let is_cut = streams.iter().any(|stream| connection.received_bytes(*stream) > 0);
                return (responses, Some(Broken { ended, is_cut }));
            }
        }
    }
    (responses, None)
}

impl Request {
    /// Returns the bytes of the request in HTTP/1.1.
    fn to_http1(&self) -> String {
        let lines: String = self.fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        format!("{} {} HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n", self.method, self.path)
    }

    /// Returns the fields of the request in HTTP/2 and HTTP/3 (RFC 9113 §8.3.1).
    fn to_http2(&self, scheme: &str) -> Vec<(String, String)> {
        let pseudo = [
            (":method", self.method),
            (":scheme", scheme),
            (":authority", "localhost"),
            (":path", &self.path),
        ];
        let fields = self.fields.iter().map(|(name, value)| (*name, value.as_str()));
        pseudo.into_iter().chain(fields).map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }
}
