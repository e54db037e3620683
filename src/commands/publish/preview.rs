//! Previews: the host under which one is published, its settings, and its removal.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cannery_archive::Digest;
use cannery_publish::limits::NAMED_FILE_BYTES_MAX;
use cannery_publish::protocol::{Preview, PreviewPassword};
use cannery_publish::read_named_file;
use serde::Serialize;

use super::connection::{Connection, Connector, client_failure};
use super::fleet::{self, Member, reason};
use crate::flags::preview::PreviewFlags;
use crate::flags::publish::Push;
use crate::output::{self, Failure, Paint, one_line};

/// Maximum length of a part of a host name (RFC 1035 §2.3.4).
const LABEL_BYTES_MAX: usize = 63;

/// Number of hexadecimal digits that tell apart long names with the same start.
const LABEL_DIGITS: usize = 8;

/// A password that is longer is probably another file.
const PASSWORD_BYTES_MAX: usize = 1024;

/// Returns the preview that the flags select.
///
/// # Errors
/// Returns an error if it has no host, or if its password can't be read.
pub(super) fn selected(flags: &PreviewFlags) -> Result<Option<Preview>, Failure> {
    let Some(name) = &flags.preview else { return Ok(None) };
    let from_environment = || std::env::var("CANNERY_PREVIEW_DOMAIN").ok().filter(|value| !value.is_empty());
    let domain = flags.preview_domain.clone().or_else(from_environment);
    let host = host(name, domain.as_deref())?;
    let password = flags.password_file.as_deref().map(|path| read_password(path, flags.password_plain));
    let expires = flags.expire.map(|time| unix_seconds().saturating_add(time.as_secs()));
    Ok(Some(Preview { host, expires, password: password.transpose()? }))
}

/// Returns the URL of a preview.
pub(super) fn url(preview: &Preview) -> String {
    format!("https://{}/", preview.host)
}

/// Returns the host of a preview. Names of branches become a part of a host name, without the characters that those can't have.
fn host(name: &str, domain: Option<&str>) -> Result<String, Failure> {
    let lower = name.to_ascii_lowercase();
    let Some(domain) = domain else {
        if lower.contains('.') {
            return Ok(lower);
        }
        return Err(Failure::usage(format!("the preview `{}` has no domain", one_line(name)))
            .hint("add `--preview-domain preview.example.com`, or write the whole host"));
    };
    let domain = domain.trim_matches('.').to_ascii_lowercase();
    if lower.strip_suffix(&domain).is_some_and(|rest| rest.ends_with('.')) {
        return Ok(lower);
    }

    let mut label = String::new();
    for character in lower.chars() {
        if character.is_ascii_alphanumeric() {
            label.push(character);
        } else if !label.ends_with('-') {
            label.push('-');
        }
    }
    let label = label.trim_matches('-');
    if label.is_empty() {
        return Err(Failure::usage(format!(
            "the preview `{}` has neither letters nor digits",
            one_line(name)
        )));
    }
    if label == lower && label.len() <= LABEL_BYTES_MAX {
        return Ok(format!("{label}.{domain}"));
    }
    // Other names become the same label.
    let start = label[..label.len().min(LABEL_BYTES_MAX - LABEL_DIGITS - 1)].trim_end_matches('-');
    let digest = Digest::of(name.as_bytes()).to_string();
    Ok(format!("{start}-{}.{domain}", &digest[..LABEL_DIGITS]))
}

/// Reads a password, and returns its salted digest.
fn read_password(path: &Path, plain: bool) -> Result<PreviewPassword, Failure> {
    let wrong = |why: &str| Failure::input(format!("{}: {why}", path.display()));
    let text = read_named_file(path, NAMED_FILE_BYTES_MAX).map_err(|error| {
        Failure::input(format!("cannot read the password in {}: {error}", path.display()))
            .hint("name a file that this user may read, with the password as its only line")
    })?;
    let password = text.strip_suffix(b"\n").unwrap_or(&text);
    let password = password.strip_suffix(b"\r").unwrap_or(password);
    if password.is_empty() {
        return Err(wrong("the password is empty"));
    }
    if password.len() > PASSWORD_BYTES_MAX || password.contains(&b'\n') {
        return Err(wrong("a password is one line of up to 1,024 bytes"));
    }

    let mut random = [0; 16];
    File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut random))
        .map_err(|error| Failure::failed(format!("/dev/urandom: {error}")))?;
    let salt = Digest::of(&random).to_string();
    let digest = Digest::of(&[salt.as_bytes(), password].concat()).to_string();
    Ok(PreviewPassword { salt, digest, plain })
}

fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs()
}

#[derive(Serialize)]
struct RemovedJson {
    target: String,
    /// Whether the preview existed.
    removed: bool,
    error: Option<serde_json::Value>,
}

/// Removes a preview from all targets.
///
/// # Errors
/// Returns an error if a target can't be reached, or refuses.
pub(super) fn remove(flags: &Push, preview: Preview) -> Result<(), Failure> {
    let host = preview.host.clone();
    let targets = fleet::parse(&flags.words)?;
    let connector = Connector::new(&flags.connection)?.for_preview(Some(preview));
    let members = fleet::then(fleet::connect(&connector, targets), |target, mut connection: Connection| {
        let removed = connection.client.remove_preview().map_err(|error| client_failure(target, &error))?;
        connection.close();
        Ok(removed.existed)
    });
    print_removed(flags, &host, &members)?;

    let failed = members.iter().filter(|member| member.outcome.is_err()).count();
    match failed {
        0 => Ok(()),
        _ => Err(Failure::failed(format!(
            "{failed} of {} targets failed, and still have {host}",
            members.len()
        ))
        .hint("once the cause is removed, run the same command again")),
    }
}

fn print_removed(flags: &Push, host: &str, members: &[Member<bool>]) -> Result<(), Failure> {
    if flags.json {
        let json = |member: &Member<bool>| RemovedJson {
            target: member.target.to_string(),
            removed: *member.outcome.as_ref().unwrap_or(&false),
            error: member.outcome.as_ref().err().map(Failure::to_json),
        };
        return output::print_json(&serde_json::json!({
            "preview": host,
            "targets": members.iter().map(json).collect::<Vec<_>>(),
        }));
    }
    for Member { target, outcome, .. } in members {
        match outcome {
            Ok(existed) if !flags.quiet => {
                let what = if *existed { "is removed" } else { "was not there" };
                output::print(format_args!("{target}  {host} {what}\n"))?;
            }
            Ok(_) => {}
            Err(failure) => {
                let failed = Paint::for_errors().error("failed:");
                output::note(format_args!("{target}: {failed} {}", one_line(&reason(failure))));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_branches_become_hosts() {
        let of = |name: &str| host(name, Some("preview.example.com")).unwrap();
        assert_eq!(of("pr-42"), "pr-42.preview.example.com");
        assert_eq!(of("PR-42"), "pr-42.preview.example.com");
        let other = of("Feature/New_Header!");
        assert!(
            other.starts_with("feature-new-header-") && other.ends_with(".preview.example.com"),
            "{other}"
        );
        assert_ne!(of("feature/new-header"), of("feature-new/header"));
        assert_eq!(of("pr-1.preview.example.com"), "pr-1.preview.example.com");
        let long = of(&"long/".repeat(30));
        let label = long.split('.').next().unwrap();
        assert!(label.len() <= LABEL_BYTES_MAX && label.starts_with("long-long-"), "{long}");
        assert_ne!(of(&"long/".repeat(31)), long);

        assert_eq!(host("A.example", None).unwrap(), "a.example");
        assert!(host("pr-42", None).is_err() && host("/", Some("a.example")).is_err());
    }

    #[test]
    fn password_is_a_line_of_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("password");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            read_password(&path, false)
        };
        let password = read("winter is coming\r\n").unwrap();
        let expected = Digest::of(format!("{}winter is coming", password.salt).as_bytes()).to_string();
        assert_eq!(password.digest, expected);
        assert_ne!(read("winter is coming").unwrap().salt, password.salt);
        for wrong in ["", "\n", "two\nlines", &"x".repeat(2000)] {
            assert!(read(wrong).is_err());
        }
    }
}
