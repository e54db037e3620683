//! Restricts access to files and addresses with Landlock (`landlock(7)`).
//!
//! We allow reads in archive directories, appends in log directories, and removals in directories of Unix
//! sockets. It is not possible to read, execute, list, remove or rename anything else, to bind or connect any
//! addresses (a process that issues certificates may connect), or to signal processes outside of the sandbox. Descriptors that are already open are not
//! affected. Note that a rule for a directory continues to apply after the directory is renamed.
//!
//! Rules can only *allow* access. If the kernel rejects a rule, the path remains inaccessible, which is
//! reported; all other restrictions still apply.

use std::fs;
use std::path::{Component, Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, LandlockStatus, PathBeneath, PathFd,
    Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};

use crate::sandbox::{Layer, Plan, SandboxError};

/// Version of the restrictions, fewer of which are supported by older kernels. Note that version 9 would deny
/// named Unix sockets, e.g. the service manager's.
const REQUESTED: ABI = ABI::V8;

/// Maximum number of symlinks in a path, as in the kernel.
const LINKS_MAX: usize = 40;

/// Where the C library reads how to resolve names: settings, and the plugins that these name.
const RESOLVER: [&str; 6] = ["/etc", "/lib", "/lib64", "/usr/lib", "/usr/lib64", "/run/systemd/resolve"];

/// Denies all access except for what the plan allows. For each path of the plan that cannot be allowed,
/// a sentence is added to `warnings`.
///
/// # Errors
/// Returns an error if the kernel does not support Landlock.
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
    // All addresses have already been bound, so no rules are needed for them. The addresses of an authority or a store aren't known
    // in advance.
    let mut network = AccessNet::from_all(REQUESTED);
    if !plan.issue.is_empty() || !plan.write.is_empty() {
        network.remove(AccessNet::ConnectTcp);
    }
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(REQUESTED))?
        .handle_access(network)?
        .scope(Scope::from_all(REQUESTED))?
        .create()?;

    for (path, access) in allowed(plan) {
        if let Err(error) = allow(&mut rules, &path, access) {
            warnings.push(format!("{}: the server cannot access it (landlock: {error})", path.display()));
        }
    }
    rules.restrict_self()
}

/// Returns the access to allow below each path.
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

    let written = AccessFs::ReadFile
        | AccessFs::ReadDir
        | AccessFs::WriteFile
        | AccessFs::Truncate
        | AccessFs::MakeReg
        | AccessFs::MakeSym
        | AccessFs::RemoveFile;
    let write = plan.write.iter().filter_map(|path| directory(path)).map(with(written));
    // Previews are directories.
    let received = written | AccessFs::MakeDir | AccessFs::RemoveDir;
    let receive = plan.receive.iter().filter_map(|path| directory(path)).map(with(received));
    let remove = plan.remove.iter().filter_map(|path| parent(path)).map(with(AccessFs::RemoveFile.into()));

    // Files are replaced: a new one is written and renamed over the old one.
    let issue = plan.issue.iter().filter_map(|path| directory(path));
    let issue = issue.map(with(
        AccessFs::ReadFile
            | AccessFs::ReadDir
            | AccessFs::WriteFile
            | AccessFs::Truncate
            | AccessFs::MakeReg
            | AccessFs::RemoveFile,
    ));
    // `resolv.conf` is often a symlink, and replaced whenever the network changes.
    let links = replacement_directories(Path::new("/etc/resolv.conf"));
    let resolver = RESOLVER
        .iter()
        .map(PathBuf::from)
        .chain(links)
        .filter(|_| !plan.issue.is_empty() || !plan.write.is_empty());
    let resolver = resolver.map(with(AccessFs::ReadFile | AccessFs::ReadDir));

    let all = read.chain(list).chain(below).chain(compile).chain(append).chain(remove);
    all.chain(write).chain(receive).chain(issue).chain(resolver).collect()
}

/// Allows access below a path. If the path cannot be opened, it remains inaccessible.
fn allow(rules: &mut RulesetCreated, path: &Path, access: BitFlags<AccessFs>) -> Result<(), RulesetError> {
    let Ok(opened) = PathFd::new(path) else { return Ok(()) };
    // Some access rights only apply to directories, and the kernel rejects rules without any rights.
    let access = if path.is_dir() { access } else { access & AccessFs::from_file(REQUESTED) };
    if access.is_empty() {
        return Ok(());
    }
    rules.add_rule(PathBeneath::new(opened, access)).map(drop)
}

/// Finds the directory of a path that will be removed, with symlinks resolved. For the root directory,
/// this is `None` because allowing it would allow everything.
fn parent(path: &Path) -> Option<PathBuf> {
    directory(std::path::absolute(path).ok()?.parent()?)
}

/// Returns a directory with symlinks resolved. Returns `None` for the root directory because that would allow
/// everything.
fn directory(path: &Path) -> Option<PathBuf> {
    fs::canonicalize(path).ok().filter(|path| path != Path::new("/"))
}

/// Returns the directories where a file can be replaced: its own directory and the directories of all
/// symlinks in its path.
///
/// For example, a new release can be renamed over the file or over a symlink to it, or an operator can change
/// a symlink to a parent directory. The root directory is never returned because that would allow everything;
/// for a file in the root directory, we return the file itself.
fn replacement_directories(path: &Path) -> Vec<PathBuf> {
    let mut directories = Vec::new();
    let Ok(path) = std::path::absolute(path) else { return directories };
    let mut rest: Vec<PathBuf> = parts(&path);
    let mut walked = PathBuf::from("/");
    let mut links = 0;

    // Walk the path, and replace each symlink with its target.
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

    // A folder as well as a regular or missing file can be replaced in its directory. For devices and
    // FIFOs, only the path itself is allowed.
    let parent = walked.parent().map(Path::to_owned);
    let is_replaceable =
        !fs::metadata(&walked).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir());
    directories.push(parent.filter(|_| is_replaceable).unwrap_or_else(|| walked.clone()));

    // The root directory would allow everything.
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
