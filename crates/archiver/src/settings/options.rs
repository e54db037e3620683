//! Options of a build, with their defaults and the reasons for them.
//!
//! A plain value; a level out of range can't be represented. The command line is parsed elsewhere.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::properties::classify::MediaTypes;
use crate::rulefiles::pattern::{Pattern, PatternSyntax};
use crate::rulefiles::redirects::Dialect;
use crate::settings::error::Error;
use crate::tree::boundary::LinksOut;

/// The options of a build.
#[derive(Debug, Clone)]
pub struct Options {
    /// The source folder.
    pub sources: PathBuf,
    /// Path of the archive. An existing archive is replaced as a whole or not at all.
    pub archive: PathBuf,
    /// The encoders. Default: identity, gzip and brotli, because every client accepts one of the three, and nearly all
    /// accept brotli, the smallest.
    ///
    /// Without [`Encoder::Identity`], a content is stored only compressed, or uncompressed if compression doesn't pay off.
    /// [`Encoder::Zopfli`] and [`Encoder::Gzip`] write the same format; if both are given, we use Zopfli.
    pub encoders: BTreeSet<Encoder>,
    /// Compression levels.
    pub levels: Levels,
    /// The archive's format. Default: [`FormatChoice::Auto`].
    pub format: FormatChoice,
    /// Directory that keeps compressed contents between builds. Several builds may share it at the same time. Default:
    /// none, because a build should leave no files that weren't requested.
    pub compress_cache: Option<PathBuf>,
    /// File that keeps digests of source files between builds, so that a build doesn't hash unchanged files. Default: none.
    pub sources_cache: Option<PathBuf>,
    /// No index pages: no file of the folder answers `/folder/`. Default: off.
    pub exclude_index: bool,
    /// No names without suffix: `page.html` doesn't answer `/page`. Default: off.
    pub exclude_strip: bool,
    /// No redirects between `/folder` and `/folder/`, or from `/file/` to `/file`. Default: off.
    pub exclude_slash_redirects: bool,
    /// No default `Cache-Control` on any response. Default: off.
    pub exclude_cache: bool,
    /// One `Cache-Control` value for every response except error pages, instead of the policy by kind of file. Default:
    /// none.
    pub cache_control: Option<String>,
    /// No entity tags. Default: off, because a client without them must download again what it has.
    pub exclude_etag: bool,
    /// Which resources have a `Last-Modified` field. Default: none, because entity tags are more exact, and file times
    /// differ between machines that build the same folder.
    pub last_modified: LastModified,
    /// The serial of this release, which increases from release to release. Default: one more than the newest of
    /// [`Options::previous`], or 1.
    pub serial: Option<u64>,
    /// Date of this release in seconds since 1970-01-01 00:00:00 UTC. The age of earlier releases is relative to it.
    /// Default: none, because an archive doesn't depend on a clock.
    pub released: Option<u64>,
    /// Archives of earlier releases, or directories of them, to carry fingerprinted files forward from. Default: none.
    pub previous: Vec<PathBuf>,
    /// Maximum number of earlier releases to carry. Default: 3, because a page of the release before last needs two, and a
    /// deploy is sometimes followed by a fix right away.
    pub previous_releases: usize,
    /// How many days a release is carried after it was replaced, if the releases have dates. Default: no limit.
    pub previous_age_days: Option<u32>,
    /// Leaves out files that aren't served under their own name, such as `_redirects`. `extract` then can't restore the
    /// whole folder. Default: off.
    pub exclude_file_listing: bool,
    /// Adds a listing page to each folder without an index page, and `_listing.json` to every folder. Default: off, because
    /// listings reveal names that no page links to.
    pub include_folder_listing: bool,
    /// The archive is a preview of a site that is being edited: clients revalidate every copy regardless of `_headers`,
    /// `Strict-Transport-Security` isn't sent, and listings have times and don't replace fallback pages. Default: off.
    pub preview: bool,
    /// Warns of policies that block the script which the server of a preview adds to HTML pages. Default: off.
    pub page_script: bool,
    /// Additional names to leave out, or with `!` to include, in gitignore syntax. Default: none.
    pub ignore: Vec<String>,
    /// Applies the built-in rules, which leave out hidden files, backups and the like. Default: on.
    pub default_ignores: bool,
    /// Media types by suffix. Default: the built-in table.
    pub media_types: MediaTypes,
    /// Files that never change under the same name, in gitignore syntax relative to the source folder. Clients
    /// may keep them for a year. Default: none; names that contain a digest of their content are recognized anyway.
    pub immutable: Vec<String>,
    /// Dialect of `_redirects`. Default: Cannery's, a superset of Netlify's.
    pub dialect: Dialect,
    /// Reporting of broken internal links. Default: count them.
    pub check_links: LinkCheck,
    /// Paths that the link checker passes over, such as `/api/*`: something else than the archive answers them. Default: none.
    pub check_links_except: Vec<LinkException>,
    /// Symbolic links out of the source folder. Default: they are followed, with a warning.
    pub links_out: LinksOut,
    /// Publishes sparse files, most of which aren't on the disk. Default: off, because an archive would contain all their zeros.
    pub allow_sparse: bool,
    /// Publishes a folder without files, or without a page for `/`. Default: off, because it is most often the wrong
    /// folder.
    pub allow_empty: bool,
    /// Turns warnings into an error, so that the old archive remains. Default: off.
    pub strict: bool,
    /// Number of threads that read and compress; 0 means one per available CPU. The archive doesn't depend on it. Default:
    /// 0.
    pub threads: usize,
}

