//! Uploads that end before the server has asked for their content.

use super::*;
use std::io::ErrorKind;

/// Threads for uploads for each thread of the pool for handlers.
const THREADS: usize = 8;

/// Uploads that may wait for a thread.
const WAITING_MAX: usize = 1024;

/// Uploads of an HTTP/2 connection in these tests. It may have a few more.
const STREAMS: usize = 100;

const EXPECT: Lines<'_> = &[("expect", "100-continue")];

const OCCUPIED: &str = "cannery_handler_threads_occupied{pool=\"upload\"}";

/// A server whose handlers read nothing until they are released.
struct Held {
    /// Lets a handler continue. It must be dropped before the server, which waits for handlers.
    release: Sender<()>,
    fixture: Fixture,
    /// How many handlers have begun.
    begun: Arc<AtomicUsize>,
    /// Errors that handlers got when they read.
    errors: Receiver<ErrorKind>,
}

impl Held {
    fn start() -> Held {
        let (release, held) = channel::<()>();
        let (report, errors) = channel();
        let (held, report) = (Mutex::new(held), Mutex::new(report));
        let begun = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&begun);
        let fixture = Fixture::start_with(|server| {
            with_admin(server).handler_threads(NonZeroUsize::MIN).group("/held", |group| {
                group.content_bytes_max(10).upload_route("PUT", move |_, mut content| {
                    counter.fetch_add(1, Ordering::SeqCst);
                    let _ = held.lock().unwrap().recv();
                    let read = content.read_to_end(&mut Vec::new());
                    // The test may not be interested.
                    let _ = read.as_ref().map_err(|error| report.lock().unwrap().send(error.kind()));
                    read.map(|_| ())
                })
            })
        });
        Held { release, fixture, begun, errors }
    }

    fn at(&self) -> Addresses {
        self.fixture.at
    }

    fn begun(&self) -> usize {
        self.begun.load(Ordering::SeqCst)
    }

    /// Begins uploads on a connection of their own. Returns once the server knows them.
    fn begin(&self, uploads: usize) -> http2::Client<TcpStream> {
        let mut client = http2::Client::new(TcpStream::connect(self.at().plain).unwrap());
        for _ in 0..uploads {
            client.begin_request(&pseudo("PUT", "/held", EXPECT)).unwrap();
        }
        client.send_frame(http2::PING, 0, 0, &[0; 8]);
        while client.receive_frame().unwrap().kind != http2::PING {}
        client
    }

    /// Begins uploads until all threads are occupied.
    fn occupy_threads(&self) -> http2::Client<TcpStream> {
        let begun = self.begun();
        let client = self.begin(THREADS);
        await_condition(|| self.begun() == begun + THREADS);
        client
    }
}

/// Returns the status of the first response, which may be an interim one.
fn first_status_over_http2(address: SocketAddr) -> u16 {
    let mut client = http2::Client::new(TcpStream::connect(address).unwrap());
    let stream = client.begin_request(&pseudo("PUT", "/held", EXPECT)).unwrap();
    loop {
        let frame = client.receive_frame().unwrap();
        if frame.stream == stream && frame.kind == HEADERS {
            return client.decode_head(frame).status;
        }
    }
}

fn over_tls(
    method: &'static str,
    target: &'static str,
    lines: Lines<'static>,
) -> Vec<(&'static str, &'static str)> {
    let mut fields = pseudo(method, target, lines);
    fields[1].1 = "https";
    fields
}

fn first_status_over_http3(address: SocketAddr) -> u16 {
    let mut client = http3::Client::connect(address).unwrap();
    let stream = client.begin_request(&over_tls("PUT", "/held", EXPECT));
    let received = client.receive_bytes(stream).unwrap();
    client.close();
    let (_, head) = take_frame(&mut received.as_slice()).unwrap();
    decode(head)[0].1.parse().unwrap()
}

#[test]
fn busy_server_asks_for_no_content() {
    let held = Held::start();
    let mut clients = vec![held.occupy_threads()];
    for first in (0..WAITING_MAX).step_by(STREAMS) {
        clients.push(held.begin(STREAMS.min(WAITING_MAX - first)));
    }

    let at = held.at();
    for framing in ["Content-Length: 5", "Transfer-Encoding: chunked"] {
        let request = format!("PUT /held HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n{framing}\r\n\r\n");
        let received = exchange(at.plain, request.as_bytes());
        assert!(
            received.starts_with("HTTP/1.1 503 ") && received.contains("Connection: close"),
            "{received}"
        );
        assert!(received.contains("Retry-After: "), "{received}");
    }
    assert_eq!(first_status_over_http2(at.plain), 503);
    assert_eq!(first_status_over_http3(at.quic), 503);

    // Short content that the server has not asked for is discarded.
    let start = "PUT /held HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let next = "0\r\n\r\nGET /hello/you HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let received = exchange(at.plain, format!("{start}5\r\nabcde\r\n{next}").as_bytes());
    assert!(received.starts_with("HTTP/1.1 503 ") && received.ends_with("Hello you!"), "{received}");
    // The limit of the route includes chunk heads, of which there are more than would be read.
    let received = exchange(at.plain, format!("{start}{}{next}", "1\r\na\r\n".repeat(1000)).as_bytes());
    assert!(received.starts_with("HTTP/1.1 503 ") && !received.ends_with("Hello you!"), "{received}");

    drop(clients);
    let Held { release, fixture, .. } = held;
    drop(release);
    await_metric(&fixture, OCCUPIED, 0);
    assert_eq!(request(fixture.at, "PUT", "/held", &[], b"abcde").status, 204);
}

#[test]
fn reset_of_an_upload_that_is_held_frees_it() {
    /// More than a connection may have at a time.
    const UPLOADS: usize = 120;
    let held = Held::start();
    let get = over_tls("GET", "/hello/you", &[]);
    let mut client = http3::Client::connect(held.at().quic).unwrap();
    let reset = |client: &mut http3::Client, stream| {
        client.reset(stream, H3_REQUEST_CANCELLED);
        // The server responds to this after the datagrams before it.
        assert_eq!(client.request(&get).unwrap().status, 200);
    };
    for number in 1..=UPLOADS {
        let stream = client.begin_request(&over_tls("PUT", "/held", EXPECT));
        client.acknowledge_while(|| held.begun() < number).unwrap();
        reset(&mut client, stream);
        held.release.send(()).unwrap();
        let error = held.errors.recv_timeout(Duration::from_secs(60)).unwrap();
        assert_eq!(error, ErrorKind::ConnectionAborted);
    }
    await_metric(&held.fixture, OCCUPIED, 0);

    // Handlers of uploads that wait for a thread never run.
    let others = held.occupy_threads();
    for _ in 0..UPLOADS {
        let stream = client.begin_request(&over_tls("PUT", "/held", EXPECT));
        reset(&mut client, stream);
    }
    client.close();
    drop(others);
    for _ in 0..THREADS {
        held.release.send(()).unwrap();
    }
    await_metric(&held.fixture, OCCUPIED, 0);
    assert_eq!(held.begun(), UPLOADS + THREADS);
}
