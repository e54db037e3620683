//! Handlers that fail, and error handlers.

use super::*;

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
