//! The server as a library: a site, routes with handlers, and the addresses to serve them at.
//!
//! Settings without a function here are in [`Config`].

mod embedded;

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cannery_archive::Loading;
use cannery_eventloop::Address;
use cannery_routes::{Error, HandlerThread, IntoResponse, Next, Request, Response, Route, Routes};

pub use self::embedded::{EmbeddedArchive, FolderReleases};
use self::embedded::{FollowedArchive, replace_archives};
use crate::config::{
    CertificateFiles, Config, Content, HostPattern, NamedArchive, NoticeHandler, SelfSigned, Tls,
};
use crate::error::StartError;
use crate::kept_signals::KeptSignals;
use crate::process::notify::Notify;
use crate::process::{self, Role};
use crate::routes::limits::HANDLER_CONTENT_BYTES_MAX;
use crate::{Addresses, AdminProcess, RunningServer};

/// A server before it starts.
///
/// Paths that routes match are answered by their handlers, and all others by the site.
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
    config: Config,
    routes: Routes,
    /// The limit of the content of requests for routes that are added next, in bytes.
    content_bytes_max: u32,
    /// The number of processes under a supervisor, or `None` to serve in this one.
    processes: Option<NonZeroUsize>,
    /// Archives that folders replace.
    followed: Vec<FollowedArchive>,
    /// The first error of the calls before.
    error: Option<StartError>,
}

impl Server {
    /// Returns a server without a site, routes and addresses. It has a thread for each CPU, gives connections ten seconds to finish
    /// when it stops, and writes warnings to standard error.
    pub fn new() -> Server {
        let content = Content::Archives { archives: Vec::new(), loading: Loading::Automatic, watch: true };
        let mut config = Config::plain(content);
        config.threads = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        config.drain = Duration::from_secs(10);
        config.on_notice = NoticeHandler(Arc::new(|notice| {
            if notice.is_warning() {
                eprintln!("{notice}");
            }
        }));
        Server::from(config)
    }

    /// Serves an archive. A file that replaces it is served as soon as it is complete.
    pub fn site(self, path: impl Into<PathBuf>) -> Server {
        self.archive(NamedArchive::new(None, path.into()))
    }

    /// Serves an archive for a host, such as `example.com` or `*.example.com`.
    pub fn site_of(self, host: &str, path: impl Into<PathBuf>) -> Server {
        match HostPattern::parse(host) {
            Some(host) => self.archive(NamedArchive::new(Some(host), path.into())),
            None => self.fail(StartError::Host(host.to_owned())),
        }
    }

    /// Serves an archive that is part of the program: a reference to the static of `cannery::include_archive!`, or bytes of
    /// `include_bytes!`.
    ///
    /// A debug build with the feature `follow` of `cannery` serves the folder of the former, and each change of it.
    pub fn embedded_site(mut self, archive: impl Into<EmbeddedArchive>) -> Server {
        let place = match &self.config.content {
            Content::Archives { archives, .. } => archives.len(),
            Content::Dummy { .. } => 0,
        };
        let (named, followed) = FollowedArchive::split(archive.into(), place);
        self.followed.extend(followed);
        self.archive(named)
    }

    /// Adds a route: requests that match the pattern are answered by the handler. Patterns are those of [`cannery_routes`], and a
    /// conflict between two of them is an error of [`Server::start`].
    ///
    /// The handler runs on a thread that serves many connections, so it must not wait for anything. See
    /// [`Server::blocking_route`].
    pub fn route<R: IntoResponse>(
        self,
        pattern: &str,
        handler: impl Fn(&Request<'_>) -> R + Send + Sync + 'static,
    ) -> Server {
        self.add(pattern, handler, HandlerThread::Worker)
    }

    /// Adds a route with a handler that may wait: for a file, a database, another server. The handler runs on a pool of threads.
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

    /// Limits the content of requests for the routes that are added after this call, in bytes. Longer content gets a 413. The default
    /// is 1 MiB.
    pub fn content_bytes_max(self, bytes: u32) -> Server {
        Server { content_bytes_max: bytes, ..self }
    }

    /// Calls a function for each request of a route. It may respond itself, or have `next` respond and change that response. Of
    /// several functions, the first one that was added is called first.
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
        middleware: impl Fn(&Request<'_>, &Next<'_>) -> Result<Response, Error> + Send + Sync + 'static,
    ) -> Server {
        self.routes.wrap(Box::new(middleware));
        self
    }

