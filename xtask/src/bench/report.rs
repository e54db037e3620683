//! What a benchmark says, on the screen and in `bench/results/`, so that a published figure can be traced.

use std::fs;
use std::path::Path;

use super::machine;
use crate::error::Error;
use crate::project;

/// How the first lines of every report begin.
const OPENING: [&str; 4] = ["command:", "machine:", "version:", "left out:"];

/// The text so far.
pub(crate) struct Report {
    name: &'static str,
    text: String,
}

impl Report {
    /// Opens with what the figures depend on: the command that repeats them, the machine, the versions.
    pub(crate) fn new(name: &'static str, command: &str, versions: &[String]) -> Report {
        let mut report = Report { name, text: String::new() };
        report.line(&format!("command:  {command}"));
        report.line(&format!("machine:  {}", machine::line()));
        for version in versions {
            report.line(&format!("version:  {version}"));
        }
        report
    }

    /// What the figures depend on.
    pub(crate) fn opening(&self) -> &str {
        let is_opening = |line: &&str| OPENING.iter().any(|word| line.starts_with(word));
        let bytes = self.text.split_inclusive('\n').take_while(is_opening).map(str::len).sum();
        &self.text[..bytes]
    }

    /// Says a line now and keeps it for the file.
    pub(crate) fn line(&mut self, line: &str) {
        println!("{line}");
        self.raw(line);
    }

    /// Keeps text for the file only.
    pub(crate) fn raw(&mut self, text: &str) {
        self.text.push_str(text.trim_end());
        self.text.push('\n');
    }

    /// Replaces what an earlier run left on the same kind of machine.
    pub(crate) fn save(self) -> Result<(), Error> {
        self.save_in(&project::root().join("bench/results"))
    }

    /// The same in another folder.
    pub(crate) fn save_in(self, folder: &Path) -> Result<(), Error> {
        fs::create_dir_all(folder).map_err(|source| Error::file(folder, source))?;
        let path = folder.join(format!("{}-{}.txt", self.name, machine::slug()));
        fs::write(&path, self.text).map_err(|source| Error::file(&path, source))?;
        println!("kept in {}", path.display());
        Ok(())
    }
}
