//! The flags of `cannery serve DIR`.
//!
//! Never builds or serves.

use std::path::PathBuf;

use cannery_archiver::{Encoder, Levels, Options};
use cannery_server::Config;
use cannery_server::config::{
    AccessLog, Address, Content, Http3, Loading, LogFormat, LogTarget, NamedArchive, SelfSigned, Tls,
};
use clap::{Parser, value_parser};

use super::{examples, server};

/// gzip's level for a preview: it compresses nearly as well as the highest, in a tenth of the time.
const QUICK_GZIP_LEVEL: i32 = 6;

/// Compiles a folder into a temporary archive and serves it.
#[derive(Debug, Parser)]
#[command(
    name = "serve",
    version,
    args_override_self = true,
    after_help = examples(
        &["cannery serve public", "cannery serve public --bind :8080 --tls", "cannery serve --no-listing"],
        "If port 8080 is in use and no address is given, the next free port is used. The folder is compiled once: run the \
         command again to see changes. Clients revalidate every cached response (`Cache-Control: no-cache`), even if \
         `_headers` sets another policy; everything else is as in production. Each response with a status of 400 or more \
         is a line on standard error.",
    ),
)]
pub struct Serve {
    /// The folder to serve.
    #[arg(value_name = "DIR", default_value = ".")]
    pub folder: PathBuf,

    /// Listen here: `PORT`, `IP:PORT`, `[IPV6]:PORT`, `:PORT` for every address, or `unix:PATH`. Port 0 is
    /// any free port. Repeatable. If no address is given, it is 127.0.0.1:8080 or the next free port.
    #[arg(long, value_name = "ADDRESS")]
    bind: Vec<Address>,

    /// Serve over TLS, with a certificate created at startup. Browsers warn about it, because no authority signed it.
    #[arg(long)]
    tls: bool,

    /// Serve a listing for folders without an index page. This is the default.
    #[arg(long = "listing", overrides_with = "no_listing")]
    _listing: bool,

    /// Respond with 404 for folders without an index page, as in production.
    #[arg(long, overrides_with = "_listing")]
    no_listing: bool,

    /// The number of threads that serve. The default is the number of CPUs.
    #[arg(long, value_name = "N", value_parser = value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,

    /// Print only the address and errors.
    #[arg(long)]
    pub quiet: bool,
}

impl Serve {
    /// Returns `true` if the command line names addresses, so that no other port may be used instead.
    #[must_use]
    pub fn has_named_addresses(&self) -> bool {
        !self.bind.is_empty()
    }

    /// Returns options for a fast build of the folder into `archive`.
    #[must_use]
    pub fn options(&self, archive: PathBuf) -> Options {
        let mut levels = Levels::default();
        levels.set(Encoder::Gzip, QUICK_GZIP_LEVEL).expect("gzip has this level");

        let mut options = Options::new(self.folder.clone(), archive);
        options.encoders = [Encoder::Identity, Encoder::Gzip].into();
        options.levels = levels;
        options.preview = true;
        options.include_folder_listing = !self.no_listing;
        // A site that is being written may not have a page yet.
        options.allow_empty = true;
        options
    }

    /// Returns the configuration of a server for `archive`.
    #[must_use]
    pub fn config(&self, archive: PathBuf) -> Config {
        let mut listen = self.bind.clone();
        if listen.is_empty() {
            listen.push(server::DEFAULT_ADDRESS.parse().expect("the default address is valid"));
        }
        // There is no sandbox: the threads that compiled the folder are still there, and would be outside.
        let mut config = Config {
            listen,
            threads: server::thread_count(self.threads, None),
            keeps_redirects: false,
            ..Config::plain(Content::Archives {
                archives: vec![NamedArchive::new(None, archive)],
                loading: Loading::Automatic,
                // The archive is compiled once.
                watch: false,
            })
        };
        if self.tls {
            config.listen_tls = std::mem::take(&mut config.listen);
            let listen = internet_addresses(&config.listen_tls);
            config.http3 = (!listen.is_empty()).then(|| Http3 { listen, ..Http3::default() });
            config.tls =
                Some(Tls { certificates: Vec::new(), self_signed: Some(SelfSigned::Ecdsa), seed: None });
        }
        if !self.quiet {
            config.access_log =
                Some(AccessLog { target: LogTarget::Stderr, format: LogFormat::Failures, proxies: None });
        }
        config
    }
}

/// Returns the addresses that UDP can have: all except those of local sockets.
pub(crate) fn internet_addresses(addresses: &[Address]) -> Vec<Address> {
    addresses.iter().filter(|address| !matches!(address, Address::Local(_))).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn serve(line: &str) -> Serve {
        Serve::try_parse_from(["serve"].into_iter().chain(line.split_whitespace())).unwrap()
    }

    #[test]
    fn only_the_default_address_may_move() {
        assert!(!serve("site").has_named_addresses());
        assert!(serve("site --bind 127.0.0.1:8080").has_named_addresses());
    }

    #[test]
    fn the_build_is_fast() {
        let options = serve("site").options("a".into());
        assert_eq!(options.levels.of(Encoder::Gzip), QUICK_GZIP_LEVEL);
        assert!(!options.encoders.contains(&Encoder::Brotli));
        assert_eq!(options.sources, PathBuf::from("site"));
        assert!(options.preview && options.include_folder_listing);
        assert!(!serve("site --no-listing").options("a".into()).include_folder_listing);
    }

    #[test]
    fn tls_applies_to_every_address() {
        let config = serve("--tls --bind 1 --bind [::1]:2").config("a".into());
        assert_eq!((config.listen.len(), config.listen_tls.len()), (0, 2));
        assert!(config.tls.is_some());
    }
}
