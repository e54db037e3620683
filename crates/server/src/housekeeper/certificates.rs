//! Certificates, which are read at startup and again whenever their files change.
//!
//! The state of their renewals is read, too, from the files that the issuing process writes next to them, and so is the account whose
//! challenges the server answers.
//!
//! New certificates replace the old ones between two handshakes, unless they are invalid. Note that this
//! module neither contains any keys itself nor serves connections.

mod account;
mod renewals;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use cannery_base::FileVersion;
use cannery_transport::{Certificates, Context, Protocol, Seed, Settings, TicketSeed, Version, Warning};

use super::{Outcome, Reporter};
use crate::config::{CertificateFiles, Config, Content, SelfSigned, Tls};
use crate::content::Trigger;
use crate::error::StartError;
use crate::notice::Notice;
use crate::observe::{CertificateKind, CertificateStatus, Status};
use account::Account;
use renewals::Renewals;

/// Loads certificates again when their files change.
pub(crate) struct CertificateLoader {
    pub(crate) context: Context,
    tls: Tls,
    names: Vec<String>,
    /// Where each of the certificates comes from.
    origins: Vec<Origin>,
    renewals: Renewals,
    /// The account of the process that renews certificates, if there is one.
    account: Option<Account>,
    /// The files as they were when we last read or refused them.
    settled: Vec<Option<FileVersion>>,
    /// Why files were refused when we last read them.
    refused: Vec<Refusal>,
    /// The last attempt to load the files.
    tried: Instant,
    /// The files as the last check found them.
    seen: Vec<Option<FileVersion>>,
    watch: bool,
}

/// Where a certificate comes from.
#[derive(Clone)]
struct Origin {
    kind: CertificateKind,
    file: PathBuf,
    /// Whether it is served in place of another one that was refused.
    is_kept: bool,
}

/// Why a certificate isn't used.
#[derive(Clone, PartialEq, Eq)]
struct Refusal {
    why: String,
    /// Whether the one that was served before is still served.
    is_kept: bool,
}

impl Refusal {
    fn notice(&self) -> Notice {
        Notice::CertificatesRefused { why: self.why.clone(), is_kept: self.is_kept }
    }
}

impl CertificateLoader {
    /// Reads the configured certificates, reporting any warnings. Returns `None` without TLS
    /// listeners.
    pub(crate) fn open(config: &Config) -> Result<Option<CertificateLoader>, StartError> {
        let Some(tls) = config.tls.clone().filter(|_| config.has_tls()) else { return Ok(None) };
        let names = names(config);
        // Do this before reading the files, so that we notice every later change.
        let files = file_versions(&tls);
        let now = SystemTime::now();
        let Loaded { certificates, origins, refused, .. } = load(&tls, &names, now, None)?;
        for notice in notices(certificates.warnings()).into_iter().chain(refused.iter().map(Refusal::notice))
        {
            (config.on_notice.0)(&notice);
        }

        let protocols =
            [(config.versions.has_http2(), Protocol::Http2), (config.versions.has_http1(), Protocol::Http11)];
        let context = Context::new(Settings {
            certificates,
            seed: Some(seed(config.inheritance.ticket_seed, tls.ticket_seed.as_deref(), now)?),
            versions: vec![Version::Tls13, Version::Tls12],
            protocols: protocols.into_iter().filter_map(|(on, protocol)| on.then_some(protocol)).collect(),
            now,
        })?;

        let is_watching_archives = !matches!(config.content, Content::Archives { watch: false, .. });
        // The process that renews certificates sends no SIGHUP.
        let watch = is_watching_archives || !tls.issued().is_empty();
        let renewals = Renewals::default();
        let account = Account::of(&tls, &config.acme_thumbprint);
        Ok(Some(CertificateLoader {
            context,
            tls,
            names,
            origins,
            renewals,
            account,
            settled: files.clone(),
            refused,
            tried: Instant::now(),
            seen: files,
            watch,
        }))
    }

    /// Returns the paths of files that can be read again.
    pub(crate) fn paths(&self) -> impl Iterator<Item = PathBuf> {
        paths(&self.tls)
    }

    /// Checks the files, and loads any that have changed.
    pub(super) fn check(&mut self, trigger: Trigger, reporter: &Reporter) -> Outcome {
        if let Some(account) = &mut self.account {
            account.read();
        }
        let notices = self.load_changed(trigger);
        self.report_to(&reporter.status);
        if notices.is_empty() {
            return Outcome::Unchanged;
        }
        for notice in &notices {
            reporter.notify(notice);
        }
        Outcome::Changed
    }

