//! One certificate of a folder, with its schedule and its files.

use std::io::ErrorKind;
use std::path::Path;
use std::time::SystemTime;

use cannery_transport::{Certificates, Source};
use zeroize::Zeroizing;

use crate::acme::OrderFile;
use crate::certificate::{Certificate, RenewalId, Validity};
use crate::clock::{Now, Timestamp};
use crate::error::Error;
use crate::event::Event;
use crate::folder::{self, Folder};
use crate::limits::ORDER_INTERVAL_MIN;
use crate::names::Names;
use crate::schedule::{Attempt, Fulfilled, Held, Journal, Schedule};

/// End of the name of a state's file.
pub(crate) const STATE_SUFFIX: &str = ".state.json";

/// A certificate that we keep valid.
pub(super) struct Managed {
    pub(super) names: Names,
    /// The first part of its files' names.
    pub(super) stem: String,
    pub(super) schedule: Schedule,
    /// The certificate in the folder, if it is for these names and of this authority.
    certificate: Option<Certificate>,
    /// The certificate in the folder when we looked last.
    seen: Option<Certificate>,
    /// The journal as it is on disk.
    saved: Option<Journal>,
    /// The moment of the renewal that was announced last.
    announced: Option<Timestamp>,
    /// Whether the files have been read.
    is_read: bool,
    /// An issued bundle that couldn't be written.
    pub(super) unwritten: Option<Zeroizing<String>>,
    /// Why they can't be used, as it was reported last.
    pub(super) fault: Option<String>,
}

/// Describes a certificate for its schedule. The authority only knows the certificates that it has issued.
fn held(certificate: &Certificate, is_of_authority: bool) -> Held {
    Held {
        validity: certificate.validity,
        has_renewal_id: is_of_authority && certificate.renewal_id.is_some(),
    }
}

impl Managed {
    /// The files are read at the first look.
    pub(super) fn new(names: Names) -> Managed {
        let (stem, schedule) = (names.file_stem(), Schedule::new(Journal::default(), None));
        Managed {
            names,
            stem,
            schedule,
            certificate: None,
            seen: None,
            saved: None,
            announced: None,
            is_read: false,
            unwritten: None,
            fault: None,
        }
    }

    /// Reads the state and the certificate.
    fn read(&mut self, folder: &Folder, directory: &str, now: Timestamp) -> Result<(), Error> {
        let Managed { names, stem, .. } = self;
        let text = folder.read(&format!("{stem}{STATE_SUFFIX}"))?;
        let saved: Option<Journal> = text.as_ref().and_then(|text| serde_json::from_slice(text).ok());
        let mut journal = saved.clone().unwrap_or_default();
        if text.is_some() && saved.is_none() {
            // A damaged state may have known of an order.
            journal.attempt = Some(Attempt { at: now, failures: 0, next_at: now + ORDER_INTERVAL_MIN });
        }

        folder.admit_readers(&format!("{stem}.pem"))?;
        let seen = read_certificate(&folder.file(&format!("{stem}.pem")))?;
        // A process that was killed has left the bundle, and not recorded who has issued it.
        let pending = std::mem::take(&mut journal.pending);
        let is_unrecorded = seen.as_ref().is_some_and(|seen| seen.fingerprint == pending);
        if is_unrecorded {
            journal.directory.clone_from(&journal.attempt_directory);
            // These were for the certificate before.
            journal.advice = None;
            journal.last_error = None;
            journal.refuses_replacement = false;
            journal.is_renewal_requested = false;
            journal.issued_at = journal.attempt.map(|attempt| attempt.at);
            journal.attempt = journal.attempt.map(|attempt| {
                let next_at = attempt.at + ORDER_INTERVAL_MIN;
                Attempt { failures: 0, next_at, ..attempt }
            });
            OrderFile { folder, stem }.clear();
        }
        let is_of_authority = journal.directory == directory;
        let is_of_other = !is_of_authority && !journal.directory.is_empty();
        let certificate = seen.clone().filter(|seen| names.are(&seen.names) && !is_of_other);
        if !is_of_authority {
            journal.advice = None;
            journal.refuses_replacement = false;
        }
        let attempted =
            [&journal.attempt_directory, &journal.directory].into_iter().find(|url| !url.is_empty());
        if attempted.is_some_and(|attempted| attempted != directory) {
            // The failures at another authority say nothing about this one.
            journal.last_error = None;
            journal.attempt = journal.attempt.map(|attempt| {
                let next_at = attempt.next_at.min(attempt.at + ORDER_INTERVAL_MIN);
                Attempt { failures: 0, next_at, ..attempt }
            });
        }
        names.to_string().clone_into(&mut journal.names);
        directory.clone_into(&mut journal.attempt_directory);
        let held = certificate.as_ref().map(|certificate| held(certificate, is_of_authority));
        self.schedule = Schedule::new(journal, held);
        (self.certificate, self.seen, self.saved) = (certificate, seen, saved);
        self.is_read = true;
        Ok(())
    }

