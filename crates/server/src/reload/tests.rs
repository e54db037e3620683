//! Unit tests of reloading.

use super::*;
use crate::content::{Entry, Sites};
use crate::pages::BuiltinPages;
use crate::simulation;

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
