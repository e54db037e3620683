//! The flags that decide which bytes an archive holds, and what they mean for a build.
//!
//! Each section of the help is one function, so that the help reads as the build runs. Never builds.

use std::collections::BTreeSet;
use std::path::PathBuf;

use cannery_archiver::redirects::Dialect;
use cannery_archiver::{Encoder, FormatChoice, LastModified, Levels, Options};
use cannery_base::date::parse_rfc3339;
use clap::{Arg, ArgAction, ArgMatches, value_parser};

use super::{all, path, required, switch, value, words};
use crate::output::Failure;

/// All flags of a build but those for input, output and what is said.
pub(super) fn arguments() -> Vec<Arg> {
    let sections = [
        ("How contents are stored", storing()),
        ("What answers a path", answering()),
        ("How long clients keep it", caching()),
        ("What is left out", leaving_out()),
        ("Earlier releases", carrying()),
        ("Building again", rebuilding()),
    ];
    let under = |(heading, arguments): (&'static str, Vec<Arg>)| {
        arguments.into_iter().map(move |argument| argument.help_heading(heading))
    };
    sections.into_iter().flat_map(under).collect()
}

fn storing() -> Vec<Arg> {
    vec![
        value("compress", "CODINGS", "The codings in which contents are stored, separated by commas: identity, gzip, zopfli, brotli, zstd, or `none`, \
                 `gz` and `br` for short. Each client gets one that it accepts.")
            .value_delimiter(',')
            .action(ArgAction::Append)
            .value_parser(read_encoder)
            .default_value("identity,gzip,brotli"),
        value(
            "compress-level",
            "LEVELS",
            "One level for all encoders in use, or a list such as `brotli=11,gzip=12`. -1 is an encoder's default, -2 its \
             highest level.",
        )
        .allow_hyphen_values(true),
        value(
            "format",
            "FORMAT",
            "The archive's format: `cdb` with 32-bit positions or `cdb64` with 64-bit ones. `auto` is `cdb` up to 4 GiB.",
        )
        .value_parser(words(["auto", "cdb", "cdb64"]))
        .default_value("auto"),
        value(
            "media-type",
            "EXT=TYPE",
            "The media type of files with this suffix, such as `ts=text/plain`. Repeatable.",
        )
        .action(ArgAction::Append),
    ]
}

fn answering() -> Vec<Arg> {
    vec![
        switch("exclude-index", "Do not answer `/folder/` with the folder's `index.html` or its like."),
        switch("exclude-strip", "Do not answer `/page` with `page.html`."),
        switch(
            "exclude-slash-redirects",
            "Do not redirect `/folder` to `/folder/`, and `/file/` to `/file`.",
        ),
        switch(
            "include-folder-listing",
            "Make a page that lists the files for each folder without an index page, and a `_listing.json` for every \
             folder.",
        ),
        value("redirects-dialect", "DIALECT", "Whose syntax `_redirects` files are written in.")
            .value_parser(words(["cannery", "netlify", "cloudflare"]))
            .default_value("cannery"),
    ]
}

fn caching() -> Vec<Arg> {
    vec![
        value(
            "cache-control",
            "VALUE",
            "Send this `Cache-Control` with every answer but error pages, in place of the policy by kind of file.",
        )
        .conflicts_with("exclude-cache"),
        switch("exclude-cache", "Send no `Cache-Control` but what `_headers` sets."),
        value(
            "immutable",
            "GLOB",
            "Let clients keep these files for a year: files whose content never changes under the same name, in gitignore \
             syntax, such as `/assets/` for all in that folder. Names that contain a digest of their content, or that are \
             known to be made by a build tool, are found without. Repeatable.",
        )
        .action(ArgAction::Append),
        value(
            "last-modified",
            "WHEN",
            "What `Last-Modified` says: `none` sends none, `files` the time of each file, a date (as for `--released`) \
             the same for all. Entity tags are more exact, and file times differ between machines.",
        )
        .value_parser(read_last_modified)
        .default_value("none"),
        switch("exclude-etag", "Send no entity tags.").overrides_with("include-etag"),
        switch("include-etag", "Send entity tags. The default."),
    ]
}

