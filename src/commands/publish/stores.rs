//! `cannery push`, `rollback` and `status` with stores, from which nodes pull releases.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use cannery_archive::{Archive, Loading};
use cannery_publish::protocol::ReleaseState;
use cannery_publish::{RebuildError, Recipe};
use cannery_store::{
    Address, Blob, Look, PullError, Store, StoredRelease, StoredSite, UploadError, UploadReport,
    check_stored, pull, upload,
};
use cannery_trust::{Signed, Statement};
use serde::Serialize;

use super::cache::Cache;
use super::compile::{Previous, compile_after};
use super::fleet::{self, Member, check_quorum, failures, quorum};
use super::hooks::hook_outcome;
use super::moment::wait_until;
use super::signer::{self, Signer, not_ours, signed_beside};
use crate::commands::on_activate::{Activation, Hook};
use crate::commands::releases::{PREVIOUS, PUSH_INSTEAD};
use crate::commands::workplace::Workplace;
use crate::commands::{keys, open, release_dir, store_access, verify};
use crate::flags::follow::StoreFlags;
use crate::flags::publish::{Push, Rollback, Status};
use crate::format::{Table, bytes, counted, minute, percent, seconds};
use crate::output::{self, Failure, Paint, one_line};

/// Number of earlier releases that patches are made against.
const PATCHES: usize = 3;

/// Releases that are tried as the earlier one, if newer ones are damaged.
const BASES_FETCHED: usize = 3;

/// A store that was opened and read.
struct Opened {
    store: Box<dyn Store>,
    site: Option<StoredSite>,
    version: Option<String>,
}

/// A store that has the files of a release.
struct Uploaded {
    opened: Opened,
    release: StoredRelease,
    report: UploadReport,
    /// Whether the release was current before.
    was_current: bool,
    /// Whether the document names the release as the staged one, so that nodes pull it.
    is_staged: bool,
}

/// Returns the stores among the targets. Either all targets are stores, or none.
pub(super) fn parse(words: &[String]) -> Result<Option<Vec<Address>>, Failure> {
    let mut addresses = Vec::new();
    for word in words {
        let Some(address) = store_access::parse(word)? else { continue };
        if addresses.contains(&address) {
            return Err(Failure::usage(format!("the target {address} is named twice")));
        }
        addresses.push(address);
    }
    match addresses.len() {
        0 => Ok(None),
        count if count == words.len() => Ok(Some(addresses)),
        _ => Err(Failure::usage("stores and release directories can't be targets of the same command")
            .hint("run the command once for the stores, and once for the directories")),
    }
}

fn open_all(addresses: Vec<Address>, flags: &StoreFlags) -> Vec<Member<Opened, Address>> {
    fleet::start(addresses, |address| {
        let mut store = store_access::open(address, flags)?;
        let look = store.look(None).map_err(|error| store_access::explain(&error))?;
        let (site, version) = match look {
            Look::New { site, version } => (Some(*site), Some(version)),
            Look::Empty | Look::Same => (None, None),
        };
        Ok(Opened { store, site, version })
    })
}

fn opened(members: &[Member<Opened, Address>]) -> impl Iterator<Item = (&Address, &Opened)> {
    members.iter().filter_map(|member| Some((&member.target, member.outcome.as_ref().ok()?)))
}

/// Returns the statements of all stores that our key has signed.
fn own_statements(signer: &Signer, members: &[Member<Opened, Address>]) -> Vec<Statement> {
    let own =
        |release: &StoredRelease| signer.own_statement(release.signed.as_ref(), &release.digest.to_string());
    releases(members).filter_map(own).collect()
}

/// Returns the highest sequence in the statements of all stores.
fn claimed_sequence(members: &[Member<Opened, Address>]) -> u64 {
    releases(members).filter_map(claimed_statement).map(|statement| statement.sequence).max().unwrap_or(0)
}

/// Returns what a store says that was signed.
fn claimed_statement(release: &StoredRelease) -> Option<Statement> {
    Statement::parse(&release.signed.as_ref()?.statement).ok()
}

