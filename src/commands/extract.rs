//! `cannery extract`: the files of an archive back into a folder, byte for byte.
//!
//! The archive is checked whole before anything is written, and nothing is ever written outside the
//! folder: not through a name, and not through a link that stands in it. Empty folders, names that were
//! left out, times and permissions are not in an archive, so they do not come back.

use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use cannery_archive::{Archive, Coding, Corrupt, Entry, Origin, Record, RecordKind, Resource, split_host};
use cannery_archiver::ENCODED_BYTES_MAX;

use super::decode::{self, Undecodable};
use super::open;
use crate::flags::tools::Extract;
use crate::format;
use crate::output::{self, Failure, Paint, one_line};

/// The folder of the source that holds a folder for each host.
const HOSTS_FOLDER: &[u8] = b"_hosts";

/// Runs what the command line asked for.
///
/// # Errors
/// The archive is damaged or none, or the folder cannot be written into.
pub fn run(flags: &Extract) -> Result<(), Failure> {
    let archive = open::open(&flags.archive)?;
    archive
        .verify(|_| {})
        .map_err(|error| open::damaged(Failure::input(format!("{}: {error}", flags.archive.display()))))?;
    prepare(&flags.directory, flags.force)?;
    let mut target = Target { folder: &flags.directory, force: flags.force, files: 0, bytes: 0 };
    for entry in archive.entries() {
        let entry = entry.map_err(open::corrupt(&flags.archive))?;
        if let Some((name, content)) = content(&archive, &entry).map_err(|fault| fault.told(flags))? {
            target.write(&name, &content)?;
        }
    }
    if flags.quiet {
        return Ok(());
    }
    output::print(format_args!(
        "{}  {}, {}\n",
        Paint::for_results().strong(&flags.directory.display().to_string()),
        format::counted(target.files, "file"),
        format::bytes(target.bytes),
    ))
}

/// Makes the folder, or makes sure that it may be written into.
fn prepare(folder: &Path, force: bool) -> Result<(), Failure> {
    fs::create_dir_all(folder).map_err(|error| unwritable(folder, &error))?;
    let mut entries = fs::read_dir(folder).map_err(|error| unwritable(folder, &error))?;
    if entries.next().is_some() && !force {
        return Err(Failure::output(format!("{} is not empty", folder.display()))
            .hint("name another folder, or `--force` to replace files in this one"));
    }
    Ok(())
}

/// A file of the source folder: its path there, and its content.
type SourceFile = (Vec<u8>, Vec<u8>);

/// The file that an entry of the archive gives back; nothing for entries that are none.
fn content(archive: &Archive, entry: &Entry<'_>) -> Result<Option<SourceFile>, Fault> {
    match entry.kind() {
        RecordKind::Source(path) => {
            let body = archive.body(archive.decode_source(entry)?)?;
            Ok(Some((path.to_vec(), body.to_vec())))
        }
        RecordKind::Path(key) => match archive.decode_path(entry)? {
            Record::Resource(resource) if resource.origin == Origin::File => {
                let name = file_name(key);
                let content = decoded(archive, &resource, &name)?;
                Ok(Some((name, content)))
            }
            Record::Resource(_) | Record::Redirect(_) | Record::Rewrite(_) => Ok(None),
        },
        _ => Ok(None),
    }
}

/// The path in the source folder of what has this key.
fn file_name(key: &[u8]) -> Vec<u8> {
    let (host, path) = split_host(key);
    let path = path.strip_prefix(b"/").unwrap_or(path);
    match host {
        Some(host) => [HOSTS_FOLDER, host, path].join(&b'/'),
        None => path.to_vec(),
    }
}

/// The content itself if it is held so, else decoded from its smallest form.
fn decoded(archive: &Archive, resource: &Resource<'_>, name: &[u8]) -> Result<Vec<u8>, Fault> {
    let forms = resource.representations().collect::<Result<Vec<_>, _>>()?;
    let identity = forms.iter().find(|form| form.coding == Coding::Identity);
    let Some(form) = identity.or(forms.first()) else { return Ok(Vec::new()) };
    let body = archive.body(form.body)?;
    decode::decode(form.coding, body).map_err(|why| Fault::Undecodable {
        name: String::from_utf8_lossy(name).into_owned(),
        coding: form.coding.name(),
        why,
    })
}

/// Why an entry does not give its file back.
enum Fault {
    Corrupt(Corrupt),
    Undecodable { name: String, coding: &'static str, why: Undecodable },
}

impl From<Corrupt> for Fault {
    fn from(corrupt: Corrupt) -> Fault {
        Fault::Corrupt(corrupt)
    }
}

impl Fault {
    fn told(self, flags: &Extract) -> Failure {
        let archive = flags.archive.display();
        match self {
            Fault::Corrupt(corrupt) => open::corrupt(&flags.archive)(corrupt),
            Fault::Undecodable { name, coding, why: Undecodable::Damaged } => open::damaged(Failure::input(
                format!("{archive}: the {coding} form of {name} does not decode"),
            )),
            Fault::Undecodable { name, coding, why: Undecodable::Excessive } => {
                open::damaged(Failure::input(format!(
                    "{archive}: the {coding} form of {name} decodes to more than {}, which no archiver writes",
                    format::bytes(ENCODED_BYTES_MAX)
                )))
            }
            Fault::Undecodable { name, why: Undecodable::Memory, .. } => {
                Failure::failed(format!("{archive}: not enough memory to decode {name}"))
            }
        }
    }
}

/// The folder that is written into.
struct Target<'a> {
    folder: &'a Path,
    force: bool,
    files: u64,
    bytes: u64,
}

