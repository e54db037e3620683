//! Unit tests of the walk: real folders with links, pipes and unreadable files.

use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::process::Command;

use super::*;

/// Creates a source root with these files. Each contains its own path.
fn site(files: &[&[u8]]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for file in files {
        let path = root.path().join(OsStr::from_bytes(file));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, file).unwrap();
    }
    root
}

fn walk_all(root: &tempfile::TempDir) -> Walked {
    walk(root.path(), &SkipRules::default(), LinksOut::Allowed).unwrap()
}

fn paths(walked: &Walked) -> Vec<&[u8]> {
    walked.files.iter().map(|file| &*file.path).collect()
}

fn codes(walked: &Walked) -> Vec<(&str, &str)> {
    walked.diagnostics.iter().map(|diagnostic| (&*diagnostic.file, diagnostic.code)).collect()
}

#[test]
fn files_and_folders_are_sorted_by_bytes() {
    let root = site(&[b"b/z", b"b.txt", b"a", b"b/a/x", b"B"]);
    fs::create_dir(root.path().join("empty")).unwrap();
    let walked = walk_all(&root);
    assert_eq!(paths(&walked), [&b"B"[..], b"a", b"b.txt", b"b/a/x", b"b/z"]);
    let folders: Vec<&[u8]> = walked.folders.iter().map(|folder| &**folder).collect();
    assert_eq!(folders, [&b""[..], b"b", b"b/a", b"empty"]);
    assert_eq!(walked.diagnostics, []);
}

#[test]
fn stamp_has_size_times_and_identity() {
    let root = site(&[b"four"]);
    fs::hard_link(root.path().join("four"), root.path().join("same")).unwrap();
    let walked = walk_all(&root);
    let metadata = fs::metadata(root.path().join("four")).unwrap();
    assert_eq!(walked.files[0].stamp, walked.files[1].stamp);
    assert_eq!(walked.files[0].stamp.version.size, 4);
    assert_eq!(walked.files[0].stamp.version.inode, metadata.ino());
    let modified = metadata.modified().unwrap().duration_since(std::time::UNIX_EPOCH).unwrap();
    assert_eq!(walked.files[0].stamp.version.modified_ns, i128::try_from(modified.as_nanos()).unwrap());
}

#[test]
fn name_that_is_not_utf8_is_listed() {
    let root = site(&[b"caf\xe9/\xff.txt"]);
    assert_eq!(paths(&walk_all(&root)), [b"caf\xe9/\xff.txt"]);
}

#[test]
fn symlinks_out_of_the_root_are_followed() {
    let outside = site(&[b"far/away"]);
    let root = site(&[b"here"]);
    symlink(outside.path().join("far"), root.path().join("near")).unwrap();
    symlink("here", root.path().join("there")).unwrap();
    let walked = walk_all(&root);
    assert_eq!(paths(&walked), [&b"here"[..], b"near/away", b"there"]);
    assert_eq!(walked.files[0].stamp, walked.files[2].stamp);
}

#[test]
fn link_out_of_the_root_is_reported_once() {
    let outside = site(&[b"far/away", b"far/below/x", b"lone"]);
    symlink("away", outside.path().join("far/again")).unwrap();
    symlink("../../lone", outside.path().join("far/below/lone")).unwrap();
    let root = site(&[b"here", b"sub/x"]);
    symlink(outside.path().join("far"), root.path().join("near")).unwrap();
    symlink(outside.path().join("lone"), root.path().join("sub/lone")).unwrap();
    symlink("../here", root.path().join("sub/here")).unwrap();
    symlink(outside.path().join("lone"), root.path().join(".hidden")).unwrap();
    let walked = walk(root.path(), &SkipRules::default(), LinksOut::Reported).unwrap();
    assert_eq!(walked.files.len(), 8);
    let expected = [("near", OUTSIDE), ("near/below/lone", OUTSIDE), ("sub/lone", OUTSIDE)];
    assert_eq!(codes(&walked), expected);
}

#[test]
fn many_links_out_of_the_root_are_counted() {
    let outside = site(&[b"x"]);
    let root = site(&[b"here"]);
    for number in 0..20 {
        symlink(outside.path().join("x"), root.path().join(format!("{number:02}"))).unwrap();
    }
    let walked = walk(root.path(), &SkipRules::default(), LinksOut::Reported).unwrap();
    assert_eq!(walked.files.len(), 21);
    assert_eq!(codes(&walked).len(), OUTSIDE_REPORTED_MAX + 1);
    assert!(walked.diagnostics[OUTSIDE_REPORTED_MAX].message.starts_with("15 more symlinks"));
}

