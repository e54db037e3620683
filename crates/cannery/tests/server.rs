//! Runs the server as a library on real sockets. The responses should be the same with every HTTP
//! version.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "tests: a panic is the report")]

#[path = "server/observed.rs"]
mod observed;
#[path = "server/responses.rs"]
mod responses;
mod support;
#[path = "server/uploads.rs"]
mod uploads;

use std::cell::Cell;
use std::collections::VecDeque;
use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use cannery::config::AdminPage;
use cannery::{HandlerError, Request, Response, RunningServer, Server, StartError};
use cannery_testkit::http1;
use cannery_testkit::http2::{self, DATA, END_STREAM, HEADERS};
use cannery_testkit::http3::{self, decode, take_frame};

/// Limits contents in these tests, in bytes.
const CONTENT_BYTES_MAX: u32 = 200_000;

/// Length of a body that is complete before its response starts.
const WRITTEN_BYTES: usize = 30_000;

/// RFC 9114 §8.1.
const H3_REQUEST_CANCELLED: u32 = 0x10c;

/// A server with a site, and one route of each kind.
struct Fixture {
    _site: support::Fixture,
    server: Option<RunningServer>,
    at: Addresses,
    /// `true` while a handler waits.
    is_waiting: Arc<AtomicBool>,
    /// Lets a waiting handler continue.
    proceed: Sender<()>,
    notices: Arc<Mutex<Vec<String>>>,
}

/// Where the server listens.
#[derive(Debug, Clone, Copy)]
struct Addresses {
    plain: SocketAddr,
    quic: SocketAddr,
}

impl Fixture {
    fn start() -> Fixture {
        Fixture::start_with(|server| server)
    }

    fn start_with(change: impl FnOnce(Server) -> Server) -> Fixture {
        let site = support::site();
        let notices = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&notices);
        let (proceed, waiting) = channel();
        let is_waiting = Arc::new(AtomicBool::new(false));

        let server = routes(waiting, Arc::clone(&is_waiting))
            .site(&site.archive)
            .bind("127.0.0.1:0")
            .bind_tls("127.0.0.1:0")
            .bind_quic("127.0.0.1:0")
            .self_signed_certificate(cannery::config::SelfSigned::Ecdsa)
            .configure(|settings| {
                settings
                    .drain(Duration::from_secs(5))
                    .on_notice(move |notice| seen.lock().unwrap().push(notice.to_string()))
            });

        // As for the black box tests.
        let server = match std::env::var("CANNERY_TEST_IO").as_deref() {
            Ok("io_uring") => server.configure(|settings| settings.io(cannery::config::Io::Uring)),
            _ => server,
        };
        let server = change(server).start().unwrap();
        let plain = server.local_addresses()[0];
        let cannery::config::Address::Internet(quic) = server.addresses().quic[0] else {
            panic!("an address")
        };
        Fixture {
            _site: site,
            server: Some(server),
            at: Addresses { plain, quic },
            is_waiting,
            proceed,
            notices,
        }
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            server.stop_handle().stop();
            server.wait();
        }
    }
}

fn routes(waiting: Receiver<()>, is_waiting: Arc<AtomicBool>) -> Server {
    let waiting = Mutex::new(waiting);
    Server::new()
        .content_bytes_max(CONTENT_BYTES_MAX.into())
        .route("GET /hello/{name}", |request: &Request<'_>| {
            let greeting = request.query().get("greeting").unwrap_or("Hello".into());
            Response::text(format!("{greeting} {}!", request.param("name")))
                .with_header("X-Made-By", "a handler")
        })
        .route("POST /echo", |request: &Request<'_>| {
            Response::bytes("application/octet-stream", request.content().to_vec())
        })
        .blocking_route("POST /slow/echo", |request: &Request<'_>| {
            Response::bytes("application/octet-stream", request.content().to_vec())
        })
        .route("PUT /sum", |request: &Request<'_>| -> Result<Response, HandlerError> {
            let numbers: Vec<i64> = request.json()?;
            Response::json(&numbers.iter().sum::<i64>())
        })
        .blocking_route("GET /wait", move |_: &Request<'_>| {
            is_waiting.store(true, Ordering::SeqCst);
            waiting.lock().unwrap().recv().unwrap();
            "waited"
        })
        .blocking_route("GET /thread", |_: &Request<'_>| {
            // It's chance which one we get.
            thread::current()
                .name()
                .unwrap_or_default()
                .trim_end_matches(|digit: char| digit.is_ascii_digit())
                .to_owned()
        })
        .route("GET /headers", |request: &Request<'_>| {
            format!(
                "{:?} {:?} {:?} {}",
                request.header("X-Custom"),
                request.cookie("b"),
                request.host(),
                request.peer().is_some_and(|peer| peer.ip().is_loopback())
            )
        })
        .route("GET /panic", |_: &Request<'_>| -> Response { panic!("this handler panics in a test") })
        .route("GET /fail", |_: &Request<'_>| Err::<Response, _>(std::io::Error::other("secret cause")))
        .route("GET /stream", |_: &Request<'_>| {
            Response::stream("text/plain", |body| {
                for number in 0..20_000 {
                    writeln!(body, "{number}")?;
                }
                Ok(())
            })
        })
        .route("GET /written", |_: &Request<'_>| {
            let (mut writer, response) = Response::channel("text/plain");
            writer.write_all(&[b'x'; WRITTEN_BYTES])?;
            writer.finish();
            Ok::<_, HandlerError>(response)
        })
        .route("GET /broken-stream", |_: &Request<'_>| {
            Response::stream("text/plain", |body| {
                body.write_all(b"begun")?;
                Err(HandlerError::new(500, "no more"))
            })
        })
        .route("DELETE /page", |_: &Request<'_>| ())
}

/// The tests compare these parts of a response.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    status: u16,
    media_type: String,
    body: Vec<u8>,
}

