//! What stands for the cage where there is no Linux: nothing holds the process, and that is said.
//!
//! What was ordered and cannot be done ends the start: nobody shall believe in a cage that is not there.

use std::convert::Infallible;
use std::io;

use rustix::process::{getgid, getuid};

use super::{Account, CageError, Hold, Plan, Role};

const ONLY_LINUX: &str = "this program was built without what only Linux has";

/// As if the calling thread were alone: where there is no cage, no other one stays outside.
pub(super) fn thread_count() -> usize {
    1
}

/// Gives up no right, and becomes nobody else.
pub(super) fn give_up(account: Option<&Account>, _private: bool) -> Result<Hold, CageError> {
    if account.is_some() {
        let source = io::Error::new(io::ErrorKind::Unsupported, ONLY_LINUX);
        return Err(CageError::Privileges { what: "become another user", source });
    }
    let (user, group) = (getuid(), getgid());
    Ok(if user.is_root() {
        Hold::Weak("the server runs as root: start it as another user".into())
    } else {
        Hold::There(format!("of user {} and group {}", user.as_raw(), group.as_raw()))
    })
}

/// Puts no file out of reach.
pub(super) fn restrict(_plan: &Plan, _warnings: &mut Vec<String>) -> Result<Hold, CageError> {
    Err(CageError::Filesystem(ONLY_LINUX.into()))
}

/// The filters of system calls. There are none.
#[derive(Debug)]
pub(super) struct Filters(Infallible);

impl Filters {
    pub(super) fn compile(_plan: &Plan) -> Result<Filters, CageError> {
        Err(CageError::SystemCalls(ONLY_LINUX.into()))
    }

    pub(super) fn enter_process(&self) -> Result<Hold, CageError> {
        match self.0 {}
    }

    pub(super) fn enter_thread(&self, _role: Role) -> Result<(), String> {
        match self.0 {}
    }
}
