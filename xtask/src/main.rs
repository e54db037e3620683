//! The project's scripts: `cargo xtask`, for developers and continuous integration.
//!
//! Tasks start other programs and report their results. The product never depends on this crate. A task ends only processes
//! that it started itself.

#![forbid(unsafe_code)]

mod checks;
mod counts;
mod dist;
mod error;
mod extent;
mod links;
mod machine;
mod minute;
mod outside;
mod packed;
mod pgo;
mod project;
mod steps;
mod test_programs;
mod tidy;
mod wording;
mod words;

use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use cannery_testkit::tiles;

use crate::error::Error;
use crate::extent::Extent;
use crate::words::Words;

const USAGE: &str = "\
usage: cargo xtask TASK

  test [--fast | --slow]             install the programs that the tests need, then run all checks
                                     --fast: only formatting, cargo test and clippy
                                     --slow: also the long tests, cargo deny, semver and counts
  ci                                 the checks of continuous integration: test, cargo deny
  semver                             compare the public functions with those of the last release
  packed                             pack the crates as for crates.io, build them, and install the programs
  tidy                               only the checks of texts and of the structure
  bench [NAME] [OPTIONS]             benchmarks: all comparisons with other servers, or one scenario;
                                     `cargo xtask bench --help` lists the options
  counts [--accept]                  instructions of the request path, compared with bench/counts.txt
                                     --accept: write the counts into it
  pgo                                build cannery-server with profile-guided optimization, in target/pgo/
  dist [OPTIONS]                     package, image and archives of the programs, in target/packages/
                                     --target TRIPLE: only for this target; repeatable
                                     --without-profile: without profile-guided optimization
                                     --complete: fail if a target can't be built here
                                     --profiles DIR: optimize by stored profiles, TRIPLE.profdata
                                     --programs DIR: pack the programs in DIR instead of building any
                                     --dirty: although files differ from the commit
                                     --check: also check them by installing and starting them; needs root
  minute [--deb FILE]                from an empty machine to a trusted site by the commands of README.md; needs root
                                     --deb: with this package, instead of one of the programs in target/debug
  edits [COUNT]                      edits in each way of saving while a client reads, 10,000 by default
  tiles DIR [--count N] [--seed S]   write a pyramid of map tiles

The man page is printed by `cannery --man`.";

fn main() -> ExitCode {
    match run(Words::new(env::args().skip(1))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(mut words: Words) -> Result<(), Error> {
    let task = words.next().ok_or(Error::Usage { problem: "no task was named".into() })?;

    match task.as_str() {
        "test" => {
            let extent = match (words.take("--fast").is_some(), words.take("--slow").is_some()) {
                (false, false) => Extent::Usual,
                (true, false) => Extent::Fast,
                (false, true) => Extent::Slow,
                (true, true) => {
                    return Err(Error::Usage { problem: "--fast and --slow exclude each other".into() });
                }
            };

            words.finish()?;
            checks::run(extent)
        }
        "ci" => words.finish().and_then(|()| checks::run(Extent::Integration)),
        "semver" => words.finish().and_then(|()| checks::check_public_functions()),
        "packed" => words.finish().and_then(|()| packed::run()),
        "tidy" => words.finish().and_then(|()| checks::check_texts()),
        "bench" => bench(words),
        "counts" => {
            let accept = words.take("--accept").is_some();
            words.finish()?;
            counts::run(accept)
        }
        "pgo" => words.finish().and_then(|()| pgo::run()),
        "dist" => dist::run(words),
        "minute" => {
            let package = words.value("--deb")?.map(PathBuf::from);
            words.finish()?;
            minute::run(package)
        }
        "edits" => edit(words),
        "tiles" => write_tiles(words),
        "help" | "--help" | "-h" => {
            println!("{USAGE}");
            Ok(())
        }
        _ => Err(Error::Usage { problem: format!("there is no task `{task}`") }),
    }
}

/// Builds and runs the benchmarks, a package that the tests leave out. The dev profile optimizes it fully and shares the
/// libraries with the tests; the benchmarks themselves build the product as it is shipped.
fn bench(words: Words) -> Result<(), Error> {
    let mut command = project::cargo("run --quiet --package cannery-bench --");
    project::run(command.args(words.into_rest()))
}

/// Runs the tests of `tests/it/edit_runs.rs` at full length, each alone.
fn edit(mut words: Words) -> Result<(), Error> {
    let count = words.next().unwrap_or_else(|| "10000".into());
    words.finish()?;
    let test = "test --package cannery-cli --test it edit_runs:: -- --nocapture --test-threads 1";
    project::run(project::cargo(test).env("CANNERY_EDITS", count))
}

fn write_tiles(mut words: Words) -> Result<(), Error> {
    let count = words.number("--count", tiles::COUNT)?;
    let seed = words.number("--seed", tiles::SEED)?;
    let folder = words.next().ok_or(Error::Usage { problem: "tiles: name the folder to write to".into() })?;
    words.finish()?;

    let pyramid = tiles::Pyramid::new(count, seed);
    let started = Instant::now();
    let bytes = pyramid.write_to(Path::new(&folder)).map_err(|source| Error::file(&folder, source))?;
    println!(
        "{} tiles, {} distinct, {bytes} bytes, {:.1} s",
        pyramid.count(),
        pyramid.distinct(),
        started.elapsed().as_secs_f64()
    );
    Ok(())
}
