//! Contents of requests that are complete before their handlers run.

use super::*;

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

/// The requests that have a thread, or wait for one, share 64 MiB.
#[test]
fn contents_of_pool_requests_are_limited_together() {
    let (proceed, waiting) = channel::<()>();
    let waiting = Mutex::new(waiting);
    let held = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&held);
    let fixture = Fixture::start_with(|server| {
        server.handler_threads(NonZeroUsize::new(2).unwrap()).group("/large", |group| {
            group.content_bytes_max(64 << 20).blocking_route("POST", move |request: &Request<'_>| {
                counter.fetch_add(1, Ordering::SeqCst);
                let _ = waiting.lock().unwrap().recv();
                request.content().len().to_string()
            })
        })
    });
    let at = fixture.at.plain;
    let post = move |mebibytes: usize| {
        let head = "POST /large HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: ";
        let head = format!("{head}{}\r\n\r\n", mebibytes << 20);
        let mut stream = TcpStream::connect(at).unwrap();
        // Shorter than the time for the handler, after which the status would be 503, too.
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(&vec![0; mebibytes << 20]).unwrap();
        let mut received = String::new();
        stream.read_to_string(&mut received).unwrap();
        received
    };

    thread::scope(|scope| {
        // If the test fails, the handlers return anyway.
        let proceed = proceed;
        // Content that grows may take up to twice its length.
        let accepted = [15, 15].map(|mebibytes| scope.spawn(move || (mebibytes, post(mebibytes))));
        await_condition(|| held.load(Ordering::SeqCst) == 2);
        let refused = post(35);
        assert!(refused.starts_with("HTTP/1.1 503 ") && refused.contains("\r\nRetry-After: "), "{refused}");
        drop(proceed);
        for response in accepted {
            let (mebibytes, response) = response.join().unwrap();
            assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
            assert!(response.ends_with(&format!("\r\n\r\n{}", mebibytes << 20)), "{response}");
        }
    });
}