fn releases(members: &[Member<Opened, Address>]) -> impl Iterator<Item = &StoredRelease> {
    opened(members).filter_map(|(_, opened)| opened.site.as_ref()).flat_map(StoredSite::releases)
}

/// The outcome of a command that has printed its result.
type Outcome = Result<(), Failure>;

#[derive(Serialize)]
struct PushedJson {
    serial: u64,
    digest: String,
    archive_bytes: u64,
    url: Option<String>,
    targets: Vec<PushedStoreJson>,
}

#[derive(Default, Serialize)]
struct PushedStoreJson {
    target: String,
    activated: bool,
    /// Whether nodes pull the release, although it isn't current.
    staged: bool,
    /// Whether the store had the archive before.
    known: bool,
    uploaded_bytes: u64,
    before: Option<u64>,
    /// Something that people should know.
    warning: Option<String>,
    /// Why the command of `--on-activate` failed.
    on_activate_error: Option<String>,
    error: Option<serde_json::Value>,
}

/// A store at the end.
struct Pushed {
    report: UploadReport,
    was_current: bool,
    is_staged: bool,
    is_activated: bool,
    /// The serial of the release that was current before.
    before: Option<u64>,
    warning: Option<String>,
    hook_error: Option<String>,
}

/// Pushes into stores: uploads to all of them, lets nodes pull the release, and then makes it current in all.
///
/// # Errors
///
/// Returns an error if nothing was printed yet. The inner one comes after the result, which has it in JSON.
pub(super) fn push(flags: &Push, addresses: Vec<Address>, site: &str) -> Result<Outcome, Failure> {
    let started = Instant::now();
    let quorum = quorum(flags, addresses.len())?;
    if !Path::new(site).exists() {
        return Err(Failure::input(format!("{}: no such file or folder", one_line(site)))
            .hint("the site comes last: `cannery push TARGET... SITE`"));
    }
    let signer = Signer::read(&flags.signing)?;
    for folder in addresses.iter().filter_map(Address::folder) {
        // Like a release directory, it is created if its parent exists.
        match std::fs::create_dir(folder) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                let message = format!("cannot create the store {}: {error}", folder.display());
                return Err(Failure::output(message).hint_if(release_dir::remedy(folder, &error)));
            }
            _ => {}
        }
    }
    let mut members = open_all(addresses, &flags.store);
    check_quorum(&mut members, quorum, "connected", flags)?;

    let cache = Cache::open(flags.cache.as_deref());
    let workplace = Workplace::new(Cache::workplace(cache.as_ref()))?;
    let is_folder = Path::new(site).is_dir();
    let path = if is_folder {
        let previous = previous(&mut members, signer.as_ref(), cache.as_ref(), workplace.path())?;
        compile_after(flags, Path::new(site), previous, cache.as_ref(), workplace.path())?
    } else {
        PathBuf::from(site)
    };
    let archive = open::open(&path)?;
    archive.verify_digest().map_err(|error| verify::failure(&path, &error))?;
    let recipe =
        Recipe::of(&archive).map_err(|error| Failure::input(format!("{}: {error}", path.display())))?;
    let signed = match &signer {
        Some(signer) => {
            let own = own_statements(signer, &members);
            Some(signer.sign(&archive, &own, claimed_sequence(&members))?)
        }
        None if is_folder => None,
        None => signed_beside(site, &archive)?,
    };

    let stages_first = flags.stage_only || flags.activate_at.is_some() || !flags.settle_nodes().is_zero();
    let mut staged = fleet::then(members, |_, mut opened| {
        let bases = bases(opened.site.as_ref(), cache.as_ref());
        let signed = signed.clone().or_else(|| kept_signature(opened.site.as_ref(), &archive));
        let uploaded = upload(&mut *opened.store, &archive, &recipe, &bases, signed, keys::now());
        let (release, report) = uploaded.map_err(|error| upload_failure(&error))?;
        let is_staged = stages_first && stage(&mut opened, &release)?;
        let current = opened.site.as_ref().map(|site| &site.current);
        let was_current = current.is_some_and(|current| current.digest == release.digest);
        Ok(Uploaded { opened, release, report, was_current, is_staged })
    });
    if let Some(cache) = &cache {
        cache.add_recipe(&recipe);
        if is_folder {
            cache.add_archive(&archive.facts().digest.to_string(), &path);
        }
    }
    check_quorum(&mut staged, quorum, "staged", flags)?;
    if !flags.stage_only {
        workplace.farewell(
            "interrupted: the release was uploaded, and no store was switched to it; the same command without \
             `--activate-at` switches"
                .to_owned(),
        );
        settle(flags, &staged);
        workplace.farewell(
            "interrupted while stores were switching: `cannery status` shows which ones have".to_owned(),
        );
    }

    let mut pushed = fleet::then(staged, |address, uploaded| switch(flags, address, uploaded));
    drop(workplace);
    let failed = run_hooks(flags, &mut pushed, archive.facts().serial);
    print(flags, &archive, &pushed, started)?;
    // The JSON value has the failures already.
    let step = if flags.stage_only { "staged" } else { "activated" };
    Ok(check_quorum(&mut pushed, quorum, step, flags).and_then(|()| hook_outcome(failed)))
}

