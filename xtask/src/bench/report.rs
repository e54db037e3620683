//! What a benchmark says, on the screen and in `bench/results/`, so that a published figure can be traced.

use std::fs;

use super::machine;
use crate::error::Error;
use crate::project;

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
        let folder = project::root().join("bench/results");
        fs::create_dir_all(&folder).map_err(|source| Error::file(&folder, source))?;
        let path = folder.join(format!("{}-{}.txt", self.name, machine::slug()));
        fs::write(&path, self.text).map_err(|source| Error::file(&path, source))?;
        println!("kept in {}", path.display());
        Ok(())
    }
}
