//! Flags of `cannery certificates`.
//!
//! We don't read files here.

use std::path::PathBuf;

use cannery_certificates::{AuthoritySettings, BundleReaders, DnsHook, DnsProof, KeyKind, Names, SelfCheck};
use cannery_server::config::{Account, SandboxPolicy};
use clap::{Args, value_parser};

use super::{SANDBOX_POLICIES, examples, one_of};
use crate::output::Failure;

/// The directory of Let's Encrypt.
const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";

/// The directory of Let's Encrypt for experiments.
const LETS_ENCRYPT_STAGING: &str = "https://acme-staging-v02.api.letsencrypt.org/directory";

/// How a process that issues certificates for a server begins, as an argument of the command.
pub const ISSUE_STARTS: [(&str, IssueStart); 2] =
    [("first", IssueStart::First), ("again", IssueStart::Again)];

/// How a process that issues certificates for a server begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IssueStart {
    /// It waits until the server answers challenges.
    First,
    /// It replaces a process that has ended.
    Again,
}

impl IssueStart {
    /// Returns the argument that means this.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            IssueStart::First => "first",
            IssueStart::Again => "again",
        }
    }
}

/// A process that issues certificates for a server.
#[derive(Debug, Clone, Copy)]
pub struct ForServer {
    /// The sandbox of the process.
    pub sandbox: SandboxPolicy,
    /// The user to change to.
    pub account: Option<Account>,
    /// How to issue certificates, or `None` to start the process that does.
    pub issues: Option<IssueStart>,
}

/// Flags with which the server starts the process.
#[derive(Debug, Args)]
struct ForServerFlags {
    /// Issue certificates for the server at the other end of standard input, a Unix socket.
    #[arg(long, hide = true, requires = "names", conflicts_with_all = ["once", "thumbprint", "json", "dns_hook", "dns_persist"])]
    for_server: bool,

    /// The sandbox of the process.
    #[arg(
        long,
        hide = true,
        value_name = "MODE",
        default_value = "auto",
        value_parser = one_of(SANDBOX_POLICIES)
    )]
    for_server_sandbox: SandboxPolicy,

    /// The user to change to.
    #[arg(long, hide = true, value_name = "USER[:GROUP]")]
    for_server_user: Option<String>,

    /// Be the process that issues. Without this flag, start it.
    #[arg(long, hide = true, value_name = "START", value_parser = one_of(ISSUE_STARTS))]
    for_server_issue: Option<IssueStart>,
}

/// Obtains TLS certificates from a certificate authority (ACME) and renews them in time. Without names, shows the certificates in
/// a folder.
#[derive(Debug, Args)]
#[command(
    version,
    after_help = examples(
        &[
            "cannery certificates /srv/tls --thumbprint",
            "cannery certificates /srv/tls example.com,www.example.com --staging --agree",
            "cannery certificates /srv/tls '*.example.com' --dns-hook ./set-record --staging --agree",
            "cannery certificates /srv/tls",
        ],
        "The server proves that it controls a name: start it on port 80 with `--acme-thumbprint`. Each certificate is written with its \
         key to a file such as `/srv/tls/example.com.pem`, for `cannery-server --tls-bundle`, which loads it again after a renewal.\n\n\
         Certificates of `--staging` are for experiments, and no client trusts them. Leave it out once everything works.\n\n\
         Exit codes: 0 done, 1 a certificate is missing or could not be renewed, 2 wrong usage, 3 bad folder or key, 4 cannot write.",
    ),
)]
pub struct Certificates {
    /// The folder for certificates, their keys and the account key. It is created if it does not exist.
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,

    /// The names of each certificate, separated by commas: hosts, `*.example.com` or IP addresses. The first one names the file.
    #[arg(value_name = "NAMES")]
    pub names: Vec<Names>,

