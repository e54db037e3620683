//! The site with axum and rust-embed, by the handler of its example for axum: rust-embed ADDRESS.
//!
//! That handler sends neither codings nor validators.

#![forbid(unsafe_code)]

use axum::Router;
use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use rust_embed::Embed;

#[derive(Embed)]
#[folder = "site/"]
struct Asset;

async fn index_handler() -> impl IntoResponse {
    serve_asset("index.html")
}

async fn static_handler(Path(path): Path<String>) -> impl IntoResponse {
    serve_asset(&path)
}

fn serve_asset(path: &str) -> Response {
    match Asset::get(path) {
        Some(content) => {
            ([(header::CONTENT_TYPE, content.metadata.mimetype())], content.data).into_response()
        }
        None => (StatusCode::NOT_FOUND, "404 Not Found").into_response(),
    }
}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let app = Router::new().route("/", get(index_handler)).route("/{*file}", get(static_handler));
    library::serve(app).await
}
