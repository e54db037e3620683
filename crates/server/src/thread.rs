//! Threads beside the workers: each enters its cage before it does anything else.

use std::sync::mpsc::channel;
use std::thread::{Builder, JoinHandle};

use crate::error::StartError;
use crate::sandbox::{Sandbox, ThreadRole};

/// Starts a thread with this role and life, and waits until it is in its cage.
pub(crate) fn start(
    name: &str,
    sandbox: &Sandbox,
    role: ThreadRole,
    life: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, StartError> {
    let (sender, word) = channel();
    let sandbox = sandbox.clone();
    let thread = Builder::new().name(name.into()).spawn(move || {
        let entered = sandbox.enter_thread(role);
        let goes_on = entered.is_ok();
        // Whoever started the thread waits for this word.
        let _ = sender.send(entered);
        if goes_on {
            life();
        }
    });
    let thread = thread.map_err(StartError::Thread)?;
    word.recv().unwrap_or(Ok(()))?;
    Ok(thread)
}
