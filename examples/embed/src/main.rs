//! A program that carries a site and serves it with axum: `cargo run -p embed -- 127.0.0.1:8000`.
//!
//! A debug build follows `examples/site`: edit a page and reload it.

#![forbid(unsafe_code)]

use axum::Router;
use axum::routing::get;
use tokio::net::TcpListener;

static SITE: cannery::EmbeddedSite = cannery::include_archive!("site.cdb");

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).ok_or("usage: embed ADDRESS:PORT")?;
    let listener = TcpListener::bind(address).await?;
    println!("http://{}/", listener.local_addr()?);

    let app = Router::new()
        .route("/api/hello", get(|| async { "Hello from a handler\n" }))
        .fallback_service(SITE.service());
    axum::serve(listener, app).await?;
    Ok(())
}