/// Returns the signature that a store has for a release which is pushed again without one. Otherwise, nodes would refuse the release that
/// they serve.
fn kept_signature(site: Option<&StoredSite>, archive: &Archive) -> Option<Signed> {
    let digest = archive.facts().digest;
    let mut same = site?.releases().filter(|release| release.digest == digest);
    same.find_map(|release| release.signed.clone())
}

/// Names a release as the staged one of a store, so that its nodes pull it. Returns `false` if there is nothing to wait for: a store
/// without releases has no pages that could need files, and a current release is everywhere.
fn stage(opened: &mut Opened, release: &StoredRelease) -> Result<bool, Failure> {
    let Some(site) = opened.site.as_ref().filter(|site| site.current.digest != release.digest) else {
        return Ok(false);
    };
    let (next, unused) = StoredSite::with_staged(site, release.clone());
    point(opened, next, &unused)?;
    Ok(true)
}

/// Waits until nodes have pulled the release, and then for the moment that the user has chosen.
fn settle(flags: &Push, staged: &[Member<Uploaded, Address>]) {
    let staged = staged.iter().filter_map(|member| member.outcome.as_ref().ok());
    let count = staged.filter(|staged| staged.is_staged).count() as u64;
    if count > 0 && !flags.settle_nodes().is_zero() {
        if !flags.quiet && !flags.json {
            let left = seconds(flags.settle_nodes().as_secs_f64());
            output::note(format_args!(
                "staged in {}, so that nodes pull the release; switching in {left} (`--settle-nodes`)",
                counted(count, "store")
            ));
        }
        thread::sleep(flags.settle_nodes());
    }
    if let Some(moment) = flags.activate_at {
        wait_until(moment);
    }
}

/// Makes the release current in a store, unless it should only be staged.
fn switch(flags: &Push, address: &Address, uploaded: Uploaded) -> Result<Pushed, Failure> {
    let Uploaded { mut opened, release, report, was_current, is_staged } = uploaded;
    let live = opened.site.as_ref().map(|site| &site.current);
    let before = live.map(|live| live.serial);
    let warning = live
        .filter(|_| !was_current)
        .and_then(|live| signer::warning(live.signed.as_ref(), release.signed.as_ref()));
    if let Some(warning) = &warning {
        output::note(format_args!("{address}: note: {warning}"));
    }
    if !flags.stage_only {
        make_current(&mut opened, release, flags.keep)?;
    }
    let is_activated = !flags.stage_only;
    Ok(Pushed { report, was_current, is_staged, is_activated, before, warning, hook_error: None })
}

