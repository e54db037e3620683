//! A minimal Debian with systemd, in a container of systemd-nspawn with a network of its own, in which a script runs. It needs root.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Error;
use crate::project;

/// The release of Debian that packages are made for.
const RELEASE: &str = "bookworm";

/// The files of a machine that isn't running. Its directory `/check` is for files of the test.
pub(crate) struct Machine {
    root: PathBuf,
}

impl Machine {
    /// Creates the machine as this directory. The system is downloaded once, below `target/`.
    pub(crate) fn create(root: &Path) -> Result<Machine, Error> {
        if let Some(parent) = root.parent() {
            fs::create_dir_all(parent).map_err(|source| Error::file(parent, source))?;
        }
        let kept = project::outside().join("debian");
        project::run(script(include_str!("machine/create.sh")).arg(kept).arg(root).arg(RELEASE))?;
        Ok(Machine { root: root.to_owned() })
    }

    /// Copies a file to `/check`.
    pub(crate) fn copy(&self, from: &Path, name: &str) -> Result<(), Error> {
        fs::copy(from, self.shared(name)).map_err(|source| Error::file(from, source)).map(|_| ())
    }

    /// Writes a file in `/check`.
    pub(crate) fn write(&self, name: &str, text: &str) -> Result<(), Error> {
        let path = self.shared(name);
        fs::write(&path, text).map_err(|source| Error::file(path, source))
    }

    /// Boots the machine, runs a script of sh as root in it, and prints the script's output. Returns an error if the script fails.
    pub(crate) fn run(&self, text: &str) -> Result<(), Error> {
        self.write("machine.sh", text)?;
        project::run(script(include_str!("machine/boot.sh")).arg(&self.root))
    }

    fn shared(&self, name: &str) -> PathBuf {
        self.root.join("check").join(name)
    }
}

fn script(text: &str) -> Command {
    let mut sh = Command::new("sh");
    sh.args(["-euc", text, "sh"]);
    sh
}
