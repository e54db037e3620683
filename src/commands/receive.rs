//! `cannery receive`: serves a client of `cannery push` with the releases of a directory. See the publish crate for the protocol.

mod preview;

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cannery_archive::{Archive, Loading};
use cannery_publish::protocol::{
    Activate, Activated, Offer, Preview, Refusal, RefusalKind, ReleaseInfo, Releases, Removed, Selector,
    TrustInfo,
};
use cannery_publish::{Host, Source, limits, serve};
use cannery_server::sandbox::{Plan, Sandbox};
use cannery_server::statement_files;
use cannery_trust::{Seen, Signed, Statement};

use self::preview::SelectedPreview;
use super::hook_process::{self, HookProcess};
use super::on_activate::{Activation, Hook};
use super::release_dir::{self, IncomingFile, NAME_DIGITS, Release, ReleaseDir, is_pushed_name};
use super::release_trust::{self, ReleaseTrust};
use super::releases::{self, Asker, Clock, SystemClock};
use crate::flags::publish::Receive;
use crate::flags::settling::Settling;
use crate::output::{Exit, Failure};

/// Runs the command.
///
/// # Errors
///
/// Returns an error if the connection was lost. A client that was refused something knows the reason, so that isn't an error.
pub fn run(flags: &Receive) -> Result<(), Failure> {
    if let Some(hook) = Hook::from_flags(&flags.hook).filter(|_| flags.for_receive) {
        return hook_process::serve(&hook);
    }
    if io::stdin().is_terminal() {
        return Err(Failure::usage("`cannery receive` is started by `cannery push` on another machine")
            .hint(format!(
                "to publish on this machine, use `cannery push {} SITE`",
                flags.directory.display()
            )));
    }
    let trust = ReleaseTrust::from_flags(&flags.trust)?;
    let mut host = DirectoryHost::new(&flags.directory, trust);
    host.hook = HookProcess::for_receive(flags)?;
    let domains = flags.preview_domain.iter();
    host.preview_domains = domains.map(|domain| domain.trim_matches('.').to_ascii_lowercase()).collect();
    enter_sandbox(flags)?;
    let (mut input, mut output) = (io::stdin().lock(), io::stdout().lock());
    let outcome = serve(&mut input, &mut output, &mut host);
    drop(host);
    outcome.map(drop).map_err(|error| Failure::failed(format!("cannot receive a release: {error}")))
}

/// Enters the sandbox in which messages of the client are parsed. It can write the directory, or its parent until the first push, and
/// nothing else.
fn enter_sandbox(flags: &Receive) -> Result<(), Failure> {
    // A directory that doesn't exist is created by the first push, and its parent must be there.
    let path = std::path::absolute(&flags.directory).unwrap_or(flags.directory.clone());
    let receive = path.ancestors().take(2).find(|path| path.exists()).unwrap_or(&path).to_owned();
    let plan = Plan { sandbox: flags.sandbox.policy, receive: vec![receive], ..Plan::default() };
    Sandbox::enter(&plan).map(drop).map_err(|error| Failure::failed(error.to_string()))
}

/// A release directory that clients publish in.
pub(super) struct DirectoryHost {
    path: PathBuf,
    /// The keys that must have signed a release, if there are any.
    trust: Option<ReleaseTrust>,
    /// The statement about the release that is being received.
    signed: Option<Signed>,
    /// The release that is being received.
    incoming: Option<IncomingFile>,
    /// The digest of the release that was written or read last, and so verified.
    verified: Option<String>,
    /// Runs after another release became current.
    hook: Option<HookProcess>,
    /// Whether a release was current before the last switch.
    had_current: bool,
    /// Waits before switches.
    clock: Box<dyn Clock>,
    /// The preview whose release directory `path` is.
    preview: Option<SelectedPreview>,
    /// The domains of previews. If there are any, `path` is a directory of sites until a preview is selected.
    preview_domains: Vec<String>,
}

impl DirectoryHost {
    /// Reads a release again before the next switch to it, although it was read or written by this process.
    pub(super) fn forget_verified(&mut self) {
        self.verified = None;
    }

    pub(super) fn new(path: &Path, trust: Option<ReleaseTrust>) -> DirectoryHost {
        DirectoryHost {
            path: path.to_owned(),
            trust,
            signed: None,
            incoming: None,
            verified: None,
            hook: None,
            had_current: false,
            clock: Box::new(SystemClock),
            preview: None,
            preview_domains: Vec::new(),
        }
    }

