//! `cannery push`: compiles a folder if necessary, stages the release on all targets, and then activates it on all.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use cannery_archive::{Archive, Loading};
use cannery_publish::protocol::{Activate, Activated, Preview, ReleaseInfo, Releases, Selector};
use cannery_publish::{Recipe, StageReport};
use cannery_trust::{Signed, Statement};
use serde::Serialize;

use super::cache::Cache;
use super::compile::{Previous, compile_after};
use super::connection::{Connection, Connector, client_failure};
use super::fleet::{self, Member, check_quorum, quorum};
use super::hooks::hook_outcome;
use super::moment::{remaining, wait_until};
use super::preview;
use super::signer::{Signer, signed_beside, warning};
use super::stores;
use super::target::Target;
use super::transfer::TransferDisplay;
use crate::commands::on_activate::{Activation, Hook};
use crate::commands::workplace::Workplace;
use crate::commands::{open, verify};
use crate::flags::publish::Push;
use crate::format::{bytes, counted, percent, seconds};
use crate::output::{self, Failure, Paint, one_line};

/// A target that has the release, and what it took.
struct StagedTarget {
    connection: Connection,
    report: StageReport,
    /// Whether it served the release before.
    was_current: bool,
}

/// A target at the end.
struct PushedTarget {
    report: StageReport,
    was_current: bool,
    /// `None` with `--stage-only`.
    activated: Option<Activated>,
    /// Something that people should know.
    warning: Option<String>,
    /// Why the command of `--on-activate` failed.
    hook_error: Option<String>,
}

/// Runs the command.
///
/// # Errors
///
/// Returns an error if the site can't be compiled or opened, or if too few targets have the release in the end.
pub fn run(flags: &Push) -> Result<(), Failure> {
    let preview = preview::selected(&flags.preview).map_err(|failure| failure.as_json(flags.json))?;
    if let Some(preview) = preview.clone().filter(|_| flags.preview.remove) {
        return preview::remove(flags, preview).map_err(|failure| failure.as_json(flags.json));
    }
    let (words, site) = flags.targets_and_site();
    if words.is_empty() {
        let hint = "name the targets, and then the site: `cannery push TARGET... SITE`";
        return Err(Failure::usage("a target or the site is missing").hint(hint).as_json(flags.json));
    }
    if let Some(preview) = &preview
        && stores::parse(words).is_ok_and(|addresses| addresses.is_some())
    {
        let message = format!("the preview {} can't be published in a store", one_line(&preview.host));
        let hint = "name the directory of `cannery-server --sites`: USER@HOST:DIR, or DIR on this machine";
        return Err(Failure::usage(message).hint(hint).as_json(flags.json));
    }
    if let Some(addresses) = stores::parse(words).map_err(|failure| failure.as_json(flags.json))? {
        return stores::push(flags, addresses, site).map_err(|failure| failure.as_json(flags.json))?;
    }
    let url = preview.as_ref().map(preview::url);
    let published = publish(flags, preview).map_err(|failure| failure.as_json(flags.json))?;
    let Published { mut members, quorum, archive, started } = published;
    let is_purged = run_hooks(flags, &mut members);
    print(flags, url, &members, &archive, started)?;
    // The JSON value has the failures already.
    check_quorum(&mut members, quorum, if flags.stage_only { "staged" } else { "activated" }, flags)?;
    is_purged
}

/// Runs the command of `--on-activate` for each target that has switched.
fn run_hooks(flags: &Push, members: &mut [Member<PushedTarget>]) -> Result<(), Failure> {
    let Some(hook) = Hook::from_flags(&flags.hook) else { return Ok(()) };
    let mut failed = 0;
    for Member { target, outcome, .. } in members {
        let Ok(pushed) = outcome else { continue };
        let Some(activated) = pushed.activated.as_ref().filter(|_| !pushed.was_current) else { continue };
        let run = hook.run(&Activation {
            target: target.to_string(),
            release: activated.name.clone(),
            serial: activated.serial,
            before: activated.before.clone(),
        });
        if let Err(why) = run {
            output::note(format_args!("{target}: {} {why}", Paint::for_errors().error("failed:")));
            pushed.hook_error = Some(why);
            failed += 1;
        }
    }
    hook_outcome(failed)
}

