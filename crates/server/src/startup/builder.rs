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
use cannery_routes::{HandlerError, HandlerThread, IntoResponse, Next, Request, Response, Route, Routes};

pub use self::embedded::{EmbeddedArchive, FolderReleases};
use self::embedded::{FollowedArchive, replace_archives};
pub use self::settings::Settings;
use crate::config::{CertificateFiles, Config, HostPattern, NamedArchive, SelfSigned};
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
/// use cannery_routes::{Request, Response};
/// use cannery_server::Server;
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
/// # Ok::<(), cannery_server::StartError>(())
/// ```
#[derive(Debug)]
#[must_use = "a server serves only after it has started"]
pub struct Server {
    settings: Settings,
    routes: Routes,
    /// Limit for request content, in bytes. Applies to routes that are added from now on.
    content_bytes_max: u32,
    /// Number of processes, or `None` to serve in this one without a supervisor.
    processes: Option<NonZeroUsize>,
    /// Archives that are replaced whenever a folder changes.
    followed: Vec<FollowedArchive>,
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
            routes: Routes::default(),
            content_bytes_max: HANDLER_CONTENT_BYTES_MAX,
            processes: None,
            followed: Vec::new(),
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

    /// Serves an archive that is embedded in the program.
    ///
    /// The archive may be either a reference to the static of `cannery::include_archive!` or bytes of
    /// `include_bytes!`. In a debug build with the `follow` feature of `cannery`, the former serves the
    /// folder instead, including any changes to it.
    pub fn embedded_site(mut self, archive: impl Into<EmbeddedArchive>) -> Server {
        let (named, followed) = FollowedArchive::split(archive.into(), self.settings.archives());
        self.followed.extend(followed);
        self.configure(|settings| settings.archive(named))
    }

    /// Adds a route. Requests that match the pattern will be answered by the handler.
    ///
    /// See [`cannery_routes`] for the syntax of patterns. If two of them conflict, [`Server::start`] will
    /// return an error. The handler must not block, since it runs on a thread that serves many
    /// connections; if it needs to, use [`Server::blocking_route`] instead.
    pub fn route<R: IntoResponse>(
        self,
        pattern: &str,
        handler: impl Fn(&Request<'_>) -> R + Send + Sync + 'static,
    ) -> Server {
        self.add(pattern, handler, HandlerThread::Worker)
    }

    /// Adds a route with a handler that may block, e.g. to wait for a file, a database or another
    /// server. The handler will run on a thread pool.
    pub fn blocking_route<R: IntoResponse>(
        self,
        pattern: &str,
        handler: impl Fn(&Request<'_>) -> R + Send + Sync + 'static,
    ) -> Server {
        self.add(pattern, handler, HandlerThread::Pool)
    }

    fn add<R: IntoResponse>(
        mut self,
        pattern: &str,
        handler: impl Fn(&Request<'_>) -> R + Send + Sync + 'static,
        thread: HandlerThread,
    ) -> Server {
        match self.routes.add(pattern, Route::new(handler, thread, self.content_bytes_max)) {
            Ok(()) => self,
            Err(error) => self.fail(error.into()),
        }
    }

    /// Limits the content of requests, in bytes (1 MiB by default). If the content is longer, the client gets
    /// a 413. Note that this only applies to routes that are added after this call.
    pub fn content_bytes_max(self, bytes: u32) -> Server {
        Server { content_bytes_max: bytes, ..self }
    }

    /// Adds a function that is called for each request with a route.
    ///
    /// The function may either respond itself or call `next` and possibly change the response. Several
    /// functions will be called in the order in which they were added.
    ///
    /// ```
    /// # use cannery_server::Server;
    /// # use cannery_routes::{Request, Response};
    /// let server = Server::new().route("GET /hello", |_: &Request<'_>| "Hello!").wrap(|request, next| {
    ///     if request.cookie("session").is_none() {
    ///         return Ok(Response::redirect(303, "/login"));
    ///     }
    ///     Ok(next(request)?.with_header("Cache-Control", "no-store"))
    /// });
    /// ```
    pub fn wrap(
        mut self,
        middleware: impl Fn(&Request<'_>, &Next<'_>) -> Result<Response, HandlerError> + Send + Sync + 'static,
    ) -> Server {
        self.routes.wrap(Box::new(middleware));
        self
    }

    /// Sets the error handler, which makes the response if a handler returns an error.
    ///
    /// It is also used for errors that the server detects in requests with a route (400, 405, 413 and 503).
    /// Without an error handler, clients get the error message as text.
    ///
    /// ```
    /// # use cannery_server::Server;
    /// # use cannery_routes::{HandlerError, Request, Response};
    /// let server = Server::new()
    ///     .route("GET /city", |_: &Request<'_>| Err::<Response, _>(HandlerError::new(404, "No such city.")))
    ///     .on_error(|_, error| {
    ///         Response::html(format!("<h1>{}</h1>", error.message())).with_status(error.status())
    ///     });
    /// ```
    pub fn on_error(
        mut self,
        respond: impl Fn(&Request<'_>, &HandlerError) -> Response + Send + Sync + 'static,
    ) -> Server {
        self.routes.set_error_handler(Box::new(respond));
        self
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
        let files = CertificateFiles { chain: chain.into(), key: Some(key.into()), staple: None };
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
    /// # use std::time::Duration;
    /// # use cannery_server::Server;
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
        let (config, followed) = self.into_parts()?;
        serve(config, followed)
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
        let (mut config, followed) = self.into_parts()?;
        // From here on, signals need to be kept, otherwise they might get lost before we can act on
        // them.
        config.kept_signals = Some(KeptSignals::new().map_err(StartError::Signals)?);
        role.inherit(&mut config)?;
        let notify = Notify::from_environment().map_err(StartError::Notify)?;

        match role {
            Role::Supervisor { processes } => process::supervise(&config, processes, on_ready)?,
            Role::Only | Role::Member { .. } => {
                let server = serve(config, followed)?;
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

    /// Returns the configuration and the followed archives, or the first error of any method so far.
    fn into_parts(self) -> Result<(Config, Vec<FollowedArchive>), StartError> {
        let Server { settings, routes, followed, error, .. } = self;
        match error {
            Some(error) => Err(error),
            None => Ok((settings.into_config(routes)?, followed)),
        }
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

/// Starts the server. Also starts to follow folders.
fn serve(mut config: Config, followed: Vec<FollowedArchive>) -> Result<RunningServer, StartError> {
    let releases: Vec<_> = followed.into_iter().filter_map(|followed| followed.start(&mut config)).collect();
    let server = RunningServer::start(&config)?;
    for (place, next) in releases {
        replace_archives(&server, place, next)?;
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
        let addresses = self.addresses.iter().filter_map(|(_, address)| match address {
            Address::Internet(address) => Some(*address),
            Address::Every(port) => Some(([127, 0, 0, 1], *port).into()),
            Address::Local(_) => None,
        });
        addresses.collect()
    }
}