fn leaving_out() -> Vec<Arg> {
    vec![
        value(
            "ignore",
            "PATTERN",
            "Leave out files of these names too, in gitignore syntax; `!PATTERN` takes them in again. Repeatable.",
        )
        .action(ArgAction::Append)
        .allow_hyphen_values(true),
        switch(
            "no-default-ignores",
            "Take in what is left out otherwise: hidden files, backups, logs, locks and temporary files.",
        ),
        switch(
            "follow-links",
            "Follow symbolic links out of the site folder without a warning.",
        ),
        switch(
            "exclude-file-listing",
            "Do not store files that answer no path of their own, such as `_redirects`. `cannery extract` then cannot \
             restore the whole folder.",
        )
        .alias("exclude-paths-index"),
    ]
}

fn carrying() -> Vec<Arg> {
    vec![
        path(
            "previous",
            "PATH",
            "A release directory, or the archive of the release before: files with a fingerprint in their names stay \
             reachable, so that pages loaded before a deploy work after it. Of a directory, all releases count. What an \
             archive carries itself is handed on. A directory without archives is none to be had yet. Repeatable.",
        )
        .action(ArgAction::Append),
        value("previous-releases", "N", "Carry files of at most N earlier releases.")
            .value_parser(value_parser!(u16))
            .default_value("3"),
        value(
            "previous-age",
            "DAYS",
            "Carry no release that was replaced more than this many days before `--released`.",
        )
        .value_parser(value_parser!(u32))
        .requires("released"),
        value(
            "serial",
            "N",
            "The number of this release, which `cannery releases` and the server show. Without it, one more than the \
             newest of `--previous`, or 1.",
        )
        .value_parser(value_parser!(u64)),
        value(
            "released",
            "DATE",
            "The date of this release: `2030-01-31`, `2030-01-31T12:00:00Z`, or `@` and seconds since 1970. Without it, \
             the archive holds no date.",
        )
        .value_parser(read_date),
    ]
}

fn rebuilding() -> Vec<Arg> {
    vec![
        path(
            "compress-cache",
            "DIR",
            "Keep compressed contents in this folder for the next build. Several builds may share it at the same time. \
             What is read from it is decoded and compared, so nothing false gets into an archive.",
        ),
        path(
            "sources-cache",
            "FILE",
            "Remember the digests of source files in this file, so that the next build does not read unchanged ones. It is \
             believed, so it is not used if other users can write it.",
        ),
    ]
}

/// What the flags of [`arguments`] mean, for a build from `sources` into `archive`.
pub(super) fn options(matches: &ArgMatches, sources: PathBuf, archive: PathBuf) -> Result<Options, Failure> {
    let mut options = Options::new(sources, archive);
    options.encoders = all::<Encoder>(matches, "compress").into_iter().collect();
    if let Some(levels) = matches.get_one::<String>("compress-level") {
        options.levels = read_levels(levels, &options.encoders)?;
    }
    options.format = read_format(matches.get_one::<String>("format").map(String::as_str));
    options.dialect = read_dialect(matches.get_one::<String>("redirects-dialect").map(String::as_str));
    for assignment in all::<String>(matches, "media-type") {
        options.media_types.set(&assignment).map_err(|error| Failure::usage(error.to_string()))?;
    }
    options.exclude_index = matches.get_flag("exclude-index");
    options.exclude_strip = matches.get_flag("exclude-strip");
    options.exclude_slash_redirects = matches.get_flag("exclude-slash-redirects");
    options.include_folder_listing = matches.get_flag("include-folder-listing");
    options.exclude_cache = matches.get_flag("exclude-cache");
    options.cache_control = matches.get_one("cache-control").cloned();
    options.immutable = all(matches, "immutable");
    options.exclude_etag = matches.get_flag("exclude-etag");
    options.last_modified = matches.get_one("last-modified").copied().unwrap_or_default();
    options.ignore = all(matches, "ignore");
    options.default_ignores = !matches.get_flag("no-default-ignores");
    options.follow_links = matches.get_flag("follow-links");
    options.exclude_file_listing = matches.get_flag("exclude-file-listing");
    options.previous = all(matches, "previous");
    options.previous_releases = usize::from(required::<u16>(matches, "previous-releases")?);
    options.previous_age_days = matches.get_one("previous-age").copied();
    options.serial = matches.get_one("serial").copied();
    options.released = matches.get_one("released").copied();
    options.compress_cache = matches.get_one("compress-cache").cloned();
    options.sources_cache = matches.get_one("sources-cache").cloned();
    Ok(options)
}

