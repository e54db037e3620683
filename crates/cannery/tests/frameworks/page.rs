//! The code of `docs/library.md` for actix-web, so that it compiles. `examples/embed/tests/serve/page.rs` has the rest.

#![allow(dead_code, reason = "the compiler is the test")]

use actix_web::{App, HttpServer, web};
use cannery::Site;

async fn forecast() -> &'static str {
    "rain"
}

fn server(site: Site) {
    let server = HttpServer::new(move || {
        App::new().route("/api/forecast", web::get().to(forecast)).default_service(site.service())
    });
    drop(server);
}

fn scope(site: &Site) {
    let app = App::new().service(web::scope("/help").service(site.mount("/docs").service())); // at `/help/docs/`
    drop(app);
}