/// Runs the command of `--on-activate` for each store that has switched. Returns how often it failed.
fn run_hooks(flags: &Push, members: &mut [Member<Pushed, Address>], serial: u64) -> u64 {
    let Some(hook) = Hook::from_flags(&flags.hook) else { return 0 };
    let mut failed = 0;
    for Member { target, outcome, .. } in members {
        let Ok(pushed) = outcome else { continue };
        if !pushed.is_activated || pushed.was_current {
            continue;
        }
        let run = hook.run(&Activation {
            target: target.to_string(),
            release: serial.to_string(),
            serial,
            before: pushed.before.map(|serial| serial.to_string()),
        });
        if let Err(why) = run {
            output::note(format_args!("{target}: {} {why}", Paint::for_errors().error("failed:")));
            pushed.hook_error = Some(why);
            failed += 1;
        }
    }
    failed
}

fn upload_failure(error: &UploadError) -> Failure {
    match error {
        UploadError::Store(error) => store_access::explain(error),
        _ => Failure::input(error.to_string()),
    }
}

/// Makes a release current, and then removes what no release needs any more.
fn make_current(opened: &mut Opened, release: StoredRelease, keep: u32) -> Result<(), Failure> {
    let keep = usize::try_from(keep).unwrap_or(usize::MAX);
    let (next, unused) = StoredSite::with_current(opened.site.as_ref(), release, keep);
    point(opened, next, &unused)
}

/// Replaces the document of a store, unless another publisher has replaced it since we have read or written it. Then removes files that no
/// release has any more.
fn point(opened: &mut Opened, next: StoredSite, unused: &[Blob]) -> Result<(), Failure> {
    let explain = |error| store_access::explain(&error);
    if opened.site.is_some() && opened.version.is_none() {
        // It was written by us, and stores don't say which version it has.
        opened.version = match opened.store.look(None).map_err(explain)? {
            Look::New { site, version } if opened.site.as_ref() == Some(&*site) => Some(version),
            _ => {
                let message = "the list of releases was replaced by another publisher meanwhile";
                return Err(Failure::failed(message).hint("run the same command again"));
            }
        };
    }
    check_stored(&mut *opened.store, &next).map_err(explain)?;
    opened.store.point(&next, opened.version.as_deref()).map_err(explain)?;
    (opened.site, opened.version) = (Some(next), None);

    // Another publisher may have named these files meanwhile.
    if !unused.is_empty()
        && let Ok(Look::New { site, .. }) = opened.store.look(None)
    {
        for blob in unused.iter().filter(|unused| site.blobs().all(|blob| blob != **unused)) {
            // It only takes space.
            let _ = opened.store.remove(blob);
        }
    }
    Ok(())
}