/// A release that was published on the targets without a failure.
struct Published {
    members: Vec<Member<PushedTarget>>,
    quorum: usize,
    archive: Archive,
    started: Instant,
}

fn publish(flags: &Push, preview: Option<Preview>) -> Result<Published, Failure> {
    let started = Instant::now();
    let (words, site) = flags.targets_and_site();
    let targets = fleet::parse(words)?;
    let quorum = quorum(flags, targets.len())?;
    let connector = Connector::new(&flags.connection)?.for_preview(preview);
    let signer = Signer::read(&flags.signing)?;
    if !Path::new(site).exists() {
        return Err(Failure::input(format!("{}: no such file or folder", one_line(site)))
            .hint("the site comes last: `cannery push TARGET... SITE`"));
    }

    let mut members = fleet::connect(&connector, targets);
    check_quorum(&mut members, quorum, "connected", flags)?;

    let cache = Cache::open(flags.cache.as_deref());
    let workplace = Workplace::new(Cache::workplace(cache.as_ref()))?;
    let is_folder = Path::new(site).is_dir();
    let path = if is_folder {
        compile_folder(
            flags,
            Path::new(site),
            signer.as_ref(),
            &mut members,
            cache.as_ref(),
            workplace.path(),
        )?
    } else {
        PathBuf::from(site)
    };
    let archive = open::open(&path)?;
    archive.verify_digest().map_err(|error| verify::failure(&path, &error))?;
    let recipe =
        Recipe::of(&archive).map_err(|error| Failure::input(format!("{}: {error}", path.display())))?;

    let signed = match &signer {
        Some(signer) => Some(sign(signer, &mut members, &archive)?),
        None if is_folder => None,
        None => signed_beside(site, &archive)?,
    };

    let mut staged = stage(flags, members, &archive, &recipe, signed.as_ref(), cache.as_ref());
    let staged_at = Instant::now();
    if let Some(cache) = &cache {
        cache.add_recipe(&recipe);
        if is_folder {
            // The next push compiles with this release as the earlier one.
            cache.add_archive(&archive.facts().digest.to_string(), &path);
        }
    }
    check_quorum(&mut staged, quorum, "staged", flags)?;
    workplace.farewell(format!(
        "interrupted: {} has {}, and no target was switched to it; the same command without `--activate-at` switches",
        release_name(&archive),
        counted(staged.iter().filter(|member| member.outcome.is_ok()).count() as u64, "target"),
    ));
    let staged = settle(flags, &connector, staged, quorum, (archive.facts().file_bytes, staged_at))?;
    if !flags.stage_only {
        workplace.farewell(
            "interrupted while targets were switching: `cannery status` shows which ones have".to_owned(),
        );
    }
    let members = activate(flags, staged, &archive, signed);
    drop(workplace);
    Ok(Published { members, quorum, archive, started })
}