    /// Makes the responses for errors of handlers, and for those that the server finds in requests of routes: 400, 405, 413 and 503.
    /// Without it, the client gets the error's message as text.
    ///
    /// ```
    /// # use cannery_server::Server;
    /// # use cannery_routes::{Error, Request, Response};
    /// let server = Server::new()
    ///     .route("GET /city", |_: &Request<'_>| Err::<Response, _>(Error::new(404, "No such city.")))
    ///     .on_error(|_, error| {
    ///         Response::html(format!("<h1>{}</h1>", error.message())).with_status(error.status())
    ///     });
    /// ```
    pub fn on_error(
        mut self,
        respond: impl Fn(&Request<'_>, &Error) -> Response + Send + Sync + 'static,
    ) -> Server {
        self.routes.set_error_handler(Box::new(respond));
        self
    }

    /// Serves at an address, such as `127.0.0.1:8080`, `:8080` for all interfaces, or `unix:/run/site.sock`.
    pub fn bind(self, address: &str) -> Server {
        self.listen(address, |config| &mut config.listen)
    }

    /// Serves over TLS at an address, with the certificates of [`Server::certificate`].
    pub fn bind_tls(self, address: &str) -> Server {
        self.listen(address, |config| &mut config.listen_tls)
    }

    /// Serves HTTP/3 at an address, with the certificates of [`Server::certificate`].
    pub fn bind_quic(self, address: &str) -> Server {
        self.listen(address, |config| &mut config.http3.listen)
    }

    /// Adds a certificate: files with its chain and its key in PEM. Files that replace them are used as soon as they are valid.
    pub fn certificate(mut self, chain: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Server {
        let files = CertificateFiles { chain: chain.into(), key: Some(key.into()), staple: None };
        self.tls().certificates.push(files);
        self
    }

    /// Adds a certificate that only the server itself has signed, for tests.
    pub fn self_signed_certificate(mut self, algorithm: SelfSigned) -> Server {
        self.tls().self_signed = Some(algorithm);
        self
    }

    fn tls(&mut self) -> &mut Tls {
        self.config.tls.get_or_insert_with(|| Tls { certificates: Vec::new(), self_signed: None, seed: None })
    }

    /// Sets the number of threads that serve connections.
    pub fn threads(mut self, threads: NonZeroUsize) -> Server {
        self.config.threads = threads;
        self
    }

    /// Serves with several processes. [`Server::run`] then supervises them: it starts this program again for each of them, with
    /// the same arguments, and restarts those that exit. At SIGUSR2, it starts the file that now has this program's name, passes
    /// the sockets to it, and ends when the new program serves, so that no connection is refused.
    ///
    /// Everything that the program does before `run` happens in each process, and in the supervisor.
    pub fn processes(self, processes: NonZeroUsize) -> Server {
        Server { processes: Some(processes), ..self }
    }

    /// Sets the number of threads for handlers that wait. The default is 16.
    pub fn handler_threads(mut self, threads: NonZeroUsize) -> Server {
        self.config.handler_threads = threads;
        self
    }

    /// Changes other settings.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use cannery_server::Server;
    /// let server = Server::new().configure(|config| {
    ///     config.drain = Duration::from_secs(30);
    /// });
    /// ```
    pub fn configure(mut self, change: impl FnOnce(&mut Config)) -> Server {
        change(&mut self.config);
        self
    }

    /// Opens the content, listens, and starts the workers. When it returns, connections are accepted.
    ///
    /// # Errors
    /// Returns an error if a pattern or an address is invalid, a file or an address cannot be opened, the sandbox cannot be
    /// entered, or the server has [several processes](Server::processes).
    pub fn start(self) -> Result<RunningServer, StartError> {
        if self.processes.is_some() {
            return Err(StartError::Processes);
        }
        let (config, followed) = self.into_parts()?;
        serve(config, followed)
    }

    /// Serves until SIGINT or SIGTERM ends the server gracefully.
    ///
    /// Uses the sockets of a service manager instead of the addresses if it passes some (`sd_listen_fds(3)`), and tells it when
    /// the server is ready.
    ///
    /// # Errors
    /// As for [`Server::start`], and if none of several processes can serve.
    pub fn run(self) -> Result<(), StartError> {
        self.run_with(|_| {})
    }

    /// Like [`Server::run`], and calls a function when the server has begun to serve. Of several processes, only the supervisor
    /// calls it.
    ///
    /// # Errors
    /// As for [`Server::run`].
    pub fn run_with(self, on_ready: impl FnOnce(&Addresses)) -> Result<(), StartError> {
        let role = Role::of(self.processes);
        let (mut config, followed) = self.into_parts()?;
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

    /// Returns the configuration and the archives that folders replace, or the first error of the calls before.
    fn into_parts(self) -> Result<(Config, Vec<FollowedArchive>), StartError> {
        let Server { mut config, routes, followed, error, .. } = self;
        if let Some(error) = error {
            return Err(error);
        }
        if !routes.is_empty() {
            config.routes = Some(Arc::new(routes));
        }
        Ok((config, followed))
    }

    fn archive(mut self, named: NamedArchive) -> Server {
        match &mut self.config.content {
            Content::Archives { archives, .. } => archives.push(named),
            Content::Dummy { .. } => {
                let archives = vec![named];
                self.config.content =
                    Content::Archives { archives, loading: Loading::Automatic, watch: true };
            }
        }
        self
    }

    /// Adds an address to a list of the configuration.
    fn listen(mut self, text: &str, list: impl FnOnce(&mut Config) -> &mut Vec<Address>) -> Server {
        match text.parse() {
            Ok(address) => {
                list(&mut self.config).push(address);
                self
            }
            Err(source) => self.fail(StartError::Address { text: text.to_owned(), source }),
        }
    }

    /// Keeps the first error for [`Server::start`].
    fn fail(mut self, error: StartError) -> Server {
        self.error.get_or_insert(error);
        self
    }
}

/// Starts the server, with the archives of folders that are followed.
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

impl From<Config> for Server {
    fn from(config: Config) -> Server {
        Server {
            config,
            routes: Routes::default(),
            content_bytes_max: HANDLER_CONTENT_BYTES_MAX,
            processes: None,
            followed: Vec::new(),
            error: None,
        }
    }
}

impl RunningServer {
    /// Returns the addresses of the Internet that the server accepts TCP connections at, in the order of the calls that bound them,
    /// those without TLS first.
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
