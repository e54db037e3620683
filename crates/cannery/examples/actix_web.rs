//! A site with actix-web: `cargo run -p cannery --example actix_web --features http -- site.cdb 127.0.0.1:8000`.
//!
//! actix-web has its own types, so we need two functions to convert requests and responses.

use std::convert::Infallible;
use std::net::TcpListener;
use std::pin::Pin;
use std::task::{Context, Poll};

use actix_web::body::{BodySize, MessageBody};
use actix_web::http::StatusCode;
use actix_web::http::header::{HeaderName, HeaderValue};
use actix_web::web::Bytes;
use actix_web::{App, HttpRequest, HttpResponse, HttpServer, web};
use cannery::Site;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let (Some(archive), Some(address)) = (words.next(), words.next()) else {
        return Err("usage: actix_web ARCHIVE ADDRESS:PORT".into());
    };
    serve(&Site::open(archive)?, TcpListener::bind(address)?)
}

/// Serves the site until the process ends.
pub(crate) fn serve(site: &Site, listener: TcpListener) -> Result<(), Box<dyn std::error::Error>> {
    let site = site.clone();
    let app = move || App::new().app_data(web::Data::new(site.clone())).default_service(web::to(answer));
    let server = HttpServer::new(app).workers(1).disable_signals().listen(listener)?;
    actix_web::rt::System::new().block_on(server.run())?;
    Ok(())
}

async fn answer(site: web::Data<Site>, request: HttpRequest) -> HttpResponse<Body> {
    let mut copy = http::Request::builder().method(request.method().as_str()).uri(request.uri().to_string());
    for (name, value) in request.headers() {
        copy = copy.header(name.as_str(), value.as_bytes());
    }
    // actix-web parsed the request, so all parts are valid.
    let Ok(request) = copy.body(()) else {
        return HttpResponse::with_body(StatusCode::BAD_REQUEST, Body::default());
    };

    let (head, body) = site.respond(&request).into_parts();
    let length =
        head.headers.get(http::header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    let body = Body { body, length };
    let status = StatusCode::from_u16(head.status.as_u16()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = HttpResponse::with_body(status, body);
    for (name, value) in &head.headers {
        let value = HeaderValue::from_bytes(value.as_bytes());
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name.as_str().as_bytes()), value) {
            response.headers_mut().append(name, value);
        }
    }
    response
}

/// A body for actix-web.
#[derive(Default)]
struct Body {
    body: cannery::Body,
    /// For `Content-Length`. Responses to `HEAD` have it too, but no content.
    length: Option<u64>,
}

impl MessageBody for Body {
    type Error = Infallible;

    fn size(&self) -> BodySize {
        self.length.map_or(BodySize::None, BodySize::Sized)
    }

    fn poll_next(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Infallible>>> {
        Poll::Ready(self.body.next().map(Ok))
    }
}
