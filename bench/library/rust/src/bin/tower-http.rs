//! The site with axum and tower-http's `ServeDir`: tower-http ADDRESS FOLDER.

#![forbid(unsafe_code)]

use axum::Router;
use tower_http::services::ServeDir;

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let folder = std::env::args().nth(2).ok_or(std::io::ErrorKind::InvalidInput)?;
    let files = ServeDir::new(folder).precompressed_gzip().precompressed_br();
    library::serve(Router::new().fallback_service(files)).await
}
