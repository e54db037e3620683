//! Instructions of the request path, by step and in total.
//!
//! Each step is counted the second time it runs, so one-time costs don't count: first use of memory, formatting the date.

#![allow(clippy::unwrap_used, reason = "a benchmark: a panic is the report")]

use std::hint::black_box;

use cannery_archive::{Archive, Key, KeyBuffer, Loading};
use cannery_counts::{
    CHROMIUM, CURL, HELD, Http3Client, NOT_HELD, PLAIN, PLAIN_FIELDS, chromium_fields, large, over_http2,
    pipelined, site, with_field,
};
use cannery_server::config::{AccessLog, Content, DUMMY_BODY, LogFormat, LogTarget, NamedArchive};
use cannery_server::stepper::{Http3Stepper, Instrumentation, Stepper};
use cannery_site::{Fields, Method, Request, Scratch, Site, VirtualHosts};
use cannery_wire::h1::{Connection, Head, Step};
use cannery_wire::{ArchiveRef, Output, Response, ServerFields};
use gungraun::{library_benchmark, library_benchmark_group, main};

/// A step that can run repeatedly.
type Again = Box<dyn FnMut()>;

/// Runs the step once, so the next run has no one-time costs.
fn warm(mut again: Again) -> Again {
    again();
    again
}

/// Opens the small site.
fn open_site() -> Site {
    Site::new(Archive::open(&site(), Loading::Mapped).unwrap(), VirtualHosts::Enabled)
}

/// Parses requests that arrive in one piece.
fn parse(requests: &'static [u8], count: usize) -> Again {
    let mut connection = Connection::default();
    warm(Box::new(move || {
        let mut rest = black_box(requests);
        for _ in 0..count {
            let mut head = Head::EMPTY;
            let (used, step) = connection.next_request(rest, &mut head);
            assert!(matches!(step, Step::Request));
            black_box(&head);
            rest = &rest[used..];
        }
    }))
}

/// A browser's conditional request for `/hello.txt`.
fn revalidation() -> Vec<u8> {
    let site = open_site();
    let mut scratch = Scratch::default();
    let answer = site.answer(&Request::new(Method::Get, b"/hello.txt"), &mut scratch);
    let Fields::Canned { validators, .. } = answer.fields else { panic!("no file") };
    let etag = str::from_utf8(validators.etag.unwrap()).unwrap();
    with_field("/hello.txt", &format!("If-None-Match: \"{etag}\""))
}

fn leaked(requests: Vec<u8>) -> &'static [u8] {
    requests.leak()
}

/// Looks up a path in the large archive.
fn look_up(path: &'static [u8], is_held: bool) -> Again {
    let archive = Archive::open(&large(), Loading::Mapped).unwrap();
    let mut buffer = KeyBuffer::new();
    warm(Box::new(move || {
        let key = Key::from_target(black_box(path), &mut buffer).unwrap();
        let found = archive.path(None, key).unwrap();
        assert_eq!(black_box(found).is_some(), is_held);
    }))
}

/// Answers a parsed request from the small site; the status must match.
fn answer(request: &'static [u8], status: u16) -> Again {
    let site = open_site();
    let mut head = Head::EMPTY;
    let step = Connection::default().next_request(request, &mut head).1;
    assert!(matches!(step, Step::Request));
    let mut scratch = Scratch::default();
    warm(Box::new(move || {
        let answer = site.answer(black_box(&head.common.request), &mut scratch);
        assert_eq!(black_box(answer).status, status);
    }))
}

/// Writes the response for an answer.
fn encode(request: &'static [u8], status: u16) -> Again {
    let site: &'static Site = Box::leak(Box::new(open_site()));
    let mut connection = Connection::default();
    let mut head = Head::EMPTY;
    let step = connection.next_request(request, &mut head).1;
    assert!(matches!(step, Step::Request));
    let answer = site.answer(&head.common.request, Box::leak(Box::default()));
    assert_eq!(answer.status, status);
    let fields = ServerFields::new(&[("X-Content-Type-Options", "nosniff")], 1_763_700_000);
    let archive = ArchiveRef { bytes: site.archive().bytes(), ..ArchiveRef::NONE };
    let mut output = Output::new();
    warm(Box::new(move || {
        let response = Response { answer: black_box(&answer), archive, fields: &fields };
        connection.respond(&head, &response, &mut output);
        black_box(output.parts());
        output.clear();
    }))
}

fn site_content() -> Content {
    let archives = vec![NamedArchive::new(None, site())];
    Content::Archives { archives, loading: Loading::Mapped, watch: false }
}

fn dummy() -> Content {
    Content::dummy(DUMMY_BODY)
}

fn metrics_and_log() -> Instrumentation {
    let log = AccessLog::new(LogTarget::File("/dev/null".into()), LogFormat::Combined);
    Instrumentation { metrics: true, log: Some(log) }
}

/// A whole loop iteration of a worker, from the event to the sent bytes.
fn iteration(content: Content, instrumentation: Instrumentation, requests: &[u8]) -> Again {
    let mut stepper = Stepper::new(content, instrumentation).unwrap();
    stepper.set_requests(requests);
    warm(Box::new(move || assert!(black_box(stepper.step()) > 0)))
}

