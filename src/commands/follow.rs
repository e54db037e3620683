//! `cannery follow`: pulls the current release of a store into a release directory, again and again. It also pulls a staged release, so
//! that the server has its files before another node switches to it.
//!
//! The directory is that of `cannery receive`, and releases get into it in the same way ([`DirectoryHost`]). So whatever happens to
//! this process, the directory has only complete releases, and the server serves one of them.

mod report;
mod state;

#[cfg(test)]
mod simulation;

use std::collections::hash_map::RandomState;
use std::fs::{self, File};
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::net::ToSocketAddrs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use cannery_archive::Digest;
use cannery_publish::protocol::{Activate, Offer, Refusal, RefusalKind, Releases, Selector};
use cannery_publish::{Host, RebuildError};
use cannery_server::sandbox::{Plan, Sandbox};
use cannery_store::{Address, Look, PullError, PullReport, Store, StoredRelease, pull};
use cannery_trust::{Seen, Statement};

use super::credentials_process;
use super::hook_process::{self, HookProcess};
use super::on_activate::{Activation, Hook};
use super::receive::DirectoryHost;
use super::release_dir::{self, ReleaseDir};
use super::release_trust::ReleaseTrust;
use super::store_access;
use crate::flags::follow::Follow;
use crate::output::{self, Failure, one_line};
use report::{Event, Report};
use state::State;

/// Time until a staged release is tried again after the first failure.
const STAGED_RETRY_AFTER: Duration = Duration::from_secs(5);

/// The longest time between two looks after failures.
const BACKOFF_MAX: Duration = Duration::from_secs(300);

/// The file whose lock shows that a process follows a store into this directory.
const LOCK: &str = ".follow.lock";

/// Runs the command.
///
/// # Errors
///
/// Returns an error if the directory or a key can't be used. With `--once`, also if the directory isn't up to date in the end, or if
/// the command of `--on-activate` failed.
pub fn run(flags: &Follow) -> Result<(), Failure> {
    if let Some(hook) = Hook::from_flags(&flags.hook).filter(|_| flags.for_follow) {
        return hook_process::serve(&hook.quiet(flags.quiet));
    }
    let address = store_access::parse(&flags.store)?.ok_or_else(|| {
        Failure::usage(format!("`{}` is not a store", one_line(&flags.store))).hint(
            "write oci://REGISTRY/REPOSITORY:TAG, s3://BUCKET/PREFIX, https://HOST/PATH/ or file:///DIR",
        )
    })?;
    if flags.credentials_for_follow {
        return credentials_process::serve(&address, &store_access::settings(&flags.connection)?);
    }
    let trust = ReleaseTrust::from_flags(&flags.trust)?;
    if trust.is_none() && !flags.unsigned {
        return Err(Failure::usage("whose releases to accept isn't said")
            .hint("name the key that signs them with `--public-key FILE`, or accept any with `--unsigned`"));
    }
    if trust.is_none() && address.is_plain_http() {
        return Err(Failure::usage("releases that aren't signed can be changed on the way without TLS")
            .hint("use https, or sign releases and name the key with `--public-key`"));
    }
    let directory = prepare_directory(&flags.into)?;
    let _lock = lock(&directory)?;
    let (login, credentials_ended) = credentials_process::login(flags, &address)?;
    let store = store_access::open_with(&address, &store_access::settings(&flags.connection)?, login)
        .map_err(|failure| failure.about(&address))?;
    // Loads what the C library needs to resolve names, while that is possible.
    let _ = ("localhost", 0).to_socket_addrs();
    let hook = HookProcess::for_follow(flags)?;
    enter_sandbox(flags, &address, &directory)?;

    clean(&directory)?;
    let report = Report::new(flags.json, flags.quiet);
    report.event(&Event::Started { store: &address, directory: &directory });
    let mut follower = Follower {
        store,
        host: DirectoryHost::new(&directory, trust),
        keep: flags.keep,
        settle: flags.settle,
        once: flags.once,
        hook,
        hook_ended: None,
        staged_retry: None,
        has_looked: false,
        version: None,
        state: State::read(&directory, &address.to_string()),
        directory,
        address,
        report,
    };
    if flags.once {
        let resumed = follower.resume();
        let stepped = follower.step();
        return match (resumed, stepped) {
            (resumed, Ok(())) => resumed,
            (Ok(()), stepped) => stepped,
            (resumed, stepped) => {
                // The exit code is that of the look.
                let _ = output::report(resumed);
                stepped
            }
        };
    }
    let mut failures = 0;
    loop {
        // Without `--once`, a failure of the command is only reported.
        let resumed = follower.resume();
        // A switch now would need the command, too.
        let can_run_command = follower.hook_ended.is_none();
        let stepped = if can_run_command { resumed.and_then(|()| follower.step()) } else { resumed };
        // In the sandbox, no other process can be started. The service manager should start this one again.
        if let Some(why) = follower.hook_ended.take() {
            return Err(Failure::failed(why));
        }
        if credentials_ended.load(Ordering::Relaxed) {
            // It was reported as the reason of the failure.
            return Err(Failure::failed("the process that finds credentials has ended"));
        }
        match stepped {
            Ok(()) => failures = 0,
            // It was reported. A release that was refused for good isn't asked for again, and a staged one has a time of its own, so that
            // this is a look like others.
            Err(_) if follower.state.is_refused() || follower.has_looked => failures = 0,
            Err(_) => failures += 1,
        }
        thread::sleep(delay(flags.interval(), failures, chance()));
    }
}

