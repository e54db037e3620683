//! `counts`: how many instructions each step of the request path takes, held against the committed table.
//!
//! Instructions do not depend on how busy a machine is, so that a change of two in a hundred is seen on any. They
//! say nothing of the kernel, nor of memory that is waited for: that is what the benchmarks are for.

mod table;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::Error;
use crate::outside;
use crate::project::{self, cargo};
use table::{Count, Table};

/// How many hundredths more than the table says are let pass.
const PERCENT_MAX: u64 = 2;

/// The same where compiler, C library or simulator are others than those of the table. What differs then is how
/// bytes are copied: some libraries take half as many instructions for it as others.
const PERCENT_MAX_ELSEWHERE: u64 = 10;

/// Counts, and compares with the table, or writes a new one.
pub(crate) fn run(accept: bool) -> Result<(), Error> {
    outside::install_counting_programs()?;
    let counted = Table { tools: tools(), counts: count()? };
    let path = project::root().join("bench/counts.txt");
    if accept {
        return fs::write(&path, counted.to_string()).map_err(|source| Error::file(path, source));
    }
    let text = fs::read_to_string(&path).map_err(|source| Error::file(&path, source))?;
    let written = Table::parse(&text).ok_or_else(|| Error::Unexpected {
        what: path.display().to_string(),
        expected: "a table as `cargo xtask counts --accept` writes it".into(),
        got: "something else".into(),
    })?;
    let percent_max = if written.tools == counted.tools { PERCENT_MAX } else { PERCENT_MAX_ELSEWHERE };
    println!("written with: {}\ncounted with: {}", written.tools, counted.tools);
    let compared = written.compare(&counted, percent_max);
    compared.iter().for_each(|line| println!("{}", line.text));
    let findings: Vec<_> =
        compared.into_iter().filter(|line| line.is_finding).map(|line| line.text).collect();
    if findings.is_empty() { Ok(()) } else { Err(Error::Counts { percent_max, findings }) }
}

/// What counts depend on besides the code. The processor is a simulated one, and the same on all machines of a kind.
fn tools() -> String {
    let library = version("ldd", "--version");
    let library = library.rsplit(' ').next().unwrap_or_default();
    let compiler = version("rustc", "--version");
    let compiler = compiler.split(' ').nth(1).unwrap_or_default();
    let kind = std::env::consts::ARCH;
    format!("rustc {compiler}, {}, C library {library}, {kind}", version("valgrind", "--version"))
}

/// Returns the first line that a program prints about its version.
fn version(program: &str, flag: &str) -> String {
    let output = Command::new(program).arg(flag).stdin(Stdio::null()).output();
    let text = output.map(|output| [output.stdout, output.stderr].concat()).unwrap_or_default();
    String::from_utf8_lossy(&text).lines().next().unwrap_or("version unknown").to_owned()
}

/// Runs everything once under callgrind, and reads what it wrote.
fn count() -> Result<Vec<Count>, Error> {
    let package = project::root().join("bench/counts");
    let home = project::target().join("counts");
    // What an earlier run left would be read as if this one had written it.
    if home.exists() {
        fs::remove_dir_all(&home).map_err(|source| Error::file(&home, source))?;
    }
    project::run(cargo("run --quiet --bin archives").current_dir(&package))?;
    let mut bench = cargo("bench --quiet --bench request_path");
    bench
        .current_dir(&package)
        .env("GUNGRAUN_HOME", &home)
        .env("GUNGRAUN_RUNNER", outside::gungraun_runner());
    project::output(&mut bench)?;
    let mut counts = Vec::new();
    collect(&home, &mut counts)?;
    Ok(table::sum(counts))
}

/// Reads all that callgrind wrote below a folder: for each case a folder, which is named after it, with a file for each
/// of its threads.
fn collect(folder: &Path, counts: &mut Vec<Count>) -> Result<(), Error> {
    for path in entries(folder)? {
        if path.is_dir() {
            collect(&path, counts)?;
        } else if path.extension().is_some_and(|suffix| suffix == "out") {
            counts.push(read(&path)?);
        }
    }
    Ok(())
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let unreadable = |source| Error::file(folder, source);
    let entries = fs::read_dir(folder).map_err(unreadable)?;
    entries.map(|entry| entry.map(|entry| entry.path()).map_err(unreadable)).collect()
}

/// The count in one of callgrind's files, under the name of its folder: `STEP.CASE`.
fn read(path: &Path) -> Result<Count, Error> {
    let text = fs::read_to_string(path).map_err(|source| Error::file(path, source))?;
    let folder = path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned();
    let instructions = text.lines().find_map(|line| {
        line.strip_prefix("summary: ")
            .or_else(|| line.strip_prefix("totals: "))?
            .split(' ')
            .next()?
            .parse()
            .ok()
    });
    match (folder.split_once('.'), instructions) {
        (Some((step, case)), Some(instructions)) => {
            Ok(Count { step: step.into(), case: case.into(), instructions })
        }
        _ => Err(Error::Unexpected {
            what: path.display().to_string(),
            expected: "callgrind's file, with a line `summary:`".into(),
            got: "something else".into(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A section of a manifest, without its comments.
    fn section(manifest: &str, name: &str) -> Vec<String> {
        let text = fs::read_to_string(project::root().join(manifest)).unwrap();
        let lines = text.lines().skip_while(|line| *line != name).skip(1);
        let lines = lines.take_while(|line| !line.starts_with('['));
        let mut lines: Vec<_> =
            lines.filter(|line| !line.is_empty() && !line.starts_with('#')).map(String::from).collect();
        lines.sort();
        lines
    }

    #[test]
    fn what_is_counted_is_built_as_the_product_is() {
        let product = section("Cargo.toml", "[profile.release]");
        assert!(product.len() > 2, "{product:?}");
        assert_eq!(section("bench/counts/Cargo.toml", "[profile.release]"), product);
    }

    #[test]
    fn the_library_and_its_program_are_of_one_release() {
        let libraries = section("bench/counts/Cargo.toml", "[dev-dependencies]");
        assert_eq!(libraries, [format!("gungraun = \"{}\"", outside::GUNGRAUN_VERSION)]);
    }
}
