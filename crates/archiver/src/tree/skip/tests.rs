//! Unit tests of skip rules.

use std::os::unix::fs::symlink;

use super::*;

fn rules(patterns: &[&str]) -> SkipRules {
    let mut rules = SkipRules::default();
    for pattern in patterns {
        rules.add_pattern(pattern).unwrap();
    }
    rules
}

fn by_flag(pattern: &str) -> Option<SkipReason> {
    Some(SkipReason::Pattern { pattern: pattern.to_owned(), origin: PatternOrigin::Flag })
}

#[test]
fn litter_is_skipped_anywhere() {
    let cases = [
        (".git", SkipReason::Hidden),
        ("#index.html", SkipReason::Hash),
        ("a#b.html", SkipReason::Hash),
        ("index.html#", SkipReason::Hash),
        ("index.html~", SkipReason::Backup),
        ("build.log", SkipReason::Transient(".log")),
        ("a.tmp", SkipReason::Transient(".tmp")),
        ("a.temp", SkipReason::Transient(".temp")),
        ("Cargo.lock", SkipReason::Transient(".lock")),
        ("a.part", SkipReason::Transient(".part")),
        ("a.html___jb_tmp___", SkipReason::Transient("___jb_tmp___")),
        ("~$a.docx", SkipReason::OfficeLock),
        ("a.LOG", SkipReason::Transient(".log")),
        ("a.html.LOCK", SkipReason::Transient(".lock")),
        ("a.iso.!qB", SkipReason::Transient(".!qb")),
        ("Thumbs.db", SkipReason::DesktopFile("Thumbs.db")),
        ("THUMBS.DB", SkipReason::DesktopFile("Thumbs.db")),
        ("ehthumbs.db", SkipReason::DesktopFile("ehthumbs.db")),
        ("Desktop.ini", SkipReason::DesktopFile("desktop.ini")),
        (".DS_Store", SkipReason::DesktopFile(".DS_Store")),
    ];

    for (name, reason) in cases {
        for folder in ["", "docs/", ".well-known/"] {
            let path = format!("{folder}{name}");
            assert_eq!(
                SkipRules::default().verdict(path.as_bytes(), false).as_ref(),
                Some(&reason),
                "{path}"
            );
        }
    }
}

#[test]
fn ordinary_and_odd_names_are_kept() {
    for path in ["index.html", "a/b.c", "log", "tmp.html", "thumbs.dbx", "_redirects", "caf\u{e9}", "a~b"] {
        assert_eq!(SkipRules::default().verdict(path.as_bytes(), false), None, "{path}");
    }
    assert_eq!(SkipRules::default().verdict(b"\xff\xfe.txt", false), None);
}

#[test]
fn well_known_is_served_from_the_root_of_a_site_only() {
    let rules = SkipRules::default();
    for host in ["a.test", "*.a.test", "_wildcard.a.test"] {
        assert_eq!(rules.verdict(format!("_hosts/{host}/.well-known").as_bytes(), true), None);
    }
    assert_eq!(rules.verdict(b"_hosts/.well-known", true), Some(SkipReason::Hidden));
    assert_eq!(rules.verdict(b"_hosts/a.test/b/.well-known", true), Some(SkipReason::Hidden));
    assert_eq!(rules.verdict(b".well-known", true), None);
    assert_eq!(rules.verdict(b".well-known/security.txt", false), None);
    assert_eq!(rules.verdict(b"docs/.well-known", true), Some(SkipReason::Hidden));
    assert_eq!(rules.verdict(b".well-known", false), Some(SkipReason::Hidden));
}

#[test]
fn no_rules_skip_nothing() {
    assert_eq!(SkipRules::none().verdict(b".git", true), None);
    assert_eq!(SkipRules::none().verdict(b"a.log", false), None);
}

#[test]
fn patterns_extend_and_override_built_in_rules() {
    let rules = rules(&["*.psd", "!.htpublic", "/drafts/", "!keep.log"]);
    assert_eq!(rules.verdict(b"art/logo.psd", false), by_flag("*.psd"));
    assert_eq!(rules.verdict(b".htpublic", false), None);
    assert_eq!(rules.verdict(b"logs/keep.log", false), None);
    assert_eq!(rules.verdict(b"logs/other.log", false), Some(SkipReason::Transient(".log")));
    assert_eq!(rules.verdict(b"drafts", true), by_flag("/drafts/"));
    assert_eq!(rules.verdict(b"drafts", false), None);
    assert_eq!(rules.verdict(b"blog/drafts", true), None);
}

#[test]
fn last_matching_pattern_wins() {
    assert_eq!(rules(&["*.md", "!README.md"]).verdict(b"README.md", false), None);
    assert_eq!(rules(&["!README.md", "*.md"]).verdict(b"README.md", false), by_flag("*.md"));
}

#[test]
fn pattern_matches_a_name_that_is_not_utf8() {
    assert_eq!(rules(&["*.raw"]).verdict(b"\xff.raw", false), by_flag("*.raw"));
}

