//! Tests builds in memory: which files are read again, and what happens while an editor is writing.

use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use cannery_archive::{Coding, Digest};

use super::*;
use crate::builds::changes::Change;
use crate::ground::progress::Stage;
use crate::properties::precompressed::Precompressed;
use crate::routes::content_encoding::{Examined, examine};

fn compiler(root: &Path) -> Compiler {
    let mut options = Options::new(root, "");
    options.allow_empty = true;
    Compiler::new(options)
}

fn build(compiler: &Compiler, effort: Effort) -> Build {
    compiler.build(effort, &CancelFlag::default(), &()).unwrap()
}

/// Returns `true` if the archive has this content.
fn has(build: &Build, content: &str) -> bool {
    let archive = Archive::from_file(&build.archive, Loading::Mapped).unwrap();
    archive.find_body(&Digest::of(content.as_bytes())).unwrap().is_some()
}

fn change(path: &str, bytes_before: Option<u64>, bytes_after: Option<u64>) -> Change {
    Change { path: path.to_owned(), bytes_before, bytes_after }
}

/// Makes all files in a folder old enough to be recognized by their stamps, as builds read files again within two seconds after
/// a change.
///
/// Only the inode change time counts. We can't set that, so the last build's knowledge is changed instead.
fn age(compiler: &Compiler) {
    let mut history = compiler.history();
    let last = history.last.take().unwrap();
    let mut last = Arc::into_inner(last).unwrap();
    for file in Arc::make_mut(&mut last.files).values_mut() {
        file.is_settled = true;
    }
    history.last = Some(Arc::new(last));
}

#[test]
fn archive_is_that_of_a_single_build() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("site");
    fs::create_dir(&root).unwrap();
    let text = "a page of a site, a page of a site, a page of a site. ".repeat(20);
    fs::write(root.join("index.html"), &text).unwrap();
    fs::write(root.join("_redirects"), "/old / 301\n").unwrap();
    let path = folder.path().join("site.cdb");
    let single = crate::compile(&Options::new(&root, &path), &()).unwrap();

    let compiler = compiler(&root);
    let quick = build(&compiler, Effort::Quick);
    assert_eq!((quick.number, quick.deferred), (1, 2));
    assert_ne!(quick.report.digest, single.digest);
    for _ in 0..2 {
        let full = build(&compiler, Effort::Full);
        assert_eq!((full.deferred, full.files.changes_since(&quick.files)), (0, vec![]));
        assert_eq!(full.report.digest, single.digest);
    }
    // Now the cache has all compressed contents.
    let quick = build(&compiler, Effort::Quick);
    assert_eq!((quick.deferred, quick.report.digest), (0, single.digest));
}

/// Many unchanged bodies at a time are copied from the last archive.
///
/// Since large ones are aligned, they need different padding.
#[test]
fn archive_after_edits_is_that_of_a_single_build() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("site");
    fs::create_dir(&root).unwrap();
    let page = |number: usize, words: usize| format!("<p>page {number} ").repeat(words);
    for number in 0..200 {
        let words = if number % 20 == 0 { 20_000 } else { 10 + number };
        fs::write(root.join(format!("{number}.html")), page(number, words)).unwrap();
    }

    let mut options = Options::new(&root, folder.path().join("site.cdb"));
    options.include_folder_listing = true;
    options.allow_empty = true;
    let compiler = Compiler::new(options.clone());

    let edits: [fn(&Path); 6] = [
        |_| {},
        |root| fs::write(root.join("77.html"), "shorter").unwrap(),
        |root| fs::write(root.join("100.html"), "from large to small").unwrap(),
        |root| fs::remove_file(root.join("3.html")).unwrap(),
        |root| fs::write(root.join("0000.html"), "the first one ".repeat(100)).unwrap(),
        |root| fs::copy(root.join("40.html"), root.join("z.html")).map(drop).unwrap(),
    ];

    for (number, edit) in edits.into_iter().enumerate() {
        edit(&root);
        build(&compiler, Effort::Quick);
        let full = build(&compiler, Effort::Full);
        let single = crate::compile(&options, &()).unwrap();
        assert_eq!(full.report.digest, single.digest, "edit {number}");
        let quick = build(&compiler, Effort::Quick);
        assert_eq!((quick.deferred, &quick.report.digest), (0, &single.digest), "edit {number}");
        let archive = Archive::from_file(&quick.archive, Loading::Mapped).unwrap();
        archive.verify(|_| ()).unwrap();
        age(&compiler);
    }
}

