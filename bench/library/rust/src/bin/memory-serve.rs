//! The site with axum and memory-serve: memory-serve ADDRESS.

#![forbid(unsafe_code)]

use axum::Router;

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let files = memory_serve::load!().index_file(Some("/index.html")).into_router();
    library::serve(Router::new().merge(files)).await
}
