//! The same on several targets at a time.

use std::thread;

use super::connection::{Connection, Connector};
use super::target::Target;
use crate::output::Failure;

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