fn seen(status: u16, fields: &[(String, String)], body: Vec<u8>) -> Seen {
    let field = |wanted: &str| fields.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted));
    assert!(field("date").is_some(), "{fields:?}");
    assert!(field("x-content-type-options").is_some(), "{fields:?}");
    let media_type = field("content-type").map(|(_, value)| value.clone()).unwrap_or_default();
    Seen { status, media_type, body }
}

type Lines<'a> = &'a [(&'a str, &'a str)];

/// Sends bytes on a connection of their own and reads to its end.
fn exchange(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(bytes).unwrap();
    let mut received = String::new();
    stream.read_to_string(&mut received).unwrap();
    received
}

/// Sends one HTTP/1.1 request with chunked content over a new connection and reads until the end.
fn over_http1(address: SocketAddr, method: &str, target: &str, lines: Lines<'_>, content: &[u8]) -> Seen {
    let mut stream = TcpStream::connect(address).unwrap();
    let mut text =
        format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n").into_bytes();
    for (name, value) in lines {
        write!(text, "{name}: {value}\r\n").unwrap();
    }
    if content.is_empty() {
        text.extend_from_slice(b"\r\n");
    } else {
        text.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
        for chunk in content.chunks(7000) {
            write!(text, "{:x}\r\n", chunk.len()).unwrap();
            text.extend_from_slice(chunk);
            text.extend_from_slice(b"\r\n");
        }
        text.extend_from_slice(b"0\r\n\r\n");
    }
    // The server may refuse the rest.
    let _ = stream.write_all(&text);
    let mut received = Vec::new();
    stream.read_to_end(&mut received).unwrap();

    let end = received.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
    let head = str::from_utf8(&received[..end]).unwrap();
    let mut head_lines = head.split("\r\n");
    let status = head_lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let fields: Vec<_> = head_lines
        .map(|line| line.split_once(": ").unwrap())
        .map(|(a, b)| (a.to_owned(), b.to_owned()))
        .collect();
    let rest = &received[end + 4..];
    let is_chunked = method != "HEAD" && fields.iter().any(|(name, _)| name == "Transfer-Encoding");
    let body = if is_chunked { unchunk(rest) } else { rest.to_vec() };
    seen(status, &fields, body)
}

/// Decodes a chunked body.
fn unchunk(mut rest: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let line = rest.windows(2).position(|window| window == b"\r\n").expect("a chunk has a size");
        let size = usize::from_str_radix(str::from_utf8(&rest[..line]).unwrap(), 16).unwrap();
        body.extend_from_slice(&rest[line + 2..][..size]);
        rest = &rest[line + 2 + size + 2..];
        if size == 0 {
            assert!(rest.is_empty(), "bytes after the last chunk");
            return body;
        }
    }
}

fn pseudo<'a>(method: &'a str, target: &'a str, lines: Lines<'a>) -> Vec<(&'a str, &'a str)> {
    let mut fields =
        vec![(":method", method), (":scheme", "http"), (":authority", "localhost"), (":path", target)];
    fields.extend(lines);
    fields
}

fn over_http2(address: SocketAddr, method: &str, target: &str, lines: Lines<'_>, content: &[u8]) -> Seen {
    let mut client = http2::Client::new(TcpStream::connect(address).unwrap());
    let fields = pseudo(method, target, lines);
    let (stream, early) = if content.is_empty() {
        (client.send_request(&fields).unwrap(), Vec::new())
    } else {
        client.send_request_with_content(&fields, content).unwrap()
    };

    let mut early = early.into_iter();
    let mut response = None;

    loop {
        let frame = early.next().unwrap_or_else(|| client.receive_frame().unwrap());
        if frame.stream != stream {
            continue;
        }

        let is_last = frame.has(END_STREAM);
        match frame.kind {
            HEADERS => response = Some(client.decode_head(frame)),
            DATA => response.as_mut().unwrap().body.extend_from_slice(&frame.payload),
            _ => continue,
        }
        if is_last {
            let response = response.unwrap();
            return seen(response.status, &response.fields, response.body);
        }
    }
}

fn over_http3(address: SocketAddr, method: &str, target: &str, lines: Lines<'_>, content: &[u8]) -> Seen {
    let mut client = http3::Client::connect(address).unwrap();
    let mut fields = pseudo(method, target, lines);
    fields[1].1 = "https";
    let stream = client.send_request_with_content(&fields, content).unwrap();
    let bytes = client.receive_bytes(stream).unwrap();
    client.close();
    let mut rest = bytes.as_slice();
    let mut head = Vec::new();
    let mut body = Vec::new();
    while let Some((kind, payload)) = take_frame(&mut rest) {
        match kind {
            http3::HEADERS => head = decode(payload),
            http3::DATA => body.extend_from_slice(payload),
            _ => {}
        }
    }
    let status = head[0].1.parse().unwrap();
    seen(status, &head[1..], body)
}

/// Sends a request over each HTTP version. The response should be the same for all of them, and is
/// returned.
fn request(at: Addresses, method: &str, target: &str, lines: Lines<'_>, content: &[u8]) -> Seen {
    let first = over_http1(at.plain, method, target, lines, content);
    assert_eq!(over_http2(at.plain, method, target, lines, content), first, "HTTP/2 {target}");
    assert_eq!(over_http3(at.quic, method, target, lines, content), first, "HTTP/3 {target}");
    first
}

fn get(at: Addresses, target: &str) -> (u16, String) {
    let Seen { status, body, .. } = request(at, "GET", target, &[], b"");
    (status, String::from_utf8(body).unwrap())
}