    /// Waits by another clock.
    #[cfg(test)]
    pub(super) fn with_clock(self, clock: impl Clock + 'static) -> DirectoryHost {
        DirectoryHost { clock: Box::new(clock), ..self }
    }

    /// Checks a statement about the release with this digest, if the host demands one. Returns what was seen afterwards.
    pub(super) fn check_signed(
        &self,
        signed: Option<&Signed>,
        digest: &str,
    ) -> Result<Option<(Statement, Seen)>, Refusal> {
        let Some(trust) = &self.trust else { return Ok(None) };
        let seen = self.seen()?;
        let (statement, seen) = trust.check(signed, seen.as_ref())?;
        if statement.digest.to_string() != digest {
            let message = "the signed statement is about another release";
            return Err(Refusal::new(RefusalKind::Request, message).hint("sign the archive that you publish"));
        }
        Ok(Some((statement, seen)))
    }

    /// Removes the file of a release that won't be complete.
    pub(super) fn abandon(&mut self) {
        self.incoming = None;
    }

    /// Returns what was accepted last.
    pub(super) fn seen(&self) -> Result<Option<Seen>, Refusal> {
        release_trust::read_seen(&self.path).map_err(|error| {
            let refusal = self.refusal("cannot read", &error);
            match error.kind() {
                io::ErrorKind::InvalidData => refusal.hint(release_trust::SEEN_IS_DAMAGED),
                _ => refusal,
            }
        })
    }

    /// Refuses to use the directory of sites itself as a release directory.
    fn check_is_releases(&self) -> Result<(), Refusal> {
        if self.preview.is_some() || self.preview_domains.is_empty() {
            return Ok(());
        }
        let message = format!("{} is only for previews", self.path.display());
        Err(Refusal::new(RefusalKind::Request, message).hint("add `--preview NAME`"))
    }

    /// Refuses to release into the folder of a site, for example because the arguments of `cannery push` are swapped.
    fn check_has_no_site(&self) -> Result<(), Refusal> {
        let directory = self.read()?;
        match directory.file_of_site() {
            Ok(None) => Ok(()),
            Ok(Some(name)) => {
                let message = format!(
                    "{} has files that aren't releases, such as {}",
                    self.path.display(),
                    text(&name)
                );
                Err(Refusal::new(RefusalKind::Request, message).hint(
                    "name the release directory first and then the site; a new or empty directory can become one",
                ))
            }
            Err(error) => Err(self.refusal("cannot read", &error)),
        }
    }

    /// Reads the directory. One that doesn't exist has no releases.
    fn read(&self) -> Result<ReleaseDir, Refusal> {
        self.check_is_releases()?;
        match ReleaseDir::read(&self.path) {
            Ok(directory) => Ok(directory),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(ReleaseDir::empty(&self.path)),
            Err(error) => Err(self.refusal("cannot read", &error)),
        }
    }

    /// Locks the directory, and refuses one that this client may not change.
    fn lock(&self) -> Result<File, Refusal> {
        self.check_is_releases()?;
        let lock = ReleaseDir::lock(&self.path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => self.missing(),
            _ => self.refusal("cannot lock", &error),
        })?;
        if self.preview.is_some() {
            // Another site may have appeared since the preview was selected.
            preview::check(&self.path)?;
        }
        Ok(lock)
    }

    /// Creates the directory if necessary, and locks it.
    fn create_and_lock(&self) -> Result<File, Refusal> {
        let is_created = match fs::create_dir(&self.path) {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
            Err(error) => return Err(self.write_refusal("cannot create", &error)),
        };
        self.lock().inspect_err(|_| {
            // An empty directory would take the host of another site that has just appeared.
            if is_created {
                let _ = fs::remove_dir(&self.path);
            }
        })
    }

    fn missing(&self) -> Refusal {
        let message = format!("the directory {} does not exist", self.path.display());
        Refusal::new(RefusalKind::Host, message).hint("`cannery push` creates it with the first release")
    }

    fn write_refusal(&self, what: &str, error: &io::Error) -> Refusal {
        Refusal { kind: RefusalKind::Write, ..self.refusal(what, error) }
    }

    fn refusal(&self, what: &str, error: &io::Error) -> Refusal {
        let message = format!("{what} the directory {}: {error}", self.path.display());
        let refusal = Refusal::new(RefusalKind::Host, message);
        release_dir::remedy(&self.path, error).into_iter().fold(refusal, Refusal::hint)
    }

    /// Removes the oldest releases that were pushed, except for the current one, the staged one if there is any, and the `keep` newest. Adds
    /// their names to `removed`.
    fn prune(&self, keep: usize, staged: Option<&str>, removed: &mut Vec<String>) -> Result<(), Refusal> {
        let directory = self.read()?;
        for release in directory.releases.iter().filter(|release| release.label.is_ok()).skip(keep) {
            let name = release.name.to_string_lossy();
            let is_needed = directory.is_current(release) || staged == Some(&*name);
            if !is_needed && is_pushed_name(&name) {
                fs::remove_file(directory.release_path(&release.name))
                    .map_err(|error| self.write_refusal("cannot remove an old release from", &error))?;
                release_trust::remove_signed(&self.path, &name);
                removed.push(name.into_owned());
            }
        }
        Ok(())
    }
}

