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
    let deadline = Instant::now() + Duration::from_secs(60);
    while !body.starts_with("HTTP/1.1 200 ") {
        assert!(
            Instant::now() < deadline && (body.is_empty() || body.starts_with("HTTP/1.1 503 ")),
            "{body}"
        );
        thread::sleep(Duration::from_millis(100));
        body.clear();
        send("/stream").read_to_string(&mut body).unwrap();
    }

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

/// Functions that wait for something else, and not for their clients, occupy all threads.
#[test]
fn body_without_a_thread_is_an_error() {
    let (wake, sleeping) = channel::<()>();
    let sleeping = Arc::new(Mutex::new(sleeping));
    let begun = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&begun);
    let fixture = Fixture::start_with(|server| {
        let server = server.route("GET /asleep", move |_: &Request<'_>| {
            let (sleeping, counter) = (Arc::clone(&sleeping), Arc::clone(&counter));
            Response::stream("text/plain", move |body| {
                counter.fetch_add(1, Ordering::SeqCst);
                let _ = sleeping.lock().unwrap().recv();
                Ok(body.write_all(b"awake")?)
            })
        });
        let stream = |_: &Request<'_>| Response::stream("text/plain", |body| Ok(body.write_all(b"begun")?));
        server.handler_threads(NonZeroUsize::MIN).group("/pool", |pool| {
            let cors = cannery::Cors::any_origin();
            pool.wrap(cors.middleware()).blocking_route("GET /stream", stream)
        })
    });
    let send = |target: &str| {
        let mut stream = TcpStream::connect(fixture.at.plain).unwrap();
        write!(stream, "GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
        stream
    };
    // There are eight threads for bodies per thread for handlers.
    let _asleep: Vec<_> = (0..8).map(|_| send("/asleep")).collect();
    await_condition(|| begun.load(Ordering::SeqCst) == 8);

    // The response only begins once there is a thread.
    let mut waiting = send("/stream");
    assert_eq!(get(fixture.at, "/hello/you").0, 200);
    waiting.set_nonblocking(true).unwrap();
    assert_eq!(waiting.read(&mut [0]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    waiting.set_nonblocking(false).unwrap();
    wake.send(()).unwrap();
    let mut received = String::new();
    waiting.read_to_string(&mut received).unwrap();
    assert!(received.starts_with("HTTP/1.1 200 ") && received.contains("19999"), "{received}");

    let _last = send("/asleep");
    await_condition(|| begun.load(Ordering::SeqCst) == 9);
    // The first ones wait for some seconds, and later ones not at all.
    let start = Instant::now();
    for target in ["/stream", "/pool/stream", "/stream"] {
        for head in heads(fixture.at, target) {
            assert_eq!((head.status, head.values("Retry-After").len()), (503, 1), "{head:?}");
            assert!(head.values("Transfer-Encoding").is_empty(), "{head:?}");
            let origins = head.values("Access-Control-Allow-Origin").len();
            assert_eq!(origins, usize::from(target == "/pool/stream"), "{head:?}");
        }
    }
    let waited = start.elapsed();
    assert!((Duration::from_secs(9)..Duration::from_secs(19)).contains(&waited), "{waited:?}");

    drop(wake);
    await_condition(|| over_http1(fixture.at.plain, "GET", "/pool/stream", &[], b"").status == 200);
    assert_eq!(get(fixture.at, "/pool/stream"), (200, "begun".to_owned()));
    let begun = begun.load(Ordering::SeqCst);
    assert_eq!(begun, 9, "functions whose client has got an error don't run");
}

/// Serializers write a few bytes at a time.
#[test]
fn short_writes_are_sent_together() {
    // Less than the first windows of HTTP/2.
    const BYTES: usize = 60_000;
    let fixture = Fixture::start_with(|server| {
        server.route("GET /bytes", |_: &Request<'_>| {
            Response::stream("text/plain", |body| {
                for _ in 0..BYTES {
                    body.write_all(b"x")?;
                }
                Ok(())
            })
        })
    });
    let chunks_of = |mut rest: &[u8]| {
        let mut chunks = 0;
        while let Some(line) = rest.windows(2).position(|window| window == b"\r\n") {
            let size = usize::from_str_radix(str::from_utf8(&rest[..line]).unwrap(), 16).unwrap();
            rest = &rest[line + 2 + size + 2..];
            chunks += 1;
        }
        chunks
    };
    let received = exchange(fixture.at.plain, b"GET /bytes HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let (_, body) = received.split_once("\r\n\r\n").unwrap();
    assert_eq!(unchunk(body.as_bytes()).len(), BYTES);
    let chunks = chunks_of(body.as_bytes());

    let mut client = http2::Client::new(TcpStream::connect(fixture.at.plain).unwrap());
    let stream = client.send_request(&pseudo("GET", "/bytes", &[])).unwrap();
    let mut frames = 0;
    loop {
        let frame = client.receive_frame().unwrap();
        frames += usize::from(frame.stream == stream && frame.kind == DATA);
        if frame.stream == stream && frame.has(END_STREAM) {
            break;
        }
    }

    let mut client = http3::Client::connect(fixture.at.quic).unwrap();
    let mut fields = pseudo("GET", "/bytes", &[]);
    fields[1].1 = "https";
    let stream = client.send_request(&fields).unwrap();
    let bytes = client.receive_bytes(stream).unwrap();
    let mut rest = bytes.as_slice();
    let http3_frames =
        std::iter::from_fn(|| take_frame(&mut rest)).filter(|(kind, _)| *kind == http3::DATA).count();

    // They have 8 KiB each. On a busy machine, some are sent because time has passed, or several have become ready and are sent as one.
    let counts = [chunks, frames, http3_frames];
    assert!(counts.iter().all(|count| (1..BYTES / 100).contains(count)), "{counts:?}");
}

#[test]
fn short_writes_are_sent_in_time() {
    let (proceed, waiting) = channel::<()>();
    let waiting = Mutex::new(Some(waiting));
    let fixture = Fixture::start_with(|server| {
        server.route("GET /steps", move |_: &Request<'_>| {
            let waiting = waiting.lock().unwrap().take();
            Response::stream("text/plain", move |body| {
                for (step, ()) in (1..).zip(waiting.iter().flatten()) {
                    body.write_all(b"step ")?;
                    write!(body, "{step}")?;
                    if step % 2 == 0 {
                        body.flush()?;
                    }
                }
                Ok(())
            })
        })
    });
    let mut stream = TcpStream::connect(fixture.at.plain).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream.write_all(b"GET /steps HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    let mut received = Vec::new();
    for step in 1..=4 {
        proceed.send(()).unwrap();
        let wanted = format!("\r\n6\r\nstep {step}\r\n");
        while !received.ends_with(wanted.as_bytes()) {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            received.push(byte[0]);
        }
    }
    drop(proceed);
    stream.read_to_end(&mut received).unwrap();
    assert!(received.ends_with(b"0\r\n\r\n"));
}

#[test]
fn bodies_are_streamed() {
    let fixture = Fixture::start();
    let expected: String = (0..20_000).map(|number| format!("{number}\n")).collect();
    assert!(get(fixture.at, "/stream") == (200, expected));
    assert_eq!(request(fixture.at, "HEAD", "/stream", &[], b"").status, 200);
}

/// Clients can tell that a body is incomplete, and the operator learns why.
#[test]
fn body_that_ends_with_an_error_is_cut_off() {
    let fixture = Fixture::start();
    let reports = || {
        let notices = fixture.notices.lock().unwrap();
        let report = "GET /broken-stream: the body of a response: no more";
        notices.iter().filter(|notice| notice.contains(report)).count()
    };
    // There's no last chunk before the connection ends.
    let received = exchange(fixture.at.plain, b"GET /broken-stream HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(received.ends_with("5\r\nbegun\r\n"), "{received}");
    await_condition(|| reports() == 1);

    let mut client = http2::Client::new(TcpStream::connect(fixture.at.plain).unwrap());
    let stream = client.send_request(&pseudo("GET", "/broken-stream", &[])).unwrap();
    loop {
        let frame = client.receive_frame().unwrap();
        if frame.stream != stream {
            continue;
        }
        assert!(!frame.has(END_STREAM));
        match frame.kind {
            // This also keeps the decoder in step.
            HEADERS => assert_eq!(client.decode_head(frame).status, 200),
            http2::RST_STREAM => break,
            _ => {}
        }
    }
    let next = client.send_request(&pseudo("GET", "/hello/you", &[])).unwrap();
    assert_eq!(client.receive_all(&[next], "GET").unwrap()[0].status, 200);
    await_condition(|| reports() == 2);

    let mut client = http3::Client::connect(fixture.at.quic).unwrap();
    let mut fields = pseudo("GET", "/broken-stream", &[]);
    fields[1].1 = "https";
    let stream = client.send_request(&fields).unwrap();
    assert!(client.receive_bytes(stream).is_err());
    fields[3].1 = "/hello/you";
    assert_eq!(client.request(&fields).unwrap().status, 200);
    await_condition(|| reports() == 3);
}

/// An HTTP/1.1 client that closes its sending direction is taken for gone, which is not a failure of the handler.
#[test]
fn body_ends_when_its_client_stops_sending() {
    let (ended, end) = channel();
    let fixture = Fixture::start_with(|server| {
        server.route("GET /endless", move |_: &Request<'_>| {
            let ended = ended.clone();
            Response::stream("text/plain", move |body| {
                let written = loop {
                    if let Err(error) = body.write_all(&[b'x'; 1024]) {
                        break Err(error.into());
                    }
                };
                let _ = ended.send(());
                written
            })
        })
    });
    let mut stream = TcpStream::connect(fixture.at.plain).unwrap();
    stream.write_all(b"GET /endless HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    stream.read_exact(&mut [0; 10_000]).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut rest = Vec::new();
    // The server may reset the connection instead, since it doesn't send what it has.
    if stream.read_to_end(&mut rest).is_ok() {
        assert!(!rest.ends_with(b"0\r\n\r\n"), "there is no last chunk");
    }
    end.recv_timeout(Duration::from_secs(30)).unwrap();
    assert_eq!(over_http1(fixture.at.plain, "GET", "/hello/x", &[], b"").status, 200);
    let notices = fixture.notices.lock().unwrap();
    assert!(!notices.iter().any(|notice| notice.contains("/endless")), "{notices:?}");
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
