//! `cannery certificates`: obtains certificates and renews them, or shows those in a folder.

pub(super) mod for_server;
mod report;

use std::path::Path;
use std::time::Duration;

use base64::Engine;
use base64::prelude::{BASE64_URL_SAFE, BASE64_URL_SAFE_NO_PAD};
use cannery_certificates::{
    Caller, CertificateStatus, Error, Event, ExternalAccount, Issuer, Names, Settings, Timestamp,
    request_renewal, status, thumbprint,
};
use cannery_publish::limits::NAMED_FILE_BYTES_MAX;
use cannery_publish::read_named_text;
use serde_json::json;

use crate::flags::certificates::Certificates;
use crate::output::{self, Exit, Failure, Paint, one_line};
use report::{Report, span, time};

/// Certificates that expire within this time are shown as a warning.
const SOON: Duration = Duration::from_secs(2 * 24 * 60 * 60);

/// Runs `cannery certificates`.
///
/// # Errors
///
/// Returns an error if the folder can't be used, or with `--once` if a certificate couldn't be obtained.
pub fn run(flags: &Certificates) -> Result<(), Failure> {
    if flags.thumbprint {
        let thumbprint = thumbprint(&flags.directory).map_err(|error| failure(&error))?;
        return output::print(format_args!("{thumbprint}\n"));
    }
    if let Some(names) = &flags.renew {
        return ask_to_renew(flags, names);
    }
    if flags.names.is_empty() {
        return show(flags);
    }
    flags.check()?;
    if let Some(server) = flags.for_server()? {
        return for_server::run(flags, &server);
    }

    let mut issuer = Issuer::open(settings(flags, Caller::Command)?).map_err(|error| failure(&error))?;
    let report = Report::new(flags.json, flags.quiet);
    report.started(&flags.directory, issuer.thumbprint());

    if flags.once {
        let mut failed = Vec::new();
        let on_event = &mut |event: &Event<'_>| {
            if let Event::Failed { certificate, .. } = event {
                failed.push((*certificate).to_owned());
            }
            report.event(event);
        };
        let is_good = issuer.run_once(on_event).map_err(|error| failure(&error))?;
        return if is_good { Ok(()) } else { Err(incomplete(flags, &failed)) };
    }
    let Err(error) = issuer.run(&mut |event| report.event(event));
    Err(failure(&error))
}

/// Asks the process that renews the certificates of the folder to renew one of them now.
fn ask_to_renew(flags: &Certificates, names: &Names) -> Result<(), Failure> {
    let folder = one_line(&flags.directory.display().to_string());
    let stem = names.file_stem();
    let known = status(&flags.directory).map_err(|error| failure(&error))?;
    let bundle = flags.directory.join(format!("{stem}.pem"));
    if !known.iter().any(|state| state.path == bundle) {
        let others: Vec<_> =
            known.iter().filter_map(|state| state.journal.names.split(',').next()).map(one_line).collect();
        let failure = Failure::failed(format!("{folder} has no certificate whose first name is {names}"));
        return Err(failure.hint(format!("first names in this folder: {}", others.join(", "))));
    }

    let holder = request_renewal(&flags.directory, names).map_err(|error| failure(&error))?;
    let Some(holder) = holder else {
        let failure =
            Failure::failed(format!("no process renews the certificates in {folder} at the moment"));
        return Err(failure.hint(format!(
            "start `cannery certificates {folder} NAMES` or `cannery-server --certificates NAMES`, and then ask again; if a timer \
             starts it with `--once`, rename {} before the next run",
            one_line(&bundle.display().to_string())
        )));
    };
    if flags.quiet {
        return Ok(());
    }
    output::print(format_args!(
        "{stem}: {holder} was asked to renew the certificate, and prints the outcome if it is one of its certificates\n"
    ))
}

/// Returns the settings of the issuer. The key of an external account is read from its file.
fn settings(flags: &Certificates, caller: Caller) -> Result<Settings, Failure> {
    let mut authority = flags.authority();
    if let (Some(id), Some(path)) = (&flags.eab_id, &flags.eab_key) {
        authority.external_account = Some(read_external_account(id, path)?);
    }
    Ok(Settings {
        folder: flags.directory.clone(),
        certificates: flags.names.clone(),
        authority,
        key: flags.key,
        profile: flags.profile.clone(),
        dns: flags.dns(),
        self_check: flags.self_check(),
        readers: flags.readers(),
        caller,
    })
}

