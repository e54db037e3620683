//! Responses of handlers and middleware, as clients get them with every HTTP version.

use super::*;
use cannery::{Group, IntoResponse, Next, OrStatus, Problem};

fn with_routes(server: Server) -> Server {
    server
        .route("GET /problem", |_: &Request<'_>| {
            Response::json(&[1])?.with_header("Content-Type", "application/problem+json").into_response()
        })
        .route("GET /twice", |_: &Request<'_>| {
            Response::redirect(303, "/a")
                .append_header("Location", "/b")
                .with_header("cache-control", "no-store")
        })
        .route("GET /reset", |_: &Request<'_>| Response::text("a body").with_status(205))
        .route("GET /unchanged", |_: &Request<'_>| {
            Response::stream("text/plain", |_| panic!("nobody wants this content")).with_status(304)
        })
        .route("GET /empty", |_: &Request<'_>| Response::text("a body").with_status(204))
        .route("GET /missing", |_: &Request<'_>| None::<String>)
        .route("POST /people", |request: &Request<'_>| {
            let name = request.query().get("name").or_status(422, "A person needs a name.")?;
            Ok::<_, HandlerError>((201, [("Location", format!("/people/{name}"))], "Created."))
        })
        .group("/api", |api: Group| {
            api.on_error(|_, error| Problem::from(error))
                .route("PUT /teapot", |_: &Request<'_>| Err::<(), _>("a secret"))
        })
        // For all paths there, the site has a `200.html`, a page of a rule, or a redirect.
        .route("POST /app/save", |_: &Request<'_>| ())
        .route("POST /spa/save", |_: &Request<'_>| ())
        .route("POST /old/save", |_: &Request<'_>| ())
        .group("/app/api", |api: Group| {
            api.on_error(|_, error| Problem::from(error)).route("POST /people", |_: &Request<'_>| ())
        })
        .wrap(|request, next| next(request).with_header("Cache-Control", "private"))
}

/// Sends a request over HTTP/1.1 and returns the lines of the response's head.
fn head_lines(fixture: &Fixture, method: &str, target: &str, lines: &str) -> Vec<String> {
    let request = format!("{method} {target} HTTP/1.1\r\nHost: a\r\n{lines}Connection: close\r\n\r\n");
    let received = exchange(fixture.at.plain, request.as_bytes());
    let (head, _) = received.split_once("\r\n\r\n").unwrap();
    head.split("\r\n").map(str::to_owned).collect()
}

fn values<'l>(lines: &'l [String], name: &str) -> Vec<&'l str> {
    let fields = lines.iter().filter_map(|line| line.split_once(": "));
    fields.filter(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value).collect()
}

#[test]
fn fields_with_one_value_are_sent_once() {
    let fixture = Fixture::start_with(with_routes);
    assert_eq!(request(fixture.at, "GET", "/problem", &[], b"").media_type, "application/problem+json");
    for (target, name, value) in [
        ("/problem", "Content-Type", "application/problem+json"),
        ("/twice", "Location", "/b"),
        ("/twice", "Cache-Control", "private"),
    ] {
        assert_eq!(values(&head_lines(&fixture, "GET", target, ""), name), [value], "{target}");
    }
}

/// Fields with one value that the server has, too.
const OWN_FIELDS: [(&str, &str); 4] = [
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
    ("X-Content-Type-Options", "nosniff"),
    ("Strict-Transport-Security", "max-age=5"),
];

#[test]
fn fields_of_handlers_replace_those_of_the_server() {
    let own = |_: &Request<'_>| {
        OWN_FIELDS.iter().fold(Response::text("own"), |response, (name, value)| {
            // Names are case-insensitive.
            response.with_header(name.to_lowercase(), *value)
        })
    };
    let fixture = Fixture::start_with(|server| {
        let fields = cannery::config::SecurityHeaders::BASIC.with_tls();
        server.route("GET /own", own).configure(|settings| settings.security_headers(fields))
    });
    let [own, others] = ["/own", "/hello/you"].map(|target| heads(fixture.at, target));
    for (name, value) in OWN_FIELDS {
        for (own, other) in own.iter().zip(&others) {
            assert_eq!(own.values(name), [value], "{own:?}");
            let is_https_only = name == "Strict-Transport-Security";
            assert!(other.values(name).len() == 1 || is_https_only, "{name}: {other:?}");
        }
        assert_eq!(others[2].values(name).len(), 1, "{others:?}");
    }
}

#[test]
fn statuses_without_content_have_none() {
    let fixture = Fixture::start_with(with_routes);
    // RFC 9110 §8.6 and §15.3.6: of these, only a 205 has a length.
    for (target, status, lengths) in
        [("/empty", 204, [].as_slice()), ("/reset", 205, &["0"]), ("/unchanged", 304, &[])]
    {
        let seen = request(fixture.at, "GET", target, &[], b"");
        assert_eq!((seen.status, seen.media_type.as_str(), seen.body.len()), (status, "", 0), "{target}");
        let head = head_lines(&fixture, "GET", target, "");
        assert_eq!(values(&head, "Content-Length"), lengths, "{target}");
        assert!(values(&head, "Transfer-Encoding").is_empty(), "{target}");
        // The next response on the connection begins where this one ends.
        let mut client = http1::Client::new(TcpStream::connect(fixture.at.plain).unwrap());
        for (target, status) in [(target, status), ("/hello/you", 200)] {
            let head = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
            assert_eq!(client.request(head.as_bytes(), "GET").unwrap().status, status, "{target}");
        }
    }
}

#[test]
fn registered_statuses_have_reason_phrases() {
    let fixture = Fixture::start_with(with_routes);
    let status_line = |method, target| head_lines(&fixture, method, target, "")[0].clone();
    assert_eq!(status_line("POST", "/people?name=ada"), "HTTP/1.1 201 Created");
    assert_eq!(status_line("POST", "/people"), "HTTP/1.1 422 Unprocessable Content");
    assert_eq!(status_line("GET", "/reset"), "HTTP/1.1 205 Reset Content");
}

#[test]
fn values_are_responses() {
    let fixture = Fixture::start_with(with_routes);
    assert_eq!(get(fixture.at, "/missing"), (404, "There is no such page.\n".to_owned()));
    let seen = request(fixture.at, "POST", "/people?name=ada", &[], b"");
    assert_eq!((seen.status, seen.body.as_slice()), (201, b"Created.".as_slice()));
    let failed = request(fixture.at, "PUT", "/api/teapot", &[], b"");
    assert_eq!((failed.status, failed.media_type.as_str()), (500, "application/problem+json"));
    assert!(!String::from_utf8(failed.body).unwrap().contains("secret"));
}

/// Errors of the API are the API's, whatever the site has.
#[test]
fn paths_of_the_api_are_answered_by_the_api() {
    let fixture = Fixture::start_with(with_routes);
    for (method, target, status) in [
        ("GET", "/api/nothing", 404),
        ("POST", "/api/nothing", 404),
        ("GET", "/api", 404),
        ("GET", "/api/teapot", 405),
        ("POST", "/api/teapot", 405),
        ("GET", "/app/api", 404),
        ("GET", "/app/api/", 404),
        ("GET", "/app/api/nothing", 404),
        ("GET", "/app/x/../api/nothing", 404),
        ("GET", "/app/api/people", 405),
        ("PUT", "/app/api/people", 405),
    ] {
        let seen = request(fixture.at, method, target, &[("accept", "text/html")], b"");
        assert_eq!((seen.status, seen.media_type.as_str()), (status, "application/problem+json"), "{target}");
    }
    // Outside of groups, pages of the site are still read where there's a route for another method.
    assert_eq!(get(fixture.at, "/people").0, 405);
    assert_eq!(get(fixture.at, "/page").0, 200);
    for (target, status) in
        [("/app/save", 405), ("/spa/save", 405), ("/old/save", 301), ("/app/x", 200), ("/spa/x", 200)]
    {
        let seen = request(fixture.at, "GET", target, &[("accept", "text/html")], b"");
        assert_eq!(seen.status, status, "{target}");
    }
    let allow = |method, target| {
        let lines = head_lines(&fixture, method, target, "");
        values(&lines, "Allow").join("|")
    };
    for method in ["OPTIONS", "PATCH"] {
        assert_eq!(allow(method, "/page"), "DELETE, GET, HEAD, OPTIONS", "{method}");
        assert_eq!(allow(method, "/people"), "OPTIONS, POST", "{method}");
        assert_eq!(allow(method, "/hello/x"), "GET, HEAD, OPTIONS", "{method}");
    }
}

/// The archive's `_headers` are for the site. Responses of routes get fields from middleware.
#[test]
fn header_rules_apply_to_the_site_only() {
    let fixture = Fixture::start_with(|server| {
        server.route("GET /docs/now", |_: &Request<'_>| "now").group("/docs/api", |api| {
            api.wrap(|request, next| next(request).with_header("X-Api", "yes"))
                .route("GET /now", |_: &Request<'_>| "now")
        })
    });
    for (target, docs, api) in [
        ("/docs/", ["yes"].as_slice(), [].as_slice()),
        ("/docs/now", &[], &[]),
        ("/docs/api/now", &[], &["yes"]),
        ("/docs/api/nothing", &[], &["yes"]),
    ] {
        let head = head_lines(&fixture, "GET", target, "");
        assert_eq!(
            (values(&head, "X-Docs"), values(&head, "X-Api")),
            (docs.to_vec(), api.to_vec()),
            "{target}"
        );
        // Fields of the server are on every response.
        assert_eq!(values(&head, "X-Content-Type-Options"), ["nosniff"], "{target}");
    }
}

/// Permits every page to call the API, by hand. `Cors` does it for programs.
fn cors(request: &mut Request<'_>, next: &Next<'_>) -> Response {
    let is_preflight =
        request.method() == "OPTIONS" && request.header("Access-Control-Request-Method").is_some();
    let response = if is_preflight {
        // Preflights have no credentials, so functions inside would refuse them.
        Response::new(204)
            .with_header("Access-Control-Allow-Methods", "GET, POST, PUT, DELETE")
            .with_header("Access-Control-Allow-Headers", "Authorization, Content-Type")
            .with_header("Access-Control-Max-Age", "600")
    } else {
        next(request)
    };
    response.with_header("Access-Control-Allow-Origin", "https://app.example").append_header("Vary", "Origin")
}

#[test]
fn cors_is_a_function_around_a_group() {
    let fixture = Fixture::start_with(|server| {
        server.group("/api", |api| {
            api.wrap(cors)
                .content_bytes_max(3)
                .route("POST /people", |_: &Request<'_>| "made")
                .blocking_route("GET /failing", |_: &Request<'_>| Err::<(), _>("a secret"))
        })
    });
    for (method, target, lines, status) in [
        (
            "OPTIONS",
            "/api/people",
            "Origin: https://app.example\r\nAccess-Control-Request-Method: POST\r\n",
            204,
        ),
        ("POST", "/api/people", "Content-Length: 0\r\n", 200),
        ("POST", "/api/people", "Content-Length: 4\r\n", 413),
        ("GET", "/api/people", "", 405),
        ("GET", "/api/failing", "", 500),
        ("GET", "/api/missing", "", 404),
    ] {
        let head = head_lines(&fixture, method, target, lines);
        assert!(head[0].starts_with(&format!("HTTP/1.1 {status} ")), "{head:?}");
        assert_eq!(values(&head, "Access-Control-Allow-Origin"), ["https://app.example"], "{head:?}");
        assert_eq!(values(&head, "Access-Control-Allow-Methods").is_empty(), method != "OPTIONS");
    }
    assert!(values(&head_lines(&fixture, "GET", "/", ""), "Access-Control-Allow-Origin").is_empty());
}

#[test]
fn blocking_middleware_runs_on_the_pool() {
    let fixture = Fixture::start_with(|server| {
        server.group("/api", |api| {
            api.blocking_wrap(|request, next| {
                let thread = thread::current().name().unwrap_or_default().to_owned();
                next(request).with_header("X-Thread", thread)
            })
            .route("GET /a", |_: &Request<'_>| "a")
        })
    });
    for (method, target, status) in
        [("GET", "/api/a", 200), ("GET", "/api/b", 404), ("PUT", "/api/a", 405), ("OPTIONS", "/api/a", 204)]
    {
        assert_eq!(request(fixture.at, method, target, &[], b"").status, status, "{method} {target}");
        let head = head_lines(&fixture, method, target, "");
        assert!(values(&head, "X-Thread")[0].starts_with("handler-"), "{head:?}");
    }
}

#[test]
fn groups_have_timeouts_of_their_own() {
    let (end, waiting) = channel::<()>();
    let waiting = Mutex::new(waiting);
    let fixture = Fixture::start_with(|server| {
        server.group("/quick", |quick| {
            quick.wrap(cors).timeout(Duration::from_millis(1)).blocking_route(
                "GET",
                move |_: &Request<'_>| {
                    // Returns once the test has ended.
                    let _ = waiting.lock().unwrap().recv();
                    "too late"
                },
            )
        })
    });
    for head in heads(fixture.at, "/quick") {
        // Pages of other origins can read the error.
        let origins = head.values("Access-Control-Allow-Origin");
        assert_eq!((head.status, origins.as_slice()), (503, ["https://app.example"].as_slice()), "{head:?}");
    }
    assert_eq!(get(fixture.at, "/thread").0, 200);
    drop(end);
}

#[test]
fn client_behind_a_trusted_proxy_is_known() {
    let proxies = cannery::config::TrustedProxies::new(
        vec!["127.0.0.0/8".parse().unwrap()],
        cannery::config::ForwardedField::XForwardedFor,
    );
    let route = |server: Server| {
        server.route("GET /client", |request: &Request<'_>| {
            format!("{:?}", request.client().map(|client| client.ip()))
        })
    };
    let lines: Lines<'_> = &[("x-forwarded-for", "192.0.2.1, 127.0.0.9")];
    let client = |fixture: &Fixture| {
        String::from_utf8(request(fixture.at, "GET", "/client", lines, b"").body).unwrap()
    };
    let trusting = Fixture::start_with(|server| route(server).trusted_proxies(proxies));
    assert_eq!(client(&trusting), "Some(192.0.2.1)");
    assert_eq!(client(&Fixture::start_with(route)), "Some(127.0.0.1)");
}

#[test]
fn head_starts_no_body() {
    static STARTED: AtomicUsize = AtomicUsize::new(0);
    let fixture = Fixture::start_with(|server| {
        server.handler_threads(NonZeroUsize::MIN).route("GET /counted", |_: &Request<'_>| {
            Response::stream("text/plain", |body| {
                STARTED.fetch_add(1, Ordering::SeqCst);
                Ok(body.write_all(b"begun")?)
            })
        })
    });
    assert_eq!(request(fixture.at, "HEAD", "/counted", &[], b"").status, 200);
    // There's one thread, so earlier bodies have been started by now.
    assert_eq!(get(fixture.at, "/counted"), (200, "begun".to_owned()));
    assert_eq!(STARTED.load(Ordering::SeqCst), 3);
}

/// More clients than there are threads for handlers.
#[test]
fn idle_readers_stop_no_other_body() {
    let (end, waiting) = channel::<()>();
    let waiting = Arc::new(Mutex::new(waiting));
    let is_begun = Arc::new(AtomicUsize::new(0));
    let begun = Arc::clone(&is_begun);
    let fixture = Fixture::start_with(|server| {
        server.route("GET /idle", move |_: &Request<'_>| {
            let (waiting, begun) = (Arc::clone(&waiting), Arc::clone(&begun));
            Response::stream("text/plain", move |body| {
                body.write_all(b"begun")?;
                begun.fetch_add(1, Ordering::SeqCst);
                // Returns once the test has ended.
                let _ = waiting.lock().unwrap().recv();
                Ok(())
            })
        })
    });
    let _idle: Vec<_> = (0..20)
        .map(|_| {
            let mut stream = TcpStream::connect(fixture.at.plain).unwrap();
            stream.write_all(b"GET /idle HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
            stream
        })
        .collect();
    await_condition(|| is_begun.load(Ordering::SeqCst) == 20);
    assert!(get(fixture.at, "/stream").1.ends_with("19999\n"));
    drop(end);
}

#[test]
fn events_are_sent_as_they_happen() {
    let clients = Arc::new(Mutex::new(Vec::new()));
    let writers = Arc::clone(&clients);
    let fixture = Fixture::start_with(|server| {
        server.route("GET /events", move |_: &Request<'_>| {
            let (writer, response) = Response::events();
            writers.lock().unwrap().push(writer);
            response
        })
    });
    let mut stream = TcpStream::connect(fixture.at.plain).unwrap();
    stream.write_all(b"GET /events HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    await_condition(|| clients.lock().unwrap().len() == 1);
    let mut received = String::new();
    for number in 0..3 {
        let event = cannery::Event::new(number.to_string()).with_name("number");
        clients.lock().unwrap()[0].try_send(&event).unwrap();
        let expected = format!("event: number\ndata: {number}\n\n");
        while !received.contains(&expected) {
            let mut bytes = [0; 1024];
            let count = stream.read(&mut bytes).unwrap();
            assert_ne!(count, 0, "{received}");
            received.push_str(str::from_utf8(&bytes[..count]).unwrap());
        }
    }
    assert!(received.contains("Content-Type: text/event-stream\r\n"), "{received}");
    drop(stream);
    await_condition(|| clients.lock().unwrap()[0].keep_alive().is_err());
}

/// Middleware inside of blocking middleware may depend on it, for example on authentication.
#[test]
fn refused_request_skips_everything_inside_of_blocking_middleware() {
    let fixture = Fixture::start_with(|server| {
        server.group("/api", |api| {
            api.wrap(cors)
                .blocking_wrap(|request, next| match request.header("authorization") {
                    Some(_) => next(request),
                    None => HandlerError::new(401, "Please log in.").into(),
                })
                // A cache.
                .wrap(|_: &mut Request<'_>, _: &Next<'_>| "private")
                .content_bytes_max(3)
                .route("POST /people", |_: &Request<'_>| "made")
        })
    });
    for (content, status) in [(&b"abc"[..], 401), (b"abcd", 413)] {
        let seen = request(fixture.at, "POST", "/api/people", &[], content);
        assert_eq!(seen.status, status);
        assert!(!seen.body.starts_with(b"private"));
    }
    let seen = request(fixture.at, "POST", "/api/people", &[("authorization", "a")], b"abc");
    assert_eq!((seen.status, seen.body.as_slice()), (200, b"private".as_slice()));
    let head = head_lines(&fixture, "POST", "/api/people", "Content-Length: 4\r\n");
    assert_eq!(values(&head, "Access-Control-Allow-Origin"), ["https://app.example"], "{head:?}");
    // A preflight has no credentials.
    let head = head_lines(&fixture, "OPTIONS", "/api/people", "Access-Control-Request-Method: POST\r\n");
    assert!(head[0].starts_with("HTTP/1.1 204 "), "{head:?}");
    assert_eq!(values(&head, "Access-Control-Max-Age"), ["600"], "{head:?}");
}

/// Panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("this destructor panics in a test");
    }
}

#[test]
fn threads_survive_destructors_that_panic() {
    let fixture = Fixture::start_with(|server| {
        server.handler_threads(NonZeroUsize::MIN).group("/bombs", |bombs| {
            bombs
                .wrap(|request, next| {
                    request.insert(Bomb);
                    next(request)
                })
                .route("GET /worker", |_: &Request<'_>| "never")
                .blocking_route("GET /pool", |_: &Request<'_>| "never")
        })
    });
    for _ in 0..2 {
        for target in ["/bombs/worker", "/bombs/pool"] {
            assert_eq!(get(fixture.at, target).0, 500, "{target}");
        }
    }
    assert_eq!(get(fixture.at, "/thread"), (200, "handler-".to_owned()));
    assert_eq!(get(fixture.at, "/").0, 200);
}

#[test]
fn group_answers_every_spelling_of_its_paths() {
    let fixture = Fixture::start_with(|server| {
        server
            .route("POST /docs/index.html", |_: &Request<'_>| "made")
            .group("/docs", |docs| docs.on_error(|_, error| Problem::from(error)))
    });
    for (target, status) in [
        ("/docs/", 404),
        ("//docs/", 404),
        ("/docs//", 404),
        ("/x/../docs/", 404),
        ("/%2e/%64ocs/", 404),
        ("/docs/index.html", 405),
    ] {
        let seen = request(fixture.at, "GET", target, &[], b"");
        assert_eq!((seen.status, seen.media_type.as_str()), (status, "application/problem+json"), "{target}");
    }
    assert_eq!(get(fixture.at, "/docs/..").0, 200);
}

#[test]
fn handlers_may_have_no_limit() {
    let fixture = Fixture::start_with(|server| {
        server
            .group("/patient", |patient| {
                patient.timeout(Duration::MAX).blocking_route("GET", |_: &Request<'_>| "made")
            })
            .configure(|settings| settings.timeouts(|timeouts| timeouts.handler = Duration::MAX))
    });
    assert_eq!(get(fixture.at, "/patient"), (200, "made".to_owned()));
    assert_eq!(get(fixture.at, "/thread").0, 200);
}