/// An encoder by its own word, by that of HTTP or by one of kawipiko's; no word means that nothing is coded.
fn read_encoder(text: &str) -> Result<Encoder, String> {
    match text.trim() {
        "" | "none" => Ok(Encoder::Identity),
        "gz" => Ok(Encoder::Gzip),
        "br" => Ok(Encoder::Brotli),
        word => Encoder::ALL.into_iter().find(|encoder| encoder.name() == word).ok_or_else(|| {
            let words = Encoder::ALL.map(Encoder::name).join(", ");
            format!("possible values: {words}; `br`, `gz` and `none` mean brotli, gzip and identity")
        }),
    }
}

/// `9`, or `brotli=11,gzip=12`. A single level counts for each encoder in use, which must have it.
fn read_levels(text: &str, used: &BTreeSet<Encoder>) -> Result<Levels, Failure> {
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

fn wrong_level(what: &str) -> Failure {
    Failure::usage(format!("`--compress-level`: {what}"))
        .hint("write one level that all encoders in use have, or a list such as `brotli=11,gzip=12`")
}

fn read_last_modified(text: &str) -> Result<LastModified, String> {
    match text {
        "none" => Ok(LastModified::None),
        "files" => Ok(LastModified::Files),
        text => read_date(text).map(LastModified::At).map_err(|error| format!("`none`, `files`, or {error}")),
    }
}

/// A date as seconds since 1970.
fn read_date(text: &str) -> Result<u64, String> {
    let seconds = match text.strip_prefix('@') {
        Some(seconds) => seconds.parse().ok(),
        None => parse_rfc3339(text.as_bytes()),
    };
    seconds.ok_or_else(|| "a date like `2030-01-31`, `2030-01-31T12:00:00Z` or `@1896091200`".to_owned())
}

fn read_format(word: Option<&str>) -> FormatChoice {
    match word {
        Some("cdb") => FormatChoice::Cdb,
        Some("cdb64") => FormatChoice::Cdb64,
        _ => FormatChoice::Auto,
    }
}

fn read_dialect(word: Option<&str>) -> Dialect {
    match word {
        Some("netlify") => Dialect::Netlify,
        Some("cloudflare") => Dialect::Cloudflare,
        _ => Dialect::Cannery,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_level_counts_for_every_encoder_in_use() {
        let levels = read_levels("12", &[Encoder::Identity, Encoder::Gzip, Encoder::Zstd].into()).unwrap();
        assert_eq!((levels.of(Encoder::Gzip), levels.of(Encoder::Zstd)), (12, 12));
        for level in ["12", "15"] {
            assert!(
                read_levels(level, &[Encoder::Gzip, Encoder::Brotli].into()).is_err(),
                "brotli has no {level}"
            );
        }
    }

    #[test]
    fn a_list_sets_a_level_for_each() {
        let levels = read_levels("brotli=5, gzip=-2", &Encoder::ALL.into()).unwrap();
        assert_eq!((levels.of(Encoder::Brotli), levels.of(Encoder::Gzip)), (5, 12));
    }

    #[test]
    fn wrong_levels_are_refused() {
        for text in ["", "gzip", "gzip=", "gzip=99", "lzma=3", "gzip=1,", "99", "nine"] {
            assert!(read_levels(text, &[Encoder::Gzip].into()).is_err(), "{text}");
        }
    }

    #[test]
    fn dates_are_days_moments_or_seconds() {
        let read: Vec<_> = ["2030-01-31", "2030-01-31T12:00:00Z", "@1896091200"].map(read_date).into();
        assert_eq!(read, [Ok(1_896_048_000), Ok(1_896_091_200), Ok(1_896_091_200)]);
        for text in ["", "@", "1896091200", "31.1.2030", "@-1"] {
            assert!(read_date(text).is_err(), "{text}");
        }
        assert_eq!(read_last_modified("files"), Ok(LastModified::Files));
        assert_eq!(read_last_modified("@7"), Ok(LastModified::At(7)));
        assert!(read_last_modified("yesterday").is_err());
    }
}
