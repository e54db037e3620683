//! DNS records that are set at the moment. They are on disk, so that a process that is killed leaves them to the next one.

use std::time::Instant;

use crate::challenge::dns_hook::{DnsHook, Record};
use crate::error::Error;
use crate::folder::Folder;
use crate::limits::{HOOK_TIMEOUT, RECORDS_MAX};

/// Name of the file.
const FILE: &str = "records.json";

/// DNS records that are set. They are removed at the end of the order, whatever its outcome.
pub(crate) struct Records<'a> {
    hook: &'a DnsHook,
    folder: &'a Folder,
    set: Vec<Record>,
    /// Records of earlier orders that the hook has failed to remove. The next order tries it again.
    left: Vec<Record>,
}

impl<'a> Records<'a> {
    /// Removes what an earlier process has left.
    pub(crate) fn open(hook: &'a DnsHook, folder: &'a Folder) -> Result<Records<'a>, Error> {
        let found = folder.read(FILE)?;
        // Nothing depends on records that are left, so a damaged file doesn't matter.
        let set = found.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
        let mut records = Records { hook, folder, set, left: Vec::new() };
        records.remove_all();
        Ok(records)
    }

    /// Sets a record.
    pub(crate) fn set(&mut self, record: Record) -> Result<(), Error> {
        // Also removed if setting it fails halfway.
        self.set.push(record);
        self.write()?;
        self.set.last().map_or(Ok(()), |record| self.hook.set(record))
    }

    fn remove_all(&mut self) {
        let mut hangs = false;
        while let Some(record) = self.set.pop() {
            // A record that stays does no harm, and the hook has reported its error. After a call that has hung, the others are left, too:
            // they would hold up the orders of all certificates.
            let began = Instant::now();
            let is_removed = !hangs && self.hook.remove(&record).is_ok();
            hangs |= began.elapsed() >= HOOK_TIMEOUT;
            if !is_removed {
                self.left.push(record);
            }
            // If this fails, it will be removed once more.
            let _ = self.write();
        }
    }

    fn write(&self) -> Result<(), Error> {
        // A hook that always fails must not make the list grow forever.
        let excess = self.left.len().saturating_sub(RECORDS_MAX);
        let listed: Vec<_> = self.left[excess..].iter().chain(&self.set).collect();
        self.folder.write_public(FILE, &serde_json::to_vec(&listed).unwrap_or_default())
    }
}

impl Drop for Records<'_> {
    fn drop(&mut self) {
        self.remove_all();
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::dns_hook::tests::hook;
    use super::*;
    use crate::folder::BundleReaders;

    #[test]
    fn records_of_a_killed_process_are_removed() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::open(&place.path().join("tls"), BundleReaders::Owner).unwrap();
        let calls = || {
            let calls = fs::read_to_string(place.path().join("calls")).unwrap_or_default();
            fs::write(place.path().join("calls"), "").unwrap();
            calls
        };
        let record = |value: &str| Record { name: "_acme-challenge.example.com".into(), value: value.into() };
        // The one with the value `bad` can't be removed.
        let hook = hook(&place, "echo \"$1 $3\" >> calls; [ \"$1 $3\" != 'remove bad' ]");

        let mut records = Records::open(&hook, &folder).unwrap();
        for value in ["one", "bad", "two"] {
            records.set(record(value)).unwrap();
        }
        assert_eq!(calls(), "set one\nset bad\nset two\n");
        std::mem::forget(records);

        let mut records = Records::open(&hook, &folder).unwrap();
        assert_eq!(calls(), "remove two\nremove bad\nremove one\n");
        records.set(record("three")).unwrap();
        drop(records);
        assert_eq!(calls(), "set three\nremove three\n");
        drop(Records::open(&hook, &folder).unwrap());
        assert_eq!(calls(), "remove bad\n");

        fs::write(folder.file(FILE), "damaged").unwrap();
        drop(Records::open(&hook, &folder).unwrap());
        assert_eq!(calls(), "");
    }
}
