//! A worker allocates nothing for a request, from the event to the last byte that is sent: counted over ten thousand
//! turns, with and without figures and log.

use std::io::Write;

use cannery_archive::Loading;

use crate::config::{AccessLog, Content, DUMMY_BODY, LogFormat, LogTarget, NamedArchive};
use crate::simulation::archive;
use crate::stepper::{Telling, Turns};

const TURNS: u64 = 10_000;

/// What is asked, and how the answer begins.
const REQUESTS: [(&str, &[u8]); 7] = [
    ("GET /small HTTP/1.1\r\nHost: h\r\n\r\n", b"HTTP/1.1 200"),
    ("GET /middle?query HTTP/1.1\r\nHost: h\r\nAccept-Encoding: gzip, br\r\n\r\n", b"HTTP/1.1 200"),
    ("GET /l%61rge HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", b"HTTP/1.1 200"),
    ("HEAD /large HTTP/1.1\r\nHost: h\r\n\r\n", b"HTTP/1.1 200"),
    ("GET /large HTTP/1.1\r\nHost: h\r\nRange: bytes=1-9,100-199\r\n\r\n", b"HTTP/1.1 206"),
    ("GET /small HTTP/1.1\r\nHost: h\r\nIf-None-Match: *\r\n\r\n", b"HTTP/1.1 304"),
    ("POST /small HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc", b"HTTP/1.1 405"),
];

/// A request for something that is not there: a new path each time.
fn missing(number: u64) -> String {
    format!("GET /missing/{number:06} HTTP/1.1\r\nHost: h\r\n\r\n")
}

fn allocations(turns: &mut Turns) -> u64 {
    let counted = allocation_counter::measure(|| {
        for _ in 0..TURNS {
            turns.turn();
        }
    });
    counted.count_total
}

fn content(file: &tempfile::NamedTempFile) -> Content {
    let archives = vec![NamedArchive::new(None, file.path().to_owned())];
    Content::Archives { archives, loading: Loading::InMemory, watch: false }
}

fn check(telling: &Telling) {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&archive("release")).unwrap();
    let mut turns = Turns::new(content(&file), telling.clone()).unwrap();
    for (request, front) in REQUESTS {
        turns.set_requests(request.as_bytes());
        assert!(turns.turn() > front.len(), "{request}");
        assert_eq!(turns.front(), front, "{request}");
        assert_eq!(allocations(&mut turns), 0, "{request}");
    }
    let all: String = REQUESTS.iter().map(|(request, _)| *request).collect();
    turns.set_requests(all.as_bytes());
    assert_eq!(allocations(&mut turns), 0, "pipelined");
    for number in 0..200 {
        turns.set_requests(missing(number).as_bytes());
        let counted = allocation_counter::measure(|| assert!(turns.turn() > 0));
        assert_eq!((&turns.front()[9..], counted.count_total), (b"404".as_slice(), 0), "missing");
    }
}

#[test]
fn a_request_allocates_nothing() {
    check(&Telling::NOTHING);
}

#[test]
fn a_request_that_is_counted_and_logged_allocates_nothing() {
    let file = tempfile::NamedTempFile::new().unwrap();
    for format in [LogFormat::Combined, LogFormat::Json] {
        let log = AccessLog { target: LogTarget::File(file.path().to_owned()), format, proxies: None };
        check(&Telling { metrics: true, log: Some(log) });
    }
    assert!(file.as_file().metadata().unwrap().len() > 0, "lines were written");
}

#[test]
fn the_engine_alone_allocates_nothing() {
    let mut turns = Turns::new(Content::Dummy { body: DUMMY_BODY }, Telling::NOTHING).unwrap();
    turns.set_requests(REQUESTS[0].0.as_bytes());
    assert!(turns.turn() > 0);
    assert_eq!(allocations(&mut turns), 0);
}