/// Returns the serial of the newest release, and the archive of the newest one that may be built upon. The new release contains files
/// of it, so with a signer it must be one of ours.
fn previous(
    members: &mut [Member<Opened, Address>],
    signer: Option<&Signer>,
    cache: Option<&Cache>,
    workplace: &Path,
) -> Result<Previous, Failure> {
    let serial = releases(members).map(|release| release.serial).max().unwrap_or(0);
    let is_trusted = |release: &StoredRelease| {
        let statement =
            |signer: &Signer| signer.own_statement(release.signed.as_ref(), &release.digest.to_string());
        signer.is_none_or(|signer| statement(signer).is_some())
    };
    let all = members.iter().enumerate().flat_map(|(index, member)| {
        let site = member.outcome.as_ref().ok().and_then(|opened| opened.site.as_ref());
        let releases = site.into_iter().flat_map(StoredSite::releases);
        releases.filter(|release| is_trusted(release)).map(move |release| (index, release.clone()))
    });
    let mut candidates: Vec<_> = all.collect();
    candidates.sort_by_key(|(_, release)| std::cmp::Reverse((release.serial, release.date)));
    candidates.truncate(BASES_FETCHED);
    let path = workplace.join("previous.cdb");
    for (index, release) in &candidates {
        let digest = release.digest.to_string();
        if let Some(cached) = cache.and_then(|cache| cache.archive(&digest)) {
            let linked =
                std::fs::hard_link(&cached, &path).or_else(|_| std::fs::copy(&cached, &path).map(drop));
            linked.map_err(|error| Failure::output(format!("cannot write {}: {error}", path.display())))?;
            return Ok(Previous { serial, path: Some(path) });
        }
        let Member { target, outcome: Ok(opened), .. } = &mut members[*index] else { continue };
        match fetch(opened, release, &path) {
            Ok(()) => {}
            Err(error) if is_damage(&error) => {
                output::note(format_args!(
                    "{target}: note: release {} is damaged there, so it isn't built upon: {error}",
                    release.serial
                ));
                continue;
            }
            Err(error) => return Err(pull_failure(target, &error)),
        }
        if let Some(cache) = cache {
            cache.add_archive(&digest, &path);
            if let Ok(recipe) = Archive::open(&path, Loading::Mapped)
                .map_err(drop)
                .and_then(|archive| Recipe::of(&archive).map_err(drop))
            {
                cache.add_recipe(&recipe);
            }
        }
        return Ok(Previous { serial, path: Some(path) });
    }
    if !candidates.is_empty() {
        output::note(
            "note: no intact release could be fetched, so the new one has no files that open pages may still need",
        );
    }
    Ok(Previous { serial, path: None })
}

/// Pulls the archive of a release into a file, which may be there from an attempt that failed.
fn fetch(opened: &mut Opened, release: &StoredRelease, path: &Path) -> Result<(), PullError> {
    let mut create = || {
        File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(path)
            .map_err(|error| format!("cannot write {}: {error}", path.display()))
    };
    pull(&mut *opened.store, release, Vec::new(), None, &mut create).map(drop)
}

/// Whether the store has lost the release, or sends other bytes. Without the network, no other release would be better.
fn is_damage(error: &PullError) -> bool {
    match error {
        PullError::Store(error) => error.kind.is_damage(),
        PullError::Rebuild(RebuildError::Write(_)) | PullError::Create(_) => false,
        _ => true,
    }
}

fn pull_failure(address: &Address, error: &PullError) -> Failure {
    match error {
        PullError::Store(error) => store_access::failure(address, error),
        _ => Failure::failed(format!("{address}: {error}")),
    }
}

/// Returns recipes of the newest releases, as far as the cache has them.
fn bases(site: Option<&StoredSite>, cache: Option<&Cache>) -> Vec<Recipe> {
    let Some(cache) = cache else { return Vec::new() };
    let releases = site.into_iter().flat_map(StoredSite::releases).take(PATCHES);
    releases.filter_map(|release| cache.recipe(&release.digest.to_string())).collect()
}

fn print(
    flags: &Push,
    archive: &Archive,
    members: &[Member<Pushed, Address>],
    started: Instant,
) -> Result<(), Failure> {
    let facts = archive.facts();
    if flags.json {
        return output::print_json(&PushedJson {
            serial: facts.serial,
            digest: facts.digest.to_string(),
            archive_bytes: facts.file_bytes,
            url: flags.url.clone(),
            targets: members.iter().map(json).collect(),
        });
    }
    if flags.quiet {
        return Ok(());
    }
    let mut text = String::new();
    let mut is_live = false;
    for Member { target, outcome, .. } in members {
        let Ok(pushed) = outcome else { continue };
        is_live |= pushed.is_activated;
        let state = match (pushed.is_activated, pushed.before) {
            (false, _) if pushed.was_current => "was current already".to_owned(),
            (false, _) if pushed.is_staged => "is staged".to_owned(),
            (false, _) => "is uploaded".to_owned(),
            (true, _) if pushed.was_current => "was current already; nothing has changed".to_owned(),
            (true, Some(before)) => format!("is current, instead of release {before}"),
            (true, None) => "is current".to_owned(),
        };
        let total = percent(pushed.report.bytes, facts.file_bytes);
        text.push_str(&format!(
            "{}  release {} {state}; uploaded {}, {total} of the archive\n",
            Paint::for_results().strong(&target.to_string()),
            facts.serial,
            bytes(pushed.report.bytes),
        ));
    }
    if let Some(url) = flags.url.as_ref().filter(|_| is_live) {
        text.push_str(&format!("{url}  in {}\n", seconds(started.elapsed().as_secs_f64())));
    }
    output::print(text)
}

