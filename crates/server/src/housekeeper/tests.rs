//! Unit tests of reloading.

use std::io::Write;

use super::*;
use crate::content::{Entry, Sites};
use crate::pages::BuiltinPages;
use crate::worker::simulation;

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
    let archive = Archive::open(&path, Loading::Mapped).unwrap();
    let entry =
        Entry { host: None, site: Arc::new(Site::new(archive, VirtualHosts::Enabled)), earlier: Vec::new() };
    let site = Arc::downgrade(&entry.site);
    let current =
        Arc::new(Current::new(Arc::new(Content::Sites(Sites::new(vec![entry], BuiltinPages::default())))));
    let worker_content = current.get();
    let served = Served { current, wakers: Vec::new() };
    let mut reloader = Reloader {
        watched: vec![Watched::new(&NamedArchive::new(None, path.clone()))],
        certificates: None,
        process: None,
        worker_notices: None,
        watchdog: None,
        retired: Vec::new(),
        loading: Loading::Mapped,
        virtual_hosts: VirtualHosts::Enabled,
        watch: true,
        on_notice: NoticeHandler::ignore(),
        status: None,
    };

    release("second");
    assert_eq!(reloader.check_archives(Trigger::Request, &served), Outcome::Changed);
    reloader.detach_written_archives(&served);
    assert_eq!(site.strong_count(), 2, "the worker still refers to it");
    drop(worker_content);
    assert_eq!(site.strong_count(), 1, "the worker must not unmap it");
    reloader.detach_written_archives(&served);
    assert_eq!(site.strong_count(), 0, "the reloader must unmap it");
}

#[test]
fn published_file_is_served_at_once() {
    let archive = |name| {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&simulation::archive(name)).unwrap();
        file
    };
    let named = [
        NamedArchive::from_file(None, "folder".into(), archive("first")),
        NamedArchive::new(None, "a file that does not exist".into()),
    ];
    let entries = named.iter().map(|_| {
        let archive = Archive::from_file(&archive("first"), Loading::Automatic).unwrap();
        Entry { host: None, site: Arc::new(Site::new(archive, VirtualHosts::Enabled)), earlier: Vec::new() }
    });
    let sites = Sites::new(entries.collect(), BuiltinPages::default());
    let current = Arc::new(Current::new(Arc::new(Content::Sites(sites))));
    let served = Served { current: Arc::clone(&current), wakers: Vec::new() };
    let reloader = Reloader {
        watched: named.iter().map(Watched::new).collect(),
        certificates: None,
        process: None,
        worker_notices: None,
        watchdog: None,
        retired: Vec::new(),
        loading: Loading::Automatic,
        virtual_hosts: VirtualHosts::Enabled,
        watch: false,
        on_notice: NoticeHandler::ignore(),
        status: None,
    };
    let status = Arc::new(Status::new(std::iter::empty()));
    let handle = reloader.start(Vec::new(), status, served, &Sandbox::default()).unwrap();
    let publisher = handle.publisher();
    let digest = || {
        let content = current.get();
        let Content::Sites(sites) = &*content else { panic!("sites are served") };
        sites.entries()[0].site.archive().facts().digest
    };

    let first = digest();
    let second = archive("second");
    publisher.publish(0, second.try_clone().unwrap()).unwrap();
    assert_eq!(digest(), Archive::from_file(&second, Loading::Automatic).unwrap().facts().digest);
    assert_ne!(digest(), first);

    let foreign = tempfile::tempfile().unwrap();
    assert!(matches!(publisher.publish(0, foreign), Err(PublishError::Open(_))));
    for place in [1, 2] {
        let error = publisher.publish(place, archive("third")).unwrap_err();
        assert!(matches!(error, PublishError::NotReplaceable(_)), "{error}");
    }
    assert_ne!(digest(), first);
}
