//! Serves a site from one immutable archive, inside a program of yours.
//!
//! An archive is one file that `cannery-archiver` compiles from a folder, or the crate `cannery-build` in a build script. It
//! holds each file compressed, each rule of `_redirects` and `_headers` resolved, and each response head rendered, so that an
//! answer is a lookup: content negotiation, entity tags, conditions, ranges, redirects, virtual hosts and error pages are
//! those of `cannery-server`.
//!
//! ```no_run
//! # #[cfg(feature = "http")] {
//! let site = cannery::Site::open("site.cdb")?;
//!
//! let request = http::Request::get("/docs/").header("Accept-Encoding", "br").body(()).unwrap();
//! let response: http::Response<cannery::Body> = site.answer(&request);
//! # }
//! # Ok::<(), cannery::OpenError>(())
//! ```
//!
//! - [`Site`] is an open archive. It is cheap to clone, and [`Site::replace`] exchanges the archive of all clones at once.
//! - [`include_archive!`] makes an archive part of the program, as an [`Embedded`] site.
//! - [`Site::file`] returns a file of the site by its path, without HTTP.
//!
//! # Features
//!
//! None is on by default.
//!
//! - `http`: `Site::answer` and `Site::try_answer`, with the types of the [`http`](https://docs.rs/http) crate.
//! - `tower`: `Site::service`, a `tower::Service` for axum and others.
//! - `hyper`: the same for servers of hyper.
//! - `server`: `Server`, the server itself as a library: a site, routes with handlers of yours, HTTP/1, HTTP/2, HTTP/3 and TLS.
//! - `follow`: in debug builds, an embedded site is compiled from its folder, and again after each change, so that a page can
//!   be edited without building the program. Release builds ignore it.
//!
//! # Errors
//!
//! We check an archive when it is opened: another file, another version of the format and a truncated file are errors of
//! [`Site::open`], and of the compiler for [`include_archive!`]. Afterwards an answer can't fail. If a part of the archive is
//! corrupt, requests for that part get a response with status 500.

#![forbid(unsafe_code)]
#![deny(missing_docs)]
// Names the feature of each item on docs.rs.
#![cfg_attr(docsrs, feature(doc_cfg))]

// Sites: opened from a file, or part of the program.
mod embedded;
mod include;
mod site;

// A file of a site, without HTTP.
mod file;

// Debug builds: the site of a folder that is being edited.
#[cfg(all(feature = "follow", debug_assertions))]
mod follow;

// Requests and responses.
#[cfg(feature = "http")]
mod answer;
#[cfg(feature = "http")]
mod body;
#[cfg(feature = "http")]
mod field_cache;
#[cfg(feature = "http")]
mod fields;
#[cfg(feature = "http")]
mod mount;

// Adapters for servers.
#[cfg(any(feature = "tower", feature = "hyper"))]
mod service;

pub use cannery_archive::{OpenError, VerifyError};
#[cfg(feature = "server")]
pub use cannery_routes::{BodyWriter, Error, IntoResponse, Next, Query, Request, Response, RouteError};
#[cfg(feature = "server")]
pub use cannery_server::{Addresses, EmbeddedArchive, RunningServer, Server, StartError, StopHandle};

/// Settings of a [`Server`] that have no function there: see [`Server::configure`].
#[cfg(feature = "server")]
pub use cannery_server::config;

#[cfg(feature = "http")]
pub use body::Body;
pub use embedded::Embedded;
pub use file::File;
#[cfg(feature = "http")]
pub use mount::Mount;
#[cfg(any(feature = "tower", feature = "hyper"))]
pub use service::Service;
pub use site::Site;
