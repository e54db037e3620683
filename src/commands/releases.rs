//! `cannery releases`: lists the archives in a release directory, or switches to another one.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::io;
use std::thread;
use std::time::Duration;

use cannery_archive::{Archive, Corrupt, Record, RecordKind};
use cannery_base::FileVersion;
use cannery_publish::protocol::ReleaseState;
use cannery_site::is_immutable;
use serde::Serialize;

use super::release_dir::{self, CURRENT, Label, Release, ReleaseDir};
use super::{open, verify};
use crate::flags::releases::Releases;
use crate::flags::settling::Settling;
use crate::format::{Row, Table, bytes, count, counted, minute};
use crate::output::{self, Failure, Paint, one_line};

/// Number of digest digits to show.
const DIGEST_DIGITS: usize = 12;

/// Stands for the release before the current one.
pub(super) const PREVIOUS: &str = "previous";

/// Says what to do if there is nothing to roll back to.
pub(super) const PUSH_INSTEAD: &str = "push the site in an earlier state: `cannery push` makes it a new release, and keeps the last ones for \
    rollbacks (`--keep`)";

/// Runs `cannery releases`.
///
/// # Errors
///
/// Returns an error if the directory could not be read, if the release does not exist or is damaged, or if
/// replacing the link has failed.
pub fn run(flags: &Releases) -> Result<(), Failure> {
    let mut directory = read_directory(flags)?;
    if let Some(wanted) = &flags.selected {
        let release = find(&directory, wanted, Asker::User)?;
        let name = release.name.clone();
        settle(&mut SystemClock, &directory, release, flags.settle());
        // The whole archive should be verified before the switch, as damage would otherwise only be noticed
        // afterwards.
        let path = directory.release_path(&name);
        let verified = FileVersion::at(&path).ok();
        verify::whole(&path)?;

        let _lock = ReleaseDir::lock(&flags.directory).map_err(|error| switch_failure(&directory, &error))?;
        // Meanwhile, another command may have removed it, put another archive in its place, or made another one current.
        if verified.is_none() || FileVersion::at(&path).ok() != verified {
            verify::whole(&path)?;
        }
        directory = read_directory(flags)?;
        let warning = lost_paths(&directory, &name)?;
        directory.set_current(&name).map_err(|error| switch_failure(&directory, &error))?;
        if let Err(error) = directory.sync() {
            let path = directory.path.display();
            output::note(format_args!(
                "{} is current, but a crash of the machine may undo that: cannot synchronize {path}: {error}",
                display_name(&name)
            ));
        }
        directory = read_directory(flags)?;
        // Only warn once the switch has succeeded.
        if let Some(warning) = warning {
            output::note(warning);
        }
    }

    if flags.json {
        return output::print_json(&listed(&directory));
    }
    output::print(list(&directory, Paint::for_results()))
}

fn read_directory(flags: &Releases) -> Result<ReleaseDir, Failure> {
    ReleaseDir::read(&flags.directory).map_err(|error| {
        if flags.directory.is_file() {
            return open::archive_instead(&flags.directory);
        }
        Failure::input(format!("cannot read the directory {}: {error}", flags.directory.display()))
    })
}

/// Measures how old releases are, and waits. Simulations have another one.
pub(super) trait Clock: Send {
    fn age(&self, directory: &ReleaseDir, release: &Release) -> Duration;

    fn sleep(&mut self, time: Duration);
}

/// The clocks of the system and of the directory's file system.
pub(super) struct SystemClock;

impl Clock for SystemClock {
    fn age(&self, directory: &ReleaseDir, release: &Release) -> Duration {
        directory.named_for(release)
    }

    fn sleep(&mut self, time: Duration) {
        thread::sleep(time);
    }
}

/// Waits until all processes of the server have noticed a release that was put into the directory just now. Without pages that are
/// served, or if the release is current, there is nothing to wait for.
pub(super) fn settle(clock: &mut dyn Clock, directory: &ReleaseDir, release: &Release, settling: Settling) {
    if directory.current.is_some() && !directory.is_current(release) {
        let age = clock.age(directory, release);
        clock.sleep(settling.rest(release.bytes, age));
    }
}

/// Warns if the release `name` does not have all of the current release's immutable files, because open pages may
/// still request these.
pub(super) fn lost_paths(directory: &ReleaseDir, name: &OsStr) -> Result<Option<String>, Failure> {
    let Some(current) = directory.current.as_ref().filter(|current| *current != name) else {
        return Ok(None);
    };
    let from = directory.release_path(current);
    let to = directory.release_path(name);

    // The paths of the current release are unknown if it is damaged. However, this should not keep users from switching to
    // another one.
    let Ok(before) = open::open(&from) else { return Ok(None) };
    let after = open::open(&to)?;
    let kept = paths(&after).map_err(open::corrupt(&to))?;

    let Ok(lost) = immutable_paths(&before).map(|paths| paths.difference(&kept).count() as u64) else {
        return Ok(None);
    };
    Ok((lost > 0).then(|| {
        format!(
            "{} of {} not in {}: pages that were loaded from it need them. A server with `--releases {}` continues to \
             serve them; one with `--archive` does not",
            counted(lost, "immutable file"),
            format_args!("{} {}", display_name(current), if lost == 1 { "is" } else { "are" }),
            display_name(name),
            directory.path.display(),
        )
    }))
}

