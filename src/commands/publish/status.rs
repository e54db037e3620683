//! `cannery status`: lists the releases of targets.

use cannery_publish::protocol::{ReleaseInfo, ReleaseState, Releases};
use serde::Serialize;

use super::connection::Connector;
use super::fleet::{self, Member, failures};
use super::stores;
use crate::flags::publish::Status;
use crate::format::{Table, bytes, counted, minute};
use crate::output::{self, Failure, Paint, one_line};

#[derive(Serialize)]
struct TargetStatus {
    target: String,
    #[serde(flatten)]
    releases: Option<Releases>,
    /// Whether another target serves a newer release.
    behind: bool,
    error: Option<serde_json::Value>,
}

/// Runs the command.
///
/// # Errors
///
/// Returns an error if a target can't be reached, or doesn't exist.
pub fn run(flags: &Status) -> Result<(), Failure> {
    let as_json = |failure: Failure| failure.as_json(flags.json);
    if let Some(addresses) = stores::parse(&flags.targets).map_err(as_json)? {
        return stores::status(flags, addresses).map_err(as_json)?;
    }
    let connector = Connector::new(&flags.connection).map_err(as_json)?;
    let members = fleet::connect(&connector, fleet::parse(&flags.targets).map_err(as_json)?);
    let members = fleet::then(members, |_, connection| {
        let releases = connection.releases.clone();
        connection.close();
        if releases.is_missing {
            let message = format!("the directory {} does not exist", one_line(&releases.directory));
            return Err(Failure::failed(message).hint("`cannery push` creates it with the first release"));
        }
        Ok(releases)
    });

    let serials = members.iter().filter_map(|member| current_serial(member.outcome.as_ref().ok()?));
    let newest = serials.max();
    let is_behind = |releases: &Releases| current_serial(releases) < newest;
    if flags.json {
        let targets = members.iter().map(|member| TargetStatus {
            target: member.target.to_string(),
            releases: member.outcome.as_ref().ok().cloned(),
            behind: member.outcome.as_ref().is_ok_and(is_behind),
            error: member.outcome.as_ref().err().map(Failure::to_json),
        });
        output::print_json(&targets.collect::<Vec<_>>())?;
    } else {
        let paint = Paint::for_results();
        for (index, Member { target, outcome, .. }) in members.iter().enumerate() {
            let Ok(releases) = outcome else { continue };
            let gap = if index == 0 { "" } else { "\n" };
            let behind = if is_behind(releases) { "  behind the other targets" } else { "" };
            let heading = paint.strong(&target.to_string());
            output::print(format_args!("{gap}{heading}{behind}\n{}", list(releases, paint)))?;
        }
    }
    failures(&members)
}

fn current_serial(releases: &Releases) -> Option<u64> {
    releases.current().and_then(|release| release.serial)
}

/// Renders the releases of a target as a table.
fn list(releases: &Releases, paint: Paint) -> String {
    if releases.releases.is_empty() {
        return "  no releases\n".to_owned();
    }
    let current = current_serial(releases);
    let mut table = Table::default();
    for release in &releases.releases {
        let row =
            table.row(one_line(&release.name)).text(mark(release, current)).number(bytes(release.bytes));
        let row = row.text(release.date.map_or(String::new(), minute));
        match &release.damaged {
            Some(reason) => drop(row.text(format!("damaged: {}", one_line(reason)))),
            None => drop(row.text(counted(release.paths, "path"))),
        }
    }
    table.render(2, paint)
}

/// Returns what a list says about a release. A host of an earlier version doesn't tell staged releases from those that were rolled back.
fn mark(release: &ReleaseInfo, current: Option<u64>) -> &'static str {
    match release {
        ReleaseInfo { state: Some(state), .. } => state.word(),
        ReleaseInfo { current: true, .. } => ReleaseState::Current.word(),
        ReleaseInfo { serial: Some(serial), .. } if Some(*serial) > current => "not current",
        _ => "",
    }
}
