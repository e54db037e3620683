//! The flags that decide which bytes an archive holds, and what they mean for a build.
//!
//! Each section of the help is one function, so that the help reads as the build runs. Never builds.

use std::path::PathBuf;

use cannery_archiver::redirects::Dialect;
use cannery_archiver::{Encoder, FormatChoice, LastModified, Levels, Options};
use clap::{Arg, ArgAction, ArgMatches};

use super::{all, path, switch, value, words};
use crate::say::Failure;

/// All flags of a build but those for input, output and what is said.
pub(super) fn arguments() -> Vec<Arg> {
    let sections = [
        ("How contents are stored", storing()),
        ("What answers a path", answering()),
        ("How long clients keep it", caching()),
        ("What is left out", leaving_out()),
        ("Building again", rebuilding()),
    ];
    let under = |(heading, arguments): (&'static str, Vec<Arg>)| {
        arguments.into_iter().map(move |argument| argument.help_heading(heading))
    };
    sections.into_iter().flat_map(under).collect()
}

fn storing() -> Vec<Arg> {
    vec![
        value("compress", "CODINGS", "The forms in which contents are stored, as a list with commas.")
            .value_delimiter(',')
            .action(ArgAction::Append)
            .value_parser(words(Encoder::ALL.map(Encoder::name)))
            .default_value("identity,gzip,brotli"),
        value(
            "compress-level",
            "LEVELS",
            "How hard to try: one level for all, or a list such as `brotli=11,gzip=12`. \
             -1 is the default of an encoder, -2 its highest level.",
        )
        .allow_hyphen_values(true),
        value(
            "format",
            "FORMAT",
            "The width of the archive. `auto` is 32-bit up to 4 GiB and 64-bit beyond.",
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
        switch("exclude-index", "No index pages: `/folder/` is not answered by a file of the folder."),
        switch("exclude-strip", "No names without suffix: `/page` is not answered by `page.html`."),
        switch(
            "exclude-slash-redirects",
            "No redirects from `/folder` to `/folder/` and from `/file/` to `/file`.",
        ),
        switch(
            "include-folder-listing",
            "A page that lists the folder for each folder without an index page, and \
             `_listing.json` for every folder.",
        ),
        value("redirects-dialect", "DIALECT", "Whose grammar `_redirects` follows.")
            .value_parser(words(["cannery", "netlify", "cloudflare"]))
            .default_value("cannery"),
    ]
}

fn caching() -> Vec<Arg> {
    vec![
        value(
            "cache-control",
            "VALUE",
            "One `Cache-Control` for every answer but error pages, in place of the policy by kind of file.",
        )
        .conflicts_with("exclude-cache"),
        switch("exclude-cache", "No `Cache-Control` but what `_headers` sets."),
        value(
            "immutable",
            "GLOB",
            "Files whose names never stand for other bytes, in gitignore syntax: clients may keep \
             them for a year. Names that carry a digest of their content need not be named. Repeatable.",
        )
        .action(ArgAction::Append),
        value(
            "last-modified",
            "WHEN",
            "What `Last-Modified` says: nothing with `none`, the time of each file with `files`, the same \
             for all with `@SECONDS` since 1970. Entity tags tell more, and file times differ between machines.",
        )
        .value_parser(read_last_modified)
        .default_value("none"),
        switch("exclude-etag", "Send no entity tags.").overrides_with("include-etag"),
        switch("include-etag", "Send entity tags, which is the default."),
    ]
}

fn leaving_out() -> Vec<Arg> {
    vec![
        value(
            "ignore",
            "PATTERN",
            "More names to leave out, in gitignore syntax; `!PATTERN` takes names in again. Repeatable.",
        )
        .action(ArgAction::Append)
        .allow_hyphen_values(true),
        switch(
            "no-default-ignores",
            "Take in what is left out by default: hidden files, backups, logs, locks and temporary files.",
        ),
        switch(
            "exclude-file-listing",
            "Leave out the files that answer nothing under their own name, such as `_redirects`: \
             `extract` then cannot give the whole folder back.",
        )
        .alias("exclude-paths-index"),
    ]
}

fn rebuilding() -> Vec<Arg> {
    vec![
        path(
            "compress-cache",
            "DIR",
            "Keep results of compression in this folder; builds may share it, also at the same time.",
        ),
        path(
            "sources-cache",
            "FILE",
            "Remember the digests of source files in this file, so that unchanged ones are not read again.",
        ),
    ]
}

/// What the flags of [`arguments`] mean, for a build from `sources` into `archive`.
pub(super) fn options(matches: &ArgMatches, sources: PathBuf, archive: PathBuf) -> Result<Options, Failure> {
    let mut options = Options::new(sources, archive);
    let encoders = all::<String>(matches, "compress");
    options.encoders = Encoder::ALL
        .into_iter()
        .filter(|encoder| encoders.iter().any(|word| word == encoder.name()))
        .collect();
    if let Some(levels) = matches.get_one::<String>("compress-level") {
        options.levels = read_levels(levels)?;
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
    options.exclude_file_listing = matches.get_flag("exclude-file-listing");
    options.compress_cache = matches.get_one("compress-cache").cloned();
    options.sources_cache = matches.get_one("sources-cache").cloned();
    Ok(options)
}

/// `9`, or `brotli=11,gzip=12`. A single level counts for each encoder that has it; one that no encoder
/// has is refused.
fn read_levels(text: &str) -> Result<Levels, Failure> {
    let mut levels = Levels::default();
    if let Ok(level) = text.trim().parse() {
        let tries = Encoder::ALL.into_iter().filter(|encoder| *encoder != Encoder::Identity);
        let results: Vec<_> = tries.map(|encoder| levels.set(encoder, level)).collect();
        return match results.iter().find(|result| result.is_err()) {
            Some(Err(error)) if results.iter().all(Result::is_err) => Err(wrong_level(&error.to_string())),
            _ => Ok(levels),
        };
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
        .hint("write one level for all, or a list such as `brotli=11,gzip=12`")
}

fn read_last_modified(text: &str) -> Result<LastModified, String> {
    let seconds = text.strip_prefix('@').and_then(|seconds| seconds.parse().ok());
    match (text, seconds) {
        ("none", _) => Ok(LastModified::None),
        ("files", _) => Ok(LastModified::Files),
        (_, Some(seconds)) => Ok(LastModified::At(seconds)),
        _ => Err("write `none`, `files`, or `@` and seconds since 1970".into()),
    }
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
    fn one_level_counts_for_every_encoder_that_has_it() {
        let levels = read_levels("12").unwrap();
        assert_eq!((levels.of(Encoder::Gzip), levels.of(Encoder::Zstd)), (12, 12));
        assert_eq!(levels.of(Encoder::Brotli), 11, "brotli has no level 12 and keeps its default");
    }

    #[test]
    fn a_list_sets_a_level_for_each() {
        let levels = read_levels("brotli=5, gzip=-2").unwrap();
        assert_eq!((levels.of(Encoder::Brotli), levels.of(Encoder::Gzip)), (5, 12));
    }

    #[test]
    fn wrong_levels_are_refused() {
        for text in ["", "gzip", "gzip=", "gzip=99", "lzma=3", "gzip=1,", "99", "nine"] {
            assert!(read_levels(text).is_err(), "{text}");
        }
    }
}