#[test]
fn handlers_answer_beside_the_site() {
    let fixture = Fixture::start();
    assert_eq!(get(fixture.at, "/hello/World?greeting=Good+day"), (200, "Good day World!".to_owned()));
    assert_eq!(get(fixture.at, "/hello/J%C3%BCrgen"), (200, "Hello Jürgen!".to_owned()));
    assert_eq!(get(fixture.at, "/"), (200, "<title>Home</title>".to_owned()));
    assert_eq!(get(fixture.at, "/nothing").0, 404);
    assert_eq!(get(fixture.at, "/hello/").0, 404, "a wildcard is not empty");
    assert_eq!(request(fixture.at, "HEAD", "/hello/x", &[], b"").body, b"");
    assert_eq!(get(fixture.at, "/thread").1, "handler-");
    let (status, headers) = {
        let lines = [("x-custom", "value"), ("cookie", "a=1; b=2")];
        let seen = request(fixture.at, "GET", "/headers", &lines, b"");
        (seen.status, String::from_utf8(seen.body).unwrap())
    };
    assert_eq!((status, headers.as_str()), (200, "Some(\"value\") Some(\"2\") Some(\"localhost\") true"));
}

#[test]
fn cancelled_request_is_not_handled() {
    let handled = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&handled);
    let fixture = Fixture::start_with(|server| {
        server.handler_threads(NonZeroUsize::MIN).blocking_route("GET /count", move |_: &Request<'_>| {
            counter.fetch_add(1, Ordering::SeqCst);
            "counted"
        })
    });
    let mut client = http2::Client::new(TcpStream::connect(fixture.at.plain).unwrap());
    let waiting = client.send_request(&pseudo("GET", "/wait", &[])).unwrap();
    // The only thread is busy with it.
    await_condition(|| fixture.is_waiting.load(Ordering::SeqCst));

    cancel_over_http1(fixture.at.plain);
    cancel_over_http2(&mut client);
    cancel_over_http3(fixture.at.quic);

    let last = client.send_request(&pseudo("GET", "/count", &[])).unwrap();
    fixture.proceed.send(()).unwrap();
    let responses = client.receive_all(&[waiting, last], "GET").unwrap();
    assert_eq!(responses[1].body, b"counted");
    assert_eq!(handled.load(Ordering::SeqCst), 1, "only the last one");
}

/// Sends a request and closes the connection.
///
/// This returns once the server has closed it too.
fn cancel_over_http1(address: SocketAddr) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /count HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0);
}

/// Sends and cancels a request. Returns once the server has received both.
fn cancel_over_http2(client: &mut http2::Client<TcpStream>) {
    let cancelled = client.send_request(&pseudo("GET", "/count", &[])).unwrap();
    client.send_frame(http2::RST_STREAM, 0, cancelled, &8_u32.to_be_bytes());
    client.send_frame(http2::PING, 0, 0, &[0; 8]);
    // The server acknowledges this after the frames before it.
    while client.receive_frame().unwrap().kind != http2::PING {}
}

/// Sends and cancels a request. Returns once the server has received both.
fn cancel_over_http3(address: SocketAddr) {
    let fields = |target: &'static str| {
        let mut fields = pseudo("GET", target, &[]);
        fields[1].1 = "https";
        fields
    };
    let mut client = http3::Client::connect(address).unwrap();
    let cancelled = client.send_request(&fields("/count")).unwrap();
    client.stop(cancelled, H3_REQUEST_CANCELLED);
    // The server responds to this after the datagrams before it.
    assert_eq!(client.request(&fields("/")).unwrap().status, 200);
    client.close();
}

#[test]
fn other_methods_of_a_route_are_not_allowed() {
    let fixture = Fixture::start();
    assert_eq!(request(fixture.at, "POST", "/hello/x", &[], b"").status, 405);
    assert_eq!(request(fixture.at, "OPTIONS", "/hello/x", &[], b"").status, 204);
    assert_eq!(request(fixture.at, "DELETE", "/page", &[], b"").status, 204);
    assert_eq!(get(fixture.at, "/page").0, 200, "the site has a page where the route has another method");
}

/// Clients shouldn't have to send content that no handler wants.
#[test]
fn content_that_is_announced_too_long_is_refused_at_once() {
    let fixture = Fixture::start();
    let length = (CONTENT_BYTES_MAX + 1).to_string();
    let lines = [("content-length", length.as_str())];
    for target in ["/echo", "/slow/echo"] {
        let head = format!("POST {target} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n");
        let received = exchange(fixture.at.plain, head.as_bytes());
        assert!(received.starts_with("HTTP/1.1 413 "), "{received}");

        let mut client = http2::Client::new(TcpStream::connect(fixture.at.plain).unwrap());
        let block = http2::field_block(&pseudo("POST", target, &lines));
        client.send_frame(HEADERS, http2::END_HEADERS, 1, &block);
        let frame = loop {
            let frame = client.receive_frame().unwrap();
            if frame.kind == HEADERS {
                break frame;
            }
        };
        assert_eq!(client.decode_head(frame).status, 413);

        let mut client = http3::Client::connect(fixture.at.quic).unwrap();
        let mut fields = pseudo("POST", target, &lines);
        fields[1].1 = "https";
        let stream = client.begin_request(&fields);
        let bytes = client.receive_bytes(stream).unwrap();
        let (_, head) = take_frame(&mut bytes.as_slice()).unwrap();
        assert_eq!(decode(head)[0], (":status".to_owned(), "413".to_owned()));
        // We can send more requests on this connection.
        fields.pop();
        let stream = client.send_request_with_content(&fields, b"content").unwrap();
        assert!(client.receive_bytes(stream).unwrap().ends_with(b"content"));
        client.close();
    }
}

#[test]
fn query_is_a_method_like_others() {
    let fixture = Fixture::start_with(|server| {
        server.route("QUERY /search", |request: &Request<'_>| {
            Response::bytes("text/plain", request.content().to_vec())
        })
    });
    let seen = request(fixture.at, "QUERY", "/search", &[], b"select");
    assert_eq!((seen.status, seen.body.as_slice()), (200, b"select".as_slice()));
    assert_eq!(request(fixture.at, "POST", "/search", &[], b"").status, 405);
    assert_eq!(request(fixture.at, "QUERY", "/hello/x", &[], b"").status, 405);
    assert_eq!(request(fixture.at, "QUERY", "/page", &[], b"").status, 405, "the site knows the method too");
}

