//! Settings of a server that is part of a program.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::config::{
    AccessLog, Account, Address, AdminPage, CertificateFiles, Config, Content, HANDLER_THREADS, HostPattern,
    Http3, HttpVersions, HttpsRedirect, Io, Loading, NamedArchive, NoticeHandler, Responders, Routes,
    SecurityHeaders, SelfSigned, ServerId, Timeouts, Tls, TrustedProxies, VirtualHosts,
};
use crate::error::StartError;
use crate::notice::Notice;

/// Settings of a [`Server`](crate::Server), for [`Server::configure`](crate::Server::configure).
///
/// ```
/// # use std::time::Duration;
/// # use cannery_server::Server;
/// # use cannery_server::config::AdminPage;
/// let admin = AdminPage::new("127.0.0.1:9090".parse()?);
/// let server = Server::new().configure(|settings| settings.drain(Duration::from_secs(30)).admin(admin));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
#[must_use = "settings have no effect until they are returned"]
pub struct Settings {
    /// Everything that doesn't depend on other settings.
    config: Config,
    archives: Vec<NamedArchive>,
    loading: Loading,
    watch: bool,
    listen_tls: Vec<Address>,
    listen_quic: Vec<Address>,
    certificates: Vec<CertificateFiles>,
    self_signed: Option<SelfSigned>,
    http3_alternative: Option<String>,
    quic_server_id: Option<ServerId>,
    handler_threads: NonZeroUsize,
}

/// Upper bound for timeouts, so that no sum with a point in time overflows.
const DURATION_MAX: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

impl Settings {
    pub(super) fn new() -> Settings {
        let content = Content::Archives { archives: Vec::new(), loading: Loading::Automatic, watch: true };
        let mut config = Config::plain(content);
        config.threads = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        config.drain = Duration::from_secs(10);
        config.on_notice = NoticeHandler(Arc::new(|notice| {
            if notice.is_warning() {
                eprintln!("{notice}");
            }
        }));

        Settings {
            config,
            archives: Vec::new(),
            loading: Loading::Automatic,
            watch: true,
            listen_tls: Vec::new(),
            listen_quic: Vec::new(),
            certificates: Vec::new(),
            self_signed: None,
            http3_alternative: None,
            quic_server_id: None,
            handler_threads: HANDLER_THREADS,
        }
    }

    /// Returns the configuration of a server with these routes.
    ///
    /// # Errors
    /// Returns an error if there is an address for TLS or HTTP/3, but no certificate.
    pub(super) fn into_config(self, routes: Routes) -> Result<Config, StartError> {
        let Settings { mut config, archives, loading, watch, listen_tls, listen_quic, .. } = self;
        config.content = Content::Archives { archives, loading, watch };
        if !routes.is_empty() {
            let routes = Arc::new(routes);
            config.responders = Responders::Handlers { routes, threads: self.handler_threads };
        }

        match Tls::new(self.certificates, self.self_signed) {
            Some(mut tls) => {
                tls.listen = listen_tls;
                tls.http3 = Some(Http3 {
                    listen: listen_quic,
                    alternative: self.http3_alternative,
                    server_id: self.quic_server_id,
                });
                config.tls = Some(tls);
            }
            None if listen_tls.is_empty() && listen_quic.is_empty() => {}
            None => return Err(StartError::NoCertificate),
        }
        Ok(config)
    }

    /// Returns the proxies whose addresses of clients the access log shows.
    pub(super) fn log_proxies(&self) -> Option<&TrustedProxies> {
        self.config.access_log.as_ref()?.proxies.as_ref()
    }

    /// Lets the access log (if any) show the addresses of clients behind these proxies.
    pub(super) fn with_log_proxies(mut self, proxies: TrustedProxies) -> Settings {
        self.config.access_log = self.config.access_log.map(|log| log.with_proxies(proxies));
        self
    }

    /// Returns how many archives there are.
    pub(super) fn archives(&self) -> usize {
        self.archives.len()
    }

    /// Serves an archive, e.g. one of a [`ReleaseDirectory`](crate::config::ReleaseDirectory).
    pub fn archive(mut self, archive: NamedArchive) -> Settings {
        self.archives.push(archive);
        self
    }

