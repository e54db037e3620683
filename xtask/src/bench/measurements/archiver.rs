//! What building an archive takes, and how large it gets, beside the files that it is made of.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::super::contenders::Contender;
use super::super::figures::{Figure, Figures, Quantity};
use super::super::report::Report;
use super::super::scenario::Extent;
use super::super::scenarios::tiles;
use super::super::site::files_below;
use super::super::{Plan, commands, docs};
use super::Measurement;
use crate::error::Error;
use crate::{outside, project};

pub(super) const MEASUREMENT: Measurement = Measurement {
    name: "archiver",
    title: "Building an archive",
    says: "Python's documentation, a thousand pages, and 250,000 map tiles, each from nothing, with a thread for each \
           processor. *Files* is the sum of their sizes as they are; several codings stand side by side in one archive.",
    is_secured: false,
    contenders: &[],
    points: &[DOCUMENTATION, TILES],
    quantities: &[
        Quantity::ArchiveBytes,
        Quantity::BuildS,
        Quantity::BuildProcessorS,
        Quantity::BuildPeakMib,
    ],
    run,
};

const DOCUMENTATION: &str = "documentation";
const TILES: &str = "tiles";

/// Each coding alone, and all that the server can negotiate.
const CODINGS: [&str; 5] = ["identity", "gzip", "zstd", "brotli", "identity,gzip,brotli,zstd"];

/// Builds that have taken so long together tell as much as the median of more short ones.
const ENOUGH: Duration = Duration::from_secs(10);

fn run(_: &[Contender], plan: Plan, extent: Extent, report: &mut Report) -> Result<Figures, Error> {
    let mut figures = Figures::default();
    let codings = if extent == Extent::Quick { &CODINGS[..2] } else { &CODINGS };
    measure(DOCUMENTATION, Path::new(outside::PYTHON_DOCS), codings, plan, report, &mut figures)?;
    // Tiles are compressed already, so only one coding is worth its time.
    measure(TILES, &tiles(extent)?.sources, &CODINGS[..1], plan, report, &mut figures)?;
    Ok(figures)
}

fn measure(
    point: &str,
    sources: &Path,
    codings: &[&str],
    plan: Plan,
    report: &mut Report,
    figures: &mut Figures,
) -> Result<(), Error> {
    let mut add = |contender: &str, round, quantity: Quantity, value: f64| {
        report.line(&format!("{point:<13} {contender:<26} {value:>12.2} {}", quantity.words()));
        let (scenario, point, contender) = (MEASUREMENT.name.into(), point.into(), contender.into());
        figures.0.push(Figure { scenario, point, contender, round, quantity, value });
    };
    add("files", 1, Quantity::ArchiveBytes, bytes_below(sources)? as f64);
    let archiver = commands::path("cannery-archiver")?;
    let archive = project::outside().join("running/archive.cdb");
    for coding in codings {
        let started = Instant::now();
        for round in 1..=plan.rounds {
            if round > 1 && started.elapsed() > ENOUGH {
                break;
            }
            let used = docs::build(&archiver, sources, &archive, Some(coding))?;
            let bytes = fs::metadata(&archive).map_err(|source| Error::file(&archive, source))?.len();
            add(coding, round, Quantity::ArchiveBytes, bytes as f64);
            add(coding, round, Quantity::BuildS, used.wall.as_secs_f64());
            add(coding, round, Quantity::BuildProcessorS, used.processor.as_secs_f64());
            add(coding, round, Quantity::BuildPeakMib, used.peak_bytes as f64 / 1_048_576.0);
        }
    }
    Ok(())
}

fn bytes_below(folder: &Path) -> Result<u64, Error> {
    let folder = folder.canonicalize().map_err(|source| Error::file(folder, source))?;
    let length = |path: &PathBuf| {
        fs::metadata(path).map(|metadata| metadata.len()).map_err(|source| Error::file(path, source))
    };
    files_below(&folder)?.iter().map(length).sum()
}
