//! Requests of the operator to renew a certificate: files that the process which holds the folder looks for.

use std::fs::{self, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::lock;
use crate::error::Error;

/// Requests a renewal from the process that issues certificates for a folder. Returns a description of the process, or `None` if
/// there is none. Then nothing is requested.
pub(crate) fn request_renewal(folder: &Path, stem: &str) -> Result<Option<String>, Error> {
    let Some(holder) = lock::holder_of(folder)? else { return Ok(None) };
    let path = folder.join(format!("{stem}.renew"));
    // A link isn't followed.
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
        Ok(_) => {}
        // The process hasn't taken an earlier request yet.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(source) => return Err(Error::folder("write", &path, source)),
    }
    Ok(Some(holder))
}

/// Takes a request. Returns `true` if there was one.
pub(super) fn take(folder: &Path, stem: &str) -> bool {
    // In the sandbox, files can't be removed. A request that can't be taken must not keep the certificate from being renewed in time.
    fs::rename(folder.join(format!("{stem}.renew")), folder.join(format!(".{stem}.renew"))).is_ok()
}

#[cfg(test)]
mod tests {
    use super::super::{BundleReaders, Folder};
    use super::*;

    #[test]
    fn request_is_taken_once() {
        let place = tempfile::tempdir().unwrap();
        assert_eq!(request_renewal(place.path(), "a.example").unwrap(), None);
        let folder = Folder::open(place.path(), BundleReaders::Owner).unwrap();
        assert!(!folder.take_request("a.example"));
        for _ in 0..2 {
            let holder = request_renewal(place.path(), "a.example").unwrap();
            assert_eq!(holder, Some(format!("process {}", std::process::id())));
            request_renewal(place.path(), "a.example").unwrap();
            assert!(!folder.take_request("b.example"));
            assert!(folder.take_request("a.example") && !folder.take_request("a.example"));
        }
    }
}