/// Returns the time until the next look: doubled with each failure in a row, and up to a quarter longer by chance, so that nodes that
/// failed together don't try again together.
fn delay(interval: Duration, failures: u32, chance: f64) -> Duration {
    let doubled = interval.saturating_mul(1 << failures.min(16));
    let longest = BACKOFF_MAX.max(interval);
    doubled.min(longest).mul_f64(1.0 + chance / 4.0)
}

/// Returns a random number in `0.0..1.0`.
fn chance() -> f64 {
    let random = RandomState::new().build_hasher().finish();
    f64::from(u32::try_from(random >> 32).unwrap_or_default()) / f64::from(u32::MAX)
}

fn prepare_directory(path: &Path) -> Result<PathBuf, Failure> {
    match fs::create_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            let failure = Failure::output(format!("cannot create the directory {}: {error}", path.display()));
            return Err(failure.hint_if(release_dir::remedy(path, &error)));
        }
        _ => {}
    }
    // The sandbox allows this directory, so a symbolic link to it must not be followed elsewhere later.
    fs::canonicalize(path)
        .map_err(|error| Failure::output(format!("cannot use the directory {}: {error}", path.display())))
}

/// Makes sure that no other process follows a store into the directory.
fn lock(directory: &Path) -> Result<File, Failure> {
    let path = directory.join(LOCK);
    let file = File::create(&path).map_err(|error| {
        Failure::output(format!("cannot write {}: {error}", path.display()))
            .hint_if(release_dir::remedy(directory, &error))
    })?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => {
            Err(Failure::failed(format!("another process follows a store into {}", directory.display()))
                .hint("stop it first, or use another directory"))
        }
        Err(fs::TryLockError::Error(error)) => {
            Err(Failure::output(format!("cannot lock {}: {error}", path.display())))
        }
    }
}

/// Removes what a process that was killed has left.
fn clean(directory: &Path) -> Result<(), Failure> {
    ReleaseDir::lock(directory).and_then(|lock| release_dir::clean(directory, &lock)).map_err(|error| {
        Failure::output(format!("cannot write into the directory {}: {error}", directory.display()))
    })
}

