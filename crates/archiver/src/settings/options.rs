//! Build options with their defaults, and the reasons for these.
//!
//! This is a plain value. It is not possible to represent levels that are out of range. The command line is
//! parsed elsewhere.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::codings::encoder::Encoder;
use crate::codings::levels::Levels;
use crate::properties::classify::MediaTypes;
use crate::rulefiles::pattern::{Pattern, PatternSyntax};
use crate::rulefiles::redirects::Dialect;
use crate::settings::error::Error;
use crate::tree::boundary::LinksOut;

/// Options of a build.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// The source folder.
    pub sources: PathBuf,
    /// Path of the archive. An existing archive is replaced as a whole or not at all.
    pub archive: PathBuf,
    /// The encoders. Default: identity, gzip and brotli. Every client should accept one of these, and nearly all of them
    /// accept brotli, which gives the smallest results.
    ///
    /// Without [`Encoder::Identity`], contents are only stored compressed, unless compression does not pay off.
    /// If both [`Encoder::Zopfli`] and [`Encoder::Gzip`] are enabled, Zopfli will be used, because they produce
    /// the same format.
    pub encoders: BTreeSet<Encoder>,
    /// Compression levels.
    pub levels: Levels,
    /// Format of the archive. Default: [`FormatChoice::Auto`].
    pub format: FormatChoice,
    /// Directory for keeping compressed contents between builds. Several builds may share it at the same time. Default: none,
    /// because a build should not leave files behind unless asked to.
    pub compress_cache: Option<PathBuf>,
    /// File for keeping digests of source files between builds. This allows us to skip hashing unchanged files. Default:
    /// none.
    pub sources_cache: Option<PathBuf>,
    /// Disables index pages, i.e. no file will answer `/folder/`. Default: off.
    pub exclude_index: bool,
    /// Disables names without suffix, i.e. `page.html` will not answer `/page`. Default: off.
    pub exclude_strip: bool,
    /// Disables redirects between `/folder` and `/folder/`, and from `/file/` to `/file`. Default: off.
    pub exclude_slash_redirects: bool,
    /// Disables the default `Cache-Control` of all responses. Default: off.
    pub exclude_cache: bool,
    /// Sets the same `Cache-Control` for all responses, except for error pages. The default depends on the kind of
    /// file.
    pub cache_control: Option<String>,
    /// Disables entity tags. Default: off, as clients would have to download what they already have.
    pub exclude_etag: bool,
    /// Which resources have a `Last-Modified` field. Default: none, because entity tags are more precise and file times may
    /// differ when the same folder is built on several machines.
    pub last_modified: LastModified,
    /// Serial of this release. It should increase with every release. Default: the serial of the newest archive in
    /// [`Options::previous`] plus one, or 1 if there is none.
    pub serial: Option<u64>,
    /// Date of this release in seconds since 1970-01-01 00:00:00 UTC. This is needed for the age of earlier releases. Default:
    /// none, because archives should not depend on a clock.
    pub released: Option<u64>,
    /// Archives of earlier releases, or directories containing them, from which fingerprinted files are carried forward.
    /// Default: none.
    pub previous: Vec<PathBuf>,
    /// Maximum number of earlier releases to carry. Default: 3. Pages of the release before last need two, and sometimes a
    /// deploy is followed by a fix right away.
    pub previous_releases: usize,
    /// Maximum number of days to carry a release after it was replaced. This only works if releases have dates.
    /// Default: no limit.
    pub previous_age_days: Option<u32>,
    /// Leaves out files that are not served under their own name such as `_redirects`. `extract` will not be able to
    /// restore the whole folder then. Default: off.
    pub exclude_file_listing: bool,
    /// Adds a listing page to each folder without an index page, and `_listing.json` to every folder. Default: off, as listings
    /// reveal names even if nothing links to them.
    pub include_folder_listing: bool,
    /// Builds a preview of a site that is being edited. Clients will have to revalidate every copy regardless of
    /// `_headers`, `Strict-Transport-Security` is not sent, and listings have times and do not replace fallback pages.
    /// Default: off.
    pub preview: bool,
    /// Warns about policies that would block the script which preview servers add to HTML pages. Default:
    /// off.
    pub page_script: bool,
    /// Additional names to leave out (or to include, with `!`), in gitignore syntax. Default: none.
    pub ignore: Vec<String>,
    /// Enables the built-in rules. They leave out e.g. hidden files and backups. Default: on.
    pub default_ignores: bool,
    /// Media types by suffix. Default: the built-in table.
    pub media_types: MediaTypes,
    /// Files that never change under the same name, in gitignore syntax relative to the source folder. Clients can keep them for a
    /// year. Default: none, but names that contain a digest of their content are recognized anyway.
    pub immutable: Vec<String>,
    /// Dialect of `_redirects`. Default: Cannery's, which is a superset of Netlify's.
    pub dialect: Dialect,
    /// How to report broken internal links. Default: count them.
    pub check_links: LinkCheck,
    /// Paths that should be ignored by the link checker, because something other than the archive answers them such as
    /// `/api/*`. Default: none.
    pub check_links_except: Vec<LinkException>,
    /// Treatment of symbolic links out of the source folder. Default: follow them, with a warning.
    pub links_out: LinksOut,
    /// Publishes sparse files. Default: off, because an archive would contain all the zeros, and most of these are not on the
    /// disk.
    pub allow_sparse: bool,
    /// Publishes folders without files, or without a page for `/`. Default: off, since this is usually the wrong
    /// folder.
    pub allow_empty: bool,
    /// Fails if there are warnings, leaving the old archive in place. Default: off.
    pub strict: bool,
    /// Number of threads for reading and compressing, or 0 for one per available CPU. This does not affect the archive.
    /// Default: 0.
    pub threads: usize,
}

impl Options {
    /// Returns the default options for compiling the folder `sources` into the file `archive`.
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

    /// Checks that the options are consistent.
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

    /// Returns the number of threads that [`Options::threads`] stands for on this machine.
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
    /// Each file has its time in the file system, so the archive depends on more than contents. Listings do not have a time,
    /// because the newest time in a folder stays the same when a file is removed.
    Files,
    /// All of them have this time, in seconds since 1970-01-01 00:00:00 UTC.
    At(u64),
}

/// How to report broken internal links.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LinkCheck {
    /// Do not look for broken links.
    Off,
    /// Print a single note with their number.
    #[default]
    Count,
    /// Print a warning with file and line for each of them.
    List,
}

/// A pattern for paths that the link checker should ignore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkException(Pattern);

impl LinkException {
    /// Parses a path in which `*` stands for anything and `:name` for a segment.
    ///
    /// # Errors
    ///
    /// Returns the reason when it is not a valid pattern.
    pub fn parse(text: &str) -> Result<LinkException, String> {
        if !text.starts_with('/') {
            return Err("a pattern begins with `/`, such as `/api/*`".to_owned());
        }
        let syntax = PatternSyntax { splat_anywhere: true, placeholder_anywhere: false };
        let (pattern, _) = Pattern::parse(text, syntax).map_err(|error| error.message)?;
        Ok(LinkException(pattern))
    }

    /// Returns `true` if the link checker should ignore this percent-decoded path.
    pub(crate) fn matches(&self, path: &[u8]) -> bool {
        self.0.matches(path)
    }
}

/// Format of an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FormatChoice {
    /// 32-bit up to 4 GiB (every CDB tool should be able to read this), and 64-bit beyond.
    #[default]
    Auto,
    /// 32-bit. Fails if the archive is too large.
    Cdb,
    /// 64-bit.
    Cdb64,
}
