//! Values that handlers can return.

use std::borrow::Cow;
use std::error::Error;

use crate::error::HandlerError;
use crate::response::Response;

/// Something that a handler can return.
///
/// | value | response |
/// |---|---|
/// | [`Response`], [`Problem`](crate::Problem) | as it is |
/// | `&'static str`, `String` | 200 with plain text |
/// | `&'static [u8]`, `Vec<u8>` | 200 with bytes (`application/octet-stream`) |
/// | `serde_json::Value` | 200 with JSON |
/// | `()` | 204 |
/// | `(status, value)` | the value's response with this status |
/// | `([(name, value), …], value)` | the value's response with these header fields |
/// | `(status, [(name, value), …], value)` | both |
/// | `Option<value>` | the value's response, or a 404 |
/// | `Result<value, error>` | the value's response, or the error. The error can be a [`HandlerError`], or anything that `?` converts to one, or a `Box<dyn Error>` |
///
/// ```
/// # extern crate cannery_routes as cannery;
/// use cannery::{IntoResponse, Request};
///
/// fn create(request: &Request) -> impl IntoResponse + use<> {
///     (201, [("Location", format!("/people/{}", request.param("name")))], "Created.\n")
/// }
/// ```
///
/// `Via` only tells two implementations apart, so you can ignore it.
pub trait IntoResponse<Via = ()> {
    /// Returns the response.
    ///
    /// # Errors
    /// The handler has failed.
    fn into_response(self) -> Result<Response, HandlerError>;
}

/// Tells the implementation for `Box<dyn Error>` from the one for all errors that are `Send` and `Sync`.
#[derive(Debug, Clone, Copy)]
pub struct ViaBoxedError(());

impl IntoResponse for Response {
    fn into_response(self) -> Result<Response, HandlerError> {
        Ok(self)
    }
}

impl IntoResponse for HandlerError {
    fn into_response(self) -> Result<Response, HandlerError> {
        Err(self)
    }
}

impl<R: IntoResponse, E: Into<HandlerError>> IntoResponse for Result<R, E> {
    fn into_response(self) -> Result<Response, HandlerError> {
        self.map_err(Into::into)?.into_response()
    }
}

impl<R: IntoResponse> IntoResponse<ViaBoxedError> for Result<R, Box<dyn Error>> {
    fn into_response(self) -> Result<Response, HandlerError> {
        self.map_err(HandlerError::from_boxed)?.into_response()
    }
}

/// Responds with a 404 if there is no value.
impl<R: IntoResponse> IntoResponse for Option<R> {
    fn into_response(self) -> Result<Response, HandlerError> {
        self.ok_or_else(|| HandlerError::new(404, "There is no such page."))?.into_response()
    }
}

impl IntoResponse for &'static str {
    fn into_response(self) -> Result<Response, HandlerError> {
        Ok(Response::of_text(Cow::Borrowed(self.as_bytes())))
    }
}

impl IntoResponse for String {
    fn into_response(self) -> Result<Response, HandlerError> {
        Ok(Response::text(self))
    }
}

impl IntoResponse for Cow<'static, str> {
    fn into_response(self) -> Result<Response, HandlerError> {
        match self {
            Cow::Borrowed(text) => text.into_response(),
            Cow::Owned(text) => text.into_response(),
        }
    }
}

impl IntoResponse for &'static [u8] {
    fn into_response(self) -> Result<Response, HandlerError> {
        Ok(Response::bytes(BYTES, self))
    }
}

impl<const LENGTH: usize> IntoResponse for &'static [u8; LENGTH] {
    fn into_response(self) -> Result<Response, HandlerError> {
        Ok(Response::bytes(BYTES, self.as_slice()))
    }
}

impl IntoResponse for Vec<u8> {
    fn into_response(self) -> Result<Response, HandlerError> {
        Ok(Response::bytes(BYTES, self))
    }
}

