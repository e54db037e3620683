//! The code of `docs/library.md` and of the crates' pages, so that it compiles, with the parts that they leave out.
//! `crates/cannery/tests/frameworks/page.rs` has the code for actix-web.

#![allow(dead_code, unused_qualifications, clippy::let_and_return, reason = "the compiler is the test")]

use std::error::Error;

use cannery::{Server, Site};

/// The library, except that `include_archive!` ignores the name and embeds the archive that the build script writes.
mod cannery {
    pub(super) use ::cannery::*;

    macro_rules! include_archive {
        ($name:literal) => {
            ::cannery::include_archive!("site.cdb")
        };
    }
    pub(super) use include_archive;
}

async fn forecast() -> &'static str {
    "rain"
}

fn opened() -> Result<axum::Router, Box<dyn Error>> {
    let site = cannery::Site::open("site.cdb")?;

    let app = axum::Router::new()
        .route("/api/forecast", axum::routing::get(forecast))
        .fallback_service(site.service());
    Ok(app)
}

mod build_script {
    // build.rs
    fn main() {
        cannery_build::archive("web/dist").immutable("/assets/*").emit("site.cdb");
    }
}

fn embedded() -> axum::Router {
    // main.rs
    static SITE: cannery::EmbeddedSite = cannery::include_archive!("site.cdb");

    let app = axum::Router::new().fallback_service(SITE.service());
    app
}

fn nested(site: &Site) -> axum::Router {
    let app = axum::Router::new().nest_service("/docs", site.mount("/docs").nested().service());
    app
}

fn below_a_prefix(site: &Site) -> axum::Router {
    let docs = site.mount("/docs").service();
    let app = axum::Router::new()
        .route_service("/docs", docs.clone())
        .route_service("/docs/", docs.clone())
        .route_service("/docs/{*path}", docs);
    app
}

fn replaced(site: &Site) -> Result<(), Box<dyn Error>> {
    site.replace(&cannery::Site::open("next.cdb")?);
    Ok(())
}

fn download() -> std::io::Result<Vec<u8>> {
    Ok(Vec::new())
}

fn replaced_in_a_server() -> Result<(), Box<dyn Error>> {
    static BLOG: cannery::EmbeddedSite = cannery::include_archive!("blog.cdb");
    static DOCS: cannery::EmbeddedSite = cannery::include_archive!("docs.cdb");

    let server = Server::new()
        .embedded_site_of("blog.example", &BLOG)
        .embedded_site_of("docs.example", &DOCS)
        .bind(":8080")
        .start()?;

    DOCS.replace(&cannery::Site::from_bytes(download()?)?);
    drop(server);
    Ok(())
}
