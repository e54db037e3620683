//! Very many very small files: the pyramid of 250,000 map tiles, built into an archive and opened again.
//! What is compared is the build, and the time from the server's start to its first answer.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::report::Report;
use super::server::Running;
use super::{Plan, commands, docs, machine, median, usage};
use crate::error::Error;
use crate::project;
use crate::tiles::{COUNT, Pyramid, SEED};

pub(crate) fn run(plan: Plan) -> Result<(), Error> {
    let archiver = commands::path("cannery-archiver")?;
    let server = commands::path("cannery-server")?;
    let words = format!("cargo xtask bench tiles --rounds {}", plan.rounds);
    let versions =
        [&archiver, &server].map(|path| machine::version(&path.display().to_string(), "--version"));
    let mut report = Report::new("tiles", &words, &versions);

    let pyramid = Pyramid::new(COUNT, SEED);
    let sources = sources(&pyramid)?;
    let archive = project::outside().join("tiles.cdb");
    let builds = (0..plan.rounds)
        .map(|_| docs::build(&archiver, &sources, &archive, Some("identity")))
        .collect::<Result<Vec<_>, _>>()?;
    let bytes = fs::metadata(&archive).map_err(|source| Error::file(&archive, source))?.len();
    report.line("build            bytes   wall s    cpu s  peak MiB");
    report.line(&format!("identity   {bytes:>11} {}", docs::medians(&builds)));

    let openings =
        (0..plan.rounds).map(|_| open(&server, &archive, &pyramid)).collect::<Result<Vec<_>, _>>()?;
    let milliseconds =
        median(openings.iter().map(|opening| opening.first_answer.as_secs_f64() * 1e3).collect());
    let peak = median(openings.iter().map(|opening| opening.peak_bytes as f64 / 1_048_576.0).collect());
    report.line(&format!("first answer after {milliseconds:.1} ms, peak memory by then {peak:.1} MiB"));
    report.save()
}

/// The folder of the tiles, made once. It gets its name only when it is whole.
pub(crate) fn sources(pyramid: &Pyramid) -> Result<PathBuf, Error> {
    let folder = project::outside().join(format!("tiles-{}-{SEED}", pyramid.count()));
    if folder.is_dir() {
        return Ok(folder);
    }
    let unfinished = folder.with_extension("unfinished");
    pyramid.write_to(&unfinished).map_err(|source| Error::file(&unfinished, source))?;
    fs::rename(&unfinished, &folder).map_err(|source| Error::file(&folder, source))?;
    Ok(folder)
}

struct Opening {
    /// From the start of the process to the last byte of the first answer.
    first_answer: Duration,
    peak_bytes: u64,
}

/// Starts the server, asks it for the last tile, and checks the tile.
fn open(server: &Path, archive: &Path, pyramid: &Pyramid) -> Result<Opening, Error> {
    let address = machine::free_address()?;
    let mut command = Command::new(server);
    command.args(["--threads", "1", "--bind"]).arg(address.to_string()).arg("--archive").arg(archive);
    let tile = pyramid.count() - 1;
    let request = format!("GET /{} HTTP/1.1\r\nHost: tiles\r\nConnection: close\r\n\r\n", pyramid.path(tile));

    let started = Instant::now();
    let running = Running::start(&mut command, "0", address)?;
    let answer = running.ask(request.as_bytes(), usize::MAX)?;
    let first_answer = started.elapsed();
    if !answer.ends_with(&pyramid.content(pyramid.content_of(tile))) {
        return Err(Error::Unexpected {
            what: format!("the answer for {}", pyramid.path(tile)),
            expected: "the tile's bytes at its end".into(),
            got: String::from_utf8_lossy(&answer[..answer.len().min(200)]).escape_debug().to_string(),
        });
    }
    Ok(Opening { first_answer, peak_bytes: usage::peak_bytes_of_tree(running.process())? })
}
