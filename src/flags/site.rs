//! The flags of `cannery serve DIR`.
//!
//! Never builds or serves.

use std::path::PathBuf;

use cannery_archiver::{Encoder, Levels, Options};
use cannery_server::Config;
use cannery_server::config::{AccessLog, LogFormat, LogTarget, SelfSigned, Tls};
use clap::{Arg, ArgMatches, Command, value_parser};

use super::{examples, server, switch};
use crate::output::Failure;

/// gzip's level for a site that is looked at once: most of what the highest gains, in a tenth of the time.
const QUICK_GZIP_LEVEL: i32 = 6;

/// What `cannery serve` was told.
#[derive(Debug)]
pub struct Serve {
    /// The folder to serve.
    pub folder: PathBuf,
    /// Whether the addresses were named, so that no other may be taken in their place.
    pub addresses_named: bool,
    /// Nothing but the address and errors.
    pub quiet: bool,
    /// Whether folders without an index page are listed.
    pub listing: bool,
    tls: bool,
    matches: ArgMatches,
}

/// The command.
#[must_use]
pub fn command() -> Command {
    super::command("serve", "Compiles a folder into a temporary archive and serves it.")
        .arg(
            Arg::new("folder")
                .value_name("DIR")
                .default_value(".")
                .value_parser(value_parser!(PathBuf))
                .help("The folder to serve."),
        )
        .args([
            server::bind().default_value(server::DEFAULT_ADDRESS).help(
                "Listen here: `PORT`, `IP:PORT`, `[IPV6]:PORT`, `:PORT` for every IPv4 address, or `unix:PATH`. Port 0 is \
                 any free port. Repeatable.",
            ),
            switch(
                "tls",
                "Serve over TLS, with a certificate made at the start. Browsers warn about it, because no authority signed it.",
            ),
            switch("listing", "List folders that have no index page. The default.").overrides_with("no-listing"),
            switch("no-listing", "Answer folders that have no index page as production does: with 404.")
                .overrides_with("listing"),
            server::serving_threads().help("How many threads serve. Without it, one for each CPU."),
            switch("quiet", "Print nothing but the address and errors."),
        ])
        .after_help(examples(
            &["cannery serve public", "cannery serve public --bind :8080 --tls", "cannery serve --no-listing"],
            "If port 8080 is taken and no address was given, the next free port is used. The folder is compiled once: run the \
             command again to see changes. Clients check every copy before they use it again (`Cache-Control: no-cache`), \
             whatever `_headers` says; all else is as in production. Each response with a status of 400 or more is a line \
             on standard error.",
        ))
}

/// What the command line asks for.
///
/// # Errors
/// A value is missing.
pub fn from_matches(matches: &ArgMatches) -> Result<Serve, Failure> {
    Ok(Serve {
        folder: super::required(matches, "folder")?,
        addresses_named: matches.value_source("bind") == Some(clap::parser::ValueSource::CommandLine),
        quiet: matches.get_flag("quiet"),
        listing: !matches.get_flag("no-listing"),
        tls: matches.get_flag("tls"),
        matches: matches.clone(),
    })
}

impl Serve {
    /// A build of the folder into `archive` that is done soon.
    ///
    /// # Errors
    /// Never in practice: the levels are constants.
    pub fn options(&self, archive: PathBuf) -> Result<Options, Failure> {
        let mut options = Options::new(self.folder.clone(), archive);
        options.encoders = [Encoder::Identity, Encoder::Gzip].into();
        let mut levels = Levels::default();
        levels.set(Encoder::Gzip, QUICK_GZIP_LEVEL).map_err(|error| Failure::failed(error.to_string()))?;
        options.levels = levels;
        options.preview = true;
        options.include_folder_listing = self.listing;
        // A folder that is being worked on may well have no page yet.
        options.allow_empty = true;
        Ok(options)
    }

    /// How to serve `archive`.
    #[must_use]
    pub fn config(&self, archive: PathBuf) -> Config {
        let mut config = server::config_of(&self.matches, archive);
        if self.tls {
            config.listen_tls = std::mem::take(&mut config.listen);
            config.tls =
                Some(Tls { certificates: Vec::new(), self_signed: Some(SelfSigned::Ecdsa), seed: None });
        }
        if !self.quiet {
            config.access_log =
                Some(AccessLog { target: LogTarget::Stderr, format: LogFormat::Failures, proxies: None });
        }
        config.keeps_redirects = false;
        config
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn serve(line: &str) -> Serve {
        let words = ["serve"].into_iter().chain(line.split_whitespace());
        from_matches(&command().try_get_matches_from(words).unwrap()).unwrap()
    }

    #[test]
    fn the_default_address_may_move_and_a_named_one_may_not() {
        assert!(!serve("site").addresses_named);
        assert!(serve("site --bind 127.0.0.1:8080").addresses_named);
    }

    #[test]
    fn the_build_is_a_quick_one() {
        let options = serve("site").options("a".into()).unwrap();
        assert_eq!(options.levels.of(Encoder::Gzip), QUICK_GZIP_LEVEL);
        assert!(!options.encoders.contains(&Encoder::Brotli));
        assert_eq!(options.sources, PathBuf::from("site"));
        assert!(options.preview && options.include_folder_listing);
        assert!(!serve("site --no-listing").options("a".into()).unwrap().include_folder_listing);
    }

    #[test]
    fn tls_takes_every_address() {
        let config = serve("--tls --bind 1 --bind [::1]:2").config("a".into());
        assert_eq!((config.listen.len(), config.listen_tls.len()), (0, 2));
        assert!(config.tls.is_some());
    }
}