/// Waits until the release may become current: until all servers have noticed an archive of this length in bytes that all targets have
/// had since this moment, and then for the moment that the user has chosen.
fn settle(
    flags: &Push,
    connector: &Connector,
    mut members: Vec<Member<StagedTarget>>,
    quorum: usize,
    (bytes, staged_at): (u64, Instant),
) -> Result<Vec<Member<StagedTarget>>, Failure> {
    if flags.stage_only {
        return Ok(members);
    }
    let staged = members.iter().filter_map(|member| member.outcome.as_ref().ok());
    // Before its first release, a target has no pages that could need files.
    // An earlier push may have transferred the release just now, so it needn't be new.
    if staged.clone().any(|staged| !staged.was_current && staged.connection.releases.current().is_some()) {
        thread::sleep(flags.settle().rest(bytes, staged_at.elapsed()));
    }
    let Some(moment) = flags.activate_at else { return Ok(members) };
    if !flags.quiet && !flags.json {
        let left = remaining(moment).as_secs_f64();
        output::note(format_args!("staged; switching in {}", seconds(left)));
    }
    if remaining(moment) > RECONNECTED_BEFORE * 2 {
        // An idle connection may be cut on the way.
        let closed = fleet::then(members, |_, StagedTarget { connection, report, was_current }| {
            connection.close();
            Ok((report, was_current))
        });
        wait_until(moment - RECONNECTED_BEFORE);
        members = fleet::then(closed, |target, (report, was_current)| {
            let connection = connector.connect(target)?;
            Ok(StagedTarget { connection, report, was_current })
        });
        check_quorum(&mut members, quorum, "staged", flags)?;
    }
    wait_until(moment);
    Ok(members)
}

/// How long before the chosen moment targets are connected again.
const RECONNECTED_BEFORE: Duration = Duration::from_secs(15);

fn release_name(archive: &Archive) -> String {
    format!("release {}", archive.facts().serial)
}

/// Compiles a folder with the newest release of the targets as the earlier one. See [`compile_after`].
fn compile_folder(
    flags: &Push,
    folder: &Path,
    signer: Option<&Signer>,
    members: &mut [Member<Connection>],
    cache: Option<&Cache>,
    workplace: &Path,
) -> Result<PathBuf, Failure> {
    let serial = connected(members).map(|connection| connection.releases.serial_max()).max().unwrap_or(0);
    let path = newest_release(flags, signer, members, cache, workplace)?;
    compile_after(flags, folder, Previous { serial, path }, cache, workplace)
}

/// Signs the release, with a sequence that is higher than those of all targets.
fn sign(signer: &Signer, members: &mut [Member<Connection>], archive: &Archive) -> Result<Signed, Failure> {
    let own: Vec<_> =
        connected(members).flat_map(|connection| own_statements(signer, &connection.releases)).collect();
    let claimed = connected(members).map(|connection| claimed_sequence(&connection.releases)).max();
    let claimed = claimed.unwrap_or(0);
    signer.sign(archive, &own, claimed)
}

/// Returns the statements of a host that our key has signed.
pub(super) fn own_statements(signer: &Signer, releases: &Releases) -> Vec<Statement> {
    let own =
        |release: &ReleaseInfo| signer.own_statement(release.signed.as_ref(), release.digest.as_deref()?);
    releases.releases.iter().filter_map(own).collect()
}

/// Returns the highest sequence that a host has accepted, or that any key of the site has signed. Only the server there may demand
/// signatures, and then the host has accepted none itself.
pub(super) fn claimed_sequence(releases: &Releases) -> u64 {
    let accepted = releases.trust.as_ref().map(|trust| trust.sequence);
    let statements = releases.releases.iter().filter_map(|release| release.signed.as_ref());
    let statements = statements.filter_map(|signed| Statement::parse(&signed.statement).ok());
    statements.map(|statement| statement.sequence).chain(accepted).max().unwrap_or(0)
}

fn connected(members: &mut [Member<Connection>]) -> impl Iterator<Item = &mut Connection> {
    members.iter_mut().filter_map(|member| member.outcome.as_mut().ok())
}