impl IntoResponse for serde_json::Value {
    fn into_response(self) -> Result<Response, HandlerError> {
        Response::json(&self)
    }
}

/// Responds with a 204.
impl IntoResponse for () {
    fn into_response(self) -> Result<Response, HandlerError> {
        Ok(Response::new(204))
    }
}

impl<R: IntoResponse> IntoResponse for (u16, R) {
    fn into_response(self) -> Result<Response, HandlerError> {
        Ok(self.1.into_response()?.with_status(self.0))
    }
}

impl<R, N, V, const COUNT: usize> IntoResponse for ([(N, V); COUNT], R)
where
    R: IntoResponse,
    N: Into<Cow<'static, str>>,
    V: Into<String>,
{
    fn into_response(self) -> Result<Response, HandlerError> {
        let response = self.1.into_response()?;
        Ok(self.0.into_iter().fold(response, |response, (name, value)| response.with_header(name, value)))
    }
}

impl<R, N, V, const COUNT: usize> IntoResponse for (u16, [(N, V); COUNT], R)
where
    R: IntoResponse,
    N: Into<Cow<'static, str>>,
    V: Into<String>,
{
    fn into_response(self) -> Result<Response, HandlerError> {
        (self.0, (self.1, self.2)).into_response()
    }
}

/// Media type of content that we know nothing about.
const BYTES: &str = "application/octet-stream";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::Problem;

    fn text_of<Via>(value: impl IntoResponse<Via>) -> String {
        let response = value.into_response().unwrap_or_else(|error| error.to_response());
        let media_type = response.header("content-type").unwrap_or_default().to_owned();
        let start = format!("{} {media_type} ", response.status());
        start + &String::from_utf8(response.into_content().unwrap()).unwrap()
    }

    #[test]
    fn values_become_responses() {
        assert_eq!(text_of("text"), "200 text/plain; charset=utf-8 text");
        assert_eq!(text_of(String::from("text")), "200 text/plain; charset=utf-8 text");
        assert_eq!(text_of(()), "204  ");
        assert_eq!(text_of(b"bytes"), "200 application/octet-stream bytes");
        assert_eq!(text_of(b"bytes".to_vec()), "200 application/octet-stream bytes");
        assert_eq!(text_of((404, "nothing")), "404 text/plain; charset=utf-8 nothing");
        assert_eq!(text_of(serde_json::json!({ "a": 1 })), "200 application/json {\"a\":1}");
        assert_eq!(text_of(Some("text")), "200 text/plain; charset=utf-8 text");
        assert_eq!(text_of(None::<String>), "404 text/plain; charset=utf-8 There is no such page.\n");
        assert_eq!(text_of(([("Content-Type", "text/csv")], "1,2")), "200 text/csv 1,2");
        assert_eq!(text_of((201, [("Content-Type", "text/csv")], "1,2")), "201 text/csv 1,2");
        assert_eq!(text_of(Response::json(&[1, 2])), "200 application/json [1,2]");
        assert_eq!(
            text_of(Problem::new(422).with_detail("No name.")),
            "422 application/problem+json {\"detail\":\"No name.\",\"status\":422,\"title\":\"Unprocessable Content\"}"
        );
    }

    #[test]
    fn errors_of_all_kinds_become_responses() {
        let failed = "500 text/plain; charset=utf-8 The server has failed to make this page.\n";
        assert_eq!(text_of(Err::<String, _>(std::fmt::Error)), failed);
        assert_eq!(text_of(Err::<String, Box<dyn Error>>("secret".into())), failed);
        assert_eq!(text_of(Err::<String, Box<dyn Error + Send + Sync>>("secret".into())), failed);
        assert_eq!(text_of(Err::<String, _>(anyhow::anyhow!("secret"))), failed);
        assert_eq!(text_of(HandlerError::new(410, "Gone.")), "410 text/plain; charset=utf-8 Gone.\n");
    }
}
