//! Previews: release directories in a directory of sites, each named by its host, with a file of settings.
//!
//! A client that may publish previews must not be able to touch other sites, nor to take over their hosts: the operator names the domain
//! of previews, and a directory with files but without the settings is never changed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cannery_archive::Digest;
use cannery_publish::protocol::{Preview, Refusal, RefusalKind};
use cannery_server::config::{PreviewFile, PreviewPassword};
use cannery_server::short_file::{self, SETTINGS_BYTES_MAX};

use crate::commands::release_dir::{self, CURRENT, ReleaseDir, TEMPORARY_PREFIX};

/// Start of the names of previews that are being removed.
const REMOVED_PREFIX: &str = ".removed-";

/// End of the names of archives.
const ARCHIVE_SUFFIX: &str = ".cdb";

/// The file that a push leaves in a preview from staging until the switch.
const STAGED: &str = ".staged";

/// A preview that has ended is kept for this long after a release was staged for it.
const STAGED_MAX: Duration = Duration::from_secs(24 * 3600);

/// Files that a directory of sites doesn't have: those of a release directory, and of a folder of pages.
const SITE_FILES: [&str; 2] = [CURRENT, "index.html"];

/// Pushes switch within this time after staging, unless they were told to wait longer.
const SWITCHED_WITHIN: Duration = Duration::from_secs(10 * 60);

/// A preview that a client has selected.
pub(super) struct SelectedPreview {
    settings: Preview,
}

impl SelectedPreview {
    /// Selects a preview in the directory `sites`, below one of these domains. Removes those that have ended, and what crashed
    /// processes have left of others.
    pub(super) fn select(
        sites: &Path,
        domains: &[String],
        preview: &Preview,
    ) -> Result<SelectedPreview, Refusal> {
        let request = |message: String| Refusal::new(RefusalKind::Request, message);
        if !is_host_name(&preview.host) {
            return Err(request(format!("{:?} is not the name of a host", preview.host))
                .hint("write a name such as `pr-42.preview.example.com`, in lower case"));
        }
        let is_below = |domain: &String| {
            preview.host.strip_suffix(domain.as_str()).is_some_and(|rest| rest.ends_with('.'))
        };
        if !domains.iter().any(is_below) {
            let domains = domains.join(", ");
            return Err(request(format!("{} is not below the domain of previews, {domains}", preview.host))
                .hint(
                    "choose another host, or let the operator add `--preview-domain` to `cannery receive`",
                ));
        }
        if let Some(name) = SITE_FILES.into_iter().find(|name| sites.join(name).symlink_metadata().is_ok()) {
            let message = format!("{} is a site of its own: it has `{name}`", sites.display());
            return Err(request(message)
                .hint("a preview needs a directory of sites, as `cannery-server --sites` serves it, beside the site's own"));
        }
        check(&sites.join(&preview.host))?;
        remove_ended(sites, &preview.host);
        Ok(SelectedPreview { settings: preview.clone() })
    }

    /// Writes the settings into a new release directory. In one that has settings, they only change with the release, except for a first
    /// password: files of a staged release can be requested, too.
    pub(super) fn mark(&self, directory: &Path) -> Result<(), Refusal> {
        let path = directory.join(PreviewFile::NAME);
        match read(&path).map_err(|error| unwritten(&path, &error))? {
            None => self.write(directory),
            Some(PreviewFile { password: Some(_), .. }) => Ok(()),
            Some(file) => self
                .password()
                .map_or(Ok(()), |password| replace(&path, &PreviewFile { password: Some(password), ..file })),
        }
    }

    /// Notes that a release is staged, so that the preview isn't removed before the switch. The caller holds the directory's lock.
    pub(super) fn note_staged(&self, directory: &Path) -> Result<(), Refusal> {
        let path = directory.join(STAGED);
        release_dir::replace(&path, b"").map_err(|error| unwritten(&path, &error))
    }

