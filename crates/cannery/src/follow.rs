//! Embedded sites of debug builds: the folder is compiled when the program starts, and again after each change.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use cannery_archiver::skip::SkipRules;
use cannery_archiver::{CancelFlag, Compiler, Effort, Options};
use cannery_follow::{Filter, Follower, Mode, Settings};

use crate::site::Site;

/// Compiles the folder of an embedded site and follows it for the rest of the program.
///
/// `source` is the text that we write next to the archive in `cannery-build`. Returns `None` with a message on standard error if the
/// folder can't be compiled, so that the embedded archive is served.
pub(crate) fn follow(source: &str) -> Option<Site> {
    let options = options(source)?;
    let folder = options.sources.clone();
    // The folder is followed before it is compiled, so that no change is missed.
    let (sender, changes) = channel();
    let settings = Settings { root: folder.clone(), mode: Mode::Auto, filter: filter() };
    let follower = Follower::start(settings, move |event| {
        // Before it started to watch, changes went unnoticed.
        if matches!(event, cannery_follow::Event::Started | cannery_follow::Event::Changed) {
            // This fails only if the thread below has ended.
            let _ = sender.send(());
        }
    });
    let follower = report(&folder, follower)?;

    let compiler = Compiler::new(options);
    let site = build(&compiler, &folder)?;
    let followed = site.clone();
    let run = move || {
        let _follower = follower;
        replace_after_changes(&compiler, &folder, &followed, &changes);
    };
    thread::Builder::new().name("cannery-follow".into()).spawn(run).ok()?;
    Some(site)
}

/// Reads the folder and the options of a build, which `cannery-build` wrote.
fn options(source: &str) -> Option<Options> {
    let mut lines = source.lines();
    let mut options = Options::new(PathBuf::from(lines.next()?), "");
    options.preview = true;
    options.immutable = lines.map(str::to_owned).collect();
    Some(options)
}

/// Returns the filter of everything except the names that a build leaves out by default.
fn filter() -> Filter {
    let rules = SkipRules::default();
    Arc::new(move |path, is_folder| rules.may_matter(path, is_folder))
}

fn replace_after_changes(compiler: &Compiler, folder: &Path, site: &Site, changes: &Receiver<()>) {
    while changes.recv().is_ok() {
        // One build covers all changes that are reported before it.
        while changes.try_recv().is_ok() {}
        if let Some(next) = build(compiler, folder) {
            site.replace(&next);
        }
    }
}

/// Compiles the folder into memory, without compression.
fn build(compiler: &Compiler, folder: &Path) -> Option<Site> {
    let build = report(folder, compiler.build(Effort::Quick, &CancelFlag::default(), &()))?;
    report(folder, Site::from_file(&build.archive))
}

/// Reports an error on standard error: a debug build serves what it has.
fn report<T, E: std::fmt::Display>(folder: &Path, result: Result<T, E>) -> Option<T> {
    result.inspect_err(|error| eprintln!("cannery: {}: {error}", folder.display())).ok()
}
