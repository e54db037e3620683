//! Runs the examples on real sockets. Each framework should send exactly what `Site::respond` returns.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "tests: a panic is the report")]

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
    let mut client = http1::Client::new(TcpStream::connect(start(&site, axum_example::serve)).unwrap());
    client.send(b"GET /api/hello HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    assert_eq!(client.receive("GET").unwrap().body, b"Hello from a handler\n");
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
