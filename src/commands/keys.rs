//! `cannery keygen` and `cannery sign`: keys and signatures of releases, in the formats of minisign.

use std::fs::{self, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use cannery_publish::limits::NAMED_FILE_BYTES_MAX;
use cannery_publish::read_named_text;
use cannery_publish::signing::{SecretKey, SecretKeyError};
use cannery_server::statement_files::{SIGNATURE_SUFFIX, STATEMENT_SUFFIX, beside};
use cannery_trust::{Signed, Statement, is_site_name};
use serde::Serialize;

use super::release_dir::replace;
use super::release_trust::wrong_site_name;
use super::{open, verify};
use crate::flags::signing::{Keygen, Sign, SigningFlags};
use crate::output::{self, Failure, Paint, one_line};

#[derive(Serialize)]
struct GeneratedKey {
    secret_key_file: String,
    public_key_file: String,
    /// The value of `--public-key`.
    public_key: String,
}

/// Runs `cannery keygen`.
///
/// # Errors
///
/// Returns an error if the files exist, can't be written, or if the passwords differ.
pub fn generate(flags: &Keygen) -> Result<(), Failure> {
    let public_path = flags.file.with_extension("pub");
    if public_path == flags.file {
        return Err(Failure::usage("the file with the secret key can't end in `.pub`"));
    }
    for path in [&flags.file, &public_path] {
        if fs::symlink_metadata(path).is_ok() {
            return Err(Failure::output(format!("{} exists already", path.display()))
                .hint("machines that have its public key need the old key: choose another name"));
        }
    }
    let password = if flags.no_password {
        None
    } else {
        let password = read_password(flags.password_file.as_deref(), "a password for the key: ")?;
        if flags.password_file.is_none() && prompt("the password again: ")? != password {
            return Err(Failure::failed("the passwords differ"));
        }
        if password.is_empty() {
            return Err(
                Failure::failed("the password is empty").hint("`--no-password` makes a key without one")
            );
        }
        Some(password)
    };
    let (secret, public) = SecretKey::generate(password.as_deref())
        .map_err(|error| Failure::failed(format!("cannot generate a key: {error}")))?;

    let write = |path: &Path, content: &str, mode: u32| {
        let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
        file.and_then(|mut file| file.write_all(content.as_bytes()).and_then(|()| file.sync_all()))
            .map_err(|error| Failure::output(format!("cannot write {}: {error}", path.display())))
    };
    write(&flags.file, &secret, 0o600)?;
    write(&public_path, &public, 0o644)?;
    let line = public.lines().nth(1).unwrap_or_default();
    if flags.json {
        return output::print_json(&GeneratedKey {
            secret_key_file: flags.file.display().to_string(),
            public_key_file: public_path.display().to_string(),
            public_key: line.to_owned(),
        });
    }
    output::print(format_args!(
        "{}  secret key: keep it where you publish\n{}  public key, for `--public-key`: {line}\n",
        Paint::for_results().strong(&flags.file.display().to_string()),
        Paint::for_results().strong(&public_path.display().to_string()),
    ))
}

#[derive(Serialize)]
struct SignedArchive {
    statement: String,
    signature: Option<String>,
    site: String,
    serial: u64,
    sequence: u64,
    bytes: u64,
    blake3: String,
}

/// Runs `cannery sign`.
///
/// # Errors
///
/// Returns an error if the archive is damaged, the key can't be used, or the files can't be written.
pub fn sign(flags: &Sign) -> Result<(), Failure> {
    if !is_site_name(&flags.site) {
        return Err(wrong_site_name(&flags.site));
    }
    let key = match &flags.secret_key {
        Some(path) => Some(read_key(path, flags.password_file.as_deref())?),
        None => None,
    };
    let archive = open::open(&flags.archive)?;
    archive.verify_digest().map_err(|error| verify::failure(&flags.archive, &error))?;
    let sequence = flags.sequence.unwrap_or(archive.facts().serial);
    let statement = Statement::of(&archive, &flags.site, sequence, now());

    let statement_path = beside(&flags.archive, STATEMENT_SUFFIX);
    let signature_path = beside(&flags.archive, SIGNATURE_SUFFIX);
    let write = |path: &Path, content: &str| {
        replace(path, content.as_bytes())
            .map_err(|error| Failure::output(format!("cannot write {}: {error}", path.display())))
    };
    // A signature of an earlier statement would be wrong.
    let _ = fs::remove_file(&signature_path);
    write(&statement_path, &statement.to_text())?;
    let is_signed = key.is_some();
    if let Some(key) = key {
        write(&signature_path, &sign_statement(&key, &statement)?.signature)?;
    }

    if flags.json {
        return output::print_json(&SignedArchive {
            statement: statement_path.display().to_string(),
            signature: is_signed.then(|| signature_path.display().to_string()),
            site: statement.site,
            serial: statement.serial,
            sequence,
            bytes: statement.bytes,
            blake3: statement.digest.to_string(),
        });
    }
    let paint = Paint::for_results();
    if is_signed {
        return output::print(format_args!(
            "{}  signed for {}, sequence {sequence}\n",
            paint.strong(&signature_path.display().to_string()),
            one_line(&flags.site)
        ));
    }
    output::print(format_args!(
        "{}  not signed yet: `minisign -Sm {}`\n",
        paint.strong(&statement_path.display().to_string()),
        statement_path.display()
    ))
}

/// Reads the key of a command that signs. Returns `None` if it doesn't.
pub(super) fn read_signer(flags: &SigningFlags) -> Result<Option<(SecretKey, Option<String>)>, Failure> {
    let Some(path) = &flags.secret_key else { return Ok(None) };
    if let Some(site) = flags.site.as_ref().filter(|site| !is_site_name(site)) {
        return Err(wrong_site_name(site));
    }
    Ok(Some((read_key(path, flags.secret_key_password_file.as_deref())?, flags.site.clone())))
}

pub(super) fn sign_statement(key: &SecretKey, statement: &Statement) -> Result<Signed, Failure> {
    key.sign(statement).map_err(|error| Failure::failed(format!("cannot sign the release: {error}")))
}

/// Returns the time in seconds since 1970.
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

fn read_key(path: &Path, password_file: Option<&Path>) -> Result<SecretKey, Failure> {
    let text = read_named_text(path, NAMED_FILE_BYTES_MAX).map_err(|error| {
        Failure::input(format!("cannot read the secret key {}: {error}", path.display())).hint(
            "name a file that `cannery keygen` or `minisign -G` has written, and that this user may read",
        )
    })?;
    let password = if SecretKey::has_password(&text) {
        Some(read_password(password_file, &format!("the password of {}: ", path.display()))?)
    } else {
        None
    };
    SecretKey::parse(&text, password.as_deref()).map_err(|error| {
        let failure = Failure::input(format!("{}: {error}", path.display()));
        match error {
            SecretKeyError::Secret(_) => failure.hint("`cannery keygen FILE` generates a key"),
            _ => failure,
        }
    })
}

/// Returns the first line of the file, or asks for the password.
fn read_password(file: Option<&Path>, question: &str) -> Result<String, Failure> {
    let Some(file) = file else { return prompt(question) };
    let text = read_named_text(file, NAMED_FILE_BYTES_MAX).map_err(|error| {
        Failure::input(format!("cannot read the password in {}: {error}", file.display()))
            .hint("name a file that this user may read, whose first line is the password")
    })?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

fn prompt(question: &str) -> Result<String, Failure> {
    if !io::stdin().is_terminal() {
        return Err(Failure::failed("the key needs a password, and there is no terminal to ask for it")
            .hint(
                "put it into a file for `--password-file FILE` (of `push` and `rollback`: `--secret-key-password-file`), or use a key without a password (`cannery keygen --no-password`)",
            ));
    }
    rpassword::prompt_password(question)
        .map_err(|error| Failure::failed(format!("cannot read the password: {error}")))
}
