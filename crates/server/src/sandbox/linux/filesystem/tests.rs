//! Unit tests of the Landlock rules.

use std::os::unix::fs::symlink;

use super::*;

#[test]
fn a_file_may_be_replaced_in_its_folder() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    fs::write(root.join("site.cdb"), "").unwrap();
    assert_eq!(replacement_directories(&root.join("site.cdb")), [root.as_path()]);
    assert_eq!(replacement_directories(&root.join("not-there-yet.log")), [root.as_path()]);
}

#[test]
fn links_anywhere_in_the_path_may_change() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    fs::create_dir_all(root.join("app/releases/1")).unwrap();
    fs::write(root.join("app/releases/1/site.cdb"), "").unwrap();
    symlink("releases/1", root.join("app/current")).unwrap();
    let expected = [root.join("app"), root.join("app/releases/1")];
    assert_eq!(replacement_directories(&root.join("app/current/site.cdb")), expected);
    symlink(root.join("app/../app/current/site.cdb"), root.join("site.cdb")).unwrap();
    let expected = [root.clone(), root.join("app"), root.join("app/releases/1")];
    assert_eq!(replacement_directories(&root.join("site.cdb")), expected);
}

#[test]
fn unix_socket_may_be_removed() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let path = root.join("s.sock");
    let _socket = std::os::unix::net::UnixListener::bind(&path).unwrap();
    symlink(&root, root.join("link")).unwrap();
    for path in [path, root.join("link/s.sock"), root.join("not-there.sock")] {
        let plan = Plan { remove: vec![path], ..Plan::default() };
        assert_eq!(allowed(&plan), [(root.clone(), AccessFs::RemoveFile.into())]);
    }
    let in_root = Plan { remove: vec!["/s.sock".into()], ..Plan::default() };
    assert_eq!(allowed(&in_root), []);
}

#[test]
fn empty_rule_is_omitted() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let rules = Ruleset::default().set_compatibility(CompatLevel::BestEffort);
    let mut rules = rules.handle_access(AccessFs::from_all(REQUESTED)).unwrap().create().unwrap();
    allow(&mut rules, &file, AccessFs::RemoveFile.into()).unwrap();
    allow(&mut rules, &folder.path().join("not there"), AccessFs::ReadFile.into()).unwrap();
}

#[test]
fn root_is_never_allowed_and_link_loops_end() {
    assert_eq!(replacement_directories(Path::new("/site.cdb")), [Path::new("/site.cdb")]);
    assert_eq!(replacement_directories(Path::new("/dev/null")), [Path::new("/dev/null")]);
    let folder = tempfile::tempdir().unwrap();
    symlink("b", folder.path().join("a")).unwrap();
    symlink("a", folder.path().join("b")).unwrap();
    assert!(
        replacement_directories(&folder.path().join("a")).iter().all(|directory| directory != Path::new("/"))
    );
}
