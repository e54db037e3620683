//! Runs the server as a library on real sockets. The responses should be the same with every HTTP
//! version.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "tests: a panic is the report")]

#[path = "server/bodies.rs"]
mod bodies;
#[path = "server/cancellation.rs"]
mod cancellation;
#[path = "server/clients.rs"]
mod clients;
#[path = "server/content_deadlines.rs"]
mod content_deadlines;
#[path = "server/contents.rs"]
mod contents;
#[path = "server/errors.rs"]
mod errors;
#[path = "server/held_uploads.rs"]
mod held_uploads;
#[path = "server/metrics.rs"]
mod metrics;
#[path = "server/notes.rs"]
mod notes;
#[path = "server/observed.rs"]
mod observed;
#[path = "server/page.rs"]
mod page;
#[path = "server/replaced.rs"]
mod replaced;
#[path = "server/responses.rs"]
mod responses;
#[path = "server/routing.rs"]
mod routing;
#[path = "server/startup.rs"]
mod startup;
mod support;
#[path = "server/uploads.rs"]
mod uploads;
#[path = "server/waiting.rs"]
mod waiting;

use std::cell::Cell;
use std::collections::VecDeque;
use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use cannery::config::AdminPage;
use cannery::{HandlerError, Request, Response, RunningServer, Server, StartError};
use cannery_testkit::http1;
use cannery_testkit::http2::{self, DATA, END_STREAM, HEADERS};
use cannery_testkit::http3::{self, decode, take_frame};

use clients::*;

/// Limits contents in these tests, in bytes.
const CONTENT_BYTES_MAX: u32 = 200_000;

/// Length of a body that is complete before its response starts.
const WRITTEN_BYTES: usize = 30_000;

/// RFC 9114 §8.1.
const H3_REQUEST_CANCELLED: u32 = 0x10c;

/// A server with a site, and one route of each kind.
struct Fixture {
    _site: support::Fixture,
    server: Option<RunningServer>,
    at: Addresses,
    /// `true` while a handler waits.
    is_waiting: Arc<AtomicBool>,
    /// Lets a waiting handler continue.
    proceed: Sender<()>,
    notices: Arc<Mutex<Vec<String>>>,
}

/// Where the server listens.
#[derive(Debug, Clone, Copy)]
struct Addresses {
    plain: SocketAddr,
    quic: SocketAddr,
}

impl Fixture {
    fn start() -> Fixture {
        Fixture::start_with(|server| server)
    }

    fn start_with(change: impl FnOnce(Server) -> Server) -> Fixture {
        let site = support::site();
        let notices = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&notices);
        let (proceed, waiting) = channel();
        let is_waiting = Arc::new(AtomicBool::new(false));

        let server = routes(waiting, Arc::clone(&is_waiting))
            .site(&site.archive)
            .bind("127.0.0.1:0")
            .bind_tls("127.0.0.1:0")
            .bind_quic("127.0.0.1:0")
            .self_signed_certificate(cannery::config::SelfSigned::Ecdsa)
            .configure(|settings| {
                settings
                    .drain(Duration::from_secs(5))
                    .on_notice(move |notice| seen.lock().unwrap().push(notice.to_string()))
            });

        // As for the black box tests.
        let server = match std::env::var("CANNERY_TEST_IO").as_deref() {
            Ok("io_uring") => server.configure(|settings| settings.io(cannery::config::Io::Uring)),
            _ => server,
        };
        let server = change(server).start().unwrap();
        let plain = server.local_addresses()[0];
        let cannery::config::Address::Internet(quic) = server.addresses().quic[0] else {
            panic!("an address")
        };
        Fixture {
            _site: site,
            server: Some(server),
            at: Addresses { plain, quic },
            is_waiting,
            proceed,
            notices,
        }
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            server.stop_handle().stop();
            server.wait();
        }
    }
}

