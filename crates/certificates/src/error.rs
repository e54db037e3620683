//! Errors for operators: whose fault it is, where, and what to do about it.

mod found;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use found::Found;

use crate::persistent_record::{DNS_PERSIST_01, PersistentRecord};

/// Why a certificate couldn't be obtained. Each error is a sentence that stands alone; [`Error::hint`] says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or the folder can't be used.
    #[error("cannot {action} {}: {source}", path.display())]
    Folder {
        /// `read`, `write` or `create`.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The error of the system call.
        source: io::Error,
    },

    /// Another process issues certificates for the folder.
    #[error("{} is in use by {holder}: only one process can issue certificates for a folder", folder.display())]
    Held {
        /// The folder.
        folder: PathBuf,
        /// Describes the process.
        holder: String,
    },

    /// The account key or its state is damaged.
    #[error("{} cannot be used: {why}", path.display())]
    Account {
        /// The file.
        path: PathBuf,
        /// The defect.
        why: String,
    },

    /// A file with additional root certificates has none.
    #[error("{} holds no certificate in PEM", path.display())]
    Roots {
        /// The file.
        path: PathBuf,
    },

    /// There is no connection to the authority, or it ends in the middle of a response.
    #[error("the certificate authority cannot be reached at {url}: {why}")]
    Unreachable {
        /// The URL of the request.
        url: String,
        /// The network's or the authority's fault.
        why: String,
    },

    /// The authority reports an error of its own.
    #[error("the certificate authority fails with status {status} at {url}{}", detail.as_ref().map(|detail| format!(": {detail}")).unwrap_or_default())]
    Failing {
        /// The URL of the request.
        url: String,
        /// The HTTP status.
        status: u16,
        /// The authority's explanation.
        detail: Option<String>,
        /// When it wants to be asked again.
        retry_after: Option<Duration>,
    },

    /// A response of the authority isn't what RFC 8555 says.
    #[error("the response of the certificate authority makes no sense: {why}")]
    Senseless {
        /// The defect.
        why: String,
    },

    /// The terms of service aren't agreed to.
    #[error(
        "the certificate authority issues certificates only to those who agree to its terms of service: {url}"
    )]
    Terms {
        /// The document.
        url: String,
    },

    /// The authority refuses a request.
    #[error("the certificate authority refuses: {detail} ({kind})")]
    Refused {
        /// The last part of the problem type (RFC 8555 §6.7), such as `rateLimited`.
        kind: String,
        /// The authority's explanation.
        detail: String,
        /// When it wants to be asked again.
        retry_after: Option<Duration>,
        /// The evidence that it has looked for, if it refuses a challenge.
        evidence: Evidence,
    },

    /// The account was registered just now, so no operator can have set a record that names it.
    #[error("the account at the certificate authority is new, so there cannot be a DNS record for it yet")]
    NewAccount {
        /// The records to set.
        records: Vec<PersistentRecord>,
    },

    /// The authority refuses the external account of a registration.
    #[error("the certificate authority refuses the external account `{id}`: {detail} ({kind})")]
    ExternalAccount {
        /// The key identifier.
        id: String,
        /// The last part of the problem type.
        kind: String,
        /// The authority's explanation.
        detail: String,
    },

    /// Our own request for a challenge got another response than the authority needs.
    #[error("http://{name}/ does not lead to this server: {}", outcomes(found, good))]
    Check {
        /// The name.
        name: String,
        /// The responses that we got instead, at least one.
        found: Vec<Found>,
        /// The addresses that lead to this server.
        good: Vec<String>,
        /// The thumbprint that the server needs to know.
        thumbprint: String,
    },

    /// The hook that sets DNS records has failed.
    #[error("the DNS hook {} failed to {action} {record}: {why}", program.display())]
    Hook {
        /// The program.
        program: PathBuf,
        /// `set` or `remove`.
        action: &'static str,
        /// Name of the record.
        record: String,
        /// The reason.
        why: String,
    },

    /// The authority offers no challenge for a name that we can respond to.
    #[error("the certificate authority offers no challenge of type {wanted} for {name}")]
    NoChallenge {
        /// The name.
        name: String,
        /// The type of the challenge.
        wanted: &'static str,
    },

    /// The authority is too slow.
    #[error("the certificate authority has not finished {what} within {} s", limit.as_secs())]
    Timeout {
        /// The work that it was doing.
        what: &'static str,
        /// The limit.
        limit: Duration,
        /// When it wants to be asked again.
        retry_after: Option<Duration>,
    },

    /// The issued certificate can't be used.
    #[error("the certificate that the authority has issued cannot be used: {why}")]
    Unusable {
        /// The defect.
        why: String,
    },

    /// The issued certificate is due for renewal by our clock.
    #[error(
        "the clock of this machine is wrong: a certificate that was issued just now is due for renewal already"
    )]
    Clock,

    /// Generating a key or signing has failed.
    #[error("cryptography failed: {why}")]
    Crypto {
        /// The reason.
        why: String,
    },
}

