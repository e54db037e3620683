//! Embedded sites of debug builds: the folder is compiled when the program starts, and again after each change.

use std::fs::File;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use cannery_archiver::boundary::LinksOut;
use cannery_archiver::{CancelFlag, Compiler, Effort, Error, FollowedNames, Options, library};
use cannery_follow::{Filter, Follower, Mode, Settings};

use crate::site::Site;

/// Interval between two builds of a folder that is probably still being written.
const UNFINISHED_INTERVAL: Duration = Duration::from_millis(100);

/// Compiles the folder of an embedded site and follows it for the rest of the program.
///
/// `source` is the text that we write next to the archive in `cannery-build`. Returns `None` with a message on standard error if the
/// folder can't be compiled, so that the embedded archive is served.
pub(crate) fn follow(source: &str) -> Option<Site> {
    let folder = PathBuf::from(source.lines().next()?);
    let (sender, first) = channel::<Site>();
    // The thread gets the site after the first archive was compiled, and before it sends another one.
    let mut followed = None;
    let archive = follow_archives(source, move |archive| {
        let Some(site) = followed.get_or_insert_with(|| first.recv().ok()) else {
            return ControlFlow::Break(());
        };
        if let Some(next) = report(&folder, Site::from_file(&archive)) {
            site.replace(&next);
        }
        ControlFlow::Continue(())
    })?;
    let site = report(Path::new(source.lines().next()?), Site::from_file(&archive))?;
    // This fails only if the thread has ended.
    let _ = sender.send(site.clone());
    Some(site)
}

/// Compiles the folder of an embedded site and returns the archive. Then calls `on_change` with the archive after each change of the
/// folder, from a thread, until it breaks.
pub(crate) fn follow_archives(
    source: &str,
    on_change: impl FnMut(File) -> ControlFlow<()> + Send + 'static,
) -> Option<File> {
    let options = options(source)?;
    let folder = options.sources.clone();
    // The folder is followed before it is compiled, so that no change is missed.
    let (sender, changes) = channel();
    let settings = Settings { root: folder.clone(), mode: Mode::Auto, filter: filter(&options) };
    let follower = Follower::start(settings, move |event| {
        // Before it started to watch, changes went unnoticed.
        if matches!(event, cannery_follow::Event::Started | cannery_follow::Event::Changed) {
            // This fails only if the thread below has ended.
            let _ = sender.send(());
        }
    });
    let follower = report(&folder, follower)?;

    let compiler = Compiler::new(options);
    let archive = build(&compiler, &folder)?;
    let run = move || {
        let _follower = follower;
        compile_after_changes(&compiler, &folder, &changes, on_change);
    };
    thread::Builder::new().name("cannery-follow".into()).spawn(run).ok()?;
    Some(archive)
}

/// Reads the folder and the options of a build, which `cannery-build` wrote.
fn options(source: &str) -> Option<Options> {
    let mut lines = source.lines();
    let mut options = Options::new(PathBuf::from(lines.next()?), "");
    options.preview = true;
    for line in lines {
        match line.split_once(' ') {
            Some(("immutable", pattern)) => options.immutable.push(pattern.to_owned()),
            Some(("ignore", pattern)) => options.ignore.push(pattern.to_owned()),
            Some(("follow-links", _)) => options.links_out = LinksOut::Allowed,
            Some(("allow-sparse", _)) => options.allow_sparse = true,
            // Another release of `cannery-build` may have written it.
            _ => {}
        }
    }
    Some(options)
}

/// Returns the filter of everything except the names that a build leaves out.
fn filter(options: &Options) -> Filter {
    let names = Arc::new(FollowedNames::of(options));
    let of_links = Arc::clone(&names);
    Filter::new(move |path, is_folder| names.contain(path, is_folder))
        .with_links(move |link, target| of_links.admit(link, target))
}

fn compile_after_changes(
    compiler: &Compiler,
    folder: &Path,
    changes: &Receiver<()>,
    mut on_change: impl FnMut(File) -> ControlFlow<()>,
) {
    while changes.recv().is_ok() {
        // One build covers all changes that are reported before it.
        while changes.try_recv().is_ok() {}
        let mut result = compiler.build(Effort::Quick, &CancelFlag::default(), &());
        // A build tool has emptied the folder. No event will say that it stays empty, so we poll.
        while result.as_ref().is_err_and(Error::is_unfinished) {
            thread::sleep(UNFINISHED_INTERVAL);
            result = compiler.build(Effort::Quick, &CancelFlag::default(), &());
        }
        if let Some(build) = report(folder, result.map_err(|error| library::describe_error(&error)))
            && on_change(build.archive).is_break()
        {
            return;
        }
    }
}

/// Compiles the folder into memory, without compression.
fn build(compiler: &Compiler, folder: &Path) -> Option<File> {
    let result = compiler.build(Effort::Quick, &CancelFlag::default(), &());
    let build = report(folder, result.map_err(|error| library::describe_error(&error)))?;
    Some(build.archive)
}

/// Reports an error on standard error: a debug build serves what it has.
fn report<T, E: std::fmt::Display>(folder: &Path, result: Result<T, E>) -> Option<T> {
    result.inspect_err(|error| eprintln!("cannery: {}: {error}", folder.display())).ok()
}