fn routes(waiting: Receiver<()>, is_waiting: Arc<AtomicBool>) -> Server {
    let waiting = Mutex::new(waiting);
    Server::new()
        .content_bytes_max(CONTENT_BYTES_MAX.into())
        .route("GET /hello/{name}", |request: &Request<'_>| {
            let greeting = request.query().get("greeting").unwrap_or("Hello".into());
            Response::text(format!("{greeting} {}!", request.param("name")))
                .with_header("X-Made-By", "a handler")
        })
        .route("POST /echo", |request: &Request<'_>| {
            Response::bytes("application/octet-stream", request.content().to_vec())
        })
        .blocking_route("POST /slow/echo", |request: &Request<'_>| {
            Response::bytes("application/octet-stream", request.content().to_vec())
        })
        .route("PUT /sum", |request: &Request<'_>| -> Result<Response, HandlerError> {
            let numbers: Vec<i64> = request.json()?;
            Response::json(&numbers.iter().sum::<i64>())
        })
        .blocking_route("GET /wait", move |_: &Request<'_>| {
            is_waiting.store(true, Ordering::SeqCst);
            waiting.lock().unwrap().recv().unwrap();
            "waited"
        })
        .blocking_route("GET /thread", |_: &Request<'_>| {
            // It's chance which one we get.
            thread::current()
                .name()
                .unwrap_or_default()
                .trim_end_matches(|digit: char| digit.is_ascii_digit())
                .to_owned()
        })
        .route("GET /headers", |request: &Request<'_>| {
            format!(
                "{:?} {:?} {:?} {}",
                request.header("X-Custom"),
                request.cookie("b"),
                request.host(),
                request.peer().is_some_and(|peer| peer.ip().is_loopback())
            )
        })
        .route("GET /panic", |_: &Request<'_>| -> Response { panic!("this handler panics in a test") })
        .route("GET /fail", |_: &Request<'_>| Err::<Response, _>(std::io::Error::other("secret cause")))
        .route("GET /stream", |_: &Request<'_>| {
            Response::stream("text/plain", |body| {
                for number in 0..20_000 {
                    writeln!(body, "{number}")?;
                }
                Ok(())
            })
        })
        .route("GET /written", |_: &Request<'_>| {
            let (mut writer, response) = Response::channel("text/plain");
            writer.write_all(&[b'x'; WRITTEN_BYTES])?;
            writer.finish();
            Ok::<_, HandlerError>(response)
        })
        .route("GET /broken-stream", |_: &Request<'_>| {
            Response::stream("text/plain", |body| {
                body.write_all(b"begun")?;
                Err(HandlerError::new(500, "no more"))
            })
        })
        .route("DELETE /page", |_: &Request<'_>| ())
}

/// Waits up to half a minute until a condition holds.
fn await_condition(holds: impl Fn() -> bool) {
    for _ in 0..3000 {
        if holds() {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("the condition does not hold");
}

/// Stops a server and waits until it has ended.
fn stop(mut fixture: Fixture) {
    let server = fixture.server.take().unwrap();
    server.stop_handle().stop();
    let (ended, end) = channel();
    thread::spawn(move || {
        server.wait();
        ended.send(()).unwrap();
    });
    end.recv_timeout(Duration::from_secs(60)).expect("the server ends");
}

/// Opens the admin listener.
fn with_admin(server: Server) -> Server {
    server.configure(|settings| settings.admin(AdminPage::new("127.0.0.1:0".parse().unwrap())))
}

/// Waits until a metric on the admin page has this value.
fn await_metric(fixture: &Fixture, metric: &str, value: u64) {
    let addresses = fixture.server.as_ref().unwrap().addresses();
    let Some(cannery::config::Address::Internet(admin)) = addresses.admin else { panic!("{addresses:?}") };
    let line = format!("\n{metric} {value}\n");
    await_condition(|| {
        let request = b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n";
        exchange(admin, request).contains(&line)
    });
}
