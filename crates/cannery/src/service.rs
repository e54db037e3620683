//! Sites as services for tower, hyper and actix-web.

#[cfg(any(feature = "tower", feature = "hyper"))]
use std::convert::Infallible;
#[cfg(any(feature = "tower", feature = "hyper"))]
use std::future::{Ready, ready};

#[cfg(any(feature = "tower", feature = "hyper"))]
use http::{Request, Response};

#[cfg(any(feature = "tower", feature = "hyper"))]
use crate::body::Body;
use crate::mount::Mount;
use crate::site::Site;

/// A site as a service.
///
/// It answers every request, and cloning it is cheap.
#[derive(Debug, Clone)]
pub struct Service {
    pub(crate) mount: Mount,
}

impl Site {
    /// Returns the site as a service of tower, hyper or actix-web. For example, you can pass it to `fallback_service` of
    /// an axum router, or to `default_service` of an actix-web app.
    ///
    /// ```
    /// # use cannery_archiver::{Options, compile};
    /// # let dir = tempfile::tempdir()?;
    /// # std::fs::write(dir.path().join("index.html"), "<title>Hello</title>")?;
    /// # let archive = dir.path().join("site.cdb");
    /// # compile(&Options::new(dir.path(), &archive), &())?;
    /// use axum::{Router, routing::get};
    ///
    /// let site = cannery::Site::open(&archive)?;
    /// let app: Router = Router::new()
    ///     .route("/api/hello", get(|| async { "Hello" }))
    ///     .fallback_service(site.service());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn service(&self) -> Service {
        self.mount("").service()
    }
}

impl Mount {
    /// Returns the mounted site as a service of tower, hyper or actix-web.
    ///
    /// In actix-web, pass it to `service` of an app or scope. The site is then below the path of the mount, within the scope.
    ///
    /// The service expects the whole path, so it can be used with `route_service` or `fallback_service` of an axum router. For `nest`
    /// and `nest_service`, which remove the prefix, see [`Mount::nested`].
    ///
    /// ```
    /// # use cannery_archiver::{Options, compile};
    /// # let dir = tempfile::tempdir()?;
    /// # std::fs::write(dir.path().join("index.html"), "<title>Hello</title>")?;
    /// # let archive = dir.path().join("site.cdb");
    /// # compile(&Options::new(dir.path(), &archive), &())?;
    /// let site = cannery::Site::open(&archive)?;
    /// let app: axum::Router =
    ///     axum::Router::new().nest_service("/admin", site.mount("/admin").nested().service());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn service(&self) -> Service {
        Service { mount: self.clone() }
    }
}

#[cfg(feature = "tower")]
impl<B> tower_service::Service<Request<B>> for Service {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Body>, Infallible>>;

    fn poll_ready(
        &mut self,
        _context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Result<(), Infallible>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        ready(Ok(self.mount.respond(&request)))
    }
}

#[cfg(feature = "hyper")]
impl<B> hyper::service::Service<Request<B>> for Service {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Body>, Infallible>>;

    fn call(&self, request: Request<B>) -> Self::Future {
        ready(Ok(self.mount.respond(&request)))
    }
}
