//! Tests of `cannery extract`.

use super::*;
use crate::commands::sample::{INDEX, NOT_FOUND, REDIRECTS, Sample, TEXT};
use crate::output::Exit;

fn extract(sample: &Sample, directory: &Path, force: bool) -> Result<(), Failure> {
    run(&Extract { archive: sample.archive.clone(), directory: directory.to_owned(), force, quiet: true })
}

fn exit(result: &Result<(), Failure>) -> Exit {
    let Err(Failure::Message { exit, .. }) = result else { panic!("no failure: {result:?}") };
    *exit
}

#[test]
fn every_source_file_is_restored() {
    let sample = Sample::write();
    let out = sample.folder().join("out");
    extract(&sample, &out, false).unwrap();
    for (name, content) in [
        ("index.html", INDEX),
        ("copy.html", INDEX),
        ("a/coded only.txt", TEXT),
        ("_hosts/h.test/index.html", INDEX),
        ("_redirects", REDIRECTS),
        ("_404.html", NOT_FOUND),
    ] {
        assert_eq!(fs::read(out.join(name)).unwrap(), content, "{name}");
    }
    assert!(!out.join("go").exists(), "a rule is not a file");
}

#[test]
fn only_force_writes_to_a_directory_with_files() {
    let sample = Sample::write();
    let out = sample.folder().join("out");
    fs::create_dir(&out).unwrap();
    fs::write(out.join("index.html"), "old").unwrap();
    assert_eq!(exit(&extract(&sample, &out, false)), Exit::Output);
    assert_eq!(fs::read(out.join("index.html")).unwrap(), b"old");
    extract(&sample, &out, true).unwrap();
    assert_eq!(fs::read(out.join("index.html")).unwrap(), INDEX);
}

#[test]
fn symbolic_links_are_not_followed() {
    let sample = Sample::write();
    let (out, elsewhere) = (sample.folder().join("out"), sample.folder().join("elsewhere"));
    fs::create_dir(&out).unwrap();
    fs::create_dir(&elsewhere).unwrap();
    fs::write(elsewhere.join("file"), "kept").unwrap();
    std::os::unix::fs::symlink(elsewhere.join("file"), out.join("index.html")).unwrap();
    std::os::unix::fs::symlink(&elsewhere, out.join("a")).unwrap();
    assert_eq!(exit(&extract(&sample, &out, true)), Exit::Output);
    assert_eq!(fs::read(elsewhere.join("file")).unwrap(), b"kept");
    assert!(!elsewhere.join("coded only.txt").exists());
}

#[test]
fn names_outside_the_directory_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let target = Target { directory: folder.path(), force: true, files: 0, bytes: 0 };
    for name in ["", "..", "../a", "a/../../b", "/a", "a//b", "./a", "a\0b", "a/"] {
        assert!(target.create_parents(name.as_bytes()).is_err(), "{name:?}");
    }
    assert_eq!(target.create_parents(b"a/b").unwrap(), folder.path().join("a/b"));
}
