//! Opens the user's browser.

use std::process::{Command, Stdio};

use crate::output;

/// Program for opening URLs.
const OPENER: &str = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };

/// Opens a URL. When this is not possible, prints a note.
pub(super) fn open(url: &str) {
    let spawned = Command::new(OPENER)
        .arg(url)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    match spawned {
        Ok(mut child) => {
            // Some openers run for as long as the browser, so they need to be waited for on another thread in order not to
            // become zombies.
            let wait = move || drop(child.wait());
            let _ = std::thread::Builder::new().name("browser".into()).spawn(wait);
        }
        Err(error) => output::note(format_args!("cannot run {OPENER} to open the browser: {error}")),
    }
}
