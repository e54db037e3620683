//! Handlers that wait, and requests that wait for handlers.

use super::*;

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