    /// Tells operators and monitors the state of the certificates.
    pub(crate) fn report_to(&mut self, status: &Status) {
        let now = unix_seconds(SystemTime::now());
        let served = self.context.certificates().into_iter().zip(&self.origins);
        let renewals = &mut self.renewals;
        let certificates = served.map(|(summary, origin)| CertificateStatus {
            name: summary.name,
            file: origin.file.clone(),
            kind: origin.kind,
            not_before: summary.not_before,
            not_after: match origin.kind {
                CertificateKind::Temporary => summary.not_before.saturating_add(TEMPORARY_SINCE),
                CertificateKind::File | CertificateKind::Test => summary.not_after,
            },
            renewal: renewals.of(&origin.file),
            is_kept: origin.is_kept,
        });
        status.set_certificates(certificates.collect(), now);
    }

    /// Loads the files that have changed. Returns notices for the operator.
    fn load_changed(&mut self, trigger: Trigger) -> Vec<Notice> {
        let now = SystemTime::now();
        let mut notices = notices(&self.context.advance(now));
        let is_requested = trigger == Trigger::Request;
        let has_files = !self.tls.files().is_empty() || !self.tls.issued().is_empty();
        if !is_requested && !self.watch || !has_files {
            return notices;
        }

        let files = file_versions(&self.tls);
        let is_stable = std::mem::replace(&mut self.seen, files.clone()) == files;
        let has_changed = files != self.settled;
        // A refused certificate may have become valid, or its file readable, which changes no file.
        let has_refused = !self.refused.is_empty();
        let retries = has_refused && is_stable && self.tried.elapsed() >= RETRY_INTERVAL;
        // The chain and the key are separate files that may not be replaced at the same time.
        let is_news = if is_requested { has_changed || has_refused } else { has_changed && is_stable };
        if !is_news && !retries {
            return notices;
        }

        self.settled = files;
        self.tried = Instant::now();
        match self.replace(now, is_news) {
            Ok(new) => notices.extend(new),
            Err(error) => notices.push(Refusal { why: error.to_string(), is_kept: true }.notice()),
        }
        notices
    }

    /// Reads the files and replaces the certificates. Returns notices for the operator. Unless `is_news`, these don't repeat why files
    /// are refused.
    fn replace(&mut self, now: SystemTime, is_news: bool) -> Result<Vec<Notice>, cannery_transport::Error> {
        let Loaded { certificates, origins, refused, has_new } =
            load(&self.tls, &self.names, now, Some(&self.context))?;
        if !is_news && !has_new && refused == self.refused {
            return Ok(Vec::new());
        }
        let mut notices = notices(certificates.warnings());
        let is_told = |refusal: &&Refusal| is_news || !self.refused.contains(refusal);
        notices.extend(refused.iter().filter(is_told).map(Refusal::notice));
        self.context.replace_certificates(certificates, now)?;
        self.origins = origins;
        let was_kept = self.refused.iter().any(|refusal| refusal.is_kept);
        self.refused = refused;
        if has_new {
            notices.push(Notice::CertificatesReplaced);
        } else if was_kept && self.refused.is_empty() {
            notices.push(Notice::CertificatesRestored);
        }
        Ok(notices)
    }
}

fn notices(warnings: &[Warning]) -> Vec<Notice> {
    warnings.iter().map(|warning| Notice::Certificate { warning: warning.to_string() }).collect()
}

/// Refused files are read again after this time even if they don't change.
const RETRY_INTERVAL: Duration = Duration::from_secs(60);

/// A temporary certificate is valid from a day before it was made, in seconds.
const TEMPORARY_SINCE: i64 = 24 * 60 * 60;

/// Certificates, in the order in which clients get them.
struct Loaded {
    certificates: Certificates,
    /// Where each of them comes from.
    origins: Vec<Origin>,
    refused: Vec<Refusal>,
    /// Whether a certificate from a file wasn't served before.
    has_new: bool,
}