#[test]
fn only_changed_files_are_read_and_compressed() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["index.html", "b.html"] {
        fs::write(folder.path().join(name), format!("{name} ").repeat(100)).unwrap();
    }
    let compiler = compiler(folder.path());
    let first = build(&compiler, Effort::Full);
    assert_eq!((first.report.caches.files_read, first.report.caches.encodings_made), (2, 4));
    age(&compiler);

    fs::write(folder.path().join("b.html"), "another ".repeat(100)).unwrap();
    let second = build(&compiler, Effort::Full);
    assert_eq!((second.report.caches.files_read, second.report.caches.encodings_made), (1, 2));
    assert_eq!(second.files.changes_since(&first.files), [change("b.html", Some(700), Some(800))]);
    assert!(has(&second, &"another ".repeat(100)) && has(&second, &"index.html ".repeat(100)));
}

/// Every complete build used to compress all folder listings again.
#[test]
fn generated_pages_are_compressed_once() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("docs")).unwrap();
    for number in 0..50 {
        fs::write(folder.path().join(format!("docs/{number}.bin")), "x").unwrap();
    }
    let mut options = Options::new(folder.path(), "");
    options.allow_empty = true;
    options.include_folder_listing = true;
    let compiler = Compiler::new(options);
    assert!(build(&compiler, Effort::Full).report.caches.encodings_made > 0);
    assert_eq!(build(&compiler, Effort::Full).report.caches.encodings_made, 0);
}

#[test]
fn changes_name_new_and_removed_files() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a"), "one").unwrap();
    let compiler = compiler(folder.path());
    let before = build(&compiler, Effort::Quick);
    fs::remove_file(folder.path().join("a")).unwrap();
    fs::write(folder.path().join("b"), "more").unwrap();
    let expected = [change("a", Some(3), None), change("b", None, Some(4))];
    let after = build(&compiler, Effort::Quick);
    assert_eq!(after.files.changes_since(&before.files), expected);
    // Builds in between don't count.
    let last = build(&compiler, Effort::Full);
    assert_eq!(last.files.changes_since(&before.files), expected);
    assert_eq!(last.files.changes_since(&after.files), []);
}

#[test]
fn half_written_file_keeps_its_last_version() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index.html");
    fs::write(&path, "before").unwrap();
    let compiler = compiler(folder.path());
    build(&compiler, Effort::Quick);

    let mut writer = File::create(&path).unwrap();
    writer.write_all(b"aft").unwrap();
    let meanwhile = build(&compiler, Effort::Quick);
    assert_eq!(meanwhile.unsettled, ["index.html"]);
    assert!(has(&meanwhile, "before") && !has(&meanwhile, "aft"));

    writer.write_all(b"er").unwrap();
    drop(writer);
    let after = build(&compiler, Effort::Quick);
    assert!(after.unsettled.is_empty() && has(&after, "after"));
}

#[test]
fn half_written_new_file_is_left_out() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("index.html"), "home").unwrap();
    let compiler = compiler(folder.path());
    let mut writer = File::create(folder.path().join("new.html")).unwrap();
    writer.write_all(b"half").unwrap();
    let meanwhile = build(&compiler, Effort::Quick);
    assert_eq!(meanwhile.unsettled, ["new.html"]);
    assert!(has(&meanwhile, "home") && !has(&meanwhile, "half"));
    drop(writer);
    assert!(has(&build(&compiler, Effort::Quick), "half"));
}