impl Host for DirectoryHost {
    fn releases(&mut self) -> Result<Releases, Refusal> {
        let directory = self.read()?;
        let trust = match &self.trust {
            Some(trust) => {
                let seen = self.seen()?;
                let site = seen.as_ref().map(|seen| seen.site.clone());
                Some(TrustInfo {
                    site: trust.site().map(str::to_owned).or(site),
                    sequence: seen.map_or(0, |seen| seen.sequence),
                })
            }
            None => None,
        };
        let releases = directory.releases.iter().take(limits::RELEASES_MAX);
        Ok(Releases {
            trust,
            directory: fs::canonicalize(&self.path).unwrap_or(self.path.clone()).display().to_string(),
            is_missing: !self.path.exists(),
            releases: releases.map(|release| info(&directory, release)).collect(),
        })
    }

    fn open(&mut self, digest: &str) -> Result<Option<(String, Arc<Archive>)>, Refusal> {
        let directory = self.read()?;
        let Some(release) = with_digest(&directory, digest) else { return Ok(None) };
        let archive = Archive::open(&directory.release_path(&release.name), Loading::Mapped);
        Ok(archive.ok().map(|archive| (release.name.to_string_lossy().into_owned(), Arc::new(archive))))
    }

    fn find_intact(&mut self, digest: &str) -> Result<Option<String>, Refusal> {
        // Another client could remove the preview after the release was found.
        let lock = match self.preview.as_ref().map(|_| self.lock()) {
            None => None,
            Some(Ok(lock)) => Some(lock),
            Some(Err(_)) if !self.path.exists() => {
                self.verified = None;
                return Ok(None);
            }
            Some(Err(refusal)) => return Err(refusal),
        };
        let Some((name, archive)) = self.open(digest)? else {
            self.verified = None;
            return Ok(None);
        };
        if self.verified.as_deref() != Some(digest) {
            let is_intact = archive.verify_digest().is_ok();
            // Activating it needn't read it again.
            self.verified = is_intact.then(|| digest.to_owned());
            if !is_intact {
                return Ok(None);
            }
        }
        if let Some(preview) = &self.preview {
            // Nothing will be transferred, so this is all that shows that the preview is about to be renewed.
            preview.note_staged(&self.path)?;
        }
        drop(lock);
        Ok(Some(name))
    }

    fn admit(&mut self, offer: &Offer) -> Result<(), Refusal> {
        self.check_signed(offer.signed.as_ref(), &offer.digest)?;
        // Even if no keys are listed here, because a server may demand signatures.
        self.signed.clone_from(&offer.signed);
        Ok(())
    }

    fn sources(&mut self) -> Vec<Source> {
        let Ok(directory) = self.read() else { return Vec::new() };
        let (current, others): (Vec<_>, Vec<_>) = directory
            .releases
            .iter()
            .filter(|release| release.label.is_ok())
            .partition(|release| directory.is_current(release));
        // Most bodies are in the current release, so its index is the best place for them.
        let newest = current.into_iter().chain(others).take(limits::SOURCES_MAX);
        let open = |path: PathBuf, name: String| {
            let archive = Archive::open(&path, Loading::Mapped).ok()?;
            Some(Source { name, archive: Arc::new(archive) })
        };
        let own =
            newest.filter_map(|release| open(directory.release_path(&release.name), text(&release.name)));
        // Most bodies of a new preview are in others.
        let siblings = self.preview.iter().flat_map(|preview| preview.current_of_siblings(&self.path));
        let siblings = siblings.filter_map(|path| open(path.clone(), path.display().to_string()));
        own.chain(siblings).take(limits::SOURCES_MAX).collect()
    }