fn enter_sandbox(flags: &Follow, address: &Address, directory: &Path) -> Result<(), Failure> {
    let read_below = address.folder().map(Path::to_owned).into_iter().collect();
    let plan = Plan {
        sandbox: flags.sandbox.policy,
        write: vec![directory.to_owned()],
        read_below,
        ..Plan::default()
    };
    let (_, report) = Sandbox::enter(&plan).map_err(|error| Failure::failed(error.to_string()))?;
    for message in &report.unreachable {
        output::note(one_line(message));
    }
    Ok(())
}

/// A process that follows a store.
struct Follower {
    store: Box<dyn Store>,
    /// Set if the staged release couldn't be pulled.
    staged_retry: Option<StagedRetry>,
    /// Whether the last look has found the current release, and pulled it unless it was refused.
    has_looked: bool,
    host: DirectoryHost,
    keep: u32,
    /// Milliseconds between pulling a release and switching to it.
    settle: u64,
    once: bool,
    /// Runs the command of `--on-activate`.
    hook: Option<HookProcess>,
    /// Set if the process that runs the command has ended.
    hook_ended: Option<String>,
    /// The version of the document that was handled last.
    version: Option<String>,
    state: State,
    directory: PathBuf,
    address: Address,
    report: Report,
}

/// Why a release isn't served or staged.
enum Obstacle {
    /// It won't be acceptable later, either.
    Refused(Failure),
    /// The next attempt may succeed.
    Failed(Failure),
}

impl Obstacle {
    /// Says that the staged release is meant.
    fn about_staged(self, serial: u64) -> Obstacle {
        let subject = format!("the staged release {serial} can't be pulled");
        match self {
            Obstacle::Refused(failure) => Obstacle::Refused(failure.about(subject)),
            Obstacle::Failed(failure) => Obstacle::Failed(failure.about(subject)),
        }
    }
}

/// A staged release that couldn't be pulled, and when to try again.
struct StagedRetry {
    digest: Digest,
    why: String,
    /// Failures before the last one.
    failures: u32,
    due: Instant,
}

/// The outcome of a look at the store.
struct Looked {
    /// The switch, if another release became current.
    activation: Option<Activation>,
    /// The release that should be pulled without a switch.
    staged: Option<StoredRelease>,
    /// Why the current release of the store isn't served.
    refusal: Option<Failure>,
}

/// A fault of this machine.
fn local(refusal: Refusal) -> Obstacle {
    Obstacle::Failed(Failure::failed(refusal.message).hint_if(refusal.hint))
}

impl Follower {
    /// Runs the command of `--on-activate` if it was not run after the last switch: the last process was ended before it could, or a
    /// release in the same directory can't be read since then.
    fn resume(&mut self) -> Result<(), Failure> {
        let Some(activation) = self.state.pending.take() else { return Ok(()) };
        let Ok(releases) = self.host.releases() else {
            // The next look may know whether it is current.
            self.state.pending = Some(activation);
            return Ok(());
        };
        if releases.current().is_some_and(|current| current.name == activation.release) {
            self.run_hook(&activation)
        } else {
            // The switch never happened.
            Ok(())
        }
    }

