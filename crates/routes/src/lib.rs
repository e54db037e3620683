//! Route patterns, and the requests and responses of handlers.
//!
//! A [`Router`] finds the route for a request. The syntax and precedence of patterns are those of Go's
//! `ServeMux` since version 1.22:
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
//! - **Method.** If omitted, the pattern matches all methods. `GET` also matches `HEAD`.
//! - **Host.** If omitted, the pattern matches all hosts. Hosts are case-insensitive, and cannot have a port.
//! - **Path.** It consists of segments, each preceded by `/`:
//!   - Text matches a segment if both are the same after percent-decoding. For example, `/caf%C3%A9` and `/café` are the same
//!     pattern. `%2F` is part of a segment, and not a separator.
//!   - `{name}` captures one non-empty segment.
//!   - `{name...}` can only be at the end. It captures the rest of the path after the preceding `/`, which can be empty.
//!   - `{$}` can only be at the end, and makes sure that nothing follows: `/posts/{$}` only matches `/posts/`.
//!   - A `/` at the end matches whatever may follow: `/posts/` matches `/posts/` and `/posts/1/edit`, but not `/posts`.
//!
//! # Precedence
//!
//! If several patterns match a request, the most specific one takes precedence, where a pattern is more
//! specific than another if the other one matches all of its requests too. The order in which you add
//! patterns does not matter. Note that a pattern with a host takes precedence over all patterns without one.
//!
//! Two patterns conflict if some request matches both of them but neither is more specific. For example,
//! `/{user}/edit` and `/admin/{page}` conflict because both match `/admin/edit`. In this case,
//! [`Router::add`] returns an error, so you will see conflicts when the program starts.
//!
//! # Paths without a route
//!
//! A path will never match if it has an empty segment before the end, a segment that decodes to `.` or `..`,
//! or a `%` that is not followed by two hexadecimal digits. Go would redirect to a clean path instead, and
//! callers may do so as well. In contrast to Go, a router does not redirect `/posts` to `/posts/` either.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

// From a request to a route, and through middleware to its response.
mod group;
mod router;
mod routes;

// Parameters and results of handlers.
mod body;
mod broadcast;
mod content;
mod content_failure;
mod cors;
mod error;
mod events;
mod extensions;
mod field_names;
#[cfg(feature = "http")]
mod http_types;
mod into_response;
mod kept_bytes;
pub mod limits;
#[cfg(feature = "multipart")]
mod multipart;
mod problem;
mod query;
mod request;
mod request_builder;
mod response;
mod save;
mod set_cookie;

// Which paths a route matches, and what it captures.
mod captures;
mod conflict; // Which of two patterns is more specific.
mod pattern;
mod percent;

pub use body::{BodyProgress, BodyReader, BodyStopper, BodyWriter, Waker, channel as body_channel};
pub use broadcast::Broadcast;
pub use captures::Captures;
pub use conflict::Conflict;
pub use content::{ContentDemand, ContentReader, ContentSender, ContentStopper, channel as content_channel};
pub use content_failure::ContentFailure;
pub use cors::Cors;
pub use error::{HandlerError, OrStatus};
pub use events::{Event, EventWriter};
pub use group::{Group, HandlerThread, Next};
pub use into_response::{IntoResponse, ViaBoxedError};
pub use kept_bytes::{HeldBytes, KeptBytes};
#[cfg(feature = "multipart")]
pub use multipart::{Multipart, Part};
pub use pattern::{SEGMENTS_MAX, SyntaxError};
pub use percent::is_utf8_path;
pub use problem::Problem;
pub use query::Query;
pub use request::{FindClient, Parts, Request};
pub use request_builder::RequestBuilder;
pub use response::{Body, Producer, Response};
pub use router::{Lookup, Match, Methods, RouteError, Router};
pub use routes::{Call, HandlerResponse, Routes};
pub use set_cookie::{SameSite, SetCookie};
