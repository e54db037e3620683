//! Mounts sites at a path.

use std::sync::Arc;

use http::{Method, Response, StatusCode};

use crate::answer::{Prefix, answer_below, redirect, refuse, try_answer_below};
use crate::body::Body;
use crate::site::Site;

/// A site mounted at a path such as `/docs`. See [`Site::mount`].
#[derive(Debug, Clone)]
pub struct Mount {
    site: Site,
    /// Either empty, or begins with a slash and does not end with one.
    prefix: Arc<str>,
    /// Whether a router has removed the prefix from the paths of requests.
    is_nested: bool,
}

impl Site {
    /// Mounts the site at a path. For example, when the path is `/docs`, then requests for `/docs/guide/` will
    /// be answered with the site's `/guide/`.
    ///
    /// We add the path to redirects of the site, but not to links in its pages. These should therefore be relative (or begin
    /// with the path).
    ///
    /// ```
    /// # use cannery_archiver::{Options, compile};
    /// # let dir = tempfile::tempdir()?;
    /// # std::fs::write(dir.path().join("index.html"), "<title>Hello</title>")?;
    /// # let archive = dir.path().join("site.cdb");
    /// # compile(&Options::new(dir.path(), &archive), &())?;
    /// let docs = cannery::Site::open(&archive)?.mount("/docs");
    ///
    /// let page = http::Request::get("/docs/").body(())?;
    /// assert_eq!(docs.respond(&page).status(), 200);
    /// let without_slash = http::Request::get("/docs").body(())?;
    /// assert_eq!(docs.respond(&without_slash).headers()["location"], "/docs/");
    /// let outside = http::Request::get("/").body(())?;
    /// assert_eq!(docs.respond(&outside).status(), 404);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn mount(&self, path: &str) -> Mount {
        let path = path.trim_matches('/');
        let prefix = if path.is_empty() { String::new() } else { format!("/{path}") };
        Mount { site: self.clone(), prefix: prefix.into(), is_nested: false }
    }
}

impl Mount {
    /// Expects paths without the prefix, for routers that remove it, such as `nest` and `nest_service` of axum. Redirects still lead
    /// below the prefix.
    ///
    /// Such routers don't tell `/docs` from `/docs/`, so the front page is at both. Its links should begin with the prefix.
    #[must_use]
    pub fn nested(self) -> Mount {
        Mount { is_nested: true, ..self }
    }

    /// Answers any request. If the path is outside of the mount, it does not exist (404).
    #[must_use]
    pub fn respond<B>(&self, request: &http::Request<B>) -> Response<Body> {
        self.respond_below(self.prefix(), request)
    }

    /// Same, but for a mount at another path.
    pub(crate) fn respond_below<B>(&self, prefix: Prefix<'_>, request: &http::Request<B>) -> Response<Body> {
        match Place::of(request, prefix) {
            Place::Root => add_slash(prefix, request),
            Place::Inside => answer_below(&self.site.release(), prefix, request),
            Place::Outside => refuse(&self.site.release(), StatusCode::NOT_FOUND),
        }
    }

    /// Answers a request, or returns `None` if the path is outside of the mount or if the site has nothing for
    /// it (see [`Site::try_respond`]).
    #[must_use]
    pub fn try_respond<B>(&self, request: &http::Request<B>) -> Option<Response<Body>> {
        let prefix = self.prefix();
        match Place::of(request, prefix) {
            Place::Root => Some(add_slash(prefix, request)),
            Place::Inside => try_answer_below(&self.site.release(), prefix, request),
            Place::Outside => None,
        }
    }

    pub(crate) fn prefix(&self) -> Prefix<'_> {
        Prefix { requested: if self.is_nested { "" } else { &self.prefix }, public: &self.prefix }
    }
}

/// Redirects the mount's own path to the same path with a trailing slash. Otherwise, relative
/// links would not work.
fn add_slash<B>(prefix: Prefix<'_>, request: &http::Request<B>) -> Response<Body> {
    let query = request.uri().query().map_or_else(String::new, |query| format!("?{query}"));
    redirect(format!("{}/{query}", prefix.public).as_bytes(), "public, max-age=3600")
}

/// Returns `true` for methods that we redirect.
fn is_retrieval(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

/// Position of a path relative to a mount.
enum Place {
    /// The path of the mount itself, without a slash, which we redirect.
    Root,
    Inside,
    Outside,
}

impl Place {
    fn of<B>(request: &http::Request<B>, prefix: Prefix<'_>) -> Place {
        let path = request.uri().path();
        match path.strip_prefix(prefix.requested) {
            // Clients would have to send requests with other methods twice if we redirected them, so these are
            // answered right here.
            Some("") if prefix.requested.is_empty() || !is_retrieval(request.method()) => Place::Inside,
            Some("") => Place::Root,
            Some(rest) if rest.starts_with('/') => Place::Inside,
            // `OPTIONS *` is about the whole server.
            _ if path == "*" && prefix.requested.is_empty() => Place::Inside,
            _ => Place::Outside,
        }
    }
}
