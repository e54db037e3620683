//! `cannery releases`: what a folder of archives holds, and which one is current.
//!
//! Never decides what an archive is; the shelf does.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::io;

use cannery_archive::{Archive, Corrupt, Record, RecordKind};
use cannery_site::is_immutable;
use serde::Serialize;

use super::release_dir::{CURRENT, Label, Release, ReleaseDir};
use super::{open, verify};
use crate::flags::releases::Releases;
use crate::format::{Row, Table, bytes, count, counted, minute};
use crate::output::{self, Failure, Paint, one_line};

/// Digits of the digest that tell two archives apart for a person.
const DIGEST_DIGITS: usize = 12;

/// The word for the release before the current one.
const PREVIOUS: &str = "previous";

/// Runs what the command line asked for.
///
/// # Errors
/// The folder cannot be read, the release is not there or damaged, or the link cannot be turned.
pub fn run(flags: &Releases) -> Result<(), Failure> {
    let mut shelf = look(flags)?;
    if let Some(wanted) = &flags.selected {
        let name = find(&shelf, wanted)?.name.clone();
        verify::whole(&shelf.path(&name))?;
        let losses = losses(&shelf, &name)?;
        shelf.turn(&name).map_err(|error| unturned(&shelf, &error))?;
        shelf = look(flags)?;
        losses.iter().for_each(output::note);
    }
    if flags.json {
        return output::print_json(&listed(&shelf));
    }
    output::print(list(&shelf, Paint::for_results()))
}

fn look(flags: &Releases) -> Result<ReleaseDir, Failure> {
    ReleaseDir::look(&flags.directory).map_err(|error| {
        Failure::input(format!("cannot read the folder {}: {error}", flags.directory.display()))
    })
}

/// What turning from the current release to this one does to pages that are open: nothing to say if the new one has all
/// that may still be asked for.
fn losses(shelf: &ReleaseDir, name: &OsStr) -> Result<Option<String>, Failure> {
    let Some(current) = shelf.current.as_ref().filter(|current| *current != name) else { return Ok(None) };
    let (from, to) = (shelf.path(current), shelf.path(name));
    // A damaged release cannot be asked; that is no reason to keep serving it.
    let Ok(before) = open::open(&from) else { return Ok(None) };
    let after = open::open(&to)?;
    let kept = paths(&after).map_err(open::corrupt(&to))?;
    let Ok(lost) = immutable_paths(&before).map(|paths| paths.difference(&kept).count() as u64) else {
        return Ok(None);
    };
    Ok((lost > 0).then(|| {
        format!(
            "{} of {} not in {}: pages that were loaded from it need them. A server with `--releases {}` goes on \
             answering them; one with `--archive` does not",
            counted(lost, "immutable file"),
            format_args!("{} {}", shown(current), if lost == 1 { "is" } else { "are" }),
            shown(name),
            shelf.folder.display(),
        )
    }))
}

/// The paths of an archive, as they are stored.
fn paths(archive: &Archive) -> Result<HashSet<&[u8]>, Corrupt> {
    let mut paths = HashSet::new();
    for entry in archive.entries() {
        let RecordKind::Path(path) = entry?.kind() else { continue };
        paths.insert(path);
    }
    Ok(paths)
}

/// Those that clients may keep for good.
fn immutable_paths(archive: &Archive) -> Result<HashSet<&[u8]>, Corrupt> {
    let mut paths = HashSet::new();
    for entry in archive.entries() {
        let entry = entry?;
        let RecordKind::Path(path) = entry.kind() else { continue };
        if let Record::Resource(resource) = archive.decode_path(&entry)?
            && is_immutable(archive, &resource)?
        {
            paths.insert(path);
        }
    }
    Ok(paths)
}

/// The release that a word of the command line means: a file's name counts before a serial.
fn find<'s>(shelf: &'s ReleaseDir, wanted: &str) -> Result<&'s Release, Failure> {
    let named = |release: &&Release| release.name == wanted || release.name == *format!("{wanted}.cdb");
    if let Some(release) = shelf.releases.iter().find(named) {
        return openable(shelf, release);
    }
    if wanted == PREVIOUS {
        return shelf.before_current().ok_or_else(|| nothing_before(shelf));
    }
    let serial = wanted.parse::<u64>().ok();
    let has_serial = |release: &&Release| {
        serial.is_some() && release.label.as_ref().ok().map(|label| label.serial) == serial
    };
    let found: Vec<_> = shelf.releases.iter().filter(has_serial).collect();
    match found[..] {
        [release] => Ok(release),
        [] => Err(Failure::input(format!("{} has no release `{wanted}`", shelf.folder.display()))
            .hint("`cannery releases DIR` lists those that it has")),
        _ => {
            let names: Vec<_> = found.iter().map(|release| shown(&release.name)).collect();
            Err(Failure::input(format!("several releases have the serial {wanted}: {}", names.join(", ")))
                .hint("name the file"))
        }
    }
}

