//! Problem details: errors as JSON (RFC 9457).

use cannery_base::status::reason_phrase;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::error::HandlerError;
use crate::into_response::IntoResponse;
use crate::response::Response;

/// The media type of problem details.
const MEDIA_TYPE: &str = "application/problem+json";

/// Problem details: a JSON document that tells programs what is wrong (RFC 9457).
///
/// ```
/// # extern crate cannery_routes as cannery;
/// use cannery::{HandlerError, Problem, Request, Response};
///
/// fn create(request: &Request) -> Result<Response, HandlerError> {
///     let name = request.form()?.get("name").unwrap_or_default();
///     if name.is_empty() {
///         return Err(Problem::new(422)
///             .with_detail("A person needs a name.")
///             .with_member("errors", [("name", "required")])?
///             .into());
///     }
///     Ok(Response::new(201))
/// }
/// ```
#[derive(Debug, Clone)]
pub struct Problem {
    status: u16,
    members: Map<String, Value>,
}

impl Problem {
    /// Creates problem details with a status. The title is the status's reason phrase.
    #[must_use]
    pub fn new(status: u16) -> Problem {
        let mut problem = Problem { status, members: Map::new() }.with_text("title", reason_phrase(status));
        problem.members.insert("status".to_owned(), status.into());
        problem
    }

    /// Sets the title, which should be the same for all problems of a type.
    #[must_use]
    pub fn with_title(self, title: impl Into<String>) -> Problem {
        self.with_text("title", title)
    }

    /// Explains this occurrence of the problem.
    #[must_use]
    pub fn with_detail(self, detail: impl Into<String>) -> Problem {
        self.with_text("detail", detail)
    }

    /// Sets the problem's type, which is a URI reference.
    #[must_use]
    pub fn with_type(self, uri: impl Into<String>) -> Problem {
        self.with_text("type", uri)
    }

    /// Sets the URI reference that identifies this occurrence.
    #[must_use]
    pub fn with_instance(self, uri: impl Into<String>) -> Problem {
        self.with_text("instance", uri)
    }

    /// Sets any other member.
    ///
    /// # Errors
    /// Returns an error if the value cannot be represented in JSON.
    pub fn with_member(mut self, name: &str, value: impl Serialize) -> Result<Problem, HandlerError> {
        self.members.insert(name.to_owned(), serde_json::to_value(value)?);
        Ok(self)
    }

    /// Returns the status.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.status
    }

    fn with_text(mut self, name: &str, text: impl Into<String>) -> Problem {
        self.members.insert(name.to_owned(), Value::String(text.into()));
        self
    }
}

/// Returns the problem details for an error: its status and message.
impl From<&HandlerError> for Problem {
    fn from(error: &HandlerError) -> Problem {
        let problem = Problem::new(error.status());
        match error.message() {
            "" => problem,
            message => problem.with_detail(message),
        }
    }
}

/// The error has the problem details as its content.
impl From<Problem> for HandlerError {
    fn from(problem: Problem) -> HandlerError {
        let detail = problem.members.get("detail").and_then(Value::as_str).unwrap_or_default().to_owned();
        let content = Value::Object(problem.members).to_string();
        HandlerError::new(problem.status, detail).with_content(MEDIA_TYPE, content)
    }
}

impl From<Problem> for Response {
    fn from(problem: Problem) -> Response {
        let content = Value::Object(problem.members).to_string();
        Response::bytes(MEDIA_TYPE, content.into_bytes()).with_status(problem.status)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Result<Response, HandlerError> {
        Ok(self.into())
    }
}
