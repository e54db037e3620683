//! Tests that a worker does not allocate memory for a request, from the event to the last sent byte, with and without metrics
//! and access log.

use std::io::Write;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use cannery_archive::Loading;
use cannery_eventloop::Waker;
use cannery_routes::{Group, Request, Routes};

use crate::config::{AccessLog, Content, DUMMY_BODY, LogFormat, LogTarget, NamedArchive};
use crate::error::StartError;
use crate::routes::{Pools, WorkerRoutes};
use crate::worker::simulation::archive;
use crate::worker::stepper::{Instrumentation, Stepper};

const ITERATIONS: u64 = 10_000;

/// Requests, and the start of their responses.
const REQUESTS: [(&str, &[u8]); 7] = [
    ("GET /small HTTP/1.1\r\nHost: h\r\n\r\n", b"HTTP/1.1 200"),
    ("GET /middle?query HTTP/1.1\r\nHost: h\r\nAccept-Encoding: gzip, br\r\n\r\n", b"HTTP/1.1 200"),
    ("GET /l%61rge HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", b"HTTP/1.1 200"),
    ("HEAD /large HTTP/1.1\r\nHost: h\r\n\r\n", b"HTTP/1.1 200"),
    ("GET /large HTTP/1.1\r\nHost: h\r\nRange: bytes=1-9,100-199\r\n\r\n", b"HTTP/1.1 206"),
    ("GET /small HTTP/1.1\r\nHost: h\r\nIf-None-Match: *\r\n\r\n", b"HTTP/1.1 304"),
    ("POST /small HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc", b"HTTP/1.1 405"),
];

/// Returns a request for a missing path that depends on `number`.
fn missing(number: u64) -> String {
    format!("GET /missing/{number:06} HTTP/1.1\r\nHost: h\r\n\r\n")
}

fn allocations(stepper: &mut Stepper) -> u64 {
    let counted = allocation_counter::measure(|| {
        for _ in 0..ITERATIONS {
            stepper.step();
        }
    });
    counted.count_total
}

fn content(file: &tempfile::NamedTempFile) -> Content {
    let archives = vec![NamedArchive::new(None, file.path().to_owned())];
    Content::Archives { archives, loading: Loading::InMemory, watch: false }
}

fn check(instrumentation: &Instrumentation) {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&archive("release")).unwrap();
    let mut stepper = Stepper::new(content(&file), instrumentation.clone()).unwrap();
    for (request, start) in REQUESTS {
        stepper.set_requests(request.as_bytes());
        assert!(stepper.step() > start.len(), "{request}");
        assert_eq!(stepper.response_start(), start, "{request}");
        assert_eq!(allocations(&mut stepper), 0, "{request}");
    }
    let all: String = REQUESTS.iter().map(|(request, _)| *request).collect();
    stepper.set_requests(all.as_bytes());
    assert_eq!(allocations(&mut stepper), 0, "pipelined");
    for number in 0..200 {
        stepper.set_requests(missing(number).as_bytes());
        let counted = allocation_counter::measure(|| assert!(stepper.step() > 0));
        assert_eq!((&stepper.response_start()[9..], counted.count_total), (b"404".as_slice(), 0), "missing");
    }
}

#[test]
fn request_does_not_allocate() {
    check(&Instrumentation::NONE);
}

#[test]
fn static_request_beside_routes_does_not_allocate() {
    let handler = |_: &Request<'_>| "";
    let mut group = Group::default().group("/group", |group| group.route("POST /a", handler));
    for pattern in ["GET /hello/{name}", "/api/{path...}", "GET /small/{$}", "GET other.example/small"] {
        group = group.blocking_route(pattern, handler);
    }
    let routes = Arc::new(Routes::new(&group, 0).unwrap());
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&archive("release")).unwrap();
    let mut stepper = Stepper::with_routes(content(&file), Instrumentation::NONE, |status| {
        let (pools, mut watchdog) = Pools::new(1, usize::MAX, &routes, Duration::MAX, status);
        let waker = Waker::new().map_err(StartError::EventLoop)?;
        Ok(Some(WorkerRoutes::new(routes, pools, waker, channel().0, &mut watchdog)))
    })
    .unwrap();
    for (request, start) in REQUESTS {
        stepper.set_requests(request.as_bytes());
        assert!(stepper.step() > start.len(), "{request}");
        assert_eq!(stepper.response_start(), start, "{request}");
        assert_eq!(allocations(&mut stepper), 0, "{request}");
    }
}

#[test]
fn handler_on_the_worker_does_not_allocate() {
    let group = Group::default().route("GET /hello/{name}", |_: &Request<'_>| "hello");
    let routes = Arc::new(Routes::new(&group, 0).unwrap());
    let mut stepper = Stepper::with_routes(Content::dummy(DUMMY_BODY), Instrumentation::NONE, |status| {
        let (pools, mut watchdog) = Pools::new(1, usize::MAX, &routes, Duration::MAX, status);
        let waker = Waker::new().map_err(StartError::EventLoop)?;
        Ok(Some(WorkerRoutes::new(routes, pools, waker, channel().0, &mut watchdog)))
    })
    .unwrap();
    stepper.set_requests(b"GET /hello/you HTTP/1.1\r\nHost: h\r\n\r\n");
    assert!(stepper.step() > 0);
    assert_eq!(stepper.response_start(), *b"HTTP/1.1 200");
    assert_eq!(allocations(&mut stepper), 0);
}

#[test]
fn logged_request_does_not_allocate() {
    let file = tempfile::NamedTempFile::new().unwrap();
    for format in [LogFormat::Combined, LogFormat::Json] {
        let log = AccessLog::new(LogTarget::File(file.path().to_owned()), format);
        check(&Instrumentation { metrics: true, log: Some(log) });
    }
    assert!(file.as_file().metadata().unwrap().len() > 0, "lines were written");
}

#[test]
fn dummy_response_does_not_allocate() {
    let mut stepper = Stepper::new(Content::dummy(DUMMY_BODY), Instrumentation::NONE).unwrap();
    stepper.set_requests(REQUESTS[0].0.as_bytes());
    assert!(stepper.step() > 0);
    assert_eq!(allocations(&mut stepper), 0);
}
