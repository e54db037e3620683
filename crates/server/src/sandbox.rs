//! Sandbox: restricts the process after it has opened its resources.
//!
//! Three independent layers: the process drops privileges (`privileges`), Landlock denies access to other files and addresses
//! (`filesystem`), and seccomp denies system calls (`system_calls`). If an attacker controls the code that parses network
//! input, they can do little more than that code itself.
//!
//! The process enters the sandbox before it starts threads, because threads inherit the restrictions of their parent. Each
//! thread then enters a narrower sandbox for its role. The kernel has no way to lift these restrictions.
//!
//! Systems other than Linux have no sandbox, and [`SandboxReport`] says so.

mod account;
mod error;
#[cfg(all(target_os = "linux", not(feature = "portable")))]
mod linux;
#[cfg(any(feature = "portable", not(target_os = "linux")))]
mod portable;
mod reach;
mod report;
mod thread_role;

use std::path::PathBuf;
use std::sync::Arc;

pub use account::Account;
pub use error::SandboxError;
pub use report::{Layer, SandboxReport};
pub use thread_role::ThreadRole;

#[cfg(all(target_os = "linux", not(feature = "portable")))]
use linux::{Filters, filesystem, privileges};
#[cfg(any(feature = "portable", not(target_os = "linux")))]
use portable::{self as filesystem, self as privileges, Filters};

/// The access that a sandbox allows, and the layers that it requires.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// The requirement for each layer.
    pub sandbox: SandboxPolicy,
    /// The user and group to change to.
    pub account: Option<Account>,
    /// Files that are read, such as archives. They may be replaced by other files of their directories.
    pub read: Vec<PathBuf>,
    /// Symbolic links of release directories. The directories are listed.
    pub list: Vec<PathBuf>,
    /// Directories that are read recursively.
    pub read_below: Vec<PathBuf>,
    /// Folders that the process compiles and follows. A process that has one serves no clients: it may make the system calls
    /// of the compiler, and none of the workers.
    pub compile: Vec<PathBuf>,
    /// Files that are appended to and created again, such as logs.
    pub append: Vec<PathBuf>,
    /// Files that the entering thread removes at exit: Unix sockets, and the temporary file of a profiler.
    pub remove: Vec<PathBuf>,
    /// `true` if workers create an `io_uring(7)` before they enter their own sandbox.
    pub rings: bool,
    /// `true` if a profiler takes samples in every thread.
    pub is_profiled: bool,
    /// The action at a forbidden system call.
    pub deny_action: DenyAction,
}

/// The requirement for each layer of the sandbox. Privileges are dropped in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SandboxPolicy {
    /// Restriction of files and addresses.
    pub filesystem: Requirement,
    /// Restriction of system calls.
    pub system_calls: Requirement,
}

/// The requirement for a layer of the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requirement {
    /// It is disabled, because it would hinder a debugger, profiler or sanitizer.
    Off,
    /// It is used if the kernel has it.
    IfAvailable,
    /// The server doesn't start without it.
    Required,
}

impl SandboxPolicy {
    /// Disables the sandbox.
    pub const OFF: SandboxPolicy =
        SandboxPolicy { filesystem: Requirement::Off, system_calls: Requirement::Off };
    /// Uses the layers that the kernel has.
    pub const AUTO: SandboxPolicy =
        SandboxPolicy { filesystem: Requirement::IfAvailable, system_calls: Requirement::IfAvailable };
    /// Requires all layers.
    pub const REQUIRED: SandboxPolicy =
        SandboxPolicy { filesystem: Requirement::Required, system_calls: Requirement::Required };
}

impl Default for SandboxPolicy {
    fn default() -> SandboxPolicy {
        SandboxPolicy::AUTO
    }
}

/// The action at a forbidden system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DenyAction {
    /// Fails the call with `EPERM`, and the process continues. Attackers gain nothing from further attempts, and a harmless
    /// call by a library on a newer system doesn't end the service.
    Fail,
    /// Kills the process, so that tests detect a call that is missing in the tables.
    Kill,
}

