//! Certificates, which are read at startup and again whenever their files change.
//!
//! The state of their renewals is read, too, from the files that the issuing process writes next to them.
//!
//! New certificates replace the old ones between two handshakes, unless they are invalid. Note that this
//! module neither contains any keys itself nor serves connections.

mod renewals;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use cannery_base::FileVersion;
use cannery_transport::{Certificates, Context, Protocol, Seed, Settings, TicketSeed, Version, Warning};

use super::{Outcome, Reporter};
use crate::config::{CertificateFiles, Config, Content, IssuedCertificate, SelfSigned, Tls};
use crate::content::Trigger;
use crate::error::StartError;
use crate::notice::Notice;
use crate::observe::{CertificateKind, CertificateStatus, Status};
use renewals::Renewals;

/// Loads certificates again when their files change.
pub(crate) struct CertificateLoader {
    pub(crate) context: Context,
    tls: Tls,
    names: Vec<String>,
    /// Where each of the certificates comes from.
    origins: Vec<Origin>,
    renewals: Renewals,
    /// The files as they were when we last read or refused them.
    settled: Vec<Option<FileVersion>>,
    /// The files as the last check found them.
    seen: Vec<Option<FileVersion>>,
    watch: bool,
}

/// Where a certificate comes from.
#[derive(Clone)]
struct Origin {
    kind: CertificateKind,
    file: PathBuf,
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
        let (certificates, origins) = load(&tls, &names, now, &[])?;
        for notice in notices(certificates.warnings()) {
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

        let watch = !matches!(config.content, Content::Archives { watch: false, .. });
        let renewals = Renewals::default();
        Ok(Some(CertificateLoader {
            context,
            tls,
            names,
            origins,
            renewals,
            settled: files.clone(),
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
        // The chain and the key are separate files that may not be replaced at the same time.
        if files == self.settled || !is_requested && !is_stable {
            return notices;
        }
        self.settled = files;
        match self.replace(now) {
            Ok(new) => notices.extend(new),
            Err(error) => notices.push(Notice::CertificatesRefused { why: error.to_string() }),
        }
        notices
    }

    /// Reads the files and replaces the certificates. Returns notices for the operator.
    fn replace(&mut self, now: SystemTime) -> Result<Vec<Notice>, cannery_transport::Error> {
        let (certificates, origins) = load(&self.tls, &self.names, now, &self.origins)?;
        let mut notices = notices(certificates.warnings());
        self.context.replace_certificates(certificates, now)?;
        self.origins = origins;
        notices.push(Notice::CertificatesReplaced);
        Ok(notices)
    }
}

fn notices(warnings: &[Warning]) -> Vec<Notice> {
    warnings.iter().map(|warning| Notice::Certificate { warning: warning.to_string() }).collect()
}

/// A temporary certificate is valid from a day before it was made, in seconds.
const TEMPORARY_SINCE: i64 = 24 * 60 * 60;

/// Loads all certificates, and says where each of them comes from. `served` are those that are served now.
fn load(
    tls: &Tls,
    names: &[String],
    now: SystemTime,
    served: &[Origin],
) -> Result<(Certificates, Vec<Origin>), cannery_transport::Error> {
    // Bundles that don't exist yet are replaced by temporary certificates, so that no client is refused. One that has disappeared is an
    // error: the certificate that was in it is better than any temporary one.
    let is_served =
        |file: &Path| served.iter().any(|origin| origin.kind == CertificateKind::File && origin.file == file);
    let (issued, missing): (Vec<_>, Vec<_>) =
        tls.issued().iter().partition(|issued| is_served(&issued.bundle) || !is_missing(&issued.bundle));
    let bundle = |issued: &IssuedCertificate| CertificateFiles::new(&issued.bundle);
    let sources: Vec<_> = tls.files().iter().cloned().chain(issued.into_iter().map(bundle)).collect();
    let mut origins: Vec<_> = sources
        .iter()
        .map(|files| Origin { kind: CertificateKind::File, file: files.chain.clone() })
        .collect();
    let mut loaded = None;
    if !sources.is_empty() {
        loaded = Some(Certificates::load(&sources, now)?);
    }

    let temporary = missing.into_iter().map(|issued| {
        let origin = Origin { kind: CertificateKind::Temporary, file: issued.bundle.clone() };
        (SelfSigned::Ecdsa, issued.names.as_slice(), origin)
    });
    let for_tests = tls
        .self_signed()
        .map(|kind| (kind, names, Origin { kind: CertificateKind::Test, file: "(made in memory)".into() }));
    for (kind, names, origin) in temporary.chain(for_tests) {
        let made = Certificates::self_signed(kind, names, now)?;
        loaded = Some(match loaded {
            Some(others) => others.merge(made),
            None => made,
        });
        origins.push(origin);
    }
    Ok((loaded.ok_or(cannery_transport::Error::NoSource)?, origins))
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
    paths(tls).map(|path| Some(FileVersion::of(&path.metadata().ok()?))).collect()
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