fn json(member: &Member<Pushed, Address>) -> PushedStoreJson {
    let target = member.target.to_string();
    match &member.outcome {
        Ok(pushed) => PushedStoreJson {
            target,
            activated: pushed.is_activated,
            staged: pushed.is_staged && !pushed.is_activated,
            known: pushed.report.was_known,
            uploaded_bytes: pushed.report.bytes,
            before: pushed.before,
            warning: pushed.warning.clone(),
            on_activate_error: pushed.hook_error.clone(),
            error: None,
        },
        Err(failure) => {
            PushedStoreJson { target, error: Some(failure.to_json()), ..PushedStoreJson::default() }
        }
    }
}

#[derive(Serialize)]
struct RolledBackJson {
    target: String,
    serial: Option<u64>,
    before: Option<u64>,
    error: Option<serde_json::Value>,
}

/// A store that was rolled back: the serials of the release that is current now and of the one before.
struct RolledBack {
    serial: u64,
    before: u64,
}

/// Makes an earlier release of each store current. Nothing is uploaded but the document.
///
/// # Errors
///
/// As for [`push`].
pub(super) fn rollback(flags: &Rollback, addresses: Vec<Address>) -> Result<Outcome, Failure> {
    let signer = Signer::read(&flags.signing)?;
    let members = open_all(addresses, &flags.store);
    let own = signer.as_ref().map(|signer| own_statements(signer, &members)).unwrap_or_default();
    let claimed = claimed_sequence(&members);
    let members = fleet::then(members, |address, mut opened| {
        let site = opened.site.as_ref().ok_or_else(|| {
            Failure::failed("the store has no releases").hint("`cannery push` publishes the first one")
        })?;
        let before = site.current.serial;
        let mut release = find(site, &flags.to).cloned().ok_or_else(|| match flags.to.as_str() {
            PREVIOUS => Failure::failed(format!("no release in the store comes before release {before}"))
                .hint(PUSH_INSTEAD),
            to => Failure::failed(format!("the store has no release `{}`", one_line(to)))
                .hint("`cannery status` lists the releases"),
        })?;
        release.signed = match (&signer, &release.signed) {
            (Some(signer), signed) => {
                let statement = signer.own_statement(signed.as_ref(), &release.digest.to_string());
                let statement = statement.filter(|statement| statement.serial == release.serial);
                let name = format!("release {} in {address}", release.serial);
                Some(signer.sign_again(statement.ok_or_else(|| not_ours(&name))?, &own, claimed)?)
            }
            (None, None) => {
                if let Some(warning) = signer::warning(site.current.signed.as_ref(), None) {
                    output::note(format_args!("{address}: note: {warning}"));
                }
                None
            }
            (None, Some(_)) => {
                return Err(Failure::failed(
                    "the releases are signed, so nodes would refuse an older statement",
                )
                .hint("sign it again: add `--secret-key FILE`"));
            }
        };
        let serial = release.serial;
        if flags.settle_nodes() > Duration::ZERO && stage(&mut opened, &release)? {
            if !flags.json {
                let time = seconds(flags.settle_nodes().as_secs_f64());
                output::note(format_args!("{address}: waiting for {time}, in which nodes pull the release"));
            }
            thread::sleep(flags.settle_nodes());
        }
        make_current(&mut opened, release, u32::MAX)?;
        Ok(RolledBack { serial, before })
    });
    if flags.json {
        let json = |member: &Member<RolledBack, Address>| {
            let outcome = member.outcome.as_ref();
            RolledBackJson {
                target: member.target.to_string(),
                serial: outcome.ok().map(|rolled_back| rolled_back.serial),
                before: outcome.ok().map(|rolled_back| rolled_back.before),
                error: outcome.err().map(Failure::to_json),
            }
        };
        output::print_json(&members.iter().map(json).collect::<Vec<_>>())?;
    } else {
        for Member { target, outcome, .. } in &members {
            let Ok(RolledBack { serial, before }) = outcome else { continue };
            let target = Paint::for_results().strong(&target.to_string());
            output::print(format_args!(
                "{target}  release {serial} is current, instead of release {before}\n"
            ))?;
        }
    }
    Ok(failures(&members))
}

