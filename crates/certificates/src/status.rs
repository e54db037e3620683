//! The state of a folder, for every user who may read it: no lock is taken, and nothing is sent.

use std::fs;
use std::path::{Path, PathBuf};

use crate::acme::{ACCOUNTS_FILE, AccountKey, Accounts, KEY_FILE};
use crate::clock::Timestamp;
use crate::error::Error;
use crate::folder::{self, BundleReaders, Folder};
use crate::issuer::{STATE_SUFFIX, read_certificate};
use crate::names::Names;
use crate::schedule::Journal;

/// The state of one certificate.
#[derive(Clone, Debug)]
pub struct CertificateStatus {
    /// The bundle. It may not exist yet.
    pub path: PathBuf,
    /// When the certificate in the folder expires. `None` if there is none, or if the server would refuse it. If we may not read it,
    /// this is what the journal says.
    pub not_after: Option<Timestamp>,
    /// The state as the issuing process has written it.
    pub journal: Journal,
}

/// Returns the state of all certificates in a folder, by name.
///
/// # Errors
/// Returns an error if the folder or a state can't be read.
pub fn status(path: &Path) -> Result<Vec<CertificateStatus>, Error> {
    let failed = |source| Error::folder("read", path, source);
    let mut found = Vec::new();
    for entry in fs::read_dir(path).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let Some(stem) = name.to_str().and_then(|name| name.strip_suffix(STATE_SUFFIX)) else { continue };
        // A file that is being replaced has a name that starts with a dot and ends differently.
        let state = folder::read(&path.join(&name))?.unwrap_or_default();
        let journal: Journal = serde_json::from_slice(&state).unwrap_or_default();
        let bundle = path.join(format!("{stem}.pem"));
        let not_after = match read_certificate(&bundle) {
            Ok(certificate) => certificate.map(|certificate| certificate.validity.not_after),
            // Bundles contain keys, so other users only know what the issuing process says.
            Err(_) => journal.not_after,
        };
        found.push(CertificateStatus { path: bundle, not_after, journal });
    }
    found.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(found)
}

/// Returns the thumbprint of a folder's account key, which is generated if there is none. Only then is the folder locked.
///
/// # Errors
/// Returns an error if the key can't be read or written.
pub fn thumbprint(path: &Path) -> Result<String, Error> {
    let key = match read_key(path)? {
        Some(key) => key,
        None => AccountKey::load_or_generate(&Folder::open(path, BundleReaders::Owner)?)?,
    };
    Ok(key.thumbprint().to_owned())
}

/// Returns the thumbprint, and writes it into the folder for a server that will read it there. If another process holds the folder, that
/// process has done so.
///
/// # Errors
/// Same as for [`thumbprint`].
pub fn publish_thumbprint(path: &Path) -> Result<String, Error> {
    let folder = match Folder::open(path, BundleReaders::Owner) {
        Ok(folder) => folder,
        // Another process has the folder, or it can't be written. The key is enough: `Issuer::open` reports the error.
        Err(error) => return read_key(path)?.map(|key| key.thumbprint().to_owned()).ok_or(error),
    };
    let key = AccountKey::load_or_generate(&folder)?;
    let _ = key.publish_thumbprint(&folder);
    Ok(key.thumbprint().to_owned())
}

/// Returns the URL of the account that a folder's key has at an authority. `directory` is the URL of its directory.
///
/// # Errors
/// Returns an error if the key or the accounts can't be read.
pub fn account_url(path: &Path, directory: &str) -> Result<Option<String>, Error> {
    let Some(key) = read_key(path)? else { return Ok(None) };
    Ok(Accounts::read(&path.join(ACCOUNTS_FILE))?.get(directory, &key).map(str::to_owned))
}

/// Requests from the process that issues certificates for a folder to renew one, which begins with the first name of `names`, before
/// it's due. Returns a description of the process. If there is none, nothing is requested, and this returns `None`.
///
/// # Errors
/// Returns an error if the lock can't be read, or if the request can't be written.
pub fn request_renewal(path: &Path, names: &Names) -> Result<Option<String>, Error> {
    folder::request_renewal(path, &names.file_stem())
}

fn read_key(place: &Path) -> Result<Option<AccountKey>, Error> {
    let path = place.join(KEY_FILE);
    let Some(pem) = folder::read(&path)? else { return Ok(None) };
    AccountKey::from_pem(&pem).map(Some).map_err(|why| Error::Account { path, why })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn journal_counts_only_for_an_unreadable_bundle() {
        let place = tempfile::tempdir().unwrap();
        let not_after = Some(Timestamp(4_000_000_000));
        let journal = Journal { not_after, ..Journal::default() };
        let state = serde_json::to_vec(&journal).unwrap();
        fs::write(place.path().join("a.example.state.json"), state).unwrap();
        let found = || status(place.path()).unwrap()[0].not_after;

        assert_eq!(found(), None, "there is no bundle");
        let bundle = place.path().join("a.example.pem");
        fs::write(&bundle, "damaged").unwrap();
        assert_eq!(found(), None);
        // No user can read it, not even root.
        fs::remove_file(&bundle).unwrap();
        fs::create_dir(&bundle).unwrap();
        assert_eq!(found(), not_after);
    }
}
