//! Summarizes the report of a build for people.

use std::path::Path;

use cannery_archiver::Report;
use cannery_archiver::report::{BigFile, PreviousRelease, SkippedGroup};

use crate::format::{Table, bytes, count, counted, percent, seconds};
use crate::output::{Paint, one_line};
use crate::progress;

/// Shorter stages, in seconds, are not listed.
const STAGE_SECONDS_MIN: f64 = 0.005;

/// Number of digest digits to show.
const DIGEST_DIGITS: usize = 12;

/// Maximum number of largest files to show.
const LARGEST_SHOWN: usize = 5;

/// Amount of detail to show about the archive's structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Details {
    /// Just the facts that authors of sites need.
    Few,
    /// Also response heads and padding.
    All,
}

/// Returns a summary of the build of `archive`. `duration` is in seconds.
pub(super) fn summary(
    archive: &Path,
    report: &Report,
    duration: f64,
    details: Details,
    paint: Paint,
) -> String {
    let digest = report.digest.get(..DIGEST_DIGITS).unwrap_or(&report.digest);
    let mut text = format!(
        "{}  {}, {}, release {}, digest {digest}, in {}\n",
        paint.strong(&archive.display().to_string()),
        bytes(report.archive_bytes),
        report.format,
        report.serial,
        seconds(duration),
    );

    let tables = [
        contents(report, details),
        stored(report, details),
        previous_releases(&report.previous),
        skipped(&report.skipped),
        largest(&report.biggest),
    ];

    for table in tables.iter().filter(|table| !table.is_empty()) {
        text.push('\n');
        text.push_str(&table.render(2, paint));
    }

    for line in [times(report), caches(report)].into_iter().flatten() {
        text.push_str("\n  ");
        text.push_str(&paint.faint(&line));
        text.push('\n');
    }
    text
}

fn contents(report: &Report, details: Details) -> Table {
    let mut table = Table::default();
    let from = format!("in {}", counted(report.folders, "folder"));
    table.row("files").number(count(report.files)).number(bytes(report.bytes_in)).faint(from);
    table.row("contents").number(count(report.contents)).text("").faint("distinct");
    table.row("paths").number(count(report.paths)).text("").faint(kinds_of_paths(report, details));
    if report.rules > 0 {
        table.row("rules").number(count(report.rules)).text("").faint("with a pattern");
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
    let heads = || counted(report.heads, "response head");
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
        row.number("").faint("before large bodies, which are aligned to pages");
    }
    table
}

/// Lists how many files were carried over from each of the previous releases.
fn previous_releases(releases: &[PreviousRelease]) -> Table {
    let mut table = Table::default();
    for release in releases {
        let digest = release.digest.get(..DIGEST_DIGITS).unwrap_or(&release.digest);
        let note = format!("carried forward from it, digest {digest}");
        let row = table.row(format!("release {}", release.serial)).number(count(release.carried));
        row.faint(note);
    }
    table
}

fn skipped(groups: &[SkippedGroup]) -> Table {
    let mut table = Table::default();
    for group in groups {
        let shown = group.examples.iter().map(|path| one_line(path)).collect::<Vec<_>>().join(", ");
        let more = if group.count > group.examples.len() as u64 { ", …" } else { "" };
        let note = format!("{}: {shown}{more}", one_line(&group.reason));
        table.row("left out").number(count(group.count)).faint(note);
    }
    table
}

fn largest(files: &[BigFile]) -> Table {
    let mut table = Table::default();
    for file in files.iter().take(LARGEST_SHOWN) {
        let coded = file.codings.iter().filter(|(name, _)| *name != "identity");
        let forms: Vec<_> = coded.map(|(name, length)| format!("{name} {}", bytes(*length))).collect();
        table.row(one_line(&file.path)).number(bytes(file.bytes)).faint(forms.join(", "));
    }
    table
}

/// Lists the stages that took long, if any.
fn times(report: &Report) -> Option<String> {
    let long = report.times.iter().filter(|time| time.seconds >= STAGE_SECONDS_MIN);
    let stages: Vec<_> =
        long.map(|time| format!("{} {}", progress::name(time.stage), seconds(time.seconds))).collect();
    (!stages.is_empty()).then(|| stages.join(", "))
}

/// Says how many files and codings came from the caches, if any.
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
mod tests;