impl Target<'_> {
    fn write(&mut self, name: &[u8], content: &[u8]) -> Result<(), Failure> {
        let path = self.place(name)?;
        write_file(&path, content, self.force).map_err(|error| unwritable(&path, &error))?;
        self.files += 1;
        self.bytes += content.len() as u64;
        Ok(())
    }

    /// Where a name leads, its folders made. No archiver writes a name that leads elsewhere; whoever made
    /// an archive with one meant harm.
    fn place(&self, name: &[u8]) -> Result<PathBuf, Failure> {
        let harmful = |part: &[u8]| matches!(part, b"" | b"." | b"..") || part.contains(&0);
        if name.split(|byte| *byte == b'/').any(harmful) {
            let name = one_line(&String::from_utf8_lossy(name));
            return Err(Failure::input(format!("`{name}` in the archive is not the name of a file")));
        }
        let mut path = self.folder.to_owned();
        let mut parts = name.split(|byte| *byte == b'/').peekable();
        while let Some(part) = parts.next() {
            path.push(OsStr::from_bytes(part));
            if parts.peek().is_some() {
                make_folder(&path).map_err(|error| unwritable(&path, &error))?;
            }
        }
        Ok(path)
    }
}

/// Makes a folder, or makes sure that there is one, and not a link to one.
fn make_folder(path: &Path) -> io::Result<()> {
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let is_folder = fs::symlink_metadata(path)?.is_dir();
            if is_folder { Ok(()) } else { Err(io::ErrorKind::NotADirectory.into()) }
        }
        result => result,
    }
}

/// Writes a file that is not there; with `force` one that is there is removed first, so that a link is
/// replaced and never followed.
fn write_file(path: &Path, content: &[u8], force: bool) -> io::Result<()> {
    let create = || OpenOptions::new().write(true).create_new(true).open(path);
    let mut file = match create() {
        Err(error) if force && error.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(path)?;
            create()?
        }
        result => result?,
    };
    file.write_all(content)
}

fn unwritable(path: &Path, error: &io::Error) -> Failure {
    Failure::output(format!("cannot write {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::sample::{INDEX, NOT_FOUND, REDIRECTS, Sample, TEXT};
    use crate::output::Exit;

    fn extract(sample: &Sample, folder: &Path, force: bool) -> Result<(), Failure> {
        run(&Extract { archive: sample.archive.clone(), directory: folder.to_owned(), force, quiet: true })
    }

    fn exit_of(result: &Result<(), Failure>) -> Exit {
        let Err(Failure::Message { exit, .. }) = result else { panic!("it did not fail") };
        *exit
    }

    #[test]
    fn every_source_file_comes_back() {
        let sample = Sample::write();
        let out = sample.folder().join("out");
        extract(&sample, &out, false).unwrap();
        for (name, content) in [
            ("index.html", INDEX),
            ("copy.html", INDEX),
            ("a/coded only.txt", TEXT),
            ("_hosts/h.test/index.html", INDEX),
            ("_redirects", REDIRECTS),
            ("_404.html", NOT_FOUND),
        ] {
            assert_eq!(fs::read(out.join(name)).unwrap(), content, "{name}");
        }
        assert!(!out.join("go").exists(), "a rule is no file");
    }

    #[test]
    fn a_folder_that_is_not_empty_is_written_into_only_by_force() {
        let sample = Sample::write();
        let out = sample.folder().join("out");
        fs::create_dir(&out).unwrap();
        fs::write(out.join("index.html"), "old").unwrap();
        assert_eq!(exit_of(&extract(&sample, &out, false)), Exit::Output);
        assert_eq!(fs::read(out.join("index.html")).unwrap(), b"old");
        extract(&sample, &out, true).unwrap();
        assert_eq!(fs::read(out.join("index.html")).unwrap(), INDEX);
    }

    #[test]
    fn links_in_the_folder_lead_nowhere() {
        let sample = Sample::write();
        let (out, elsewhere) = (sample.folder().join("out"), sample.folder().join("elsewhere"));
        fs::create_dir(&out).unwrap();
        fs::create_dir(&elsewhere).unwrap();
        fs::write(elsewhere.join("file"), "kept").unwrap();
        std::os::unix::fs::symlink(elsewhere.join("file"), out.join("index.html")).unwrap();
        std::os::unix::fs::symlink(&elsewhere, out.join("a")).unwrap();
        assert_eq!(exit_of(&extract(&sample, &out, true)), Exit::Output);
        assert_eq!(fs::read(elsewhere.join("file")).unwrap(), b"kept");
        assert!(!elsewhere.join("coded only.txt").exists());
    }

    #[test]
    fn names_that_lead_out_of_the_folder_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let target = Target { folder: folder.path(), force: true, files: 0, bytes: 0 };
        for name in ["", "..", "../a", "a/../../b", "/a", "a//b", "./a", "a\0b", "a/"] {
            assert!(target.place(name.as_bytes()).is_err(), "{name:?}");
        }
        assert_eq!(target.place(b"a/b").unwrap(), folder.path().join("a/b"));
    }
}
