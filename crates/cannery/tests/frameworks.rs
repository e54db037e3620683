//! Runs the examples on real sockets. Each framework should send exactly what `Site::respond` returns.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "tests: a panic is the report")]

#[path = "frameworks/page.rs"]
mod page;
mod support;

#[path = "../examples/actix_web.rs"]
#[allow(dead_code)]
mod actix_web_example;
#[path = "../examples/axum.rs"]
#[allow(dead_code)]
mod axum_example;
#[path = "../examples/hyper.rs"]
#[allow(dead_code)]
mod hyper_example;

use std::error::Error;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

use bytes::Bytes;
use cannery::Site;
use cannery_testkit::http1;

type Serve = fn(&Site, TcpListener) -> Result<(), Box<dyn Error>>;

/// Runs an example in a thread. It ends together with the test process.
fn start(site: &Site, serve: Serve) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let site = site.clone();
    thread::spawn(move || serve(&site, listener).unwrap());
    address
}

/// Frameworks add these fields.
const OF_FRAMEWORK: [&str; 2] = ["date", "connection"];

fn check(serve: Serve) {
    let fixture = support::site();
    let site = Site::open(&fixture.archive).unwrap();
    let mut client = http1::Client::new(TcpStream::connect(start(&site, serve)).unwrap());

    for (method, target, lines) in support::REQUESTS {
        let mut lines = lines.to_vec();
        if !lines.iter().any(|(name, _)| *name == "host") {
            lines.push(("host", "localhost"));
        }
        let text: String = lines.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let text = format!("{method} {target} HTTP/1.1\r\n{text}\r\n");
        client.send(text.as_bytes()).unwrap();
        let received = client.receive(method).unwrap();

        let request = http::Request::builder().method(method).uri(target);
        let request = lines.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let expected = site.respond(&request.body(()).unwrap());
        assert_eq!(received.status, expected.status().as_u16(), "{text}");
        let wanted = expected.headers().iter();
        let mut wanted: Vec<_> =
            wanted.map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned())).collect();
        let fields = received.fields.iter().map(|(name, value)| (name.to_lowercase(), value.clone()));
        let mut fields: Vec<_> = fields.filter(|(name, _)| !OF_FRAMEWORK.contains(&name.as_str())).collect();
        wanted.sort();
        fields.sort();
        assert_eq!(fields, wanted, "{text}");
        assert_eq!(received.body, Bytes::from(expected.into_body()), "{text}");
    }
}

#[test]
fn axum_sends_the_answers() {
    check(axum_example::serve);
}

#[test]
fn hyper_sends_the_answers() {
    check(hyper_example::serve);
}

#[test]
fn actix_web_sends_the_answers() {
    check(actix_web_example::serve);
}

