//! The server as a library: configures a site, routes with handlers, and the addresses to serve them
//! at.
//!
//! Less common settings do not have a method here. See [`Settings`] for these.

mod embedded;
mod settings;

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use cannery_eventloop::Address;
use cannery_routes::{
    ContentReader, Group, HandlerError, IntoResponse, Next, Request, RequestBuilder, Response, RouteError,
    Routes,
};

use self::embedded::ConfiguredSite;
pub use self::embedded::{ReplaceableSite, SiteSource};
pub use self::settings::Settings;
use crate::config::{CertificateFiles, Config, HostPattern, NamedArchive, SelfSigned, TrustedProxies};
use crate::error::StartError;
use crate::kept_signals::KeptSignals;
use crate::process::notify::Notify;
use crate::process::{self, Role};
use crate::routes::limits::HANDLER_CONTENT_BYTES_MAX;
use crate::{Addresses, AdminProcess, RunningServer};

/// A server that has not been started yet.
///
/// Requests that match a route will be answered by the handler, all others by the site.
///
/// ```no_run
/// # mod cannery { pub use cannery_routes::*; pub use cannery_server::*; }
/// use cannery::{Request, Response, Server};
///
/// fn hello(request: &Request) -> Response {
///     Response::text(format!("Hello {}!", request.param("name")))
/// }
///
/// Server::new()
///     .site("site.cdb")
///     .route("GET /hello/{name}", hello)
///     .bind("127.0.0.1:8080")
///     .run()?;
/// # Ok::<(), cannery::StartError>(())
/// ```
#[derive(Debug)]
#[must_use = "a server serves only after it has started"]
pub struct Server {
    settings: Settings,
    /// All routes, including those in groups.
    group: Group,
    trusted_proxies: Option<TrustedProxies>,
    /// Number of processes, or `None` to serve in this one without a supervisor.
    processes: Option<NonZeroUsize>,
    /// Sites that the program may replace.
    replaceable: Vec<ConfiguredSite>,
    /// The first error of any method so far. [`Server::start`] will return it.
    error: Option<StartError>,
}

impl Server {
    /// Creates a server without a site, routes or addresses.
    ///
    /// By default, there will be one thread per CPU, connections get ten seconds to finish when the server
    /// is stopped, and warnings are written to standard error.
    pub fn new() -> Server {
        Server {
            settings: Settings::new(),
            group: Group::default(),
            trusted_proxies: None,
            processes: None,
            replaceable: Vec::new(),
            error: None,
        }
    }

    /// Serves an archive. If the file is replaced, the new one will be served as soon as it is
    /// complete.
    pub fn site(self, path: impl Into<PathBuf>) -> Server {
        self.configure(|settings| settings.archive(NamedArchive::new(None, path.into())))
    }

    /// Serves an archive for a host, for example `example.com` or `*.example.com`.
    pub fn site_of(self, host: &str, path: impl Into<PathBuf>) -> Server {
        match HostPattern::parse(host) {
            Some(host) => {
                self.configure(|settings| settings.archive(NamedArchive::new(Some(host), path.into())))
            }
            None => self.fail(StartError::Host(host.to_owned())),
        }
    }

    /// Serves an archive that is embedded in the program, or a site that the program has opened.
    ///
    /// This may be a reference to the static of `cannery::include_archive!`, bytes of `include_bytes!`, or a `cannery::Site`. In a
    /// debug build with the `follow` feature of `cannery`, the first of these serves the folder instead, including any changes to
    /// it.
    ///
    /// `Site::replace` replaces the archive while the server runs, unless it consists of bytes.
    pub fn embedded_site(self, site: impl Into<SiteSource>) -> Server {
        self.embed(None, site.into())
    }

    /// Serves an archive that is embedded in the program for a host, for example `example.com` or `*.example.com`. Each host's archive
    /// can be replaced separately. See [`Server::embedded_site`].
    pub fn embedded_site_of(self, host: &str, site: impl Into<SiteSource>) -> Server {
        match HostPattern::parse(host) {
            Some(host) => self.embed(Some(host), site.into()),
            None => self.fail(StartError::Host(host.to_owned())),
        }
    }

    fn embed(mut self, host: Option<HostPattern>, source: SiteSource) -> Server {
        let (named, site) = ConfiguredSite::split(source, host, self.settings.archives());
        self.replaceable.extend(site);
        self.configure(|settings| settings.archive(named))
    }

