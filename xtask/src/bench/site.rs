//! The sites that scenarios serve: a folder of files, the same folder with compressed siblings for the servers that
//! want them, and our archive of it. Made below `target/`, the same bytes on every machine.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use super::{commands, docs, machine};
use crate::error::Error;
use crate::project;

/// A site that stands ready.
pub(crate) struct Site {
    /// The files as an author writes them.
    pub(crate) sources: PathBuf,
    /// The same with `NAME.gz` and `NAME.br` beside each; the sources themselves where nobody needs siblings.
    pub(crate) with_siblings: PathBuf,
    pub(crate) archive: PathBuf,
    /// What is asked for, each beginning with a slash.
    pub(crate) targets: Vec<String>,
}

impl Site {
    /// A site of a few files, made anew. All of them are asked for, `index.html` as `/`.
    pub(crate) fn of_files(
        name: &str,
        files: &[(&str, Vec<u8>)],
        compress: Option<&str>,
    ) -> Result<Site, Error> {
        let sources = folder(name)?.join("sources");
        remove(&sources)?;
        remove(&folder(name)?.join(SIBLINGS))?;
        fs::create_dir_all(&sources).map_err(|source| Error::file(&sources, source))?;
        for (name, content) in files {
            let path = sources.join(name);
            fs::write(&path, content).map_err(|source| Error::file(&path, source))?;
        }
        // The archive is of other files from now on.
        remove_file(&folder(name)?.join(MAKER))?;
        let target = |name: &str| if name == "index.html" { "/".to_owned() } else { format!("/{name}") };
        let targets = files.iter().map(|(name, _)| target(name)).collect();
        Site::of_folder(name, sources, targets, compress)
    }

    /// A site that is there already. Its archive is made unless the same archiver has made it before: what it holds is
    /// compared with the files before anything is timed.
    pub(crate) fn of_folder(
        name: &str,
        sources: PathBuf,
        targets: Vec<String>,
        compress: Option<&str>,
    ) -> Result<Site, Error> {
        let archive = folder(name)?.join(ARCHIVE);
        let archiver = commands::path("cannery-archiver")?;
        let (noted, maker) = (folder(name)?.join(MAKER), maker(&archiver, compress)?);
        if fs::read_to_string(&noted).ok().as_ref() != Some(&maker) {
            docs::build(&archiver, &sources, &archive, compress)?;
            fs::write(&noted, maker).map_err(|source| Error::file(&noted, source))?;
        }
        Ok(Site { with_siblings: sources.clone(), sources, archive, targets })
    }

    /// Asks for these only.
    pub(crate) fn asked_for(mut self, targets: &[&str]) -> Site {
        self.targets = targets.iter().map(|&target| target.to_owned()).collect();
        self
    }

    /// Makes the folder with siblings, unless it is there: as small as gzip and brotli can, since time does not
    /// count here. It gets its name only when it is whole.
    pub(crate) fn with_siblings(mut self, name: &str) -> Result<Site, Error> {
        self.with_siblings = folder(name)?.join(SIBLINGS);
        if self.with_siblings.is_dir() {
            return Ok(self);
        }
        let unfinished = self.with_siblings.with_extension("unfinished");
        remove(&unfinished)?;
        project::run(Command::new("cp").args(["-rL"]).arg(&self.sources).arg(&unfinished))?;
        let mut files = files_below(&unfinished)?;
        files.retain(|file| is_compressible(file));
        compress_all(&files)?;
        fs::rename(&unfinished, &self.with_siblings).map_err(|source| Error::file(&unfinished, source))?;
        Ok(self)
    }

    /// The content of a target.
    pub(crate) fn content(&self, target: &str) -> Result<Vec<u8>, Error> {
        let name = target.trim_start_matches('/');
        let name = if name.is_empty() { "index.html" } else { name };
        let path = self.sources.join(name);
        fs::read(&path).map_err(|source| Error::file(path, source))
    }
}

/// The archive, beside the files, and a note of who made it.
const ARCHIVE: &str = "site.cdb";
const MAKER: &str = "site.maker";

/// The folder of files with siblings, beside that of the sources.
const SIBLINGS: &str = "with-siblings";

/// Where the parts of a site are, made if they are not.
fn folder(name: &str) -> Result<PathBuf, Error> {
    let folder = project::outside().join("sites").join(name);
    fs::create_dir_all(&folder).map_err(|source| Error::file(&folder, source))?;
    // Servers go to other folders, so they are told the whole path.
    folder.canonicalize().map_err(|source| Error::file(&folder, source))
}

fn remove(folder: &Path) -> Result<(), Error> {
    if !folder.exists() {
        return Ok(());
    }
    fs::remove_dir_all(folder).map_err(|source| Error::file(folder, source))
}

fn remove_file(file: &Path) -> Result<(), Error> {
    match fs::remove_file(file) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => Err(Error::file(file, source)),
        _ => Ok(()),
    }
}

/// An archiver as it is at the moment, and what it was told.
fn maker(archiver: &Path, compress: Option<&str>) -> Result<String, Error> {
    let failed = |source| Error::file(archiver, source);
    let written = fs::metadata(archiver).and_then(|metadata| metadata.modified()).map_err(failed)?;
    Ok(format!("{}, of {written:?}, {compress:?}", archiver.display()))
}

/// All files below a folder, in order.
pub(crate) fn files_below(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let (mut files, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).map_err(|source| Error::file(&folder, source))?;
        for entry in entries.flatten() {
            let path = entry.path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files.sort_unstable();
    Ok(files)
}

/// Compresses each file with each program, as many at a time as there are processors.
fn compress_all(files: &[PathBuf]) -> Result<(), Error> {
    let share = files.len().div_ceil(machine::processors()).max(1);
    thread::scope(|scope| {
        let running: Vec<_> = files
            .chunks(share)
            .map(|files| scope.spawn(move || files.chunks(100).try_for_each(compress)))
            .collect();
        running.into_iter().try_for_each(|thread| thread.join().expect("a compressor does not panic"))
    })
}

fn compress(files: &[PathBuf]) -> Result<(), Error> {
    project::run(Command::new("gzip").args(["-9", "-k", "-n", "-f"]).args(files))?;
    project::run(Command::new("brotli").args(["-q", "11", "-k", "-f"]).args(files))
}

/// What a publisher compresses: text, not pictures and fonts.
fn is_compressible(file: &Path) -> bool {
    const SUFFIXES: [&str; 7] = ["html", "css", "js", "txt", "json", "svg", "xml"];
    file.extension().is_some_and(|suffix| SUFFIXES.iter().any(|known| suffix == *known))
}
