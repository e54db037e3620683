//! A site with hyper: `cargo run -p cannery --example hyper --features hyper -- site.cdb 127.0.0.1:8000`. If no address is
//! given, a free port will be used.

use std::net::TcpListener;

use cannery::Site;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let site = Site::open(words.next().ok_or("usage: hyper ARCHIVE [ADDRESS:PORT]")?)?;
    let listener = TcpListener::bind(words.next().unwrap_or_else(|| "127.0.0.1:0".to_owned()))?;
    eprintln!("listening at http://{}/", listener.local_addr()?);
    serve(&site, listener)
}

/// Serves the site until the process ends.
pub(crate) fn serve(site: &Site, listener: TcpListener) -> Result<(), Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        listener.set_nonblocking(true)?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        loop {
            let (stream, _) = listener.accept().await?;
            let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), site.service());
            // Errors come from the client, and end only this connection.
            tokio::spawn(connection);
        }
    })
}