    fn password(&self) -> Option<PreviewPassword> {
        self.settings.password.as_ref().map(|password| PreviewPassword {
            salt: password.salt.clone(),
            digest: password.digest.clone(),
            plain: password.plain,
        })
    }

    /// Writes the settings into the release directory, unless nothing changes. The caller holds the directory's lock, and has
    /// [checked](check) that it is a preview.
    pub(super) fn write(&self, directory: &Path) -> Result<(), Refusal> {
        let path = directory.join(PreviewFile::NAME);
        let before = read(&path).map_err(|error| unwritten(&path, &error))?;
        let mut file = before.clone().unwrap_or_default();
        if self.settings.expires.is_some() || has_ended(&file) {
            file.expires = self.settings.expires;
        }
        if let Some(password) = self.password() {
            file.password = Some(password);
        }
        // This switch keeps the preview for a while, so the note for a staged release isn't needed. But if the preview is about to end,
        // another push may have staged a release that will renew it.
        if ends_later(&file) {
            let _ = fs::remove_file(directory.join(STAGED));
        }
        if before.as_ref() == Some(&file) { Ok(()) } else { replace(&path, &file) }
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
pub(super) fn remove(directory: &Path) -> Result<bool, Refusal> {
    let failed = |error: io::Error| {
        Refusal::new(RefusalKind::Write, format!("cannot remove {}: {error}", directory.display()))
    };
    // No other process publishes there meanwhile.
    let lock = match ReleaseDir::lock(directory) {
        Ok(lock) => lock,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(failed(error)),
    };
    check(directory)?;
    remove_locked(directory, lock).map_err(failed)?;
    Ok(true)
}

fn remove_locked(directory: &Path, lock: fs::File) -> io::Result<()> {
    // The name of a host may be too long for a prefix.
    let name = Digest::of(directory.file_name().unwrap_or_default().as_encoded_bytes()).to_string();
    let hidden = directory.with_file_name(format!("{REMOVED_PREFIX}{name}-{}", std::process::id()));
    // All at once, so that a server sees all of the preview or nothing.
    fs::rename(directory, &hidden)?;
    drop(lock);
    match fs::remove_dir_all(&hidden) {
        // Another process cleans up, too.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Removes previews that have ended, except for `host`. Those that can't be removed stay, and the server doesn't serve them.
fn remove_ended(sites: &Path, host: &str) {
    for (path, file) in previews(sites) {
        if !has_ended(&file) || path.file_name().is_some_and(|name| name == host) {
            continue;
        }
        // A push may be renewing it.
        let Ok(lock) = fs::File::open(&path) else { continue };
        if lock.try_lock().is_err() || release_dir::is_receiving(&path) {
            continue;
        }
        let file = read(&path.join(PreviewFile::NAME)).ok().flatten();
        if file.is_some_and(|file| has_ended(&file)) && !is_being_renewed(&path) {
            let _ = remove_locked(&path, lock);
        }
    }
    for entry in fs::read_dir(sites).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(REMOVED_PREFIX) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Returns whether a push has staged a release, and will make it current. If it doesn't within a day, it has failed.
fn is_being_renewed(directory: &Path) -> bool {
    let staged = fs::metadata(directory.join(STAGED)).and_then(|metadata| metadata.modified());
    staged.is_ok_and(|staged| staged.elapsed().unwrap_or_default() < STAGED_MAX)
}

/// Replaces the file of settings.
fn replace(path: &Path, file: &PreviewFile) -> Result<(), Refusal> {
    let written = serde_json::to_vec_pretty(file).map_err(io::Error::from);
    let written = written.and_then(|json| release_dir::replace(path, &json));
    written.map_err(|error| unwritten(path, &error))
}

fn unwritten(path: &Path, error: &io::Error) -> Refusal {
    Refusal::new(RefusalKind::Write, format!("cannot write {}: {error}", path.display()))
}

/// Returns whether a preview will still be there when pushes that have staged a release by now will have switched.
fn ends_later(file: &PreviewFile) -> bool {
    let later = (SystemTime::now() + SWITCHED_WITHIN).duration_since(UNIX_EPOCH);
    file.expires.is_none_or(|expires| later.is_ok_and(|later| expires > later.as_secs()))
}

fn has_ended(file: &PreviewFile) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    file.expires.is_some_and(|expires| expires <= now)
}

/// Refuses a directory that isn't a preview. One that doesn't exist can become one.
pub(super) fn check(directory: &Path) -> Result<(), Refusal> {
    let unread = |error: io::Error| {
        let sites = directory.parent().unwrap_or(directory).display();
        Refusal::new(RefusalKind::Host, format!("cannot read {sites}: {error}"))
    };
    let is_free = match fs::symlink_metadata(directory) {
        Ok(_) => is_preview(directory),
        Err(error) if error.kind() == io::ErrorKind::NotFound => true,
        Err(error) => return Err(unread(error)),
    };
    let is_free = is_free && !has_other_site(directory).map_err(unread)?;
    if is_free { Ok(()) } else { Err(not_a_preview(directory)) }
}

/// Returns whether another entry is a site with the same host: an archive, or a directory in other letter case.
fn has_other_site(directory: &Path) -> io::Result<bool> {
    let (Some(sites), Some(host)) =
        (directory.parent(), directory.file_name().and_then(|name| name.to_str()))
    else {
        return Ok(true);
    };
    let entries = match fs::read_dir(sites) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        entries => entries?,
    };
    let names: io::Result<Vec<_>> = entries.map(|entry| Ok(entry?.file_name())).collect();
    Ok(names?.iter().filter_map(|name| name.to_str()).any(|name| {
        let of_archive = name.strip_suffix(ARCHIVE_SUFFIX);
        name != host && of_archive.unwrap_or(name).eq_ignore_ascii_case(host)
    }))
}

/// Returns whether a directory is a preview, or may become one: it has the file of settings, or nothing.
fn is_preview(directory: &Path) -> bool {
    let Ok(mut entries) = fs::read_dir(directory) else { return false };
    // A process that was killed may have left a part of the settings.
    let is_left = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with(TEMPORARY_PREFIX);
    directory.join(PreviewFile::NAME).exists()
        || entries.all(|entry| entry.is_ok_and(|entry| is_left(&entry)))
}

fn not_a_preview(path: &Path) -> Refusal {
    let message = format!("{} is a site of its own, not a preview", path.display());
    Refusal::new(RefusalKind::Request, message).hint("choose another name for the preview")
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
    match short_file::read(path, SETTINGS_BYTES_MAX) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        bytes => Ok(Some(serde_json::from_slice(&bytes?)?)),
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

    fn select(sites: &Path, host: &str) -> Result<SelectedPreview, Refusal> {
        SelectedPreview::select(sites, &["example".to_owned(), "example.com".to_owned()], &preview(host))
    }

    #[test]
    fn names_of_hosts_never_leave_the_directory() {
        let sites = tempfile::tempdir().unwrap();
        let long = format!("{}.example", "a".repeat(64));
        for host in [
            "",
            ".",
            "..",
            "a/b.example",
            "/etc",
            "A.example",
            "a..example",
            ".example",
            "-a.example",
            "a_b.example",
            "a.example.",
            "ä.example",
            &long,
        ] {
            assert!(select(sites.path(), host).is_err(), "{host}");
        }
        assert!(select(sites.path(), "pr-42.preview.example.com").is_ok());
    }

    #[test]
    fn previews_stay_below_their_domain() {
        let sites = tempfile::tempdir().unwrap();
        let domains = ["preview.example.com".to_owned()];
        for host in
            ["www.example.com", "preview.example.com", "xpreview.example.com", "a.preview.example.org"]
        {
            assert!(SelectedPreview::select(sites.path(), &domains, &preview(host)).is_err(), "{host}");
        }
        let own = preview("pr-1.preview.example.com");
        assert!(SelectedPreview::select(sites.path(), &domains, &own).is_ok());
        assert!(SelectedPreview::select(sites.path(), &[], &own).is_err());
    }

    #[test]
    fn other_sites_are_not_previews() {
        let sites = tempfile::tempdir().unwrap();
        let site = sites.path().join("www.example");
        assert!(select(sites.path(), "www.example").is_ok());
        // It appears after it was selected.
        fs::create_dir(&site).unwrap();
        fs::write(site.join("1.cdb"), "").unwrap();
        fs::write(sites.path().join("shop.example.cdb"), "").unwrap();
        fs::write(sites.path().join("Blog.Example.cdb"), "").unwrap();
        fs::create_dir(sites.path().join("Docs.example")).unwrap();
        for host in ["www.example", "shop.example", "blog.example", "docs.example"] {
            assert!(select(sites.path(), host).is_err(), "{host}");
            assert!(check(&sites.path().join(host)).is_err(), "{host}");
        }
        assert!(remove(&site).is_err());
        assert!(site.join("1.cdb").exists() && !site.join(PreviewFile::NAME).exists());
    }

    #[test]
    fn hosts_may_be_as_long_as_names_of_files() {
        let sites = tempfile::tempdir().unwrap();
        let host = [&*"a".repeat(63), &"b".repeat(63), &"c".repeat(63), &"d".repeat(53), "example"].join(".");
        assert_eq!(host.len(), 253);
        let directory = sites.path().join(&host);
        let selected = select(sites.path(), &host).unwrap();
        fs::create_dir(&directory).unwrap();
        selected.mark(&directory).unwrap();
        assert!(remove(&directory).unwrap());
        assert_eq!(fs::read_dir(sites.path()).unwrap().count(), 0);
    }

    #[test]
    fn settings_that_are_absent_stay_until_the_preview_ends() {
        let directory = tempfile::tempdir().unwrap();
        let write = |settings: Preview| SelectedPreview { settings }.write(directory.path()).unwrap();
        let settings = || read(&directory.path().join(PreviewFile::NAME)).unwrap().unwrap();
        write(with_password());
        write(Preview { expires: Some(99_999_999_999), ..preview("a.example") });
        write(preview("a.example"));
        assert_eq!((settings().expires, settings().password.is_some()), (Some(99_999_999_999), true));
        write(Preview { expires: Some(7), ..preview("a.example") });
        write(preview("a.example"));
        assert_eq!((settings().expires, settings().password.is_some()), (None, true));
    }

    #[test]
    fn first_password_holds_for_staged_releases() {
        let directory = tempfile::tempdir().unwrap();
        let mark = |settings: Preview| SelectedPreview { settings }.mark(directory.path()).unwrap();
        let settings = || read(&directory.path().join(PreviewFile::NAME)).unwrap().unwrap();
        mark(Preview { expires: Some(99_999_999_999), ..preview("a.example") });
        mark(Preview { expires: Some(7), ..with_password() });
        assert_eq!((settings().expires, settings().password.is_some()), (Some(99_999_999_999), true));

        let mut other = with_password();
        other.password.as_mut().unwrap().salt = "c".into();
        mark(other);
        assert_eq!(settings().password.unwrap().salt, "a", "another one waits for its release");
    }

    #[test]
    fn rest_of_a_killed_process_is_no_site() {
        let sites = tempfile::tempdir().unwrap();
        let directory = sites.path().join("a.example");
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join(".tmp-1-preview.json"), "{").unwrap();
        assert!(check(&directory).is_ok());
    }

    #[test]
    fn ended_previews_are_removed_and_nothing_else() {
        let sites = tempfile::tempdir().unwrap();
        for (host, settings) in [
            ("old.example", Some(r#"{"expires": 1}"#)),
            ("busy.example", Some(r#"{"expires": 1}"#)),
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
        let lock = ReleaseDir::lock(&sites.path().join("busy.example")).unwrap();
        select(sites.path(), "own.example").unwrap();
        let mut names: Vec<_> =
            fs::read_dir(sites.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["busy.example", "new.example", "own.example", "www.example"]);
        drop(lock);
    }
}
