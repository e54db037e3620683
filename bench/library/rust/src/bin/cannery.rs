//! The site with axum and Cannery: cannery ADDRESS.

#![forbid(unsafe_code)]

use axum::Router;

static SITE: cannery::EmbeddedSite = cannery::include_archive!("site.cdb");

#[tokio::main]
async fn main() -> std::io::Result<()> {
    library::serve(Router::new().fallback_service(SITE.service())).await
}
