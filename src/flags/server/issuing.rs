//! Flags of certificates that the server obtains by itself.

use std::ffi::OsString;
use std::path::PathBuf;

use cannery_certificates::{Name, Names};
use cannery_server::config::IssuedCertificate;
use clap::Args;

use crate::flags::certificates::{directory_url, email_address};
use crate::flags::one_of;
use crate::output::Failure;

/// The folder for certificates, unless a service manager names one for the state of the service.
const DEFAULT_FOLDER: &str = "/var/lib/cannery/certificates";

/// Where the terms of service of Let's Encrypt are.
const LETS_ENCRYPT_TERMS: &str = "https://letsencrypt.org/repository/";

/// Certificates to obtain, and how the process that does so is started.
#[derive(Debug, Clone)]
pub struct Issuing {
    /// The folder for certificates, keys and states.
    pub folder: PathBuf,
    /// The names of each certificate.
    pub certificates: Vec<Names>,
    /// Further arguments of `cannery certificates`.
    pub arguments: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(super) struct IssuingFlags {
    /// Obtain a certificate for these names, separated by commas, from a certificate authority (ACME), and renew it in time. A process
    /// in a sandbox of its own does so, and `cannery` must be next to this program for that. Until the certificate is there, a temporary
    /// one is served that no client trusts. Without any address, the server listens on ports 80 and 443 and redirects to https.
    /// Repeatable: each is a certificate.
    #[arg(long, value_name = "NAMES", conflicts_with_all = ["acme_thumbprint", "dummy_delay"])]
    certificates: Vec<Names>,

    /// Agree to the terms of service of the authority; <https://letsencrypt.org/repository/> has those of Let's Encrypt.
    #[arg(long, requires = "certificates")]
    acme_agree: bool,

    /// An email address, by which the authority may report problems.
    #[arg(long, value_name = "EMAIL", value_parser = email_address, requires = "certificates")]
    acme_contact: Option<String>,

    /// Use the staging environment of Let's Encrypt, which has generous limits. No client trusts its certificates.
    #[arg(long, requires = "certificates")]
    acme_staging: bool,

    /// The directory URL of another authority. The default is Let's Encrypt.
    #[arg(long, value_name = "URL", conflicts_with = "acme_staging", value_parser = directory_url, requires = "certificates")]
    acme_directory_url: Option<String>,

    /// The root certificates (PEM) of the authority's own HTTPS server, if browsers don't know it.
    #[arg(long, value_name = "FILE", requires = "acme_directory_url")]
    acme_directory_roots: Option<PathBuf>,

    /// A certificate profile of the authority, such as `shortlived` or `tlsserver`.
    #[arg(long, value_name = "NAME", requires = "certificates")]
    acme_profile: Option<String>,

    /// The key identifier of an external account, for authorities that require one (external account binding).
    #[arg(long, value_name = "ID", allow_hyphen_values = true, requires_all = ["acme_eab_key", "certificates"])]
    acme_eab_id: Option<String>,

    /// A file with the HMAC key of the external account, in base64url.
    #[arg(long, value_name = "FILE", requires_all = ["acme_eab_id", "certificates"])]
    acme_eab_key: Option<PathBuf>,

    /// The kind of the certificates' keys.
    #[arg(long, value_name = "KIND", value_parser = one_of([("ecdsa", "ecdsa"), ("rsa", "rsa")]), requires = "certificates")]
    acme_key: Option<&'static str>,

    /// The folder for certificates, their keys and the account key. The default is `certificates` in the state directory that a service
    /// manager names, or else `/var/lib/cannery/certificates`.
    #[arg(long, value_name = "DIR", requires = "certificates")]
    acme_folder: Option<PathBuf>,

    /// Check this server at this address, instead of at the addresses of its names, before the authority does. For machines that can't
    /// reach their own public address.
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "acme_no_check", requires = "certificates")]
    acme_check_via: Option<String>,

    /// Do not check this server before the authority does. A failed check of the authority counts towards its limits.
    #[arg(long, requires = "certificates")]
    acme_no_check: bool,
}

