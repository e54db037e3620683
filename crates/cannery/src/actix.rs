//! Sites as services of actix-web, which has request and response types of its own.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::pin::Pin;
use std::task::{Context, Poll};

use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::dev::{
    self, AppService, HttpServiceFactory, ResourceDef, ServiceFactory, ServiceRequest, ServiceResponse,
};
use actix_web::http::StatusCode;
use actix_web::http::header::{HeaderName, HeaderValue};
use actix_web::{HttpRequest, HttpResponse};
use bytes::Bytes;
use http::header;

use crate::answer::{Prefix, normal_prefix};
use crate::body::Body;
use crate::mount::Mount;
use crate::service::Service;

/// For `default_service` of an app or scope.
impl dev::Service<ServiceRequest> for Service {
    type Response = ServiceResponse;
    type Error = actix_web::Error;
    type Future = Ready<Result<ServiceResponse, actix_web::Error>>;

    dev::always_ready!();

    fn call(&self, request: ServiceRequest) -> Self::Future {
        let own = self.mount.prefix().requested;
        ready(Ok(respond(&self.mount, own, request)))
    }
}

impl ServiceFactory<ServiceRequest> for Service {
    type Response = ServiceResponse;
    type Error = actix_web::Error;
    type Config = ();
    type Service = Service;
    type InitError = ();
    type Future = Ready<Result<Service, ()>>;

    fn new_service(&self, (): ()) -> Self::Future {
        ready(Ok(self.clone()))
    }
}

/// For `service` of an app or scope, where the site gets all requests below the path of its mount.
impl HttpServiceFactory for Service {
    fn register(self, config: &mut AppService) {
        let resource = ResourceDef::prefix(self.mount.prefix().requested);
        config.register_service(resource, None, Registered(self.mount), None);
    }
}

/// A site that is reached through its own resource, so that the router has processed the whole prefix.
#[derive(Clone)]
struct Registered(Mount);

impl dev::Service<ServiceRequest> for Registered {
    type Response = ServiceResponse;
    type Error = actix_web::Error;
    type Future = Ready<Result<ServiceResponse, actix_web::Error>>;

    dev::always_ready!();

    fn call(&self, request: ServiceRequest) -> Self::Future {
        ready(Ok(respond(&self.0, "", request)))
    }
}

impl ServiceFactory<ServiceRequest> for Registered {
    type Response = ServiceResponse;
    type Error = actix_web::Error;
    type Config = ();
    type Service = Registered;
    type InitError = ();
    type Future = Ready<Result<Registered, ()>>;

    fn new_service(&self, (): ()) -> Self::Future {
        ready(Ok(self.clone()))
    }
}

/// Answers a request for the site at `own` below the path that the router has processed.
fn respond(mount: &Mount, own: &str, request: ServiceRequest) -> ServiceResponse {
    // Without the content, which is ignored.
    let (request, _) = request.into_parts();
    let response = match request_of_http(&request) {
        Some(converted) => {
            let processed = processed_path(&request);
            let requested = [processed, own].concat();
            let public = [&*normal_prefix(processed), own].concat();
            let prefix = Prefix { requested: &requested, public: &public };
            response_of_actix(mount.respond_below(prefix, &converted))
        }
        // actix-web has parsed the request, so this shouldn't happen.
        None => HttpResponse::new(StatusCode::BAD_REQUEST),
    };
    ServiceResponse::new(request, response)
}

/// Returns the start of the path, as the client has sent it, that the router has processed for scopes and resources.
fn processed_path(request: &HttpRequest) -> &str {
    let (matched, path) = (request.match_info(), request.uri().path());
    let rest = matched.unprocessed();
    let decoded = &matched.as_str()[..matched.as_str().len() - rest.len()];
    let decoded = if rest.starts_with('/') { decoded } else { decoded.trim_end_matches('/') };
    // The router has decoded the path, except for `%2F`, so the number of slashes is the same.
    let slashes = decoded.bytes().filter(|byte| *byte == b'/').count();
    let end = path.match_indices('/').nth(slashes).map_or(path.len(), |(at, _)| at);
    if decoded.is_empty() { "" } else { &path[..end] }
}

/// Converts the parts of a request that an answer may depend on. actix-web has another version of the `http` crate.
fn request_of_http(request: &HttpRequest) -> Option<http::Request<()>> {
    let mut converted = http::Request::new(());
    *converted.method_mut() = request.method().as_str().parse().ok()?;
    *converted.uri_mut() = request.uri().to_string().parse().ok()?;
    for (name, value) in request.headers() {
        let name = header::HeaderName::from_bytes(name.as_str().as_bytes()).ok()?;
        converted.headers_mut().append(name, header::HeaderValue::from_bytes(value.as_bytes()).ok()?);
    }
    Some(converted)
}

fn response_of_actix(response: http::Response<Body>) -> HttpResponse {
    let (head, body) = response.into_parts();
    let length = head.headers.get(header::CONTENT_LENGTH);
    let length = length.and_then(|length| length.to_str().ok()?.parse().ok());
    let status = StatusCode::from_u16(head.status.as_u16()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = HttpResponse::with_body(status, BoxBody::new(Content { body, length }));
    for (name, value) in &head.headers {
        let value = HeaderValue::from_bytes(value.as_bytes());
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name.as_str().as_bytes()), value) {
            response.headers_mut().append(name, value);
        }
    }
    response
}

/// The content of a response.
struct Content {
    body: Body,
    /// For `Content-Length`. Responses to `HEAD` have it too, but no content.
    length: Option<u64>,
}

impl MessageBody for Content {
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

    fn try_into_bytes(self) -> Result<Bytes, Content> {
        // Without a box, unless there are several pieces or only the length of others.
        if self.length == Some(self.body.len()) && self.body.is_one_piece() {
            Ok(self.body.into())
        } else {
            Err(self)
        }
    }
}