    /// Reads the files at first, and later notices that another process has removed or replaced the certificate.
    pub(super) fn look(&mut self, folder: &Folder, directory: &str, now: Timestamp) -> Result<(), Error> {
        if !self.is_read {
            return self.read(folder, directory, now);
        }
        let found = read_certificate(&folder.file(&self.bundle_file()))?;
        if found == self.seen {
            return Ok(());
        }
        self.certificate = found.clone().filter(|found| self.names.are(&found.names));
        self.schedule.replace_held(self.certificate.as_ref().map(|certificate| held(certificate, true)));
        self.seen = found;
        Ok(())
    }

    /// Takes a request of the operator to renew the certificate. Returns `true` if there was one.
    pub(super) fn take_request(&mut self, folder: &Folder) -> bool {
        // It waits for a state that can be read, which will know of it.
        let is_requested = self.is_read && folder.take_request(&self.stem);
        if is_requested {
            self.schedule.request_renewal();
            // Other certificates may keep this one waiting for minutes, and the file is gone. If this fails, it is saved later.
            let _ = self.save(folder);
        }
        is_requested
    }

    /// Takes a certificate that is in the folder now.
    pub(super) fn take(&mut self, certificate: Certificate, now: Now) -> Fulfilled {
        self.schedule.record_authority();
        let fulfilled = self.schedule.fulfill_order(now, held(&certificate, true));
        self.seen = Some(certificate.clone());
        self.certificate = Some(certificate);
        fulfilled
    }

    /// Whether a bundle that was ordered by an earlier process has another certificate than the one that we hold, which isn't due at once.
    pub(super) fn is_news(&self, bundle: &str, now: Timestamp) -> bool {
        // A bundle that can't be parsed is reported when it is published.
        let Some(found) = Certificate::from_pem(bundle.as_bytes()) else { return true };
        let is_held = self.seen.as_ref().is_some_and(|seen| seen.fingerprint == found.fingerprint);
        let Validity { not_before, not_after } = found.validity;
        !is_held && now < not_before + not_before.until(not_after) / 2
    }

    pub(super) fn renewal_id(&self) -> Option<&RenewalId> {
        self.certificate.as_ref()?.renewal_id.as_ref()
    }

    /// Returns the file of an order that isn't finished.
    pub(super) fn order_file<'a>(&'a self, folder: &'a Folder) -> OrderFile<'a> {
        OrderFile { folder, stem: &self.stem }
    }

    pub(super) fn bundle_file(&self) -> String {
        format!("{}.pem", self.stem)
    }

    /// Writes the state if it has changed.
    pub(super) fn save(&mut self, folder: &Folder) -> Result<(), Error> {
        let journal = self.schedule.journal();
        if self.saved.as_ref() == Some(journal) {
            return Ok(());
        }
        let mut text = serde_json::to_vec_pretty(journal).unwrap_or_default();
        text.push(b'\n');
        folder.write_public(&format!("{}{STATE_SUFFIX}", self.stem), &text)?;
        self.saved = Some(journal.clone());
        Ok(())
    }

    /// Whether there is a certificate, and the last attempt has not failed.
    pub(super) fn is_good(&self) -> bool {
        self.fault.is_none() && self.certificate.is_some() && self.schedule.journal().last_error.is_none()
    }

