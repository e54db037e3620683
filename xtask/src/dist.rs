//! Packages, images and archives of the programs: `cargo xtask dist`.
//!
//! The same on a developer's machine and in continuous integration, without a container engine. A target that can't be built here is
//! skipped with its reason. Everything is in `target/packages`, with checksums, a bill of materials, and a statement of how it was
//! built. Times come from the last commit and paths are replaced, so two builds of a commit are identical if neither or both use
//! the same profile.

// The targets, and what they need.
mod target;
// Compiling for a target.
mod build;
// The programs of a target, and their debug information.
mod programs;
// Manual pages, completions, units and documents.
mod tree;
// An archive with programs and documents.
mod archive;
mod image;
mod packages;
// Checksums, bill of materials, provenance.
mod evidence;
// Tools that are installed below target/.
mod tools;
// Tests of the results: a linter, and a machine that installs the package.
mod check;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::dist::programs::Programs;
use crate::dist::target::{Library, TARGETS, Target};
use crate::error::Error;
use crate::outside;
use crate::project;
use crate::steps::Steps;
use crate::words::Words;

/// The command line.
struct Options {
    targets: Vec<&'static Target>,
    profile: Profile,
    /// Programs of the only target, which are packed instead of built.
    programs: Option<PathBuf>,
    should_check: bool,
    /// A target that can't be built here is an error.
    is_complete: bool,
    /// Tracked files may differ from the commit.
    allows_changes: bool,
}

/// By which counts the server is optimized.
enum Profile {
    /// Counted on this machine, which takes half an hour.
    Trained,
    /// Stored files, `TRIPLE.profdata`.
    Stored(PathBuf),
    Without,
}

/// The version that is built, and where its files go.
struct Release {
    version: String,
    commit: String,
    /// Tracked files differ from the commit.
    has_changes: bool,
    /// Time of the commit, in seconds since 1970.
    time: u64,
    /// The directory of results.
    directory: PathBuf,
}

/// Runs the task.
pub(crate) fn run(words: Words) -> Result<(), Error> {
    let options = Options::parse(words)?;
    let release = Release::detect()?;
    if release.has_changes && !options.allows_changes {
        return Err(Error::Unexpected {
            what: "git status".into(),
            expected:
                "a checkout without changes, because the results name its commit (`--dirty` allows changes)"
                    .into(),
            got: "changed files".into(),
        });
    }
    let obstacles: Vec<_> = options.targets.iter().map(|target| options.obstacle(target)).collect();
    let targets = || options.targets.iter().zip(&obstacles);
    let is_missing = |(_, obstacle): (_, &Option<String>)| obstacle.is_some();
    let builds_host = targets().any(|(target, obstacle)| target.runs_here && obstacle.is_none());
    if options.is_complete && targets().any(is_missing) || !builds_host {
        let reasons = targets().filter_map(|(target, obstacle)| Some((target.triple, obstacle.as_ref()?)));
        let reasons: Vec<_> = reasons.map(|(triple, reason)| format!("{triple}: {reason}")).collect();
        return Err(if reasons.is_empty() { missing_host() } else { Error::Targets { reasons } });
    }
    release.clear()?;

    let mut steps = Steps::default();
    let mut built: Vec<(&Target, Programs)> = Vec::new();
    for (target, obstacle) in targets() {
        if let Some(reason) = obstacle {
            steps.skip(target.triple, reason.clone());
            continue;
        }
        steps.run(target.triple, || {
            built.push((target, options.programs_for(target, &release)?));
            Ok(())
        });
    }

    let Some(host) = built.iter().find(|(target, _)| target.runs_here).map(|(_, programs)| programs) else {
        steps.finish()?;
        return Err(missing_host());
    };
    for (target, programs) in &built {
        steps.run(format!("archive {}", target.architecture.image), || {
            archive::write(&release, target, programs, host)
        });
    }
    let statics: Vec<_> = built.iter().filter(|(target, _)| target.library == Library::Musl).collect();
    if let Some((target, programs)) = built.iter().find(|(target, _)| target.library == Library::Glibc) {
        let of_images = statics.iter().find(|(other, _)| other.architecture == target.architecture);
        let of_images = of_images.map(|(_, programs)| programs);
        steps.run("packages", || packages::write(&release, target, programs, of_images, host));
    } else {
        steps.skip("packages", "they need programs with glibc");
    }
    if statics.is_empty() {
        steps.skip("image", "it needs programs with musl");
    } else {
        steps.run("image", || image::write(&release, statics.iter().map(|(_, programs)| programs)));
    }
    let targets: Vec<_> = built.iter().map(|(target, _)| *target).collect();
    steps.run("evidence", || evidence::write(&release, &options, &targets, host));
    if options.should_check {
        check::run(&mut steps, &release);
    }
    println!("{}", release.directory.display());
    steps.finish()
}

/// Manual pages and the first page are printed by a program that runs here.
fn missing_host() -> Error {
    Error::Missing {
        what: "a program that runs on this machine".into(),
        remedy: format!("also build one: --target {}", TARGETS[0].triple),
    }
}

/// Makes a Debian package of the programs that the tests use, beside the results of a release, and returns its path.
pub(crate) fn package_of_tests() -> Result<PathBuf, Error> {
    let (release, target, programs) = programs_of_tests()?;
    packages::write_deb_of(&release, target, &programs)
}

/// Makes packages of the programs that the tests use, beside the results of a release, and checks them.
pub(crate) fn check_packages_of_tests() -> Result<(), Error> {
    let (release, target, programs) = programs_of_tests()?;
    packages::write(&release, target, &programs, None, &programs)?;
    let mut steps = Steps::default();
    check::run(&mut steps, &release);
    steps.finish()
}