    /// Looks at the store once, and pulls what is new. Runs the command of `--on-activate` after a switch, and then pulls the staged release.
    /// Failures are reported.
    fn step(&mut self) -> Result<(), Failure> {
        let looked = self.look();
        let is_current_served = matches!(&looked, Ok(Looked { refusal: None, .. }));
        self.has_looked = looked.is_ok();
        let hook_outcome = match &looked {
            Ok(Looked { activation: Some(activation), .. }) => {
                self.state.record(None, false);
                self.run_hook(activation)
            }
            _ => Ok(()),
        };
        let outcome = match looked {
            Ok(Looked { staged, refusal, .. }) => {
                // A current release that was refused may be the reason why another one is staged.
                let staged = match staged {
                    Some(staged) => self.stage_when_due(&staged),
                    None => {
                        self.staged_retry = None;
                        Ok(())
                    }
                };
                if matches!(staged, Err(Obstacle::Failed(_))) {
                    // The next look must try again.
                    self.version = None;
                }
                match (staged, refusal) {
                    (Ok(()) | Err(Obstacle::Refused(_)), Some(refusal)) => Err(Obstacle::Refused(refusal)),
                    // The refusal matters more. The next look tries both again.
                    (Err(Obstacle::Failed(_)), Some(refusal)) => Err(Obstacle::Failed(refusal)),
                    (staged, _) => staged,
                }
            }
            Err(obstacle) => Err(obstacle),
        };
        let error = match &outcome {
            Ok(()) => None,
            Err(Obstacle::Refused(failure) | Obstacle::Failed(failure)) => Some(failure),
        };
        let is_refused = matches!(outcome, Err(Obstacle::Refused(_)));
        let is_new = self.state.record(error.map(super::publish::reason), is_refused);
        // A single look returns its failure, unless the current release is served.
        let is_returned = self.once && !is_current_served;
        if let Some(failure) = error.filter(|_| (is_new || self.once) && !is_returned) {
            let releases = self.host.releases().ok();
            let current = releases.as_ref().and_then(Releases::current);
            self.report.event(&Event::Failed { failure, state: &self.state, current });
        }
        self.write_state();
        match outcome {
            Ok(()) => hook_outcome,
            Err(_) if self.once && is_current_served => hook_outcome,
            Err(Obstacle::Refused(failure) | Obstacle::Failed(failure)) => Err(failure),
        }
    }

    /// Pulls the staged release, unless that failed a moment ago. Meanwhile, looks for the current one go on.
    fn stage_when_due(&mut self, release: &StoredRelease) -> Result<(), Obstacle> {
        let before = self.staged_retry.take().filter(|retry| retry.digest == release.digest);
        if let Some(retry) = before.as_ref().filter(|retry| Instant::now() < retry.due) {
            // With the same text, it isn't reported again.
            let failure = Failure::failed(retry.why.clone());
            self.staged_retry = before;
            return Err(Obstacle::Failed(failure));
        }
        let staged = self.stage(release);
        if let Err(Obstacle::Failed(failure)) = &staged {
            let failures = before.map_or(0, |retry| retry.failures + 1);
            self.staged_retry = Some(StagedRetry {
                digest: release.digest,
                why: super::publish::reason(failure),
                failures,
                due: Instant::now() + delay(STAGED_RETRY_AFTER, failures, chance()),
            });
        }
        staged
    }

    fn write_state(&self) {
        if let Err(error) = self.state.write(&self.directory) {
            // Serving doesn't depend on it.
            output::note(format_args!("cannot write the state into {}: {error}", self.directory.display()));
        }
    }

    /// Runs the command of `--on-activate`. Its failure is only returned with `--once`: the release is live, so there is nothing to try
    /// again.
    fn run_hook(&mut self, activation: &Activation) -> Result<(), Failure> {
        // Before the command runs, so that operators don't take its time for a delay of the release, and so that it runs once.
        self.state.pending = None;
        self.write_state();
        let Some(hook) = &mut self.hook else { return Ok(()) };
        let started = Instant::now();
        let error = match hook.run(activation) {
            Ok(outcome) => outcome.err(),
            Err(ended) => {
                let why = ended.to_string();
                // The next process runs it.
                self.state.pending = (!ended.has_started).then(|| activation.clone());
                self.hook_ended = Some(why.clone());
                Some(why)
            }
        };
        self.state.record_hook(error.clone());
        self.write_state();

        match error {
            Some(why) if self.once => {
                Err(Failure::failed(format!("the release is live, but `--on-activate` failed: {why}"))
                    .hint("run that command by hand: the same release isn't switched to again"))
            }
            error => {
                let elapsed = started.elapsed();
                self.report.event(&Event::HookEnded { activation, error: error.as_deref(), elapsed });
                Ok(())
            }
        }
    }