/// Returns all paths in an archive.
fn paths(archive: &Archive) -> Result<HashSet<&[u8]>, Corrupt> {
    let mut paths = HashSet::new();
    for entry in archive.entries() {
        let RecordKind::Path(path) = entry?.kind() else { continue };
        paths.insert(path);
    }
    Ok(paths)
}

/// Returns the paths that clients may cache forever.
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

/// The program or person that asks for a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asker {
    /// A user of this machine.
    User,
    /// A client, maybe on another machine, who names the target before our message.
    Client,
}

/// Finds a release by file name or serial. The name takes precedence if both match.
pub(super) fn find<'a>(
    directory: &'a ReleaseDir,
    wanted: &str,
    asker: Asker,
) -> Result<&'a Release, Failure> {
    let has_name = |release: &&Release| release.name == wanted || release.name == *format!("{wanted}.cdb");
    if let Some(release) = directory.releases.iter().find(has_name) {
        return openable(directory, release);
    }
    if wanted == PREVIOUS {
        return directory.before_current().ok_or_else(|| no_previous(directory, asker));
    }

    let serial = wanted.parse::<u64>().ok();
    let has_serial = |release: &&Release| {
        serial.is_some() && release.label.as_ref().ok().map(|label| label.serial) == serial
    };

    let found: Vec<_> = directory.releases.iter().filter(has_serial).collect();
    match found[..] {
        [release] => Ok(release),
        [] => Err(match asker {
            Asker::User => Failure::input(format!("{} has no release `{wanted}`", directory.path.display()))
                .hint("`cannery releases DIR` lists those that it has"),
            Asker::Client => Failure::input(format!("there is no release `{wanted}`"))
                .hint("`cannery status TARGET` lists the releases"),
        }),
        _ => {
            let names: Vec<_> = found.iter().map(|release| display_name(&release.name)).collect();
            Err(Failure::input(format!("several releases have the serial {wanted}: {}", names.join(", ")))
                .hint("name the file"))
        }
    }
}

fn openable<'a>(directory: &ReleaseDir, release: &'a Release) -> Result<&'a Release, Failure> {
    match &release.label {
        Ok(_) => Ok(release),
        Err(error) => Err(open::failure(&directory.release_path(&release.name), error)),
    }
}

fn no_previous(directory: &ReleaseDir, asker: Asker) -> Failure {
    match (&directory.current, asker) {
        (Some(current), _) => {
            Failure::input(format!("no release comes before {}", display_name(current))).hint(PUSH_INSTEAD)
        }
        (None, Asker::Client) => Failure::input("no release is current yet")
            .hint("`cannery status TARGET` lists the releases: `--to NAME` names one"),
        (None, Asker::User) => {
            Failure::input(format!("no release in {} is current yet", directory.path.display()))
                .hint("name one: its file or its serial")
        }
    }
}

pub(super) fn switch_failure(directory: &ReleaseDir, error: &io::Error) -> Failure {
    let link = directory.release_path(OsStr::new(CURRENT));
    if error.kind() == io::ErrorKind::AlreadyExists {
        return Failure::output(format!("{} is not a symbolic link, so it was not replaced", link.display()))
            .hint("rename that file, and run the same command again");
    }
    Failure::output(format!("cannot replace {}: {error}", link.display()))
        .hint_if(release_dir::remedy(&directory.path, error))
}

fn display_name(name: &OsStr) -> String {
    one_line(&name.to_string_lossy())
}

/// Renders the releases as a table, damaged ones last.
fn list(directory: &ReleaseDir, paint: Paint) -> String {
    if directory.releases.is_empty() {
        return format!("{} has no archives\n", directory.path.display());
    }
    // There are two tables, because the message about a damaged archive would widen the columns of all
    // others.
    let mut sound = Table::default();
    let mut damaged = Table::default();
    for release in &directory.releases {
        let mark = directory.state(release).word();
        let table = if release.label.is_ok() { &mut sound } else { &mut damaged };
        let row = table.row(display_name(&release.name)).text(mark).number(bytes(release.bytes));
        let row = row.text(release.date().map_or(String::new(), minute));
        match &release.label {
            Ok(label) => add_label(row, label),
            Err(error) => drop(row.text(format!("damaged: {}", one_line(&error.to_string())))),
        }
    }

    let mut text = sound.render(0, paint) + &damaged.render(0, paint);
    if directory.current.is_none() {
        text.push_str("\nnone of them is current: `--use RELEASE` creates the link `current`\n");
    }
    text
}

fn add_label(row: Row<'_>, label: &Label) {
    let digest = label.digest.get(..DIGEST_DIGITS).unwrap_or(&label.digest);
    let mut paths = counted(label.paths, "path");
    if label.carried > 0 {
        paths.push_str(&format!(", {} carried", count(label.carried)));
    }
    row.text(format!("release {}", label.serial)).text(paths).faint(format!("digest {digest}"));
}

#[derive(Serialize)]
struct Listed {
    current: Option<String>,
    releases: Vec<ListedRelease>,
}

#[derive(Serialize)]
struct ListedRelease {
    name: String,
    current: bool,
    state: ReleaseState,
    bytes: u64,
    /// File modification time in seconds since 1970.
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

fn listed(directory: &ReleaseDir) -> Listed {
    let release = |release: &Release| ListedRelease {
        name: release.name.to_string_lossy().into_owned(),
        current: directory.is_current(release),
        state: directory.state(release),
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
        current: directory.current.as_ref().map(|name| name.to_string_lossy().into_owned()),
        releases: directory.releases.iter().map(release).collect(),
    }
}
