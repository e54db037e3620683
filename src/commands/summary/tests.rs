//! Tests of the summary.

use super::*;
use cannery_archiver::Stage;
use cannery_archiver::report::{CodingTotal, StageTime};

fn release(serial: u64, carried: u64) -> PreviousRelease {
    PreviousRelease { serial, digest: "fedcba9876543210".repeat(4), carried }
}

fn report() -> Report {
    let mut report = Report::default();
    report.files = 1065;
    report.folders = 12;
    report.bytes_in = 67_170_732;
    report.contents = 998;
    report.paths = 2133;
    report.serial = 4;
    report.carried = 3;
    report.previous = vec![release(3, 2), release(2, 1)];
    report.aliases = 1064;
    report.redirects = 1;
    report.heads = 9;
    report.codings = vec![
        CodingTotal { coding: "identity", count: 998, bytes: 67_000_000, identity_bytes: 67_000_000 },
        CodingTotal { coding: "gzip", count: 700, bytes: 12_500_000, identity_bytes: 50_000_000 },
    ];
    report.padding_bytes = 41_500;
    report.archive_bytes = 80_000_000;
    report.format = "cdb";
    report.digest = "0123456789abcdef".repeat(4);
    report.skipped = vec![SkippedGroup {
        reason: "its name begins with `.`".into(),
        count: 2,
        examples: vec![".git/".into()],
    }];
    report.biggest =
        vec![BigFile { path: "s\x1b.js".into(), bytes: 4_200_000, codings: vec![("gzip", 1_100_000)] }];
    report.times = vec![StageTime { stage: Stage::Encode, seconds: 1.5 }];
    report
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