#[test]
fn links_that_fan_out_are_bounded() {
    let root = site(&[b"30/leaf"]);
    for number in 0..30 {
        let folder = root.path().join(number.to_string());
        fs::create_dir(&folder).unwrap();
        symlink(format!("../{}", number + 1), folder.join("a")).unwrap();
        symlink(format!("../{}", number + 1), folder.join("b")).unwrap();
    }
    let walked = walk_all(&root);
    assert!(walked.folders.len() <= 31 * (LINKED_PATHS_MAX + 3), "{}", walked.folders.len());
    assert!(paths(&walked).contains(&&b"29/a/leaf"[..]));
    assert!(walked.diagnostics.iter().all(|diagnostic| diagnostic.code == "symlink-fan"));
    assert!(!walked.diagnostics.is_empty());
}

#[test]
fn many_links_to_one_folder_are_all_followed() {
    let root = site(&[b"assets/x"]);
    for number in 0..1000 {
        fs::create_dir(root.path().join(number.to_string())).unwrap();
        symlink("../assets", root.path().join(format!("{number}/assets"))).unwrap();
    }
    let walked = walk_all(&root);
    assert_eq!(walked.files.len(), 1001);
    assert_eq!(walked.diagnostics, []);
}

#[test]
fn link_to_a_sibling_is_not_a_loop() {
    let root = site(&[b"a/x"]);
    symlink("a", root.path().join("b")).unwrap();
    let walked = walk_all(&root);
    assert_eq!(paths(&walked), [b"a/x", b"b/x"]);
    assert_eq!(walked.diagnostics, []);
}

#[test]
fn loops_are_left_out_with_a_warning() {
    let root = site(&[b"a/b/x"]);
    symlink("../..", root.path().join("a/b/up")).unwrap();
    symlink(".", root.path().join("self")).unwrap();
    let walked = walk_all(&root);
    assert_eq!(paths(&walked), [b"a/b/x"]);
    assert_eq!(codes(&walked), [("a/b/up", "symlink-loop"), ("self", "symlink-loop")]);
}

#[test]
fn unservable_entries_are_warnings() {
    let root = site(&[b"x"]);
    symlink("nowhere", root.path().join("broken")).unwrap();
    symlink("circle", root.path().join("circle")).unwrap();
    symlink("/dev/null", root.path().join("null")).unwrap();
    let _socket = UnixListener::bind(root.path().join("socket")).unwrap();
    assert!(Command::new("mkfifo").arg(root.path().join("pipe")).status().unwrap().success());
    let walked = walk_all(&root);
    assert_eq!(paths(&walked), [b"x"]);
    let expected = [
        ("broken", "broken-symlink"),
        ("circle", "broken-symlink"),
        ("null", "not-a-file"),
        ("pipe", "not-a-file"),
        ("socket", "not-a-file"),
    ];
    assert_eq!(codes(&walked), expected);
    assert_eq!(walked.diagnostics[3].message, "a named pipe cannot be served and is left out");
}

#[test]
fn skipped_folders_are_not_read() {
    let root = site(&[b".git/config", b"a.log", b"x", b".well-known/security.txt"]);
    symlink("user@host.123", root.path().join(".#x")).unwrap();
    let walked = walk_all(&root);
    assert_eq!(paths(&walked), [&b".well-known/security.txt"[..], b"x"]);
    let skipped: Vec<_> = walked.skipped.iter().map(|skipped| (&*skipped.path, skipped.is_folder)).collect();
    assert_eq!(skipped, [(&b".#x"[..], false), (b".git", true), (b"a.log", false)]);
    assert_eq!(walked.diagnostics, []);
}

#[test]
fn root_may_be_a_symlink() {
    let root = site(&[b"site/x"]);
    let link = root.path().join("link");
    symlink("site", &link).unwrap();
    assert_eq!(paths(&walk(&link, &SkipRules::default(), LinksOut::Reported).unwrap()), [b"x"]);
}

#[test]
fn missing_root_is_an_error() {
    let root = tempfile::tempdir().unwrap();
    let error = walk(&root.path().join("none"), &SkipRules::default(), LinksOut::Reported).unwrap_err();
    assert!(matches!(error, WalkError::Root { .. }), "{error}");
}

#[test]
fn root_that_is_a_file_is_an_error() {
    let root = site(&[b"file"]);
    let error = walk(&root.path().join("file"), &SkipRules::default(), LinksOut::Reported).unwrap_err();
    assert!(matches!(error, WalkError::NotAFolder { .. }), "{error}");
}

#[test]
fn deep_tree_is_walked_up_to_the_path_limit() {
    let root = tempfile::tempdir().unwrap();
    let mut deep = root.path().to_owned();
    for _ in 0..500 {
        deep.push("d");
    }
    fs::create_dir_all(&deep).unwrap();
    fs::write(deep.join("leaf"), b"").unwrap();
    let walked = walk_all(&root);
    assert_eq!(walked.files.len(), 1);
    assert_eq!(walked.folders.len(), 501);
}