/// Returns the path of the newest intact release of any target: from the cache, or else fetched. The new release contains files of it,
/// so with a signer it must be one of ours.
fn newest_release(
    flags: &Push,
    signer: Option<&Signer>,
    members: &mut [Member<Connection>],
    cache: Option<&Cache>,
    workplace: &Path,
) -> Result<Option<PathBuf>, Failure> {
    for connection in connected(members) {
        let damaged = connection
            .releases
            .releases
            .iter()
            .filter_map(|release| Some((&release.name, release.damaged.as_ref()?)));
        for (name, why) in damaged {
            note_damage(&connection.target, name, why);
        }
    }
    let is_trusted = |release: &ReleaseInfo| {
        let Some(digest) = &release.digest else { return false };
        signer.is_none_or(|signer| signer.own_statement(release.signed.as_ref(), digest).is_some())
    };
    let listed = connected(members).flat_map(|connection| connection.releases.releases.clone());
    let candidates = newest_first(listed.filter(is_trusted).collect());

    for release in candidates.iter().take(BASES_FETCHED) {
        let digest = release.digest.as_deref().unwrap_or_default();
        let path = workplace.join("previous.cdb");
        if let Some(cached) = cache.and_then(|cache| cache.archive(digest)) {
            // The build takes the other archives of a folder for releases of the same site, so it must not see the cache.
            let linked = fs::hard_link(&cached, &path).or_else(|_| fs::copy(&cached, &path).map(drop));
            linked.map_err(|error| Failure::output(format!("cannot write {}: {error}", path.display())))?;
            return Ok(Some(path));
        }
        let has_release = |connection: &&mut Connection| connection.releases.with_digest(digest).is_some();
        for connection in connected(members).filter(has_release) {
            if fetch(flags, connection, release, &path)? {
                if let Some(cache) = cache {
                    cache.add_archive(digest, &path);
                }
                return Ok(Some(path));
            }
        }
    }
    if !candidates.is_empty() {
        output::note(
            "note: no intact release could be fetched, so the new one has no files that open pages may still need",
        );
    }
    Ok(None)
}

/// Sorts the releases of all targets, and leaves out duplicates.
fn newest_first(mut releases: Vec<ReleaseInfo>) -> Vec<ReleaseInfo> {
    releases.sort_by_key(|release| Reverse((release.serial, release.date)));
    // Without a stated date, a release's date differs between targets. So there may be other releases in between.
    let mut known = HashSet::new();
    releases.retain(|release| known.insert(release.digest.clone()));
    releases
}

/// Fetches the archive of a release. Returns `false` if it is damaged, after saying so.
fn fetch(
    flags: &Push,
    connection: &mut Connection,
    release: &ReleaseInfo,
    path: &Path,
) -> Result<bool, Failure> {
    let digest = release.digest.as_deref().unwrap_or_default();
    // The same release may have another name on another host.
    let listed = connection.releases.with_digest(digest).unwrap_or(release);
    if !flags.quiet && !flags.json {
        output::note(format_args!(
            "fetching {} from {} ({}), whose files open pages may still need",
            one_line(&listed.name),
            connection.target,
            bytes(listed.bytes)
        ));
    }
    let mut file = File::create(path)
        .map_err(|error| Failure::output(format!("cannot write {}: {error}", path.display())))?;
    let display = TransferDisplay::new("fetching", flags.quiet || flags.json);
    display.plan(listed.bytes);
    let fetched = connection.client.fetch(digest, &mut file, &mut |count| display.advance(count));
    drop(display);
    fetched.map_err(|error| with_target(client_failure(&connection.target, &error), &connection.target))?;

    let damage = match Archive::open(path, Loading::Mapped) {
        Err(error) => error.to_string(),
        Ok(archive) => match archive.verify_digest() {
            Ok(()) if archive.facts().digest.to_string() == digest => return Ok(true),
            Ok(()) => "it has another digest than the host says".to_owned(),
            Err(error) => error.to_string(),
        },
    };
    note_damage(&connection.target, &listed.name, &damage);
    Ok(false)
}

/// Says that a host has a damaged release. That doesn't keep the new one from being published.
fn note_damage(target: &Target, name: &str, why: &str) {
    output::note(format_args!(
        "{target}: note: {} is damaged, so it isn't built upon: {}; delete it there",
        one_line(name),
        one_line(why)
    ));
}