/// Even if all threads for bodies are kept busy by slow clients, others should get their bodies.
#[test]
fn slow_clients_do_not_occupy_threads_for_good() {
    if std::env::var_os("CANNERY_SLOW").is_none() {
        return;
    }
    let fixture = Fixture::start_with(|server| {
        server.handler_threads(NonZeroUsize::new(2).unwrap()).route("GET /endless", |_: &Request<'_>| {
            Response::stream("text/plain", |body| {
                loop {
                    body.write_all(&[b'x'; 1024])?;
                }
            })
        })
    });

    let send = |target: &str| {
        let mut stream = TcpStream::connect(fixture.at.plain).unwrap();
        write!(stream, "GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
        stream
    };

    // There are eight threads for bodies per thread for handlers.
    let _slow: Vec<_> = (0..20).map(|_| send("/endless")).collect();
    let mut body = String::new();
    send("/stream").read_to_string(&mut body).unwrap();

    assert!(body.contains("19999"), "{} bytes", body.len());
    let notices = fixture.notices.lock().unwrap();
    assert!(notices.iter().any(|notice| notice.contains("others waited")), "{notices:?}");
}

#[test]
fn content_reaches_handlers() {
    let fixture = Fixture::start();
    let long: Vec<u8> = (0..CONTENT_BYTES_MAX).map(|number| number.to_le_bytes()[1]).collect();
    for target in ["/echo", "/slow/echo"] {
        for content in [b"a".as_slice(), &long] {
            let seen = request(fixture.at, "POST", target, &[], content);
            assert_eq!((seen.status, seen.body.len()), (200, content.len()), "{target}");
            assert!(seen.body == content);
        }
        assert_eq!(request(fixture.at, "POST", target, &[], b"").status, 200);
        let too_long = [long.as_slice(), b"x"].concat();
        assert_eq!(request(fixture.at, "POST", target, &[], &too_long).status, 413);
    }
    let json: Lines<'_> = &[("content-type", "application/json")];
    assert_eq!(request(fixture.at, "PUT", "/sum", json, b"[1, 2, 39]").body, b"42");
    assert_eq!(request(fixture.at, "PUT", "/sum", &[("content-type", "text/plain")], b"[1]").status, 415);
    let invalid = request(fixture.at, "PUT", "/sum", json, b"[1, 2,");
    assert_eq!(invalid.status, 400);
    assert!(String::from_utf8(invalid.body).unwrap().contains("line 1 column 6"));
}

/// Time limit for requests in the upload tests.
const REQUEST_TIME: Duration = Duration::from_secs(3);

/// Total number of steps in which we send uploads. Together, these take longer than [`REQUEST_TIME`], but
/// each upload only needs four of them.
const STEPS: usize = 30;

/// The rate of uploads. No condition is awaited.
const STEP: Duration = Duration::from_millis(150);

/// A quarter of an upload.
const PART: [u8; 1000] = [b'x'; 1000];

fn start_with_short_requests() -> Fixture {
    Fixture::start_with(|server| {
        server.configure(|settings| settings.timeouts(|timeouts| timeouts.head = REQUEST_TIME))
    })
}

/// A connection that has several uploads at a time.
trait Uploads: Sized {
    fn connect(at: Addresses) -> Self;
    /// Starts an upload and returns its number.
    fn begin(&mut self) -> u64;
    fn send(&mut self, upload: u64, is_last: bool);
    fn pause(&mut self);
    /// Reads the responses and returns how long each body is.
    fn finish(&mut self, uploads: &[u64]) -> Vec<usize>;
    /// Waits until the server ends the connection.
    fn await_end(self);
}

impl Uploads for http2::Client<TcpStream> {
    fn connect(at: Addresses) -> Self {
        http2::Client::new(TcpStream::connect(at.plain).unwrap())
    }

    fn begin(&mut self) -> u64 {
        self.begin_request(&pseudo("POST", "/slow/echo", &[])).unwrap().into()
    }

    fn send(&mut self, upload: u64, is_last: bool) {
        self.send_frame(DATA, if is_last { END_STREAM } else { 0 }, upload.try_into().unwrap(), &PART);
    }

    fn pause(&mut self) {
        thread::sleep(STEP);
    }

    fn finish(&mut self, uploads: &[u64]) -> Vec<usize> {
        let uploads: Vec<u32> = uploads.iter().map(|upload| (*upload).try_into().unwrap()).collect();
        let responses = self.receive_all(&uploads, "POST").unwrap();
        responses.into_iter().map(|response| response.body.len()).collect()
    }

    fn await_end(mut self) {
        while self.receive_frame().unwrap().kind != http2::GOAWAY {}
    }
}

impl Uploads for http3::Client {
    fn connect(at: Addresses) -> Self {
        http3::Client::connect(at.quic).unwrap()
    }

    fn begin(&mut self) -> u64 {
        let mut fields = pseudo("POST", "/slow/echo", &[]);
        fields[1].1 = "https";
        self.begin_request(&fields).index()
    }

    fn send(&mut self, upload: u64, is_last: bool) {
        let stream = stream_of_client(upload);
        http3::Client::send(self, stream, &http3::frame(http3::DATA, &PART));
        if is_last {
            http3::Client::finish(self, stream);
        }
    }

    fn pause(&mut self) {
        let end = Instant::now() + STEP;
        self.acknowledge_while(|| Instant::now() < end).unwrap();
    }

    fn finish(&mut self, uploads: &[u64]) -> Vec<usize> {
        let receive = |upload: &u64| self.receive(stream_of_client(*upload), "POST").unwrap().body.len();
        uploads.iter().map(receive).collect()
    }

    fn await_end(mut self) {
        let _ = self.await_close_or_reset();
    }
}

fn stream_of_client(number: u64) -> http3::StreamId {
    http3::StreamId::new(http3::Side::Client, http3::Dir::Bi, number)
}

