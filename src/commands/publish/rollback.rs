//! `cannery rollback`: makes targets serve an earlier release.

use cannery_publish::protocol::{Activate, Activated, ReleaseInfo, Releases, Selector};
use cannery_trust::Signed;
use serde::Serialize;

use super::connection::{Connector, client_failure};
use super::fleet::{self, Member, failures};
use super::push::{claimed_sequence, own_statements};
use super::signer::{Signer, not_ours};
use super::stores;
use crate::commands::releases::{PREVIOUS, PUSH_INSTEAD};
use crate::flags::publish::Rollback;
use crate::output::{self, Failure, Paint, one_line};

#[derive(Serialize)]
struct RolledBack {
    target: String,
    /// The file name of the release that is served now.
    release: Option<String>,
    serial: Option<u64>,
    /// The file name of the release that was served before.
    before: Option<String>,
    error: Option<serde_json::Value>,
}

/// Runs the command.
///
/// # Errors
///
/// Returns an error if a target doesn't serve the release in the end.
pub fn run(flags: &Rollback) -> Result<(), Failure> {
    let as_json = |failure: Failure| failure.as_json(flags.json);
    if let Some(addresses) = stores::parse(&flags.targets).map_err(as_json)? {
        return stores::rollback(flags, addresses).map_err(as_json)?;
    }
    let connector = Connector::new(&flags.connection).map_err(as_json)?;
    let targets = fleet::parse(&flags.targets).map_err(as_json)?;
    let signer = Signer::read(&flags.signing).map_err(as_json)?;
    let activate = Activate {
        release: Selector::Name(flags.to.clone()),
        keep: None,
        signed: None,
        settle_ms: Some(flags.settle),
    };
    let members = match &signer {
        // Only a new statement depends on the list of releases.
        None => fleet::start(targets, |target| connector.activate(target, &activate)),
        Some(signer) => fleet::then(fleet::connect(&connector, targets), |target, mut connection| {
            // Even if the host doesn't demand signatures, and the live release has none, its server may.
            let (digest, signed) = sign_again(signer, &connection.releases, &flags.to)?;
            let release = Selector::Digest(digest);
            let activate = Activate { release, signed: Some(signed), ..activate.clone() };
            let activated =
                connection.client.activate(&activate).map_err(|error| client_failure(target, &error))?;
            connection.close();
            Ok(activated)
        }),
    };

    if flags.json {
        output::print_json(&members.iter().map(json).collect::<Vec<_>>())?;
    } else {
        for Member { target, outcome, .. } in &members {
            let Ok(activated) = outcome else { continue };
            let target = Paint::for_results().strong(&target.to_string());
            let state = match &activated.before {
                Some(before) => format!("is live, instead of {}", one_line(before)),
                None => "was live before".to_owned(),
            };
            output::print(format_args!("{target}  {} {state}\n", one_line(&activated.name)))?;
            if let Some(warning) = &activated.warning {
                output::note(format_args!("{target}: note: {}", one_line(warning)));
            }
        }
    }
    failures(&members)
}

/// Signs the statement about an earlier release again, with a higher sequence. Returns the digest of the release, too.
fn sign_again(signer: &Signer, releases: &Releases, wanted: &str) -> Result<(String, Signed), Failure> {
    let release = find(releases, wanted)?;
    let digest = release.digest.clone().unwrap_or_default();
    let statement = signer.own_statement(release.signed.as_ref(), &digest);
    let statement = statement.filter(|statement| Some(statement.serial) == release.serial);
    let statement = statement.ok_or_else(|| not_ours(&release.name))?;
    let own = own_statements(signer, releases);
    let signed = signer.sign_again(statement, &own, claimed_sequence(releases))?;
    Ok((digest, signed))
}

/// Finds a release in the list of a target, as the target does for a file name, a serial, or `previous`.
fn find<'a>(releases: &'a Releases, wanted: &str) -> Result<&'a ReleaseInfo, Failure> {
    let intact = || releases.releases.iter().filter(|release| release.digest.is_some());
    let is_named = |release: &&ReleaseInfo| release.name == wanted || release.name == format!("{wanted}.cdb");
    let previous = || intact().skip_while(|release| !release.current).nth(1);
    let by_serial = || {
        let serial = wanted.parse::<u64>().ok()?;
        let mut found = intact().filter(|release| release.serial == Some(serial));
        found.next().filter(|_| found.next().is_none())
    };
    let found = intact().find(is_named).or_else(|| if wanted == PREVIOUS { previous() } else { by_serial() });
    found.ok_or_else(|| match releases.current() {
        Some(current) if wanted == PREVIOUS => {
            Failure::failed(format!("no release comes before {}", one_line(&current.name))).hint(PUSH_INSTEAD)
        }
        _ => Failure::failed(format!(
            "there is no release `{}`, or several have this serial",
            one_line(wanted)
        ))
        .hint("`cannery status` lists the releases"),
    })
}

fn json(member: &Member<Activated>) -> RolledBack {
    let activated = member.outcome.as_ref();
    RolledBack {
        target: member.target.to_string(),
        release: activated.ok().map(|activated| activated.name.clone()),
        serial: activated.ok().map(|activated| activated.serial),
        before: activated.ok().and_then(|activated| activated.before.clone()),
        error: activated.err().map(Failure::to_json),
    }
}
