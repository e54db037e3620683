//! Unit tests of the housekeeping thread.

use std::io::Write;

use cannery_archive::{Archive, Loading};
use cannery_site::VirtualHosts;

use super::*;
use crate::config::{NamedArchive, ReleaseDirectory};
use crate::content;
use crate::worker::simulation;

fn reporter() -> Reporter {
    Reporter {
        status: Arc::new(Status::new(std::iter::empty(), Arc::default())),
        on_notice: NoticeHandler::ignore(),
    }
}

fn open(archives: Vec<NamedArchive>, watch: bool) -> Archives {
    let config = Config::plain(Content::Archives { archives, loading: Loading::Automatic, watch });
    Archives::open(&config, None, Vec::new()).unwrap()
}

fn housekeeper(archives: Archives) -> Housekeeper {
    // Workers would have the sender.
    let (_, notices) = channel();
    Housekeeper {
        archives,
        certificates: None,
        sampler: None,
        notices: WorkerNotices(notices),
        watchdog: None,
        site_opener: None,
        reporter: reporter(),
    }
}

fn site(name: &str) -> Arc<Site> {
    let archive = Archive::from_bytes(simulation::archive(name)).unwrap();
    Arc::new(Site::new(archive, VirtualHosts::Enabled))
}

#[test]
fn worker_never_drops_the_last_reference() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("site.cdb");
    let release = |name| {
        let next = folder.path().join("next");
        std::fs::write(&next, simulation::archive(name)).unwrap();
        std::fs::rename(&next, &path).unwrap();
    };
    release("first");
    let mut archives = open(vec![NamedArchive::new(None, path.clone())], true);
    let worker_content = archives.current().get();
    let content::Content::Sites(sites) = &*worker_content else { panic!("sites are served") };
    let site = Arc::downgrade(&sites.entries()[0].site);

    release("second");
    let reporter = reporter();
    assert_eq!(archives.check(Trigger::Request, &reporter), Outcome::Changed);
    archives.protect(&reporter);
    assert_eq!(site.strong_count(), 2, "the worker still refers to it");
    drop(worker_content);
    assert_eq!(site.strong_count(), 1, "the worker must not unmap it");
    archives.protect(&reporter);
    assert_eq!(site.strong_count(), 0, "the housekeeper must unmap it");
}

#[test]
fn published_file_is_served_at_once() {
    let archive = |name| {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&simulation::archive(name)).unwrap();
        file
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("site.cdb");
    std::fs::write(&path, simulation::archive("first")).unwrap();
    let named =
        vec![NamedArchive::from_file(None, "folder".into(), archive("first")), NamedArchive::new(None, path)];
    let archives = open(named, false);
    let current = archives.current();
    let handle = housekeeper(archives).start(&Sandbox::default()).unwrap();
    let publisher = handle.publisher();
    let digest = || {
        let content = current.get();
        let content::Content::Sites(sites) = &*content else { panic!("sites are served") };
        sites.entries()[0].site.archive().facts().digest
    };

    let first = digest();
    let second = archive("second");
    publisher.publish(0, second.try_clone().unwrap()).unwrap();
    assert_eq!(digest(), Archive::from_file(&second, Loading::Automatic).unwrap().facts().digest);
    assert_ne!(digest(), first);

    let foreign = tempfile::tempfile().unwrap();
    assert!(matches!(publisher.publish(0, foreign), Err(PublishError::Open(_))));
    for index in [1, 2] {
        let error = publisher.publish(index, archive("third")).unwrap_err();
        assert!(matches!(error, PublishError::NotReplaceable(_)), "{error}");
    }
    assert_ne!(digest(), first);
}

#[test]
fn open_file_may_be_truncated() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, simulation::archive(name)).unwrap();
        std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap()
    };
    let [first, second] = ["first", "second"].map(file);
    let named = NamedArchive::from_file(None, "file".into(), first.try_clone().unwrap());
    let content = Content::Archives { archives: vec![named], loading: Loading::Mapped, watch: false };
    let mut archives = Archives::open(&Config::plain(content), None, Vec::new()).unwrap();
    let is_whole = |archives: &Archives, name| {
        let content = archives.current().get();
        let content::Content::Sites(sites) = &*content else { panic!("sites are served") };
        sites.entries()[0].site.archive().bytes() == simulation::archive(name)
    };
    first.set_len(0).unwrap();
    assert!(is_whole(&archives, "first"));
    archives.publish(0, NextArchive::File(second.try_clone().unwrap()), &reporter()).unwrap();
    second.set_len(0).unwrap();
    assert!(is_whole(&archives, "second"));
}

#[test]
fn site_that_comes_back_is_retired_once() {
    let [a, b] = ["a", "b"].map(site);
    let mut archives = open(vec![NamedArchive::opened(None, "site".into(), Arc::clone(&a))], false);
    let reporter = reporter();
    for _ in 0..10 {
        for next in [&b, &a] {
            archives.publish(0, NextArchive::Site(Arc::clone(next)), &reporter).unwrap();
            archives.protect(&reporter);
        }
    }
    // The content and the list of retired sites refer to `a`, and the latter also to `b`.
    assert_eq!([Arc::strong_count(&a), Arc::strong_count(&b)], [3, 2]);
    let b = Arc::downgrade(&{ b });
    archives.protect(&reporter);
    assert_eq!(b.strong_count(), 0, "a retired site that nobody refers to is dropped");
}