/// When a folder was replaced while a build read it, a page was missing.
#[test]
fn file_that_an_attempt_cannot_read_keeps_its_last_version() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("known.html"), "before").unwrap();
    let compiler = compiler(folder.path());
    build(&compiler, Effort::Quick);
    fs::write(folder.path().join("known.html"), "after").unwrap();
    fs::write(folder.path().join("new.html"), "new").unwrap();

    let unreliable: BTreeSet<Box<[u8]>> =
        ["known.html", "new.html"].map(|path| path.as_bytes().into()).into();
    let snapshot = compiler.history().last.clone();
    let mut session = Session {
        effort: Effort::Quick,
        cancel: &CancelFlag::default(),
        results: &compiler.results,
        space: Space::new(Arc::clone(&compiler.directory), MEMORY_ARCHIVE_BYTES_MAX),
        listings: Listings::default(),
        earlier: Earlier { snapshot, ..Earlier::default() },
        waits: false,
        unreadable: UnreadableFiles::default(),
        may_be_unfinished: true,
        unreliable: &unreliable,
    };
    let built = crate::build(&compiler.options, Some(&mut session), &()).unwrap();
    let built = compiler.finish(2, built, session.earlier, unreliable.clone()).unwrap();
    assert!(has(&built, "before") && !has(&built, "after") && !has(&built, "new"));
    assert_eq!(built.unsettled, ["known.html", "new.html"]);
    let built = build(&compiler, Effort::Quick);
    assert!(has(&built, "after") && has(&built, "new") && built.unsettled.is_empty());
}

#[test]
fn file_that_is_being_replaced_does_not_vanish() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index.html");
    fs::write(&path, "before").unwrap();
    let compiler = compiler(folder.path());
    let first = build(&compiler, Effort::Quick);
    let is_done = AtomicBool::new(false);
    let (replaced, absent_ms_max) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let _done = SetOnDrop(&is_done);
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                let started = Instant::now();
                let backup = folder.path().join("index.html~");
                fs::rename(&path, &backup).unwrap();
                fs::write(&path, "before").unwrap();
                let absent_ms = u64::try_from(started.elapsed().as_millis()).unwrap();
                absent_ms_max.fetch_max(absent_ms, Ordering::Relaxed);
                replaced.fetch_add(1, Ordering::Release);
                fs::remove_file(backup).unwrap();
            }
        });

        let mut checked = 0;
        for _ in 0..50 {
            absent_ms_max.store(0, Ordering::Relaxed);
            let meanwhile = compiler.build(Effort::Quick, &CancelFlag::default(), &());
            // Wait until the replacement ends that the build may have seen.
            let seen = replaced.load(Ordering::Acquire);
            while replaced.load(Ordering::Acquire) == seen {
                std::thread::yield_now();
            }
            // On a busy machine, the other thread may not run until the file already counts as
            // deleted.
            if absent_ms_max.load(Ordering::Relaxed) >= 25 {
                continue;
            }
            let meanwhile = meanwhile.unwrap();
            assert_eq!(meanwhile.files.changes_since(&first.files), []);
            assert!(has(&meanwhile, "before"));
            checked += 1;
        }
        assert!(checked > 0, "the other thread never ran for long enough");
    });
}

/// Ends a test's other thread, even if an assertion fails.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn canceled_build_keeps_its_results() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("index.html"), "home ".repeat(100)).unwrap();
    let compiler = compiler(folder.path());
    let cancel = CancelFlag::default();
    cancel.cancel();
    assert!(matches!(compiler.build(Effort::Full, &cancel, &()), Err(Error::Canceled)));

    // This build gets canceled after it has compressed.
    struct CancelAtWrite<'a>(&'a CancelFlag);
    impl Progress for CancelAtWrite<'_> {
        fn stage(&self, stage: Stage, _: Option<u64>) {
            assert!(stage != Stage::Links, "canceled before");
            if stage == Stage::Write {
                self.0.cancel();
            }
        }

        fn advance(&self, _: u64) {}
    }
    let cancel = CancelFlag::default();
    let canceled = compiler.build(Effort::Full, &cancel, &CancelAtWrite(&cancel));
    assert!(matches!(canceled, Err(Error::Canceled)));
    let quick = build(&compiler, Effort::Quick);
    assert_eq!((quick.deferred, quick.report.caches.encodings_found), (0, 2));
}

