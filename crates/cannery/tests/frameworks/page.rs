//! The code of `docs/library.md` for actix-web, and for axum with middleware, so that it compiles. `examples/embed/tests/serve/page.rs` has the rest.

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

async fn search() -> &'static str {
    "found"
}

async fn log_in(request: axum::extract::Request, next: axum::middleware::Next) -> axum::response::Response {
    if request.headers().contains_key("authorization") {
        return next.run(request).await;
    }
    axum::response::IntoResponse::into_response(http::StatusCode::UNAUTHORIZED)
}

fn protected(site: &Site) -> axum::Router {
    let docs = axum::Router::new()
        .route("/search", axum::routing::get(search))
        .fallback_service(site.mount("/docs").nested().service())
        .layer(axum::middleware::from_fn(log_in));
    let app = axum::Router::new().nest_service("/docs", docs);
    #[allow(clippy::let_and_return, reason = "the page has this line")]
    app
}

#[test]
fn nested_router_protects_the_whole_mount() {
    use tower_service::Service;

    let fixture = crate::support::site();
    let site = Site::open(&fixture.archive).unwrap();
    let mut app = protected(&site);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut status = |path: &str, authorization: Option<&str>| {
        let request = http::Request::get(path);
        let request =
            authorization.into_iter().fold(request, |all, value| all.header("authorization", value));
        let request = request.body(axum::body::Body::empty()).unwrap();
        runtime.block_on(app.call(request)).unwrap().status().as_u16()
    };
    for path in ["/docs", "/docs/", "/docs/page", "/docs/search"] {
        assert_eq!((status(path, None), status(path, Some("a"))), (401, 200), "{path}");
    }
}
