//! An order that the authority was asked to fulfill, on disk until its certificate is in the folder. Without it, the key of a
//! certificate that is issued too late would be lost with the process.

use rcgen::KeyPair;
use serde::{Deserialize, Serialize};
use zeroize::{Zeroize, Zeroizing};

use crate::clock::Timestamp;
use crate::error::Error;
use crate::folder::Folder;
use crate::limits::REISSUE_INTERVAL;
use crate::names::Names;

/// An unfinished order.
#[derive(Serialize, Deserialize)]
pub(super) struct UnfinishedOrder {
    at: Timestamp,
    /// The directory URL of the authority.
    directory: String,
    names: String,
    pub(super) url: String,
    /// The certificate's key in PEM.
    key: String,
}

/// The file of a certificate's unfinished order.
#[derive(Clone, Copy)]
pub(crate) struct OrderFile<'a> {
    pub(crate) folder: &'a Folder,
    /// The first part of the names of the certificate's files.
    pub(crate) stem: &'a str,
}

impl OrderFile<'_> {
    fn name(self) -> String {
        format!(".{}.order", self.stem)
    }

    /// Reads the order, if it is for these names and not too old. The authority may not know older ones any more, and a certificate
    /// that was ordered that long ago isn't what is due now.
    pub(super) fn read(self, directory: &str, names: &Names) -> Result<Option<UnfinishedOrder>, Error> {
        let Some(text) = self.folder.read(&self.name())? else { return Ok(None) };
        let order: Option<UnfinishedOrder> = serde_json::from_slice(&text).ok();
        let now = Timestamp::now();
        Ok(order.filter(|order| {
            let is_recent = order.at <= now && order.at.until(now) < REISSUE_INTERVAL;
            is_recent && order.directory == directory && order.names == names.to_string()
        }))
    }

    pub(super) fn write(self, directory: &str, names: &Names, url: &str, key: &KeyPair) -> Result<(), Error> {
        let order = UnfinishedOrder {
            at: Timestamp::now(),
            directory: directory.to_owned(),
            names: names.to_string(),
            url: url.to_owned(),
            key: key.serialize_pem(),
        };
        let text = Zeroizing::new(serde_json::to_vec(&order).unwrap_or_default());
        self.folder.write_private(&self.name(), &text)
    }

    /// Forgets the order. The file becomes empty: in the sandbox, files can only be replaced. If that fails, the order becomes too old.
    pub(crate) fn clear(self) {
        if self.folder.file(&self.name()).metadata().is_ok_and(|metadata| metadata.len() > 0) {
            let _ = self.folder.write_private(&self.name(), &[]);
        }
    }
}

impl UnfinishedOrder {
    /// Returns the key, or `None` if it is damaged.
    pub(super) fn key(&self) -> Option<KeyPair> {
        KeyPair::from_pem(&self.key).ok()
    }
}

impl Drop for UnfinishedOrder {
    fn drop(&mut self) {
        self.key.zeroize();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::BundleReaders;

    #[test]
    fn order_is_for_its_names_and_authority_and_becomes_too_old() {
        let place = tempfile::tempdir().unwrap();
        let folder = &Folder::open(place.path(), BundleReaders::Owner).unwrap();
        let file = OrderFile { folder, stem: "a.example" };
        let key = KeyPair::generate().unwrap();
        let names: Names = "a.example,b.example".parse().unwrap();
        let found = |directory: &str, names: &Names| file.read(directory, names).unwrap();
        assert!(found("one", &names).is_none());

        file.write("one", &names, "url", &key).unwrap();
        let order = found("one", &names).unwrap();
        assert_eq!((order.url.as_str(), order.key().unwrap().serialize_pem()), ("url", key.serialize_pem()));
        assert!(found("other", &names).is_none());
        assert!(found("one", &"a.example".parse().unwrap()).is_none());

        let path = place.path().join(".a.example.order");
        let text = std::fs::read_to_string(&path).unwrap();
        let now = Timestamp::now();
        for at in [now.0 - 25 * 3600, now.0 + 3600] {
            let moved = text.replace(&format!("\"at\":{}", order.at.0), &format!("\"at\":{at}"));
            assert_ne!(moved, text);
            std::fs::write(&path, moved).unwrap();
            assert!(found("one", &names).is_none());
        }
        std::fs::write(&path, "damaged").unwrap();
        assert!(found("one", &names).is_none());
        file.clear();
        assert_eq!(path.metadata().unwrap().len(), 0);
    }
}
