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