    fn create(&mut self) -> Result<File, Refusal> {
        self.check_is_releases()?;
        match &self.preview {
            Some(_) => preview::check(&self.path)?,
            None => self.check_has_no_site()?,
        }
        self.incoming = None;
        let lock = match self.create_and_lock() {
            // Another client has removed the preview in between.
            Err(_) if self.preview.is_some() && !self.path.exists() => self.create_and_lock()?,
            locked => locked?,
        };
        if let Some(preview) = &self.preview {
            // It makes this directory one that the next push may change.
            preview.mark(&self.path)?;
            preview.note_staged(&self.path)?;
        }
        let (incoming, file) = IncomingFile::create(&self.path, &lock)
            .map_err(|error| self.write_refusal("cannot write into", &error))?;
        self.incoming = Some(incoming);
        Ok(file)
    }

    fn publish(&mut self, file: File) -> Result<String, Refusal> {
        let damaged = |error: &dyn std::fmt::Display| {
            Refusal::new(RefusalKind::Request, format!("not a release: {error}"))
        };
        let archive = Archive::from_file(&file, Loading::Mapped).map_err(|error| damaged(&error))?;
        let (serial, digest) = (archive.facts().serial, archive.facts().digest.to_string());
        drop(archive);
        file.sync_all().map_err(|error| self.write_refusal("cannot write into", &error))?;

        let _lock = self.lock()?;
        let directory = self.read()?;
        let incoming = self.incoming.take().ok_or_else(|| damaged(&"its file is missing"))?;
        let plain = format!("{serial}.cdb");
        let is_taken = fs::symlink_metadata(self.path.join(&plain)).is_ok();
        let name = match with_digest(&directory, &digest) {
            // Another client may have pushed the same release meanwhile. Otherwise, the file is damaged, and replaced.
            Some(release) => {
                let path = directory.release_path(&release.name);
                let archive = Archive::open(&path, Loading::Mapped);
                if archive.is_ok_and(|archive| archive.verify_digest().is_ok()) {
                    self.verified = Some(digest);
                    return Ok(text(&release.name));
                }
                text(&release.name)
            }
            None if is_taken => format!("{serial}-{}.cdb", &digest[..NAME_DIGITS]),
            None => plain,
        };
        self.verified = Some(digest);
        // Before the archive, so that a release is never without its statement.
        let signed = self.signed.take();
        let written = |error: io::Error| self.write_refusal("cannot write into", &error);
        if let Some(signed) = signed {
            release_trust::write_signed(&self.path, &name, &signed).map_err(written)?;
        }
        incoming.rename(file, &self.path.join(&name)).map_err(written)?;
        Ok(name)
    }

    fn activate(&mut self, activate: &Activate) -> Result<Activated, Refusal> {
        let mut activated = self.switch(activate)?;
        // The lock is free by now, so other publishers needn't wait for the command.
        let activation = self.activation(&activated);
        if let (Some(hook), Some(activation)) = (&mut self.hook, activation) {
            let failed = match hook.run(&activation) {
                Ok(outcome) => outcome.err(),
                Err(ended) => Some(ended.to_string()),
            };
            activated.warning = joined([activated.warning.take(), failed]);
        }
        Ok(activated)
    }

    fn select_preview(&mut self, preview: &Preview) -> Result<(), Refusal> {
        if self.preview.is_some() {
            return Err(Refusal::new(RefusalKind::Protocol, "a preview was selected before"));
        }
        if self.preview_domains.is_empty() {
            let message = format!("no previews are published in {}", self.path.display());
            return Err(Refusal::new(RefusalKind::Host, message)
                .hint("add `--preview-domain DOMAIN` to the command of the key, `cannery receive`"));
        }
        let selected = SelectedPreview::select(&self.path, &self.preview_domains, preview)?;
        self.path.push(&preview.host);
        self.preview = Some(selected);
        Ok(())
    }

