//! A site and a dynamic route, with actix-web: `cargo run -p cannery --example actix_web --features actix-web -- site.cdb
//! 127.0.0.1:8000`. If no address is given, a free port will be used.

use std::net::TcpListener;

use actix_web::{App, HttpServer, web};
use cannery::Site;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let site = Site::open(words.next().ok_or("usage: actix_web ARCHIVE [ADDRESS:PORT]")?)?;
    let listener = TcpListener::bind(words.next().unwrap_or_else(|| "127.0.0.1:0".to_owned()))?;
    eprintln!("listening at http://{}/", listener.local_addr()?);
    serve(&site, listener)
}

/// Serves the site until the process ends.
pub(crate) fn serve(site: &Site, listener: TcpListener) -> Result<(), Box<dyn std::error::Error>> {
    let site = site.clone();
    let app = move || {
        App::new()
            .route("/api/hello", web::get().to(|| async { "Hello from a handler\n" }))
            .default_service(site.service())
    };
    let server = HttpServer::new(app).workers(1).disable_signals().listen(listener)?;
    actix_web::rt::System::new().block_on(server.run())?;
    Ok(())
}
