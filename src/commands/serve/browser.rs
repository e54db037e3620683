//! Opens the user's browser.

use std::process::{Command, Stdio};

use crate::output;

/// The program that opens a URL.
const OPENER: &str = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };

/// Opens a URL. Prints a note if that isn't possible.
pub(super) fn open(url: &str) {
    let spawned = Command::new(OPENER)
        .arg(url)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    match spawned {
        Ok(mut child) => {
            // Some openers run as long as the browser. The thread only reaps them.
            let wait = move || drop(child.wait());
            let _ = std::thread::Builder::new().name("browser".into()).spawn(wait);
        }
        Err(error) => output::note(format_args!("cannot run {OPENER} to open the browser: {error}")),
    }
}
