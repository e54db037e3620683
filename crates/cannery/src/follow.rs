//! Embedded sites of debug builds: the folder is compiled when the program starts, and again after each change.

use std::fs::File;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::thread;

use cannery_archiver::boundary::LinksOut;
use cannery_archiver::{CancelFlag, Compiler, Effort, Options, library};
use cannery_follow::Mode;
use cannery_live::{BuildSink, Compression, FolderChanges, FolderEvent};

use crate::site::Site;

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
    let mut changes = FolderChanges::of(&options);
    let mut inspector = changes.inspector();
    report(&folder, changes.follow(Mode::Auto, move || inspector.inspect()))?;

    let compiler = Compiler::new(options);
    // Nothing is compressed, because only this machine requests it.
    let first = compiler.build(Effort::Quick, &CancelFlag::default(), &());
    let first = report(&folder, first.map_err(|error| library::describe_error(&error)))?;
    let archive = report(&folder, first.archive.try_clone())?;
    let program = EmbeddingProgram { folder, on_change };
    let mut updater = changes.into_updater(compiler, &first, Compression::Off, program);
    drop(first);
    let run = move || {
        let _ = updater.run();
    };
    thread::Builder::new().name("cannery-follow".into()).spawn(run).ok()?;
    Some(archive)
}

/// The program in which the site is embedded.
struct EmbeddingProgram<F> {
    folder: PathBuf,
    on_change: F,
}

/// The program no longer serves the site.
struct Stopped;

impl<F: FnMut(File) -> ControlFlow<()>> BuildSink for EmbeddingProgram<F> {
    type Error = Stopped;

    fn publish(&mut self, archive: &File) -> Result<(), Stopped> {
        // Without another descriptor, the last version is served.
        let Some(archive) = report(&self.folder, archive.try_clone()) else { return Ok(()) };
        match (self.on_change)(archive) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Stopped),
        }
    }

    fn handle(&mut self, event: FolderEvent<'_>) -> Result<(), Stopped> {
        if let FolderEvent::Failed(error) = event {
            report::<(), _>(&self.folder, Err(library::describe_error(error)));
        }
        Ok(())
    }
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

/// Reports an error on standard error: a debug build serves what it has.
fn report<T, E: std::fmt::Display>(folder: &Path, result: Result<T, E>) -> Option<T> {
    result.inspect_err(|error| eprintln!("cannery: {}: {error}", folder.display())).ok()
}
