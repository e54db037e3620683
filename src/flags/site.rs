//! The flags of `cannery serve DIR`: a folder in, answers out.
//!
//! Never builds or serves.

use std::path::PathBuf;

use cannery_archiver::{Encoder, Levels, Options};
use cannery_server::Config;
use clap::{Arg, ArgMatches, Command, value_parser};

use super::{server, switch};
use crate::say::Failure;

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
                "Listen here: `IP:PORT`, `[IPV6]:PORT` or `unix:PATH`. Port 0 is any free port. Repeatable.",
            ),
            server::serving_threads().help("How many threads serve. Without it, one for each CPU."),
            switch("quiet", "Print nothing but the address and errors."),
        ])
        .after_help("If port 8080 is taken and no address was given, the next free port is used. The folder is compiled once: run the \
             command again to see changes.")
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
        Ok(options)
    }

    /// How to serve `archive`.
    #[must_use]
    pub fn config(&self, archive: PathBuf) -> Config {
        server::config_of(&self.matches, archive)
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
    }
}
