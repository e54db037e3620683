//! Serves a site from a single immutable archive, inside your own program.
//!
//! An archive is a file that was compiled from a folder, either by `cannery-archiver` or in a build script by the
//! `cannery-build` crate. Files are already compressed, `_redirects` and `_headers` rules are resolved, and response heads are
//! rendered, so that answering a request is mostly a lookup. Content negotiation, entity tags, conditional and range requests,
//! redirects, virtual hosts and error pages work exactly like in `cannery-server`.
//!
//! ```no_run
//! # #[cfg(feature = "http")] {
//! let site = cannery::Site::open("site.cdb")?;
//!
//! let request = http::Request::get("/docs/").header("Accept-Encoding", "br").body(()).unwrap();
//! let response: http::Response<cannery::Body> = site.respond(&request);
//! # }
//! # Ok::<(), cannery::OpenError>(())
//! ```
//!
//! - [`Site`] is an open archive. Clones are cheap, and the archive of all clones can be exchanged at once with
//!   [`Site::replace`].
//! - [`include_archive!`] embeds an archive into the program, since an [`EmbeddedSite`].
//! - [`Site::file`] looks up a file by its path, without any HTTP.
//!
//! # Features
//!
//! None of them is enabled by default.
//!
//! - `http`: adds `Site::respond` and `Site::try_respond`, which use the types of the [`http`](https://docs.rs/http) crate.
//! - `tower`: adds `Site::service`, a `tower::Service` for axum and others.
//! - `hyper`: the same for hyper servers.
//! - `actix-web`: the same for apps and scopes of actix-web.
//! - `server`: adds `Server`, i.e. the whole server as a library: a site, routes with your own handlers, HTTP/1, HTTP/2, HTTP/3 and
//!   TLS.
//! - `multipart`: adds `Multipart`, which reads forms with files in handlers of a `Server`.
//! - `follow`: in debug builds, compiles an embedded site from its folder, and again after each change, allowing you to edit pages
//!   without rebuilding the program. This has no effect on release builds.
//!
//! # Errors
//!
//! Archives are checked when they are opened. If a file is not an archive, has another format version or was truncated, then
//! [`Site::open`] returns an error, and [`include_archive!`] fails to compile. Answering will not fail after that: should a part
//! of the archive turn out to be corrupt, requests for that part will get a response with status 500.

#![forbid(unsafe_code)]
#![deny(missing_docs)]
// Names the feature of each item on docs.rs.
#![cfg_attr(docsrs, feature(doc_cfg))]

// Sites, either opened from a file or embedded.
mod embedded;
mod include;
mod site;

// Lookup of files without HTTP.
mod file;

// In debug builds: sites that follow a folder.
#[cfg(all(feature = "follow", debug_assertions))]
mod follow;

// Sites in servers, which learn of each archive that replaces one.
#[cfg(feature = "server")]
mod served;
#[cfg(feature = "server")]
mod servers;

// HTTP requests and responses.
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

// Adapters for other servers.
#[cfg(feature = "actix-web")]
mod actix;
#[cfg(any(feature = "tower", feature = "hyper", feature = "actix-web"))]
mod service;

pub use cannery_archive::{Digest, OpenError, VerifyError};
#[cfg(feature = "server")]
pub use cannery_routes::{
    BodyWriter, Broadcast, Conflict, ContentReader, Cors, Event, EventWriter, Group, HandlerError,
    IntoResponse, Next, OrStatus, Problem, Query, Request, RequestBuilder, Response, RouteError, SameSite,
    SetCookie, SyntaxError, ViaBoxedError,
};
#[cfg(feature = "multipart")]
pub use cannery_routes::{Multipart, Part};
#[cfg(feature = "server")]
pub use cannery_server::{Addresses, RunningServer, Server, Settings, SiteSource, StartError, StopHandle};

/// Causes of [`OpenError`], [`VerifyError`] and, with the feature `server`, `StartError`.
pub mod error {
    pub use cannery_archive::Corrupt;
    #[cfg(feature = "server")]
    pub use cannery_server::{ParseAddressError, SandboxError, TlsError};
}

/// Values of [`Settings`].
#[cfg(feature = "server")]
pub mod config {
    pub use cannery_server::Notice;
    pub use cannery_server::config::{
        AccessLog, Account, Address, AdminPage, ArchiveSource, CertificateFiles, ForwardedField, HostPattern,
        HttpVersions, HttpsRedirect, Io, ListenerKind, Loading, LogFormat, LogTarget, NamedArchive,
        ProxySource, ReleaseDirectory, SecurityHeaders, SelfSigned, ServerId, Timeouts, TrustedProxies,
        VirtualHosts,
    };
}

#[cfg(feature = "http")]
pub use body::Body;
pub use embedded::EmbeddedSite;
pub use file::SiteFile;
#[cfg(feature = "http")]
pub use mount::Mount;
#[cfg(any(feature = "tower", feature = "hyper", feature = "actix-web"))]
pub use service::Service;
pub use site::Site;
