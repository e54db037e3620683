//! `cannery push`, `rollback` and `status` with stores, from which nodes pull releases.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Instant;

use cannery_archive::{Archive, Loading};
use cannery_publish::trust::Statement;
use cannery_publish::{RebuildError, Recipe};
use cannery_store::{
    Address, Look, PullError, Store, StoreErrorKind, StoredRelease, StoredSite, UploadError, UploadReport,
    pull, upload,
};
use serde::Serialize;

use super::cache::Cache;
use super::compile::{Previous, compile_after};
use super::hooks::hook_outcome;
use super::moment::wait_until;
use super::signer::{Signer, UNSIGNED, not_ours};
use crate::commands::on_activate::{Activation, Hook};
use crate::commands::workplace::Workplace;
use crate::commands::{keys, open, release_dir, release_trust, store_access, verify};
use crate::flags::follow::StoreFlags;
use crate::flags::publish::{Push, Rollback, Status};
use crate::format::{Table, bytes, minute, percent, seconds};
use crate::output::{self, Failure, Paint, one_line};

/// Number of earlier releases that patches are made against.
const PATCHES: usize = 3;

/// Releases that are tried as the earlier one, if newer ones are damaged.
const BASES_FETCHED: usize = 3;

/// A store that was opened and read.
struct Opened {
    address: Address,
    store: Box<dyn Store>,
    site: Option<StoredSite>,
    version: Option<String>,
}

/// Returns the stores among the targets. Either all targets are stores, or none.
pub(super) fn parse(words: &[String]) -> Result<Option<Vec<Address>>, Failure> {
    let mut addresses = Vec::new();
    for word in words {
        addresses.extend(store_access::parse(word)?);
    }
    match addresses.len() {
        0 => Ok(None),
        count if count == words.len() => Ok(Some(addresses)),
        _ => Err(Failure::usage("stores and release directories can't be targets of the same command")
            .hint("run the command once for the stores, and once for the directories")),
    }
}

fn open_all(addresses: Vec<Address>, flags: &StoreFlags) -> Result<Vec<Opened>, Failure> {
    addresses
        .into_iter()
        .map(|address| {
            let mut store = store_access::open(&address, flags)?;
            let look = store.look(None).map_err(|error| store_access::failure(&address, &error))?;
            let (site, version) = match look {
                Look::New { site, version } => (Some(*site), Some(version)),
                Look::Empty | Look::Same => (None, None),
            };
            Ok(Opened { address, store, site, version })
        })
        .collect()
}

/// Returns the statements of all stores that our key has signed.
fn own_statements(signer: &Signer, opened: &[Opened]) -> Vec<Statement> {
    let own =
        |release: &StoredRelease| signer.own_statement(release.signed.as_ref(), &release.digest.to_string());
    releases(opened).filter_map(own).collect()
}

/// Returns the highest sequence in the statements of all stores.
fn claimed_sequence(opened: &[Opened]) -> u64 {
    releases(opened).filter_map(claimed_statement).map(|statement| statement.sequence).max().unwrap_or(0)
}

/// Returns what a store says that was signed.
fn claimed_statement(release: &StoredRelease) -> Option<Statement> {
    Statement::parse(&release.signed.as_ref()?.statement).ok()
}

fn releases(opened: &[Opened]) -> impl Iterator<Item = &StoredRelease> {
    opened.iter().filter_map(|opened| opened.site.as_ref()).flat_map(StoredSite::releases)
}

#[derive(Serialize)]
struct PushedJson {
    serial: u64,
    digest: String,
    archive_bytes: u64,
    url: Option<String>,
    targets: Vec<PushedStore>,
}

#[derive(Serialize)]
struct PushedStore {
    target: String,
    activated: bool,
    /// Whether the store had the archive before.
    known: bool,
    uploaded_bytes: u64,
    before: Option<u64>,
    /// Something that people should know.
    warning: Option<String>,
    /// Why the command of `--on-activate` failed.
    on_activate_error: Option<String>,
}