#[test]
fn removed_folder_is_an_error_until_it_returns() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("site");
    fs::create_dir(&root).unwrap();
    fs::write(root.join("index.html"), "home").unwrap();
    let compiler = compiler(&root);
    let before = build(&compiler, Effort::Quick);
    let away = folder.path().join("away");
    fs::rename(&root, &away).unwrap();
    let error = compiler.build(Effort::Quick, &CancelFlag::default(), &()).unwrap_err();
    assert!(matches!(error, Error::Walk(_)), "{error}");
    fs::rename(&away, &root).unwrap();
    let back = build(&compiler, Effort::Quick);
    assert!(back.files.changes_since(&before.files).is_empty() && has(&back, "home"));
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut coded = vec![0; 1000];
    let level = libdeflater::CompressionLvl::new(6).unwrap();
    let length = libdeflater::Compressor::new(level).gzip_compress(content, &mut coded).unwrap();
    coded.truncate(length);
    coded
}

/// Every quick build used to read and decode all of them.
#[test]
fn unchanged_compressed_file_is_not_decoded_again() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("_headers"), "/*.gz\n  Content-Encoding: gzip\n").unwrap();
    let path = folder.path().join("a.js.gz");
    fs::write(&path, gzip(b"the code")).unwrap();
    let compiler = compiler(folder.path());
    assert!(has(&build(&compiler, Effort::Quick), "the code"));
    age(&compiler);

    let mut sources = crate::sources::source::tests::sources(&folder, "a.js.gz");
    sources.earlier = Some(Earlier { snapshot: compiler.history().last.clone(), ..Earlier::default() });
    fs::rename(&path, folder.path().join("kept")).unwrap();
    let Ok(Examined::Decoded(found)) = examine(&sources, 0, Coding::Gzip) else { panic!("it was read") };
    assert_eq!(found, Precompressed { coding: Coding::Gzip, length: 8 });
    sources.precompressed.insert(0, found);
    let mut bytes = Vec::new();
    sources.read(0, &mut bytes).unwrap();
    assert_eq!(bytes, b"the code");
    drop(sources);

    fs::rename(folder.path().join("kept"), &path).unwrap();
    assert!(has(&build(&compiler, Effort::Quick), "the code"));
    fs::write(folder.path().join("_headers"), "/*.gz\n  Content-Encoding: br\n").unwrap();
    let error = compiler.build(Effort::Quick, &CancelFlag::default(), &()).unwrap_err();
    assert!(matches!(error, Error::Sources { .. }), "{error}");
    fs::write(folder.path().join("_headers"), "/*.gz\n  Content-Encoding: gzip\n").unwrap();
    fs::write(&path, gzip(b"other code")).unwrap();
    let built = build(&compiler, Effort::Quick);
    assert!(has(&built, "other code") && !has(&built, "the code"));
}

/// If a folder was emptied later, the build believed it at once.
#[test]
fn another_error_ends_the_wait_for_an_incomplete_folder() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index.html");
    fs::write(&path, "page").unwrap();
    let compiler = compiler(folder.path());
    build(&compiler, Effort::Quick);
    let error = || compiler.build(Effort::Quick, &CancelFlag::default(), &()).unwrap_err();

    fs::remove_file(&path).unwrap();
    assert!(error().is_unfinished());
    assert!(compiler.history().unfinished_since.is_some());
    fs::create_dir(folder.path().join(".canneryignore")).unwrap();
    assert!(matches!(error(), Error::IgnoreFile(_)));
    assert_eq!(compiler.history().unfinished_since, None);
}

#[test]
fn short_lived_files_do_not_fail_builds() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("index.html"), "home").unwrap();
    // Most of the files should stay: if a build loses most of them, it assumes that the folder is just
    // being replaced.
    for number in 0..100 {
        fs::write(folder.path().join(format!("page{number}.html")), "a page").unwrap();
    }
    let compiler = compiler(folder.path());
    build(&compiler, Effort::Quick);

    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _done = SetOnDrop(&is_done);
        scope.spawn(|| {
            let mut number = 0;
            while !is_done.load(Ordering::Relaxed) {
                number += 1;
                let path = folder.path().join(format!("{}.txt", number % 100));
                fs::write(&path, number.to_string()).unwrap();
                if number % 3 == 0 {
                    fs::remove_file(&path).unwrap();
                }
            }
        });
        for _ in 0..30 {
            assert!(has(&build(&compiler, Effort::Quick), "home"));
        }
    });
}

