//! States of renewals, which `cannery certificates` writes next to its bundles: `NAME.state.json` for `NAME.pem`.

use std::path::Path;

use serde::Deserialize;

use super::super::state_files::StateFiles;
use crate::observe::{Renewal, RenewalError};

/// End of a state's file name, instead of that of the bundle.
const EXTENSION: &str = "state.json";

/// Texts of a state are shortened to this many characters.
const TEXT_CHARACTERS_MAX: usize = 1000;

/// States of renewals by their files. They are read again when these change.
#[derive(Default)]
pub(super) struct Renewals(StateFiles<Renewal>);

/// The members of a state that we need.
#[derive(Deserialize)]
struct State {
    issued_at: Option<i64>,
    last_error: Option<LastError>,
}

#[derive(Deserialize)]
struct LastError {
    at: i64,
    kind: String,
    message: String,
}

impl Renewals {
    /// Returns the state for a certificate in this file, if there is one.
    pub(super) fn of(&mut self, certificate: &Path) -> Option<Renewal> {
        self.0.read(certificate.with_extension(EXTENSION), parse)
    }
}

/// Parses a state. Returns `None` for other files.
fn parse(state: &[u8]) -> Option<Renewal> {
    let state: State = serde_json::from_slice(state).ok()?;
    let shortened = |text: String| text.chars().take(TEXT_CHARACTERS_MAX).collect();
    Some(Renewal {
        succeeded_at: state.issued_at,
        error: state.last_error.map(|error| RenewalError {
            at: error.at,
            kind: shortened(error.kind),
            message: shortened(error.message),
        }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_is_read_again_when_it_changes() {
        let folder = tempfile::tempdir().unwrap();
        let certificate = folder.path().join("www.example.com.pem");
        let state = folder.path().join("www.example.com.state.json");
        let mut renewals = Renewals::default();
        assert_eq!(renewals.of(&certificate), None);

        std::fs::write(&state, r#"{"issued_at":7,"last_error":null,"names":"a"}"#).unwrap();
        assert_eq!(renewals.of(&certificate), Some(Renewal { succeeded_at: Some(7), error: None }));
        std::fs::write(&state, r#"{"last_error":{"at":9,"kind":"check","message":"no","hint":null}}"#)
            .unwrap();
        let renewal = renewals.of(&certificate).unwrap();
        assert_eq!(renewal.succeeded_at, None);
        assert_eq!(renewal.error.unwrap().message, "no");

        for other in ["", "{", "[1]", r#"{"last_error":"no"}"#] {
            std::fs::remove_file(&state).unwrap();
            std::fs::write(&state, other).unwrap();
            assert_eq!(renewals.of(&certificate), None, "{other}");
        }
        std::fs::remove_file(&state).unwrap();
        std::fs::create_dir(&state).unwrap();
        assert_eq!(renewals.of(&certificate), None);
    }
}