/// Some uploads are incomplete at any time, but none for long.
fn check_overlapping_uploads<C: Uploads>(at: Addresses) {
    let mut client = C::connect(at);
    let mut open: VecDeque<(u64, usize)> = VecDeque::new();
    for _ in 0..STEPS {
        open.push_back((client.begin(), 0));
        for (upload, parts) in &mut open {
            *parts += 1;
            client.send(*upload, *parts == 4);
        }
        if let Some((upload, _)) = open.pop_front_if(|(_, parts)| *parts == 4) {
            assert_eq!(client.finish(&[upload]), [4 * PART.len()]);
        }
        client.pause();
    }
}

/// One of the uploads never ends.
///
/// After the others have been answered, only its connection should be closed.
fn check_stalled_upload<C: Uploads>(at: Addresses) {
    let mut client = C::connect(at);
    let stalled = client.begin();
    client.send(stalled, false);
    let others = [client.begin(), client.begin()];
    for upload in others {
        client.send(upload, false);
        client.send(upload, true);
    }
    assert_eq!(client.finish(&others), [2 * PART.len(); 2]);
    client.await_end();
}

/// Sends pipelined uploads. A step may contain the border between two.
fn check_pipelined_uploads(address: SocketAddr) {
    const UPLOADS: usize = 8;
    let upload =
        [b"POST /slow/echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n".as_slice(), &PART].concat();
    let all = upload.repeat(UPLOADS);
    let mut client = http1::Client::new(TcpStream::connect(address).unwrap());
    for part in all.chunks(all.len() / STEPS) {
        client.send(part).unwrap();
        thread::sleep(STEP);
    }
    for _ in 0..UPLOADS {
        let response = client.receive("POST").unwrap();
        assert_eq!((response.status, response.body.len()), (200, PART.len()));
    }
}

fn check_stalled_pipelined_upload(address: SocketAddr) {
    let upload = b"POST /slow/echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc";
    let received = exchange(address, &[upload.as_slice(), &upload[..upload.len() - 1]].concat());
    assert_eq!(received.matches("HTTP/1.1 200 ").count(), 1, "{received}");
}

/// The timeout applies to each upload separately: an upload must not end because many others
/// overlap or because another one stalls.
#[test]
fn uploads_are_late_by_their_own_age() {
    let fixture = start_with_short_requests();
    let at = fixture.at;
    thread::scope(|scope| {
        scope.spawn(|| check_pipelined_uploads(at.plain));
        scope.spawn(|| check_stalled_pipelined_upload(at.plain));
        scope.spawn(|| check_overlapping_uploads::<http2::Client<TcpStream>>(at));
        scope.spawn(|| check_stalled_upload::<http2::Client<TcpStream>>(at));
        scope.spawn(|| check_overlapping_uploads::<http3::Client>(at));
        scope.spawn(|| check_stalled_upload::<http3::Client>(at));
    });
}

