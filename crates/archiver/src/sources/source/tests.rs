//! Unit tests of reading sources.

use std::fs;

use cannery_archive::Coding;

use super::*;
use crate::releases::bundles::vite;
use crate::routes::content_encoding::{Examined, examine};
use crate::settings::options::Options;
use crate::tree::boundary::LinksOut;

pub(crate) fn sources(root: &tempfile::TempDir, name: &str) -> Sources {
    let stamp = FileStamp::of(&fs::metadata(root.path().join(name)).unwrap());
    Sources {
        root: root.path().to_owned(),
        confinement: Confinement::default(),
        files: vec![SourceFile { path: name.as_bytes().into(), stamp }],
        folders: vec![Box::default()],
        generated: vec![Generated {
            path: b"made".as_slice().into(),
            page: Arc::new(GeneratedPage { content: b"by us".to_vec(), ..GeneratedPage::default() }),
        }],
        earlier: None,
        unsettled: Mutex::default(),
        precompressed: BTreeMap::new(),
        skipped: Vec::new(),
        unusable: Vec::new(),
        unreadable: None,
        unreadable_before: 0,
        script_pages: None,
    }
}

#[test]
fn files_are_read_whole() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("a"), b"content").unwrap();
    let sources = sources(&root, "a");
    let mut bytes = b"before".to_vec();
    assert_eq!(sources.read(0, &mut bytes).unwrap(), sources.files[0].stamp);
    assert_eq!(bytes, b"content");
    sources.read(1, &mut bytes).unwrap();
    assert_eq!(bytes, b"by us");
    let (streamed, _) =
        sources.stream(0, Vec::new, |all: &mut Vec<u8>, piece| all.extend_from_slice(piece)).unwrap();
    assert_eq!(streamed, b"content");
}

#[test]
fn file_changed_since_the_walk_is_read_again() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("a");
    fs::write(&path, b"a long content").unwrap();
    let sources = sources(&root, "a");
    for content in [b"short".as_slice(), b"a much longer content than before"] {
        fs::write(&path, content).unwrap();
        let mut bytes = Vec::new();
        let stamp = sources.read(0, &mut bytes).unwrap();
        assert_eq!((bytes.as_slice(), stamp.version.size), (content, content.len() as u64));
    }
}

#[test]
fn file_that_keeps_changing_is_an_error() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("a");
    fs::write(&path, b"").unwrap();
    let stamp = FileStamp::of(&fs::metadata(&path).unwrap());
    let mut length = 0;
    let outcome = unchanged(&Confinement::default(), &path, stamp, |_, _| {
        length += 1;
        fs::write(&path, vec![0; length])
    });
    assert!(matches!(outcome, Err(Error::Changing { path: named }) if named == path));
    assert_eq!(length, ATTEMPTS_MAX as usize);
}

#[test]
fn missing_file_is_an_error_with_its_path() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("a"), b"content").unwrap();
    let sources = sources(&root, "a");
    fs::remove_file(root.path().join("a")).unwrap();
    let error = sources.read(0, &mut Vec::new()).unwrap_err();
    assert!(matches!(&error, Error::Read { path, .. } if path.ends_with("a")), "{error}");
}

#[test]
fn content_with_another_digest_is_an_error() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("a"), b"content").unwrap();
    let sources = sources(&root, "a");
    assert_eq!(*sources.read_again(0, &Digest::of(b"content")).unwrap(), *b"content");
    assert!(matches!(sources.read_again(0, &Digest::of(b"other")), Err(Error::Changing { .. })));
}