    fn remove_preview(&mut self) -> Result<Removed, Refusal> {
        if self.preview.is_none() {
            return Err(Refusal::new(RefusalKind::Protocol, "no preview was selected"));
        }
        Ok(Removed { existed: preview::remove(&self.path)? })
    }
}

impl DirectoryHost {
    /// Describes the last switch for `--on-activate`. Returns `None` if the release was current before.
    pub(super) fn activation(&self, activated: &Activated) -> Option<Activation> {
        let is_new = activated.before.is_some() || !self.had_current;
        is_new.then(|| self.activation_of(activated.name.clone(), activated.serial, activated.before.clone()))
    }

    /// Describes a switch to a release for `--on-activate`.
    pub(super) fn activation_of(&self, release: String, serial: u64, before: Option<String>) -> Activation {
        let target = fs::canonicalize(&self.path).unwrap_or(self.path.clone()).display().to_string();
        Activation { target, release, serial, before }
    }

    /// Removes old releases after one was staged, which may be older than those.
    pub(super) fn prune_after_staging(&mut self, staged: &str, keep: u32) -> Result<(), Refusal> {
        let _lock = self.lock()?;
        self.prune(usize::try_from(keep).unwrap_or(usize::MAX), Some(staged), &mut Vec::new())
    }

    /// Makes another release current, and removes old ones.
    pub(super) fn switch(&mut self, activate: &Activate) -> Result<Activated, Refusal> {
        self.check_is_releases()?;
        if !self.path.exists() {
            return Err(self.missing());
        }
        if let Some(milliseconds) = activate.settle_ms {
            // Without the lock, so that others can publish meanwhile.
            let directory = self.read()?;
            let release = select(&directory, &activate.release)?;
            releases::settle(&mut *self.clock, &directory, release, Settling::requested(milliseconds));
        }
        let lock = self.lock()?;
        release_dir::clean(&self.path, &lock).map_err(|error| self.write_refusal("cannot clean", &error))?;
        let directory = self.read()?;
        let release = select(&directory, &activate.release)?;
        let is_verified = match &activate.release {
            Selector::Digest(digest) => self.verified.as_ref() == Some(digest),
            Selector::Name(_) => false,
        };

        let name = release.name.clone();
        let path = directory.release_path(&name);
        let digest = release.label.as_ref().map_or("", |label| label.digest.as_str());
        let admitted = self.check_signed(activate.signed.as_ref(), digest)?;
        if !is_verified {
            let archive = Archive::open(&path, Loading::Mapped).map_err(|error| damaged(&name, &error))?;
            archive.verify_digest().map_err(|error| damaged(&name, &error))?;
        }
        let warning = releases::lost_paths(&directory, &name).map_err(refused)?;
        let before = directory.current.clone().filter(|current| *current != name);
        self.had_current = directory.current.is_some();
        if let Some(signed) = &activate.signed {
            // First, so that after a crash an older release can't become current.
            release_trust::write_signed(&self.path, &text(&name), signed)
                .and_then(|()| match &admitted {
                    Some((_, seen)) => release_trust::write_seen(&self.path, seen),
                    None => Ok(()),
                })
                .map_err(|error| self.write_refusal("cannot write into", &error))?;
        }
        if let Some(preview) = &self.preview {
            // First, so that it is never served without its password.
            preview.write(&self.path)?;
        }
        if directory.current.as_ref() != Some(&name) {
            directory
                .set_current(&name)
                .map_err(|error| refused(releases::switch_failure(&directory, &error)))?;
        }

        // The release is live from here on, and `--on-activate` must run for it. So these failures are only warnings.
        let synced = directory.sync().map_err(|error| {
            format!("{} is live, but a crash of the machine may undo the switch: {error}", text(&name))
        });
        let mut removed = Vec::new();
        let pruned = activate.keep.map_or(Ok(()), |keep| {
            let keep = usize::try_from(keep).unwrap_or(usize::MAX);
            self.prune(keep, None, &mut removed).map_err(|refusal| refusal.message)
        });
        Ok(Activated {
            name: text(&name),
            serial: release.label.as_ref().map_or(0, |label| label.serial),
            before: before.as_deref().map(text),
            removed,
            warning: joined([warning, synced.err(), pruned.err()]),
        })
    }
}

