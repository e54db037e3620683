//! Handlers: running them, and dealing with errors and panics.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::HandlerError;
use crate::request::{Parts, Request};
use crate::response::{IntoResponse, Response};
use crate::router::{Lookup, Match, RouteError, Router};

/// Computes the response to a request.
pub type Handler = Box<dyn Fn(&Request<'_>) -> Result<Response, HandlerError> + Send + Sync>;

/// Computes the response for an error.
pub type ErrorHandler = Box<dyn Fn(&Request<'_>, &HandlerError) -> Response + Send + Sync>;

/// Wraps a handler. It can either compute the response itself or call [`Next`] to get the handler's
/// response.
pub type Middleware = Box<dyn Fn(&Request<'_>, &Next<'_>) -> Result<Response, HandlerError> + Send + Sync>;

/// Calls the next middleware. After the last one, calls the handler.
pub type Next<'n> = dyn Fn(&Request<'_>) -> Result<Response, HandlerError> + 'n;

/// All routes of a server.
// Only for the server.
#[doc(hidden)]
#[derive(Default)]
pub struct Routes {
    router: Router<Route>,
    /// In the order they run.
    middleware: Vec<Middleware>,
    on_error: Option<ErrorHandler>,
}

/// A handler and its properties.
// Only for the server.
#[doc(hidden)]
pub struct Route {
    handler: Handler,
    thread: HandlerThread,
    content_bytes_max: u32,
}

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
}

/// A response, either from a handler or for an error.
// Only for the server.
#[doc(hidden)]
#[derive(Debug)]
pub struct HandlerResponse {
    /// The response.
    pub response: Response,
    /// If something went wrong, this tells the operator why.
    pub fault: Option<String>,
}

impl Route {
    /// Creates a route. It will accept up to `content_bytes_max` bytes of content.
    pub fn new<R: IntoResponse>(
        handler: impl Fn(&Request<'_>) -> R + Send + Sync + 'static,
        thread: HandlerThread,
        content_bytes_max: u32,
    ) -> Route {
        let handler: Handler = Box::new(move |request| handler(request).into_response());
        Route { handler, thread, content_bytes_max }
    }

    /// Returns the thread that the handler runs on.
    #[must_use]
    pub fn thread(&self) -> HandlerThread {
        self.thread
    }

    /// Returns the maximum content length of a request, in bytes.
    #[must_use]
    pub fn content_bytes_max(&self) -> u32 {
        self.content_bytes_max
    }
}

impl Routes {
    /// Adds a route.
    ///
    /// # Errors
    /// The pattern is invalid, or conflicts with another one.
    pub fn add(&mut self, pattern: &str, route: Route) -> Result<(), RouteError> {
        self.router.add(pattern, route)
    }

    /// Adds a middleware. It applies to all routes. Middleware that was added earlier runs first.
    pub fn wrap(&mut self, middleware: Middleware) {
        self.middleware.push(middleware);
    }

    /// Sets the function that computes responses for errors.
    pub fn set_error_handler(&mut self, on_error: ErrorHandler) {
        self.on_error = Some(on_error);
    }

    /// Returns `true` if no routes have been added.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.router.is_empty()
    }

    /// Returns `true` if any handlers need the thread pool.
    #[must_use]
    pub fn needs_pool(&self) -> bool {
        self.router.patterns().any(|(_, route)| route.thread == HandlerThread::Pool)
    }

    /// Finds the route for a request.
    #[must_use]
    pub fn find<'r, 'p>(
        &'r self,
        method: &[u8],
        host: Option<&[u8]>,
        path: &'p [u8],
    ) -> Lookup<'r, 'p, Route> {
        self.router.find(method, host, path)
    }

    /// Finds the route for a request and runs its handler, or returns a 404 if there is no route.
    pub fn answer(&self, parts: Parts<'_>) -> HandlerResponse {
        match self.find(parts.method, parts.host, parts.path) {
            Lookup::Found(found) => self.run(&found, parts),
            Lookup::OtherMethods(_) | Lookup::Missing => {
                self.fail(&Request::new(parts, None), "", &HandlerError::new(404, "There is no such page."))
            }
        }
    }

    /// Runs the handler of a route that was found before.
    pub fn run(&self, found: &Match<'_, '_, Route>, parts: Parts<'_>) -> HandlerResponse {
        let request = Request::new(parts, Some(found.captures));
        // If the handler panics, it cannot leave any data of ours in an inconsistent state.
        let ran = catch_unwind(AssertUnwindSafe(|| {
            let response = self.call(&request, &found.value.handler, &self.middleware)?;
            response.check()?;
            Ok(response)
        }));
        match ran.unwrap_or_else(|_| Err(HandlerError::panicked())) {
            Ok(response) => HandlerResponse { response, fault: None },
            Err(error) => self.fail(&request, found.pattern, &error),
        }
    }

    /// Creates a response for an error that did not come from a handler (e.g. a 413). Note that middleware is
    /// not run in this case.
    pub fn refuse(&self, parts: Parts<'_>, error: &HandlerError) -> Response {
        let captures = match self.find(parts.method, parts.host, parts.path) {
            Lookup::Found(found) => Some(found.captures),
            Lookup::OtherMethods(_) | Lookup::Missing => None,
        };
        self.fail(&Request::new(parts, captures), "", error).response
    }

    /// Returns the pattern with this number. They are numbered in the order they were added.
    #[must_use]
    pub fn pattern(&self, number: usize) -> Option<&str> {
        self.router.patterns().nth(number).map(|(pattern, _)| pattern)
    }

    /// Runs the next middleware. After the last one, runs the handler.
    fn call(
        &self,
        request: &Request<'_>,
        handler: &Handler,
        middleware: &[Middleware],
    ) -> Result<Response, HandlerError> {
        match middleware {
            [] => handler(request),
            [first, rest @ ..] => first(request, &|request| self.call(request, handler, rest)),
        }
    }

