//! Conversions from and to the types of the `http` crate.

use http::{HeaderName, HeaderValue, StatusCode, Version};

use crate::error::HandlerError;
use crate::into_response::IntoResponse;
use crate::request::Request;
use crate::request_builder::RequestBuilder;
use crate::response::Response;

/// Fields that depend on the connection. Other libraries may have set them, but only the server can.
const OF_CONNECTION: [&str; 7] =
    ["connection", "content-length", "date", "keep-alive", "trailer", "transfer-encoding", "upgrade"];

/// Fields that depend on the connection are left out.
impl<B: Into<Vec<u8>>> IntoResponse for http::Response<B> {
    fn into_response(self) -> Result<Response, HandlerError> {
        let (parts, body) = self.into_parts();
        let mut response = Response::new(parts.status.as_u16()).with_bytes(body);
        for (name, value) in &parts.headers {
            if !OF_CONNECTION.contains(&name.as_str()) {
                let value = String::from_utf8(value.as_bytes().to_vec())?;
                response = response.append_header(name.as_str().to_owned(), value);
            }
        }
        Ok(response)
    }
}

/// Responds without content.
impl IntoResponse for StatusCode {
    fn into_response(self) -> Result<Response, HandlerError> {
        Ok(Response::new(self.as_u16()))
    }
}

impl<R: IntoResponse> IntoResponse for (StatusCode, R) {
    fn into_response(self) -> Result<Response, HandlerError> {
        (self.0.as_u16(), self.1).into_response()
    }
}

/// Waits until the content is complete, see [`Response::into_content`].
impl TryFrom<Response> for http::Response<Vec<u8>> {
    type Error = HandlerError;

    fn try_from(response: Response) -> Result<Self, HandlerError> {
        let mut converted = http::Response::new(Vec::new());
        *converted.status_mut() = StatusCode::from_u16(response.status())?;
        for (name, value) in response.headers() {
            let name = HeaderName::from_bytes(name.as_bytes())?;
            converted.headers_mut().append(name, HeaderValue::from_str(value)?);
        }
        *converted.body_mut() = response.into_content()?;
        Ok(converted)
    }
}

/// Copies the request, except for the values that middleware has attached to it.
impl TryFrom<&Request<'_>> for http::Request<Vec<u8>> {
    type Error = HandlerError;

    fn try_from(request: &Request<'_>) -> Result<Self, HandlerError> {
        let invalid =
            |error: http::Error| HandlerError::new(400, "The request is invalid.").with_cause(error);
        let mut builder = http::Request::builder().method(request.method()).uri(request.target());
        builder = builder.version(match request.version() {
            "1.0" => Version::HTTP_10,
            "2.0" => Version::HTTP_2,
            "3.0" => Version::HTTP_3,
            _ => Version::HTTP_11,
        });
        for (name, value) in request.headers() {
            builder = builder.header(name, value);
        }
        builder.body(request.content().to_vec()).map_err(invalid)
    }
}

impl<B: AsRef<[u8]>> From<&http::Request<B>> for RequestBuilder {
    fn from(request: &http::Request<B>) -> RequestBuilder {
        let target = request.uri().path_and_query().map_or("/", |target| target.as_str());
        let mut builder = Request::builder(request.method().as_str(), target);
        if let Some(authority) = request.uri().authority() {
            builder = builder.with_header("Host", authority.as_str());
        }
        for (name, value) in request.headers() {
            builder = builder.with_field(name.as_str(), value.as_bytes());
        }
        builder.with_bytes(request.body().as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::Query;
    use crate::request::Parts;

    #[test]
    fn responses_are_converted() {
        let response = http::Response::builder()
            .status(201)
            .header("content-type", "text/csv")
            .header("content-length", "3")
            .header("set-cookie", "a=1")
            .header("set-cookie", "b=2")
            .body("1,2")
            .unwrap();
        let response = response.into_response().unwrap().checked().unwrap();
        let back = http::Response::try_from(response).unwrap();
        assert_eq!((back.status().as_u16(), back.body().as_slice()), (201, b"1,2".as_slice()));
        assert_eq!(back.headers()["content-type"], "text/csv");
        assert_eq!(back.headers().get_all("set-cookie").iter().count(), 2);
        assert!(!back.headers().contains_key("content-length"));
        assert_eq!((StatusCode::CREATED, "text").into_response().unwrap().status(), 201);
        assert_eq!(StatusCode::NOT_FOUND.into_response().unwrap().status(), 404);
    }

    #[test]
    fn responses_of_errors_are_converted() {
        let error = HandlerError::new(401, "Please log in.").with_header("WWW-Authenticate", "Basic");
        let response = Response::from(error).append_header("Set-Cookie", "a=1");
        let converted = http::Response::try_from(response).unwrap();
        assert_eq!(
            (converted.status().as_u16(), converted.body().as_slice()),
            (401, &b"Please log in.\n"[..])
        );
        assert_eq!(converted.headers()["www-authenticate"], "Basic");
        assert_eq!(converted.headers()["set-cookie"], "a=1");
        assert_eq!(converted.headers()["content-type"], "text/plain; charset=utf-8");
    }

    #[test]
    fn query_that_is_not_utf8_is_kept() {
        for (query, expected) in [
            (b"a=\xff&b=%C3%A9".as_slice(), "/?a=%FF&b=%C3%A9"),
            (b"\xc3\xa9=\xc3\xa9\xc3", "/?é=é%C3"),
            (b"", "/?"),
        ] {
            let builder = Request::builder("GET", "/");
            let parts = Parts { query: Some(query), ..builder.parts() };
            let request = Request::new(parts, None, None);
            let converted = http::Request::try_from(&request).unwrap();
            assert_eq!(converted.uri().to_string(), expected);
            let pairs = |query: &[u8]| -> Vec<_> {
                Query::new(query).iter().map(|(name, value)| format!("{name}={value}")).collect()
            };
            assert_eq!(pairs(converted.uri().query().unwrap().as_bytes()), pairs(query));
        }
    }

    #[test]
    fn requests_are_converted() {
        let request = http::Request::put("http://example.com:80/a/b?c=d")
            .header("x", HeaderValue::from_bytes(b"\xff").unwrap())
            .body("content")
            .unwrap();
        let builder = RequestBuilder::from(&request);
        let built = builder.build();
        assert_eq!((built.method(), built.path(), built.host()), ("PUT", "/a/b", Some("example.com")));
        let back = http::Request::try_from(&built).unwrap();
        assert_eq!((back.method().as_str(), back.uri().to_string().as_str()), ("PUT", "/a/b?c=d"));
        assert_eq!((back.headers()["x"].as_bytes(), back.body().as_slice()), (&b"\xff"[..], &b"content"[..]));
    }
}