#[test]
fn invalid_lines_of_the_ignore_file_are_reported() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join(IGNORE_FILE), b"\xef\xbb\xbf*.bak\r\n# comment\r\n\r\n[z-a]\r\n").unwrap();
    let mut rules = SkipRules::default();
    let diagnostics = rules.add_ignore_file(root.path(), LinksOut::Reported).unwrap();
    assert_eq!(diagnostics.len(), 1);
    assert_eq!((diagnostics[0].line, diagnostics[0].code), (Some(4), "bad-ignore-pattern"));
    let reason = rules.verdict(b"old.bak", false).unwrap();
    assert_eq!(reason.to_string(), "`*.bak` in .canneryignore matches it");
}

#[test]
fn missing_ignore_file_is_accepted() {
    let root = tempfile::tempdir().unwrap();
    assert_eq!(SkipRules::default().add_ignore_file(root.path(), LinksOut::Reported).unwrap(), []);
}

/// Reading a FIFO used to wait until something was written to it, and `/dev/zero` or sparse files
/// would fill the memory.
#[test]
fn ignore_file_must_be_a_short_regular_file() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join(IGNORE_FILE);
    let error = || {
        let error = SkipRules::default().add_ignore_file(root.path(), LinksOut::Reported).unwrap_err();
        assert!(error.to_string().contains(".canneryignore"), "{error}");
        error
    };

    fs::create_dir(&path).unwrap();
    assert!(matches!(error(), IgnoreFileError::NotAFile { kind: "a folder", .. }));
    fs::remove_dir(&path).unwrap();
    if cfg!(target_os = "linux") {
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        assert!(matches!(error(), IgnoreFileError::NotAFile { kind: "a named pipe", .. }));
        fs::remove_file(&path).unwrap();
    }
    for (target, is_right) in [
        ("/dev/zero", (|error| matches!(error, IgnoreFileError::NotAFile { .. })) as fn(_) -> bool),
        ("missing", |error| matches!(error, IgnoreFileError::Dangling { .. })),
        (IGNORE_FILE, |error| matches!(error, IgnoreFileError::Read { .. })),
    ] {
        symlink(target, &path).unwrap();
        assert!(is_right(error()), "{target}");
        fs::remove_file(&path).unwrap();
    }
    let file = fs::File::create(&path).unwrap();
    file.set_len(3 << 30).unwrap();
    assert!(matches!(error(), IgnoreFileError::TooLong { .. }));
    file.set_len(0).unwrap();
    fs::write(&path, "a\n".repeat(1 << 10)).unwrap();
    assert!(SkipRules::default().add_ignore_file(root.path(), LinksOut::Reported).is_ok());
}

/// The sandbox didn't let us open it, and the message was about permissions.
#[test]
fn ignore_file_outside_of_the_folder_is_read_only_if_links_are_followed() {
    let parent = tempfile::tempdir().unwrap();
    let root = parent.path().join("site");
    fs::create_dir(&root).unwrap();
    fs::write(parent.path().join("patterns"), "*.bak").unwrap();
    symlink("../patterns", root.join(IGNORE_FILE)).unwrap();
    for links_out in [LinksOut::Reported, LinksOut::Allowed] {
        let mut rules = SkipRules::default();
        assert_eq!(rules.add_ignore_file(&root, links_out).unwrap(), []);
        assert!(rules.verdict(b"a.bak", false).is_some());
    }
    let error = SkipRules::default().add_ignore_file(&root, LinksOut::LeftOut).unwrap_err();
    assert!(matches!(&error, IgnoreFileError::Outside { target, .. } if target.ends_with("patterns")));

    fs::remove_file(root.join(IGNORE_FILE)).unwrap();
    fs::write(root.join("own"), "*.bak").unwrap();
    symlink("own", root.join(IGNORE_FILE)).unwrap();
    assert!(SkipRules::default().add_ignore_file(&root, LinksOut::LeftOut).is_ok());
}

/// The error message used to be about an ignore file in it.
#[test]
fn source_folder_that_links_to_itself_is_reported_by_the_walk() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("loop");
    symlink("loop", &root).unwrap();
    assert_eq!(SkipRules::default().add_ignore_file(&root, LinksOut::Reported).unwrap(), []);
}

#[test]
fn invalid_pattern_is_an_error() {
    let error = SkipRules::default().add_pattern("[z-a]").unwrap_err();
    assert_eq!(error.to_string(), "`[z-a]` is not a gitignore pattern");
}

#[test]
fn every_reason_is_displayed() {
    assert_eq!(SkipReason::Hidden.to_string(), "its name begins with `.`");
    assert_eq!(SkipReason::Transient(".log").to_string(), "its name ends with `.log`");
}

#[test]
fn changes_of_names_that_are_left_out_do_not_matter() {
    let rules = SkipRules::default();
    let matters = |path: &str, is_folder| rules.may_matter(Path::new(path), is_folder);
    assert!(matters(IGNORE_FILE, false) && matters("a.html", false) && matters("docs", true));
    assert!(!matters("a.html~", false) && !matters(".git", true) && !matters("docs/.canneryignore", false));
}