    /// Reports when the certificate will be renewed, if that has changed.
    pub(super) fn announce(&mut self, on_event: &mut dyn FnMut(&Event<'_>)) {
        let journal = self.schedule.journal();
        let renews_at = journal.renews_at.filter(|_| self.is_good());
        if let Some(renews_at) = renews_at
            && self.announced != Some(renews_at)
        {
            self.announced = Some(renews_at);
            on_event(&Event::Planned { certificate: &self.stem, renews_at });
        }
    }

    /// Reports a new certificate.
    pub(super) fn announce_issued(&self, folder: &Folder, on_event: &mut dyn FnMut(&Event<'_>)) {
        let journal = self.schedule.journal();
        on_event(&Event::Issued {
            certificate: &self.stem,
            path: &folder.file(&self.bundle_file()),
            not_after: journal.not_after.unwrap_or(Timestamp(0)),
            renews_at: journal.renews_at,
        });
    }
}

/// Reads the certificate of a bundle. A bundle that the server refuses counts as missing, and so does a placeholder that no client
/// trusts: otherwise, it would stay for its whole life.
pub(crate) fn read_certificate(bundle: &Path) -> Result<Option<Certificate>, Error> {
    let certificate = folder::read(bundle)?.and_then(|pem| Certificate::from_pem(&pem));
    let Some(certificate) = certificate.filter(|certificate| !certificate.is_self_signed) else {
        return Ok(None);
    };
    // The server will load the bundle in the same way. The key may be damaged, encrypted, or that of another certificate.
    match Certificates::load(&[Source::new(bundle)], SystemTime::now()) {
        Ok(_) => Ok(Some(certificate)),
        Err(cannery_transport::Error::Unreadable { cause, .. }) if cause.kind() != ErrorKind::NotFound => {
            Err(Error::folder("read", bundle, cause))
        }
        Err(_) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

    use super::*;
    use crate::folder::BundleReaders;
    use crate::schedule::{LastError, Step};

    const STAGING: &str = "https://staging.test/directory";
    const PRODUCTION: &str = "https://production.test/directory";

    /// Returns a bundle of an authority: a certificate for `a.example`, with its key.
    fn issued() -> String {
        let mut of_authority = CertificateParams::default();
        of_authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        of_authority.distinguished_name.push(DnType::CommonName, "authority");
        let authority = CertifiedIssuer::self_signed(of_authority, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let certificate = params().signed_by(&key, &authority).unwrap();
        format!("{}{}", certificate.pem(), key.serialize_pem())
    }

    fn params() -> CertificateParams {
        let mut params = CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
        params.use_authority_key_identifier_extension = true;
        let now = Timestamp::now();
        params.not_before = (now - Duration::from_secs(3600)).to_system_time().into();
        params.not_after = (now + Duration::from_secs(90 * 86_400)).to_system_time().into();
        params
    }

    fn write_bundle(folder: &Folder, bundle: &str) {
        fs::write(folder.file("a.example.pem"), bundle).unwrap();
    }

    /// Both at the first look and later.
    #[test]
    fn placeholder_is_not_taken_for_a_certificate() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::open(place.path(), BundleReaders::Owner).unwrap();
        let key = KeyPair::generate().unwrap();
        let mut params = params();
        params.use_authority_key_identifier_extension = false;
        let placeholder = format!("{}{}", params.self_signed(&key).unwrap().pem(), key.serialize_pem());
        let wall = Timestamp::now();
        let mut managed = Managed::new("a.example".parse().unwrap());
        for (bundle, is_held) in [(&placeholder, false), (&issued(), true), (&placeholder, false)] {
            write_bundle(&folder, bundle);
            managed.look(&folder, PRODUCTION, wall).unwrap();
            assert_eq!(managed.certificate.is_some(), is_held);
        }
    }

    #[test]
    fn bundle_that_the_server_refuses_counts_as_missing() {
        let place = tempfile::tempdir().unwrap();
        let bundle = place.path().join("a.example.pem");
        let [one, other] = [issued(), issued()];
        let key_at = one.find("-----BEGIN PRIVATE KEY").unwrap();
        let other_key = &other[other.find("-----BEGIN PRIVATE KEY").unwrap()..];
        for (text, is_usable) in [
            (one.clone(), true),
            (one[..key_at].to_owned(), false),
            (format!("{}{other_key}", &one[..key_at]), false),
            (one[..one.len() - 60].to_owned(), false),
            (one.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY"), false),
        ] {
            fs::write(&bundle, &text).unwrap();
            assert_eq!(read_certificate(&bundle).unwrap().is_some(), is_usable, "{} bytes", text.len());
        }

        fs::remove_file(&bundle).unwrap();
        assert_eq!(read_certificate(&bundle).unwrap(), None);
        fs::create_dir(&bundle).unwrap();
        assert!(read_certificate(&bundle).is_err());
    }

    /// The process was killed after it had replaced the bundle, and earlier attempts had failed.
    #[test]
    fn unrecorded_success_is_one() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::open(place.path(), BundleReaders::Owner).unwrap();
        let wall = Timestamp::now();
        let bundle = issued();
        write_bundle(&folder, &bundle);
        let found = Certificate::from_pem(bundle.as_bytes()).unwrap();
        let journal = Journal {
            attempt_directory: PRODUCTION.to_owned(),
            pending: found.fingerprint,
            attempt: Some(Attempt { at: wall, failures: 5, next_at: wall + Duration::from_secs(20_000) }),
            last_error: Some(LastError {
                at: wall,
                kind: "network".to_owned(),
                message: "unreachable".to_owned(),
                hint: None,
            }),
            ..Journal::default()
        };
        fs::write(folder.file("a.example.state.json"), serde_json::to_vec(&journal).unwrap()).unwrap();
        let mut managed = Managed::new("a.example".parse().unwrap());
        managed.look(&folder, PRODUCTION, wall).unwrap();
        assert!(managed.is_good());
        let journal = managed.schedule.journal();
        assert_eq!((journal.attempt.unwrap().failures, journal.issued_at), (0, Some(wall)));

        // An order that is continued may only bring what we hold, or a certificate that is due already.
        assert!(!managed.is_news(&bundle, wall));
        let other = issued();
        assert!(managed.is_news(&other, wall));
        let Validity { not_after, .. } = Certificate::from_pem(other.as_bytes()).unwrap().validity;
        assert!(!managed.is_news(&other, not_after));
    }

    /// A process that is started again at once must not take the old certificate for one of the new authority.
    #[test]
    fn certificate_of_another_authority_is_replaced_after_any_restart() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::open(place.path(), BundleReaders::Owner).unwrap();
        write_bundle(&folder, &issued());
        let wall = Timestamp::now();
        let at = Timestamp(wall.0 - 600);
        let attempt = Some(Attempt { at, failures: 9, next_at: at + Duration::from_secs(20_000) });
        let put = |journal: &Journal| {
            let path = place.path().join("a.example.state.json");
            fs::write(path, serde_json::to_vec(journal).unwrap()).unwrap();
        };
        let next = |directory: &str| {
            let mut managed = Managed::new("a.example".parse().unwrap());
            managed.look(&folder, directory, wall).unwrap();
            let step = managed.schedule.next(Now { wall, steady: Duration::ZERO });
            managed.save(&folder).unwrap();
            assert_eq!(managed.schedule.journal().directory, STAGING);
            step
        };

        let recorded = Journal { directory: STAGING.to_owned(), attempt, ..Journal::default() };
        // The process was killed before it recorded the issuer of a bundle.
        let pending = read_certificate(&folder.file("a.example.pem")).unwrap().unwrap().fingerprint;
        let unrecorded = Journal {
            directory: String::new(),
            attempt_directory: STAGING.to_owned(),
            pending,
            ..recorded.clone()
        };
        put(&recorded);
        assert_ne!(next(STAGING), Step::Order);
        for journal in [recorded, unrecorded] {
            put(&journal);
            for _ in 0..2 {
                assert_eq!(next(PRODUCTION), Step::Order, "earlier failures were at the other one");
            }
        }
    }

    /// Killed at any step of a change of authority, the process leaves no certificate that counts as one of the other authority.
    #[test]
    fn killed_change_of_authority_leaves_the_right_issuer() {
        let wall = Timestamp::now();
        let now = Now { wall, steady: Duration::ZERO };
        let [old, new] = [issued(), issued()];
        let parsed = |pem: &str| Certificate::from_pem(pem.as_bytes()).unwrap();
        for steps_done in 0..=4 {
            let place = tempfile::tempdir().unwrap();
            let folder = Folder::open(place.path(), BundleReaders::Owner).unwrap();
            let look = |directory: &str| {
                let mut managed = Managed::new("a.example".parse().unwrap());
                managed.look(&folder, directory, wall).unwrap();
                managed
            };
            write_bundle(&folder, &old);
            let mut managed = look(STAGING);
            managed.take(parsed(&old), now);
            managed.save(&folder).unwrap();

            let mut managed = look(PRODUCTION);
            for step in 1..=steps_done {
                match step {
                    1 => managed.schedule.begin_order(now, 0.0),
                    2 => managed.schedule.record_pending(&parsed(&new).fingerprint),
                    3 => write_bundle(&folder, &new),
                    _ => assert_eq!(managed.take(parsed(&new), now), Fulfilled::Good),
                }
                managed.save(&folder).unwrap();
            }

            let is_replaced = steps_done >= 3;
            // The next process may be killed, too, and this one may be for either authority.
            for directory in [PRODUCTION, STAGING, PRODUCTION] {
                let mut managed = look(directory);
                let issuer = if is_replaced { PRODUCTION } else { STAGING };
                assert_eq!(managed.schedule.journal().directory, issuer, "after {steps_done} steps");
                assert_eq!(managed.certificate.is_some(), issuer == directory, "after {steps_done} steps");
                managed.save(&folder).unwrap();
            }
        }
    }
}