    /// Print the thumbprint of the account key, for `cannery-server --acme-thumbprint`. The key is generated if there is none.
    #[arg(long, conflicts_with_all = ["names", "json"])]
    pub thumbprint: bool,

    /// Ask the process that renews the certificates in this folder, which may be that of `cannery-server --certificates`, to renew the
    /// certificate with this first name now. The authority's limits apply.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["names", "thumbprint", "json"])]
    pub renew: Option<Names>,

    /// Do what is due now, and exit. By default, the process runs until it is stopped, and renews certificates in time.
    #[arg(long, requires = "names")]
    pub once: bool,

    /// Agree to the terms of service of the authority.
    #[arg(long, help_heading = "Authority")]
    agree: bool,

    /// Use the staging environment of Let's Encrypt, which has generous limits. No client trusts its certificates.
    #[arg(long, help_heading = "Authority")]
    staging: bool,

    /// The directory URL of another authority. The default is Let's Encrypt.
    #[arg(long, value_name = "URL", conflicts_with = "staging", value_parser = directory_url, help_heading = "Authority")]
    directory_url: Option<String>,

    /// The root certificates (PEM) of the authority's own HTTPS server, if browsers don't know it.
    #[arg(long, value_name = "FILE", requires = "directory_url", help_heading = "Authority")]
    directory_roots: Option<PathBuf>,

    /// An email address, by which the authority may report problems.
    #[arg(long, value_name = "EMAIL", value_parser = email_address, help_heading = "Authority")]
    contact: Option<String>,

    /// A certificate profile of the authority, such as `shortlived` or `tlsserver`.
    #[arg(long, value_name = "NAME", help_heading = "Authority")]
    pub profile: Option<String>,

    /// The key identifier of an external account, for authorities that require one (external account binding).
    #[arg(
        long,
        value_name = "ID",
        allow_hyphen_values = true,
        requires = "eab_key",
        help_heading = "Authority"
    )]
    pub eab_id: Option<String>,

    /// A file with the HMAC key of the external account, in base64url.
    #[arg(long, value_name = "FILE", requires = "eab_id", help_heading = "Authority")]
    pub eab_key: Option<PathBuf>,

    /// Prove control of names by DNS records instead: run `PROGRAM set NAME VALUE`, which sets a TXT record and returns once all name
    /// servers have it, and later `PROGRAM remove NAME VALUE`. Wildcards need this.
    #[arg(long, value_name = "PROGRAM", help_heading = "Proof of control")]
    dns_hook: Option<PathBuf>,

    /// An experiment: prove control of names by DNS records that you set once (DNS-PERSIST-01). `cannery dns NAMES --account DIR` prints
    /// them. Few authorities look for them yet, and their format may change.
    #[arg(long, conflicts_with = "dns_hook", help_heading = "Proof of control")]
    dns_persist: bool,

    /// Check the server at this address, instead of at the addresses of its names, before the authority does. For machines that can't
    /// reach their own public address.
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "no_check", help_heading = "Proof of control")]
    check_via: Option<String>,

    /// Do not check the server before the authority does. A failed check of the authority counts towards its limits.
    #[arg(long, help_heading = "Proof of control")]
    no_check: bool,

    /// The kind of the certificates' keys.
    #[arg(
        long,
        value_name = "KIND",
        default_value = "ecdsa",
        value_parser = one_of([("ecdsa", KeyKind::Ecdsa), ("rsa", KeyKind::Rsa)])
    )]
    pub key: KeyKind,

    /// Let the group of the files read the bundles, which contain private keys (mode 0640 instead of 0600).
    #[arg(long, requires = "names")]
    group_read: bool,

    /// Print each event as JSON on a line, or without names the state of the folder as one JSON value.
    #[arg(long, help_heading = "Output")]
    pub json: bool,

    /// Print only errors.
    #[arg(long, conflicts_with = "json", help_heading = "Output")]
    pub quiet: bool,

    #[command(flatten)]
    server: ForServerFlags,
}