impl Options {
    /// Creates the default options, from the folder `sources` to the file `archive`.
    #[must_use]
    pub fn new(sources: impl Into<PathBuf>, archive: impl Into<PathBuf>) -> Options {
        Options {
            sources: sources.into(),
            archive: archive.into(),
            encoders: BTreeSet::from([Encoder::Identity, Encoder::Gzip, Encoder::Brotli]),
            levels: Levels::default(),
            format: FormatChoice::Auto,
            compress_cache: None,
            sources_cache: None,
            exclude_index: false,
            exclude_strip: false,
            exclude_slash_redirects: false,
            exclude_cache: false,
            cache_control: None,
            exclude_etag: false,
            last_modified: LastModified::None,
            serial: None,
            released: None,
            previous: Vec::new(),
            previous_releases: 3,
            previous_age_days: None,
            exclude_file_listing: false,
            include_folder_listing: false,
            preview: false,
            page_script: false,
            ignore: Vec::new(),
            default_ignores: true,
            media_types: MediaTypes::default(),
            immutable: Vec::new(),
            dialect: Dialect::Cannery,
            check_links: LinkCheck::Count,
            check_links_except: Vec::new(),
            links_out: LinksOut::Reported,
            allow_sparse: false,
            allow_empty: false,
            strict: false,
            threads: 0,
        }
    }

    /// Checks that the options fit together.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.encoders.is_empty() {
            return Err(Error::NoEncoder);
        }
        if let Some(value) = &self.cache_control
            && !value.bytes().all(|byte| matches!(byte, b'\t' | b' '..=b'~' | 0x80..))
        {
            return Err(Error::CacheControl { value: value.clone() });
        }
        Ok(())
    }

    /// Returns the number of threads that [`Options::threads`] means on this machine.
    #[must_use]
    pub fn thread_count(&self) -> usize {
        match self.threads {
            0 => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            threads => threads,
        }
    }
}

/// Which resources have a `Last-Modified` field (RFC 9110 §8.8.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LastModified {
    /// None.
    #[default]
    None,
    /// Each file, with the time from the file system. The archive then depends on more than contents. Listings have none:
    /// the newest time in a folder doesn't reflect that a file was removed.
    Files,
    /// All, with the same time in seconds since 1970-01-01 00:00:00 UTC.
    At(u64),
}

/// Reporting of broken internal links.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LinkCheck {
    /// Don't look for them.
    Off,
    /// Print one note with their number.
    #[default]
    Count,
    /// Print a warning with file and line for each.
    List,
}

/// A pattern of paths that the link checker passes over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkException(Pattern);

impl LinkException {
    /// Parses a path in which `*` stands for anything, and `:name` for one segment.
    ///
    /// # Errors
    /// Returns the reason if it isn't a pattern.
    pub fn parse(text: &str) -> Result<LinkException, String> {
        if !text.starts_with('/') {
            return Err("a pattern begins with `/`, such as `/api/*`".to_owned());
        }
        let syntax = PatternSyntax { splat_anywhere: true, placeholder_anywhere: false };
        let (pattern, _) = Pattern::parse(text, syntax).map_err(|error| error.message)?;
        Ok(LinkException(pattern))
    }

    /// Returns `true` if the link checker passes over this percent-decoded path.
    pub(crate) fn matches(&self, path: &[u8]) -> bool {
        self.0.matches(path)
    }
}

