//! Restriction of files and addresses by Landlock (`landlock(7)`).
//!
//! Allowed are reads in the directories of archives, appends in those of logs, and removals in those of Unix sockets. Nothing
//! else can be read, executed, listed, removed or renamed, no address can be bound or connected to, and no process outside
//! the sandbox can be signalled. Open descriptors stay valid. A rule applies to a directory itself, also after it is renamed.
//!
//! Rules only allow access. If the kernel rejects one, its path stays inaccessible, which is reported, and all other
//! restrictions apply.

use std::fs;
use std::path::{Component, Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, LandlockStatus, PathBeneath, PathFd,
    Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};

use crate::sandbox::{Layer, Plan, SandboxError};

/// The requested version; older kernels restrict less. Version 9 would deny named Unix sockets, such as that of the service
/// manager.
const REQUESTED: ABI = ABI::V8;

/// Limit of symbolic links in a path, as in the kernel.
const LINKS_MAX: usize = 40;

/// Denies access except for what the plan allows. Adds a sentence to `warnings` for each path of the plan that could not be
/// allowed.
///
/// # Errors
/// The kernel has no Landlock.
pub(in crate::sandbox) fn restrict(plan: &Plan, warnings: &mut Vec<String>) -> Result<Layer, SandboxError> {
    let status = build(plan, warnings).map_err(|error| SandboxError::Filesystem(error.to_string()))?;
    let version = match status.landlock {
        LandlockStatus::Available { effective_abi, .. } => effective_abi as i32,
        LandlockStatus::NotEnabled => {
            return Err(SandboxError::Filesystem("it was not enabled at boot (`lsm=`)".into()));
        }
        _ => return Err(SandboxError::Filesystem("the kernel was built without it".into())),
    };
    match status.ruleset {
        RulesetStatus::NotEnforced => {
            Err(SandboxError::Filesystem("this kernel supports none of the restrictions".into()))
        }
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => {
            Ok(Layer::Active(format!("restricted by landlock (version {version})")))
        }
    }
}

fn build(plan: &Plan, warnings: &mut Vec<String>) -> Result<landlock::RestrictionStatus, RulesetError> {
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(REQUESTED))?
        // There are no rules for addresses, because they are bound already.
        .handle_access(AccessNet::from_all(REQUESTED))?
        .scope(Scope::from_all(REQUESTED))?
        .create()?;
    for (path, access) in allowed(plan) {
        if let Err(error) = allow(&mut rules, &path, access) {
            warnings.push(format!("{}: the server cannot access it (landlock: {error})", path.display()));
        }
    }
    rules.restrict_self()
}

/// Returns the allowed access below each path.
fn allowed(plan: &Plan) -> Vec<(PathBuf, BitFlags<AccessFs>)> {
    let with = |access: BitFlags<AccessFs>| move |path| (path, access);
    let read =
        plan.read.iter().flat_map(|path| replacement_directories(path)).map(with(AccessFs::ReadFile.into()));
    let list = plan.list.iter().flat_map(|path| replacement_directories(path));
    let list = list.map(with(AccessFs::ReadFile | AccessFs::ReadDir));
    let below =
        plan.read_below.iter().filter_map(|path| directory(path)).map(with(AccessFs::ReadFile.into()));
    let compile = plan.compile.iter().flat_map(|path| replacement_directories(path));
    let compile = compile.map(with(AccessFs::ReadFile | AccessFs::ReadDir));
    let append = plan.append.iter().flat_map(|path| replacement_directories(path));
    let append = append.map(with(AccessFs::WriteFile | AccessFs::MakeReg | AccessFs::Truncate));
    let remove = plan.remove.iter().filter_map(|path| parent(path)).map(with(AccessFs::RemoveFile.into()));
    read.chain(list).chain(below).chain(compile).chain(append).chain(remove).collect()
}

/// Allows access below a path. A path that cannot be opened stays inaccessible.
fn allow(rules: &mut RulesetCreated, path: &Path, access: BitFlags<AccessFs>) -> Result<(), RulesetError> {
    let Ok(opened) = PathFd::new(path) else { return Ok(()) };
    // Access to directories doesn't apply to files, and the kernel rejects an empty rule.
    let access = if path.is_dir() { access } else { access & AccessFs::from_file(REQUESTED) };
    if access.is_empty() {
        return Ok(());
    }
    rules.add_rule(PathBeneath::new(opened, access)).map(drop)
}

/// Returns the directory of a path that is removed, with symbolic links resolved, or `None` for the root, which would allow
/// everything.
fn parent(path: &Path) -> Option<PathBuf> {
    directory(std::path::absolute(path).ok()?.parent()?)
}

/// Returns a directory with symbolic links resolved, or `None` for the root, which would allow everything.
fn directory(path: &Path) -> Option<PathBuf> {
    fs::canonicalize(path).ok().filter(|path| path != Path::new("/"))
}

/// Returns the directories in which a file can be replaced: its own, and those of all symbolic links in its path.
///
/// A new release can be renamed over the file or over a link to it, or a link to a parent directory can be changed. The root
/// is never returned, because it would allow everything; for a file in the root, the result is the file itself.
fn replacement_directories(path: &Path) -> Vec<PathBuf> {
    let mut directories = Vec::new();
    let Ok(path) = std::path::absolute(path) else { return directories };
    let mut rest: Vec<PathBuf> = parts(&path);
    let mut walked = PathBuf::from("/");
    let mut links = 0;

    // Walk the path, and replace each symbolic link by its target.
    while let Some(part) = rest.pop() {
        match part.components().next() {
            Some(Component::ParentDir) => {
                walked.pop();
                continue;
            }
            Some(Component::Normal(name)) => walked.push(name),
            _ => continue,
        }

        let Ok(target) = fs::read_link(&walked) else { continue };
        links += 1;
        if links > LINKS_MAX {
            break;
        }
        walked.pop();
        directories.push(walked.clone());
        if target.is_absolute() {
            walked = PathBuf::from("/");
        }
        rest.extend(parts(&target));
    }

    // A regular or missing file, or a folder, can be replaced in its directory. A device or a FIFO is allowed by itself.
    let parent = walked.parent().map(Path::to_owned);
    let is_replaceable =
        !fs::metadata(&walked).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir());
    directories.push(parent.filter(|_| is_replaceable).unwrap_or_else(|| walked.clone()));

    // The root would allow everything.
    if directories.pop_if(|directory| *directory == Path::new("/")).is_some() {
        directories.push(walked);
    }
    directories.retain(|directory| directory != Path::new("/"));
    directories.sort();
    directories.dedup();
    directories
}

/// Returns the components of a path in reverse order.
fn parts(path: &Path) -> Vec<PathBuf> {
    path.components().rev().map(|part| part.as_os_str().into()).collect()
}

#[cfg(test)]
mod tests;
