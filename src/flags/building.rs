//! These flags decide which bytes an archive holds.
//!
//! Each struct is a section in the help and sets some options of a build. The build itself isn't run here.

use std::collections::BTreeSet;
use std::path::PathBuf;

use cannery_archiver::{Encoder, FormatChoice, LastModified, Levels, Options};
use cannery_base::date::parse_rfc3339;
use clap::Args;

use super::folder::{DialectFlag, ImmutableFlag, SelectionFlags};
use super::one_of;
use crate::output::Failure;

/// The codings of an archive.
#[derive(Debug, Args)]
pub(super) struct CodingFlags {
    /// The content codings to store, separated by commas: identity, gzip, zopfli, brotli or zstd; `none`, `gz` and `br`
    /// are short forms. Each client gets one that it accepts.
    #[arg(
        long,
        value_name = "CODINGS",
        value_delimiter = ',',
        default_value = "identity,gzip,brotli",
        value_parser = parse_encoder
    )]
    compress: Vec<Encoder>,
}

impl CodingFlags {
    pub(super) fn encoders(&self) -> BTreeSet<Encoder> {
        self.compress.iter().copied().collect()
    }
}

#[derive(Debug, Args)]
pub(super) struct StorageFlags {
    #[command(flatten)]
    codings: CodingFlags,

    /// One level for all encoders in use, or a list such as `brotli=11,gzip=12`. -1 is an encoder's default, -2 its
    /// highest level.
    #[arg(long, value_name = "LEVELS", allow_hyphen_values = true)]
    compress_level: Option<String>,

    /// The format of the archive: `cdb` with 32-bit offsets or `cdb64` with 64-bit ones. `auto` is `cdb` up to 4 GiB.
    #[arg(
        long,
        value_name = "FORMAT",
        default_value = "auto",
        value_parser = one_of([
            ("auto", FormatChoice::Auto),
            ("cdb", FormatChoice::Cdb),
            ("cdb64", FormatChoice::Cdb64),
        ])
    )]
    format: FormatChoice,

    /// The media type of files with this suffix, such as `ts=text/plain`. Repeatable.
    #[arg(long, value_name = "EXT=TYPE")]
    media_type: Vec<String>,
}

impl StorageFlags {
    /// # Errors
    /// An encoder doesn't have the level, or a media type is malformed.
    pub(super) fn apply(self, options: &mut Options) -> Result<(), Failure> {
        options.encoders = self.codings.encoders();
        if let Some(levels) = &self.compress_level {
            options.levels = parse_levels(levels, &options.encoders)?;
        }
        options.format = self.format;
        for assignment in &self.media_type {
            options.media_types.set(assignment).map_err(|error| Failure::usage(error.to_string()))?;
        }
        Ok(())
    }
}

#[derive(Debug, Args)]
pub(super) struct RoutingFlags {
    /// Do not serve `index.html` and other index pages at `/folder/`.
    #[arg(long)]
    exclude_index: bool,

    /// Do not serve `page.html` at `/page`.
    #[arg(long)]
    exclude_strip: bool,

    /// Do not redirect `/folder` to `/folder/`, nor `/file/` to `/file`.
    #[arg(long)]
    exclude_slash_redirects: bool,

    /// Generate a page that lists the files for each folder without an index page, and a `_listing.json` for every
    /// folder.
    #[arg(long)]
    include_folder_listing: bool,

    #[command(flatten)]
    dialect: DialectFlag,
}

impl RoutingFlags {
    pub(super) fn apply(self, options: &mut Options) {
        options.exclude_index = self.exclude_index;
        options.exclude_strip = self.exclude_strip;
        options.exclude_slash_redirects = self.exclude_slash_redirects;
        options.include_folder_listing = self.include_folder_listing;
        self.dialect.apply(options);
    }
}

#[derive(Debug, Args)]
pub(super) struct CachingFlags {
    /// Send this `Cache-Control` with every response except error pages. The default depends on the kind of file.
    #[arg(long, value_name = "VALUE", conflicts_with = "exclude_cache")]
    cache_control: Option<String>,

    /// Send no `Cache-Control`, except where `_headers` sets it.
    #[arg(long)]
    exclude_cache: bool,