impl Default for DenyAction {
    fn default() -> DenyAction {
        // A test that makes forbidden calls in a debug build sets this variable.
        let is_killed = cfg!(debug_assertions) && std::env::var_os("CANNERY_DENIED_CALLS_FAIL").is_none();
        if is_killed { DenyAction::Kill } else { DenyAction::Fail }
    }
}

/// The sandbox of a process, from which its threads enter theirs.
#[derive(Debug, Clone, Default)]
pub struct Sandbox {
    filters: Option<Arc<Filters>>,
}

impl Sandbox {
    /// Puts the calling process into the sandbox, and returns which layers are in force. Call it before a second thread starts
    /// and after everything is open that the plan doesn't name.
    ///
    /// # Errors
    /// A required layer is missing, the user cannot be changed, or there are several threads. Some layers may then be in force,
    /// and the process should exit.
    pub fn enter(plan: &Plan) -> Result<(Sandbox, SandboxReport), SandboxError> {
        let mut report = SandboxReport::default();
        if plan.sandbox == SandboxPolicy::OFF && plan.account.is_none() {
            return Ok((Sandbox::default(), report));
        }

        let threads = privileges::thread_count();
        if threads > 1 {
            return Err(SandboxError::Threads { threads });
        }

        // Privileges first: dropping them needs privileges and calls that are forbidden later.
        report.privileges =
            privileges::drop_privileges(plan.account.as_ref(), plan.sandbox != SandboxPolicy::OFF)?;
        let unreachable = &mut report.unreachable;
        report.filesystem = enter_layer(plan.sandbox.filesystem, || filesystem::restrict(plan, unreachable))?;
        // Before seccomp, because the check needs system calls.
        report.unreachable.extend(reach::check(plan));

        let mut filters = None;
        report.system_calls = enter_layer(plan.sandbox.system_calls, || {
            let compiled = Filters::compile(plan)?;
            let layer = compiled.enter_process()?;
            filters = Some(Arc::new(compiled));
            Ok(layer)
        })?;
        Ok((Sandbox { filters }, report))
    }

    /// Puts the calling thread into the narrower sandbox of its role.
    ///
    /// # Errors
    /// The kernel rejects the filter.
    pub fn enter_thread(&self, role: ThreadRole) -> Result<(), SandboxError> {
        match &self.filters {
            Some(filters) => filters.enter_thread(role).map_err(SandboxError::Thread),
            None => Ok(()),
        }
    }
}

/// Enters a layer unless it is disabled. Fails only if the layer is required.
fn enter_layer(
    requirement: Requirement,
    enter: impl FnOnce() -> Result<Layer, SandboxError>,
) -> Result<Layer, SandboxError> {
    match (requirement, (requirement != Requirement::Off).then(enter)) {
        (_, None) => Ok(Layer::Off),
        (_, Some(Ok(layer))) => Ok(layer),
        (Requirement::Required, Some(Err(error))) => Err(error),
        (_, Some(Err(error))) => Ok(Layer::Missing(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_layer_is_reported_or_an_error() {
        let lacking = || Err(SandboxError::Filesystem("it was built without".into()));
        assert_eq!(enter_layer(Requirement::Off, lacking).unwrap(), Layer::Off);
        let Layer::Missing(why) = enter_layer(Requirement::IfAvailable, lacking).unwrap() else {
            panic!("the layer is missing");
        };
        assert!(why.contains("it was built without") && why.contains("landlock"), "{why}");
        assert!(enter_layer(Requirement::Required, lacking).is_err());
    }

    #[test]
    #[cfg_attr(any(feature = "portable", not(target_os = "linux")), ignore = "the sandbox needs Linux")]
    fn process_with_threads_cannot_enter() {
        // The test harness has several threads.
        let (sender, hold) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || hold.recv());
        assert!(matches!(Sandbox::enter(&Plan::default()), Err(SandboxError::Threads { threads: 2.. })));
        drop(sender);
        assert!(thread.join().unwrap().is_err());
    }
}