    /// Adds a route. Requests that match the pattern will be answered by the handler.
    ///
    /// [`Group::route`] describes patterns. If two of them conflict, [`Server::start`] will return an error. The handler must not
    /// block, since it runs on a thread that serves many connections; if it needs to, use [`Server::blocking_route`] instead.
    pub fn route<R: IntoResponse<Via>, Via>(
        self,
        pattern: &str,
        handler: impl Fn(&Request<'_>) -> R + Send + Sync + 'static,
    ) -> Server {
        Server { group: self.group.route(pattern, handler), ..self }
    }

    /// Adds a route with a handler that may block, e.g. to wait for a file, a database or another
    /// server. The handler will run on a thread pool.
    pub fn blocking_route<R: IntoResponse<Via>, Via>(
        self,
        pattern: &str,
        handler: impl Fn(&Request<'_>) -> R + Send + Sync + 'static,
    ) -> Server {
        Server { group: self.group.blocking_route(pattern, handler), ..self }
    }

    /// Adds a route whose handler reads the content of the request while it arrives, for example to store a large upload. See
    /// [`Group::upload_route`].
    pub fn upload_route<R: IntoResponse<Via>, Via>(
        self,
        pattern: &str,
        handler: impl Fn(&Request<'_>, ContentReader) -> R + Send + Sync + 'static,
    ) -> Server {
        Server { group: self.group.upload_route(pattern, handler), ..self }
    }

    /// Adds a group of routes below a prefix, with their own middleware, limits and error pages. See [`Group::group`].
    ///
    /// ```
    /// # mod cannery { pub use cannery_routes::*; pub use cannery_server::*; }
    /// # use cannery::{Problem, Request, Server};
    /// let server = Server::new().group("/api", |api| {
    ///     api.on_error(|_, error| Problem::from(error)).route("GET /hello", |_: &Request| "Hello!")
    /// });
    /// ```
    pub fn group(self, prefix: &str, fill: impl FnOnce(Group) -> Group) -> Server {
        Server { group: self.group.group(prefix, fill), ..self }
    }

    /// Limits the content of requests, in bytes (1 MiB by default). If the content is longer, the client gets
    /// a 413. Groups can have other limits.
    pub fn content_bytes_max(self, bytes: u64) -> Server {
        Server { group: self.group.content_bytes_max(bytes), ..self }
    }

    /// Adds a function that is called around all handlers.
    ///
    /// The function may either respond itself or call `next` and possibly change the response. Several
    /// functions will be called in the order in which they were added. They also see the responses that the server makes for routes,
    /// such as errors and responses to `OPTIONS`. See [`Group::wrap`].
    ///
    /// ```
    /// # mod cannery { pub use cannery_routes::*; pub use cannery_server::*; }
    /// # use cannery::{Request, Response, Server};
    /// let server = Server::new().route("GET /hello", |_: &Request| "Hello!").wrap(|request, next| {
    ///     if request.cookie("session").is_none() {
    ///         return Response::redirect(303, "/login");
    ///     }
    ///     next(request).with_header("Cache-Control", "no-store")
    /// });
    /// ```
    pub fn wrap<R: IntoResponse<Via>, Via>(
        self,
        middleware: impl Fn(&mut Request<'_>, &Next<'_>) -> R + Send + Sync + 'static,
    ) -> Server {
        Server { group: self.group.wrap(middleware), ..self }
    }

    /// Like [`Server::wrap`] for a function that may block. All handlers will run on the thread pool. See
    /// [`Group::blocking_wrap`].
    pub fn blocking_wrap<R: IntoResponse<Via>, Via>(
        self,
        middleware: impl Fn(&mut Request<'_>, &Next<'_>) -> R + Send + Sync + 'static,
    ) -> Server {
        Server { group: self.group.blocking_wrap(middleware), ..self }
    }

    /// Sets the error handler, which makes the response if a handler returns an error.
    ///
    /// It is also used for errors that the server detects in requests with a route (400, 404, 405, 413 and 503).
    /// Without an error handler, clients get the error message as text. Groups can have other error handlers.
    ///
    /// ```
    /// # mod cannery { pub use cannery_routes::*; pub use cannery_server::*; }
    /// # use cannery::{OrStatus, Request, Response, Server};
    /// let server = Server::new()
    ///     .route("GET /city", |request: &Request| request.query().get("name").or_status(400, "Which city?").map(String::from))
    ///     .on_error(|_, error| {
    ///         Response::html(format!("<h1>{}</h1>", error.message())).with_status(error.status())
    ///     });
    /// ```
    pub fn on_error<R: Into<Response>>(
        self,
        respond: impl Fn(&Request<'_>, &HandlerError) -> R + Send + Sync + 'static,
    ) -> Server {
        Server { group: self.group.on_error(respond), ..self }
    }

    /// Trusts proxies to tell the addresses of clients. [`Request::client`] will return these, and the access log will show them.
    pub fn trusted_proxies(self, proxies: TrustedProxies) -> Server {
        Server { trusted_proxies: Some(proxies), ..self }
    }

    /// Responds to a request as the started server would, without a socket. This is useful in tests.
    ///
    /// Handlers run on this thread. There is no site: the response is a 404 for paths that have neither a route nor a group.
    ///
    /// ```
    /// # mod cannery { pub use cannery_routes::*; pub use cannery_server::*; }
    /// # use cannery::{Request, Server};
    /// let server = Server::new().route("GET /hello", |_: &Request| "Hello!");
    /// let response = server.respond(&Request::builder("GET", "/hello"))?;
    /// assert_eq!(response.status(), 200);
    /// assert_eq!(response.into_content()?, b"Hello!");
    /// # Ok::<(), cannery::HandlerError>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if a pattern is invalid or conflicts with another one.
    pub fn respond(&self, request: &RequestBuilder) -> Result<Response, RouteError> {
        Ok(self.routes()?.respond(request).response)
    }

    fn routes(&self) -> Result<Routes, RouteError> {
        let mut routes = Routes::new(&self.group, HANDLER_CONTENT_BYTES_MAX)?;
        let proxies = self.trusted_proxies.as_ref().or_else(|| self.settings.log_proxies()).cloned();
        if let Some(proxies) = proxies {
            routes.set_find_client(Box::new(move |peer, field_lines| proxies.client(peer, field_lines)));
        }
        Ok(routes)
    }

    /// Serves at an address. For example, this could be `127.0.0.1:8080`, `:8080` (all interfaces) or
    /// `unix:/run/site.sock`.
    pub fn bind(self, address: &str) -> Server {
        self.listen(address, Settings::listen)
    }

    /// Serves at an address with TLS. You also need to add a [`Server::certificate`].
    pub fn bind_tls(self, address: &str) -> Server {
        self.listen(address, Settings::listen_tls)
    }

    /// Serves HTTP/3 at an address. You also need to add a [`Server::certificate`].
    pub fn bind_quic(self, address: &str) -> Server {
        self.listen(address, Settings::listen_quic)
    }

    /// Adds a certificate chain and key, both of which are PEM files. If these are replaced, the new ones
    /// will be used as soon as they are valid.
    pub fn certificate(self, chain: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Server {
        let files = CertificateFiles::new(chain).with_key(key);
        self.configure(|settings| settings.certificate(files))
    }

    /// Adds a self-signed certificate. This is useful for tests.
    pub fn self_signed_certificate(self, algorithm: SelfSigned) -> Server {
        self.configure(|settings| settings.self_signed_certificate(algorithm))
    }

    /// Sets how many threads serve connections.
    pub fn threads(self, threads: NonZeroUsize) -> Server {
        self.configure(|settings| settings.threads(threads))
    }

    /// Serves with several processes.
    ///
    /// [`Server::run`] will then act as a supervisor. It starts this program again for each process, with the
    /// same arguments, and restarts processes that exit. On SIGUSR2, it starts the file that now has this
    /// program's name and passes the sockets to it. It will only exit once the new program is serving, so no
    /// connections are refused.
    ///
    /// Note that everything before the call to `run` will happen in each process, as well as in the
    /// supervisor.
    pub fn processes(self, processes: NonZeroUsize) -> Server {
        Server { processes: Some(processes), ..self }
    }

    /// Sets the number of threads for handlers that may block. The default is 16.
    pub fn handler_threads(self, threads: NonZeroUsize) -> Server {
        self.configure(|settings| settings.handler_threads(threads))
    }

    /// Changes any other settings.
    ///
    /// ```
    /// # mod cannery { pub use cannery_routes::*; pub use cannery_server::*; }
    /// # use std::time::Duration;
    /// # use cannery::Server;
    /// let server = Server::new().configure(|settings| settings.drain(Duration::from_secs(30)));
    /// ```
    pub fn configure(self, change: impl FnOnce(Settings) -> Settings) -> Server {
        Server { settings: change(self.settings), ..self }
    }

    /// Opens the content, binds the addresses and starts the workers. By the time this returns, the server
    /// accepts connections.
    ///
    /// # Errors
    /// Returns an error if a pattern or an address is invalid, if a file or an address cannot be opened, if the
    /// sandbox cannot be entered, or if the server has [several processes](Server::processes).
    pub fn start(self) -> Result<RunningServer, StartError> {
        if self.processes.is_some() {
            return Err(StartError::Processes);
        }
        let (config, replaceable) = self.into_parts()?;
        check_listeners(&config)?;
        serve(config, replaceable)
    }

    /// Serves until SIGINT or SIGTERM stops the server gracefully.
    ///
    /// Sockets passed by a service manager (`sd_listen_fds(3)`) are used instead of the addresses. The
    /// service manager will also be notified when the server is ready.
    ///
    /// # Errors
    ///
    /// Like [`Server::start`]. With several processes, an error is also returned if none of them can
    /// serve.
    pub fn run(self) -> Result<(), StartError> {
        self.run_with(|_| {})
    }

    /// Like [`Server::run`], but calls a function once the server has started to serve. With several
    /// processes, this only happens in the supervisor.
    ///
    /// # Errors
    /// Like [`Server::run`].
    pub fn run_with(self, on_ready: impl FnOnce(&Addresses)) -> Result<(), StartError> {
        let role = Role::of(self.processes);
        let (mut config, replaceable) = self.into_parts()?;
        // From here on, signals need to be kept, otherwise they might get lost before we can act on
        // them.
        config.kept_signals = Some(KeptSignals::new().map_err(StartError::Signals)?);
        role.inherit(&mut config)?;
        if role != Role::Operators {
            check_listeners(&config)?;
        }
        let notify = Notify::from_environment().map_err(StartError::Notify)?;

        match role {
            Role::Supervisor { processes } => process::supervise(&config, processes, on_ready)?,
            Role::Only | Role::Member { .. } => {
                let server = serve(config, replaceable)?;
                server.handle_signals(notify.clone())?;
                if role == Role::Only {
                    on_ready(&server.addresses());
                }
                notify.ready("serving");
                server.wait();
            }
            Role::Operators => {
                let operators = AdminProcess::start(&config)?;
                operators.handle_signals(notify.clone())?;
                notify.ready("answering operators");
                operators.wait();
            }
        }
        Ok(())
    }

    /// Returns the configuration and the replaceable sites, or the first error of any method so far.
    fn into_parts(mut self) -> Result<(Config, Vec<ConfiguredSite>), StartError> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        let routes = self.routes()?;
        let Server { settings, trusted_proxies, replaceable, .. } = self;
        let settings = match trusted_proxies {
            Some(proxies) => settings.with_log_proxies(proxies),
            None => settings,
        };
        Ok((settings.into_config(routes)?, replaceable))
    }

    fn listen(self, text: &str, listen: impl FnOnce(Settings, Address) -> Settings) -> Server {
        match text.parse() {
            Ok(address) => self.configure(|settings| listen(settings, address)),
            Err(source) => self.fail(StartError::Address { text: text.to_owned(), source }),
        }
    }

    /// Keeps the first error. [`Server::start`] will return it.
    fn fail(mut self, error: StartError) -> Server {
        self.error.get_or_insert(error);
        self
    }
}

/// Makes sure that the server has an address, or a socket of a service manager.
fn check_listeners(config: &Config) -> Result<(), StartError> {
    let has_own = !config.listen.is_empty() || config.has_tls();
    let inherits = !config.inheritance.listeners.is_empty() || !config.inheritance.standby.is_empty();
    if has_own || inherits { Ok(()) } else { Err(StartError::NoListener) }
}

/// Opens the program's own sites, and starts the server.
fn serve(mut config: Config, replaceable: Vec<ConfiguredSite>) -> Result<RunningServer, StartError> {
    for site in &replaceable {
        site.open(&mut config)?;
    }
    let server = RunningServer::start(&config)?;
    for site in replaceable {
        site.publish_to(&server);
    }
    Ok(server)
}

impl Default for Server {
    fn default() -> Server {
        Server::new()
    }
}

impl RunningServer {
    /// Returns the addresses that the server accepts TCP connections on (Unix sockets are not
    /// included). Those without TLS come first; apart from that, they are in the order in which they
    /// were bound.
    #[must_use]
    pub fn local_addresses(&self) -> Vec<SocketAddr> {
        let addresses = self.addresses.listeners.iter().filter_map(|(_, address)| match address {
            Address::Internet(address) => Some(*address),
            Address::Every(port) => Some(([127, 0, 0, 1], *port).into()),
            Address::Local(_) => None,
        });
        addresses.collect()
    }
}
