//! The account key, which signs all requests, and the accounts that it has at authorities.
//!
//! The key is on disk before the first request. To register it again returns the same account (RFC 8555 §7.3.1), so a crash can't
//! leave accounts behind.

use std::collections::BTreeMap;
use std::path::Path;

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PublicKeyData};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use zeroize::Zeroizing;

use crate::error::Error;
use crate::folder::{self, Folder};

/// Name of the key's file.
pub(crate) const KEY_FILE: &str = "account.pem";

/// Name of the file with the key's thumbprint.
const THUMBPRINT_FILE: &str = "thumbprint";

/// Name of the file with the accounts' URLs.
pub(crate) const ACCOUNTS_FILE: &str = "account.json";

/// The account key: ECDSA on P-256.
pub(crate) struct AccountKey {
    pub(super) pkcs8: Zeroizing<Vec<u8>>,
    /// The public key, an uncompressed point.
    point: Vec<u8>,
    thumbprint: String,
}

/// The accounts at authorities, by directory.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Accounts(BTreeMap<String, KnownAccount>);

/// An account, and the key that it belongs to. Signatures of another key would be refused.
#[derive(Serialize, Deserialize)]
struct KnownAccount {
    url: String,
    thumbprint: String,
}

impl AccountKey {
    /// Reads the key. It is generated if there is none.
    pub(crate) fn load_or_generate(folder: &Folder) -> Result<AccountKey, Error> {
        let crypto = |error: rcgen::Error| Error::Crypto { why: error.to_string() };
        if let Some(pem) = folder.read(KEY_FILE)? {
            return AccountKey::from_pem(&pem)
                .map_err(|why| Error::Account { path: folder.file(KEY_FILE), why });
        }
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(crypto)?;
        folder.write_private(KEY_FILE, Zeroizing::new(key.serialize_pem()).as_bytes())?;
        Ok(AccountKey::new(&key))
    }

    /// Reads a key in PKCS #8. Errors don't quote it.
    pub(crate) fn from_pem(pem: &[u8]) -> Result<AccountKey, String> {
        let text = std::str::from_utf8(pem).map_err(|_| "it is not PEM")?;
        let key = KeyPair::from_pem(text).map_err(|_| "it is not a private key in PKCS #8 (PEM)")?;
        if !key.is_compatible(&PKCS_ECDSA_P256_SHA256) {
            return Err("it is not an ECDSA key on P-256".into());
        }
        Ok(AccountKey::new(&key))
    }

    fn new(key: &KeyPair) -> AccountKey {
        let point = key.der_bytes().to_vec();
        AccountKey { pkcs8: Zeroizing::new(key.serialize_der()), thumbprint: thumbprint(&point), point }
    }

    /// Returns the public key as a JSON Web Key (RFC 7517).
    pub(super) fn public_key(&self) -> Value {
        let (x, y) = coordinates(&self.point);
        json!({ "crv": "P-256", "kty": "EC", "x": x, "y": y })
    }

    /// Writes the thumbprint for servers, which read it while they run.
    pub(crate) fn publish_thumbprint(&self, folder: &Folder) -> Result<(), Error> {
        let text = format!("{}\n", self.thumbprint);
        // A file that can't be read is replaced.
        let found = folder.read(THUMBPRINT_FILE).unwrap_or_default();
        if found.is_some_and(|found| found.as_slice() == text.as_bytes()) {
            return Ok(());
        }
        folder.write_public(THUMBPRINT_FILE, text.as_bytes())
    }

    /// Returns the thumbprint, which is part of each response to an HTTP-01 challenge.
    pub(crate) fn thumbprint(&self) -> &str {
        &self.thumbprint
    }
}