/// Loads all certificates. In place of one that can't be used, the one that is served stays, so that it doesn't keep the others from
/// being renewed.
///
/// # Errors
/// Fails if a file can't be used and no certificate from it is served, unless a process of ours issues it.
fn load(
    tls: &Tls,
    names: &[String],
    now: SystemTime,
    served: Option<&Context>,
) -> Result<Loaded, cannery_transport::Error> {
    let mut has_new = false;
    let mut read = |files: &CertificateFiles| {
        let new = Certificates::load(std::slice::from_ref(files), now)?;
        if let Some(context) = served {
            context.check_replacement(&new, now)?;
            has_new |= !context.serves(&new);
        }
        Ok(new)
    };
    let served = |path: &Path| served?.certificate_from(path);
    let mut loaded: Option<Certificates> = None;
    let mut origins = Vec::new();
    let mut refused = Vec::new();
    let mut add = |certificates: Certificates, origin: Origin| {
        loaded = Some(match loaded.take() {
            Some(others) => others.merge(certificates),
            None => certificates,
        });
        origins.push(origin);
    };

    for files in tls.files() {
        let new = read(files);
        let is_kept = new.is_err();
        let certificates = new.or_else(|error: cannery_transport::Error| {
            refused.push(Refusal { why: error.to_string(), is_kept });
            served(&files.chain).ok_or(error)
        })?;
        add(certificates, Origin { kind: CertificateKind::File, file: files.chain.clone(), is_kept });
    }

    // Bundles that don't exist yet are replaced by temporary certificates, so that no client is refused. If one has disappeared, the
    // certificate that was in it is better than any temporary one.
    let mut missing = Vec::new();
    for issued in tls.issued() {
        let kept = served(&issued.bundle);
        if kept.is_none() && is_missing(&issued.bundle) {
            missing.push(issued);
            continue;
        }
        let new = read(&CertificateFiles::new(&issued.bundle));
        let is_kept = new.is_err();
        let certificates = new.map(Some).unwrap_or_else(|error| {
            refused.push(Refusal { why: error.to_string(), is_kept: kept.is_some() });
            kept
        });
        match certificates {
            Some(certificates) => {
                let file = issued.bundle.clone();
                add(certificates, Origin { kind: CertificateKind::File, file, is_kept });
            }
            None => missing.push(issued),
        }
    }

    let temporary = missing.into_iter().map(|issued| {
        let (kind, file) = (CertificateKind::Temporary, issued.bundle.clone());
        let origin = Origin { kind, file, is_kept: false };
        (SelfSigned::Ecdsa, issued.names.as_slice(), origin)
    });
    let for_tests = tls.self_signed().map(|kind| {
        let file = "(made in memory)".into();
        (kind, names, Origin { kind: CertificateKind::Test, file, is_kept: false })
    });
    for (kind, names, origin) in temporary.chain(for_tests) {
        add(Certificates::self_signed(kind, names, now)?, origin);
    }
    let certificates = loaded.ok_or(cannery_transport::Error::NoSource)?;
    Ok(Loaded { certificates, origins, refused, has_new })
}

/// Whether a file doesn't exist. Other errors are reported when it is opened.
fn is_missing(path: &Path) -> bool {
    let missing = [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory];
    matches!(path.metadata(), Err(error) if missing.contains(&error.kind()))
}

/// Returns the names for a self-signed certificate: the names of this machine, and the configured hosts.
fn names(config: &Config) -> Vec<String> {
    let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
    let hosts = config.content.archives().iter().filter_map(|named| named.host.as_ref());
    names.extend(hosts.map(ToString::to_string));
    names
}

fn unix_seconds(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    i64::try_from(since).unwrap_or(i64::MAX)
}

fn paths(tls: &Tls) -> impl Iterator<Item = PathBuf> {
    let issued = tls.issued().iter().map(|issued| issued.bundle.clone());
    tls.files().iter().flat_map(CertificateFiles::paths).map(Path::to_path_buf).chain(issued)
}

/// Returns the file versions in the same order as [`paths`]. If a file is missing, it is `None`.
fn file_versions(tls: &Tls) -> Vec<Option<FileVersion>> {
    paths(tls).map(|path| FileVersion::at(&path).ok()).collect()
}

/// Returns the inherited seed, or generates a new one. Ticket keys come from the file that machines share, if there is one.
fn seed(inherited: Option<i32>, shared: Option<&Path>, now: SystemTime) -> Result<Seed, StartError> {
    let seed = match inherited {
        None => Seed::generate(now)?,
        Some(descriptor) => {
            let failed = |source| StartError::Seed { descriptor, source };
            let opened = cannery_eventloop::inherit_descriptor(descriptor).map_err(failed)?;
            Seed::read(File::from(opened)).map_err(failed)?
        }
    };
    Ok(match shared {
        Some(path) => seed.with_shared(TicketSeed::load(path)?),
        None => seed,
    })
}
