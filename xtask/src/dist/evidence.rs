//! Evidence of what the results are and how they were made: checksums, a bill of materials, and a provenance statement (in-toto
//! Statement v1 with SLSA Provenance v1). Continuous integration signs the statement; this task doesn't have a key.

use std::fs::File;
use std::io;
use std::path::Path;
use std::process::Command;

use cannery_image::{Digest, HashingWriter};
use serde_json::{Map, Value, json};

use crate::dist::programs::Programs;
use crate::dist::target::Target;
use crate::dist::{Options, Profile, Release, files, read, write_file};
use crate::error::Error;
use crate::project;

const REPOSITORY: &str = "https://github.com/cannery/cannery";

/// Writes the checksums, the bill of materials and the provenance statement.
pub(super) fn write(
    release: &Release,
    options: &Options,
    targets: &[&Target],
    host: &Programs,
) -> Result<(), Error> {
    write_file(&release.result(".cdx.json"), &host.output("cannery", &["--sbom"])?)?;

    // A release has files only. Those of the image's layout are in one of them.
    let mut results = files(&release.directory)?;
    results.retain(|path| path.parent() == Some(&release.directory));
    let mut digests = Vec::new();
    for path in &results {
        let name = path.strip_prefix(&release.directory).unwrap_or(path).display().to_string();
        digests.push((name, digest(path)?));
    }

    let provenance = release.result(".provenance.json");
    write_file(&provenance, format!("{:#}\n", statement(release, options, targets, &digests)?).as_bytes())?;
    digests.push((
        release.result(".provenance.json").file_name().unwrap_or_default().display().to_string(),
        digest(&provenance)?,
    ));

    let lines: String = digests.iter().map(|(name, digest)| format!("{digest}  {name}\n")).collect();
    write_file(&release.directory.join("SHA256SUMS"), lines.as_bytes())
}

/// Returns the statement of how the results with these digests were built.
fn statement(
    release: &Release,
    options: &Options,
    targets: &[&Target],
    results: &[(String, Digest)],
) -> Result<Value, Error> {
    let subjects: Vec<_> = results
        .iter()
        .map(|(name, digest)| json!({ "name": name, "digest": { "sha256": digest.to_string() } }))
        .collect();
    let compiler = project::output(Command::new("rustc").current_dir(project::root()).arg("-vV"))?;
    let lock = Digest::of(&read(&project::root().join("Cargo.lock"))?).to_string();
    let profile = |target: &Target| match &options.profile {
        _ if options.programs.is_some() => "unknown",
        _ if target.is_cross() => "without",
        Profile::Trained => "trained",
        Profile::Stored(_) => "stored",
        Profile::Without => "without",
    };
    let targets: Map<_, _> =
        targets.iter().map(|target| (target.triple.to_owned(), profile(target).into())).collect();
    Ok(json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": subjects,
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": format!("{REPOSITORY}/blob/main/CONTRIBUTING.md#make-a-release"),
                "externalParameters": {
                    "profilesOfTargets": targets,
                    "programsWereGiven": options.programs.is_some(),
                },
                "internalParameters": {
                    "rustc": compiler.lines().collect::<Vec<_>>(),
                    "hasChanges": release.has_changes,
                },
                "resolvedDependencies": [
                    { "uri": format!("git+{REPOSITORY}"), "digest": { "gitCommit": release.commit } },
                    { "uri": format!("{REPOSITORY}/blob/{}/Cargo.lock", release.commit), "digest": { "sha256": lock } },
                ],
            },
            "runDetails": {
                "builder": { "id": format!("{REPOSITORY}/blob/main/xtask/src/dist.rs") },
                "metadata": {},
            },
        },
    }))
}

fn digest(path: &Path) -> Result<Digest, Error> {
    let mut file = File::open(path).map_err(|source| Error::file(path, source))?;
    let mut writer = HashingWriter::new(io::sink());
    io::copy(&mut file, &mut writer).map_err(|source| Error::file(path, source))?;
    Ok(writer.finish().1)
}