#[test]
fn site_that_is_served_already_is_not_released() {
    let first = site("first");
    // As `with_virtual_hosts` returns it.
    let wrapped = Arc::new(Site::new(Archive::sharing(Arc::clone(&first)), VirtualHosts::Enabled));
    let mut archives = open(vec![NamedArchive::opened(None, "site".into(), wrapped)], false);
    let reporter = reporter();
    for (next, reloads) in [(first, 0), (site("first"), 0), (site("second"), 1)] {
        archives.publish(0, NextArchive::Site(next), &reporter).unwrap();
        assert_eq!(reporter.status.reloads(), (reloads, 0));
    }
}

#[test]
fn site_publisher_does_not_keep_the_thread_running() {
    let archives = open(vec![NamedArchive::opened(None, "site".into(), site("first"))], false);
    let current = archives.current();
    let handle = housekeeper(archives).start(&Sandbox::default()).unwrap();
    let publisher = handle.publisher().of_site(0);
    let second = site("second");
    publisher.publish(Arc::clone(&second)).unwrap().wait();
    {
        let content = current.get();
        let content::Content::Sites(sites) = &*content else { panic!("sites are served") };
        assert!(Arc::ptr_eq(&sites.entries()[0].site, &second));
    }
    drop(handle);
    assert!(publisher.publish(second).is_none());
}

#[test]
fn withdrawn_site_is_not_served_until_its_file_is_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("site.cdb");
    std::fs::write(&path, simulation::archive("first")).unwrap();
    let mut archives = open(vec![NamedArchive::new(None, path)], true);
    let (current, reporter) = (archives.current(), reporter());
    let entry = || {
        let content = current.get();
        let content::Content::Sites(sites) = &*content else { panic!("sites are served") };
        sites.entries()[0].clone()
    };
    let first = entry().site;
    archives.leases.withdraw(&first);
    archives.protect(&reporter);
    assert!(entry().is_withdrawn);
    assert_eq!(reporter.status.reloads(), (0, 1));

    archives.check(Trigger::Interval, &reporter);
    assert!(!entry().is_withdrawn && !Arc::ptr_eq(&entry().site, &first));
}

#[test]
fn archive_that_is_open_for_writing_is_looked_at_again() {
    let folder = tempfile::tempdir().unwrap();
    let (path, next) = (folder.path().join("site.cdb"), folder.path().join("next"));
    std::fs::write(&path, simulation::archive("first")).unwrap();
    if content::open::writers(&path) == cannery_archive::Writers::Unknown {
        return;
    }
    let content = Content::Archives {
        archives: vec![NamedArchive::new(None, path.clone())],
        loading: Loading::Mapped,
        watch: true,
    };
    let mut archives = Archives::open(&Config::plain(content), None, Vec::new()).unwrap();
    std::fs::write(&next, simulation::archive("second")).unwrap();
    let writer = File::options().write(true).open(&next).unwrap();
    std::fs::rename(&next, &path).unwrap();
    let reporter = reporter();
    for _ in 0..3 {
        assert_eq!(archives.check(Trigger::Interval, &reporter), Outcome::Unchanged);
    }
    drop(writer);
    assert_eq!(archives.check(Trigger::Interval, &reporter), Outcome::Changed);
    assert!(archives.leases.has(&path));
}

#[test]
fn release_that_is_open_is_not_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let write = |name: &str| {
        std::fs::write(at("next"), simulation::archive(name)).unwrap();
        std::fs::rename(at("next"), at(name)).unwrap();
    };
    let switch_to = |name: &str| {
        std::os::unix::fs::symlink(name, at("link")).unwrap();
        std::fs::rename(at("link"), at("current")).unwrap();
    };
    write("1.cdb");
    switch_to("1.cdb");
    let directory = ReleaseDirectory::new(folder.path().to_owned(), 10);
    let content = Content::Archives {
        archives: vec![NamedArchive::from_directory(None, directory)],
        loading: Loading::Mapped,
        watch: true,
    };
    let mut archives = Archives::open(&Config::plain(content), None, Vec::new()).unwrap();
    let (current, reporter) = (archives.current(), reporter());
    let served = || {
        let content = current.get();
        let content::Content::Sites(sites) = &*content else { panic!("sites are served") };
        let entry = &sites.entries()[0];
        (Arc::downgrade(&entry.site), entry.earlier.iter().map(Arc::downgrade).collect::<Vec<_>>())
    };
    let (first, _) = served();

    write("2.cdb");
    archives.check(Trigger::Request, &reporter);
    let second = served().1.pop().unwrap();
    // A staged release becomes current, then the one before is current again, and so on.
    for (name, site, other) in [
        ("2.cdb", &second, &first),
        ("1.cdb", &first, &second),
        ("2.cdb", &second, &first),
        ("1.cdb", &first, &second),
    ] {
        switch_to(name);
        assert_eq!(archives.check(Trigger::Request, &reporter), Outcome::Changed, "{name}");
        let (current, earlier) = served();
        assert!(current.ptr_eq(site) && earlier.len() == 1 && earlier[0].ptr_eq(other), "{name}");
        archives.protect(&reporter);
    }

    // Another file of that name is opened, and the one before is closed.
    write("2.cdb");
    switch_to("2.cdb");
    archives.check(Trigger::Request, &reporter);
    assert!(!served().0.ptr_eq(&second));
    archives.protect(&reporter);
    assert_eq!(second.strong_count(), 0);
    assert_ne!(first.strong_count(), 0);
}
