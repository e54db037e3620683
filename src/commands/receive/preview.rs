//! Previews: release directories in a directory of sites, each named by its host, with a file of settings.
//!
//! A client that may publish previews must not be able to touch the other sites, so a directory without the file is never changed.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use cannery_publish::protocol::{Preview, Refusal, RefusalKind};
use cannery_server::config::{PreviewFile, PreviewPassword};

use crate::commands::release_dir::{CURRENT, ReleaseDir, TEMPORARY_PREFIX};

/// Start of the names of previews that are being removed.
const REMOVED_PREFIX: &str = ".removed-";

/// A preview that a client has selected.
pub(super) struct SelectedPreview {
    settings: Preview,
}

impl SelectedPreview {
    /// Selects a preview in the directory `sites`. Removes those that have ended, and what crashed processes have left of others.
    pub(super) fn select(sites: &Path, preview: &Preview) -> Result<SelectedPreview, Refusal> {
        let request = |message: String| Refusal::new(RefusalKind::Request, message);
        if !is_host_name(&preview.host) {
            return Err(request(format!("{:?} is not the name of a host", preview.host))
                .hint("write a name such as `pr-42.preview.example.com`, in lower case"));
        }
        let path = sites.join(&preview.host);
        let is_other = match fs::read_dir(&path) {
            Ok(mut entries) => entries.next().is_some() && !path.join(PreviewFile::NAME).exists(),
            Err(_) => fs::symlink_metadata(&path).is_ok(),
        };
        let archive = sites.join(format!("{}.cdb", preview.host));
        if is_other || archive.exists() {
            return Err(request(format!("{} is a site of its own, not a preview", path.display()))
                .hint("choose another name for the preview"));
        }
        remove_ended(sites, &preview.host);
        Ok(SelectedPreview { settings: preview.clone() })
    }

    /// Writes the settings into a new release directory.
    pub(super) fn mark(&self, directory: &Path) -> io::Result<()> {
        if read(&directory.join(PreviewFile::NAME))?.is_some() { Ok(()) } else { self.write(directory) }
    }

    /// Writes the settings into the release directory, unless nothing changes.
    pub(super) fn write(&self, directory: &Path) -> io::Result<()> {
        let path = directory.join(PreviewFile::NAME);
        let before = read(&path)?;
        let mut file = before.clone().unwrap_or_default();
        if self.settings.expires.is_some() {
            file.expires = self.settings.expires;
        }
        if let Some(password) = &self.settings.password {
            file.password = Some(PreviewPassword {
                salt: password.salt.clone(),
                digest: password.digest.clone(),
                plain: password.plain,
            });
        }
        if before.as_ref() == Some(&file) {
            return Ok(());
        }

        let temporary = directory.join(format!("{TEMPORARY_PREFIX}{}", PreviewFile::NAME));
        let mut written = OpenOptions::new().write(true).create(true).truncate(true).open(&temporary)?;
        written.write_all(&serde_json::to_vec_pretty(&file)?)?;
        written.sync_all()?;
        fs::rename(&temporary, &path)
    }

    /// Returns the current releases of other previews, newest first.
    pub(super) fn current_of_siblings(&self, directory: &Path) -> Vec<PathBuf> {
        let Some(sites) = directory.parent() else { return Vec::new() };
        let others = previews(sites).filter(|(path, _)| path != directory);
        let mut current: Vec<_> = others
            .map(|(path, _)| path.join(CURRENT))
            .filter_map(|path| Some((fs::metadata(&path).ok()?.modified().ok()?, path)))
            .collect();
        current.sort_by(|a, b| b.cmp(a));
        current.into_iter().map(|(_, path)| path).collect()
    }
}

/// Removes a preview with its releases. Returns whether there was one.
pub(super) fn remove(directory: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
        Ok(_) => {}
    }
    // No other process publishes there meanwhile.
    let lock = ReleaseDir::lock(directory)?;
    let name = directory.file_name().unwrap_or_default().to_string_lossy();
    let hidden = directory.with_file_name(format!("{REMOVED_PREFIX}{name}-{}", std::process::id()));
    // All at once, so that a server sees all of the preview or nothing.
    fs::rename(directory, &hidden)?;
    drop(lock);
    fs::remove_dir_all(&hidden)?;
    Ok(true)
}

