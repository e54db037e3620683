//! The flags of `cannery serve DIR`.
//!
//! Never builds or serves.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use cannery_archiver::{Encoder, LinkException, Options};
use cannery_server::Config;
use cannery_server::config::{
    AccessLog, Address, Content, HostPattern, Loading, LogFormat, LogTarget, NamedArchive, SelfSigned, Tls,
};
use clap::{Parser, value_parser};

use super::building::CodingFlags;
use super::folder::FolderFlags;
use super::listen::{BindAddress, MissingPort, PortFlags};
use super::{examples, server};
use crate::output::Failure;

/// Serves a folder while you edit it.
///
/// The folder is compiled with the rules and codings of a deployed archive. Changes are served as soon as they are saved; while
/// a file is being written, its last version is served.
#[derive(Debug, Parser)]
#[command(
    name = "serve",
    version,
    args_override_self = true,
    after_help = examples(
        &[
            "cannery serve public",
            "cannery serve public --open",
            "cannery serve public --bind :8080 --tls",
            "cannery serve public --production --no-follow",
        ],
        "If port 8080 is in use and no address is given, the next free port is used. Clients revalidate every cached response \
         (`Cache-Control: no-cache`), even if `_headers` sets another policy; everything else is as in production. Each \
         response with a status of 400 or more is a line on standard error, and so is each change of the folder.",
    ),
)]
pub struct Serve {
    /// The folder to serve.
    #[arg(value_name = "DIR", default_value = ".")]
    pub folder: PathBuf,

    /// Listen here: `PORT`, `IP:PORT`, `[IPV6]:PORT`, `:PORT` for every address, or `unix:PATH`. Port 0 is
    /// any free port; without a port, such as `0.0.0.0`, it is 8080. Repeatable. If no address is given, it is
    /// 127.0.0.1:8080 or the next free port.
    #[arg(long, value_name = "ADDRESS", alias = "listen", value_parser = BindAddress::from_str)]
    bind: Vec<BindAddress>,

    #[command(flatten)]
    port: PortFlags,

    /// Respond to requests for this host too, such as `site.test` or `*.test`. IP addresses, `localhost`, the names below it and
    /// the hosts in `_hosts/` are always allowed. Repeatable.
    #[arg(long, value_name = "NAME", value_parser = server::parse_host)]
    allow_host: Vec<HostPattern>,

    /// Serve over TLS, with a certificate created at startup. Browsers warn about it, because no authority signed it.
    #[arg(long)]
    tls: bool,

    /// Serve a listing for folders without an index page. This is the default, except with `--production`.
    #[arg(long, overrides_with = "no_listing")]
    listing: bool,

    /// Respond with 404 for folders without an index page, as in production.
    #[arg(long, overrides_with = "listing")]
    no_listing: bool,

    #[command(flatten)]
    codings: CodingFlags,

    #[command(flatten)]
    compiling: FolderFlags,

    /// The number of threads that serve. The default is the number of CPUs.
    #[arg(long, value_name = "N", value_parser = value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,

    /// Serve exactly what an archive of the folder would, deployed with the same `--compress` and otherwise the default flags:
    /// the same cache policies, and no listings unless `--listing` is given.
    #[arg(long)]
    pub production: bool,

    /// Look for changes at this interval in milliseconds instead of waiting for events of the system. Without a number, as
    /// often as it takes 2 % of a processor. Network file systems are polled in any case.
    #[arg(long, value_name = "MS", num_args = 0..=1, require_equals = true, value_parser = value_parser!(u64).range(1..))]
    poll: Option<Option<u64>>,

    /// Compile the folder once, and do not follow its changes.
    #[arg(long, conflicts_with = "poll")]
    pub no_follow: bool,

    /// Let the link checker pass over these paths, such as `/api/*`, because a proxy or another program answers them. `*` stands
    /// for anything, and `:name` for one segment. Repeatable.
    #[arg(long, value_name = "PATTERN", value_parser = LinkException::parse)]
    check_links_except: Vec<LinkException>,

    /// Do not reload pages in the browser when the folder changes. No script is added to pages then.
    #[arg(long)]
    no_live_reload: bool,

    /// Open the site in the browser.
    #[arg(long)]
    pub open: bool,

    /// Print the addresses and each event as a line of JSON on standard output.
    #[arg(long)]
    pub json: bool,

    /// Print only the address and errors.
    #[arg(long, short)]
    pub quiet: bool,
}

impl Serve {
    /// Returns `true` if the command line names a port, so that no other one may be used instead.
    #[must_use]
    pub fn has_named_port(&self) -> bool {
        !self.bind.is_empty() || self.port.has_port()
    }

    /// Returns the addresses to listen at.
    ///
    /// # Errors
    /// Two flags contradict each other.
    pub fn addresses(&self) -> Result<Vec<Address>, Failure> {
        let port = default_address().port();
        let mut addresses = self.port.addresses(&self.bind, port, MissingPort::Default(port))?;
        if addresses.is_empty() {
            addresses.push(default_address().into());
        }
        Ok(addresses)
    }

