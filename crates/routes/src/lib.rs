//! Patterns of routes, and the requests and responses of handlers.
//!
//! A [`Router`] finds the value of the route for a request. Its patterns have the syntax and the precedence of Go's `ServeMux`
//! since version 1.22:
//!
//! ```
//! use cannery_routes::{Lookup, Router};
//!
//! let mut router = Router::default();
//! router.add("GET /weather/{city}", 1)?;
//! router.add("/files/{path...}", 2)?;
//!
//! let Lookup::Found(found) = router.find(b"GET", None, b"/weather/S%C3%A3o%20Paulo") else { panic!("no route") };
//! assert_eq!(*found.value, 1);
//! assert_eq!(found.captures.get("city").as_deref(), Some("São Paulo"));
//! # Ok::<(), cannery_routes::RouteError>(())
//! ```
//!
//! This crate is internal to Cannery: its interface may change in any release. Programs should use the crate `cannery` instead.
//!
//! # Patterns
//!
//! A pattern is `[METHOD ][HOST]/[PATH]`.
//!
//! - **Method.** Without one, the pattern matches every method. `GET` also matches `HEAD`.
//! - **Host.** Without one, the pattern matches every host. A host has no port and ignores case.
//! - **Path.** It consists of segments, each preceded by `/`:
//!   - Text matches a segment that is equal after percent-decoding: `/caf%C3%A9` and `/café` are the same pattern. `%2F` is
//!     part of a segment and separates none.
//!   - `{name}` captures one segment, which isn't empty.
//!   - `{name...}`, at the end, captures the rest of the path after the preceding `/`. The rest may be empty.
//!   - `{$}`, at the end, matches nothing more: `/posts/{$}` matches only `/posts/`.
//!   - A `/` at the end matches every path that continues in any way: `/posts/` matches `/posts/` and `/posts/1/edit`, but not
//!     `/posts`.
//!
//! # Precedence
//!
//! If several patterns match a request, the most specific one takes precedence: the other ones match
//! all of its requests too. The order in which patterns are added doesn't matter. A pattern with a host takes precedence over all patterns without
//! one.
//!
//! Two patterns conflict if there are requests that both match, and neither is more specific. [`Router::add`] returns an error
//! then, so that conflicts show when a program starts. `/{user}/edit` and `/admin/{page}` conflict, because both match
//! `/admin/edit`.
//!
//! # Paths without a route
//!
//! No pattern matches a path that isn't clean: one with an empty segment before its end, with a segment that decodes to `.` or
//! `..`, or with a `%` that isn't followed by two hexadecimal digits. Go redirects to the clean path instead, and so may the
//! caller. Unlike Go, a router doesn't redirect `/posts` to `/posts/` either.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

// From a request to a route, and to its response.
mod handler;
mod router;

// Parameters and results of handlers.
mod body;
mod error;
mod query;
mod request;
mod response;

// Paths that a route matches, and the parts of them that it captures.
mod captures;
mod conflict; // Which of two patterns is more specific.
mod pattern;
mod percent;

pub use body::{
    BODY_BYTES_MAX, BodyProgress, BodyReader, BodyStopper, BodyWriter, Waker, channel as body_channel,
};
pub use captures::Captures;
pub use conflict::Conflict;
pub use error::Error;
pub use handler::{ErrorHandler, Handler, HandlerResponse, HandlerThread, Middleware, Next, Route, Routes};
pub use pattern::{SEGMENTS_MAX, SyntaxError};
pub use percent::is_utf8_path;
pub use query::Query;
pub use request::{Parts, Request};
pub use response::{Body, IntoResponse, Producer, Response};
pub use router::{Lookup, Match, Methods, RouteError, Router};
