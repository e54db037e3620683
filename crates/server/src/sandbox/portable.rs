//! Systems other than Linux. There currently is no sandbox, so we report that, and return an error if
//! a layer is required.

use std::convert::Infallible;
use std::io;

use rustix::process::{getgid, getuid};

use super::{Account, Layer, Plan, SandboxError, ThreadRole};

const ONLY_LINUX: &str = "this program was built without the parts that need Linux";

/// Returns 1. Without a sandbox, we do not care about other threads.
pub(super) fn thread_count() -> usize {
    1
}

/// Does not drop any privileges.
///
/// # Errors
///
/// Returns an error when asked to change the user.
pub(super) fn drop_privileges(account: Option<&Account>, _private: bool) -> Result<Layer, SandboxError> {
    if account.is_some() {
        let source = io::Error::new(io::ErrorKind::Unsupported, ONLY_LINUX);
        return Err(SandboxError::User { what: "change the user", source });
    }
    let user = getuid();
    let group = getgid();
    Ok(if user.is_root() {
        Layer::Weak("the server runs as root: start it as another user".into())
    } else {
        Layer::Active(format!("of user {} and group {}", user.as_raw(), group.as_raw()))
    })
}

/// Always fails because we cannot restrict access to files.
pub(super) fn restrict(_plan: &Plan, _warnings: &mut Vec<String>) -> Result<Layer, SandboxError> {
    Err(SandboxError::Filesystem(ONLY_LINUX.into()))
}

/// System call filters. They do not exist here.
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