    #[command(flatten)]
    immutable: ImmutableFlag,

    /// The value of `Last-Modified`: `none` sends none, `files` the modification time of each file, a date (as for
    /// `--released`) the same for all. Entity tags are more precise, and file times differ between machines.
    #[arg(long, value_name = "WHEN", default_value = "none", value_parser = parse_last_modified)]
    last_modified: LastModified,

    /// Send no entity tags.
    #[arg(long, overrides_with = "_include_etag")]
    exclude_etag: bool,

    /// Send entity tags. The default.
    #[arg(long = "include-etag")]
    _include_etag: bool,
}

impl CachingFlags {
    pub(super) fn apply(self, options: &mut Options) {
        options.cache_control = self.cache_control;
        options.exclude_cache = self.exclude_cache;
        self.immutable.apply(options);
        options.last_modified = self.last_modified;
        options.exclude_etag = self.exclude_etag;
    }
}

#[derive(Debug, Args)]
pub(super) struct ExclusionFlags {
    #[command(flatten)]
    selection: SelectionFlags,

    /// Do not store files that have no path of their own, such as `_redirects`. `cannery extract` then cannot restore the
    /// whole folder.
    #[arg(long, alias = "exclude-paths-index")]
    exclude_file_listing: bool,
}

impl ExclusionFlags {
    pub(super) fn apply(self, options: &mut Options) {
        self.selection.apply(options);
        options.exclude_file_listing = self.exclude_file_listing;
    }
}

#[derive(Debug, Args)]
pub(super) struct ReleaseFlags {
    /// The archive of the previous release, or a release directory with all earlier ones: files with a fingerprint in
    /// their names are carried forward, so pages that were loaded before a deploy still work. This includes files that
    /// an archive has itself carried forward, but none that `--ignore` matches. Example: `cannery-archiver public
    /// releases/43.cdb --previous releases`. A directory without archives is accepted; an archive that can't be read, or of
    /// another format version, is an error. Repeatable.
    #[arg(long, value_name = "PATH")]
    previous: Vec<PathBuf>,

    /// Carry forward files of at most N earlier releases.
    #[arg(long, value_name = "N", default_value_t = 3)]
    previous_releases: u16,

    /// Do not carry forward files of releases that were replaced more than this many days before `--released`.
    #[arg(long, value_name = "DAYS", requires = "released")]
    previous_age: Option<u32>,

    /// The number of this release, which `cannery releases` and the server show. The default is one more than the newest
    /// of `--previous`, or 1.
    #[arg(long, value_name = "N")]
    serial: Option<u64>,

    /// The date of this release: `2030-01-31`, `2030-01-31T12:00:00Z`, or `@` and seconds since 1970. By default, the
    /// archive has no date.
    #[arg(long, value_name = "DATE", value_parser = parse_date)]
    released: Option<u64>,
}

impl ReleaseFlags {
    pub(super) fn apply(self, options: &mut Options) {
        options.previous = self.previous;
        options.previous_releases = self.previous_releases.into();
        options.previous_age_days = self.previous_age;
        options.serial = self.serial;
        options.released = self.released;
    }
}

#[derive(Debug, Args)]
pub(super) struct CacheFlags {
    /// Keep compressed contents in this folder for the next build. Several builds may share it at the same time. Contents
    /// from it are decoded and compared with the source, so a damaged cache cannot damage an archive.
    #[arg(long, value_name = "DIR")]
    compress_cache: Option<PathBuf>,

    /// Keep the digests and links of source files in this file, so that the next build does not read unchanged ones. The digests are
    /// trusted, so the file is not used if other users can write to it.
    #[arg(long, value_name = "FILE")]
    sources_cache: Option<PathBuf>,
}

impl CacheFlags {
    pub(super) fn apply(self, options: &mut Options) {
        options.compress_cache = self.compress_cache;
        options.sources_cache = self.sources_cache;
    }
}

/// Parses an encoder by name, by content coding, or by kawipiko's name. The empty string is `identity`.
fn parse_encoder(text: &str) -> Result<Encoder, String> {
    match text.trim() {
        "" | "none" => Ok(Encoder::Identity),
        "gz" => Ok(Encoder::Gzip),
        word => Encoder::ALL
            .into_iter()
            .find(|encoder| [encoder.name(), encoder.coding().name()].contains(&word))
            .ok_or_else(|| {
                let words = Encoder::ALL.map(Encoder::name).join(", ");
                format!("possible values: {words}; `br`, `gz` and `none` mean brotli, gzip and identity")
            }),
    }
}