fn find<'a>(site: &'a StoredSite, wanted: &str) -> Option<&'a StoredRelease> {
    if wanted == PREVIOUS {
        let older = site.earlier.iter().filter(|release| release.serial < site.current.serial);
        return older.max_by_key(|release| release.serial);
    }
    let serial: u64 = wanted.strip_suffix(".cdb").unwrap_or(wanted).parse().ok()?;
    site.releases().find(|release| release.serial == serial)
}

#[derive(Serialize)]
struct StoreStatus {
    target: String,
    releases: Vec<ReleaseJson>,
    error: Option<serde_json::Value>,
}

#[derive(Serialize)]
struct ReleaseJson {
    serial: u64,
    current: bool,
    /// Whether nodes pull the release, although it isn't current.
    staged: bool,
    state: ReleaseState,
    digest: String,
    bytes: u64,
    date: u64,
    /// The sequence of its statement. The signature isn't verified.
    sequence: Option<u64>,
}

/// Lists the releases of stores.
///
/// # Errors
///
/// As for [`push`].
pub(super) fn status(flags: &Status, addresses: Vec<Address>) -> Result<Outcome, Failure> {
    let members = open_all(addresses, &flags.store);
    if flags.json {
        let json = |member: &Member<Opened, Address>| StoreStatus {
            target: member.target.to_string(),
            releases: member.outcome.as_ref().map(listed).unwrap_or_default(),
            error: member.outcome.as_ref().err().map(Failure::to_json),
        };
        output::print_json(&members.iter().map(json).collect::<Vec<_>>())?;
    } else {
        let paint = Paint::for_results();
        for (address, opened) in opened(&members) {
            let mut table = Table::default();
            let releases = listed(opened);
            for release in &releases {
                let row = table.row(format!("release {}", release.serial));
                row.text(release.state.word()).number(bytes(release.bytes)).text(minute(release.date));
            }
            let list =
                if releases.is_empty() { "  no releases\n".to_owned() } else { table.render(2, paint) };
            output::print(format_args!("{}\n{list}", paint.strong(&address.to_string())))?;
        }
    }
    Ok(failures(&members))
}

/// Returns the releases of a store, newest first.
fn listed(opened: &Opened) -> Vec<ReleaseJson> {
    let Some(site) = &opened.site else { return Vec::new() };
    let mut releases: Vec<ReleaseJson> = Vec::new();
    for release in site.releases() {
        let digest = release.digest.to_string();
        // An earlier release may be staged, too.
        if releases.iter().any(|listed| listed.digest == digest) {
            continue;
        }
        let state = match release {
            _ if release.digest == site.current.digest => ReleaseState::Current,
            _ if site.staged.as_ref().is_some_and(|staged| staged.digest == release.digest) => {
                ReleaseState::Staged
            }
            // All others were current.
            _ if release.serial > site.current.serial => ReleaseState::RolledBack,
            _ => ReleaseState::Earlier,
        };
        releases.push(ReleaseJson {
            serial: release.serial,
            current: state == ReleaseState::Current,
            staged: state == ReleaseState::Staged,
            state,
            digest,
            bytes: release.archive.bytes,
            date: release.date,
            sequence: claimed_statement(release).map(|statement| statement.sequence),
        });
    }
    releases.sort_by_key(|release| std::cmp::Reverse(release.serial));
    releases
}