fn openable<'s>(shelf: &ReleaseDir, release: &'s Release) -> Result<&'s Release, Failure> {
    match &release.label {
        Ok(_) => Ok(release),
        Err(error) => Err(open::failure(&shelf.path(&release.name), error)),
    }
}

fn nothing_before(shelf: &ReleaseDir) -> Failure {
    match &shelf.current {
        Some(current) => Failure::input(format!("no release comes before {}", shown(current))),
        None => Failure::input(format!("no release in {} is current yet", shelf.folder.display()))
            .hint("name one: its file or its serial"),
    }
}

fn unturned(shelf: &ReleaseDir, error: &io::Error) -> Failure {
    let link = shelf.path(OsStr::new(CURRENT));
    if error.kind() == io::ErrorKind::AlreadyExists {
        return Failure::output(format!("{} is no link, so it was left alone", link.display()))
            .hint("give that file another name; then `--use` makes the link");
    }
    Failure::output(format!("cannot turn {}: {error}", link.display()))
}

/// A file's name, fit for one line.
fn shown(name: &OsStr) -> String {
    one_line(&name.to_string_lossy())
}

/// The list as a person reads it.
fn list(shelf: &ReleaseDir, paint: Paint) -> String {
    if shelf.releases.is_empty() {
        return format!("{} holds no archive\n", shelf.folder.display());
    }
    let (mut sound, mut damaged) = (Table::default(), Table::default());
    for release in &shelf.releases {
        let mark = if shelf.is_current(release) { CURRENT } else { "" };
        let table = if release.label.is_ok() { &mut sound } else { &mut damaged };
        let row = table.row(shown(&release.name)).words(mark).number(bytes(release.bytes));
        let row = row.words(release.when().map_or(String::new(), minute));
        match &release.label {
            Ok(label) => say_label(row, label),
            Err(error) => drop(row.words(format!("damaged: {}", one_line(&error.to_string())))),
        }
    }
    let mut text = sound.print(0, paint) + &damaged.print(0, paint);
    if shelf.current.is_none() {
        text.push_str("\nnone of them is current: `--use RELEASE` makes the link `current`\n");
    }
    text
}

fn say_label(row: Row<'_>, label: &Label) {
    let digest = label.digest.get(..DIGEST_DIGITS).unwrap_or(&label.digest);
    let mut paths = counted(label.paths, "path");
    if label.carried > 0 {
        paths.push_str(&format!(", {} carried", count(label.carried)));
    }
    row.words(format!("release {}", label.serial)).words(paths).faint(format!("digest {digest}"));
}

/// The list as JSON.
#[derive(Serialize)]
struct Listed {
    current: Option<String>,
    releases: Vec<ListedRelease>,
}

#[derive(Serialize)]
struct ListedRelease {
    name: String,
    current: bool,
    bytes: u64,
    /// Seconds since 1970.
    written: Option<u64>,
    #[serde(flatten)]
    label: ListedLabel,
}

#[derive(Serialize)]
#[serde(untagged)]
enum ListedLabel {
    Sound { serial: u64, released: Option<u64>, digest: String, paths: u64, carried: u64 },
    Damaged { damaged: String },
}

fn listed(shelf: &ReleaseDir) -> Listed {
    let release = |release: &Release| ListedRelease {
        name: release.name.to_string_lossy().into_owned(),
        current: shelf.is_current(release),
        bytes: release.bytes,
        written: release.written,
        label: match &release.label {
            Ok(Label { serial, released, digest, paths, carried }) => ListedLabel::Sound {
                serial: *serial,
                released: *released,
                digest: digest.clone(),
                paths: *paths,
                carried: *carried,
            },
            Err(error) => ListedLabel::Damaged { damaged: error.to_string() },
        },
    };
    Listed {
        current: shelf.current.as_ref().map(|name| name.to_string_lossy().into_owned()),
        releases: shelf.releases.iter().map(release).collect(),
    }
}
