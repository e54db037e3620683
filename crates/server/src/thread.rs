//! Starts auxiliary threads, which first enter their sandbox.

use std::sync::mpsc::channel;
use std::thread::{Builder, JoinHandle};

use crate::error::StartError;
use crate::sandbox::{Sandbox, ThreadRole};

/// Starts a thread and waits until it has entered the sandbox for its role.
///
/// # Errors
/// Returns an error if the thread cannot be started or cannot enter its sandbox.
pub(crate) fn start(
    name: &str,
    sandbox: &Sandbox,
    role: ThreadRole,
    main: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, StartError> {
    let (sender, entered) = channel();
    let sandbox = sandbox.clone();
    let thread = Builder::new().name(name.into()).spawn(move || {
        let result = sandbox.enter_thread(role);
        let has_entered = result.is_ok();
        // The starting thread is waiting for this.
        let _ = sender.send(result);
        if has_entered {
            main();
        }
    });
    let thread = thread.map_err(StartError::Thread)?;
    entered.recv().unwrap_or(Ok(()))?;
    Ok(thread)
}