impl Certificates {
    /// Returns the settings of the authority, except for the external account, whose key is in a file.
    #[must_use]
    pub fn authority(&self) -> AuthoritySettings {
        AuthoritySettings {
            directory: directory(self.directory_url.as_deref(), self.staging),
            roots: self.directory_roots.clone(),
            agrees: self.agree,
            contact: self.contact.clone(),
            external_account: None,
        }
    }

    /// Returns how the server is checked.
    #[must_use]
    pub fn self_check(&self) -> SelfCheck {
        match (&self.check_via, self.no_check) {
            (_, true) => SelfCheck::Off,
            (Some(address), false) => SelfCheck::Via(address.clone()),
            (None, false) => SelfCheck::PublicName,
        }
    }

    /// Returns whether and how DNS records prove control of names.
    #[must_use]
    pub fn dns(&self) -> DnsProof {
        match &self.dns_hook {
            Some(program) => DnsProof::Hook(DnsHook::new(program.clone())),
            None if self.dns_persist => DnsProof::Persistent,
            None => DnsProof::None,
        }
    }

    /// Returns how certificates are issued for a server, or `None` if no server has started the process.
    ///
    /// # Errors
    /// The user is unknown.
    pub fn for_server(&self) -> Result<Option<ForServer>, Failure> {
        if !self.server.for_server {
            return Ok(None);
        }
        let account = self.server.for_server_user.as_deref().map(Account::find).transpose();
        let account = account.map_err(|error| Failure::usage(format!("`--for-server-user`: {error}")))?;
        let ForServerFlags { for_server_sandbox: sandbox, for_server_issue: issues, .. } = self.server;
        Ok(Some(ForServer { sandbox, account, issues }))
    }

    /// Returns who may read the bundles.
    #[must_use]
    pub fn readers(&self) -> BundleReaders {
        if self.group_read { BundleReaders::Group } else { BundleReaders::Owner }
    }

    /// Checks what no single flag shows.
    ///
    /// # Errors
    /// Two certificates would have the same file, or a wildcard has no hook.
    pub fn check(&self) -> Result<(), Failure> {
        for (position, names) in self.names.iter().enumerate() {
            let stem = names.file_stem();
            if self.names[..position].iter().any(|other| other.file_stem() == stem) {
                return Err(Failure::usage(format!("two certificates begin with the same name: {stem}"))
                    .hint("put their names together with commas, or let another name be the first one"));
            }
            let has_wildcard = names.as_slice().iter().any(|name| name.to_string().starts_with("*."));
            if has_wildcard && matches!(self.dns(), DnsProof::None) {
                return Err(Failure::usage(format!("{names}: a wildcard needs `--dns-hook PROGRAM`")).hint(
                    "authorities issue wildcards only to those who set DNS records; or name the hosts",
                ));
            }
        }
        Ok(())
    }
}

/// Returns the directory URL of the authority that flags name.
fn directory(url: Option<&str>, is_staging: bool) -> String {
    let default = if is_staging { LETS_ENCRYPT_STAGING } else { LETS_ENCRYPT };
    url.unwrap_or(default).to_owned()
}

/// Parses the URL of a directory. RFC 8555 §6.1 requires HTTPS.
pub(super) fn directory_url(text: &str) -> Result<String, String> {
    match text.strip_prefix("https://") {
        Some(rest) if !rest.is_empty() && !text.contains(char::is_whitespace) => Ok(text.to_owned()),
        _ => Err(format!("an ACME directory has a URL such as `{LETS_ENCRYPT_STAGING}`")),
    }
}

/// Parses an email address as far as a typing error shows.
pub(super) fn email_address(text: &str) -> Result<String, String> {
    let address = text.strip_prefix("mailto:").unwrap_or(text);
    let is_address = address.split_once('@').is_some_and(|(user, domain)| {
        !user.is_empty() && domain.contains('.') && !address.contains([' ', ',', '?', '<'])
    });
    if is_address {
        Ok(address.to_owned())
    } else {
        Err("an email address such as you@example.com is expected".into())
    }
}

