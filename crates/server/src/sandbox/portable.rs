//! What stands for the cage where there is no Linux: nothing holds the process, and that is said.
//!
//! What was ordered and cannot be done ends the start: nobody shall believe in a cage that is not there.

use std::convert::Infallible;
use std::io;

use rustix::process::{getgid, getuid};

use super::{Account, Layer, Plan, SandboxError, ThreadRole};

const ONLY_LINUX: &str = "this program was built without what only Linux has";

/// As if the calling thread were alone: where there is no cage, no other one stays outside.
pub(super) fn thread_count() -> usize {
    1
}

/// Gives up no right, and becomes nobody else.
pub(super) fn give_up(account: Option<&Account>, _private: bool) -> Result<Layer, SandboxError> {
    if account.is_some() {
        let source = io::Error::new(io::ErrorKind::Unsupported, ONLY_LINUX);
        return Err(SandboxError::Privileges { what: "become another user", source });
    }
    let (user, group) = (getuid(), getgid());
    Ok(if user.is_root() {
        Layer::Weak("the server runs as root: start it as another user".into())
    } else {
        Layer::There(format!("of user {} and group {}", user.as_raw(), group.as_raw()))
    })
}

/// Puts no file out of reach.
pub(super) fn restrict(_plan: &Plan, _warnings: &mut Vec<String>) -> Result<Layer, SandboxError> {
    Err(SandboxError::Filesystem(ONLY_LINUX.into()))
}

/// The filters of system calls. There are none.
#[derive(Debug)]
pub(super) struct Filters(Infallible);

impl Filters {
    pub(super) fn compile(_plan: &Plan) -> Result<Filters, SandboxError> {
        Err(SandboxError::SystemCalls(ONLY_LINUX.into()))
    }

    pub(super) fn enter_process(&self) -> Result<Layer, SandboxError> {
        match self.0 {}
    }

    pub(super) fn enter_thread(&self, _role: ThreadRole) -> Result<(), String> {
        match self.0 {}
    }
}
