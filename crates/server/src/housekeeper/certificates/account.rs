//! The ACME account of the process that renews certificates. It writes the thumbprint next to its bundles.
//!
//! The process usually tells the thumbprint before the server starts. It can't if its folder is locked or full at that time, for
//! example, and it gets another account if the operator removes the key.

use std::path::PathBuf;

use super::super::state_files::StateFiles;
use crate::config::{SharedThumbprint, Thumbprint, Tls};

/// Name of the file.
const FILE: &str = "thumbprint";

pub(super) struct Account {
    file: PathBuf,
    files: StateFiles<Thumbprint>,
    shared: SharedThumbprint,
}

impl Account {
    /// Returns the account of the process that issues certificates for this server, if there is one.
    pub(super) fn of(tls: &Tls, shared: &SharedThumbprint) -> Option<Account> {
        let folder = tls.issued().first()?.bundle.parent()?;
        Some(Account { file: folder.join(FILE), files: StateFiles::default(), shared: shared.clone() })
    }

    /// Reads the thumbprint, and answers the challenges of its account. Without a file, the server keeps the account that it has.
    pub(super) fn read(&mut self) {
        if let Some(thumbprint) = self.files.read(self.file.clone(), parse)
            && self.shared.get().as_ref() != Some(&thumbprint)
        {
            self.shared.set(Some(thumbprint));
        }
    }
}

fn parse(text: &[u8]) -> Option<Thumbprint> {
    std::str::from_utf8(text).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thumbprint_is_kept_until_there_is_another() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(FILE);
        let shared = SharedThumbprint::default();
        let mut account =
            Account { file: file.clone(), files: StateFiles::default(), shared: shared.clone() };
        let [first, second] =
            ["9jg46WB3rR_AHD-EBXdN7cBkH1WOu0tA3M9fm21mqTI", "oKIywvGUpTVTyxMQ3bwIIeQUudfr_CkLMjCE19ECD-U"];
        let mut after = |text: Option<&str>| {
            let _ = std::fs::remove_file(&file);
            if let Some(text) = text {
                std::fs::write(&file, text).unwrap();
            }
            account.read();
            shared.get().map(|thumbprint| thumbprint.as_str().to_owned())
        };
        assert_eq!(after(None), None);
        assert_eq!(after(Some(&format!("{first}\n"))).as_deref(), Some(first));
        for kept in [None, Some(""), Some("damaged")] {
            assert_eq!(after(kept).as_deref(), Some(first), "{kept:?}");
        }
        assert_eq!(after(Some(second)).as_deref(), Some(second));
    }
}
