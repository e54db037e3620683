//! Groups of routes with their own middleware, limits and error pages.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::content::ContentReader;
use crate::error::HandlerError;
use crate::into_response::IntoResponse;
use crate::request::Request;
use crate::response::Response;

/// Which thread a handler runs on.
// Only for the server.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
// Exhaustive: the server has to handle every kind.
pub enum HandlerThread {
    /// The worker that serves this connection. It also serves many others, so the handler must not
    /// block.
    Worker,
    /// A thread from the pool. The handler can block.
    Pool,
    /// A thread from the pool for handlers that read content while it arrives. It is separate from the other pool because such a
    /// handler has to wait for its client.
    Upload,
}

/// Computes the response to a request.
#[derive(Clone)]
pub(crate) enum Handler {
    /// Gets the complete content with the request.
    Whole(Arc<WholeHandler>),
    /// Reads the content while it arrives.
    Upload(Arc<UploadHandler>),
}

type WholeHandler = dyn Fn(&Request<'_>) -> Result<Response, HandlerError> + Send + Sync;
type UploadHandler = dyn Fn(&Request<'_>, ContentReader) -> Result<Response, HandlerError> + Send + Sync;

/// Computes the response for an error.
pub(crate) type ErrorHandler = Arc<dyn Fn(&Request<'_>, &HandlerError) -> Response + Send + Sync>;

/// Wraps handlers. It can either compute the response itself or call [`Next`] to get the handler's
/// response.
pub(crate) type Middleware =
    Arc<dyn Fn(&mut Request<'_>, &Next<'_>) -> Result<Response, HandlerError> + Send + Sync>;

/// Calls the next middleware. After the last one, calls the handler.
///
/// Errors of the handler already are responses: [`Response::error`] returns the error.
pub type Next<'n> = dyn Fn(&mut Request<'_>) -> Response + 'n;

/// Routes with a common prefix that have their own middleware, limits and error pages.
///
/// ```
/// # extern crate cannery_routes as cannery;
/// use std::time::Duration;
///
/// use cannery::{Group, Problem, Request, Response};
///
/// fn api(group: Group) -> Group {
///     group
///         .content_bytes_max(10 << 20)
///         .timeout(Duration::from_secs(5))
///         .wrap(|request, next| match request.cookie("session") {
///             Some(_) => next(request).with_header("Cache-Control", "no-store"),
///             None => Problem::new(401).into(),
///         })
///         .route("GET /people/{id}", |request: &Request| Response::text(request.param("id")))
/// }
/// ```
///
/// The order of the calls doesn't matter, except that functions of [`Group::wrap`] are called in the order in which they were added.
#[derive(Clone, Default)]
#[must_use]
pub struct Group {
    pub(crate) routes: Vec<PlannedRoute>,
    pub(crate) groups: Vec<(String, Group)>,
    pub(crate) layers: Vec<Layer>,
    pub(crate) on_error: Option<ErrorHandler>,
    pub(crate) content_bytes_max: Option<u64>,
    pub(crate) timeout: Option<Duration>,
}

/// A route whose pattern has not been parsed yet.
#[derive(Clone)]
pub(crate) struct PlannedRoute {
    pub(crate) pattern: String,
    pub(crate) handler: Handler,
    pub(crate) thread: HandlerThread,
}

/// A middleware.
#[derive(Clone)]
pub(crate) struct Layer {
    pub(crate) middleware: Middleware,
    pub(crate) thread: HandlerThread,
}

impl Group {
    /// Adds a route. Requests that match the pattern will be answered by the handler.
    ///
    /// A pattern is `[METHOD ][HOST]/[PATH]`, with the syntax and precedence of Go's `ServeMux` since version 1.22:
    ///
    /// - **Method.** If omitted, the pattern matches all methods. `GET` also matches `HEAD`.
    /// - **Host.** If omitted, the pattern matches all hosts. Hosts are case-insensitive, and cannot have a port.
    /// - **Path.** `{name}` captures one segment that isn't empty, and `{name...}` captures the rest of the path. A `/` at the end
    ///   matches everything below it, unless `{$}` follows.
    ///
    /// For example, `GET /people/{id}` matches `/people/7`. Segments are compared after percent-decoding. The most specific
    /// pattern takes precedence, whatever the order: `/people/me` before `/people/{id}`, and any pattern with a host before those
    /// without. If two patterns match the same path and neither is more specific, such as `/{user}/edit` and `/admin/{page}`, the
    /// server returns an error when it starts.
    ///
    /// In a group, the pattern's path comes after the prefix of the group. A method alone, such as `GET`, matches the prefix itself.
    /// The handler must not block, since it runs on a thread that serves many connections; if it needs to, use
    /// [`Group::blocking_route`] instead.
    pub fn route<R: IntoResponse<Via>, Via>(
        self,
        pattern: &str,
        handler: impl Fn(&Request<'_>) -> R + Send + Sync + 'static,
    ) -> Group {
        self.add(pattern, handler, HandlerThread::Worker)
    }

    /// Adds a route with a handler that may block, e.g. to wait for a file, a database or another
    /// server. The handler will run on a thread pool.
    pub fn blocking_route<R: IntoResponse<Via>, Via>(
        self,
        pattern: &str,
        handler: impl Fn(&Request<'_>) -> R + Send + Sync + 'static,
    ) -> Group {
        self.add(pattern, handler, HandlerThread::Pool)
    }

    /// Adds a route whose handler reads the content of the request while it arrives, for example to store a large upload.
    ///
    /// At any time, only a small part of the content is in memory. If the handler reads slowly, the client has to wait. The handler
    /// may block: it runs on a thread pool of its own, so clients that send slowly don't keep other handlers from running.
    /// [`Request::content`] is empty, also for middleware. [`Group::content_bytes_max`] limits it.
    ///
    /// ```
    /// # extern crate cannery_routes as cannery;
    /// use cannery::{ContentReader, Group, HandlerError, Request};
    ///
    /// fn store(_: &Request, mut content: ContentReader) -> Result<String, HandlerError> {
    ///     let bytes = content.save_to("backup")?;
    ///     Ok(format!("Stored {bytes} bytes."))
    /// }
    ///
    /// fn uploads(group: Group) -> Group {
    ///     group.content_bytes_max(10 << 30).upload_route("PUT /backup", store)
    /// }
    /// ```
    ///
    /// An upload may take as long as the client sends at least 16 KiB in ten seconds. The time limit for handlers
    /// only runs while the client waits for the handler: either since the handler has last read something, or since the content
    /// was complete.
    ///
    /// A handler may respond before it has read everything, and also drop the reader. It may also move the reader
    /// into the function of [`Response::stream`], or to a task that writes to a [`BodyWriter`](crate::BodyWriter). Once
    /// the response is complete, nothing more can be read.
    pub fn upload_route<R: IntoResponse<Via>, Via>(
        mut self,
        pattern: &str,
        handler: impl Fn(&Request<'_>, ContentReader) -> R + Send + Sync + 'static,
    ) -> Group {
        let handler =
            Handler::Upload(Arc::new(move |request, content| handler(request, content).into_response()));
        self.routes.push(PlannedRoute {
            pattern: pattern.to_owned(),
            handler,
            thread: HandlerThread::Upload,
        });
        self
    }

    fn add<R: IntoResponse<Via>, Via>(
        mut self,
        pattern: &str,
        handler: impl Fn(&Request<'_>) -> R + Send + Sync + 'static,
        thread: HandlerThread,
    ) -> Group {
        let handler = Handler::Whole(Arc::new(move |request| handler(request).into_response()));
        self.routes.push(PlannedRoute { pattern: pattern.to_owned(), handler, thread });
        self
    }

    /// Adds a group of routes below a prefix, for example `/api`. `fill` adds routes to an empty group.
    ///
    /// All paths below the prefix belong to the group: where it has no route, the group responds with a 404, and the site isn't
    /// asked. This includes other spellings of these paths, such as `//api/x`. With an empty prefix, or one of parameters alone such as
    /// `/{tenant}`, only the routes themselves belong to the group.
    ///
    /// The functions of [`Group::wrap`] are called for the routes of inner groups as well, before those of the inner groups. Inner
    /// groups inherit limits and error handlers that they do not set.
    pub fn group(mut self, prefix: &str, fill: impl FnOnce(Group) -> Group) -> Group {
        self.groups.push((prefix.to_owned(), fill(Group::default())));
        self
    }

    /// Adds a function that is called around all handlers of the group.
    ///
    /// The function may either respond itself or call `next` and possibly change the response. It also sees the responses that the
    /// server makes: for errors (see [`Response::error`]), for `OPTIONS`, and for paths and methods without a handler.
    ///
    /// Like a handler of [`Group::route`], it must not block.
    pub fn wrap<R: IntoResponse<Via>, Via>(
        self,
        middleware: impl Fn(&mut Request<'_>, &Next<'_>) -> R + Send + Sync + 'static,
    ) -> Group {
        self.add_layer(middleware, HandlerThread::Worker)
    }

    /// Like [`Group::wrap`] for a function that may block, e.g. to look up a session in a database. The handlers of the group will
    /// all run on the thread pool.
    ///
    /// Errors that prevent a request from reaching the pool (400 and 413 for its content, 404 outside of all groups, 503 if the server is busy) skip this
    /// function and everything inside of it, which may depend on it. To see them, middleware must be added before this one.
    pub fn blocking_wrap<R: IntoResponse<Via>, Via>(
        self,
        middleware: impl Fn(&mut Request<'_>, &Next<'_>) -> R + Send + Sync + 'static,
    ) -> Group {
        self.add_layer(middleware, HandlerThread::Pool)
    }

    fn add_layer<R: IntoResponse<Via>, Via>(
        mut self,
        middleware: impl Fn(&mut Request<'_>, &Next<'_>) -> R + Send + Sync + 'static,
        thread: HandlerThread,
    ) -> Group {
        let middleware: Middleware = Arc::new(move |request, next| middleware(request, next).into_response());
        self.layers.push(Layer { middleware, thread });
        self
    }

    /// Sets the error handler, which makes the response if a handler or middleware returns an error, or if the server detects one.
    /// Errors with content of their own don't reach it.
    ///
    /// The response gets the fields of the error that it doesn't have, and its status unless the function chooses one with
    /// [`Response::with_status`] or [`Response::new`]. For the JSON of RFC 9457, return a [`Problem`](crate::Problem); for other JSON,
    /// `Response::json(&value).unwrap_or_else(Response::from)`.
    pub fn on_error<R: Into<Response>>(
        self,
        respond: impl Fn(&Request<'_>, &HandlerError) -> R + Send + Sync + 'static,
    ) -> Group {
        let respond: ErrorHandler = Arc::new(move |request, error| respond(request, error).into());
        Group { on_error: Some(respond), ..self }
    }

    /// Limits the content of requests, in bytes. If the content is longer, the client gets a 413.
    pub fn content_bytes_max(self, bytes: u64) -> Group {
        Group { content_bytes_max: Some(bytes), ..self }
    }

    /// Limits how long handlers on the pool may take. After that, the client gets a 503. With [`Duration::MAX`], there is no limit.
    pub fn timeout(self, timeout: Duration) -> Group {
        Group { timeout: Some(timeout), ..self }
    }
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let patterns: Vec<_> = self.routes.iter().map(|route| &route.pattern).collect();
        f.debug_struct("Group")
            .field("routes", &patterns)
            .field("groups", &self.groups)
            .finish_non_exhaustive()
    }
}

/// Returns the pattern of a route below a prefix. Both may have a host; the route's takes precedence.
pub(crate) fn below(prefix: &str, pattern: &str) -> String {
    let (method, rest) = match pattern.split_once([' ', '\t']) {
        Some((method, rest)) => (Some(method), rest.trim_start_matches([' ', '\t'])),
        None if !prefix.is_empty() && !pattern.is_empty() && !pattern.contains('/') => (Some(pattern), ""),
        None => (None, pattern),
    };
    let (own_host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let prefix = prefix.trim_end_matches('/');
    let (prefix_host, prefix_path) = prefix.split_at(prefix.find('/').unwrap_or(prefix.len()));
    let host = if own_host.is_empty() { prefix_host } else { own_host };
    match method {
        Some(method) => format!("{method} {host}{prefix_path}{path}"),
        None => format!("{host}{prefix_path}{path}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_below_the_prefix() {
        for (prefix, pattern, expected) in [
            ("", "GET /a", "GET /a"),
            ("/", "/a", "/a"),
            ("/api", "GET /a", "GET /api/a"),
            ("/api/", "GET  /a/{b}", "GET /api/a/{b}"),
            ("/api", "GET", "GET /api"),
            ("/api", "", "/api"),
            ("/api", "GET /{$}", "GET /api/{$}"),
            ("example.com", "GET /a", "GET example.com/a"),
            ("example.com/api", "/a", "example.com/api/a"),
            ("example.com/api", "GET other.example/a", "GET other.example/api/a"),
        ] {
            assert_eq!(below(prefix, pattern), expected, "{prefix} {pattern}");
        }
    }
}