    /// Returns `true` if pages in browsers are reloaded.
    #[must_use]
    pub fn reloads_browsers(&self) -> bool {
        !(self.production || self.no_follow || self.no_live_reload)
    }

    /// Returns the interval of polling: `None` if it wasn't requested, `Some(None)` if the default was.
    #[must_use]
    pub fn poll_interval(&self) -> Option<Option<Duration>> {
        self.poll.map(|milliseconds| milliseconds.map(Duration::from_millis))
    }

    /// Returns the options of the builds.
    #[must_use]
    pub fn options(&self) -> Options {
        let mut options = Options::new(self.folder.clone(), "");
        options.encoders = self.codings.encoders();
        self.compiling.apply(&mut options);
        options.check_links_except.clone_from(&self.check_links_except);
        if self.reloads_browsers() {
            // A script is added to pages as they are served.
            options.encoders.insert(Encoder::Identity);
        }
        options.preview = !self.production;
        options.include_folder_listing = if self.production { self.listing } else { !self.no_listing };
        // A site that is being written may not have a page yet.
        options.allow_empty = true;
        options
    }

    /// Returns the server configuration for `archive`, listening at these addresses.
    #[must_use]
    pub fn config(&self, archive: NamedArchive, listen: Vec<Address>) -> Config {
        // The sandbox can't be used here, because the threads that have compiled the folder are still running and would
        // be outside of it.
        let mut config = Config::plain(Content::Archives {
            archives: vec![archive],
            loading: Loading::Automatic,
            // We publish changes ourselves.
            watch: false,
        });
        config.listen = listen;
        config.threads = server::thread_count(self.threads, None);
        config.keeps_redirects = self.production;
        config.trusted_hosts = Some(self.allow_host.clone());

        if self.tls {
            let listen_tls = std::mem::take(&mut config.listen);
            config.tls = Tls::new(Vec::new(), Some(SelfSigned::Ecdsa));
            listen_with_tls(&mut config, listen_tls);
        }

        if !self.quiet {
            config.access_log = Some(AccessLog::new(LogTarget::Stderr, LogFormat::Failures));
        }
        config
    }
}

fn default_address() -> SocketAddr {
    server::DEFAULT_ADDRESS.parse().expect("the default address is valid")
}

/// Listens at these addresses, for TLS and for HTTP/3. UDP can have all addresses except those of local sockets.
pub(crate) fn listen_with_tls(config: &mut Config, addresses: Vec<Address>) {
    let Some(tls) = &mut config.tls else { return };
    if let Some(http3) = &mut tls.http3 {
        let is_local = |address: &&Address| matches!(address, Address::Local(_));
        http3.listen = addresses.iter().filter(|address| !is_local(address)).cloned().collect();
    }
    tls.listen = addresses;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn serve(line: &str) -> Serve {
        Serve::try_parse_from(["serve"].into_iter().chain(line.split_whitespace())).unwrap()
    }

    #[test]
    fn only_the_default_port_may_move() {
        assert!(!serve("site").has_named_port() && !serve("--host 0.0.0.0").has_named_port());
        assert!(serve("site --bind 127.0.0.1:8080").has_named_port() && serve("-p 8080").has_named_port());
    }

    #[test]
    fn address_without_a_port_has_the_default_one() {
        let flags = serve("--bind 0.0.0.0 --bind [::1] --bind ::1 --bind 81 --listen :82");
        let expected = ["0.0.0.0:8080", "[::1]:8080", "[::1]:8080", "81", ":82"];
        assert_eq!(flags.addresses().unwrap(), expected.map(|address| address.parse().unwrap()));
        assert!(Serve::try_parse_from(["serve", "--bind", "localhost"]).is_err());
    }

    #[test]
    fn production_is_without_the_defaults_of_development() {
        let options = serve("site").options();
        assert_eq!(options.sources, PathBuf::from("site"));
        assert!(options.preview && options.include_folder_listing);
        assert!(!serve("site --no-listing").options().include_folder_listing);

        let options = serve("site --production").options();
        assert!(!options.preview && !options.include_folder_listing);
        assert!(serve("--production --listing").options().include_folder_listing);
        assert!(serve("--production").config(archive(), Vec::new()).keeps_redirects);
    }

    #[test]
    fn polling_has_an_optional_interval() {
        assert_eq!(serve("site").poll_interval(), None);
        assert_eq!(serve("--poll site").poll_interval(), Some(None));
        assert_eq!(serve("--poll=700 site").poll_interval(), Some(Some(Duration::from_millis(700))));
        assert!(Serve::try_parse_from(["serve", "--poll=0"]).is_err());
    }

    fn archive() -> NamedArchive {
        NamedArchive::new(None, "a".into())
    }

    #[test]
    fn tls_applies_to_every_address() {
        let flags = serve("--tls --bind 1 --bind [::1]:2");
        let config = flags.config(archive(), flags.addresses().unwrap());
        assert_eq!((config.listen.len(), config.tls.unwrap().listen.len()), (0, 2));
    }
}
