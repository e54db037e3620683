//! Clients that leave before their response.

use super::*;

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
