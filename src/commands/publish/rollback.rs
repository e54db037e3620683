//! `cannery rollback`: makes targets serve an earlier release.

use cannery_publish::protocol::{Activate, Activated, Selector};
use serde::Serialize;

use super::connection::{Connector, client_failure};
use super::fleet::{self, Member, reason};
use crate::flags::publish::Rollback;
use crate::format::counted;
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
    let connector = Connector::new(&flags.connection).map_err(as_json)?;
    let members = fleet::connect(&connector, fleet::parse(&flags.targets).map_err(as_json)?);
    let activate = Activate { release: Selector::Name(flags.to.clone()), keep: None };
    let members = fleet::then(members, |_, mut connection| {
        let activated = connection.client.activate(&activate).map_err(|error| client_failure(&error))?;
        connection.close();
        Ok(activated)
    });

    if flags.json {
        output::print_json(&members.iter().map(json).collect::<Vec<_>>())?;
    } else {
        for Member { target, outcome } in &members {
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

/// Names the targets that failed.
pub(super) fn failures<T>(members: &[Member<T>]) -> Result<(), Failure> {
    let failed = members.iter().filter_map(|member| Some((&member.target, member.outcome.as_ref().err()?)));
    let failed: Vec<_> = failed.collect();
    match failed.as_slice() {
        [] => Ok(()),
        [(target, failure)] => Err(Failure::failed(format!("{target}: {}", reason(failure)))),
        _ => {
            for (target, failure) in &failed {
                output::note(format_args!("{target}: failed: {}", one_line(&reason(failure))));
            }
            Err(Failure::failed(format!("{} failed", counted(failed.len() as u64, "target"))))
        }
    }
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
