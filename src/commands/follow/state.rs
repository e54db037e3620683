//! The state of `cannery follow`, as a file in the release directory: how far behind it is, and why.

use std::io;
use std::path::Path;

use cannery_server::short_file::{self, SETTINGS_BYTES_MAX};
use cannery_store::{PullReport, StoredRelease, StoredSite};
use serde::{Deserialize, Serialize};

use crate::commands::keys::now;
use crate::commands::on_activate::Activation;
use crate::commands::release_dir::replace;

/// The file in the release directory.
const FILE: &str = ".follow.json";

/// Facts for monitoring. Times are seconds since 1970.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct State {
    /// The store.
    store: String,
    /// The serial of the release that is current here.
    pub(super) serial: Option<u64>,
    /// Its digest.
    digest: Option<String>,
    /// The serial of the release that the store names.
    pub(super) store_serial: Option<u64>,
    /// The serial of the release that the store has staged, once it is here.
    staged_serial: Option<u64>,
    /// Since when the store names another release than the one that is current here. `None` if it is the same.
    pub(super) behind_since: Option<u64>,
    /// When the store was reached last.
    reached: Option<u64>,
    /// Why the last look failed, and since when looks fail.
    error: Option<String>,
    pub(super) failing_since: Option<u64>,
    /// Whether the release of the store was refused for good.
    refused: bool,
    /// Total numbers of failed looks, of pulled releases and of bytes that were transferred for them.
    failures_total: u64,
    pulled_total: u64,
    transferred_bytes_total: u64,
    /// Why the command of `--on-activate` failed after the last switch, and how often it has failed.
    on_activate_error: Option<String>,
    on_activate_failures_total: u64,
    /// A switch after which the command of `--on-activate` hasn't been started yet. It is written before the switch, so that a crash in
    /// between doesn't skip the command.
    pub(super) pending: Option<Activation>,
}

impl State {
    /// Reads the state of the last process, if it followed the same store.
    pub(super) fn read(directory: &Path, store: &str) -> State {
        let text = short_file::read(&directory.join(FILE), SETTINGS_BYTES_MAX).unwrap_or_default();
        let state: State = serde_json::from_slice(&text).unwrap_or_default();
        if state.store == store { state } else { State { store: store.to_owned(), ..State::default() } }
    }

    pub(super) fn write(&self, directory: &Path) -> io::Result<()> {
        replace(&directory.join(FILE), &serde_json::to_vec_pretty(self)?)
    }

    /// The store has these releases.
    pub(super) fn announce(&mut self, site: &StoredSite) {
        let release = &site.current;
        self.store_serial = Some(release.serial);
        self.staged_serial = None;
        if self.digest.as_ref() != Some(&release.digest.to_string()) && self.behind_since.is_none() {
            self.behind_since = Some(now());
        }
    }

    /// The store has answered.
    pub(super) fn reach(&mut self) {
        self.reached = Some(now());
    }

    /// This release is current here.
    pub(super) fn serve(&mut self, release: &StoredRelease) {
        self.serial = Some(release.serial);
        self.digest = Some(release.digest.to_string());
        self.behind_since = None;
    }

    /// This release is here, and isn't current.
    pub(super) fn stage(&mut self, release: &StoredRelease) {
        self.staged_serial = Some(release.serial);
    }

    pub(super) fn transferred(&mut self, transfer: &PullReport) {
        self.pulled_total += 1;
        self.transferred_bytes_total += transfer.recipe_bytes + transfer.range_bytes;
    }

    /// Records the outcome of the command of `--on-activate`.
    pub(super) fn record_hook(&mut self, error: Option<String>) {
        self.on_activate_failures_total += u64::from(error.is_some());
        self.on_activate_error = error;
    }

    /// Records the outcome of a look. Returns whether it is a failure that the last look didn't have.
    pub(super) fn record(&mut self, error: Option<String>, is_refused: bool) -> bool {
        let is_new = error.is_some() && (self.error != error);
        match &error {
            Some(_) => {
                self.failures_total += 1;
                self.failing_since.get_or_insert_with(now);
            }
            None => self.failing_since = None,
        }
        self.error = error;
        self.refused = is_refused;
        is_new
    }

    pub(super) fn is_refused(&self) -> bool {
        self.refused
    }

    /// Returns why the release of the store was refused for good.
    pub(super) fn refusal(&self) -> Option<String> {
        self.error.clone().filter(|_| self.refused)
    }
}
