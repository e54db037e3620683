//! Unit tests of handlers, middleware and groups.

use super::*;

/// A chain of middleware adds its name to this field.
fn mark(name: &'static str) -> impl Fn(&mut Request<'_>, &crate::Next<'_>) -> Response {
    move |request, next| next(request).append_header("X-Seen", name)
}

fn group() -> Group {
    Group::default()
        .route("GET /hello/{name}", |request: &Request<'_>| Response::text(request.param("name")))
        .route("GET /missing", |_: &Request<'_>| (404, "Nothing here."))
        .route("GET /failing", |_: &Request<'_>| Err::<(), _>(std::io::Error::other("disk on fire")))
        .route("GET /panicking", |_: &Request<'_>| -> () { panic!("a handler may panic") })
        .route("GET /invalid", |_: &Request<'_>| Response::new(200).with_header("\n", ""))
        .route("POST /form", |request: &Request<'_>| request.content().to_vec())
}

fn routes(group: &Group) -> Routes {
    Routes::new(group, 10).unwrap()
}

fn respond(group: &Group, method: &str, target: &str) -> Response {
    routes(group).respond(&Request::builder(method, target)).response
}

fn text_of(response: Response) -> (u16, String) {
    (response.status(), String::from_utf8(response.into_content().unwrap()).unwrap())
}

fn seen(response: &Response) -> String {
    let seen = response.headers().filter(|(name, _)| *name == "X-Seen").map(|(_, value)| value);
    seen.collect::<Vec<_>>().join(" ")
}

#[test]
fn handlers_answer_or_fail() {
    let group = group();
    let get = |target| text_of(respond(&group, "GET", target));
    assert_eq!(get("/hello/J%C3%BCrgen"), (200, "Jürgen".to_owned()));
    assert_eq!(get("/missing"), (404, "Nothing here.".to_owned()));
    assert_eq!(get("/other").0, 404);
    for (path, why) in [
        ("/failing", "GET /failing: disk on fire"),
        ("/panicking", "GET /panicking: the handler has panicked"),
        (
            "/invalid",
            "GET /invalid: a handler sets a field with the name \"\\n\", which RFC 9110 §5.1 forbids",
        ),
    ] {
        let HandlerResponse { response, fault } = routes(&group).respond(&Request::builder("GET", path));
        assert_eq!((response.status(), fault.as_deref()), (500, Some(why)));
        assert_eq!(response.error().map(HandlerError::status), Some(500));
        assert!(!text_of(response).1.contains("fire"), "causes are for the operator");
    }
}

#[test]
fn middleware_sees_every_response() {
    let group = group().wrap(mark("outer")).wrap(mark("inner")).group("/api", |api| {
        api.wrap(mark("api"))
            .route("POST /people", |_: &Request<'_>| "made")
            .group("/v1", |v1| v1.wrap(mark("v1")).route("GET", |_: &Request<'_>| "one"))
    });
    let cases = [
        ("GET", "/hello/a", 200, "inner outer"),
        ("GET", "/failing", 500, "inner outer"),
        ("GET", "/panicking", 500, "inner outer"),
        ("GET", "/invalid", 500, "inner outer"),
        ("OPTIONS", "/form", 204, "inner outer"),
        ("DELETE", "/form", 405, "inner outer"),
        ("POST", "/api/people", 200, "api inner outer"),
        ("GET", "/api/people", 405, "api inner outer"),
        ("OPTIONS", "/api/people", 204, "api inner outer"),
        ("GET", "/api/nothing", 404, "api inner outer"),
        ("GET", "/api", 404, "api inner outer"),
        ("GET", "/api/v1", 200, "v1 api inner outer"),
        ("GET", "/api/v1/x", 404, "v1 api inner outer"),
    ];
    for (method, target, status, chain) in cases {
        let response = respond(&group, method, target);
        assert_eq!((response.status(), seen(&response).as_str()), (status, chain), "{method} {target}");
    }
}

#[test]
fn allow_is_the_same_everywhere() {
    let group = group().route("DELETE /hello/{name}", |_: &Request<'_>| ());
    for method in ["OPTIONS", "PUT"] {
        let response = respond(&group, method, "/hello/a");
        assert_eq!(response.header("Allow"), Some("DELETE, GET, HEAD, OPTIONS"), "{method}");
    }
    let routes = routes(&group);
    let mut call = routes.find(b"PUT", None, b"/form").unwrap();
    assert!(call.yields_to_site());
    call.set_readable();
    let response = call.run(Request::builder("PUT", "/form").parts(), None).response;
    assert_eq!(response.header("Allow"), Some("GET, HEAD, OPTIONS, POST"));
}

#[test]
fn errors_carry_fields_and_content() {
    let group = Group::default()
        .route("GET /fields", |_: &Request<'_>| {
            HandlerError::new(401, "Please log in.").with_header("WWW-Authenticate", "Basic")
        })
        .route("GET /content", |_: &Request<'_>| HandlerError::new(409, "").with_content("text/csv", "a,b"))
        .route("GET /invalid", |_: &Request<'_>| HandlerError::new(409, "").with_header("a b", "c"));
    let with_pages =
        group.clone().on_error(|_, error| (Response::html("<h1>Oh</h1>")).with_status(error.status()));
    for (group, body) in [(&group, "Please log in.\n"), (&with_pages, "<h1>Oh</h1>")] {
        let response = respond(group, "GET", "/fields");
        assert_eq!(response.header("www-authenticate"), Some("Basic"));
        assert_eq!(text_of(response), (401, body.to_owned()));
        assert_eq!(text_of(respond(group, "GET", "/content")), (409, "a,b".to_owned()));
        assert_eq!(respond(group, "GET", "/invalid").status(), 500);
    }
}

#[test]
fn groups_have_their_error_handlers() {
    let group = group().on_error(|_, _| Response::html("page")).group("/api", |api| {
        api.on_error(|_, error| crate::Problem::from(error))
            .route("GET /failing", |_: &Request<'_>| HandlerError::new(409, "Not now."))
    });
    assert_eq!(text_of(respond(&group, "GET", "/failing")).1, "page");
    let response = respond(&group, "GET", "/api/failing");
    assert_eq!(response.header("Content-Type"), Some("application/problem+json"));
    assert_eq!(
        text_of(response),
        (409, r#"{"detail":"Not now.","status":409,"title":"Conflict"}"#.to_owned())
    );
    assert_eq!(respond(&group, "GET", "/api/x").header("content-type"), Some("application/problem+json"));
}

/// Returns the status and the report.
fn report_of(group: &Group, path: &str) -> (u16, Option<String>) {
    let made = routes(group).respond(&Request::builder("GET", path));
    (made.response.status(), made.fault)
}

#[test]
fn faults_of_error_responses_are_reported() {
    let group = Group::default()
        .route("GET /redirect", |_: &Request<'_>| HandlerError::new(303, "Elsewhere."))
        .route("GET /field", |_: &Request<'_>| HandlerError::new(409, "").with_header("a b", "c"))
        .route("GET /failing", |_: &Request<'_>| Err::<(), _>("a disk"));
    let invalid = "a handler sets a field with the name \"a b\", which RFC 9110 §5.1 forbids";
    let no_error = "an error has the status 303, which is none of 400 to 599: Elsewhere.";
    assert_eq!(report_of(&group, "/redirect"), (500, Some(format!("GET /redirect: {no_error}"))));
    assert_eq!(report_of(&group, "/field"), (500, Some(format!("GET /field: {invalid}"))));

    let panicking = group.clone().on_error(|_, _| -> Response { panic!("an error handler may panic, too") });
    let why = "GET /failing: a disk; the error handler has panicked";
    assert_eq!(report_of(&panicking, "/failing"), (500, Some(why.to_owned())));
    let why = "/x: the error handler has panicked";
    assert_eq!(report_of(&panicking, "/x"), (404, Some(why.to_owned())), "an error of the server");
    let faulty = group.on_error(|_, error| Response::new(error.status()).with_header("a b", ""));
    assert_eq!(report_of(&faulty, "/failing"), (500, Some(format!("GET /failing: a disk; {invalid}"))));
}

#[test]
fn failing_middleware_is_reported_for_refused_requests() {
    let group = group().wrap(|request, next| {
        let response = next(request);
        match response.status() {
            413 => Err("a log"),
            _ => Ok(response),
        }
    });
    let request = Request::builder("POST", "/form").with_content("text/plain", "0123456789a");
    let made = routes(&group).respond(&request);
    assert_eq!((made.response.status(), made.fault.as_deref()), (500, Some("POST /form: a log")));
    let refused = routes(&self::group()).refuse(request.parts(), &HandlerError::new(503, "Busy."));
    assert_eq!((refused.response.status(), refused.fault), (503, None));
}

#[test]
fn pages_for_errors_have_the_status_of_the_error() {
    let group = group().route("POST /a", |_: &Request<'_>| "").on_error(|_, error| match error.status() {
        405 => Response::html("chosen").with_status(200),
        _ => Response::html("page"),
    });
    for (path, status) in [("/failing", 500), ("/hello/", 404), ("/a", 200)] {
        assert_eq!(respond(&group, "GET", path).status(), status, "{path}");
    }
    let replaced = group.on_error(|_, _| {
        let error = HandlerError::new(418, "A teapot.").with_header("X-Pot", "tea");
        Response::from(error).with_header("X-Size", "small")
    });
    let response = respond(&replaced, "GET", "/failing");
    assert_eq!((response.header("X-Pot"), response.header("X-Size")), (Some("tea"), Some("small")));
    assert_eq!(text_of(response), (418, "A teapot.\n".to_owned()));
}

#[test]
fn responses_of_errors_can_be_changed() {
    let group = Group::default()
        .route("GET /a", |_: &Request<'_>| {
            let error = HandlerError::new(401, "Please log in.")
                .append_header("WWW-Authenticate", "Basic")
                .append_header("www-authenticate", "Bearer")
                .with_header("X-Gone", "1");
            let response = Response::from(error);
            assert_eq!(response.header("WWW-Authenticate"), Some("Basic"));
            response
                .with_status(404)
                .with_header("Content-Type", "text/csv")
                .append_header("Set-Cookie", "a=1")
                .append_header("Set-Cookie", "b=2")
                .without_header("x-gone")
        })
        .route("GET /typed", |_: &Request<'_>| {
            HandlerError::new(409, "a,b").with_header("Content-Type", "text/csv")
        });
    let with_pages = group.clone().on_error(|_, error| Response::html(error.status().to_string()));
    for (group, text) in [(&group, "Please log in.\n"), (&with_pages, "404")] {
        let response = respond(group, "GET", "/a");
        let fields: Vec<_> = response.headers().map(|(name, value)| format!("{name}: {value}")).collect();
        assert_eq!(
            fields,
            [
                "Content-Type: text/csv",
                "WWW-Authenticate: Basic",
                "www-authenticate: Bearer",
                "Set-Cookie: a=1",
                "Set-Cookie: b=2"
            ]
        );
        assert_eq!(text_of(response), (404, text.to_owned()));
    }
    assert_eq!(respond(&group, "GET", "/typed").header("content-type"), Some("text/csv"));
    let typed = respond(&with_pages, "GET", "/typed");
    assert_eq!(typed.header("content-type"), Some("text/html; charset=utf-8"));
}

#[test]
fn error_handler_may_panic() {
    let panicking = Group::default()
        .route("GET /a", |_: &Request<'_>| HandlerError::new(410, "Gone."))
        .on_error(|_, _| -> Response { panic!("an error handler may panic, too") });
    assert_eq!(text_of(respond(&panicking, "GET", "/a")), (410, "Gone.\n".to_owned()));
}

#[test]
fn middleware_passes_values_and_sees_the_pattern() {
    struct User(&'static str);
    let group = Group::default()
        .wrap(|request, next| {
            let pattern = request.pattern().unwrap_or("none").to_owned();
            if request.path() == "/refused" {
                return Response::from(HandlerError::new(403, "Not for you.")).with_header("X-Why", "path");
            }
            request.insert(User("ada"));
            next(request).with_header("X-Pattern", pattern)
        })
        .route("GET /refused", |_: &Request<'_>| "never")
        .group("/me", |me| {
            me.route("GET /{id}", |request: &Request<'_>| request.get::<User>().map(|user| user.0))
        });
    let response = respond(&group, "GET", "/me/1");
    assert_eq!(response.header("X-Pattern"), Some("GET /me/{id}"));
    assert_eq!(text_of(response), (200, "ada".to_owned()));
    assert_eq!(respond(&group, "GET", "/me").header("x-pattern"), Some("none"));
    let refused = respond(&group, "GET", "/refused");
    assert_eq!(refused.header("X-Why"), Some("path"));
    assert_eq!(text_of(refused), (403, "Not for you.\n".to_owned()));
}

#[test]
fn groups_have_their_limits() {
    let group = group().timeout(Duration::from_secs(9)).group("/api", |api| {
        api.content_bytes_max(1000)
            .timeout(Duration::from_secs(1))
            .route("POST /form", |_: &Request<'_>| "ok")
    });
    let routes = routes(&group);
    for (target, bytes, status) in
        [("/form", 10, 200), ("/form", 11, 413), ("/api/form", 1000, 200), ("/api/form", 1001, 413)]
    {
        let request = Request::builder("POST", target).with_content("text/plain", vec![b'x'; bytes]);
        assert_eq!(routes.respond(&request).response.status(), status, "{target} {bytes}");
    }
    let timeout = |path| routes.find(b"POST", None, path).unwrap().timeout().unwrap().as_secs();
    assert_eq!((timeout(b"/form"), timeout(b"/api/form")), (9, 1));
}

/// Limits, error handlers and middleware apply to what was added before them, too.
#[test]
fn order_of_calls_changes_no_limit() {
    type Call = fn(Group) -> Group;
    let calls: [Call; 5] = [
        |group| group.content_bytes_max(10),
        |group| group.timeout(Duration::from_secs(9)),
        |group| group.on_error(|_, _| Response::text("handled")),
        |group| group.route("POST /form", |_: &Request<'_>| "ok"),
        |group| {
            group.group("/api", |api| {
                api.route("POST /form", |_: &Request<'_>| "ok")
                    .group("/large", |large| {
                        large.route("POST", |_: &Request<'_>| "ok").content_bytes_max(1000)
                    })
                    .timeout(Duration::from_secs(1))
            })
        },
    ];
    for first in 0..calls.len() {
        let group = (0..calls.len())
            .fold(Group::default(), |group, number| calls[(first + number) % calls.len()](group));
        let routes = Routes::new(&group, 100).unwrap();
        for (target, bytes_max, timeout) in [("/form", 10, 9), ("/api/form", 10, 1), ("/api/large", 1000, 1)]
        {
            let call = routes.find(b"POST", None, target.as_bytes()).unwrap();
            assert_eq!(call.content_bytes_max(), bytes_max, "{first}: {target}");
            assert_eq!(call.timeout(), Some(Duration::from_secs(timeout)), "{first}: {target}");
            let long = vec![b'x'; usize::try_from(bytes_max).unwrap() + 1];
            let request = Request::builder("POST", target).with_content("text/plain", long);
            let response = routes.respond(&request).response;
            assert_eq!(text_of(response), (413, "handled".to_owned()), "{first}: {target}");
        }
    }
}

#[test]
fn blocking_middleware_needs_the_pool() {
    let group = group()
        .group("/api", |api| api.blocking_wrap(mark("blocking")).route("GET /a", |_: &Request<'_>| "a"));
    let routes = routes(&group);
    let thread = |method: &[u8], path| routes.find(method, None, path).unwrap().thread();
    assert_eq!(thread(b"GET", b"/hello/a"), HandlerThread::Worker);
    for (method, path) in [("GET", "/api/a"), ("POST", "/api/a"), ("OPTIONS", "/api/a"), ("GET", "/api/b")] {
        assert_eq!(thread(method.as_bytes(), path.as_bytes()), HandlerThread::Pool, "{method} {path}");
    }
}

#[test]
fn refused_request_ends_before_blocking_middleware() {
    struct User;
    let group = Group::default().wrap(mark("outer")).group("/api", |api| {
        api.wrap(mark("api"))
            .blocking_wrap(|request, next| {
                request.insert(User);
                next(request)
            })
            // This may depend on the authentication, which hasn't run if the pool refuses the request.
            .wrap(|request, _| {
                request.get::<User>().unwrap();
                "private"
            })
            .route("POST /a", |_: &Request<'_>| "a")
    });
    let routes = routes(&group);
    let builder = Request::builder("POST", "/api/a").with_content("text/plain", "0123456789a");
    for made in
        [routes.refuse(builder.parts(), &HandlerError::new(413, "Too long.")), routes.respond(&builder)]
    {
        assert_eq!((seen(&made.response).as_str(), made.fault), ("api outer", None));
        assert_eq!(made.response.status(), 413);
    }
    let made = routes.respond(&Request::builder("POST", "/api/a"));
    assert_eq!(text_of(made.response), (200, "private".to_owned()));
}

/// Panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("a destructor may panic");
    }
}

/// An error whose text panics.
#[derive(Debug)]
struct NoText;

impl fmt::Display for NoText {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        panic!("a text may panic");
    }
}

impl std::error::Error for NoText {}

#[test]
fn destructors_and_texts_may_panic() {
    let group = Group::default()
        .route("GET /text", |_: &Request<'_>| Err::<(), _>(NoText))
        .group("/attached", |group| {
            group.wrap(|request, next| {
                request.insert(Bomb);
                next(request)
            })
        })
        .route("GET /replaced", |_: &Request<'_>| {
            let bomb = Bomb;
            Response::stream("text/plain", move |_| {
                let _moved = &bomb;
                Ok(())
            })
            .with_status(204)
        });
    for (path, fault) in [
        ("/text", "GET /text: the handler has failed, and the text of its error has panicked"),
        ("/attached/x", "/attached/x: the handler has panicked"),
        ("/replaced", "GET /replaced: the handler has panicked"),
    ] {
        let made = routes(&group).respond(&Request::builder("GET", path));
        assert_eq!((made.response.status(), made.fault.as_deref()), (500, Some(fault)));
    }
}

#[test]
fn group_owns_its_prefix() {
    let group = group()
        .group("/api", |api| api.route("POST /a", |_: &Request<'_>| ""))
        .group("", |free| free.route("POST /b", |_: &Request<'_>| ""));
    let routes = routes(&group);
    let find = |method: &str, path: &'static str| routes.find(method.as_bytes(), None, path.as_bytes());
    assert!(!find("GET", "/api/a").unwrap().yields_to_site());
    assert!(find("GET", "/b").unwrap().yields_to_site());
    assert!(find("GET", "/%61pi/x").is_some(), "other spellings of the prefix belong to it");
    assert!(find("GET", "/apis").is_none() && find("GET", "/c").is_none());
    // The site resolves these, so it might have a page there.
    for path in [
        "//api/x",
        "/api//x",
        "/z/../api/x",
        "/./api",
        "/api/./a",
        "/%2e/api/",
        "/%2E%2e/%61pi/x",
        "/z/..//api/x",
    ] {
        assert!(find("GET", path).is_some_and(|call| !call.yields_to_site()), "{path}");
    }
    for path in ["/api/..", "/api/../c", "/x//api", "/api%2Fx", "//c", "/%2E%2Fapi/x"] {
        assert!(find("GET", path).is_none(), "{path}");
    }
    let conflict = Group::default()
        .group("/{a}", |group| group.route("GET /x", |_: &Request<'_>| ""))
        .route("GET /y/{b}", |_: &Request<'_>| "");
    assert!(matches!(Routes::new(&conflict, 1), Err(RouteError::Conflict(_))));
}

#[test]
fn group_answers_other_methods_of_routes_below_its_prefix() {
    let group = Group::default()
        .route("POST /api/x", |_: &Request<'_>| "")
        .group("", |free| free.wrap(mark("free")).route("POST /api/y", |_: &Request<'_>| ""))
        .group("/api", |api| api.wrap(mark("api")));
    let routes = routes(&group);
    for path in ["/api/x", "/api/y"] {
        let call = routes.find(b"GET", None, path.as_bytes()).unwrap();
        assert!(!call.yields_to_site(), "{path}");
        let response = respond(&group, "GET", path);
        assert_eq!((response.status(), seen(&response).as_str()), (405, "api"), "{path}");
    }
}

#[test]
fn errors_of_the_server_reach_the_error_handler() {
    let group = group().on_error(|request, error| {
        let text = format!("{} {} {}", error.status(), error.message(), request.param("name"));
        Response::text(text).with_status(error.status())
    });
    let builder = Request::builder("GET", "/hello/a");
    let refused = routes(&group).refuse(builder.parts(), &HandlerError::new(413, "Too long."));
    assert_eq!(text_of(refused.response), (413, "413 Too long. a".to_owned()));
}

#[test]
fn head_has_no_content() {
    assert_eq!(text_of(respond(&group(), "HEAD", "/hello/a")), (200, String::new()));
}

#[test]
fn patterns_have_the_numbers_of_matches() {
    let group = group();
    let routes = routes(&group);
    let number = routes.find(b"GET", None, b"/failing").unwrap().number().unwrap();
    assert_eq!(routes.pattern(number), Some("GET /failing"));
    assert_eq!(routes.pattern(99), None);
}

#[test]
fn prefix_of_parameters_alone_leaves_other_paths_to_the_site() {
    let below = |prefix: &str| {
        Group::default().group(prefix, |group| {
            group.route("GET /orders", |request: &Request<'_>| request.param("tenant").into_owned())
        })
    };
    let is_left = |prefix: &str, host: Option<&[u8]>, path: &str| {
        routes(&below(prefix)).find(b"GET", host, path.as_bytes()).is_none()
    };
    let group = below("/{tenant}");
    assert_eq!(text_of(respond(&group, "GET", "/a/orders")), (200, "a".to_owned()));
    assert_eq!(respond(&group, "POST", "/a/orders").status(), 405);
    for path in ["/a", "/a/", "/a/other", "/a/orders/1", "/"] {
        assert!(is_left("/{tenant}", None, path), "{path}");
        assert!(is_left("a.example/{tenant}/", Some(b"a.example"), path), "{path}");
        // A host alone is owned as a whole.
        assert!(!is_left("a.example", Some(b"a.example"), path), "{path}");
    }
    // Prefixes with a literal segment own what is below them.
    assert!(!is_left("/{tenant}/api", None, "/a/api/none") && is_left("/{tenant}/api", None, "/a/none"));
    assert!(!is_left("/shop/{tenant}", None, "/shop/a/none"));
}
