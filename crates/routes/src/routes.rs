//! All routes of a server: finding the handler for a request, and running it with its middleware.
//!
//! A request has a [`Call`] if it is for a route, for a path that only has routes for other methods, or for a path that belongs to
//! a group. In all three cases, the response is made by the same chain of middleware, so that middleware sees all of them.

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use crate::captures::Captures;
use crate::content::ContentReader;
use crate::content_failure::ContentFailure;
use crate::error::HandlerError;
use crate::group::{ErrorHandler, Group, Handler, HandlerThread, Layer, below};
use crate::percent;
use crate::request::{FindClient, Parts, Request};
use crate::request_builder::RequestBuilder;
use crate::response::Response;
use crate::router::{self, Lookup, Methods, RouteError, Router};

thread_local! {
    /// The last path that was resolved. Its memory is reused, so that requests beside routes don't allocate, whatever their spelling.
    static RESOLVED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// All routes of a server.
// Only for the server.
#[doc(hidden)]
pub struct Routes {
    router: Router<Route>,
    /// Paths that belong to groups, with the number of the chain.
    owned: Router<usize>,
    /// The first one is for routes without a group.
    chains: Vec<Chain>,
    find_client: Option<Box<FindClient>>,
}

/// A handler and its properties.
struct Route {
    handler: Handler,
    thread: HandlerThread,
    /// Number of the chain.
    chain: usize,
}

/// Everything that the routes of a group have in common, including what is inherited from outer groups.
struct Chain {
    /// Outermost first.
    layers: Vec<Layer>,
    on_error: Option<ErrorHandler>,
    content_bytes_max: u64,
    timeout: Option<Duration>,
    /// Whether all paths below the prefix belong to the group.
    is_owner: bool,
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

/// A request that the routes respond to: its handler or error, and the middleware around it.
// Only for the server.
#[doc(hidden)]
pub struct Call<'r, 'p> {
    routes: &'r Routes,
    chain: &'r Chain,
    action: Action<'r>,
    captures: Option<Captures<'r, 'p>>,
}

/// Makes the innermost response.
enum Action<'r> {
    /// Run a handler.
    Handle { route: &'r Route, number: usize, pattern: &'r str },
    /// The path only has routes for these methods.
    OtherMethods { methods: Methods<'r>, is_readable: bool },
    /// The path belongs to a group that does not have a route for it.
    Missing,
    /// Respond with an error.
    Refuse(&'r HandlerError),
}

impl Default for Routes {
    fn default() -> Routes {
        let chains = vec![Chain::root(0)];
        Routes { router: Router::default(), owned: Router::default(), chains, find_client: None }
    }
}

impl Routes {
    /// Returns the routes of a group and its inner groups. Their requests can have up to `content_bytes_max` bytes of content, unless
    /// the group has another limit.
    ///
    /// # Errors
    /// A pattern is invalid, or conflicts with another one.
    pub fn new(group: &Group, content_bytes_max: u64) -> Result<Routes, RouteError> {
        let mut routes = Routes { chains: Vec::new(), ..Routes::default() };
        routes.add("", group, &Chain::root(content_bytes_max))?;
        Ok(routes)
    }

    /// Adds a group with this prefix in a group that has the chain `outer`.
    fn add(&mut self, prefix: &str, group: &Group, outer: &Chain) -> Result<(), RouteError> {
        let is_owner = is_own(prefix);
        let chain = Chain {
            layers: outer.layers.iter().chain(&group.layers).cloned().collect(),
            on_error: group.on_error.clone().or_else(|| outer.on_error.clone()),
            content_bytes_max: group.content_bytes_max.unwrap_or(outer.content_bytes_max),
            timeout: group.timeout.or(outer.timeout),
            is_owner,
        };
        let number = self.chains.len();
        if is_owner {
            let prefix = prefix.trim_end_matches('/');
            let exact = prefix.contains('/').then(|| prefix.to_owned());
            for owned in exact.into_iter().chain([format!("{prefix}/")]) {
                // If two groups have the same prefix, it belongs to the first one.
                if self.owned.patterns().all(|(other, _)| other != owned) {
                    self.owned.add(&owned, number)?;
                }
            }
        }
        for route in &group.routes {
            let added = Route { handler: route.handler.clone(), thread: route.thread, chain: number };
            self.router.add(&below(prefix, &route.pattern), added)?;
        }
        // Inner groups need the chain, which is part of `self` from now on.
        self.chains.push(chain.clone());
        for (inner, group) in &group.groups {
            self.add(&below(prefix, &format!("{inner}/")), group, &chain)?;
        }
        Ok(())
    }

    /// Sets the function that finds the address of a client behind proxies.
    pub fn set_find_client(&mut self, find_client: Box<FindClient>) {
        self.find_client = Some(find_client);
    }

    /// Returns `true` if there are no routes and no groups.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.router.is_empty() && self.owned.is_empty()
    }

    /// Returns `true` if a handler reads content while it arrives.
    #[must_use]
    pub fn has_uploads(&self) -> bool {
        self.router.patterns().any(|(_, route)| route.thread == HandlerThread::Upload)
    }

    /// Finds the call for a request, or returns `None` if the site has to answer it.
    ///
    /// This does not allocate if there is none, or if it is for a handler. Only a thread's longest path that has to be resolved does.
    #[must_use]
    pub fn find<'r, 'p>(
        &'r self,
        method: &[u8],
        host: Option<&[u8]>,
        path: &'p [u8],
    ) -> Option<Call<'r, 'p>> {
        let call = |chain: usize, action, captures| {
            Some(Call { routes: self, chain: &self.chains[chain], action, captures })
        };
        match self.router.find(method, host, path) {
            Lookup::Found(found) => {
                let action =
                    Action::Handle { route: found.value, number: found.number, pattern: found.pattern };
                call(found.value.chain, action, Some(found.captures))
            }
            Lookup::OtherMethods(methods) => {
                let chain = self.router.value(methods.first()).chain;
                // A route outside of a group can be below its prefix. The other methods of the path still belong to the group.
                let owner = if self.chains[chain].is_owner { None } else { self.owner(host, path) };
                let chain = owner.unwrap_or(chain);
                call(chain, Action::OtherMethods { methods, is_readable: false }, None)
            }
            Lookup::Missing => call(self.owner(host, path)?, Action::Missing, None),
        }
    }

    /// Returns the chain of the group that a path belongs to.
    fn owner(&self, host: Option<&[u8]>, path: &[u8]) -> Option<usize> {
        // Most requests beside routes are for the site, so this saves them a second search.
        if self.owned.is_empty() {
            return None;
        }
        if router::is_clean(path) {
            return self.owned.find_any(host, path).copied();
        }
        // The site would resolve dot segments and empty segments, and might have a page there.
        RESOLVED.with_borrow_mut(|resolved| {
            percent::resolve(path, resolved);
            self.owned.find_any(host, resolved).copied()
        })
    }

    /// Responds to a request as the server would. Without a route, the response is a 404, because there is no site.
    #[must_use]
    pub fn respond(&self, request: &RequestBuilder) -> HandlerResponse {
        let parts = request.parts();
        let mut made = match self.find(parts.method, parts.host, parts.path) {
            Some(_) if !percent::is_utf8_path(parts.path) => {
                self.refuse(parts, &HandlerError::new(400, "The path is not UTF-8."))
            }
            Some(call) if parts.content.len() as u64 > call.content_bytes_max() => {
                self.refuse(parts, &HandlerError::new(413, "The content of the request is too long."))
            }
            Some(call) => call.run(parts, None),
            None => self.refuse(parts, &HandlerError::new(404, "There is no such page.")),
        };
        if parts.method == b"HEAD" {
            made.response.discard_body();
        }
        made
    }

    /// Creates a response for an error that did not come from a handler (e.g. a 413).
    ///
    /// Middleware sees it, up to the first one that may block: this can be called on a thread that serves connections.
    pub fn refuse(&self, parts: Parts<'_>, error: &HandlerError) -> HandlerResponse {
        let call = self.find(parts.method, parts.host, parts.path);
        let (chain, captures, pattern, number) = match &call {
            Some(call) => (call.chain, call.captures, call.pattern(), call.number()),
            None => (&self.chains[0], None, None, None),
        };
        let call = Call { routes: self, chain, action: Action::Refuse(error), captures };
        call.run_as(parts, None, pattern, number)
    }

    /// Returns the pattern with this number. They are numbered from 0, in the order they were added.
    #[must_use]
    pub fn pattern(&self, number: usize) -> Option<&str> {
        self.router.patterns().nth(number).map(|(pattern, _)| pattern)
    }

    /// Returns all patterns in the order of their numbers.
    pub fn patterns(&self) -> impl Iterator<Item = &str> {
        self.router.patterns().map(|(pattern, _)| pattern)
    }
}

impl Chain {
    /// Returns the chain that the outermost group extends.
    fn root(content_bytes_max: u64) -> Chain {
        Chain { layers: Vec::new(), on_error: None, content_bytes_max, timeout: None, is_owner: false }
    }

    fn needs_pool(&self) -> bool {
        self.layers.iter().any(|layer| layer.thread == HandlerThread::Pool)
    }
}

impl Clone for Chain {
    fn clone(&self) -> Chain {
        Chain { layers: self.layers.clone(), on_error: self.on_error.clone(), ..*self }
    }
}

impl<'r> Call<'r, '_> {
    /// Returns the thread that this has to run on.
    #[must_use]
    pub fn thread(&self) -> HandlerThread {
        match &self.action {
            Action::Handle { route: Route { thread: HandlerThread::Upload, .. }, .. } => {
                HandlerThread::Upload
            }
            _ if self.chain.needs_pool() => HandlerThread::Pool,
            Action::Handle { route, .. } => route.thread,
            Action::OtherMethods { .. } | Action::Missing | Action::Refuse(_) => HandlerThread::Worker,
        }
    }

    /// Returns `true` if there is a handler, which may want the content of the request.
    #[must_use]
    pub fn has_handler(&self) -> bool {
        matches!(self.action, Action::Handle { .. })
    }

    /// Returns `true` if the path has no route for this method, but does not belong to a group either: if the site has a page there,
    /// the site should answer GET and HEAD.
    #[must_use]
    pub fn yields_to_site(&self) -> bool {
        matches!(self.action, Action::OtherMethods { .. }) && !self.chain.is_owner
    }

    /// Must be called if the site has a page at this path, so that GET and HEAD are allowed there.
    pub fn set_readable(&mut self) {
        if let Action::OtherMethods { is_readable, .. } = &mut self.action {
            *is_readable = true;
        }
    }

    /// Returns the maximum content length of a request, in bytes.
    #[must_use]
    pub fn content_bytes_max(&self) -> u64 {
        self.chain.content_bytes_max
    }

    /// Returns the time that the handler may take on the pool, unless it is the server's default.
    #[must_use]
    pub fn timeout(&self) -> Option<Duration> {
        self.chain.timeout
    }

    /// Returns the number of the route, if there is a handler.
    #[must_use]
    pub fn number(&self) -> Option<usize> {
        match &self.action {
            Action::Handle { number, .. } => Some(*number),
            _ => None,
        }
    }

    /// Returns the pattern of the route, if there is a handler.
    #[must_use]
    pub fn pattern(&self) -> Option<&'r str> {
        match &self.action {
            Action::Handle { pattern, .. } => Some(pattern),
            _ => None,
        }
    }

    /// Runs the middleware and the handler. A handler that reads content while it arrives gets `content`, or else the request's content.
    #[must_use]
    pub fn run(&self, parts: Parts<'_>, content: Option<ContentReader>) -> HandlerResponse {
        self.run_as(parts, content, self.pattern(), self.number())
    }

    fn run_as(
        &self,
        parts: Parts<'_>,
        content: Option<ContentReader>,
        pattern: Option<&str>,
        number: Option<usize>,
    ) -> HandlerResponse {
        let is_upload = self.thread() == HandlerThread::Upload;
        let content = content.or_else(|| is_upload.then(|| ContentReader::complete(parts.content.to_vec())));
        let parts = Parts { content: if is_upload { b"" } else { parts.content }, ..parts };
        let run = Run { call: self, content: RefCell::new(content), fault: RefCell::new(None) };
        // Also catches panics in destructors: of values that middleware has attached to the request, and of responses and errors
        // that were replaced.
        let made = catch_unwind(AssertUnwindSafe(|| {
            let find_client = self.routes.find_client.as_deref();
            let mut request = Request::new(parts, self.captures, pattern).with_find_client(find_client);
            run.next(&mut request, &self.chain.layers)
        }));
        let response = made.unwrap_or_else(|_| {
            let error = HandlerError::panicked();
            let path = || String::from_utf8_lossy(parts.path);
            run.report(&pattern.map_or_else(path, Cow::Borrowed), &error);
            error.to_response().with_error(error)
        });
        HandlerResponse { response: response.with_route(number), fault: run.fault.into_inner() }
    }
}