fn with_target(failure: Failure, target: &Target) -> Failure {
    match failure {
        Failure::Message { exit, message, hint, .. } => {
            let failure = Failure::new(exit, format!("{target}: {message}"));
            hint.into_iter().fold(failure, Failure::hint)
        }
        other => other,
    }
}

/// Stages the release on all targets at a time.
fn stage(
    flags: &Push,
    members: Vec<Member<Connection>>,
    archive: &Archive,
    recipe: &Recipe,
    signed: Option<&Signed>,
    cache: Option<&Cache>,
) -> Vec<Member<StagedTarget>> {
    let display = Mutex::new(TransferDisplay::new("transferring", flags.quiet || flags.json));
    let with_display = |action: &dyn Fn(&TransferDisplay)| {
        if let Ok(display) = display.lock() {
            action(&display);
        }
    };
    fleet::then(members, |target, mut connection| {
        let base = base(&connection.releases, cache);
        let report = connection.client.stage(
            archive,
            recipe,
            base.as_ref(),
            signed,
            &mut |total| with_display(&|display| display.plan(total)),
            &mut |count| with_display(&|display| display.advance(count)),
        );
        let report = report.map_err(|error| client_failure(target, &error))?;
        for name in &report.staged.damaged {
            output::note(format_args!(
                "{target}: note: {} is damaged, so its contents were transferred again; delete it there",
                one_line(name)
            ));
        }
        let digest = archive.facts().digest.to_string();
        let current = connection.releases.current().and_then(|release| release.digest.as_ref());
        let was_current = current == Some(&digest);
        Ok(StagedTarget { connection, report, was_current })
    })
}

/// Returns the recipe of the newest release of a target that we still know.
fn base(releases: &Releases, cache: Option<&Cache>) -> Option<Recipe> {
    let digests = releases.releases.iter().filter_map(|release| release.digest.as_deref());
    cache.and_then(|cache| digests.take(BASES_TRIED).find_map(|digest| cache.recipe(digest)))
}

/// Releases that are tried as the earlier one. If so many are damaged, the others hardly aren't.
const BASES_FETCHED: usize = 3;

/// Recipes of older releases are hardly better than none.
const BASES_TRIED: usize = 5;

/// Activates the release on all targets that have it, at a time.
fn activate(
    flags: &Push,
    members: Vec<Member<StagedTarget>>,
    archive: &Archive,
    signed: Option<Signed>,
) -> Vec<Member<PushedTarget>> {
    let release = Selector::Digest(archive.facts().digest.to_string());
    let activate = Activate { release, keep: Some(flags.keep), signed, settle_ms: None };
    fleet::then(members, |target, StagedTarget { mut connection, report, was_current, .. }| {
        let live = connection.releases.current().filter(|_| !was_current);
        let foreign = live.and_then(|live| warning(live.signed.as_ref(), activate.signed.as_ref()));
        let activated = if flags.stage_only {
            None
        } else {
            Some(connection.client.activate(&activate).map_err(|error| client_failure(target, &error))?)
        };
        connection.close();
        let noted = activated.as_ref().and_then(|activated| activated.warning.clone());
        let warnings: Vec<_> = noted.into_iter().chain(foreign).collect();
        let warning = (!warnings.is_empty()).then(|| warnings.join("; "));
        Ok(PushedTarget { report, was_current, activated, warning, hook_error: None })
    })
}

#[derive(Serialize)]
struct Pushed {
    serial: u64,
    digest: String,
    archive_bytes: u64,
    url: Option<String>,
    targets: Vec<PushedJson>,
}

#[derive(Serialize)]
struct PushedJson {
    target: String,
    /// The file name of the release, if the target has it.
    release: Option<String>,
    activated: bool,
    /// Whether the target served this release already.
    unchanged: bool,
    /// The file name of the release that was served before.
    before: Option<String>,
    removed: Vec<String>,
    recipe_bytes: u64,
    bodies: u64,
    body_bytes: u64,
    /// Something that people should know.
    warning: Option<String>,
    /// Why the command of `--on-activate` failed.
    on_activate_error: Option<String>,
    error: Option<serde_json::Value>,
}