    /// Looks at the store, and serves its current release.
    fn look(&mut self) -> Result<Looked, Obstacle> {
        let failed = |failure: Failure| Obstacle::Failed(failure);
        let look = self.store.look(self.version.as_deref());
        let look = look.map_err(|error| failed(store_access::failure(&self.address, &error)))?;
        self.state.reach();
        match look {
            Look::Same => match self.state.refusal() {
                Some(reason) => Err(Obstacle::Refused(Failure::failed(reason))),
                None => Ok(Looked { activation: None, staged: None, refusal: None }),
            },
            Look::Empty => Err(failed(
                Failure::failed(format!("{} has no release yet", self.address))
                    .hint("push one with `cannery push`"),
            )),
            Look::New { site, version } => {
                self.state.announce(&site);
                let (activation, refusal) = match self.apply(&site.current) {
                    Ok(activation) => (activation, None),
                    Err(Obstacle::Refused(refusal)) => (None, Some(refusal)),
                    Err(failed) => return Err(failed),
                };
                self.version = Some(version);
                Ok(Looked { activation, staged: site.staged, refusal })
            }
        }
    }

    /// Checks the signature of a release, before anything is transferred. Returns the statement if one is demanded, and what was seen
    /// after it.
    fn check(&mut self, release: &StoredRelease) -> Result<Option<(Statement, Seen)>, Obstacle> {
        let digest = release.digest.to_string();
        // Faults of this machine may end, but a release that was refused does not change.
        let refused = |refusal: Refusal| match refusal.kind {
            RefusalKind::Host | RefusalKind::Write => local(refusal),
            _ => Obstacle::Refused(Failure::failed(refusal.message).hint_if(refusal.hint)),
        };
        let checked = self.host.check_signed(release.signed.as_ref(), &digest).map_err(refused)?;
        let offer = Offer { digest, base: None, signed: release.signed.clone(), retries: false };
        self.host.admit(&offer).map_err(refused)?;
        Ok(checked)
    }

    /// Pulls a release into the directory, under a name of its own. Returns the name. `bytes` is the length of the archive, if its
    /// signature says it.
    fn pull(
        &mut self,
        release: &StoredRelease,
        bytes: Option<u64>,
    ) -> Result<(String, PullReport), Obstacle> {
        let sources = self.host.sources();
        let host = &mut self.host;
        let mut create = || host.create().map_err(|refusal| with_hint(&refusal));
        let (file, report) = match pull(&mut *self.store, release, sources, bytes, &mut create) {
            Ok(pulled) => pulled,
            Err(error) => {
                self.host.abandon();
                return Err(Obstacle::Failed(self.pull_failure(&error)));
            }
        };
        for name in &report.damaged {
            output::note(format_args!(
                "note: {} is damaged, so its contents were transferred again; delete it",
                one_line(name)
            ));
        }
        Ok((self.host.publish(file).map_err(local)?, report))
    }

    /// Pulls the release that the store will make current, and doesn't switch to it. The server answers for its immutable files, so other
    /// nodes may switch before this one. Its statement must be as good as that of a current release, but isn't recorded as seen.
    fn stage(&mut self, release: &StoredRelease) -> Result<(), Obstacle> {
        let started = Instant::now();
        let checked = self.check(release).map_err(|obstacle| obstacle.about_staged(release.serial))?;
        if self.host.find_intact(&release.digest.to_string()).map_err(local)?.is_none() {
            let bytes = checked.as_ref().map(|(statement, _)| statement.bytes);
            let (name, transfer) =
                self.pull(release, bytes).map_err(|obstacle| obstacle.about_staged(release.serial))?;
            // Otherwise, a store could fill the disk with releases that never become current.
            if let Err(refusal) = self.host.prune_after_staging(&name, self.keep) {
                output::note(format_args!("note: {}", one_line(&with_hint(&refusal))));
            }
            self.state.transferred(&transfer);
            self.report.event(&Event::Staged {
                name: &name,
                serial: release.serial,
                transfer: &transfer,
                archive_bytes: release.archive.bytes,
                elapsed: started.elapsed(),
            });
        }
        self.state.stage(release);
        // The switch may be a day away, and the file must be intact then.
        self.host.forget_verified();
        Ok(())
    }

