//! Checks that files which the server may open later can be opened from inside the sandbox.
//!
//! Archives, keys and logs are opened at startup by the initial user, but later (after a new release or a log
//! rotation) by the user given with `--user`. Without this check, a missing permission might only be noticed
//! weeks later.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{Access, OFlags, access};
use rustix::process::getuid;

use super::Plan;

/// Describes each file that cannot be opened again and each log that cannot be created again, in a
/// sentence.
pub(super) fn check(plan: &Plan) -> Vec<String> {
    let user = getuid().as_raw();
    let read = plan.read.iter().filter_map(|path| {
        let error = readable(path).err()?;
        Some(format!(
            "{}: user {user} may not read it ({error}). It was read before the server became that user, and its \
             next version will be refused: give the user or its group permission to read it",
            path.display()
        ))
    });

    let append = plan.append.iter().filter_map(|path| {
        let error = appendable(path).err()?;
        Some(format!(
            "{}: user {user} may not write to it or to its folder ({error}). It was opened before the server \
             became that user, and cannot be opened again after a rotation: give the user both permissions",
            path.display()
        ))
    });
    read.chain(append).collect()
}

/// Fails if we are not permitted to read the file. In the case of a FIFO, this does not wait for
/// the other end.
fn readable(path: &Path) -> io::Result<()> {
    denied(OpenOptions::new().read(true).custom_flags(nonblocking()).open(path))
}

fn appendable(path: &Path) -> io::Result<()> {
    denied(OpenOptions::new().append(true).custom_flags(nonblocking()).open(path))?;
    // Devices and pipes do not have to be created again.
    if !path.metadata().is_ok_and(|metadata| metadata.is_file()) {
        return Ok(());
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    denied(access(folder, Access::WRITE_OK | Access::EXEC_OK).map_err(io::Error::from))
}

/// Ignores all errors except for missing permissions. For example, a file might be missing temporarily.
fn denied<T>(result: io::Result<T>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(error),
        _ => Ok(()),
    }
}

fn nonblocking() -> i32 {
    OFlags::NONBLOCK.bits().cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_can_be_opened_are_not_reported() {
        let folder = tempfile::tempdir().unwrap();
        let (archive, log) = (folder.path().join("site.cdb"), folder.path().join("access.log"));
        std::fs::write(&archive, "").unwrap();
        std::fs::write(&log, "").unwrap();
        let missing = folder.path().join("missing");
        let append = vec![log, "/dev/null".into(), missing.clone()];
        let plan = Plan { read: vec![archive, missing], append, ..Plan::default() };
        assert_eq!(check(&plan), [""; 0]);
    }
}
