//! A build's report as a person reads it.
//!
//! Pure: the report in, text out. Never prints.

use std::path::Path;

use cannery_archiver::Report;
use cannery_archiver::report::{BigFile, PreviousRelease, SkippedGroup};

use crate::format::{Table, bytes, count, counted, percent, seconds};
use crate::output::{Paint, one_line};
use crate::progress;

/// Shorter stages are not worth a person's eye.
const STAGE_SECONDS_MIN: f64 = 0.005;

/// Digits of the digest that tell two builds apart for a person.
const DIGEST_DIGITS: usize = 12;

/// How many of the biggest files are shown.
const BIGGEST_SHOWN: usize = 5;

/// How much of the archive's inside is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Details {
    /// What the author of a site needs.
    Few,
    /// Response heads and padding too.
    All,
}

/// The report of the build of `archive`, which took so many seconds.
pub(super) fn summary(archive: &Path, report: &Report, took: f64, details: Details, paint: Paint) -> String {
    let digest = report.digest.get(..DIGEST_DIGITS).unwrap_or(&report.digest);
    let mut text = format!(
        "{}  {}, {}, release {}, digest {digest}, in {}\n",
        paint.strong(&archive.display().to_string()),
        bytes(report.archive_bytes),
        report.format,
        report.serial,
        seconds(took),
    );
    let tables = [
        inside(report, details),
        stored(report, details),
        earlier(&report.previous),
        left_out(&report.skipped),
        biggest(&report.biggest),
    ];
    for table in tables.iter().filter(|table| !table.is_empty()) {
        text.push('\n');
        text.push_str(&table.print(2, paint));
    }
    for line in [times(report), caches(report)].into_iter().flatten() {
        text.push_str("\n  ");
        text.push_str(&paint.faint(&line));
        text.push('\n');
    }
    text
}

fn inside(report: &Report, details: Details) -> Table {
    let mut table = Table::default();
    let from = format!("in {}", counted(report.folders, "folder"));
    table.row("files").number(count(report.files)).number(bytes(report.bytes_in)).faint(from);
    table.row("contents").number(count(report.contents)).words("").faint("distinct");
    table.row("paths").number(count(report.paths)).words("").faint(kinds_of_paths(report, details));
    if report.rules > 0 {
        table.row("rules").number(count(report.rules)).words("").faint("with a pattern");
    }
    table
}

fn kinds_of_paths(report: &Report, details: Details) -> String {
    let kinds = [
        (report.aliases, "alias", "aliases"),
        (report.redirects, "redirect", "redirects"),
        (report.generated, "generated page", "generated pages"),
        (report.carried, "carried forward", "carried forward"),
    ];
    let kinds = kinds.into_iter().filter(|(number, _, _)| *number > 0);
    let words = kinds.map(|(number, one, many)| {
        let noun = if number == 1 { one } else { many };
        format!("{} {noun}", count(number))
    });
    let heads = || format!("{} between them", counted(report.heads, "response head"));
    words.chain((details == Details::All).then(heads)).collect::<Vec<_>>().join(", ")
}

fn stored(report: &Report, details: Details) -> Table {
    let mut table = Table::default();
    for total in &report.codings {
        let row = table.row(total.coding).number(count(total.count)).number(bytes(total.bytes));
        if total.coding != "identity" {
            let of = format!("of {}", bytes(total.identity_bytes));
            row.number(percent(total.bytes, total.identity_bytes)).faint(of);
        }
    }
    if report.padding_bytes > 0 && details == Details::All {
        let row = table.row("padding").number("").number(bytes(report.padding_bytes));
        row.number("").faint("before large bodies, which begin with a page");
    }
    table
}

/// What came from earlier releases.
fn earlier(releases: &[PreviousRelease]) -> Table {
    let mut table = Table::default();
    for release in releases {
        let digest = release.digest.get(..DIGEST_DIGITS).unwrap_or(&release.digest);
        let note = format!("carried forward from it, digest {digest}");
        let row = table.row(format!("release {}", release.serial)).number(count(release.carried));
        row.faint(note);
    }
    table
}

fn left_out(skipped: &[SkippedGroup]) -> Table {
    let mut table = Table::default();
    for group in skipped {
        let shown = group.examples.iter().map(|path| one_line(path)).collect::<Vec<_>>().join(", ");
        let more = if group.count > group.examples.len() as u64 { ", …" } else { "" };
        let note = format!("{}: {shown}{more}", one_line(&group.reason));
        table.row("left out").number(count(group.count)).faint(note);
    }
    table
}

