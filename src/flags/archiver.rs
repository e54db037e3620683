//! The flags of `cannery-archiver`: source folder in, archive out.
//!
//! Never builds.

use std::ffi::OsString;
use std::path::PathBuf;

use cannery_archiver::Options;
use clap::{ArgMatches, Command};

use super::{
    ABOUT, About, SAYING, absent, building, completions, examples, help, json, man, path, positional,
    refuse_absent, required, sbom, sbom_json, sbom_text, switch, threads, version,
};
use crate::output::Failure;

/// What a build was told.
#[derive(Debug)]
pub struct Archiver {
    /// What to build.
    pub options: Options,
    /// How much to say of it.
    pub saying: Saying,
}

/// How much a build says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Saying {
    /// Nothing but errors.
    pub quiet: bool,
    /// The whole report as JSON, in place of the summary.
    pub json: bool,
    /// How far it has come, also where standard error is no terminal.
    pub progress: bool,
    /// Each path with its forms and sizes.
    pub debug: bool,
}

/// The command.
#[must_use]
pub fn command() -> Command {
    super::command("cannery-archiver", "Compiles a site folder into one immutable archive.")
        .disable_help_flag(true)
        .disable_version_flag(true)
        .args([
            path("sources", "DIR", "The site folder. Or name it without the flag.").required_unless_present("folder"),
            path("archive", "FILE", "The archive to write. An old one is replaced in one step, or stays as it was. Or name it without the flag, after the folder.")
                .required_unless_present("file"),
            positional("folder", "DIR", "The site folder.").conflicts_with("sources"),
            positional("file", "FILE", "The archive to write.").conflicts_with("archive"),
            threads("How many threads read and compress. Without it, one for each CPU. The archive is the same with any."),
            switch("strict", "Write no archive if there are warnings."),
            switch(
                "allow-empty",
                "Write the archive even if the folder is empty or has no page for `/`. Otherwise that is an error, because \
                 it is most often the wrong folder.",
            ),
        ].map(|argument| argument.help_heading("From where to where")))
        .args(building::arguments())
        .args([
            switch("progress", "Print how far the build has come, even if standard error is no terminal."),
            switch("debug", "Print each path with its codings and sizes."),
            switch("quiet", "Print nothing but errors.").conflicts_with_all(["progress", "debug", "json"]),
        ].map(|argument| argument.help_heading(SAYING)))
        .arg(json())
        .args([man(), completions(), sbom(), help(), version()].map(|argument| argument.help_heading(ABOUT)))
        .args([sbom_text(), sbom_json()])
        .args(absent(&ABSENT_FLAGS))
        .after_help(examples(
            &[
                "cannery-archiver public site.cdb",
                "cannery-archiver --sources public --archive site.cdb --strict",
                "cannery-archiver public site.cdb --compress-cache .cache/compressed",
            ],
            "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 bad sources, 4 cannot write, 5 warnings and --strict.",
        ))
}

/// Flags of kawipiko's archiver that are refused by name, with what to do instead.
const ABSENT_FLAGS: [(&str, &str); 2] = [
    ("sources-md5", "the sources of this program are not part of it; `--sbom` lists what it is made of"),
    ("sources-cpio", "the sources of this program are not part of it; `--sbom` lists what it is made of"),
];

/// What a command line asks for.
#[derive(Debug)]
pub enum Invocation {
    /// A build.
    Build(Box<Archiver>),
    /// Something about the program itself.
    About(About),
}

/// Parses the command line.
///
/// # Errors
/// It is wrong.
pub fn read(arguments: impl IntoIterator<Item = OsString>) -> Result<Invocation, Failure> {
    from_matches(&super::read(command(), arguments)?)
}

/// The same from a command line that was read already.
///
/// # Errors
/// A value is wrong.
pub fn from_matches(matches: &ArgMatches) -> Result<Invocation, Failure> {
    if let Some(about) = About::read(matches) {
        return Ok(Invocation::About(about));
    }
    refuse_absent(matches, &ABSENT_FLAGS)?;
    let either = |flag, position| match matches.get_one::<PathBuf>(position) {
        Some(named) => Ok(named.clone()),
        None => required::<PathBuf>(matches, flag),
    };
    let (sources, archive) = (either("sources", "folder")?, either("archive", "file")?);
    let mut options = building::options(matches, sources, archive)?;
    options.threads = matches.get_one::<u16>("threads").map_or(0, |threads| usize::from(*threads));
    options.strict = matches.get_flag("strict");
    options.allow_empty = matches.get_flag("allow-empty");
    let saying = Saying {
        quiet: matches.get_flag("quiet"),
        json: matches.get_flag("json"),
        progress: matches.get_flag("progress"),
        debug: matches.get_flag("debug"),
    };
    Ok(Invocation::Build(Box::new(Archiver { options, saying })))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cannery_archiver::redirects::Dialect;
    use cannery_archiver::{Encoder, FormatChoice};

    fn options(line: &str) -> Options {
        let words = ["cannery-archiver", "--sources", "in", "--archive", "out"].into_iter();
        build(words.chain(line.split_whitespace()))
    }

    fn build<'w>(words: impl Iterator<Item = &'w str>) -> Options {
        match read(words.map(OsString::from)).unwrap() {
            Invocation::Build(archiver) => archiver.options,
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
            assert!(read(words).is_err(), "{line}");
        }
    }

    #[test]
    fn the_defaults_are_those_of_the_archiver() {
        let (ours, theirs) = (options(""), Options::new("in", "out"));
        assert_eq!(format!("{ours:?}"), format!("{theirs:?}"));
    }

    #[test]
    fn the_old_words_have_their_old_meaning() {
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
    fn codings_have_several_words() {
        let encoders = |line: &str| options(line).encoders.into_iter().collect::<Vec<_>>();
        assert_eq!(encoders("--compress br,gz,none"), [Encoder::Identity, Encoder::Gzip, Encoder::Brotli]);
        assert_eq!(encoders("--compress="), [Encoder::Identity]);
    }

    #[test]
    fn the_new_words_reach_the_build() {
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
    fn what_is_an_error_or_a_warning_can_be_allowed() {
        let allowed = options("--allow-empty --follow-links");
        assert!(allowed.allow_empty && allowed.follow_links);
        assert!(!options("").allow_empty && !options("").follow_links);
    }

    #[test]
    fn the_manual_page_needs_nothing_else() {
        let man = read(["cannery-archiver", "--man"].map(OsString::from));
        assert!(matches!(man, Ok(Invocation::About(About::ManualPage))));
        assert!(read(["cannery-archiver"].map(OsString::from)).is_err());
    }

    #[test]
    fn wrong_words_are_refused() {
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
        ] {
            let words = ["cannery-archiver", "--sources", "in", "--archive", "out"].into_iter();
            let words = words.chain(line.split_whitespace()).map(OsString::from);
            assert!(read(words).is_err(), "{line}");
        }
    }
}