    /// Sets how archives get into memory.
    pub fn loading(self, loading: Loading) -> Settings {
        Settings { loading, ..self }
    }

    /// Sets whether files of archives and certificates are checked for changes without a signal, which is the default.
    pub fn watch(self, watch: bool) -> Settings {
        Settings { watch, ..self }
    }

    /// Serves at an address without TLS. Port 0 selects a free port.
    pub fn listen(mut self, address: Address) -> Settings {
        self.config.listen.push(address);
        self
    }

    /// Serves at an address with TLS.
    pub fn listen_tls(mut self, address: Address) -> Settings {
        self.listen_tls.push(address);
        self
    }

    /// Serves HTTP/3 at an address.
    pub fn listen_quic(mut self, address: Address) -> Settings {
        self.listen_quic.push(address);
        self
    }

    /// Adds a certificate. The first one is the default, for clients that do not send a server name or ask for a name
    /// that no certificate covers.
    pub fn certificate(mut self, files: CertificateFiles) -> Settings {
        self.certificates.push(files);
        self
    }

    /// Adds a temporary self-signed certificate.
    pub fn self_signed_certificate(self, kind: SelfSigned) -> Settings {
        Settings { self_signed: Some(kind), ..self }
    }

    /// Sets the HTTP versions over TCP.
    pub fn versions(mut self, versions: HttpVersions) -> Settings {
        self.config.versions = versions;
        self
    }

    /// Sets the host and port of HTTP/3 for `Alt-Svc`: `HOST:PORT`, or `:PORT` for the host of the request. The default
    /// is the port of the first socket.
    pub fn http3_alternative(self, authority: impl Into<String>) -> Settings {
        Settings { http3_alternative: Some(authority.into()), ..self }
    }

    /// Puts a server number into QUIC connection IDs, so that a load balancer can route datagrams.
    pub fn quic_server_id(self, id: ServerId) -> Settings {
        Settings { quic_server_id: Some(id), ..self }
    }

    /// Redirects requests without TLS to `https`.
    pub fn https_redirect(mut self, redirect: HttpsRedirect) -> Settings {
        self.config.https_redirect = Some(redirect);
        self
    }

    /// Sets the file mode of Unix sockets, as with `chmod`. By default, the umask applies.
    pub fn unix_mode(mut self, mode: u32) -> Settings {
        self.config.local_mode = Some(mode);
        self
    }

    /// Sets whether the kernel only accepts a TCP connection once the client has sent some data
    /// (`TCP_DEFER_ACCEPT`).
    pub fn defer_accept(mut self, defer_accept: bool) -> Settings {
        self.config.defer_accept = defer_accept;
        self
    }

    /// Sets how many threads serve connections.
    pub fn threads(mut self, threads: NonZeroUsize) -> Settings {
        self.config.threads = threads;
        self
    }

    /// Sets the number of threads for handlers that may block.
    pub fn handler_threads(self, threads: NonZeroUsize) -> Settings {
        Settings { handler_threads: threads, ..self }
    }

    /// Sets the event loop that the threads should use.
    pub fn io(mut self, io: Io) -> Settings {
        self.config.io = io;
        self
    }

    /// Limits the number of open connections, counting all threads together. Further connections have to wait in the
    /// kernel's accept queue.
    pub fn connections_max(mut self, connections: NonZeroUsize) -> Settings {
        self.config.connections_max = Some(connections);
        self
    }

    /// Sets whether each connection must start with a PROXY protocol header.
    pub fn proxy_protocol(mut self, proxy_protocol: bool) -> Settings {
        self.config.proxy_protocol = proxy_protocol;
        self
    }

    /// Tells if the request host selects a site within an archive.
    pub fn virtual_hosts(mut self, virtual_hosts: VirtualHosts) -> Settings {
        self.config.virtual_hosts = virtual_hosts;
        self
    }

