//! Bodies that are written while they are sent.

use super::*;

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

/// Clients that read nothing occupy all threads for bodies, and the queue behind them is full.
#[test]
fn idle_readers_stop_no_other_request() {
    const WAITING: usize = 1024;
    /// Streams of each connection.
    const STREAMS: usize = 100;
    let begun = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&begun);
    let fixture = Fixture::start_with(|server| {
        server.handler_threads(NonZeroUsize::MIN).route("GET /endless", move |_: &Request<'_>| {
            let counter = Arc::clone(&counter);
            Response::stream("text/plain", move |body| {
                counter.fetch_add(1, Ordering::SeqCst);
                loop {
                    body.write_all(&[b'x'; 1024])?;
                }
            })
        })
    });
    let ask = |bodies: usize| {
        let settings = [(http2::INITIAL_WINDOW_SIZE, 0)];
        let stream = TcpStream::connect(fixture.at.plain).unwrap();
        let mut client = http2::Client::with_settings(stream, &settings);
        for _ in 0..bodies {
            client.send_request(&pseudo("GET", "/endless", &[])).unwrap();
        }
        client.send_frame(http2::PING, 0, 0, &[0; 8]);
        while client.receive_frame().unwrap().kind != http2::PING {}
        client
    };

    // There are eight threads for bodies per thread for handlers.
    let mut clients = vec![ask(8)];
    await_condition(|| begun.load(Ordering::SeqCst) == 8);
    clients.extend((0..WAITING).step_by(STREAMS).map(|first| ask(STREAMS.min(WAITING - first))));
    let refused = exchange(fixture.at.plain, b"GET /stream HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert!(refused.starts_with("HTTP/1.1 503 ") && refused.contains("\r\nRetry-After: "), "{refused}");
    assert_eq!(get(fixture.at, "/hello/you"), (200, "Hello you!".to_owned()));
    assert_eq!(get(fixture.at, "/thread").0, 200);

    drop(clients);
    await_condition(|| over_http1(fixture.at.plain, "GET", "/stream", &[], b"").status == 200);
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
