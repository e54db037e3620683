//! Certificates, which are read at startup and again whenever their files change.
//!
//! New certificates replace the old ones between two handshakes, unless they are invalid. Note that this
//! module neither contains any keys itself nor serves connections.

use std::fs::File;
use std::path::PathBuf;
use std::time::SystemTime;

use cannery_base::FileVersion;
use cannery_transport::{Certificates, Context, Protocol, Seed, Settings, Version, Warning};

use super::{Outcome, Reporter};
use crate::config::{CertificateFiles, Config, Content, Tls};
use crate::content::Trigger;
use crate::error::StartError;
use crate::notice::Notice;

/// Loads certificates again when their files change.
pub(crate) struct CertificateLoader {
    pub(crate) context: Context,
    tls: Tls,
    names: Vec<String>,
    /// The files as they were when we last read or refused them.
    settled: Vec<Option<FileVersion>>,
    /// The files as the last check found them.
    seen: Vec<Option<FileVersion>>,
    watch: bool,
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
        let certificates = load(&tls, &names, now)?;
        for notice in notices(certificates.warnings()) {
            (config.on_notice.0)(&notice);
        }

        let protocols =
            [(config.versions.has_http2(), Protocol::Http2), (config.versions.has_http1(), Protocol::Http11)];
        let context = Context::new(Settings {
            certificates,
            seed: Some(seed(config.inheritance.ticket_seed, now)?),
            versions: vec![Version::Tls13, Version::Tls12],
            protocols: protocols.into_iter().filter_map(|(on, protocol)| on.then_some(protocol)).collect(),
            now,
        })?;

        let watch = !matches!(config.content, Content::Archives { watch: false, .. });
        Ok(Some(CertificateLoader { context, tls, names, settled: files.clone(), seen: files, watch }))
    }

    /// Returns the paths of files that can be read again.
    pub(crate) fn paths(&self) -> impl Iterator<Item = PathBuf> {
        paths(&self.tls)
    }

    /// Checks the files, and loads any that have changed.
    pub(super) fn check(&mut self, trigger: Trigger, reporter: &Reporter) -> Outcome {
        let notices = self.load_changed(trigger);
        if notices.is_empty() {
            return Outcome::Unchanged;
        }

        reporter.status.set_certificates(self.context.certificates());
        for notice in &notices {
            reporter.notify(notice);
        }
        Outcome::Changed
    }

    /// Loads the files that have changed. Returns notices for the operator.
    fn load_changed(&mut self, trigger: Trigger) -> Vec<Notice> {
        let now = SystemTime::now();
        let mut notices = notices(&self.context.advance(now));
        let is_requested = trigger == Trigger::Request;
        if !is_requested && !self.watch || self.tls.files().is_empty() {
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
    fn replace(&self, now: SystemTime) -> Result<Vec<Notice>, cannery_transport::Error> {
        let certificates = load(&self.tls, &self.names, now)?;
        let mut notices = notices(certificates.warnings());
        self.context.replace_certificates(certificates, now)?;
        notices.push(Notice::CertificatesReplaced);
        Ok(notices)
    }
}

fn notices(warnings: &[Warning]) -> Vec<Notice> {
    warnings.iter().map(|warning| Notice::Certificate { warning: warning.to_string() }).collect()
}

fn load(tls: &Tls, names: &[String], now: SystemTime) -> Result<Certificates, cannery_transport::Error> {
    let made = tls.self_signed().map(|kind| Certificates::self_signed(kind, names, now)).transpose()?;
    match made {
        Some(made) if tls.files().is_empty() => Ok(made),
        Some(made) => Ok(Certificates::load(tls.files(), now)?.merge(made)),
        None => Certificates::load(tls.files(), now),
    }
}

/// Returns the names for a self-signed certificate: the names of this machine, and the configured hosts.
fn names(config: &Config) -> Vec<String> {
    let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
    let hosts = config.content.archives().iter().filter_map(|named| named.host.as_ref());
    names.extend(hosts.map(ToString::to_string));
    names
}

fn paths(tls: &Tls) -> impl Iterator<Item = PathBuf> {
    let of = |files: &CertificateFiles| {
        let CertificateFiles { chain, key, staple } = files.clone();
        [Some(chain), key, staple].into_iter().flatten()
    };
    tls.files().iter().flat_map(of)
}

/// Returns the file versions in the same order as [`paths`]. If a file is missing, it is `None`.
fn file_versions(tls: &Tls) -> Vec<Option<FileVersion>> {
    paths(tls).map(|path| Some(FileVersion::of(&path.metadata().ok()?))).collect()
}

/// Returns the inherited seed, or generates a new one.
fn seed(inherited: Option<i32>, now: SystemTime) -> Result<Seed, StartError> {
    let Some(descriptor) = inherited else { return Ok(Seed::generate(now)?) };
    let failed = |source| StartError::Seed { descriptor, source };
    let opened = cannery_eventloop::inherit_descriptor(descriptor).map_err(failed)?;
    Seed::read(File::from(opened)).map_err(failed)
}
