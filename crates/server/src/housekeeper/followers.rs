//! States of `cannery follow`, which pulls releases of a store into a release directory: `.follow.json` there.

use std::path::Path;

use serde::Deserialize;

use super::state_files::StateFiles;
use crate::observe::FollowStatus;

/// The file in the release directory.
const FILE: &str = ".follow.json";

/// States by their files.
#[derive(Default)]
pub(super) struct Followers(StateFiles<FollowStatus>);

/// The members of a state that we need.
#[derive(Deserialize)]
struct State {
    store_serial: Option<u64>,
    behind_since: Option<u64>,
    reached: Option<u64>,
    failing_since: Option<u64>,
    error: Option<String>,
    #[serde(default)]
    failures_total: u64,
    #[serde(default)]
    on_activate_failures_total: u64,
}

impl Followers {
    /// Returns the state of the process that pulls releases into this directory, if there was one.
    pub(super) fn of(&mut self, directory: &Path) -> Option<FollowStatus> {
        self.0.read(directory.join(FILE), parse)
    }
}

/// Parses a state. Returns `None` for other files.
fn parse(state: &[u8]) -> Option<FollowStatus> {
    let state: State = serde_json::from_slice(state).ok()?;
    Some(FollowStatus {
        store_serial: state.store_serial,
        behind_since: state.behind_since,
        reached: state.reached,
        failing_since: state.failing_since,
        error: state.error,
        failures: state.failures_total,
        hook_failures: state.on_activate_failures_total,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_read_and_other_files_are_not() {
        let state = br#"{"store": "a", "store_serial": 7, "behind_since": 5, "reached": 9, "error": "b",
            "failing_since": 6, "failures_total": 4, "on_activate_failures_total": 3}"#;
        let expected = FollowStatus {
            store_serial: Some(7),
            behind_since: Some(5),
            reached: Some(9),
            failing_since: Some(6),
            error: Some("b".to_owned()),
            failures: 4,
            hook_failures: 3,
        };
        assert_eq!(parse(state), Some(expected));
        assert_eq!(parse(b"{}"), Some(FollowStatus::default()));
        for other in [&b"7"[..], b"", br#"{"behind_since": -1}"#] {
            assert_eq!(parse(other), None);
        }
    }
}