/// Pushes into stores: uploads to all of them, and then makes the release current in all.
pub(super) fn push(flags: &Push, addresses: Vec<Address>, site: &str) -> Result<(), Failure> {
    let started = Instant::now();
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
                let remedy = release_dir::remedy(folder, &error);
                return Err(remedy.into_iter().fold(Failure::output(message), Failure::hint));
            }
            _ => {}
        }
    }
    let mut opened = open_all(addresses, &flags.store)?;

    let cache = Cache::open(flags.cache.as_deref());
    let workplace = Workplace::new(Cache::workplace(cache.as_ref()))?;
    let is_folder = Path::new(site).is_dir();
    let path = if is_folder {
        let previous = previous(&mut opened, signer.as_ref(), cache.as_ref(), workplace.path())?;
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
            let own = own_statements(signer, &opened);
            Some(signer.sign(&archive, &own, claimed_sequence(&opened))?)
        }
        None => release_trust::read_signed(Path::new(site)).map_err(|error| {
            Failure::input(format!("cannot read the signature of {}: {error}", one_line(site)))
        })?,
    };

    let mut uploaded = Vec::new();
    for target in &mut opened {
        let bases = bases(target.site.as_ref(), cache.as_ref());
        let result = upload(&mut *target.store, &archive, &recipe, &bases, signed.clone(), keys::now());
        uploaded.push(result.map_err(|error| upload_failure(&target.address, &error))?);
    }
    if let Some(cache) = &cache {
        cache.add_recipe(&recipe);
        if is_folder {
            cache.add_archive(&archive.facts().digest.to_string(), &path);
        }
    }
    if let Some(moment) = flags.activate_at {
        workplace.farewell(
            "interrupted: the release was uploaded, and no store was switched to it; the same command without \
             `--activate-at` switches"
                .to_owned(),
        );
        wait_until(moment);
        workplace.farewell(
            "interrupted while stores were switching: `cannery status` shows which ones have".to_owned(),
        );
    }
    let mut targets = Vec::new();
    for (target, (release, report)) in opened.iter_mut().zip(uploaded) {
        let is_signature_lost = |live: &StoredRelease| {
            live.signed.is_some() && release.signed.is_none() && live.digest != release.digest
        };
        let live = target.site.as_ref().map(|site| &site.current);
        let warning = live.is_some_and(is_signature_lost).then(|| UNSIGNED.to_owned());
        if let Some(warning) = &warning {
            output::note(format_args!("{}: note: {warning}", target.address));
        }
        if !flags.stage_only {
            make_current(target, release, flags.keep)?;
        }
        targets.push(PushedStore { warning, ..pushed(target, &report, !flags.stage_only) });
    }
    drop(workplace);
    let failed = run_hooks(flags, &mut targets, archive.facts().serial);
    print(flags, &archive, targets, started)?;
    hook_outcome(failed)
}

/// Runs the command of `--on-activate` for each store that has switched. Returns how often it failed.
fn run_hooks(flags: &Push, targets: &mut [PushedStore], serial: u64) -> u64 {
    let Some(hook) = Hook::from_flags(&flags.hook) else { return 0 };
    let mut failed = 0;
    for pushed in targets.iter_mut().filter(|pushed| pushed.activated && pushed.before != Some(serial)) {
        let run = hook.run(&Activation {
            target: pushed.target.clone(),
            release: serial.to_string(),
            serial,
            before: pushed.before.map(|serial| serial.to_string()),
        });
        if let Err(why) = run {
            output::note(format_args!("{}: {} {why}", pushed.target, Paint::for_errors().error("failed:")));
            pushed.on_activate_error = Some(why);
            failed += 1;
        }
    }
    failed
}

fn pushed(target: &Opened, report: &UploadReport, activated: bool) -> PushedStore {
    PushedStore {
        target: target.address.to_string(),
        activated,
        known: report.was_known,
        uploaded_bytes: report.bytes,
        before: target.site.as_ref().map(|site| site.current.serial),
        warning: None,
        on_activate_error: None,
    }
}