/// A call that is running.
struct Run<'c, 'r, 'p> {
    call: &'c Call<'r, 'p>,
    /// Content that arrives, until the handler takes it.
    content: RefCell<Option<ContentReader>>,
    /// Why something went wrong, for the operator.
    fault: RefCell<Option<String>>,
}

impl Run<'_, '_, '_> {
    /// Runs the next middleware. After the last one, makes the innermost response.
    fn next(&self, request: &mut Request<'_>, layers: &[Layer]) -> Response {
        // If the function panics, it cannot leave any data of ours in an inconsistent state.
        let made = catch_unwind(AssertUnwindSafe(|| match layers {
            [] => self.innermost(request),
            [first, ..] if self.ends_before(first) => self.innermost(request),
            [first, rest @ ..] => (first.middleware)(request, &|request| self.next(request, rest)),
        }));
        let made = made.unwrap_or_else(|_| Err(HandlerError::panicked()));
        made.and_then(Response::checked).unwrap_or_else(|error| self.fail(request, error))
    }

    /// Whether a refused request ends before this middleware, because the middleware might block and we might be on a thread that
    /// serves connections.
    ///
    /// The middleware inside may depend on this one, for example on its authentication, so it isn't called either.
    fn ends_before(&self, layer: &Layer) -> bool {
        matches!(self.call.action, Action::Refuse(_)) && layer.thread == HandlerThread::Pool
    }

    fn innermost(&self, request: &Request<'_>) -> Result<Response, HandlerError> {
        match &self.call.action {
            Action::Handle { route, .. } => match &route.handler {
                Handler::Whole(handler) => handler(request),
                Handler::Upload(handler) => {
                    let content = self.content.take();
                    handler(request, content.unwrap_or_else(|| ContentReader::failed(ContentFailure::Taken)))
                }
            },
            Action::OtherMethods { methods, is_readable } => {
                let allow = allow(methods, *is_readable);
                if request.method() == "OPTIONS" {
                    return Ok(Response::new(204).with_header("Allow", allow));
                }
                let message = format!("The method {} is not allowed here.", request.method());
                // The field is required by RFC 9110 §15.5.6.
                Err(HandlerError::new(405, message).with_header("Allow", allow))
            }
            Action::Missing => Err(HandlerError::new(404, "There is no such page.")),
            Action::Refuse(error) => Err(error.refusal()),
        }
    }

    /// Keeps an error's cause for the operator.
    fn report(&self, pattern: &str, error: &HandlerError) {
        // The program may implement the error's text.
        let text = catch_unwind(AssertUnwindSafe(|| error.report()));
        let text = text
            .unwrap_or_else(|_| "the handler has failed, and the text of its error has panicked".to_owned());
        let mut fault = self.fault.borrow_mut();
        match &mut *fault {
            Some(fault) => {
                fault.push_str("; ");
                fault.push_str(&text);
            }
            None => *fault = Some(format!("{pattern}: {text}")),
        }
    }

    #[cold]
    fn fail(&self, request: &Request<'_>, mut error: HandlerError) -> Response {
        let report = |error: &HandlerError| {
            if error.is_fault() {
                self.report(request.pattern().unwrap_or_else(|| request.path()), error);
            }
        };
        report(&error);
        let edits = error.take_edits();

        let on_error = self.call.chain.on_error.as_ref().filter(|_| error.content().is_none());
        let made = on_error.and_then(|on_error| {
            let made = catch_unwind(AssertUnwindSafe(|| on_error(request, &error)));
            let made = made.map_err(|_| HandlerError::from("the error handler has panicked"));
            made.and_then(|made| made.resolved().checked()).inspect_err(report).ok()
        });
        let mut response = made.map_or_else(|| error.to_response(), |made| error.complete(made));
        for edit in edits {
            response.apply(edit);
        }
        // The fields of the error, or those of the changes, might not be allowed.
        let response = response.checked().unwrap_or_else(|invalid| {
            report(&invalid);
            HandlerError::new(500, "").to_response()
        });
        response.with_error(error)
    }
}

/// Returns the value of `Allow` for a path. The server always responds to OPTIONS, and the site might respond to GET and HEAD.
fn allow(methods: &Methods<'_>, is_readable: bool) -> String {
    let reading = ["GET", "HEAD"].into_iter().filter(|_| is_readable);
    let mut names: Vec<&str> = methods.iter().chain(reading).chain(["OPTIONS"]).collect();
    names.sort_unstable();
    names.dedup();
    names.join(", ")
}

impl fmt::Debug for Routes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.patterns()).finish()
    }
}

impl fmt::Debug for Call<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("pattern", &self.pattern()).finish_non_exhaustive()
    }
}

/// Returns `true` if all paths below a prefix belong to its group. A prefix of captures alone, such as `/{tenant}`, matches nearly
/// every path, and nothing would be left for the site.
fn is_own(prefix: &str) -> bool {
    let (host, path) = prefix.split_at(prefix.find('/').unwrap_or(prefix.len()));
    let mut segments = path.split('/').filter(|segment| !segment.is_empty()).peekable();
    // A host alone is meant for the group as a whole.
    (segments.peek().is_none() && !host.is_empty()) || segments.any(|segment| !segment.starts_with('{'))
}

#[cfg(test)]
mod tests;