/// Explains the end of `--once` without a certificate. The failures of this run have been printed for people, those of an earlier
/// run haven't.
fn incomplete(flags: &Certificates, failed: &[String]) -> Failure {
    let is_explained = |stem: &String| !flags.json && failed.contains(stem);
    let stems: Vec<_> = flags.names.iter().map(Names::file_stem).collect();
    if !failed.is_empty() && stems.iter().all(is_explained) {
        return Failure::Reported(Exit::Failed);
    }
    let is_ours = |state: &CertificateStatus| {
        let mut others = stems.iter().filter(|stem| !is_explained(stem));
        others.any(|stem| state.path == flags.directory.join(format!("{stem}.pem")))
    };
    let states: Vec<_> = status(&flags.directory).unwrap_or_default().into_iter().filter(is_ours).collect();
    let next_at = |state: &CertificateStatus| {
        let next_at = state.journal.attempt.map(|attempt| attempt.next_at)?;
        (next_at > Timestamp::now()).then(|| time(next_at))
    };
    let mut message = "not all certificates are up to date".to_owned();

    if let Some((state, error)) =
        states.iter().find_map(|state| Some((state, state.journal.last_error.as_ref()?)))
    {
        message = format!("{message}: {}", error.message);
        if let Some(next_at) = next_at(state) {
            message = format!("{message}; the next attempt is possible at {next_at}");
        }
        let failure = Failure::failed(message);
        return failure.hint_if(error.hint.clone());
    }
    if !failed.is_empty() && !flags.json {
        return Failure::Reported(Exit::Failed);
    }
    // For example, the bundle was removed after an order.
    if let Some(next_at) = states.iter().filter(|state| state.not_after.is_none()).find_map(next_at) {
        message =
            format!("{message}: the last order was a moment ago, and the next one is possible at {next_at}");
    }
    Failure::failed(message)
}

fn read_external_account(id: &str, path: &Path) -> Result<ExternalAccount, Failure> {
    let failed =
        |why: String| Failure::input(format!("the key of the external account in {}: {why}", path.display()));
    let text = read_named_text(path, NAMED_FILE_BYTES_MAX).map_err(|error| {
        failed(error.to_string())
            .hint("name a file with the key, which the authority gives out, that this user may read")
    })?;
    let key = BASE64_URL_SAFE_NO_PAD.decode(text.trim()).or_else(|_| BASE64_URL_SAFE.decode(text.trim()));
    // The error must not quote the key.
    let key = key.map_err(|_| failed("it is not base64url".into()))?;
    Ok(ExternalAccount { id: id.to_owned(), key: key.into() })
}

/// Translates an error of the issuer.
pub(super) fn failure(error: &Error) -> Failure {
    let exit = match error {
        Error::Folder { action: "read", .. } | Error::Account { .. } | Error::Roots { .. } => Exit::Input,
        Error::Folder { .. } => Exit::Output,
        _ => Exit::Failed,
    };
    Failure::new(exit, error.to_string()).hint_if(error.hint())
}

/// Shows the certificates in the folder.
fn show(flags: &Certificates) -> Result<(), Failure> {
    let states = status(&flags.directory).map_err(|error| failure(&error))?;
    let now = Timestamp::now();
    if flags.json {
        let certificates: Vec<_> = states.iter().map(|state| as_json(state, now)).collect();
        output::print_json(&json!({ "certificates": certificates }))?;
    } else if states.is_empty() {
        output::print(format_args!("{}: no certificates\n", flags.directory.display()))?;
    } else {
        let paint = Paint::for_results();
        output::print(states.iter().map(|state| as_text(state, now, paint)).collect::<String>())?;
    }
    let is_valid = |state: &CertificateStatus| state.not_after.is_some_and(|not_after| not_after > now);
    if states.iter().all(is_valid) {
        return Ok(());
    }
    Err(Failure::failed(format!("{}: a certificate is missing or has expired", flags.directory.display())))
}

fn as_json(state: &CertificateStatus, now: Timestamp) -> serde_json::Value {
    let signed = |time: Timestamp| i64::try_from(time.0).unwrap_or(i64::MAX);
    // Negative if it has expired.
    let seconds_left = state.not_after.map(|not_after| signed(not_after).saturating_sub(signed(now)));
    json!({
        "bundle": state.path.display().to_string(),
        "names": state.journal.names,
        "directory": state.journal.directory,
        "not_after": state.not_after,
        "issued_at": state.journal.issued_at,
        "seconds_left": seconds_left,
        "renews_at": state.journal.renews_at,
        "failures": state.journal.attempt.map_or(0, |attempt| attempt.failures),
        "last_error": state.journal.last_error,
    })
}

fn as_text(state: &CertificateStatus, now: Timestamp, paint: Paint) -> String {
    let journal = &state.journal;
    let mut text = format!("{}\n", paint.strong(&state.path.display().to_string()));
    let mut put = |label: &str, value: &str| text.push_str(&format!("  {label:<10} {value}\n"));
    put("names", &one_line(&journal.names));
    put("authority", &one_line(&journal.directory));
    match state.not_after {
        None => put("expires", &paint.error("there is no certificate that can be used")),
        Some(not_after) if not_after <= now => put("expired", &paint.error(&time(not_after))),
        Some(not_after) => {
            let left = now.until(not_after);
            let value = format!("{}, in {}", time(not_after), span(left));
            put("expires", &if left < SOON { paint.warning(&value) } else { value });
        }
    }
    if let Some(renews_at) = journal.renews_at {
        put("renews", &time(renews_at));
    }
    if let Some(error) = &journal.last_error {
        put("error", &format!("{}: {}", time(error.at), paint.warning(&one_line(&error.message))));
        if let Some(hint) = &error.hint {
            put("hint", &one_line(hint));
        }
    }
    text
}
