//! The same on several targets at a time.

use std::fmt::Display;
use std::thread;

use super::connection::{Connection, Connector};
use super::target::Target;
use crate::flags::publish::Push;
use crate::format::counted;
use crate::output::{self, Exit, Failure, Paint, one_line};

/// A target, or a store, with the outcome of the last step.
pub(super) struct Member<T, K = Target> {
    pub(super) target: K,
    pub(super) outcome: Result<T, Failure>,
    /// Whether the failure was printed.
    pub(super) is_reported: bool,
}

/// Parses targets. None of them may be named twice, as both would push into the same directory.
pub(super) fn parse(words: &[String]) -> Result<Vec<Target>, Failure> {
    let mut targets = Vec::with_capacity(words.len());
    for word in words {
        let target = Target::parse(word)?;
        if targets.contains(&target) {
            return Err(Failure::usage(format!("the target {target} is named twice")));
        }
        targets.push(target);
    }
    Ok(targets)
}

/// Connects to all targets at a time.
pub(super) fn connect(connector: &Connector, targets: Vec<Target>) -> Vec<Member<Connection>> {
    start(targets, |target| connector.connect(target))
}

/// Begins with all targets at a time.
pub(super) fn start<T: Send, K: Send>(
    targets: Vec<K>,
    step: impl Fn(&K) -> Result<T, Failure> + Sync,
) -> Vec<Member<T, K>> {
    each(targets, |target| {
        let outcome = step(&target);
        Member { target, outcome, is_reported: false }
    })
}

/// Continues with the connected targets, all at a time. The others keep their failures.
pub(super) fn then<T: Send, U: Send, K: Send>(
    members: Vec<Member<T, K>>,
    step: impl Fn(&K, T) -> Result<U, Failure> + Sync,
) -> Vec<Member<U, K>> {
    each(members, |Member { target, outcome, is_reported }| {
        let outcome = outcome.and_then(|state| step(&target, state));
        Member { target, outcome, is_reported }
    })
}

/// Calls `step` for each item, each on its own thread. The results are in the order of the items.
fn each<T: Send, U: Send>(items: Vec<T>, step: impl Fn(T) -> U + Sync) -> Vec<U> {
    if items.len() == 1 {
        return items.into_iter().map(step).collect();
    }
    let step = &step;
    thread::scope(|scope| {
        let threads: Vec<_> = items.into_iter().map(|item| scope.spawn(move || step(item))).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}

/// Returns how many targets must have the release before any of them switches.
pub(super) fn quorum(flags: &Push, count: usize) -> Result<usize, Failure> {
    match flags.quorum {
        Some(quorum) if quorum == 0 || quorum > count => Err(Failure::usage(format!(
            "`--quorum {quorum}` is not between 1 and the number of targets, {count}"
        ))),
        quorum => Ok(quorum.unwrap_or(count)),
    }
}

/// Checks that enough targets are left. Otherwise, names those that failed, and says what the others have.
pub(super) fn check_quorum<T, K: Display>(
    members: &mut [Member<T, K>],
    quorum: usize,
    step: &str,
    flags: &Push,
) -> Result<(), Failure> {
    let failed = members.iter().filter(|member| member.outcome.is_err()).count();
    let is_enough = members.len() - failed >= quorum;
    if failed == 0 {
        return Ok(());
    }
    // A single target doesn't need its name on a line of its own.
    if let [Member { target, outcome: Err(failure), .. }] = &*members {
        return Err(failure.about(target));
    }
    // The same failure is found after each step.
    for Member { target, outcome, is_reported } in members.iter_mut().filter(|member| !member.is_reported) {
        let Err(failure) = outcome else { continue };
        let paint = Paint::for_errors();
        output::note(format_args!("{target}: {} {}", paint.error("failed:"), one_line(&reason(failure))));
        *is_reported = true;
    }
    if is_enough {
        return Ok(());
    }

    let good: Vec<_> = members
        .iter()
        .filter(|member| member.outcome.is_ok())
        .map(|member| member.target.to_string())
        .collect();
    let good = if good.is_empty() { "none".to_owned() } else { good.join(", ") };
    let consequence = match step {
        "connected" => "nothing was transferred",
        "staged" if !flags.stage_only => "no target was switched to the release",
        _ => "the targets named above were left as they were",
    };
    let mut message = format!(
        "{failed} of {} failed, so {consequence}; {step}: {good}",
        counted(members.len() as u64, "target")
    );
    // Otherwise, the lines above have told it.
    if flags.json {
        let failed =
            members.iter().filter_map(|member| Some((&member.target, member.outcome.as_ref().err()?)));
        let failed: Vec<_> =
            failed.map(|(target, failure)| format!("{target}: {}", reason(failure))).collect();
        message.push_str(&format!("; failed: {}", failed.join(", ")));
    }
    Err(Failure::failed(message).hint(
        "once the cause is removed, run the same command again: it continues with what the targets have",
    ))
}

/// Names the targets that failed.
pub(super) fn failures<T, K: Display>(members: &[Member<T, K>]) -> Result<(), Failure> {
    let failed = members.iter().filter_map(|member| Some((&member.target, member.outcome.as_ref().err()?)));
    let failed: Vec<_> = failed.collect();
    match failed.as_slice() {
        [] => Ok(()),
        // The fault is one of this machine.
        [(target, failure)] if members.len() == 1 && failure.exit() == Exit::Output => {
            Err(failure.about(target))
        }
        [(target, failure)] => Err(failure.about(target).with_exit(Exit::Failed)),
        _ => {
            for (target, failure) in &failed {
                output::note(format_args!("{target}: failed: {}", one_line(&reason(failure))));
            }
            Err(Failure::failed(format!("{} failed", counted(failed.len() as u64, "target"))))
        }
    }
}

/// Returns the message and hint of a failure on one line, for lists of targets.
pub(in crate::commands) fn reason(failure: &Failure) -> String {
    match failure {
        Failure::Message { message, hint: Some(hint), .. } => format!("{message} ({hint})"),
        Failure::Message { message, .. } => message.clone(),
        Failure::Clap(error) => error.to_string(),
        Failure::Reported(_) => "the reason has been printed".to_owned(),
        Failure::PipeClosed => "standard output was closed".to_owned(),
    }
}