fn print(
    flags: &Push,
    url_of_preview: Option<String>,
    members: &[Member<PushedTarget>],
    archive: &Archive,
    started: Instant,
) -> Result<(), Failure> {
    let facts = archive.facts();
    let url = flags.url.clone().or(url_of_preview);
    if flags.json {
        return output::print_json(&Pushed {
            serial: facts.serial,
            digest: facts.digest.to_string(),
            archive_bytes: facts.file_bytes,
            url,
            targets: members.iter().map(json).collect(),
        });
    }
    if flags.quiet {
        return Ok(());
    }

    let mut text = String::new();
    let mut is_live = false;
    for member in members {
        let Ok(PushedTarget { report, was_current, activated, warning, .. }) = &member.outcome else {
            continue;
        };
        let sent = report.recipe_bytes + report.body_bytes;
        let transferred = if *was_current {
            "nothing has changed".to_owned()
        } else if report.staged.was_known {
            "nothing to transfer".to_owned()
        } else {
            format!(
                "transferred {} of {}, {}",
                bytes(sent),
                bytes(facts.file_bytes),
                percent(sent, facts.file_bytes)
            )
        };
        let state = match activated {
            _ if *was_current => "was live already".to_owned(),
            Some(Activated { before: Some(before), .. }) => {
                format!("is live, instead of {}", one_line(before))
            }
            Some(Activated { before: None, .. }) => "is live".to_owned(),
            None => "is staged".to_owned(),
        };
        is_live |= activated.is_some();
        let target = Paint::for_results().strong(&member.target.to_string());
        text.push_str(&format!("{target}  {} {state}; {transferred}\n", one_line(&report.staged.name)));
        if let Some(warning) = warning {
            output::note(format_args!("{}: note: {}", member.target, one_line(warning)));
        }
    }
    if let Some(url) = url.filter(|_| is_live) {
        text.push_str(&format!("{url}  in {}\n", seconds(started.elapsed().as_secs_f64())));
    }
    output::print(text)
}

fn json(member: &Member<PushedTarget>) -> PushedJson {
    let pushed = member.outcome.as_ref();
    let activated = pushed.ok().and_then(|pushed| pushed.activated.clone());
    let report = pushed.ok().map(|pushed| &pushed.report);
    PushedJson {
        target: member.target.to_string(),
        release: report.map(|report| report.staged.name.clone()),
        activated: activated.is_some(),
        unchanged: pushed.is_ok_and(|pushed| pushed.was_current),
        before: activated.as_ref().and_then(|activated| activated.before.clone()),
        removed: activated.map(|activated| activated.removed).unwrap_or_default(),
        recipe_bytes: report.map_or(0, |report| report.recipe_bytes),
        bodies: report.map_or(0, |report| report.bodies),
        body_bytes: report.map_or(0, |report| report.body_bytes),
        warning: pushed.ok().and_then(|pushed| pushed.warning.clone()),
        on_activate_error: pushed.ok().and_then(|pushed| pushed.hook_error.clone()),
        error: pushed.err().map(Failure::to_json),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_of_several_targets_are_listed_once() {
        let release = |digest: &str, date| ReleaseInfo {
            name: "1.cdb".to_owned(),
            current: false,
            bytes: 1,
            serial: Some(1),
            digest: Some(digest.to_owned()),
            paths: 1,
            date: Some(date),
            damaged: None,
            signed: None,
            state: None,
        };
        let listed = newest_first(vec![release("a", 1), release("b", 2), release("a", 3)]);
        let digests: Vec<_> = listed.iter().filter_map(|release| release.digest.as_deref()).collect();
        assert_eq!(digests, ["a", "b"]);
    }
}