    #[cold]
    fn fail(&self, request: &Request<'_>, pattern: &str, error: &HandlerError) -> HandlerResponse {
        let fault = (error.status() >= 500).then(|| format!("{pattern}: {error}"));
        let made = self.on_error.as_ref().and_then(|on_error| {
            let made = catch_unwind(AssertUnwindSafe(|| on_error(request, error))).ok()?;
            made.check().is_ok().then_some(made)
        });
        let response = made.unwrap_or_else(|| default_response(error));
        HandlerResponse { response, fault }
    }
}

/// Returns the response for an error without an error handler.
fn default_response(error: &HandlerError) -> Response {
    // The program has chosen this status, so it may be any number.
    let status = if (400..=599).contains(&error.status()) { error.status() } else { 500 };
    let message = match error.message() {
        "" => "The server has failed to make this page.",
        message => message,
    };
    Response::text(format!("{message}\n")).with_status(status)
}

impl fmt::Debug for Routes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.router.patterns().map(|(pattern, _)| pattern)).finish()
    }
}

impl fmt::Debug for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Route").field("thread", &self.thread).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::response::Body;

    fn routes() -> Routes {
        let mut routes = Routes::default();
        let mut add = |pattern: &str, handler: fn(&Request<'_>) -> Result<Response, HandlerError>| {
            routes.add(pattern, Route::new(handler, HandlerThread::Worker, 1024)).unwrap();
        };
        add("GET /hello/{name}", |request| Ok(Response::text(format!("Hello {}!", request.param("name")))));
        add("GET /missing", |_| Err(HandlerError::new(404, "Nothing here.")));
        add("GET /failing", |_| Err(std::io::Error::other("disk on fire").into()));
        add("GET /panicking", |_| panic!("a handler may panic"));
        add("GET /invalid", |_| Ok(Response::new(200).with_header("\n", "")));
        routes
    }

    fn parts(path: &str) -> Parts<'_> {
        Parts {
            method: b"GET",
            path: path.as_bytes(),
            query: None,
            host: None,
            version: "1.1",
            field_lines: b"",
            content: b"",
            peer: None,
            is_tls: false,
        }
    }

    fn answer(routes: &Routes, path: &str) -> (u16, String, Option<String>) {
        let HandlerResponse { mut response, fault } = routes.answer(parts(path));
        let Body::Bytes(body) = response.take_body() else { panic!("a body of bytes") };
        (response.status(), String::from_utf8(body.into_owned()).unwrap(), fault)
    }

    #[test]
    fn handlers_answer_or_fail() {
        let routes = routes();
        assert_eq!(answer(&routes, "/hello/J%C3%BCrgen"), (200, "Hello Jürgen!".to_owned(), None));
        assert_eq!(answer(&routes, "/missing"), (404, "Nothing here.\n".to_owned(), None));
        assert_eq!(answer(&routes, "/other").0, 404);
        for (path, why) in [
            ("/failing", "GET /failing: disk on fire"),
            ("/panicking", "GET /panicking: the handler has panicked"),
            (
                "/invalid",
                "GET /invalid: a handler sets a field with the name \"\\n\", which RFC 9110 §5.1 forbids",
            ),
        ] {
            let (status, text, fault) = answer(&routes, path);
            assert_eq!((status, fault.as_deref()), (500, Some(why)));
            assert!(!text.contains("fire"), "causes are for the operator");
        }
    }

    #[test]
    fn middleware_wraps_handlers_in_order() {
        let mut routes = routes();
        routes.wrap(Box::new(|request, next| Ok(next(request)?.with_header("Outer", "1"))));
        routes.wrap(Box::new(|request, next| match request.header("x") {
            None if request.path() == "/missing" => Err(HandlerError::new(403, "Not for you.")),
            _ => Ok(next(request)?.with_header("Inner", "2")),
        }));
        let answered = routes.answer(parts("/hello/a"));
        let names: Vec<_> = answered.response.fields().map(|(name, _)| name.to_owned()).collect();
        assert_eq!(names, ["Content-Type", "Inner", "Outer"]);
        assert_eq!(routes.answer(parts("/missing")).response.status(), 403);
    }

    #[test]
    fn error_handler_makes_responses() {
        let mut routes = routes();
        routes.set_error_handler(Box::new(|_, error| {
            Response::html("<h1>Oh</h1>").with_status(error.status())
        }));
        assert_eq!(answer(&routes, "/failing").1, "<h1>Oh</h1>");
        routes.set_error_handler(Box::new(|_, _| panic!("an error handler may panic, too")));
        assert_eq!(answer(&routes, "/failing").0, 500);
    }

    #[test]
    fn errors_of_the_server_reach_the_error_handler() {
        let mut routes = routes();
        let error = HandlerError::new(413, "Too long.");
        assert_eq!(routes.refuse(parts("/hello/a"), &error).status(), 413);
        routes.set_error_handler(Box::new(|request, error| {
            let text = format!("{} {} {}", error.status(), error.message(), request.param("name"));
            Response::text(text).with_status(error.status())
        }));
        let mut response = routes.refuse(parts("/hello/a"), &error);
        let Body::Bytes(body) = response.take_body() else { panic!("a body of bytes") };
        assert_eq!((response.status(), &*body), (413, b"413 Too long. a".as_slice()));
    }

    #[test]
    fn patterns_have_the_numbers_of_matches() {
        let routes = routes();
        let Lookup::Found(found) = routes.find(b"GET", None, b"/failing") else { panic!("a route") };
        assert_eq!(routes.pattern(found.number), Some("GET /failing"));
        assert_eq!(routes.pattern(99), None);
    }
}