#[test]
fn route_beside_the_site_is_answered() {
    let fixture = support::site();
    let site = Site::open(&fixture.archive).unwrap();
    for serve in [axum_example::serve as Serve, actix_web_example::serve] {
        let mut client = http1::Client::new(TcpStream::connect(start(&site, serve)).unwrap());
        client.send(b"GET /api/hello HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
        assert_eq!(client.receive("GET").unwrap().body, b"Hello from a handler\n");
    }
}

/// All of axum's ways to mount a site below a prefix, with a redirect of the site.
#[test]
fn site_is_mounted_in_routers_of_axum() {
    use axum::Router;
    use http_body_util::BodyExt;
    use tower_service::Service;

    let fixture = support::site();
    let site = Site::open(&fixture.archive).unwrap();
    let whole = site.mount("/in").service();
    let nested = site.mount("/in").nested().service();
    let routers: [Router; 4] = [
        Router::new().nest_service("/in", nested.clone()),
        // `nest` has no route for `/in/`.
        Router::new()
            .nest("/in", Router::new().fallback_service(nested))
            .route_service("/in/", whole.clone()),
        Router::new().fallback_service(whole.clone()),
        Router::new()
            .route_service("/in", whole.clone())
            .route_service("/in/", whole.clone())
            .route_service("/in/{*path}", whole),
    ];
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for (number, mut router) in routers.into_iter().enumerate() {
        let mut get = |path: &str| {
            let request = http::Request::get(path).body(axum::body::Body::empty()).unwrap();
            runtime.block_on(async {
                let response = router.call(request).await.unwrap();
                let location = response.headers().get("location");
                let location = location.map(|location| location.to_str().unwrap().to_owned());
                (
                    response.status().as_u16(),
                    location,
                    response.into_body().collect().await.unwrap().to_bytes(),
                )
            })
        };
        let (status, _, front) = get("/in/");
        assert_eq!((status, front.starts_with(b"<title>Home")), (200, true), "{number}");
        let (status, location, front) = get("/in");
        let is_front = status == 200 && front.starts_with(b"<title>Home");
        assert!(is_front || location.as_deref() == Some("/in/"), "{number}");
        assert_eq!(get("/in/page").0, 200, "{number}");
        assert_eq!(get("/in/docs").1.as_deref(), Some("/in/docs/"), "{number}");
        assert_eq!(get("/in/missing").0, 404, "{number}");
    }
}

/// A check in front of a folder, or around a mount, sees every spelling of its paths, including the front page.
#[test]
fn no_spelling_passes_a_check_in_axum() {
    use axum::extract::Request;
    use axum::middleware::{Next, from_fn};
    use axum::response::{IntoResponse, Response};
    use axum::routing::any_service;
    use axum::{Router, http::StatusCode};
    use tower_service::Service;

    async fn refuse(_: Request, _: Next) -> StatusCode {
        StatusCode::UNAUTHORIZED
    }
    async fn refuse_folder(request: Request, next: Next) -> Response {
        let path = request.uri().path();
        if path == "/docs" || path.starts_with("/docs/") {
            return StatusCode::UNAUTHORIZED.into_response();
        }
        next.run(request).await
    }

    let fixture = support::site();
    let site = Site::open(&fixture.archive).unwrap();
    let docs = site.mount("/docs").nested().service();
    let guarded = Router::new().fallback_service(docs.clone()).layer(from_fn(refuse));
    let routes = Router::new()
        .route_service("/docs", site.service())
        .route_service("/docs/", site.service())
        .route_service("/docs/{*path}", site.service())
        .route_layer(from_fn(refuse));
    let routers: [Router; 4] = [
        Router::new().fallback_service(site.service()).layer(from_fn(refuse_folder)),
        routes.fallback_service(site.service()),
        Router::new().nest_service("/docs", guarded.clone()).fallback_service(site.service()),
        Router::new()
            .nest("/docs", guarded)
            .route("/docs/", any_service(docs).layer(from_fn(refuse)))
            .fallback_service(site.service()),
    ];
    let open = Router::new().fallback_service(site.service());

    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    // Follows redirects, and returns the last status.
    let status = |router: &Router, method: &str, path: &str| {
        let mut target = path.to_owned();
        for _ in 0..4 {
            let request = http::Request::builder().method(method).uri(&target);
            let request = request.body(axum::body::Body::empty()).unwrap();
            let response = runtime.block_on(router.clone().call(request)).unwrap();
            let Some(location) = response.headers().get("location") else {
                return response.status().as_u16();
            };
            location.to_str().unwrap().clone_into(&mut target);
        }
        panic!("{path} is redirected for ever");
    };
    for path in [
        "/docs/",
        "/docs",
        "/docs?a",
        "/docs/index.html",
        "//docs/",
        "/docs//",
        "/./docs/",
        "/docs/.",
        "/docs/x/..",
        "/x/../docs/",
        "/docs/../docs/",
        "/%64ocs/",
        "/%2e/docs/",
        "/x/%2e%2e/docs",
        "/do%63s/%2E",
        "/old/..//docs/index",
        "http://other.example/%64ocs/",
    ] {
        assert_eq!(status(&open, "GET", path), 200, "{path} is a spelling of the folder");
        for (number, router) in routers.iter().enumerate() {
            for method in ["GET", "HEAD"] {
                assert_eq!(status(router, method, path), 401, "{number}: {method} {path}");
            }
        }
    }
    for router in &routers {
        assert_eq!(status(router, "GET", "/x/../page"), 200);
    }
}

/// The site has a `200.html` for every path there.
#[test]
fn api_below_a_fallback_page_answers_its_paths() {
    use axum::Router;
    use axum::http::StatusCode;
    use axum::routing::post;
    use tower_service::Service;

    let fixture = support::site();
    let site = Site::open(&fixture.archive).unwrap();
    let api = Router::new()
        .route("/people", post(|| async { StatusCode::CREATED }))
        .fallback(|| async { StatusCode::NOT_FOUND });
    let mut app: Router = Router::new().nest("/app/api", api).fallback_service(site.service());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for (method, path, status) in [
        ("POST", "/app/api/people", 201),
        ("GET", "/app/api/people", 405),
        ("GET", "/app/api/nothing", 404),
        ("GET", "/app/anything", 200),
    ] {
        let request = http::Request::builder().method(method).uri(path).header("accept", "text/html");
        let response = app.call(request.body(axum::body::Body::empty()).unwrap());
        assert_eq!(runtime.block_on(response).unwrap().status().as_u16(), status, "{method} {path}");
    }
}

/// Responses of an actix-web app to requests with these methods, paths and fields: status, `Location`, `Content-Length` and body.
type Responses = Vec<(u16, Option<String>, Option<String>, Vec<u8>)>;

/// Method, path and fields.
type ActixRequest<'a> = (&'a str, String, &'a [(&'a str, &'a str)]);

fn responses_of_actix<F, B>(app: actix_web::App<F>, requests: &[ActixRequest<'_>]) -> Responses
where
    F: actix_web::dev::ServiceFactory<
            actix_web::dev::ServiceRequest,
            Config = (),
            Response = actix_web::dev::ServiceResponse<B>,
            Error = actix_web::Error,
            InitError = (),
        > + 'static,
    B: actix_web::body::MessageBody + 'static,
{
    use actix_web::test;

    actix_web::rt::System::new().block_on(async {
        let app = test::init_service(app).await;
        let mut responses = Vec::new();
        for (method, path, fields) in requests {
            let method = actix_web::http::Method::from_bytes(method.as_bytes()).unwrap();
            let mut request = test::TestRequest::with_uri(path).method(method);
            for field in *fields {
                request = request.append_header(*field);
            }
            let response = test::call_service(&app, request.to_request()).await;
            let field =
                |name: &str| response.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
            let (status, location) = (response.status().as_u16(), field("location"));
            let length = field("content-length");
            responses.push((status, location, length, test::read_body(response).await.to_vec()));
        }
        responses
    })
}

/// All of actix-web's ways to mount a site below a prefix.
#[test]
fn site_is_mounted_in_apps_and_scopes_of_actix_web() {
    use actix_web::{App, web};

    let fixture = support::site();
    let site = Site::open(&fixture.archive).unwrap();
    let service = |path: &str| site.mount(path).service();
    let requests = |base: &str| {
        let unchanged = site.respond(&http::Request::get("/page").body(()).unwrap());
        let etag: &'static str = unchanged.headers()["etag"].to_str().unwrap().to_owned().leak();
        let condition: &'static [(&str, &str)] = vec![("if-none-match", etag)].leak();
        [
            ("GET", "/", [].as_slice()),
            ("GET", "", &[]),
            ("GET", "?a=b", &[]),
            ("GET", "/page", &[]),
            ("HEAD", "/page", &[]),
            ("GET", "/page", &[("range", "bytes=0-9")]),
            ("GET", "/page", &[("range", "bytes=0-9,20-29")]),
            ("GET", "/page", condition),
            ("GET", "/docs", &[]),
            ("GET", "/p%61ge?a=b", &[]),
            ("GET", "/missing", &[]),
            ("POST", "/page", &[]),
        ]
        .map(|(method, path, fields)| (method, format!("{base}{path}"), fields))
    };
    let check = |number: usize, base: &str, responses: Responses| {
        let [root, own, own_query, page, head, range, ranges, same, docs, other, missing, post] =
            responses.try_into().unwrap();
        let moved = |to: &str| (308, Some(format!("{base}{to}")));
        assert!(root.0 == 200 && root.3.starts_with(b"<title>Home"), "{number}: {root:?}");
        assert_eq!((own.0, own.1), moved("/"), "{number}");
        assert_eq!((own_query.0, own_query.1), moved("/?a=b"), "{number}");
        assert_eq!((page.0, &page.2), (200, &Some(page.3.len().to_string())), "{number}");
        assert_eq!((head.0, &head.2, head.3.len()), (200, &page.2, 0), "{number}");
        assert_eq!((range.0, range.3.as_slice()), (206, &page.3[..10]), "{number}");
        assert_eq!((ranges.0, &ranges.2), (206, &Some(ranges.3.len().to_string())), "{number}");
        assert_eq!((same.0, same.3.len()), (304, 0), "{number}");
        assert_eq!((docs.0, docs.1), moved("/docs/"), "{number}");
        assert_eq!((other.0, other.1), moved("/page?a=b"), "{number}");
        assert!(missing.0 == 404 && missing.3.starts_with(b"<title>Missing"), "{number}: {missing:?}");
        assert_eq!(post.0, 405, "{number}");
    };

    let apps = || {
        [
            App::new().service(service("/in")),
            App::new().default_service(service("/in")),
            App::new().service(web::scope("/in").default_service(service(""))),
            App::new().service(web::scope("/in").service(service(""))),
        ]
    };
    for (number, app) in apps().into_iter().enumerate() {
        check(number, "/in", responses_of_actix(app, &requests("/in")));
    }
    // The router decodes the prefix, and checks in front of it wouldn't.
    let other = [("GET", "/%69n/page".to_owned(), [].as_slice())];
    for (number, app) in apps().into_iter().enumerate() {
        let (status, location, ..) = responses_of_actix(app, &other).remove(0);
        let is_refused = status == 404;
        assert!(is_refused || (status, location.as_deref()) == (308, Some("/in/page")), "{number}: {status}");
    }

    let app = App::new().service(web::scope("/a").service(service("/in")));
    check(10, "/a/in", responses_of_actix(app, &requests("/a/in")));
    let app = App::new().service(web::scope("/{tenant}").default_service(service("")));
    check(11, "/t", responses_of_actix(app, &requests("/t")));
    let app = App::new().default_service(service(""));
    let responses = responses_of_actix(app, &requests("")[3..]);
    assert_eq!(
        responses.iter().map(|response| response.0).collect::<Vec<_>>(),
        [200, 200, 206, 206, 304, 308, 308, 404, 405]
    );
}
