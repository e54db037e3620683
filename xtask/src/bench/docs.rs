//! A site of a thousand pages: the Python documentation as Debian packages it, built once for each coding.
//! What is compared is the archive's size, and the time and memory that it took.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::report::Report;
use super::usage::{self, Used};
use super::{Plan, commands, machine, median};
use crate::error::Error;
use crate::{outside, project};

/// What is passed to `--compress`, and nothing for the default.
const CODINGS: [Option<&str>; 5] = [Some("identity"), Some("gzip"), Some("zstd"), Some("brotli"), None];

/// A build that takes longer than this is a failure.
const BUILD_MAX: Duration = Duration::from_secs(600);

pub(crate) fn run(plan: Plan) -> Result<(), Error> {
    let archiver = commands::path("cannery-archiver")?;
    let words = format!("cargo xtask bench docs --rounds {}", plan.rounds);
    let versions = [
        machine::version(&archiver.display().to_string(), "--version"),
        machine::version("rustc", "--version"),
    ];
    let mut report = Report::new("docs", &words, &versions);
    report.line(&format!("source:   {}", outside::PYTHON_DOCS));
    report.line("coding           bytes   wall s    cpu s  peak MiB");

    for coding in CODINGS {
        let archive = project::outside().join(format!("docs-{}.cdb", coding.unwrap_or("default")));
        let builds = (0..plan.rounds)
            .map(|_| build(&archiver, Path::new(outside::PYTHON_DOCS), &archive, coding))
            .collect::<Result<Vec<_>, _>>()?;
        let bytes = fs::metadata(&archive).map_err(|source| Error::file(&archive, source))?.len();
        report.line(&format!("{:<10} {bytes:>11} {}", coding.unwrap_or("default"), medians(&builds)));
    }
    report.save()
}

/// Builds an archive from nothing.
pub(crate) fn build(
    archiver: &Path,
    sources: &Path,
    archive: &Path,
    coding: Option<&str>,
) -> Result<Used, Error> {
    fs::create_dir_all(project::outside()).map_err(|source| Error::file(project::outside(), source))?;
    let mut command = Command::new(archiver);
    command.arg("--sources").arg(sources).arg("--archive").arg(archive);
    if let Some(coding) = coding {
        command.args(["--compress", coding]);
    }
    usage::measure(&mut command, BUILD_MAX)
}

/// Wall and processor seconds and peak memory: the median of each, in columns.
pub(crate) fn medians(builds: &[Used]) -> String {
    let of = |figure: fn(&Used) -> f64| median(builds.iter().map(figure).collect());
    format!(
        "{:>8.2} {:>8.2} {:>9.1}",
        of(|used| used.wall.as_secs_f64()),
        of(|used| used.processor.as_secs_f64()),
        of(|used| used.peak_bytes as f64 / 1_048_576.0)
    )
}
