//! Drops privileges (user and groups, capabilities, core dumps and debuggers).
//!
//! Like the system calls they use, functions in this module only change the calling thread. The result is
//! inherited by threads that are started afterwards. Privileges are only ever dropped, not gained.

use std::io;

use rustix::process::{
    DumpableBehavior, Resource, Rlimit, getgid, getuid, parent_process_death_signal, set_dumpable_behavior,
    set_parent_process_death_signal, setrlimit,
};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capability_is_in_bounding_set, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_keep_capabilities, set_no_new_privs,
    set_thread_groups, set_thread_res_gid, set_thread_res_uid, set_thread_uid,
};
use rustix::{fs::Gid, fs::Uid};

use crate::sandbox::{Account, Layer, SandboxError};

/// The only capability to keep. It is required for leases on archives that belong to another user, but
/// useless without a file that can be opened.
const KEPT: CapabilitySet = CapabilitySet::LEASE;

/// Capabilities to keep if the user is not changed, because root must still be able to open releases and
/// logs of other users.
const KEPT_BY_ROOT: CapabilitySet = KEPT.union(CapabilitySet::DAC_OVERRIDE);

/// Upper bound for capability numbers. The kernel stores them in two words of 32 bits.
const CAPABILITIES_MAX: u32 = 64;

/// Returns the number of threads in this process, or 1 if `/proc` is not available.
pub(in crate::sandbox) fn thread_count() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count)
}

/// Switches to `account` (if any) and drops all other privileges.
///
/// If `private` is set, this also disables core dumps, and debuggers running as the same user.
///
/// # Errors
/// Returns an error if the kernel refuses any step.
pub(in crate::sandbox) fn drop_privileges(
    account: Option<&Account>,
    private: bool,
) -> Result<Layer, SandboxError> {
    step("forbid new privileges", set_no_new_privs(true))?;
    if private {
        limit_dumps()?;
    }

    // This fails if we do not have CAP_SETPCAP, but `no_new_privs` is sufficient in that case.
    let _ = empty_bounding_set();
    step("clear the ambient capabilities", clear_ambient_capability_set().or_else(is_unknown))?;

    if let Some(account) = account {
        let at_parents_death = step("read the parent-death signal", parent_process_death_signal())?;
        step("keep capabilities over the change of user", set_keep_capabilities(true))?;
        become_account(account)?;
        step("stop keeping capabilities", set_keep_capabilities(false))?;
        // The kernel clears this signal when a process changes user, so restore it.
        step("set the parent-death signal", set_parent_process_death_signal(at_parents_death))?;
    }

    let kept = keep_only(if getuid().is_root() { KEPT_BY_ROOT } else { KEPT })?;

    if account.is_some() && !getuid().is_root() && set_thread_uid(Uid::ROOT).is_ok() {
        return Err(SandboxError::PrivilegesRegained);
    }

    // Changing the user makes a process dumpable again.
    if private {
        step("forbid debuggers", set_dumpable_behavior(DumpableBehavior::NotDumpable))?;
    }

    let ids = format!("of user {} and group {}", getuid().as_raw(), getgid().as_raw());
    Ok(if getuid().is_root() && !kept.is_empty() {
        Layer::Weak(
            "the server runs as root. It has dropped all privileges of root but two: to open any file, and to \
             lease archives. Add `--user NAME` to run as another user once its addresses are bound"
                .into(),
        )
    } else if kept.is_empty() {
        Layer::Active(format!("{ids}, without capabilities"))
    } else {
        Layer::Active(format!("{ids}, without capabilities except for leases"))
    })
}

/// Disables core dumps because they would contain data from connections.
fn limit_dumps() -> Result<(), SandboxError> {
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    step("disable core dumps", setrlimit(Resource::Core, none))
}

/// Removes all capabilities from the bounding set.
fn empty_bounding_set() -> rustix::io::Result<()> {
    for number in 0..CAPABILITIES_MAX {
        let capability = CapabilitySet::from_bits_retain(1 << number);
        match capability_is_in_bounding_set(capability) {
            Ok(true) => remove_capability_from_bounding_set(capability)?,
            Ok(false) => {}
            // The kernel has no more capabilities.
            Err(_) => break,
        }
    }
    Ok(())
}

/// Changes the groups and the user. The order matters because only root may change groups.
fn become_account(account: &Account) -> Result<(), SandboxError> {
    let user = Uid::from_raw(account.user);
    let group = Gid::from_raw(account.group);
    let already = getuid() == user && getgid() == group;
    match set_thread_groups(&[]) {
        // If the process already has the right account and is not root, it keeps its groups.
        Err(_) if already && !getuid().is_root() => return Ok(()),
        done => user_step("leave the other groups", done)?,
    }
    user_step("change the group", set_thread_res_gid(group, group, group))?;
    user_step("change the user", set_thread_res_uid(user, user, user))
}

/// Drops all capabilities except `kept`. Returns the ones that are left.
fn keep_only(kept: CapabilitySet) -> Result<CapabilitySet, SandboxError> {
    let had = step("read the capabilities", rustix::thread::capabilities(None))?;
    let left = had.permitted & kept;
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: left, permitted: left, inheritable: none };
    step("drop capabilities", set_capabilities(None, sets))?;
    Ok(left)
}

/// Ignores the error of kernels that do not have ambient capabilities.
fn is_unknown(error: rustix::io::Errno) -> rustix::io::Result<()> {
    if error == rustix::io::Errno::INVAL { Ok(()) } else { Err(error) }
}

fn user_step(what: &'static str, done: rustix::io::Result<()>) -> Result<(), SandboxError> {
    done.map_err(|errno| SandboxError::User { what, source: io::Error::from(errno) })
}

fn step<T>(what: &'static str, done: rustix::io::Result<T>) -> Result<T, SandboxError> {
    done.map_err(|errno| SandboxError::Privileges { what, source: io::Error::from(errno) })
}
