//! A site and a dynamic route, with axum: `cargo run -p cannery --example axum --features tower -- site.cdb 127.0.0.1:8000`. If
//! no address is given, a free port will be used.

use std::net::TcpListener;

use axum::Router;
use axum::routing::get;
use cannery::Site;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let site = Site::open(words.next().ok_or("usage: axum ARCHIVE [ADDRESS:PORT]")?)?;
    let listener = TcpListener::bind(words.next().unwrap_or_else(|| "127.0.0.1:0".to_owned()))?;
    eprintln!("listening at http://{}/", listener.local_addr()?);
    serve(&site, listener)
}

/// Serves the site until the process ends.
pub(crate) fn serve(site: &Site, listener: TcpListener) -> Result<(), Box<dyn std::error::Error>> {
    let app = Router::new()
        .route("/api/hello", get(|| async { "Hello from a handler\n" }))
        .fallback_service(site.service());

    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        listener.set_nonblocking(true)?;
        axum::serve(tokio::net::TcpListener::from_std(listener)?, app).await?;
        Ok(())
    })
}
