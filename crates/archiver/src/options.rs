//! What a build can be told, with the defaults and the reasons for them.
//!
//! A plain value in which a level out of range cannot be written. Never parses a command line: whoever
//! does fills this in.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::classify::MediaTypes;
use crate::error::Error;
use crate::redirects::Dialect;

/// What to build, from what, and how.
#[derive(Debug, Clone)]
pub struct Options {
    /// The source folder.
    pub sources: PathBuf,
    /// Where the archive shall stand. An older one there is replaced, whole or not at all.
    pub archive: PathBuf,
    /// In which forms contents are stored. Default: as they are, gzip and brotli, since every client
    /// accepts one of the three and nearly all accept brotli, the smallest.
    ///
    /// Without [`Encoder::Identity`] a content is stored coded only, and as it is only where no coding
    /// pays. [`Encoder::Zopfli`] and [`Encoder::Gzip`] write the same format; with both, Zopfli does.
    pub encoders: BTreeSet<Encoder>,
    /// How hard each encoder tries.
    pub levels: Levels,
    /// The width of the container. Default: [`FormatChoice::Auto`].
    pub format: FormatChoice,
    /// A folder that keeps the results of compression between builds; several builds may share it at
    /// once. Default: none, for a build should leave nothing behind that was not asked for.
    pub compress_cache: Option<PathBuf>,
    /// A file that remembers the digests of source files between builds, so that an unchanged file is not
    /// read to be recognised. Default: none.
    pub sources_cache: Option<PathBuf>,
    /// No index pages: `/folder/` is answered by no file of the folder. Default: off.
    pub exclude_index: bool,
    /// No names without suffix: `/page` is not answered by `page.html`. Default: off.
    pub exclude_strip: bool,
    /// No redirects between `/folder` and `/folder/`, `/file/` and `/file`. Default: off.
    pub exclude_slash_redirects: bool,
    /// No `Cache-Control` of ours on any answer. Default: off.
    pub exclude_cache: bool,
    /// One `Cache-Control` value for every answer but error pages, in place of the policy by kind of file.
    /// Default: none.
    pub cache_control: Option<String>,
    /// No entity tags are sent. Default: off, for without them a client must load again what it has.
    pub exclude_etag: bool,
    /// Which resources say when they were last modified. Default: none, since an entity tag tells more, and
    /// the times of files differ between machines that build the same folder.
    pub last_modified: LastModified,
    /// Which release of the site this is: a number that grows. Default: one more than the newest of
    /// [`Options::previous`], or 1.
    pub serial: Option<u64>,
    /// When this release is published, in seconds since 1970-01-01 00:00:00 UTC: what the age of earlier ones
    /// is counted by. Default: none, for nothing in an archive comes from a clock.
    pub released: Option<u64>,
    /// Archives of earlier releases, whose fingerprinted assets are carried forward. Default: none.
    pub previous: Vec<PathBuf>,
    /// How many earlier releases are carried at most. Default: 3, since a page from the release before last
    /// needs two, and a deploy is now and then followed at once by one that mends it.
    pub previous_releases: usize,
    /// How many days a release is carried after it was replaced, where the releases state their dates.
    /// Default: no bound but their number.
    pub previous_age_days: Option<u32>,
    /// Leaves out the files that are not served under their own name, such as `_redirects`, with their
    /// names: `extract` then cannot give the whole folder back. Default: off.
    pub exclude_file_listing: bool,
    /// A page that lists the folder for each folder without an index page, and `_listing.json` for every
    /// folder. Default: off, for it tells names that no page links to.
    pub include_folder_listing: bool,
    /// The archive is for looking at while the site is edited: every copy is checked before each use, whatever
    /// `_headers` says, `Strict-Transport-Security` is not sent, and listings show times and stay out of the way
    /// of fallback pages. Default: off.
    pub preview: bool,
    /// More names to leave out, or with `!` to take in, in gitignore syntax. Default: none.
    pub ignore: Vec<String>,
    /// Whether the built-in rules leave names out, such as hidden files and backups. Default: on.
    pub default_ignores: bool,
    /// Which suffix means which media type. Default: the built-in table.
    pub media_types: MediaTypes,
    /// Files whose names never stand for other bytes, as globs relative to the source folder, in
    /// gitignore syntax: they may be kept for a year without asking. Default: none; names that carry a
    /// digest of their own content are recognised without being told.
    pub immutable: Vec<String>,
    /// The grammar of `_redirects`. Default: ours, which includes the common ones.
    pub dialect: Dialect,
    /// Whether internal links that lead nowhere are looked for. Default: they are counted.
    pub check_links: LinkCheck,
    /// Links that leave the source folder are meant, so that they are no warnings. They are followed either way.
    /// Default: off.
    pub follow_links: bool,
    /// A folder without files, or without a page for `/`, may be published. Default: off, for it is most often the wrong
    /// folder.
    pub allow_empty: bool,
    /// Warnings end the build before it publishes. Default: off.
    pub strict: bool,
    /// Threads that read and encode; 0 means one for each CPU that this process may use. The archive does
    /// not depend on it. Default: 0.
    pub threads: usize,
}