/// Joins warnings to one text, if there are any.
fn joined(warnings: impl IntoIterator<Item = Option<String>>) -> Option<String> {
    let warnings: Vec<_> = warnings.into_iter().flatten().collect();
    (!warnings.is_empty()).then(|| warnings.join("; "))
}

fn select<'a>(directory: &'a ReleaseDir, selector: &Selector) -> Result<&'a Release, Refusal> {
    match selector {
        Selector::Digest(digest) => with_digest(directory, digest).ok_or_else(|| {
            let message = format!("the host has no release with the digest {digest}");
            Refusal::new(RefusalKind::Request, message).hint("another push has removed it: push again")
        }),
        Selector::Name(name) => releases::find(directory, name, Asker::Client).map_err(refused),
    }
}

fn with_digest<'a>(directory: &'a ReleaseDir, digest: &str) -> Option<&'a Release> {
    directory.releases.iter().find(|release| release.label.as_ref().is_ok_and(|label| label.digest == digest))
}

fn info(directory: &ReleaseDir, release: &Release) -> ReleaseInfo {
    let label = release.label.as_ref();
    ReleaseInfo {
        name: text(&release.name),
        current: directory.is_current(release),
        bytes: release.bytes,
        serial: label.ok().map(|label| label.serial),
        digest: label.ok().map(|label| label.digest.clone()),
        paths: label.map_or(0, |label| label.paths),
        date: release.date(),
        damaged: label.err().map(ToString::to_string),
        signed: statement_files::read_signed(&directory.path.join(&release.name)).ok().flatten(),
        state: Some(directory.state(release)),
    }
}

fn damaged(name: &OsString, error: &dyn std::fmt::Display) -> Refusal {
    Refusal::new(RefusalKind::Host, format!("{}: {error}", text(name)))
        .hint("delete it on the host, and push again; archives cannot be repaired")
}

/// Turns a failure of another command into a refusal.
fn refused(failure: Failure) -> Refusal {
    match failure {
        Failure::Message { exit: Exit::Output, message, hint, .. } => {
            Refusal { kind: RefusalKind::Write, message, hint }
        }
        Failure::Message { message, hint, .. } => Refusal { kind: RefusalKind::Request, message, hint },
        Failure::Clap(_) | Failure::Reported(_) | Failure::PipeClosed => {
            Refusal::new(RefusalKind::Host, "an internal error")
        }
    }
}

fn text(name: &OsStr) -> String {
    name.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use cannery_archive::Writers;

    use super::*;

    #[test]
    fn received_release_gets_its_name_without_a_writer() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("releases");
        let built = folder.path().join("built.cdb");
        fs::create_dir(folder.path().join("public")).unwrap();
        fs::write(folder.path().join("public/index.html"), "a page").unwrap();
        let options = cannery_archiver::Options::new(folder.path().join("public"), &built);
        cannery_archiver::compile(&options, &()).unwrap();

        let mut host = DirectoryHost::new(&directory, None);
        let mut file = host.create().unwrap();
        io::Write::write_all(&mut file, &fs::read(&built).unwrap()).unwrap();
        assert!(release_dir::is_receiving(&directory));
        let archive = directory.join(host.publish(file).unwrap());
        assert_ne!(cannery_archive::writers(&File::open(archive).unwrap()), Writers::Present);
        assert!(!release_dir::is_receiving(&directory));
    }

    #[test]
    fn preview_that_is_removed_meanwhile_is_created_again() {
        let sites = tempfile::tempdir().unwrap();
        let mut host = DirectoryHost::new(sites.path(), None);
        host.preview_domains = vec!["example".to_owned()];
        let selected = Preview { host: "a.example".to_owned(), expires: None, password: None };
        host.select_preview(&selected).unwrap();
        let directory = sites.path().join("a.example");
        drop(host.create().unwrap());
        host.abandon();

        let lock = ReleaseDir::lock(&directory).unwrap();
        thread::scope(|scope| {
            let created = scope.spawn(|| host.create().map(drop));
            // Usually, the thread waits for the lock by now.
            thread::sleep(Duration::from_millis(100));
            fs::rename(&directory, sites.path().join(".removed-1")).unwrap();
            drop(lock);
            created.join().unwrap().unwrap();
        });
        assert!(directory.join("preview.json").exists());
    }
}
