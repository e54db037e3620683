//! Tests of the flags of `cannery-archiver`.

use cannery_archiver::boundary::LinksOut;

use super::*;
use cannery_archiver::redirects::Dialect;
use cannery_archiver::{Encoder, FormatChoice};

fn options(line: &str) -> Options {
    let words = ["cannery-archiver", "--sources", "in", "--archive", "out"].into_iter();
    build(words.chain(line.split_whitespace()))
}

fn build<'w>(words: impl Iterator<Item = &'w str>) -> Options {
    match parse(words.map(OsString::from)).unwrap() {
        Invocation::Build(build) => build.options,
        other => panic!("{other:?}"),
    }
}

#[test]
fn folder_and_archive_need_no_flag() {
    let named = options("");
    let positional = build("cannery-archiver in out".split(' '));
    assert_eq!(format!("{named:?}"), format!("{positional:?}"));
    let mixed = build("cannery-archiver in --archive out".split(' '));
    assert_eq!(format!("{named:?}"), format!("{mixed:?}"));
    for line in ["in", "in out more", "in out --archive other"] {
        let words = ["cannery-archiver"].into_iter().chain(line.split(' ')).map(OsString::from);
        assert!(parse(words).is_err(), "{line}");
    }
}

#[test]
fn the_defaults_are_those_of_the_archiver() {
    let (ours, theirs) = (options(""), Options::new("in", "out"));
    assert_eq!(format!("{ours:?}"), format!("{theirs:?}"));
}

#[test]
fn flags_of_kawipiko_keep_their_meaning() {
    let old = options(
        "--compress gzip --compress-level 9 --exclude-index --exclude-strip --exclude-cache \
         --include-etag --exclude-slash-redirects --include-folder-listing --exclude-paths-index \
         --progress --debug",
    );
    assert_eq!(old.encoders.into_iter().collect::<Vec<_>>(), [Encoder::Gzip]);
    assert_eq!(old.levels.of(Encoder::Gzip), 9);
    assert!(old.exclude_index && old.exclude_strip && old.exclude_cache && old.exclude_slash_redirects);
    assert!(old.include_folder_listing && old.exclude_file_listing && !old.exclude_etag);
}

#[test]
fn codings_have_several_names() {
    let encoders = |line: &str| options(line).encoders.into_iter().collect::<Vec<_>>();
    assert_eq!(encoders("--compress br,gz,none"), [Encoder::Identity, Encoder::Gzip, Encoder::Brotli]);
    assert_eq!(encoders("--compress="), [Encoder::Identity]);
}

#[test]
fn every_flag_reaches_the_build() {
    let new = options(
        "--compress identity,zstd --compress brotli --compress-level zstd=3 --format cdb64 --strict \
         --threads 3 --ignore *.psd --ignore !keep.psd --no-default-ignores --immutable /assets/* \
         --redirects-dialect cloudflare --cache-control no-cache --exclude-etag --media-type ts=text/plain \
         --previous old.cdb --previous older.cdb --previous-releases 2 --previous-age 30 --serial 9 \
         --released 2030-01-31",
    );
    let encoders: Vec<_> = new.encoders.into_iter().collect();
    assert_eq!(encoders, [Encoder::Identity, Encoder::Brotli, Encoder::Zstd]);
    assert_eq!((new.levels.of(Encoder::Zstd), new.format), (3, FormatChoice::Cdb64));
    assert_eq!((new.threads, new.strict, new.default_ignores), (3, true, false));
    assert_eq!((new.ignore.len(), new.immutable.len(), new.dialect), (2, 1, Dialect::Cloudflare));
    assert_eq!((new.cache_control.as_deref(), new.exclude_etag), (Some("no-cache"), true));
    assert_eq!(new.media_types.of(b"a.ts").text, "text/plain");
    assert_eq!(new.previous, [PathBuf::from("old.cdb"), PathBuf::from("older.cdb")]);
    assert_eq!((new.previous_releases, new.previous_age_days), (2, Some(30)));
    assert_eq!((new.serial, new.released), (Some(9), Some(1_896_048_000)));
}

#[test]
fn errors_and_warnings_can_be_allowed() {
    let allowed = options("--allow-empty --follow-links");
    assert!(allowed.allow_empty && allowed.links_out == LinksOut::Allowed);
    assert!(!options("").allow_empty && options("").links_out == LinksOut::Reported);
}

#[test]
fn links_are_counted_listed_or_ignored() {
    for (line, expected) in
        [("", LinkCheck::Count), ("--check-links", LinkCheck::List), ("--no-check-links", LinkCheck::Off)]
    {
        assert_eq!(options(line).check_links, expected, "{line}");
    }
}

#[test]
fn the_manual_page_needs_no_arguments() {
    let man = parse(["cannery-archiver", "--man"].map(OsString::from));
    assert!(matches!(man, Ok(Invocation::About(About::ManualPage))));
    assert!(parse(["cannery-archiver"].map(OsString::from)).is_err());
}

#[test]
fn wrong_values_are_refused() {
    for line in [
        "--compress lzma",
        "--compress-level 15",
        "--sources-md5 x",
        "--sources-cpio x",
        "--format zip",
        "--threads 0",
        "--media-type ts",
        "--quiet --json",
        "--released today",
        "--previous-age 3",
        "--previous-releases -1",
        "--check-links --no-check-links",
    ] {
        let words = ["cannery-archiver", "--sources", "in", "--archive", "out"].into_iter();
        let words = words.chain(line.split_whitespace()).map(OsString::from);
        assert!(parse(words).is_err(), "{line}");
    }
}
