//! Rights that a process has by who it is: another user, capabilities, core dumps.
//!
//! Speaks of the calling thread alone, as the kernel does: threads that it starts inherit what is done here.
//! Never raises a right.

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

/// What anybody keeps who has it: to be told before somebody writes into an archive that belongs to another
/// user. Worth nothing without a file that can be opened.
const KEPT: CapabilitySet = CapabilitySet::LEASE;

/// What root needs besides who stays root: to open a release or a log that belongs to somebody else.
const KEPT_BY_ROOT: CapabilitySet = KEPT.union(CapabilitySet::DAC_OVERRIDE);

/// The number of a capability is below this: there are two words of 32 bits of them.
const CAPABILITIES_MAX: u32 = 64;

/// The threads of this process; 1 where nobody can tell.
pub(in crate::sandbox) fn thread_count() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count)
}

/// Becomes `account`, if one is given, and gives up what else there is. `private` closes the process to
/// debuggers of the same user, too, and leaves no core dumps.
pub(in crate::sandbox) fn give_up(account: Option<&Account>, private: bool) -> Result<Layer, SandboxError> {
    step("rule out new privileges", set_no_new_privs(true))?;
    if private {
        limit_dumps()?;
    }
    // Fails without CAP_SETPCAP, where there is nothing to give up that `no_new_privs` does not withhold.
    let _ = empty_bounding_set();
    step("clear the ambient capabilities", clear_ambient_capability_set().or_else(is_unknown))?;
    if let Some(account) = account {
        let at_parents_death = step("ask for the parent's death", parent_process_death_signal())?;
        step("keep a capability", set_keep_capabilities(true))?;
        become_account(account)?;
        step("keep no more of them", set_keep_capabilities(false))?;
        // The kernel forgets it when a process changes its user.
        step("follow the parent", set_parent_process_death_signal(at_parents_death))?;
    }
    let kept = keep_only(if getuid().is_root() { KEPT_BY_ROOT } else { KEPT })?;
    if account.is_some() && !getuid().is_root() && set_thread_uid(Uid::ROOT).is_ok() {
        return Err(SandboxError::NotGivenUp);
    }
    // The kernel opens a process again when it changes its user.
    if private {
        step("rule out debuggers", set_dumpable_behavior(DumpableBehavior::NotDumpable))?;
    }
    let ids = format!("of user {} and group {}", getuid().as_raw(), getgid().as_raw());
    Ok(if getuid().is_root() && !kept.is_empty() {
        Layer::Weak(
            "the server runs as root. It has dropped all privileges of root but two: to open any file, and to \
             lease archives. Add `--user NAME` to run as another user once its addresses are bound"
                .into(),
        )
    } else if kept.is_empty() {
        Layer::There(format!("{ids}, without capabilities"))
    } else {
        Layer::There(format!("{ids}, without capabilities but to take a lease"))
    })
}

/// Core dumps hold what connections send; a debugger can do all that the process can.
fn limit_dumps() -> Result<(), SandboxError> {
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    step("rule out core dumps", setrlimit(Resource::Core, none))
}

/// Takes all capabilities out of those that could ever be had.
fn empty_bounding_set() -> rustix::io::Result<()> {
    for number in 0..CAPABILITIES_MAX {
        let capability = CapabilitySet::from_bits_retain(1 << number);
        match capability_is_in_bounding_set(capability) {
            Ok(true) => remove_capability_from_bounding_set(capability)?,
            Ok(false) => {}
            // This kernel knows no more of them.
            Err(_) => break,
        }
    }
    Ok(())
}

/// Groups first, for only root may change them.
fn become_account(account: &Account) -> Result<(), SandboxError> {
    let (user, group) = (Uid::from_raw(account.user), Gid::from_raw(account.group));
    let already = getuid() == user && getgid() == group;
    match set_thread_groups(&[]) {
        // Who is that account already, and not root, keeps the groups that he was started with.
        Err(_) if already && !getuid().is_root() => return Ok(()),
        done => step("leave the other groups", done)?,
    }
    step("take on the group", set_thread_res_gid(group, group, group))?;
    step("take on the user", set_thread_res_uid(user, user, user))
}

/// Gives up all capabilities but these, and tells which are left.
fn keep_only(kept: CapabilitySet) -> Result<CapabilitySet, SandboxError> {
    let had = step("look at the capabilities", rustix::thread::capabilities(None))?;
    let left = had.permitted & kept;
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: left, permitted: left, inheritable: none };
    step("give up capabilities", set_capabilities(None, sets))?;
    Ok(left)
}

/// Old kernels know no ambient capabilities.
fn is_unknown(error: rustix::io::Errno) -> rustix::io::Result<()> {
    if error == rustix::io::Errno::INVAL { Ok(()) } else { Err(error) }
}

fn step<T>(what: &'static str, done: rustix::io::Result<T>) -> Result<T, SandboxError> {
    done.map_err(|errno| SandboxError::Privileges { what, source: io::Error::from(errno) })
}
