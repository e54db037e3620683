//! The cage: what is left to the process once it has opened all that it needs.
//!
//! Three things that do not depend on each other: the rights of its user are given up ([`privileges`]), files and
//! addresses are out of reach ([`filesystem`]), and system calls are refused ([`system_calls`]). A fault in
//! the code that faces the network is then worth no more than what that code is there to do.
//!
//! The process enters before it starts a thread, since a thread inherits what its parent is in; each thread
//! then enters a narrower cage of its own. Nothing here opens a way out again: the kernel has none.
//!
//! Where there is no Linux there is no cage, and [`SandboxReport`] says so.

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

/// What a cage shall hold.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// How much of it there must be.
    pub sandbox: SandboxPolicy,
    /// Whom to be from now on, if somebody else.
    pub account: Option<Account>,
    /// Files that are read, such as archives: others of their folders may take their places.
    pub read: Vec<PathBuf>,
    /// Files beside which others are looked for: the links of release directories.
    pub list: Vec<PathBuf>,
    /// Directories whose files are read, those below included.
    pub read_below: Vec<PathBuf>,
    /// Files that are appended to, such as logs, and made anew.
    pub append: Vec<PathBuf>,
    /// Files that are removed at the end, by the thread that enters: local sockets.
    pub remove: Vec<PathBuf>,
    /// Whether threads that serve make a ring of `io_uring(7)` before they enter.
    pub rings: bool,
    /// What becomes of a system call that is not on the list.
    pub denied: Denied,
}

/// How much of a cage there must be. Rights that a process has by its user are given up in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SandboxPolicy {
    /// Whether files and addresses are put out of reach.
    pub filesystem: Wanted,
    /// Whether system calls are refused.
    pub system_calls: Wanted,
}

/// Whether a part of the cage is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// It would be in the way: of a debugger, a profiler, a sanitizer.
    No,
    /// Where the kernel has it.
    IfPossible,
    /// Without it there is no start.
    Must,
}

impl SandboxPolicy {
    /// No cage.
    pub const OFF: SandboxPolicy = SandboxPolicy { filesystem: Wanted::No, system_calls: Wanted::No };
    /// What the kernel has.
    pub const AUTO: SandboxPolicy =
        SandboxPolicy { filesystem: Wanted::IfPossible, system_calls: Wanted::IfPossible };
    /// All of it.
    pub const REQUIRED: SandboxPolicy =
        SandboxPolicy { filesystem: Wanted::Must, system_calls: Wanted::Must };
}

impl Default for SandboxPolicy {
    fn default() -> SandboxPolicy {
        SandboxPolicy::AUTO
    }
}

/// What becomes of a system call that is not on the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denied {
    /// It fails with `EPERM`, and the server goes on. An attacker gains nothing by trying the next one, and a
    /// library's harmless question on a newer system does not end the service for everybody.
    Fails,
    /// It ends the process. Then no test passes over a call that was forgotten on the list.
    Ends,
}

impl Default for Denied {
    fn default() -> Denied {
        if cfg!(debug_assertions) { Denied::Ends } else { Denied::Fails }
    }
}

/// The cage that a process is in, for its threads to enter theirs.
#[derive(Debug, Clone, Default)]
pub struct Sandbox {
    filters: Option<Arc<Filters>>,
}

impl Sandbox {
    /// Puts the calling process into the cage, and says what holds it. To be called when everything is open
    /// that the plan does not name, and before there is a second thread.
    ///
    /// # Errors
    /// A part that must be there is not; another user cannot be taken on; or there are threads already. The
    /// process may then be in a part of the cage, and should end.
    pub fn enter(plan: &Plan) -> Result<(Sandbox, SandboxReport), SandboxError> {
        let mut held = SandboxReport::default();
        if plan.sandbox == SandboxPolicy::OFF && plan.account.is_none() {
            return Ok((Sandbox::default(), held));
        }
        let threads = privileges::thread_count();
        if threads > 1 {
            return Err(SandboxError::Threads { threads });
        }
        // Rights first: those of root are needed to give them up, and the calls for it are refused later.
        held.privileges = privileges::give_up(plan.account.as_ref(), plan.sandbox != SandboxPolicy::OFF)?;
        let unreachable = &mut held.unreachable;
        held.filesystem = wanted(plan.sandbox.filesystem, || filesystem::restrict(plan, unreachable))?;
        // Before system calls are refused, since looking takes some.
        held.unreachable.extend(reach::check(plan));
        let mut filters = None;
        held.system_calls = wanted(plan.sandbox.system_calls, || {
            let compiled = Filters::compile(plan)?;
            let hold = compiled.enter_process()?;
            filters = Some(Arc::new(compiled));
            Ok(hold)
        })?;
        Ok((Sandbox { filters }, held))
    }

    /// Puts the calling thread into the narrower cage of its role, for ever.
    ///
    /// # Errors
    /// The kernel, which took the filter of the process, does not take this one.
    pub fn enter_thread(&self, role: ThreadRole) -> Result<(), SandboxError> {
        match &self.filters {
            Some(filters) => filters.enter_thread(role).map_err(SandboxError::Thread),
            None => Ok(()),
        }
    }
}

/// Tries to put up a part of the cage; a failure counts where it must be there.
fn wanted(
    wanted: Wanted,
    put_up: impl FnOnce() -> Result<Layer, SandboxError>,
) -> Result<Layer, SandboxError> {
    match (wanted, (wanted != Wanted::No).then(put_up)) {
        (_, None) => Ok(Layer::NotWanted),
        (_, Some(Ok(hold))) => Ok(hold),
        (Wanted::Must, Some(Err(error))) => Err(error),
        (_, Some(Err(error))) => Ok(Layer::Missing(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_lacks_is_said_or_ends_the_start_as_told() {
        let lacking = || Err(SandboxError::Filesystem("it was built without".into()));
        assert_eq!(wanted(Wanted::No, lacking).unwrap(), Layer::NotWanted);
        let Layer::Missing(why) = wanted(Wanted::IfPossible, lacking).unwrap() else {
            panic!("it cannot be there");
        };
        assert!(why.contains("it was built without") && why.contains("landlock"), "{why}");
        assert!(wanted(Wanted::Must, lacking).is_err());
    }

    #[test]
    #[cfg_attr(any(feature = "portable", not(target_os = "linux")), ignore = "only Linux has the cage")]
    fn no_cage_is_entered_by_a_process_with_threads() {
        // The harness of tests is such a process.
        let (sender, hold) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || hold.recv());
        assert!(matches!(Sandbox::enter(&Plan::default()), Err(SandboxError::Threads { threads: 2.. })));
        drop(sender);
        assert!(thread.join().unwrap().is_err());
    }
}