impl Options {
    /// The defaults, from the folder `sources` into the file `archive`.
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
            ignore: Vec::new(),
            default_ignores: true,
            media_types: MediaTypes::default(),
            immutable: Vec::new(),
            dialect: Dialect::Cannery,
            check_links: LinkCheck::Count,
            follow_links: false,
            allow_empty: false,
            strict: false,
            threads: 0,
        }
    }

    /// Checks that the options make sense together.
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

    /// How many threads [`Options::threads`] means here.
    #[must_use]
    pub fn thread_count(&self) -> usize {
        match self.threads {
            0 => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            threads => threads,
        }
    }
}

/// Which resources say when they were last modified (RFC 9110 §8.8.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LastModified {
    /// None do.
    #[default]
    None,
    /// Each says what the file system says of its file. The archive then depends on more than contents.
    /// Listings say nothing: the newest time in a folder does not tell of a file that was taken out of it.
    Files,
    /// All say the same: so many seconds after 1970-01-01 00:00:00 UTC.
    At(u64),
}

/// What is done about internal links that lead nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LinkCheck {
    /// Pages are not searched for links.
    Off,
    /// One note says how many there are.
    #[default]
    Count,
    /// Each is a warning with its file and line.
    List,
}

/// The width of the container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FormatChoice {
    /// 32-bit while everything fits into 4 GiB, as every CDB tool reads it; 64-bit beyond.
    #[default]
    Auto,
    /// 32-bit, or an error.
    Cdb,
    /// 64-bit, however small.
    Cdb64,
}

/// A way to store a content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Encoder {
    /// As it is.
    Identity,
    /// gzip by libdeflate.
    Gzip,
    /// gzip by Zopfli: some 4 % smaller, a hundred times as slow.
    Zopfli,
    /// brotli.
    Brotli,
    /// zstd.
    Zstd,
}

impl Encoder {
    /// Every encoder, in the order of their words.
    pub const ALL: [Encoder; 5] =
        [Encoder::Identity, Encoder::Gzip, Encoder::Zopfli, Encoder::Brotli, Encoder::Zstd];

    /// The word for it on a command line.
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

    /// The levels it knows: the lowest, the one that [`Levels::DEFAULT_WORD`] stands for, the highest.
    /// Zopfli's level is its number of iterations; more than 60 have not been seen to gain a byte.
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

/// How hard each encoder tries. A build is done once and its result sent many times, so the defaults are
/// the highest levels that cost no unreasonable memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Levels([i32; Encoder::ALL.len()]);

impl Default for Levels {
    fn default() -> Levels {
        Levels(Encoder::ALL.map(|encoder| encoder.range().1))
    }
}

impl Levels {
    /// The level that means "the default".
    pub const DEFAULT_WORD: i32 = -1;
    /// The level that means "as small as it gets".
    pub const EXTREME_WORD: i32 = -2;

    /// The level of `encoder`: within its range, never one of the two words.
    #[must_use]
    pub const fn of(&self, encoder: Encoder) -> i32 {
        self.0[encoder as usize]
    }

    /// Sets the level of `encoder`. [`Self::DEFAULT_WORD`] and [`Self::EXTREME_WORD`] are understood.
    ///
    /// # Errors
    /// The encoder has no such level. The old one stays.
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

/// A level that its encoder does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{encoder} has levels {lowest} to {highest} (or -1 for the default, -2 for the highest), not {got}")]
pub struct LevelError {
    /// The word for the encoder.
    pub encoder: &'static str,
    /// Its lowest level.
    pub lowest: i32,
    /// Its highest level.
    pub highest: i32,
    /// The level asked for.
    pub got: i32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_old_words_for_levels_are_understood() {
        let mut levels = Levels::default();
        levels.set(Encoder::Gzip, 3).unwrap();
        assert_eq!(levels.of(Encoder::Gzip), 3);
        levels.set(Encoder::Gzip, -1).unwrap();
        assert_eq!(levels.of(Encoder::Gzip), 12);
        levels.set(Encoder::Zstd, -2).unwrap();
        assert_eq!(levels.of(Encoder::Zstd), 22);
    }

    #[test]
    fn a_level_out_of_range_is_refused_and_changes_nothing() {
        let mut levels = Levels::default();
        let error = levels.set(Encoder::Brotli, 12).unwrap_err();
        assert_eq!((error.lowest, error.highest, error.got), (0, 11, 12));
        assert_eq!(levels, Levels::default());
        assert!(levels.set(Encoder::Zopfli, 0).is_err());
        assert!(levels.set(Encoder::Gzip, -3).is_err());
    }

    #[test]
    fn every_encoder_has_its_place_among_the_levels() {
        for (place, encoder) in Encoder::ALL.into_iter().enumerate() {
            assert_eq!(encoder as usize, place, "{}", encoder.name());
        }
    }
}