fn programs_of_tests() -> Result<(Release, &'static Target, Programs), Error> {
    let release =
        Release { directory: project::root().join("target/packages-of-tests"), ..Release::detect()? };
    release.clear()?;
    let target = &TARGETS[0];
    let built = project::target().join("debug");
    let work = release.work(target.triple);
    let programs = Programs::strip(&target.programs(), &built, &work, &tools::objcopy(target)?)?;
    Ok((release, target, programs))
}

impl Options {
    fn parse(mut words: Words) -> Result<Options, Error> {
        let mut targets = Vec::new();
        while let Some(triple) = words.value("--target")? {
            targets.push(Target::find(&triple)?);
        }
        let programs = words.value("--programs")?.map(PathBuf::from);
        let profile = match (words.value("--profiles")?, words.take("--without-profile").is_some()) {
            (None, false) => Profile::Trained,
            (Some(directory), false) => Profile::Stored(directory.into()),
            (None, true) => Profile::Without,
            (Some(_), true) => {
                let problem = "--profiles and --without-profile exclude each other".into();
                return Err(Error::Usage { problem });
            }
        };
        let should_check = words.take("--check").is_some();
        let is_complete = words.take("--complete").is_some();
        let allows_changes = words.take("--dirty").is_some();
        words.finish()?;

        if programs.is_some() && targets.len() > 1 {
            return Err(Error::Usage { problem: "--programs has the programs of one --target".into() });
        }
        if targets.is_empty() {
            let count = if programs.is_some() { 1 } else { TARGETS.len() };
            targets.extend(&TARGETS[..count]);
        }
        Ok(Options { targets, profile, programs, should_check, is_complete, allows_changes })
    }

    /// Returns the reason why the programs for a target can't be built on this machine, with the remedy, or `None` if they can.
    fn obstacle(&self, target: &Target) -> Option<String> {
        if self.programs.is_some() {
            return None;
        }
        let needs_root = self.counts_here(target) && !outside::is_root();
        needs_root
            .then(|| {
                "counting what runs needs root, for HTTP/3 in a namespace: use `sudo -E`, or --without-profile".into()
            })
            .or_else(|| target.obstacle())
    }

    /// Returns `true` if the server for a target is optimized by counts of this machine.
    fn counts_here(&self, target: &Target) -> bool {
        matches!(self.profile, Profile::Trained) && !target.is_cross()
    }

    /// Builds or copies the programs for a target.
    fn programs_for(&self, target: &Target, release: &Release) -> Result<Programs, Error> {
        let directory = match &self.programs {
            Some(directory) => directory.clone(),
            None => build::run(target, &self.profile, release)?,
        };
        let work = release.work(target.triple);
        Programs::strip(&target.programs(), &directory, &work, &tools::objcopy(target)?)
    }
}

impl Release {
    fn detect() -> Result<Release, Error> {
        let manifest = project::root().join("Cargo.toml");
        let text = fs::read_to_string(&manifest).map_err(|source| Error::file(&manifest, source))?;
        let version = text.lines().find_map(|line| line.strip_prefix("version = \"")?.strip_suffix('"'));
        let version = version.ok_or_else(|| Error::Unexpected {
            what: "Cargo.toml".into(),
            expected: "a line `version = \"…\"`".into(),
            got: "none".into(),
        })?;
        let git =
            |words: &[&str]| project::output(Command::new("git").current_dir(project::root()).args(words));
        let time = git(&["log", "-1", "--format=%ct"])?;
        let time = time.trim().parse().map_err(|_| Error::Unexpected {
            what: "git log".into(),
            expected: "the time of the last commit".into(),
            got: time.clone(),
        })?;
        Ok(Release {
            version: version.into(),
            commit: git(&["rev-parse", "HEAD"])?.trim().into(),
            has_changes: !git(&["status", "--porcelain", "--untracked-files=no"])?.trim().is_empty(),
            time,
            // Cargo.toml names the directory of the files beside it.
            directory: project::root().join("target/packages"),
        })
    }

    /// Removes the results of an earlier run, except for compiled code.
    fn clear(&self) -> Result<(), Error> {
        for directory in [self.directory.clone(), self.work("")] {
            if directory.exists() {
                fs::remove_dir_all(&directory).map_err(|source| Error::file(&directory, source))?;
            }
            create(&directory)?;
        }
        Ok(())
    }

    /// Returns a directory for files that aren't results.
    fn work(&self, name: &str) -> PathBuf {
        self.directory.with_file_name("packages-work").join(name)
    }

    /// Returns the path of a result whose name begins with the name and version of the project.
    fn result(&self, rest: &str) -> PathBuf {
        self.directory.join(format!("cannery-{}{rest}", self.version))
    }
}

fn create(directory: &Path) -> Result<(), Error> {
    fs::create_dir_all(directory).map_err(|source| Error::file(directory, source))
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    fs::read(path).map_err(|source| Error::file(path, source))
}

fn write_file(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    if let Some(directory) = path.parent() {
        create(directory)?;
    }
    fs::write(path, bytes).map_err(|source| Error::file(path, source))
}

/// Returns the files below a directory, sorted.
fn files(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut found = Vec::new();
    let entries = fs::read_dir(directory).map_err(|source| Error::file(directory, source))?;
    for entry in entries {
        let path = entry.map_err(|source| Error::file(directory, source))?.path();
        if path.is_dir() {
            found.extend(files(&path)?);
        } else {
            found.push(path);
        }
    }
    found.sort_unstable();
    Ok(found)
}

#[cfg(test)]
mod tests;