/// Returns a compiler that stores archives of more than 4,000 bytes in the directory `path`.
fn compiler_on_disk(root: &Path, path: &Path) -> Compiler {
    let path = path.to_owned();
    let create = move || crate::ground::temporary::create_unlinked(&path);
    let directory = TemporaryDirectory::from_environment().with_files_from(create);
    Compiler { memory_archive_bytes_max: 4000, ..compiler(root).with_temporary_directory(directory) }
}

#[test]
fn large_archive_is_on_disk_and_has_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("site");
    fs::create_dir(&root).unwrap();
    fs::write(root.join("index.html"), "a page of a site ".repeat(200)).unwrap();
    fs::write(root.join("video.mp4"), [7; 100_000]).unwrap();
    let in_memory = compiler(&root);
    let on_disk = compiler_on_disk(&root, folder.path());
    let device = folder.path().metadata().unwrap().dev();
    for content in ["first", "second"] {
        fs::write(root.join("a.txt"), content).unwrap();
        for effort in [Effort::Quick, Effort::Full] {
            let build = build(&on_disk, effort);
            assert_eq!(build.archive.metadata().unwrap().dev(), device);
            assert_eq!(build.report.digest, self::build(&in_memory, effort).report.digest);
            assert!(has(&build, content) && build.report.diagnostics.is_empty());
        }
        age(&on_disk);
        age(&in_memory);
    }

    // When a site has become small, its next archive is in memory at once.
    fs::remove_file(root.join("video.mp4")).unwrap();
    fs::write(root.join("index.html"), "a page").unwrap();
    let build = build(&on_disk, Effort::Quick);
    assert!(has(&build, "a page") && build.archive.metadata().unwrap().dev() != device);
}

#[test]
fn archive_is_in_memory_if_the_disk_fails() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("index.html"), "a page of a site ".repeat(200)).unwrap();
    let before = build(&compiler(folder.path()), Effort::Full);
    let compiler = compiler_on_disk(folder.path(), &folder.path().join("missing"));
    let first = build(&compiler, Effort::Full);
    assert_eq!(first.report.digest, before.report.digest);
    let [warning] = &first.report.diagnostics[..] else { panic!("{:?}", first.report.diagnostics) };
    assert!(warning.message.contains("create the directory"), "{warning}");

    // All writes fail, like on a full disk.
    let create = || File::open("/dev/null");
    let directory = TemporaryDirectory::from_environment().with_files_from(create);
    let compiler = compiler.with_temporary_directory(directory);
    let second = build(&compiler, Effort::Full);
    assert_eq!(second.report.digest, before.report.digest);
    assert_eq!(second.report.diagnostics[0].code, "held-in-memory");
}

/// Files that were moved away for a moment used to be missing from the site after a crash.
#[test]
fn compiler_goes_on_from_an_archive() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::create_dir_all(path("_hosts/*.b.example")).unwrap();
    for name in ["index.html", "_redirects", "page.html", "_hosts/*.b.example/c.txt"] {
        fs::write(path(name), format!("# {name}")).unwrap();
    }
    let first = build(&compiler(folder.path()), Effort::Full);

    let other = compiler(folder.path());
    other.resume(&first.archive).unwrap();
    let mut writer = File::create(path("page.html")).unwrap();
    writer.write_all(b"half").unwrap();
    let second = build(&other, Effort::Quick);
    assert!(has(&second, "# page.html") && !has(&second, "half"), "it is being written");
    assert!(second.files.changes_since(&first.files).is_empty());
    drop(writer);
    fs::remove_file(path("_hosts/*.b.example/c.txt")).unwrap();
    let third = build(&other, Effort::Full);
    let expected =
        [change("_hosts/*.b.example/c.txt", Some(26), None), change("page.html", Some(11), Some(4))];
    assert_eq!(third.files.changes_since(&second.files), expected);
}