impl IssuingFlags {
    /// Whether certificates are obtained.
    pub(super) fn is_given(&self) -> bool {
        !self.certificates.is_empty()
    }

    /// Returns the certificates, or `None` if there are none to obtain.
    ///
    /// # Errors
    /// Two certificates would have the same file, a name is a wildcard, or the terms of the authority aren't agreed to.
    pub(super) fn issuing(&self) -> Result<Option<Issuing>, Failure> {
        for (position, names) in self.certificates.iter().enumerate() {
            let stem = names.file_stem();
            if self.certificates[..position].iter().any(|other| other.file_stem() == stem) {
                return Err(Failure::usage(format!("two certificates begin with the same name: {stem}"))
                    .hint("put their names together with commas, or let another name be the first one"));
            }
            if names.as_slice().iter().any(|name| matches!(name, Name::Wildcard(_))) {
                return Err(Failure::usage(format!("{names}: `--certificates` can't obtain wildcards")).hint(
                    "`cannery certificates DIR NAMES --dns-hook PROGRAM` does, and `--tls-bundle` serves them; or name the hosts",
                ));
            }
        }
        if self.is_given() && !self.acme_agree {
            return Err(self.terms());
        }
        Ok(self.is_given().then(|| Issuing {
            folder: self.folder(),
            certificates: self.certificates.clone(),
            arguments: self.arguments(),
        }))
    }

    /// Names the terms of the authority. Those of other authorities than Let's Encrypt are in their directory, which we don't request
    /// here.
    fn terms(&self) -> Failure {
        let (owner, terms) = match &self.acme_directory_url {
            Some(url) => ("the certificate authority", format!("{url}, under `termsOfService`")),
            None => ("Let's Encrypt", LETS_ENCRYPT_TERMS.to_owned()),
        };
        Failure::usage(format!(
            "{owner} issues certificates only to those who agree to its terms of service: {terms}"
        ))
        .hint("read them, and add `--acme-agree`")
    }

    fn folder(&self) -> PathBuf {
        if let Some(folder) = &self.acme_folder {
            return folder.clone();
        }
        // See systemd.exec(5): the first of several directories, which are separated by colons.
        let of_service = std::env::var("STATE_DIRECTORY").unwrap_or_default();
        match of_service.split(':').next().filter(|path| path.starts_with('/')) {
            Some(path) => PathBuf::from(path).join("certificates"),
            None => DEFAULT_FOLDER.into(),
        }
    }

    /// Returns the flags of `cannery certificates` that mean the same.
    fn arguments(&self) -> Vec<OsString> {
        let switches = [
            ("--agree", self.acme_agree),
            ("--staging", self.acme_staging),
            ("--no-check", self.acme_no_check),
        ];
        let given = switches.iter().filter(|(_, is_given)| *is_given);
        let mut arguments: Vec<OsString> = given.map(|(flag, _)| flag.into()).collect();
        let texts = [
            ("--contact", self.acme_contact.as_deref()),
            ("--directory-url", self.acme_directory_url.as_deref()),
            ("--profile", self.acme_profile.as_deref()),
            ("--eab-id", self.acme_eab_id.as_deref()),
            ("--key", self.acme_key),
            ("--check-via", self.acme_check_via.as_deref()),
        ];
        let texts = texts.into_iter().filter_map(|(flag, value)| Some((flag, OsString::from(value?))));
        let paths = [("--directory-roots", &self.acme_directory_roots), ("--eab-key", &self.acme_eab_key)];
        let paths =
            paths.into_iter().filter_map(|(flag, value)| Some((flag, value.clone()?.into_os_string())));
        for (flag, value) in texts.chain(paths) {
            let mut argument = OsString::from(flag);
            argument.push("=");
            argument.push(value);
            arguments.push(argument);
        }
        arguments
    }
}

impl Issuing {
    /// Returns the certificates as the server serves them.
    #[must_use]
    pub fn served(&self) -> Vec<IssuedCertificate> {
        let served = |names: &Names| IssuedCertificate {
            bundle: self.folder.join(format!("{}.pem", names.file_stem())),
            names: names.as_slice().iter().map(ToString::to_string).collect(),
        };
        self.certificates.iter().map(served).collect()
    }
}
