//! A site with routes, served over HTTP/1.1, TLS with HTTP/2, and HTTP/3. Usage: `site_and_routes SITE.cdb [PROCESSES]` (the
//! number of processes is optional).

use std::error::Error;
use std::num::NonZeroUsize;

use cannery::config::SelfSigned;
use cannery::{Addresses, Request, Response, Server};

fn hello(request: &Request) -> Response {
    Response::text(format!("Hello {}!\n", request.param("name")))
}

fn echo(request: &Request) -> Response {
    Response::bytes("application/octet-stream", request.content().to_vec())
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