#[test]
fn failures_of_handlers_are_reported_and_end_no_connection() {
    let fixture = Fixture::start();
    for target in ["/panic", "/fail"] {
        let (status, body) = get(fixture.at, target);
        assert_eq!(status, 500);
        assert!(!body.contains("secret"), "{body}");
    }
    exchange(fixture.at.plain, b"GET /broken-stream HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let received = exchange(
        fixture.at.plain,
        b"GET /panic HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    );
    assert!(received.contains("HTTP/1.1 500") && received.contains("<title>Home</title>"), "{received}");

    let is_reported = || {
        let notices = fixture.notices.lock().unwrap();
        let has = |part: &str| notices.iter().any(|notice| notice.contains(part));
        has("GET /panic: the handler has panicked")
            && has("GET /fail: secret cause")
            && has("GET /broken-stream: the body of a response: no more")
    };
    await_condition(is_reported);
}

/// Waits up to half a minute until a condition holds.
fn await_condition(holds: impl Fn() -> bool) {
    for _ in 0..3000 {
        if holds() {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("the condition does not hold");
}

#[test]
fn bodies_are_streamed() {
    let fixture = Fixture::start();
    let expected: String = (0..20_000).map(|number| format!("{number}\n")).collect();
    assert!(get(fixture.at, "/stream") == (200, expected));
    assert_eq!(request(fixture.at, "HEAD", "/stream", &[], b"").status, 200);

    // There's no last chunk before the connection ends.
    let received = exchange(fixture.at.plain, b"GET /broken-stream HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(received.ends_with("5\r\nbegun\r\n"), "{received}");
}

#[test]
fn handlers_that_wait_delay_no_other_request() {
    let fixture = Fixture::start_with(|server| server.threads(NonZeroUsize::MIN));
    let answered = AtomicBool::new(false);
    thread::scope(|scope| {
        let at = fixture.at;
        let answered = &answered;
        let waiting = scope.spawn(move || {
            let waited = get(at, "/wait");
            answered.store(true, Ordering::SeqCst);
            waited
        });
        assert_eq!(get(fixture.at, "/hello/you").0, 200);
        assert!(!answered.load(Ordering::SeqCst));
        // One per HTTP version.
        for _ in 0..3 {
            fixture.proceed.send(()).unwrap();
        }
        assert_eq!(waiting.join().unwrap(), (200, "waited".to_owned()));
    });
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let fixture = Fixture::start();
    let mut requests = String::new();
    for number in 0..50 {
        requests += &format!(
            "GET /thread HTTP/1.1\r\nHost: a\r\n\r\nGET /hello/{number} HTTP/1.1\r\nHost: a\r\n\r\n"
        );
        requests += "POST /slow/echo HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nGET ";
    }
    requests += "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let received = exchange(fixture.at.plain, requests.as_bytes());
    let mut rest = received.as_str();
    for number in 0..50 {
        for wanted in ["handler-".to_owned(), format!("Hello {number}!"), "\r\n\r\nGET ".to_owned()] {
            rest = rest.split_once(&wanted).unwrap_or_else(|| panic!("{wanted} is missing: {rest}")).1;
        }
    }
    assert!(rest.contains("<title>Home</title>"), "{rest}");
}

#[test]
fn clients_may_leave_at_any_time() {
    let fixture = Fixture::start();
    for request in [
        "GET /wait HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /stream HTTP/1.1\r\nHost: a\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\npart",
    ] {
        let mut stream = TcpStream::connect(fixture.at.plain).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        drop(stream);
    }
    fixture.proceed.send(()).unwrap();
    assert_eq!(get(fixture.at, "/hello/others").0, 200);
}

#[test]
fn responses_in_flight_are_completed_when_the_server_stops() {
    let mut fixture = Fixture::start();
    let at = fixture.at;
    thread::scope(|scope| {
        let waiting = scope.spawn(move || over_http1(at.plain, "GET", "/wait", &[], b"").body);
        await_condition(|| fixture.is_waiting.load(Ordering::SeqCst));
        let server = fixture.server.take().unwrap();
        let stop = server.stop_handle();
        scope.spawn(move || server.wait());
        stop.stop();
        fixture.proceed.send(()).unwrap();
        assert_eq!(waiting.join().unwrap(), b"waited");
    });
}

#[test]
fn handlers_that_take_too_long_are_replaced() {
    let fixture = Fixture::start_with(|server| {
        server.configure(|settings| settings.timeouts(|timeouts| timeouts.handler = Duration::from_millis(1)))
    });
    assert_eq!(get(fixture.at, "/wait").0, 503);
    for _ in 0..3 {
        fixture.proceed.send(()).unwrap();
    }
    assert_eq!(get(fixture.at, "/hello/you").0, 200);
}

fn never_returns(_: &Request<'_>) -> &'static str {
    loop {
        thread::park();
    }
}

/// Stops a server and waits until it has ended.
fn stop(mut fixture: Fixture) {
    let server = fixture.server.take().unwrap();
    server.stop_handle().stop();
    let (ended, end) = channel();
    thread::spawn(move || {
        server.wait();
        ended.send(()).unwrap();
    });
    end.recv_timeout(Duration::from_secs(60)).expect("the server ends");
}

#[test]
fn endless_handler_of_the_pool_is_reported_and_outlives_the_server() {
    let fixture = Fixture::start_with(|server| {
        let server = server.handler_threads(NonZeroUsize::new(2).unwrap());
        server.blocking_route("GET /endless", never_returns).configure(|settings| {
            let settings = settings.timeouts(|timeouts| timeouts.handler = Duration::from_secs(1));
            settings.drain(Duration::from_secs(1))
        })
    });
    let first = over_http1(fixture.at.plain, "GET", "/endless", &[], b"");
    assert_eq!(first.status, 503);
    let notices = Arc::clone(&fixture.notices);
    await_condition(|| {
        let notices = notices.lock().unwrap();
        notices.iter().any(|notice| {
            notice.starts_with("GET /endless: this handler has not returned")
                && notice.ends_with("handlers occupy 1 of 2 threads")
        })
    });

    // Other requests should be answered by the other thread, but on a busy machine this may take several
    // attempts.
    await_condition(|| over_http1(fixture.at.plain, "GET", "/thread", &[], b"").status == 200);
    let mut waiting = TcpStream::connect(fixture.at.plain).unwrap();
    waiting.write_all(b"GET /endless HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    assert_eq!(get(fixture.at, "/hello/you").0, 200);
    stop(fixture);
}

#[test]
fn endless_handler_of_a_worker_is_reported_and_outlives_the_server() {
    let fixture = Fixture::start_with(|server| {
        let server = server.threads(NonZeroUsize::new(2).unwrap());
        server
            .route("GET /endless", never_returns)
            .configure(|settings| settings.drain(Duration::from_secs(1)))
    });
    let mut stuck = TcpStream::connect(fixture.at.plain).unwrap();
    stuck.write_all(b"GET /endless HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let notices = Arc::clone(&fixture.notices);
    let is_reported = |part: &str| notices.lock().unwrap().iter().any(|notice| notice.contains(part));
    await_condition(|| is_reported("GET /endless: this handler has not returned"));

    // Nothing will happen if our connection belongs to the stuck worker, but the other worker
    // should still serve its connections.
    let is_served = || {
        let mut stream = TcpStream::connect(fixture.at.plain).unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        stream.write_all(b"GET /hello/you HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        let mut start = [0; 12];
        stream.read_exact(&mut start).is_ok() && start == *b"HTTP/1.1 200"
    };
    await_condition(is_served);
    stop(fixture);
    assert!(is_reported("a thread does not stop"), "{:?}", notices.lock().unwrap());
}

/// Opens the admin listener.
fn with_admin(server: Server) -> Server {
    server.configure(|settings| settings.admin(AdminPage::new("127.0.0.1:0".parse().unwrap())))
}

/// Waits until a metric on the admin page has this value.
fn await_metric(fixture: &Fixture, metric: &str, value: u64) {
    let addresses = fixture.server.as_ref().unwrap().addresses();
    let Some(cannery::config::Address::Internet(admin)) = addresses.admin else { panic!("{addresses:?}") };
    let line = format!("\n{metric} {value}\n");
    await_condition(|| {
        let request = b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n";
        exchange(admin, request).contains(&line)
    });
}

#[test]
fn metrics_count_requests_of_handlers() {
    let fixture = Fixture::start_with(with_admin);
    assert_eq!(get(fixture.at, "/hello/you").0, 200);
    assert_eq!(get(fixture.at, "/panic").0, 500);
    assert_eq!(request(fixture.at, "POST", "/echo", &[], b"content").status, 200);
    assert_eq!(request(fixture.at, "POST", "/slow/echo", &[], b"content").status, 200);
    // One per HTTP version.
    await_metric(&fixture, "cannery_requests_total{method=\"GET\"}", 6);
    await_metric(&fixture, "cannery_requests_total{method=\"other\"}", 6);
    await_metric(&fixture, "cannery_responses_total{status=\"200\"}", 9);
    await_metric(&fixture, "cannery_responses_total{status=\"500\"}", 3);
    await_metric(&fixture, "cannery_request_duration_seconds_count", 12);
}

#[test]
fn metrics_count_threads_that_handlers_occupy() {
    let fixture = Fixture::start_with(|server| {
        with_admin(server).route("GET /endless", |_: &Request<'_>| {
            Response::stream("text/plain", |body| {
                loop {
                    body.write_all(&[b'x'; 1024])?;
                }
            })
        })
    });
    let handlers = "cannery_handler_threads_occupied{pool=\"handler\"}";
    let bodies = "cannery_handler_threads_occupied{pool=\"body\"}";
    let send = |target: &str| {
        let mut stream = TcpStream::connect(fixture.at.plain).unwrap();
        write!(stream, "GET {target} HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        stream
    };
    let _waiting = [send("/wait"), send("/wait")];
    await_metric(&fixture, handlers, 2);
    // The client doesn't receive it.
    let endless = send("/endless");
    await_metric(&fixture, bodies, 1);

    drop(endless);
    await_metric(&fixture, bodies, 0);
    await_metric(&fixture, handlers, 2);
    fixture.proceed.send(()).unwrap();
    await_metric(&fixture, handlers, 1);
    fixture.proceed.send(()).unwrap();
    await_metric(&fixture, handlers, 0);
}

#[test]
fn metrics_count_handlers_that_take_too_long() {
    let fixture = Fixture::start_with(|server| {
        with_admin(server)
            .configure(|settings| settings.timeouts(|timeouts| timeouts.handler = Duration::from_millis(1)))
    });
    assert_eq!(get(fixture.at, "/wait").0, 503);
    await_metric(&fixture, "cannery_handlers_timed_out_total", 3);
    await_metric(&fixture, "cannery_responses_total{status=\"503\"}", 3);
    for _ in 0..3 {
        fixture.proceed.send(()).unwrap();
    }
}

#[test]
fn error_handler_makes_the_responses_of_every_version() {
    let fixture = Fixture::start_with(|server| {
        let server = server.on_error(|request: &Request<'_>, error: &HandlerError| {
            let text = format!("{} {} {}", error.status(), request.method(), request.path());
            Response::text(text).with_status(error.status())
        });
        server.wrap(|request, next| match request.header("x-wrapped") {
            Some("error") => Err(HandlerError::new(403, "Not for you.")),
            Some("other") => Ok(Response::text("from the middleware")),
            _ => Ok(next(request).with_header("X-Seen", "yes")),
        })
    });
    let body = |method: &str, target: &str, lines: Lines<'_>, content: &[u8]| {
        let seen = request(fixture.at, method, target, lines, content);
        (seen.status, String::from_utf8(seen.body).unwrap())
    };
    let expect = |status: u16, method: &str, target: &str| (status, format!("{status} {method} {target}"));

    // These errors are from handlers and the middleware.
    assert_eq!(body("GET", "/fail", &[], b""), expect(500, "GET", "/fail"));
    assert_eq!(body("GET", "/panic", &[], b""), expect(500, "GET", "/panic"));
    assert_eq!(body("GET", "/hello/x", &[("x-wrapped", "error")], b""), expect(403, "GET", "/hello/x"));
    assert_eq!(body("GET", "/hello/x", &[("x-wrapped", "other")], b"").1, "from the middleware");
    assert_eq!(body("GET", "/thread", &[("x-wrapped", "other")], b"").1, "from the middleware");

    // These errors are from the server. The middleware sees them as well.
    assert_eq!(body("POST", "/hello/x", &[("x-wrapped", "other")], b"").1, "from the middleware");
    let lines: Lines<'_> = &[];
    assert_eq!(body("POST", "/hello/x", lines, b""), expect(405, "POST", "/hello/x"));
    let too_long = vec![b'x'; CONTENT_BYTES_MAX as usize + 1];
    for target in ["/echo", "/slow/echo"] {
        assert_eq!(body("POST", target, lines, &too_long), expect(413, "POST", target));
    }
    let not_utf8 =
        exchange(fixture.at.plain, b"GET /hello/\xff HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert!(not_utf8.starts_with("HTTP/1.1 400 ") && not_utf8.contains("\r\n\r\n400 GET"), "{not_utf8}");

    // If a path has no route, the site answers.
    assert_eq!(body("GET", "/nothing", &[], b"").1, "<title>Missing</title>");
    let allowed =
        exchange(fixture.at.plain, b"POST /hello/x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert!(
        allowed.contains("Allow: GET, HEAD, OPTIONS\r\n") && allowed.contains("X-Seen: yes"),
        "{allowed}"
    );
}

#[test]
fn error_handler_makes_the_response_for_a_slow_handler() {
    let fixture = Fixture::start_with(|server| {
        let server = server.on_error(|request: &Request<'_>, error: &HandlerError| {
            Response::text(format!("slow {}", request.path())).with_status(error.status())
        });
        server.configure(|settings| settings.timeouts(|timeouts| timeouts.handler = Duration::from_millis(1)))
    });
    assert_eq!(get(fixture.at, "/wait"), (503, "slow /wait".to_owned()));
    for _ in 0..3 {
        fixture.proceed.send(()).unwrap();
    }
}

#[test]
fn path_that_is_no_text_reaches_no_handler() {
    let fixture = Fixture::start_with(|server| {
        server
            .route("GET /files/{path...}", |request: &Request<'_>| request.param("path").into_owned())
            .blocking_route("GET /slow/{name}", |request: &Request<'_>| request.param("name").into_owned())
    });
    for target in ["/hello/%ff", "/hello/a%C3", "/files/a/%FF/b", "/files/%C3/%A9", "/slow/%80"] {
        assert_eq!(get(fixture.at, target).0, 400, "{target}");
    }
    // All characters are valid in a parameter.
    for (target, parameter) in
        [("/files/caf%C3%A9", "café"), ("/files/..%2Fkey", "../key"), ("/slow/%00", "\0")]
    {
        assert_eq!(get(fixture.at, target), (200, parameter.to_owned()), "{target}");
    }
    // The second one is only UTF-8 after decoding, so `Request::path` could not return it.
    for path in [&b"/hello/\xff"[..], b"/hello/\xc3%A9"] {
        let head = [b"GET ", path, b" HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"].concat();
        let received = exchange(fixture.at.plain, &head);
        assert!(received.starts_with("HTTP/1.1 400 "), "{received}");
    }
}

#[test]
fn body_waits_for_a_slow_client() {
    static WRITTEN: AtomicUsize = AtomicUsize::new(0);
    let fixture = Fixture::start_with(|server| {
        server.route("GET /endless", |_: &Request<'_>| {
            Response::stream("text/plain", |body| {
                loop {
                    body.write_all(&[b'x'; 1024])?;
                    WRITTEN.fetch_add(1024, Ordering::SeqCst);
                }
            })
        })
    });
    // An HTTP/3 client that has a large window, but never acknowledges data.
    let options = http3::Options { stream_window: 1 << 30, ..http3::Options::default() };
    let mut client = http3::Client::connect_with(fixture.at.quic, &options).unwrap();
    client.send_request(&pseudo("GET", "/endless", &[])).unwrap();

    let mut streams = vec![];
    for _ in 0..2 {
        let mut stream = TcpStream::connect(fixture.at.plain).unwrap();
        stream.write_all(b"GET /endless HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        streams.push(stream);
    }

    // Socket and QUIC buffers typically hold some megabytes. Once they are full, all three handlers
    // have to wait.
    let before = Cell::new((0, 0));
    await_condition(|| {
        let written = WRITTEN.load(Ordering::SeqCst);
        assert!(written < 100 << 20, "the server keeps {written} bytes");
        let (last, rounds) = before.get();
        before.set(if written == last { (written, rounds + 1) } else { (written, 0) });
        written > 1 << 20 && rounds > 20
    });

    assert_eq!(over_http1(fixture.at.plain, "GET", "/hello/x", &[], b"").status, 200);
}

#[test]
fn body_that_is_complete_waits_for_the_window() {
    let fixture = Fixture::start();
    let settings = [(http2::INITIAL_WINDOW_SIZE, 1000)];
    let mut client = http2::Client::with_settings(TcpStream::connect(fixture.at.plain).unwrap(), &settings);
    let stream = client.send_request(&pseudo("GET", "/written", &[])).unwrap();
    let mut received = 0;
    let mut is_complete = false;
    while !is_complete {
        let frame = client.receive_frame().unwrap();
        if frame.kind == DATA && frame.stream == stream {
            received += frame.payload.len();
            is_complete = frame.has(END_STREAM);
            client.send_window_update(stream, 1000);
        }
    }
    assert_eq!(received, WRITTEN_BYTES);
}

#[test]
fn faults_of_the_program_are_errors_at_the_start() {
    let handler = |_: &Request<'_>| "";
    let error = Server::new().route("GET /{a}/x", handler).route("GET /y/{b}", handler).start().unwrap_err();
    assert!(matches!(error, StartError::Route(_)), "{error}");
    assert!(error.to_string().contains("/{a}/x") && error.to_string().contains("/y/{b}"), "{error}");
    assert!(matches!(Server::new().bind("nowhere").start(), Err(StartError::Address { .. })));
    assert!(matches!(Server::new().site_of("a b", "site.cdb").start(), Err(StartError::Host(_))));
    let missing = Server::new().site("/missing.cdb").bind("127.0.0.1:0").start();
    assert!(matches!(missing, Err(StartError::Archive { .. })));
    for result in [Server::new().route("GET /a", handler).start().map(drop), Server::new().run()] {
        assert!(matches!(result, Err(StartError::NoListener)), "{result:?}");
    }
}

#[test]
fn archive_can_be_part_of_the_program() {
    let site = support::site();
    let archive: &'static [u8] = fs::read(&site.archive).unwrap().leak();
    let server = Server::new().embedded_site(archive).bind("127.0.0.1:0").start().unwrap();
    let address = server.local_addresses()[0];
    assert_eq!(over_http1(address, "GET", "/", &[], b"").body, b"<title>Home</title>");
    server.stop_handle().stop();
    server.wait();
}

#[test]
fn archives_of_the_program_have_hosts() {
    let archive = |text: &str| -> &'static [u8] {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("index.html"), text).unwrap();
        let archive = folder.path().join("site.cdb");
        cannery_archiver::compile(&cannery_archiver::Options::new(folder.path(), &archive), &()).unwrap();
        fs::read(archive).unwrap().leak()
    };
    let server = Server::new()
        .embedded_site(archive("default"))
        .embedded_site_of("other.example", archive("other"))
        .bind("127.0.0.1:0")
        .start()
        .unwrap();
    let address = server.local_addresses()[0];
    for (host, text) in [("a.example", "default"), ("other.example", "other")] {
        let head = format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        assert!(exchange(address, head.as_bytes()).ends_with(text), "{host}");
    }
    assert!(matches!(Server::new().embedded_site_of("a b", archive("x")).start(), Err(StartError::Host(_))));
}

#[test]
fn server_without_a_site_has_its_routes_only() {
    let server = Server::new().route("GET /a", |_: &Request<'_>| "a").bind("127.0.0.1:0").start().unwrap();
    let address = server.local_addresses()[0];
    assert_eq!(over_http1(address, "GET", "/a", &[], b"").status, 200);
    assert_eq!(over_http1(address, "GET", "/b", &[], b"").status, 404);
    server.stop_handle().stop();
    server.wait();
}

#[test]
fn dropped_server_stops() {
    let server = Server::new()
        .route("GET /a", |_: &Request<'_>| "a")
        .configure(|settings| settings.admin(AdminPage::new("127.0.0.1:0".parse().unwrap())))
        .bind("127.0.0.1:0")
        .start()
        .unwrap();
    let mut addresses = server.local_addresses();
    let Some(cannery::config::Address::Internet(admin)) = server.addresses().admin else {
        panic!("an address")
    };
    addresses.push(admin);
    assert_eq!(over_http1(addresses[0], "GET", "/a", &[], b"").status, 200);
    drop(server);
    for address in addresses {
        await_condition(|| TcpStream::connect(address).is_err());
    }
}
