//! Files and addresses out of reach, by landlock.
//!
//! What stays: to read in the folders of the archives, to append in the folders of the logs, to remove in those
//! of local sockets. Nothing else may be executed, listed, removed or renamed, no address may be bound or connected to,
//! no process outside be signalled. What is open already stays open. Never follows what changes later: a folder that was
//! moved is still the same folder.
//!
//! A rule only ever allows something. If the kernel rejects one, its place stays out of reach, which is reported, and
//! everything else is restricted all the same.

use std::fs;
use std::path::{Component, Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, LandlockStatus, PathBeneath, PathFd,
    Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};

use crate::sandbox::{Layer, Plan, SandboxError};

/// What is asked for; a kernel that knows less does less. The next one (9) would keep local sockets out of
/// reach that have a name, and with them that of the service manager.
const ASKED: ABI = ABI::V8;

/// How many symlinks a path may lead through, as for the kernel.
const LINKS_MAX: usize = 40;

/// Puts everything out of reach but what these files need. Adds a sentence to `warnings` for each place that had to be
/// put out of reach although the plan names it.
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
            Ok(Layer::There(format!("held by landlock (version {version})")))
        }
    }
}

fn build(plan: &Plan, warnings: &mut Vec<String>) -> Result<landlock::RestrictionStatus, RulesetError> {
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(ASKED))?
        // No rule follows for addresses: those that are bound are bound.
        .handle_access(AccessNet::from_all(ASKED))?
        .scope(Scope::from_all(ASKED))?
        .create()?;
    for (place, access) in allowed(plan) {
        if let Err(error) = allow(&mut rules, &place, access) {
            warnings
                .push(format!("{}: stays out of the server's reach (landlock: {error})", place.display()));
        }
    }
    rules.restrict_self()
}

/// What is allowed below each place.
fn allowed(plan: &Plan) -> Vec<(PathBuf, BitFlags<AccessFs>)> {
    let with = |access: BitFlags<AccessFs>| move |place| (place, access);
    let read = plan.read.iter().flat_map(|path| places(path)).map(with(AccessFs::ReadFile.into()));
    let list = plan.list.iter().flat_map(|path| places(path));
    let list = list.map(with(AccessFs::ReadFile | AccessFs::ReadDir));
    let below =
        plan.read_below.iter().filter_map(|path| directory(path)).map(with(AccessFs::ReadFile.into()));
    let append = plan.append.iter().flat_map(|path| places(path));
    let append = append.map(with(AccessFs::WriteFile | AccessFs::MakeReg | AccessFs::Truncate));
    let remove = plan.remove.iter().filter_map(|path| parent(path)).map(with(AccessFs::RemoveFile.into()));
    read.chain(list).chain(below).chain(append).chain(remove).collect()
}

/// Allows something below a place. One that cannot be opened needs no rule: it stays out of reach.
fn allow(rules: &mut RulesetCreated, place: &Path, access: BitFlags<AccessFs>) -> Result<(), RulesetError> {
    let Ok(opened) = PathFd::new(place) else { return Ok(()) };
    // Nothing can be made below a file. The kernel takes no rule that allows nothing.
    let access = if place.is_dir() { access } else { access & AccessFs::from_file(ASKED) };
    if access.is_empty() {
        return Ok(());
    }
    rules.add_rule(PathBeneath::new(opened, access)).map(drop)
}

/// The folder that a name is removed from, with all links on the way to it resolved. `None` for the root, which would
/// be everything: what lies there is not removed.
fn parent(path: &Path) -> Option<PathBuf> {
    directory(std::path::absolute(path).ok()?.parent()?)
}

/// A directory with all links on the way to it resolved; `None` for the root, which would be everything.
fn directory(path: &Path) -> Option<PathBuf> {
    fs::canonicalize(path).ok().filter(|path| path != Path::new("/"))
}