/// Evidence of control that the authority looks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Evidence {
    /// The server's response (HTTP-01).
    #[default]
    Response,
    /// A DNS record that the hook sets (DNS-01).
    HookRecord,
    /// A DNS record that the operator sets (DNS-PERSIST-01).
    PersistentRecord(Box<PersistentRecord>),
}

/// The program that issues certificates, whose flags have names of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Caller {
    /// `cannery certificates`.
    #[default]
    Command,
    /// `cannery-server --certificates`, which also answers challenges.
    Server,
}

impl Error {
    pub(crate) fn folder(action: &'static str, path: &Path, source: io::Error) -> Error {
        Error::Folder { action, path: path.to_owned(), source }
    }

    /// Whether the error was found before the authority was asked for anything.
    pub(crate) fn is_before_order(&self) -> bool {
        matches!(self, Error::Check { .. } | Error::NewAccount { .. } | Error::Terms { .. })
    }

    /// Returns the name of the kind of error, for programs.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Error::Folder { .. } => "folder",
            Error::Held { .. } => "held",
            Error::Account { .. } => "account",
            Error::Roots { .. } => "roots",
            Error::Unreachable { .. } => "unreachable",
            Error::Failing { .. } => "failing",
            Error::Senseless { .. } => "senseless",
            Error::Terms { .. } => "terms",
            Error::Refused { .. } => "refused",
            Error::NewAccount { .. } => "new_account",
            Error::ExternalAccount { .. } => "external_account",
            Error::Check { .. } => "check",
            Error::Hook { .. } => "hook",
            Error::NoChallenge { .. } => "no_challenge",
            Error::Timeout { .. } => "timeout",
            Error::Unusable { .. } => "unusable",
            Error::Clock => "clock",
            Error::Crypto { .. } => "crypto",
        }
    }

    /// Returns when the authority wants to be asked again, if it said so.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Error::Failing { retry_after, .. }
            | Error::Refused { retry_after, .. }
            | Error::Timeout { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// Says what to do about the error, with the flags of a program.
    #[must_use]
    pub fn hint_for(&self, caller: Caller) -> Option<String> {
        match (caller, self) {
            (Caller::Command, _) => self.hint(),
            (Caller::Server, Error::Folder { source, .. }) if source.kind() == io::ErrorKind::ReadOnlyFilesystem => {
                Some(format!("{READ_ONLY}; `--acme-folder DIR` names another folder"))
            }
            (Caller::Server, Error::Folder { .. }) => Some(
                "let the server's user write to the folder (see `chown`), or choose another one with `--acme-folder DIR`"
                    .into(),
            ),
            (Caller::Server, Error::Held { .. }) => Some(
                "stop that process, or let it issue the certificates: start this server with `--tls-bundle` and \
                 `--acme-thumbprint` instead of `--certificates`"
                    .into(),
            ),
            (Caller::Server, Error::Check { found, thumbprint, .. }) => {
                let found = found.first()?;
                Some(found.server_hint(thumbprint).unwrap_or_else(|| with_server_flags(&found.hint(thumbprint))))
            }
            (Caller::Server, Error::NoChallenge { .. }) => {
                Some("`cannery certificates --dns-hook PROGRAM` proves control of names by DNS records".into())
            }
            (Caller::Server, _) => self.hint().map(|hint| with_server_flags(&hint)),
        }
    }

    /// Says what to do about the error.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Error::Folder { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                "the user of this process must own the folder: see `chown`, or run the command as its owner".into()
            }
            Error::Folder { source, .. } if source.kind() == io::ErrorKind::ReadOnlyFilesystem => READ_ONLY.into(),
            Error::Folder { source, .. } if is_full(source) => "make room on that disk".into(),
            Error::Folder { action: "create", path, source } if is_file(source) => {
                let file = path.ancestors().find(|path| path.is_file()).unwrap_or(path);
                format!("{} is a file: name another folder", file.display())
            }
            Error::Folder { action: "create", .. } => "name a folder that this user may create".into(),
            Error::Folder { action: "write", .. } => "name a folder that this user may write to".into(),
            Error::Folder { .. } => {
                "only regular files of this user belong in the folder: remove what isn't, or name another folder".into()
            }
            Error::Held { .. } => "stop that process, or use another folder for other names".into(),
            Error::Account { .. } => {
                "restore the file from a backup, or remove it: the next start registers a new account, whose thumbprint the \
                 server needs to know"
                    .into()
            }
            Error::Roots { .. } => "a line `-----BEGIN CERTIFICATE-----` is expected".into(),
            Error::Unreachable { .. } => {
                "check that this machine reaches it, for example with `curl`; with an authority of your own, \
                 `--directory-roots FILE` names its root certificate"
                    .into()
            }
            Error::Failing { .. } => "nothing to do: the request is repeated later".into(),
            Error::Senseless { .. } => {
                "check `--directory-url`: it must be the URL of an ACME directory (RFC 8555); a proxy in between may also be the reason"
                    .into()
            }
            Error::Terms { .. } => "read them, and add `--agree`".into(),
            Error::Refused { kind, evidence: Evidence::HookRecord, .. } if is_about_challenge(kind) => {
                "let the hook add the record on all name servers before it returns, and keep other values of the same name".into()
            }
            Error::Refused { kind, evidence: Evidence::PersistentRecord(record), .. }
                // A record with mistakes is malformed.
                if is_about_challenge(kind) || kind == "malformed" =>
            {
                format!("set this DNS record on all name servers, and let it stay: {record}")
            }
            Error::Refused { kind, .. } => return refusal_hint(kind).map(Into::into),
            Error::NewAccount { records } => {
                format!("set these DNS records, let them stay, and start the process again or wait: {}", listed(records))
            }
            Error::Check { found, thumbprint, .. } => found.first()?.hint(thumbprint),
            Error::ExternalAccount { .. } => {
                "check `--eab-id` and the key in the file of `--eab-key`: the authority gives out both together, and some of them only \
                 accept them once"
                    .into()
            }
            Error::Hook { .. } => {
                "run it by hand with the same arguments; its own messages are on standard error above".into()
            }
            Error::NoChallenge { wanted: DNS_PERSIST_01, .. } => {
                "this authority does not take part in the experiment: leave out `--dns-persist`".into()
            }
            Error::NoChallenge { wanted: "dns-01", .. } => "this authority can't issue wildcards: name the hosts".into(),
            Error::NoChallenge { .. } => "`--dns-hook PROGRAM` proves control of names by DNS records".into(),
            Error::Timeout { .. } => "nothing to do: the order is repeated later".into(),
            Error::Unusable { .. } => "tell the authority; the old certificate remains in use".into(),
            Error::Clock => "set the clock, for example by NTP".into(),
            Error::Crypto { .. } => return None,
        })
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Whether a folder can't be created because it, or a folder that it should be in, is a file.
fn is_file(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory)
}

