//! Embedded sites in debug builds: the folder is compiled when the program starts, and again after each
//! change.

use std::convert::Infallible;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::thread;

use cannery_archiver::boundary::LinksOut;
use cannery_archiver::{CancelFlag, Compiler, Effort, Options, library};
use cannery_follow::Mode;
use cannery_live::{BuildSink, Compression, FolderChanges, FolderEvent};

use crate::site::Site;

/// Compiles the folder of an embedded site and keeps following it until the program exits.
///
/// `source` is the text that `cannery-build` has written next to the archive. When the folder cannot be compiled, this
/// prints a message to standard error and returns `None`. The caller should then serve the embedded archive instead.
pub(crate) fn follow(source: &str) -> Option<Site> {
    let options = options(source)?;
    let folder = options.sources.clone();
    // We need to follow the folder before compiling it; otherwise, changes made during the first build
    // would be missed.
    let mut changes = FolderChanges::of(&options);
    let mut inspector = changes.inspector();
    report(&folder, changes.follow(Mode::Auto, move || inspector.inspect()))?;

    let compiler = Compiler::new(options);
    // Use a quick build, because requests will come from the same machine and compression would be of no use.
    let first = compiler.build(Effort::Quick, &CancelFlag::default(), &());
    let first = report(&folder, first.map_err(|error| library::describe_error(&error)))?;
    let site = report(&folder, Site::from_file(&first.archive))?;

    let program = EmbeddingProgram { folder, site: site.clone() };
    let mut updater = changes.into_updater(compiler, &first, Compression::Off, program);
    drop(first);
    let run = move || {
        let _ = updater.run();
    };
    thread::Builder::new().name("cannery-follow".into()).spawn(run).ok()?;
    Some(site)
}

/// The program in which the site is embedded.
struct EmbeddingProgram {
    folder: PathBuf,
    site: Site,
}

impl BuildSink for EmbeddingProgram {
    type Error = Infallible;

    fn publish(&mut self, archive: &File) -> Result<(), Infallible> {
        // If it cannot be opened, keep serving the last version.
        if let Some(next) = report(&self.folder, Site::from_file(archive)) {
            self.site.replace(&next);
        }
        Ok(())
    }

    fn handle(&mut self, event: FolderEvent<'_>) -> Result<(), Infallible> {
        if let FolderEvent::Failed(error) = event {
            report::<(), _>(&self.folder, Err(library::describe_error(error)));
        }
        Ok(())
    }
}

/// Parses the folder and options that `cannery-build` has written.
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
            // May have been written by another release of `cannery-build`.
            _ => {}
        }
    }
    Some(options)
}

/// Prints errors to standard error.
///
/// There is nothing else to do about them, as a debug build should continue with what it has.
fn report<T, E: std::fmt::Display>(folder: &Path, result: Result<T, E>) -> Option<T> {
    result.inspect_err(|error| eprintln!("cannery: {}: {error}", folder.display())).ok()
}
