//! Metrics of requests for handlers.

use super::*;

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