/// Says what the addresses of a name gave.
fn outcomes(found: &[Found], good: &[String]) -> String {
    let mut parts: Vec<_> = found.iter().map(ToString::to_string).collect();
    match good {
        [] => {}
        [one] => parts.push(format!("{one} leads to it")),
        several => parts.push(format!("{} lead to it", several.join(", "))),
    }
    parts.join("; ")
}

/// Returns the first records. A certificate may have a hundred names.
fn listed(records: &[PersistentRecord]) -> String {
    const SHOWN_MAX: usize = 4;
    let shown: Vec<_> = records.iter().take(SHOWN_MAX).map(ToString::to_string).collect();
    let more = records.len().saturating_sub(SHOWN_MAX);
    match more {
        0 => shown.join(" and "),
        _ => format!("{}, and {more} more, which `cannery dns NAMES --account DIR` prints", shown.join(", ")),
    }
}

/// Says what to do if the folder can't be written by any user.
const READ_ONLY: &str = "let the process write to its file system: in a systemd unit, `StateDirectory=` or `ReadWritePaths=` does, and \
     in a container, a writable volume";

/// Replaces the flags of `cannery certificates` by those of the server.
fn with_server_flags(hint: &str) -> String {
    let mut parts = hint.split("`--");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        // Not the first line of a PEM file, for example.
        let is_flag = part.starts_with(|letter: char| letter.is_ascii_lowercase());
        text.push_str(if is_flag && !part.starts_with("acme-") { "`--acme-" } else { "`--" });
        text.push_str(part);
    }
    text
}