/// Prints the DNS records that a site needs, in the syntax of zone files: for HTTP/3 on the first visit, and for certificates.
#[derive(Debug, Args)]
#[command(
    version,
    after_help = examples(
        &["cannery dns example.com", "cannery dns example.com --port 8443", "cannery dns '*.example.com' --authority example-ca.org"],
        "Nothing is looked up or changed.\n\nExit codes: 0 done, 1 the account is unknown, 2 wrong usage, 3 bad folder or key.",
    ),
)]
pub struct Dns {
    /// The host, or `*.example.com` for all hosts of a domain.
    pub name: Names,

    /// The port of the site's URLs.
    #[arg(long, value_name = "PORT", default_value_t = 443, value_parser = value_parser!(u16).range(1..))]
    pub port: u16,

    /// Leave out HTTP/3.
    #[arg(long)]
    pub without_http3: bool,

    /// The domain by which the certificate authority is named in CAA records.
    #[arg(long, value_name = "DOMAIN", default_value = "letsencrypt.org")]
    pub authority: String,

    /// Also print the records for `cannery certificates --dns-persist`, an experiment. DIR is the folder of that command, which knows the
    /// account.
    #[arg(long, value_name = "DIR")]
    pub account: Option<PathBuf>,

    /// The account is for the staging environment of Let's Encrypt.
    #[arg(long, requires = "account")]
    staging: bool,

    /// The account is for the authority with this directory URL. The default is Let's Encrypt.
    #[arg(long, value_name = "URL", conflicts_with = "staging", value_parser = directory_url, requires_all = ["account", "authority"])]
    directory_url: Option<String>,
}

impl Dns {
    /// Returns the directory URL of the account's authority.
    #[must_use]
    pub fn directory(&self) -> String {
        directory(self.directory_url.as_deref(), self.staging)
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, FromArgMatches, Parser};

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        flags: Certificates,
    }

    fn parse(line: &str) -> Result<Certificates, clap::Error> {
        let words = ["certificates"].into_iter().chain(line.split_whitespace());
        Ok(Line::from_arg_matches(&Line::command().try_get_matches_from(words)?)?.flags)
    }

    #[test]
    fn lets_encrypt_is_the_default() {
        let directory = |line: &str| parse(line).unwrap().authority().directory;
        assert_eq!(directory("d a.example"), LETS_ENCRYPT);
        assert_eq!(directory("d a.example --staging"), LETS_ENCRYPT_STAGING);
        assert_eq!(directory("d a.example --directory-url https://ca.example/d"), "https://ca.example/d");
    }

    #[test]
    fn wrong_values_are_refused() {
        for line in [
            "d a.example --directory-url http://ca.example",
            "d a.example --directory-url https://",
            "d a.example --contact me",
            "d a.example --contact me@localhost",
            "d https://a.example",
            "d a.example --eab-id x",
            "d --once",
            "d a.example --staging --directory-url https://ca.example",
            "d a.example --no-check --check-via a:80",
            "d a.example --dns-hook h --dns-persist",
            "d a.example --renew a.example",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
        assert_eq!(
            parse("d a.example --contact mailto:me@a.example").unwrap().contact.unwrap(),
            "me@a.example"
        );
    }

    #[test]
    fn certificates_need_distinct_files_and_wildcards_a_hook() {
        assert!(parse("d a.example,b.example b.example").unwrap().check().is_ok());
        assert!(parse("d a.example a.example,b.example").unwrap().check().is_err());
        assert!(parse("d a.example,*.a.example").unwrap().check().is_err());
        for flag in ["--dns-hook h", "--dns-persist"] {
            assert!(parse(&format!("d *.a.example {flag}")).unwrap().check().is_ok());
        }
    }
}