fn upload_failure(address: &Address, error: &UploadError) -> Failure {
    match error {
        UploadError::Store(error) => store_access::failure(address, error),
        _ => Failure::input(error.to_string()),
    }
}

/// Replaces the document of a store, and then removes what no release needs any more.
fn make_current(target: &mut Opened, release: StoredRelease, keep: u32) -> Result<(), Failure> {
    let keep = usize::try_from(keep).unwrap_or(usize::MAX);
    let (site, unused) = StoredSite::with_current(target.site.as_ref(), release, keep);
    target
        .store
        .point(&site, target.version.as_deref())
        .map_err(|error| store_access::failure(&target.address, &error))?;
    for blob in unused {
        // It only takes space.
        let _ = target.store.remove(&blob);
    }
    Ok(())
}

/// Returns the serial of the newest release, and the archive of the newest one that may be built upon. The new release contains files
/// of it, so with a signer it must be one of ours.
fn previous(
    opened: &mut [Opened],
    signer: Option<&Signer>,
    cache: Option<&Cache>,
    workplace: &Path,
) -> Result<Previous, Failure> {
    let serial = releases(opened).map(|release| release.serial).max().unwrap_or(0);
    let is_trusted = |release: &StoredRelease| {
        let statement =
            |signer: &Signer| signer.own_statement(release.signed.as_ref(), &release.digest.to_string());
        signer.is_none_or(|signer| statement(signer).is_some())
    };
    let all = opened.iter().enumerate().flat_map(|(index, opened)| {
        let releases = opened.site.iter().flat_map(StoredSite::releases);
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
        let target = &mut opened[*index];
        match fetch(target, release, &path) {
            Ok(()) => {}
            Err(error) if is_damage(&error) => {
                output::note(format_args!(
                    "{}: note: release {} is damaged there, so it isn't built upon: {error}",
                    target.address, release.serial
                ));
                continue;
            }
            Err(error) => return Err(pull_failure(&target.address, &error)),
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
fn fetch(target: &mut Opened, release: &StoredRelease, path: &Path) -> Result<(), PullError> {
    let mut create = || {
        File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(path)
            .map_err(|error| format!("cannot write {}: {error}", path.display()))
    };
    pull(&mut *target.store, release, Vec::new(), None, &mut create).map(drop)
}

/// Whether the store has lost the release, or sends other bytes. Without the network, no other release would be better.
fn is_damage(error: &PullError) -> bool {
    match error {
        PullError::Store(error) => {
            matches!(error.kind, StoreErrorKind::Missing | StoreErrorKind::Wrong | StoreErrorKind::Cut)
        }
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
    targets: Vec<PushedStore>,
    started: Instant,
) -> Result<(), Failure> {
    let facts = archive.facts();
    if flags.json {
        return output::print_json(&PushedJson {
            serial: facts.serial,
            digest: facts.digest.to_string(),
            archive_bytes: facts.file_bytes,
            url: flags.url.clone(),
            targets,
        });
    }
    if flags.quiet {
        return Ok(());
    }
    let mut text = String::new();
    for target in targets {
        let state = match (target.activated, target.before) {
            (false, _) => "is uploaded".to_owned(),
            (true, Some(before)) => format!("is current, instead of release {before}"),
            (true, None) => "is current".to_owned(),
        };
        let total = percent(target.uploaded_bytes, facts.file_bytes);
        text.push_str(&format!(
            "{}  release {} {state}; uploaded {}, {total} of the archive\n",
            Paint::for_results().strong(&target.target),
            facts.serial,
            bytes(target.uploaded_bytes),
        ));
    }
    if let Some(url) = &flags.url {
        text.push_str(&format!("{url}  in {}\n", seconds(started.elapsed().as_secs_f64())));
    }
    output::print(text)
}

#[derive(Serialize)]
struct RolledBack {
    target: String,
    serial: u64,
    before: u64,
}

/// Makes an earlier release of each store current. Nothing is uploaded but the document.
pub(super) fn rollback(flags: &Rollback, addresses: Vec<Address>) -> Result<(), Failure> {
    let signer = Signer::read(&flags.signing)?;
    let mut opened = open_all(addresses, &flags.store)?;
    let own = signer.as_ref().map(|signer| own_statements(signer, &opened)).unwrap_or_default();
    let claimed = claimed_sequence(&opened);
    let mut results = Vec::new();
    for target in &mut opened {
        let address = target.address.to_string();
        let site =
            target.site.as_ref().ok_or_else(|| Failure::failed(format!("{address} has no releases")))?;
        let before = site.current.serial;
        let mut release = find(site, &flags.to).cloned().ok_or_else(|| {
            Failure::failed(format!("{address} has no release `{}`", one_line(&flags.to)))
                .hint("`cannery status` lists the releases")
        })?;
        release.signed = match (&signer, &release.signed) {
            (Some(signer), signed) => {
                let statement = signer.own_statement(signed.as_ref(), &release.digest.to_string());
                let statement = statement.filter(|statement| statement.serial == release.serial);
                let name = format!("release {} in {address}", release.serial);
                Some(signer.sign_again(statement.ok_or_else(|| not_ours(&name))?, &own, claimed)?)
            }
            (None, None) => None,
            (None, Some(_)) => {
                return Err(Failure::failed(format!(
                    "the releases in {address} are signed, so nodes would refuse an older statement"
                ))
                .hint("sign it again: add `--secret-key FILE`"));
            }
        };
        let serial = release.serial;
        make_current(target, release, u32::MAX)?;
        results.push(RolledBack { target: address, serial, before });
    }
    if flags.json {
        return output::print_json(&results);
    }
    let paint = Paint::for_results();
    let lines = results.iter().map(|result| {
        format!(
            "{}  release {} is current, instead of release {}\n",
            paint.strong(&result.target),
            result.serial,
            result.before
        )
    });
    output::print(lines.collect::<String>())
}

fn find<'a>(site: &'a StoredSite, wanted: &str) -> Option<&'a StoredRelease> {
    if wanted == "previous" {
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
}

#[derive(Serialize)]
struct ReleaseJson {
    serial: u64,
    current: bool,
    digest: String,
    bytes: u64,
    date: u64,
    /// The sequence of its statement. The signature isn't verified.
    sequence: Option<u64>,
}

/// Lists the releases of stores.
pub(super) fn status(flags: &Status, addresses: Vec<Address>) -> Result<(), Failure> {
    let opened = open_all(addresses, &flags.store)?;
    let statuses: Vec<_> = opened.iter().map(store_status).collect();
    if flags.json {
        return output::print_json(&statuses);
    }
    let paint = Paint::for_results();
    for status in &statuses {
        let mut table = Table::default();
        for release in &status.releases {
            let mark = if release.current { "current" } else { "" };
            let row = table.row(format!("release {}", release.serial));
            row.text(mark).number(bytes(release.bytes)).text(minute(release.date));
        }
        let list =
            if status.releases.is_empty() { "  no releases\n".to_owned() } else { table.render(2, paint) };
        output::print(format_args!("{}\n{list}", paint.strong(&status.target)))?;
    }
    Ok(())
}

fn store_status(opened: &Opened) -> StoreStatus {
    let current = opened.site.as_ref().map(|site| site.current.digest);
    let mut releases: Vec<_> = opened
        .site
        .iter()
        .flat_map(StoredSite::releases)
        .map(|release| ReleaseJson {
            serial: release.serial,
            current: Some(release.digest) == current,
            digest: release.digest.to_string(),
            bytes: release.archive.bytes,
            date: release.date,
            sequence: claimed_statement(release).map(|statement| statement.sequence),
        })
        .collect();
    releases.sort_by_key(|release| std::cmp::Reverse(release.serial));
    StoreStatus { target: opened.address.to_string(), releases }
}