/// Whether the authority reports that it got another response to a challenge than it should.
fn is_about_challenge(kind: &str) -> bool {
    matches!(kind, "connection" | "dns" | "incorrectResponse" | "unauthorized")
}

/// Says what to do about a problem type of RFC 8555 §6.7 or an extension.
fn refusal_hint(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "invalidContact" | "unsupportedContact" => {
            "correct `--contact`: an email address whose domain exists, such as you@example.com"
        }
        "connection" => {
            "let the authority reach port 80 of this name from the internet: check firewalls and the router"
        }
        "dns" => {
            "check the DNS records of the name: A and AAAA must lead to this server, and DNSSEC must be valid"
        }
        "caa" => "let the name's CAA record allow this authority: `cannery dns NAME` prints one",
        "incorrectResponse" | "unauthorized" => {
            "another server answers the authority for this name: check its A and AAAA records, and that each server has \
             `--acme-thumbprint`"
        }
        "rateLimited" => "wait; for experiments, use `--staging`, whose limits are far higher",
        "rejectedIdentifier" | "unsupportedIdentifier" => {
            "leave out the name: the authority doesn't issue certificates for it"
        }
        "externalAccountRequired" => {
            "the authority gives out an account by other means: pass it with `--eab-id` and `--eab-key`"
        }
        "userActionRequired" => "the authority has new terms of service: read them, and agree as it says",
        "invalidProfile" => "leave out `--profile`, or name a profile that the authority offers",
        "badSignatureAlgorithm" | "badPublicKey" | "badCSR" => {
            "try the other kind of key: `--key ecdsa` or `--key rsa`"
        }
        "badNonce" => "nothing to do: the order is repeated later",
        "accountDoesNotExist" => "nothing to do: the account is registered again",
        "alreadyReplaced" => "nothing to do: the next order doesn't name the certificate that it replaces",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::Names;

    #[test]
    fn only_flags_are_those_of_the_server() {
        for (hint, expected) in [
            ("add `--agree`", "add `--acme-agree`"),
            ("`--contact` and `--acme-thumbprint`", "`--acme-contact` and `--acme-thumbprint`"),
            (
                "a line `-----BEGIN CERTIFICATE-----` is expected",
                "a line `-----BEGIN CERTIFICATE-----` is expected",
            ),
        ] {
            assert_eq!(with_server_flags(hint), expected);
        }
    }

    #[test]
    fn hint_is_for_the_challenge_that_has_failed() {
        for kind in ["connection", "dns", "incorrectResponse", "unauthorized"] {
            let hint = |evidence: &Evidence| {
                let (kind, detail, evidence) = (kind.to_owned(), String::new(), evidence.clone());
                Error::Refused { kind, detail, retry_after: None, evidence }.hint().unwrap()
            };
            let names: Names = "example.com".parse().unwrap();
            let records = PersistentRecord::for_names(names.as_slice(), "ca.example", "https://ca.example/1");
            let record = records.unwrap().remove(0);
            let persistent = Evidence::PersistentRecord(Box::new(record.clone()));
            for (evidence, words, is_in) in [
                (&Evidence::HookRecord, "the hook", true),
                (&Evidence::Response, "the hook", false),
                (&persistent, "the hook", false),
                (&persistent, &record.to_string(), true),
            ] {
                assert_eq!(hint(evidence).contains(words), is_in, "{kind}, {evidence:?}");
            }
        }
    }
}
