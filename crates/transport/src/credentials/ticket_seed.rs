//! A secret from a file that several machines share, from which they derive the same ticket keys.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use aws_lc_rs::hkdf::{HKDF_SHA256, Prk, Salt};

use super::files;
use crate::Error;

/// Minimum length of the file in bytes: that of the keys which are derived from it.
pub(crate) const TICKET_SEED_BYTES_MIN: usize = 32;

/// Permissions of users who are neither the owner nor in the group.
const OTHERS: u32 = 0o007;

/// The secret.
#[derive(Clone)]
pub struct TicketSeed(pub(super) Prk);

impl TicketSeed {
    /// Reads the secret from a file. All of its bytes count, so the file must be the same on all machines.
    ///
    /// # Errors
    /// Returns an error if the file can't be read, is shorter than 32 bytes, or may be read or written by every user.
    pub fn load(path: &Path) -> Result<Self, Error> {
        let (bytes, metadata) = files::read(path)?;
        let mode = metadata.permissions().mode() & 0o777;
        if mode & OTHERS != 0 {
            return Err(Error::SecretOfEveryone { path: path.to_owned(), mode });
        }
        if bytes.len() < TICKET_SEED_BYTES_MIN {
            return Err(Error::ShortTicketSeed { path: path.to_owned(), bytes: bytes.len() });
        }
        Ok(Self::of(&bytes))
    }

    fn of(bytes: &[u8]) -> Self {
        Self(Salt::new(HKDF_SHA256, b"cannery ticket seed").extract(bytes))
    }
}

#[cfg(test)]
impl From<&[u8]> for TicketSeed {
    fn from(bytes: &[u8]) -> Self {
        Self::of(bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn files_that_are_short_or_open_to_everyone_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("seed");
        let load = |content: &[u8], mode: u32| {
            fs::write(&path, content).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            TicketSeed::load(&path)
        };
        assert!(load(&[7; 32], 0o400).is_ok() && load(&[7; 33], 0o640).is_ok());
        assert!(matches!(load(&[7; 31], 0o600), Err(Error::ShortTicketSeed { bytes: 31, .. })));
        for mode in [0o604, 0o602, 0o644] {
            assert!(matches!(load(&[7; 32], mode), Err(Error::SecretOfEveryone { .. })), "{mode:o}");
        }
        assert!(matches!(TicketSeed::load(&folder.path().join("missing")), Err(Error::Unreadable { .. })));
    }
}