    /// Only answers requests for IP addresses, `localhost` and names below it, hosts that a site names exactly, and these
    /// hosts. You may want this if foreign web pages in the user's browser must not be able to read from the server.
    pub fn trusted_hosts(mut self, hosts: Vec<HostPattern>) -> Settings {
        self.config.trusted_hosts = Some(hosts);
        self
    }

    /// Sets the security header fields that are added to every response.
    pub fn security_headers(mut self, headers: SecurityHeaders) -> Settings {
        self.config.security_headers = headers;
        self
    }

    /// Sets whether clients may cache permanent redirects, which is the default.
    pub fn keeps_redirects(mut self, keeps_redirects: bool) -> Settings {
        self.config.keeps_redirects = keeps_redirects;
        self
    }

    /// Changes the timeouts for clients and handlers. Anything above a century, such as [`Duration::MAX`], is a century.
    pub fn timeouts(mut self, change: impl FnOnce(&mut Timeouts)) -> Settings {
        let timeouts = self.config.timeouts.get_or_insert_default();
        change(timeouts);
        let Timeouts { head, idle, idle_crowded, handler, send } = timeouts;
        for timeout in [head, idle, idle_crowded, handler, send] {
            *timeout = (*timeout).min(DURATION_MAX);
        }
        self
    }

    /// Sets the time for connections to finish sending during a graceful shutdown.
    pub fn drain(mut self, drain: Duration) -> Settings {
        self.config.drain = drain.min(DURATION_MAX);
        self
    }

    /// Serves ACME challenge tokens from a directory.
    pub fn acme_webroot(mut self, directory: impl Into<PathBuf>) -> Settings {
        self.config.acme_webroot = Some(directory.into());
        self
    }

    /// Writes an access log. Its [`proxies`](AccessLog::with_proxies) are trusted to tell us their client's address.
    pub fn access_log(mut self, log: AccessLog) -> Settings {
        self.config.access_log = Some(log);
        self
    }

    /// Serves the admin page.
    pub fn admin(mut self, admin: AdminPage) -> Settings {
        self.config.admin = Some(admin);
        self
    }

    /// Switches to a user and group once all files and addresses are open.
    pub fn account(mut self, account: Account) -> Settings {
        self.config.account = Some(account);
        self
    }

    /// Sets the receiver of notices. The default writes warnings to standard error. It will be called from auxiliary
    /// threads, but never from those that serve connections.
    pub fn on_notice(mut self, receive: impl Fn(&Notice) + Send + Sync + 'static) -> Settings {
        self.config.on_notice = NoticeHandler(Arc::new(receive));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::InheritedUdp;

    #[test]
    fn tls_and_http3_need_a_certificate() {
        let address = || Address::Every(0);
        for settings in [Settings::new().listen_tls(address()), Settings::new().listen_quic(address())] {
            let error = settings.clone().into_config(Routes::default()).unwrap_err();
            assert!(matches!(error, StartError::NoCertificate), "{error}");

            let settings = settings.self_signed_certificate(SelfSigned::Ecdsa);
            assert!(settings.into_config(Routes::default()).unwrap().has_tls());
        }
        assert!(Settings::new().listen(address()).into_config(Routes::default()).unwrap().tls.is_none());
    }

    #[test]
    fn endless_timeouts_are_a_century() {
        let settings = Settings::new().drain(Duration::MAX).timeouts(|timeouts| {
            timeouts.head = Duration::MAX;
            timeouts.handler = Duration::MAX;
        });
        let config = settings.into_config(Routes::default()).unwrap();
        let timeouts = config.timeouts.unwrap();
        assert_eq!([config.drain, timeouts.head, timeouts.handler], [DURATION_MAX; 3]);
        assert_eq!(timeouts.idle, Timeouts::default().idle);
    }

    #[test]
    fn http3_settings_apply_to_passed_sockets() {
        let settings = Settings::new().self_signed_certificate(SelfSigned::Ecdsa).http3_alternative(":443");
        let mut config = settings.into_config(Routes::default()).unwrap();
        assert!(config.served_http3().is_none());
        config.inheritance.udp = InheritedUdp::All(vec![3]);
        assert_eq!(config.served_http3().unwrap().alternative.as_deref(), Some(":443"));
    }
}
