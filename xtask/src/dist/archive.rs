//! An archive of the programs for a target, with manual pages, completions and licenses, and another one of their debug
//! information.

use cannery_image::{Tree, gzip};

use crate::dist::programs::{NAMES, Programs};
use crate::dist::target::Target;
use crate::dist::{Release, read, tree, write_file};
use crate::error::Error;

/// Documents in the archive.
const DOCUMENTS: [&str; 4] = ["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"];

/// Writes both archives. `host` are programs that run on this machine.
pub(super) fn write(
    release: &Release,
    target: &Target,
    programs: &Programs,
    host: &Programs,
) -> Result<(), Error> {
    let folder = format!("cannery-{}-{}", release.version, target.triple);
    let mut files = Tree::new();
    for name in NAMES {
        files.add_bytes(format!("{folder}/bin/{name}"), 0o755, read(&programs.program(name))?);
    }
    for name in DOCUMENTS {
        files.add_bytes(format!("{folder}/{name}"), 0o644, tree::text_of(name)?);
    }
    tree::add_manual(&mut files, &format!("{folder}/share"), &tree::FOR_OTHERS, host)?;
    pack(release, &files, &folder)?;

    let folder = format!("{folder}-debug");
    let mut files = Tree::new();
    for name in NAMES {
        files.add_bytes(format!("{folder}/{name}.debug"), 0o644, read(&programs.debug(name))?);
    }
    pack(release, &files, &folder)
}

/// Writes the result `NAME.tar.gz`.
pub(super) fn pack(release: &Release, files: &Tree<'_>, name: &str) -> Result<(), Error> {
    let path = release.directory.join(format!("{name}.tar.gz"));
    let tar = files.to_tar(release.time).map_err(|source| Error::file(&path, source))?;
    write_file(&path, &gzip(&tar))
}