/// Removes previews that have ended, except for `host`. Those that can't be removed stay, and the server doesn't serve them.
fn remove_ended(sites: &Path, host: &str) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    for (path, file) in previews(sites) {
        let has_ended = file.expires.is_some_and(|expires| expires <= now);
        if has_ended && path.file_name().is_some_and(|name| name != host) {
            let _ = remove(&path);
        }
    }
    for entry in fs::read_dir(sites).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(REMOVED_PREFIX) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Returns all previews of a directory of sites, with their settings.
fn previews(sites: &Path) -> impl Iterator<Item = (PathBuf, PreviewFile)> {
    let entries = fs::read_dir(sites).into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let is_site = entry.file_name().to_str().is_some_and(is_host_name);
        let path = entry.path();
        Some((path.clone(), read(&path.join(PreviewFile::NAME)).ok()??)).filter(|_| is_site)
    })
}

/// Reads the settings of a preview. Returns `None` if there are none.
fn read(path: &Path) -> io::Result<Option<PreviewFile>> {
    match fs::read(path) {
        Ok(json) => Ok(Some(serde_json::from_slice(&json)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns whether a text is a host name in lower case (RFC 1123 §2.1), which is also safe as the name of a folder.
fn is_host_name(text: &str) -> bool {
    let is_label = |label: &str| {
        let is_known = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        (1..=63).contains(&label.len())
            && label.bytes().all(is_known)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    text.len() <= 253 && text.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn preview(host: &str) -> Preview {
        Preview { host: host.to_owned(), expires: None, password: None }
    }

    fn with_password() -> Preview {
        let password =
            cannery_publish::protocol::PreviewPassword { salt: "a".into(), digest: "b".into(), plain: false };
        Preview { password: Some(password), ..preview("a.example") }
    }

    #[test]
    fn names_of_hosts_never_leave_the_directory() {
        let sites = tempfile::tempdir().unwrap();
        for host in [
            "",
            ".",
            "..",
            "a/b",
            "/etc",
            "A.example",
            "a..b",
            ".a",
            "-a.b",
            "a_b",
            "a.b.",
            "ä.b",
            &"a".repeat(64),
        ] {
            assert!(SelectedPreview::select(sites.path(), &preview(host)).is_err(), "{host}");
        }
        assert!(SelectedPreview::select(sites.path(), &preview("pr-42.preview.example.com")).is_ok());
    }

    #[test]
    fn other_sites_are_not_previews() {
        let sites = tempfile::tempdir().unwrap();
        fs::create_dir(sites.path().join("www.example")).unwrap();
        fs::write(sites.path().join("www.example/1.cdb"), "").unwrap();
        fs::write(sites.path().join("shop.example.cdb"), "").unwrap();
        for host in ["www.example", "shop.example"] {
            assert!(SelectedPreview::select(sites.path(), &preview(host)).is_err(), "{host}");
        }
    }

    #[test]
    fn settings_that_are_absent_stay() {
        let directory = tempfile::tempdir().unwrap();
        let write = |settings: Preview| SelectedPreview { settings }.write(directory.path()).unwrap();
        let settings = || read(&directory.path().join(PreviewFile::NAME)).unwrap().unwrap();
        write(with_password());
        write(Preview { expires: Some(7), ..preview("a.example") });
        assert_eq!((settings().expires, settings().password.is_some()), (Some(7), true));
        write(preview("a.example"));
        assert_eq!((settings().expires, settings().password.is_some()), (Some(7), true));
    }

    #[test]
    fn ended_previews_are_removed_and_nothing_else() {
        let sites = tempfile::tempdir().unwrap();
        for (host, settings) in [
            ("old.example", Some(r#"{"expires": 1}"#)),
            ("own.example", Some(r#"{"expires": 1}"#)),
            ("new.example", Some(r#"{"expires": 99999999999}"#)),
            ("www.example", None),
            (".removed-x.example-1", None),
        ] {
            let path = sites.path().join(host);
            fs::create_dir(&path).unwrap();
            if let Some(settings) = settings {
                fs::write(path.join(PreviewFile::NAME), settings).unwrap();
            }
        }
        SelectedPreview::select(sites.path(), &preview("own.example")).unwrap();
        let mut names: Vec<_> =
            fs::read_dir(sites.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["new.example", "own.example", "www.example"]);
    }
}
