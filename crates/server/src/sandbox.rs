//! The sandbox restricts what a process may do once it has opened its resources.
//!
//! There are three independent layers: we drop privileges (`privileges`), Landlock denies access to other
//! files and addresses (`filesystem`), and seccomp denies system calls (`system_calls`). Even if an attacker
//! gained control of the code that parses network input, they should not be able to do much more than that
//! code does anyway.
//!
//! Since threads inherit the restrictions of their parent, the process has to enter the sandbox before it
//! starts any. Each thread then enters a narrower sandbox for its role. Note that the kernel has no means to
//! lift these restrictions again.
//!
//! There is currently no sandbox on systems other than Linux, as [`SandboxReport`] will tell.

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

/// Lists what a sandbox should allow, and which layers are required.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// Requirements for the layers.
    pub sandbox: SandboxPolicy,
    /// User and group to switch to.
    pub account: Option<Account>,
    /// Files to be read, e.g. archives. They can be replaced by other files in the same directory.
    pub read: Vec<PathBuf>,
    /// Symlinks of release directories. These directories can be listed.
    pub list: Vec<PathBuf>,
    /// Directories to be read recursively.
    pub read_below: Vec<PathBuf>,
    /// Folders to be compiled and followed. A process with such a folder does not serve any clients,
    /// therefore it may make the system calls of the compiler, but none of the workers'.
    pub compile: Vec<PathBuf>,
    /// Folders to write certificates into. A process with such a folder does not serve any clients either: it may open
    /// connections to any address, and read the settings of the system's resolver.
    pub issue: Vec<PathBuf>,
    /// Directories to be written, such as the release directory of a process that follows a store. It serves no clients
    /// itself, and may connect and resolve names like one that issues certificates.
    pub write: Vec<PathBuf>,
    /// Directories to be written by a process that receives releases, with directories below. It may neither connect nor resolve names.
    pub receive: Vec<PathBuf>,
    /// Files to be appended to and created again, such as logs.
    pub append: Vec<PathBuf>,
    /// Files that the calling thread removes at exit. These are Unix sockets, and a profiler's temporary file.
    pub remove: Vec<PathBuf>,
    /// Set this if workers create an `io_uring(7)` before they enter their own sandbox.
    pub rings: bool,
    /// Set this if a profiler takes samples in every thread.
    pub is_profiled: bool,
    /// The action when a forbidden system call is made.
    pub deny_action: DenyAction,
}

/// Requirements for the layers of the sandbox. Privileges are always dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SandboxPolicy {
    /// Restricted files and addresses.
    pub filesystem: Requirement,
    /// Restricted system calls.
    pub system_calls: Requirement,
}

/// Requirement for a layer of the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
// Exhaustive: a process that passes its policy on must not guess.
pub enum Requirement {
    /// Disable it. You may want this for a debugger, a profiler or a sanitizer.
    Off,
    /// Use it if the kernel supports it.
    IfAvailable,
    /// Do not start the server without it.
    Required,
}

impl SandboxPolicy {
    /// Disables the sandbox.
    pub const OFF: SandboxPolicy =
        SandboxPolicy { filesystem: Requirement::Off, system_calls: Requirement::Off };
    /// Uses all layers that the kernel supports.
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

/// The action when a forbidden system call is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DenyAction {
    /// Fail with `EPERM` and let the process continue. Trying again does not help an attacker, and if a
    /// library makes a harmless call on a newer system, the service stays up.
    Fail,
    /// Kill the process. This way, tests notice if a call is missing from the tables.
    Kill,
}

impl Default for DenyAction {
    fn default() -> DenyAction {
        // Tests may set this variable if they make forbidden calls in a debug build.
        let is_killed = cfg!(debug_assertions) && std::env::var_os("CANNERY_DENIED_CALLS_FAIL").is_none();
        if is_killed { DenyAction::Kill } else { DenyAction::Fail }
    }
}

/// The sandbox of a process. Its threads can enter narrower ones from here.
#[derive(Debug, Clone, Default)]
pub struct Sandbox {
    filters: Option<Arc<Filters>>,
}

impl Sandbox {
    /// Puts the calling process into the sandbox. Returns the layers that are in force.
    ///
    /// This must be called before starting a second thread, but after opening everything that is not part of
    /// the plan.
    ///
    /// # Errors
    ///
    /// Returns an error if a required layer is missing, if the user cannot be changed, or if there are
    /// several threads. Since some layers might already be in force in that case, the process should exit.
    pub fn enter(plan: &Plan) -> Result<(Sandbox, SandboxReport), SandboxError> {
        let mut report = SandboxReport::default();
        if plan.sandbox == SandboxPolicy::OFF && plan.account.is_none() {
            return Ok((Sandbox::default(), report));
        }

        let threads = privileges::thread_count();
        if threads > 1 {
            return Err(SandboxError::Threads { threads });
        }

        // Drop privileges first. This needs some privileges, and also system calls that will be forbidden.
        report.privileges =
            privileges::drop_privileges(plan.account.as_ref(), plan.sandbox != SandboxPolicy::OFF)?;
        let unreachable = &mut report.unreachable;
        report.filesystem = enter_layer(plan.sandbox.filesystem, || filesystem::restrict(plan, unreachable))?;
        // This must come before seccomp because the check makes system calls.
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
    /// Returns an error if the kernel rejects the filter.
    pub fn enter_thread(&self, role: ThreadRole) -> Result<(), SandboxError> {
        match &self.filters {
            Some(filters) => filters.enter_thread(role).map_err(SandboxError::Thread),
            None => Ok(()),
        }
    }
}

/// Enters a layer, unless it is disabled. Only fails if the layer is required.
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