fn biggest(files: &[BigFile]) -> Table {
    let mut table = Table::default();
    for file in files.iter().take(BIGGEST_SHOWN) {
        let coded = file.codings.iter().filter(|(name, _)| *name != "identity");
        let forms: Vec<_> = coded.map(|(name, length)| format!("{name} {}", bytes(*length))).collect();
        table.row(one_line(&file.path)).number(bytes(file.bytes)).faint(forms.join(", "));
    }
    table
}

/// Where the time went, if it went anywhere worth knowing.
fn times(report: &Report) -> Option<String> {
    let long = report.times.iter().filter(|time| time.seconds >= STAGE_SECONDS_MIN);
    let stages: Vec<_> =
        long.map(|time| format!("{} {}", progress::name(time.stage), seconds(time.seconds))).collect();
    (!stages.is_empty()).then(|| stages.join(", "))
}

/// What the caches saved, if they saved anything.
fn caches(report: &Report) -> Option<String> {
    let caches = &report.caches;
    (caches.files_known + caches.encodings_found > 0).then(|| {
        format!(
            "from the caches: {} of {}, {} of {}",
            count(caches.files_known),
            counted(caches.files_known + caches.files_read, "file"),
            count(caches.encodings_found),
            counted(caches.encodings_found + caches.encodings_made, "compressed form"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use cannery_archiver::Stage;
    use cannery_archiver::report::{CodingTotal, StageTime};

    fn release(serial: u64, carried: u64) -> PreviousRelease {
        PreviousRelease { serial, digest: "fedcba9876543210".repeat(4), carried }
    }

    fn report() -> Report {
        Report {
            files: 1065,
            folders: 12,
            bytes_in: 67_170_732,
            contents: 998,
            paths: 2133,
            serial: 4,
            carried: 3,
            previous: vec![release(3, 2), release(2, 1)],
            aliases: 1064,
            redirects: 1,
            heads: 9,
            codings: vec![
                CodingTotal { coding: "identity", count: 998, bytes: 67_000_000, identity_bytes: 67_000_000 },
                CodingTotal { coding: "gzip", count: 700, bytes: 12_500_000, identity_bytes: 50_000_000 },
            ],
            padding_bytes: 41_500,
            archive_bytes: 80_000_000,
            format: "cdb",
            digest: "0123456789abcdef".repeat(4),
            skipped: vec![SkippedGroup {
                reason: "its name begins with `.`".into(),
                count: 2,
                examples: vec![".git/".into()],
            }],
            biggest: vec![BigFile {
                path: "s\x1b.js".into(),
                bytes: 4_200_000,
                codings: vec![("gzip", 1_100_000)],
            }],
            times: vec![StageTime { stage: Stage::Encode, seconds: 1.5 }],
            ..Report::default()
        }
    }

    #[test]
    fn a_summary_reads_like_this() {
        let text = summary(Path::new("site.cdb"), &report(), 1.75, Details::All, Paint::none());
        let expected = "\
site.cdb  80.0 MB, cdb, release 4, digest 0123456789ab, in 1.75 s

  files     1,065  67.2 MB  in 12 folders
  contents    998           distinct
  paths     2,133           1,064 aliases, 1 redirect, 3 carried forward, 9 response heads between them

  identity  998  67.0 MB
  gzip      700  12.5 MB  25.0 %  of 50.0 MB
  padding        41.5 kB          before large bodies, which begin with a page

  release 3  2  carried forward from it, digest fedcba987654
  release 2  1  carried forward from it, digest fedcba987654

  left out  2  its name begins with `.`: .git/, …

  s\\u{1b}.js  4.20 MB  gzip 1.10 MB

  compressing 1.50 s
";
        assert_eq!(text, expected);
    }

    #[test]
    fn what_only_the_archive_knows_is_a_detail() {
        let text = summary(Path::new("site.cdb"), &report(), 1.75, Details::Few, Paint::none());
        assert!(!text.contains("padding") && !text.contains("heads"), "{text}");
        assert!(text.contains("1,064 aliases, 1 redirect, 3 carried forward\n"), "{text}");
    }

    #[test]
    fn caches_are_spoken_of_only_if_they_helped() {
        let mut report = report();
        assert_eq!(caches(&report), None);
        report.caches.files_known = 1000;
        report.caches.files_read = 65;
        let line = caches(&report).unwrap();
        assert_eq!(line, "from the caches: 1,000 of 1,065 files, 0 of 0 compressed forms");
    }
}