    /// Serves a release, after it was pulled if necessary. Returns the switch unless the release was current before.
    fn apply(&mut self, release: &StoredRelease) -> Result<Option<Activation>, Obstacle> {
        let started = Instant::now();
        let digest = release.digest.to_string();
        let checked = self.check(release)?;
        let before = self.host.releases().map_err(local)?;
        let is_current = before.current().is_some_and(|current| current.digest.as_deref() == Some(&*digest));
        let seen = self.host.seen().map_err(local)?;
        if is_current && checked.as_ref().map(|(_, seen)| seen) == seen.as_ref().filter(|_| checked.is_some())
        {
            self.state.serve(release);
            return Ok(None);
        }

        let mut transfer = PullReport::default();
        let mut name = self.host.find_intact(&digest).map_err(local)?;
        if name.is_none() {
            let bytes = checked.as_ref().map(|(statement, _)| statement.bytes);
            let (pulled, report) = self.pull(release, bytes)?;
            (name, transfer) = (Some(pulled), report);
        }
        let activate = Activate {
            release: Selector::Digest(digest),
            keep: Some(self.keep),
            signed: release.signed.clone(),
            // No process of the server may serve the new pages before all of them know the new files.
            settle_ms: Some(self.settle),
        };
        let current = before.current().map(|current| current.name.clone());
        // The command after an earlier switch, if it has yet to run.
        let earlier = self.state.pending.clone();
        if let (Some(_), Some(name), false) = (&self.hook, name, is_current) {
            self.state.pending = Some(self.host.activation_of(name, release.serial, current));
            self.write_state();
        }
        let switched = self.host.switch(&activate);
        self.state.pending = if switched.is_err() || is_current { earlier } else { None };
        let activated = switched.map_err(local)?;
        if let Some(warning) = activated.warning.as_ref().filter(|_| !self.report.is_quiet()) {
            output::note(format_args!("note: {}", one_line(warning)));
        }
        self.state.serve(release);
        self.state.transferred(&transfer);
        self.report.event(&Event::Activated {
            activated: &activated,
            transfer: &transfer,
            archive_bytes: release.archive.bytes,
            elapsed: started.elapsed(),
        });
        Ok(self.host.activation(&activated))
    }

    fn pull_failure(&self, error: &PullError) -> Failure {
        let failure = Failure::failed(format!("{}: {error}", self.address));
        match error {
            PullError::Store(error) => store_access::failure(&self.address, error),
            PullError::Rebuild(RebuildError::Write(_)) => Failure::output(format!(
                "cannot write the release into {}: {error}",
                self.directory.display()
            ))
            .hint("make room there; the old release is still served"),
            PullError::Create(message) => Failure::output(message.clone()),
            PullError::Unstable => failure.hint("check the disk"),
            _ => failure
                .hint("the store or something on the way to it sends wrong bytes; push the release again"),
        }
    }
}

fn with_hint(refusal: &Refusal) -> String {
    match &refusal.hint {
        Some(hint) => format!("{refusal} ({hint})"),
        None => refusal.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delay_doubles_up_to_five_minutes() {
        let interval = Duration::from_secs(5);
        let seconds = |failures, chance| delay(interval, failures, chance).as_secs();
        assert_eq!([0, 1, 2, 3].map(|failures| seconds(failures, 0.0)), [5, 10, 20, 40]);
        assert_eq!((seconds(u32::MAX, 0.0), seconds(u32::MAX, 1.0)), (300, 375));
        assert_eq!(delay(Duration::from_secs(3600), 9, 0.0).as_secs(), 3600);
        assert!((0.0..=1.0).contains(&chance()));
    }
}