/// Parses `9`, or `brotli=11,gzip=12`. A single level applies to each encoder in `used`, and must be valid for all of
/// them.
///
/// # Errors
/// The text has another form, or an encoder doesn't have the level.
fn parse_levels(text: &str, used: &BTreeSet<Encoder>) -> Result<Levels, Failure> {
    let mut levels = Levels::default();
    if let Ok(level) = text.trim().parse() {
        for encoder in used.iter().filter(|encoder| **encoder != Encoder::Identity) {
            levels.set(*encoder, level).map_err(|error| wrong_level(&error.to_string()))?;
        }
        return Ok(levels);
    }
    for assignment in text.split(',') {
        let (name, level) = assignment.split_once('=').unwrap_or_default();
        let encoder = Encoder::ALL.into_iter().find(|encoder| encoder.name() == name.trim());
        let (Some(encoder), Ok(level)) = (encoder, level.trim().parse()) else {
            return Err(wrong_level(&format!("`{assignment}` is not ENCODER=LEVEL")));
        };
        levels.set(encoder, level).map_err(|error| wrong_level(&error.to_string()))?;
    }
    Ok(levels)
}

fn wrong_level(message: &str) -> Failure {
    Failure::usage(format!("`--compress-level`: {message}"))
        .hint("write one level that all encoders in use have, or a list such as `brotli=11,gzip=12`")
}

fn parse_last_modified(text: &str) -> Result<LastModified, String> {
    match text {
        "none" => Ok(LastModified::None),
        "files" => Ok(LastModified::Files),
        text => {
            parse_date(text).map(LastModified::At).map_err(|error| format!("`none`, `files`, or {error}"))
        }
    }
}

/// Turns a date into seconds since 1970.
fn parse_date(text: &str) -> Result<u64, String> {
    let seconds = match text.strip_prefix('@') {
        Some(seconds) => seconds.parse().ok(),
        None => parse_rfc3339(text.as_bytes()),
    };
    seconds.ok_or_else(|| "a date like `2030-01-31`, `2030-01-31T12:00:00Z` or `@1896091200`".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_level_applies_to_every_encoder_in_use() {
        let levels = parse_levels("12", &[Encoder::Identity, Encoder::Gzip, Encoder::Zstd].into()).unwrap();
        assert_eq!((levels.of(Encoder::Gzip), levels.of(Encoder::Zstd)), (12, 12));
        for level in ["12", "15"] {
            assert!(
                parse_levels(level, &[Encoder::Gzip, Encoder::Brotli].into()).is_err(),
                "brotli has no {level}"
            );
        }
    }

    #[test]
    fn a_list_sets_the_level_of_each_encoder() {
        let levels = parse_levels("brotli=5, gzip=-2", &Encoder::ALL.into()).unwrap();
        assert_eq!((levels.of(Encoder::Brotli), levels.of(Encoder::Gzip)), (5, 12));
    }

    #[test]
    fn wrong_levels_are_refused() {
        for text in ["", "gzip", "gzip=", "gzip=99", "lzma=3", "gzip=1,", "99", "nine"] {
            assert!(parse_levels(text, &[Encoder::Gzip].into()).is_err(), "{text}");
        }
    }

    #[test]
    fn dates_are_days_instants_or_seconds() {
        let read: Vec<_> = ["2030-01-31", "2030-01-31T12:00:00Z", "@1896091200"].map(parse_date).into();
        assert_eq!(read, [Ok(1_896_048_000), Ok(1_896_091_200), Ok(1_896_091_200)]);
        for text in ["", "@", "1896091200", "31.1.2030", "@-1"] {
            assert!(parse_date(text).is_err(), "{text}");
        }
        assert_eq!(parse_last_modified("files"), Ok(LastModified::Files));
        assert_eq!(parse_last_modified("@7"), Ok(LastModified::At(7)));
        assert!(parse_last_modified("yesterday").is_err());
    }
}