/// The folders in which a file may be replaced: its own, and those of all symlinks on the way to it.
///
/// A new release can be renamed over the file, or over a link to it, or a link to a folder above it may be
/// turned. Never the root, which would be everything: what lies there is itself the place.
fn places(path: &Path) -> Vec<PathBuf> {
    let mut places = Vec::new();
    let Ok(path) = std::path::absolute(path) else { return places };
    let mut rest: Vec<PathBuf> = parts(&path);
    let mut walked = PathBuf::from("/");
    let mut links = 0;
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
        places.push(walked.clone());
        if target.is_absolute() {
            walked = PathBuf::from("/");
        }
        rest.extend(parts(&target));
    }
    let folder = walked.parent().map(Path::to_owned);
    let is_file_of_folder = !fs::metadata(&walked).is_ok_and(|metadata| !metadata.is_file());
    places.push(folder.filter(|_| is_file_of_folder).unwrap_or_else(|| walked.clone()));
    if places.pop_if(|place| *place == Path::new("/")).is_some() {
        places.push(walked);
    }
    places.retain(|place| place != Path::new("/"));
    places.sort();
    places.dedup();
    places
}

/// The parts of a path, the last first.
fn parts(path: &Path) -> Vec<PathBuf> {
    path.components().rev().map(|part| part.as_os_str().into()).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_file_may_be_replaced_in_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::write(root.join("site.cdb"), "").unwrap();
        assert_eq!(places(&root.join("site.cdb")), [root.as_path()]);
        assert_eq!(places(&root.join("not-there-yet.log")), [root.as_path()]);
    }

    #[test]
    fn links_may_be_turned_wherever_they_stand_on_the_way() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("app/releases/1")).unwrap();
        fs::write(root.join("app/releases/1/site.cdb"), "").unwrap();
        symlink("releases/1", root.join("app/current")).unwrap();
        let expected = [root.join("app"), root.join("app/releases/1")];
        assert_eq!(places(&root.join("app/current/site.cdb")), expected);
        symlink(root.join("app/../app/current/site.cdb"), root.join("site.cdb")).unwrap();
        let expected = [root.clone(), root.join("app"), root.join("app/releases/1")];
        assert_eq!(places(&root.join("site.cdb")), expected);
    }

    #[test]
    fn a_local_socket_may_be_removed_from_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let path = root.join("s.sock");
        let _socket = std::os::unix::net::UnixListener::bind(&path).unwrap();
        symlink(&root, root.join("link")).unwrap();
        for path in [path, root.join("link/s.sock"), root.join("not-there.sock")] {
            let plan = Plan { remove: vec![path], ..Plan::default() };
            assert_eq!(allowed(&plan), [(root.clone(), AccessFs::RemoveFile.into())]);
        }
        let in_root = Plan { remove: vec!["/s.sock".into()], ..Plan::default() };
        assert_eq!(allowed(&in_root), []);
    }

    #[test]
    fn a_rule_that_allows_nothing_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let rules = Ruleset::default().set_compatibility(CompatLevel::BestEffort);
        let mut rules = rules.handle_access(AccessFs::from_all(ASKED)).unwrap().create().unwrap();
        allow(&mut rules, &file, AccessFs::RemoveFile.into()).unwrap();
        allow(&mut rules, &folder.path().join("not there"), AccessFs::ReadFile.into()).unwrap();
    }

    #[test]
    fn the_root_is_never_a_place_and_no_circle_of_links_goes_on_for_ever() {
        assert_eq!(places(Path::new("/site.cdb")), [Path::new("/site.cdb")]);
        assert_eq!(places(Path::new("/dev/null")), [Path::new("/dev/null")]);
        let folder = tempfile::tempdir().unwrap();
        symlink("b", folder.path().join("a")).unwrap();
        symlink("a", folder.path().join("b")).unwrap();
        assert!(places(&folder.path().join("a")).iter().all(|place| place != Path::new("/")));
    }
}