/// We couldn't compile the folder until all of them were readable.
#[test]
fn unreadable_files_of_a_folder_that_is_edited_are_set_aside() {
    let root = tempfile::tempdir().unwrap();
    let name = "index-BIOfnJmv.js";
    for (path, content) in
        [(name, ""), ("a.html", "<script type=\"module\" crossorigin src=\"/index-BIOfnJmv.js\">")]
    {
        fs::write(root.path().join(path), content).unwrap();
    }
    let mut sources = sources(&root, name);
    let page = SourceFile { path: b"a.html".as_slice().into(), ..sources.files[0].clone() };
    let stamp = FileStamp::of(&fs::metadata(root.path().join("a.html")).unwrap());
    sources.files.push(SourceFile { stamp, ..page });
    fs::remove_file(root.path().join(name)).unwrap();
    // Not even the superuser can open it.
    std::os::unix::fs::symlink(name, root.path().join(name)).unwrap();
    let options = Options::new(root.path(), "");
    assert!(examine(&sources, 0, Coding::Gzip).is_err() && vite::chunks(&sources, &options).is_err());

    sources.unreadable = Some(UnreadableFiles::default());
    sources.check_unreadable().unwrap();
    assert!(matches!(examine(&sources, 0, Coding::Gzip), Ok(Examined::SetAside)));
    assert!(matches!(sources.check_unreadable(), Err(Error::Unreadable { .. })));
    sources.unreadable = Some(UnreadableFiles::default());
    assert!(vite::chunks(&sources, &options).is_ok());
    assert!(matches!(sources.check_unreadable(), Err(Error::Unreadable { .. })));
    sources.unreadable_before = 1;
    sources.check_unreadable().unwrap();
}

/// Only the walk used to leave out links that lead out of the folder.
#[test]
fn file_exchanged_for_a_link_out_of_the_folder_has_vanished() {
    let root = tempfile::tempdir().unwrap();
    let private = tempfile::tempdir().unwrap();
    fs::write(private.path().join("key"), b"secret").unwrap();
    fs::write(root.path().join("a"), b"content").unwrap();
    fs::create_dir(root.path().join("b")).unwrap();
    fs::write(root.path().join("b/key"), b"content").unwrap();
    for name in ["a", "b/key"] {
        for is_edited in [false, true] {
            let mut sources = sources(&root, name);
            sources.confinement = Confinement::of(root.path(), LinksOut::LeftOut);
            sources.earlier = is_edited.then(Earlier::default);
            assert!(sources.read(0, &mut Vec::new()).is_ok(), "{name}");
            let (kept, path) = (root.path().join("kept"), root.path().join(&name[..1]));
            fs::rename(&path, &kept).unwrap();
            let target = if name == "a" { private.path().join("key") } else { private.path().to_owned() };
            std::os::unix::fs::symlink(target, &path).unwrap();

            let mut bytes = Vec::new();
            let error = sources.read(0, &mut bytes).unwrap_err();
            assert!(error.is_transient() && bytes.is_empty(), "{name}: {error}");
            let streamed = sources.stream(0, Vec::new, |all: &mut Vec<u8>, piece| all.extend(piece));
            assert!(streamed.is_err() && sources.open(0).is_err(), "{name}");
            let captured = capture(&sources.confinement, &sources.full_path(0));
            assert!(captured.is_err_and(|error| error.is_transient()), "{name}");
            fs::remove_file(&path).unwrap();
            fs::rename(&kept, &path).unwrap();
        }
    }
}

/// We used to publish it as an empty file.
#[test]
#[cfg(target_os = "linux")]
fn file_with_a_false_length_is_an_error() {
    let path = Path::new("/proc/version");
    let stamp = FileStamp::of(&fs::metadata(path).unwrap());
    assert_eq!(stamp.version.size, 0);
    let read = |file: &mut File, stamp: &FileStamp| read_whole(file, stamp, &mut Vec::new());
    let all = Confinement::default();
    for outcome in [
        unchanged(&all, path, stamp, read),
        settled(&all, path, read),
        capture(&all, path).map(|(stamp, _)| stamp),
    ] {
        let Err(Error::Read { source, .. }) = outcome else { panic!("{outcome:?}") };
        assert_eq!(source.kind(), ErrorKind::InvalidData);
    }
}

/// When we opened it, we waited for a writer.
#[test]
#[cfg(target_os = "linux")]
fn fifo_instead_of_a_file_has_vanished() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    assert_eq!(folder_file::open(&path).unwrap_err().kind(), ErrorKind::NotFound);
}