/// A whole loop iteration with HTTP/2 requests, on a connection that has served the same requests before.
fn iteration_over_http2(requests: Vec<Vec<u8>>) -> Again {
    let mut stepper = Stepper::new(site_content(), Instrumentation::NONE).unwrap();
    stepper.set_request_sequence(requests);
    assert!(stepper.step() > 0);
    warm(Box::new(move || assert!(black_box(stepper.step()) > 0)))
}

/// A whole loop iteration with HTTP/3 requests, on a connection that has served the same requests before.
///
/// It begins with the datagrams of the client, which acknowledge earlier responses, and includes the cryptography. Connection
/// IDs and keys are random, so that two counts differ by up to 0.4 %.
fn iteration_over_http3(streams: usize) -> Again {
    const WARM_ITERATIONS: usize = 8;
    let mut stepper = Http3Stepper::new(site_content()).unwrap();
    let mut client = Http3Client::connect(stepper.now());
    // A new connection runs in the iteration after its first datagram, so silence of the client alone isn't the end.
    let mut exchange = |client: &mut Http3Client| {
        loop {
            let datagrams = client.send();
            let is_silent = datagrams.is_empty();
            stepper.step(datagrams);
            let sent = stepper.take_sent();
            if is_silent && sent.is_empty() {
                return;
            }
            client.receive(sent);
        }
    };
    exchange(&mut client);
    // The server permits few streams until a client uses them.
    for answered in (1..=WARM_ITERATIONS).map(|iterations| iterations * streams) {
        while client.responses() < answered {
            let requests = client.request(answered - client.responses());
            assert!(requests > 0, "the server permits no stream");
            exchange(&mut client);
        }
    }

    assert_eq!(client.request(streams), streams);
    let mut requests = client.send();
    Box::new(move || assert!(black_box(stepper.step(std::mem::take(&mut requests))) > 0))
}

#[library_benchmark]
#[bench::curl(parse(CURL, 1))]
#[bench::chromium(parse(CHROMIUM, 1))]
#[bench::pipelined_16(parse(leaked(pipelined()), 16))]
fn wire_parse(mut again: Again) -> Again {
    again();
    again
}

#[library_benchmark]
#[bench::held(look_up(HELD, true))]
#[bench::not_held(look_up(NOT_HELD, false))]
fn archive_lookup(mut again: Again) -> Again {
    again();
    again
}

#[library_benchmark]
#[bench::identity(answer(PLAIN, 200))]
#[bench::brotli(answer(CHROMIUM, 200))]
#[bench::not_modified(answer(leaked(revalidation()), 304))]
#[bench::range(answer(leaked(with_field("/hello.txt", "Range: bytes=0-4")), 206))]
#[bench::not_found(answer(leaked(with_field("/docs/a/b/c/d.png", "Accept: */*")), 404))]
#[bench::redirect_rule(answer(leaked(with_field("/old/a/b?c", "Accept: */*")), 301))]
#[bench::rewrite_rule(answer(leaked(with_field("/people/ada", "Accept: */*")), 200))]
#[bench::fallback(answer(leaked(with_field("/app/settings/colours", "Accept: */*")), 200))]
fn site_answer(mut again: Again) -> Again {
    again();
    again
}

#[library_benchmark]
#[bench::identity(encode(PLAIN, 200))]
#[bench::brotli(encode(CHROMIUM, 200))]
#[bench::not_modified(encode(leaked(revalidation()), 304))]
#[bench::not_found(encode(leaked(with_field("/docs/a/b/c/d.png", "Accept: */*")), 404))]
fn wire_encode(mut again: Again) -> Again {
    again();
    again
}

#[library_benchmark]
#[bench::dummy(iteration(dummy(), Instrumentation::NONE, PLAIN))]
#[bench::plain(iteration(site_content(), Instrumentation::NONE, PLAIN))]
#[bench::plain_counted_and_logged(iteration(site_content(), metrics_and_log(), PLAIN))]
#[bench::chromium(iteration(site_content(), Instrumentation::NONE, CHROMIUM))]
#[bench::pipelined_16(iteration(site_content(), Instrumentation::NONE, &pipelined()))]
#[bench::not_modified(iteration(site_content(), Instrumentation::NONE, &revalidation()))]
#[bench::http2(iteration_over_http2(over_http2(&PLAIN_FIELDS, 1)))]
#[bench::http2_32_streams(iteration_over_http2(over_http2(&PLAIN_FIELDS, 32)))]
#[bench::http3(iteration_over_http3(1))]
#[bench::http3_32_streams(iteration_over_http3(32))]
#[bench::http2_chromium(iteration_over_http2(over_http2(&chromium_fields(), 1)))]
fn server_iteration(mut again: Again) -> Again {
    again();
    again
}

library_benchmark_group!(
    name = request_path;
    benchmarks = wire_parse, archive_lookup, site_answer, wire_encode, server_iteration
);

main!(library_benchmark_groups = request_path);