/// The archive's format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FormatChoice {
    /// 32-bit up to 4 GiB, which every CDB tool reads; 64-bit beyond.
    #[default]
    Auto,
    /// 32-bit, or an error if the archive is too large.
    Cdb,
    /// 64-bit.
    Cdb64,
}

/// An encoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Encoder {
    /// No compression.
    Identity,
    /// gzip by libdeflate.
    Gzip,
    /// gzip by Zopfli: about 4 % smaller, and a hundred times slower.
    Zopfli,
    /// Brotli.
    Brotli,
    /// Zstandard.
    Zstd,
}

impl Encoder {
    /// All encoders, in declaration order.
    pub const ALL: [Encoder; 5] =
        [Encoder::Identity, Encoder::Gzip, Encoder::Zopfli, Encoder::Brotli, Encoder::Zstd];

    /// Returns the name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Encoder::Identity => "identity",
            Encoder::Gzip => "gzip",
            Encoder::Zopfli => "zopfli",
            Encoder::Brotli => "brotli",
            Encoder::Zstd => "zstd",
        }
    }

    /// Returns the lowest level, the default one, and the highest. Zopfli's level is its number of iterations; more than 60
    /// haven't gained a byte in our tests.
    const fn range(self) -> (i32, i32, i32) {
        match self {
            Encoder::Identity => (0, 0, 0),
            Encoder::Gzip => (0, 12, 12),
            Encoder::Zopfli => (1, 15, 60),
            Encoder::Brotli => (0, 11, 11),
            Encoder::Zstd => (1, 19, 22),
        }
    }
}

/// The level of each encoder. A build runs once and its output is sent many times, so the defaults are the highest levels
/// that need a reasonable amount of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Levels([i32; Encoder::ALL.len()]);

impl Default for Levels {
    fn default() -> Levels {
        Levels(Encoder::ALL.map(|encoder| encoder.range().1))
    }
}

impl Levels {
    /// Selects the default level.
    pub const DEFAULT_WORD: i32 = -1;
    /// Selects the highest level.
    pub const EXTREME_WORD: i32 = -2;

    /// Returns the level of `encoder`, which is within its range.
    #[must_use]
    pub const fn of(&self, encoder: Encoder) -> i32 {
        self.0[encoder as usize]
    }

    /// Sets the level of `encoder`, which may be [`Self::DEFAULT_WORD`] or [`Self::EXTREME_WORD`].
    ///
    /// # Errors
    /// Returns an error if the encoder has no such level, and keeps the old one.
    pub fn set(&mut self, encoder: Encoder, level: i32) -> Result<(), LevelError> {
        let (lowest, default, highest) = encoder.range();
        self.0[encoder as usize] = match level {
            Levels::DEFAULT_WORD => default,
            Levels::EXTREME_WORD => highest,
            level if encoder == Encoder::Identity || (lowest..=highest).contains(&level) => level,
            got => return Err(LevelError { encoder: encoder.name(), lowest, highest, got }),
        };
        Ok(())
    }
}

/// A level that its encoder doesn't have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{encoder} has levels {lowest} to {highest} (or -1 for the default, -2 for the highest), not {got}")]
pub struct LevelError {
    /// Name of the encoder.
    pub encoder: &'static str,
    /// Its lowest level.
    pub lowest: i32,
    /// Its highest level.
    pub highest: i32,
    /// The requested level.
    pub got: i32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_levels_are_default_and_highest() {
        let mut levels = Levels::default();
        levels.set(Encoder::Gzip, 3).unwrap();
        assert_eq!(levels.of(Encoder::Gzip), 3);
        levels.set(Encoder::Gzip, -1).unwrap();
        assert_eq!(levels.of(Encoder::Gzip), 12);
        levels.set(Encoder::Zstd, -2).unwrap();
        assert_eq!(levels.of(Encoder::Zstd), 22);
    }

    #[test]
    fn level_out_of_range_is_rejected() {
        let mut levels = Levels::default();
        let error = levels.set(Encoder::Brotli, 12).unwrap_err();
        assert_eq!((error.lowest, error.highest, error.got), (0, 11, 12));
        assert_eq!(levels, Levels::default());
        assert!(levels.set(Encoder::Zopfli, 0).is_err());
        assert!(levels.set(Encoder::Gzip, -3).is_err());
    }

    #[test]
    fn encoders_index_their_levels() {
        for (place, encoder) in Encoder::ALL.into_iter().enumerate() {
            assert_eq!(encoder as usize, place, "{}", encoder.name());
        }
    }
}
