//! Tests of the summary.

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
fn a_summary_has_these_lines() {
    let text = summary(Path::new("site.cdb"), &report(), 1.75, Details::All, Paint::none());
    let expected = "\
site.cdb  80.0 MB, cdb, release 4, digest 0123456789ab, in 1.75 s

  files     1,065  67.2 MB  in 12 folders
  contents    998           distinct
  paths     2,133           1,064 aliases, 1 redirect, 3 carried forward, 9 response heads

  identity  998  67.0 MB
  gzip      700  12.5 MB  25.0 %  of 50.0 MB
  padding        41.5 kB          before large bodies, which are aligned to pages

  release 3  2  carried forward from it, digest fedcba987654
  release 2  1  carried forward from it, digest fedcba987654

  left out  2  its name begins with `.`: .git/, …

  s\\u{1b}.js  4.20 MB  gzip 1.10 MB

  compressing 1.50 s
";
    assert_eq!(text, expected);
}

#[test]
fn structure_is_shown_only_with_all_details() {
    let text = summary(Path::new("site.cdb"), &report(), 1.75, Details::Few, Paint::none());
    assert!(!text.contains("padding") && !text.contains("heads"), "{text}");
    assert!(text.contains("1,064 aliases, 1 redirect, 3 carried forward\n"), "{text}");
}

#[test]
fn caches_are_mentioned_only_if_they_helped() {
    let mut report = report();
    assert_eq!(caches(&report), None);
    report.caches.files_known = 1000;
    report.caches.files_read = 65;
    let line = caches(&report).unwrap();
    assert_eq!(line, "from the caches: 1,000 of 1,065 files, 0 of 0 compressed forms");
}
