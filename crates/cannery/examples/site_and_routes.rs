//! A site with routes, served over HTTP/1.1, TLS with HTTP/2, and HTTP/3. Usage: `site_and_routes SITE.cdb [PROCESSES]` (the
//! number of processes is optional).

use std::error::Error;
use std::io::ErrorKind;
use std::num::NonZeroUsize;
use std::sync::{Mutex, Once};
use std::thread;
use std::time::Duration;

use cannery::config::SelfSigned;
use cannery::{Addresses, BodyWriter, Request, Response, Server};

/// Bodies without an end, which a thread of the program writes.
static FEEDS: Mutex<Vec<BodyWriter>> = Mutex::new(Vec::new());

/// Starts that thread with the first request.
static WRITER: Once = Once::new();

fn hello(request: &Request) -> Response {
    Response::text(format!("Hello {}!\n", request.param("name")))
}

fn echo(request: &Request) -> Response {
    Response::bytes("application/octet-stream", request.content().to_vec())
}

fn feed(_: &Request) -> Response {
    let (writer, response) = Response::channel("text/plain");
    if let Ok(mut feeds) = FEEDS.lock() {
        feeds.push(writer);
    }
    WRITER.call_once(|| drop(thread::spawn(write_feeds)));
    response
}

/// Writes as much as the clients take, until they have left.
fn write_feeds() {
    while let Ok(mut feeds) = FEEDS.lock() {
        feeds.retain_mut(|feed| match feed.try_write(&[b'.'; 32 * 1024]) {
            Ok(_) => true,
            Err(error) => error.kind() == ErrorKind::WouldBlock,
        });
        drop(feeds);
        thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) fn print(addresses: &Addresses) {
    for (kind, address) in &addresses.listeners {
        eprintln!("listening at {}://{address}/", kind.scheme());
    }
    for address in &addresses.quic {
        eprintln!("listening at https://{address}/ (HTTP/3)");
    }
}

pub(crate) fn serve(archive: &str, processes: Option<NonZeroUsize>) -> Result<(), Box<dyn Error>> {
    let server = Server::new()
        .site(archive)
        .route("GET /hello/{name}", hello)
        .route("GET /feed", feed)
        .blocking_route("POST /echo", echo)
        .self_signed_certificate(SelfSigned::Ecdsa)
        .bind("127.0.0.1:0")
        .bind_tls("127.0.0.1:0")
        .bind_quic("127.0.0.1:0");
    let server = match processes {
        Some(processes) => server.processes(processes),
        None => server,
    };
    Ok(server.run_with(print)?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let archive = arguments.next().ok_or("usage: site_and_routes SITE.cdb [PROCESSES]")?;
    let processes = arguments.next().map(|number| number.parse()).transpose()?;
    serve(&archive, processes)
}