/// Computes the thumbprint (RFC 7638) of a public key on P-256.
fn thumbprint(point: &[u8]) -> String {
    let (x, y) = coordinates(point);
    // The members are sorted, and there is no white space.
    let key = format!(r#"{{"crv":"P-256","kty":"EC","x":"{x}","y":"{y}"}}"#);
    BASE64_URL_SAFE_NO_PAD.encode(digest(&SHA256, key.as_bytes()))
}

/// Returns the coordinates of an uncompressed point, whose first byte is 4.
fn coordinates(point: &[u8]) -> (String, String) {
    let both = point.get(1..).unwrap_or_default();
    let (x, y) = both.split_at(both.len() / 2);
    (BASE64_URL_SAFE_NO_PAD.encode(x), BASE64_URL_SAFE_NO_PAD.encode(y))
}

impl Accounts {
    /// Reads the file. A damaged file counts as empty, because the authority knows the accounts of the key.
    pub(crate) fn read(path: &Path) -> Result<Accounts, Error> {
        let text = folder::read(path)?;
        Ok(text.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default())
    }

    /// Returns the URL of the account that the key has at an authority.
    pub(crate) fn get(&self, directory: &str, key: &AccountKey) -> Option<&str> {
        let known = self.0.get(directory)?;
        (known.thumbprint == key.thumbprint).then_some(known.url.as_str())
    }

    /// Sets or removes the URL of the account that the key has at an authority, and writes the file.
    pub(super) fn set(
        &mut self,
        folder: &Folder,
        directory: &str,
        key: &AccountKey,
        url: Option<&str>,
    ) -> Result<(), Error> {
        match url {
            Some(url) => {
                let known = KnownAccount { url: url.to_owned(), thumbprint: key.thumbprint.clone() };
                self.0.insert(directory.to_owned(), known)
            }
            None => self.0.remove(directory),
        };
        let text = serde_json::to_vec_pretty(self).unwrap_or_default();
        folder.write_private(ACCOUNTS_FILE, &text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::BundleReaders;

    #[test]
    fn thumbprint_is_that_of_the_specification() {
        // The key of RFC 7515 appendix A.3. Other libraries compute the same thumbprint.
        let decode = |text: &str| BASE64_URL_SAFE_NO_PAD.decode(text).unwrap();
        let mut point = vec![4];
        point.extend(decode("f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU"));
        point.extend(decode("x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"));
        assert_eq!(thumbprint(&point), "oKIywvGUpTVTyxMQ3bwIIeQUudfr_CkLMjCE19ECD-U");
    }

    #[test]
    fn key_stays() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::open(place.path(), BundleReaders::Owner).unwrap();
        let first = AccountKey::load_or_generate(&folder).unwrap();
        let second = AccountKey::load_or_generate(&folder).unwrap();
        assert_eq!(first.thumbprint(), second.thumbprint());
        assert_eq!(first.thumbprint().len(), 43);
    }

    #[test]
    fn accounts_of_another_key_are_unknown() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::open(place.path(), BundleReaders::Owner).unwrap();
        let key = AccountKey::load_or_generate(&folder).unwrap();
        let (directory, url) = ("https://acme.test/directory", "https://acme.test/account/1");
        let read = || Accounts::read(&folder.file(ACCOUNTS_FILE)).unwrap();
        Accounts::default().set(&folder, directory, &key, Some(url)).unwrap();
        assert_eq!(read().get(directory, &key), Some(url));

        std::fs::remove_file(place.path().join(KEY_FILE)).unwrap();
        let other = AccountKey::load_or_generate(&folder).unwrap();
        assert_eq!(read().get(directory, &other), None);
    }

    #[test]
    fn damaged_key_is_not_replaced() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::open(place.path(), BundleReaders::Owner).unwrap();
        let other = KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap().serialize_pem();
        for content in ["", "secret-line", other.as_str()] {
            folder.write_private(KEY_FILE, content.as_bytes()).unwrap();
            let error = AccountKey::load_or_generate(&folder).err().unwrap();
            assert!(error.to_string().contains(KEY_FILE) && !error.to_string().contains("secret"), "{error}");
            assert_eq!(folder.read(KEY_FILE).unwrap().unwrap().as_slice(), content.as_bytes());
        }
    }
}
