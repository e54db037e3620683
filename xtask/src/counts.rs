//! `counts`: instructions of each step of the request path, compared with the committed table.
//!
//! Instructions don't depend on the load of a machine, so a change of 2 % shows on any. They include neither the kernel nor
//! cache misses; the benchmarks measure those.

mod table;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::Error;
use crate::outside;
use crate::project::{self, cargo};
use table::{Count, Table};

/// The tolerated increase over the table.
const PERCENT_MAX: u64 = 2;

/// The tolerated increase if the table was written with another compiler, C library or simulator. The difference is in
/// copying bytes: some libraries need half as many instructions for it as others.
const PERCENT_MAX_ELSEWHERE: u64 = 10;

/// Counts instructions and compares them with the table, or writes a new table.
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
        expected: "a table from `cargo xtask counts --accept`".into(),
        got: "another format".into(),
    })?;
    let percent_max = if written.tools == counted.tools { PERCENT_MAX } else { PERCENT_MAX_ELSEWHERE };
    println!("written with: {}\ncounted with: {}", written.tools, counted.tools);
    let compared = written.compare(&counted, percent_max);
    for line in &compared {
        println!("{}", line.text);
    }

    let findings: Vec<_> =
        compared.into_iter().filter(|line| line.is_finding).map(|line| line.text).collect();
    if findings.is_empty() { Ok(()) } else { Err(Error::Counts { percent_max, findings }) }
}

/// Returns the tools that counts depend on in addition to the code. The processor is simulated, so it is the same on all machines
/// of an architecture.
fn tools() -> String {
    let library = version("ldd", "--version");
    let library = library.rsplit(' ').next().unwrap_or_default();
    let compiler = version("rustc", "--version");
    let compiler = compiler.split(' ').nth(1).unwrap_or_default();
    let architecture = std::env::consts::ARCH;
    format!("rustc {compiler}, {}, C library {library}, {architecture}", version("valgrind", "--version"))
}

/// Returns the first line that a program prints about its version.
fn version(program: &str, flag: &str) -> String {
    let output = Command::new(program).arg(flag).stdin(Stdio::null()).output();
    let text = output.map(|output| [output.stdout, output.stderr].concat()).unwrap_or_default();
    String::from_utf8_lossy(&text).lines().next().unwrap_or("version unknown").to_owned()
}

/// Runs all cases once under callgrind and reads its output files.
fn count() -> Result<Vec<Count>, Error> {
    let package = project::root().join("bench/counts");
    let home = project::target().join("counts");
    // Files of an earlier run would count as results of this one.
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

/// Reads callgrind's output: a directory for each case, named after it, with a file for each thread.
fn collect(directory: &Path, counts: &mut Vec<Count>) -> Result<(), Error> {
    for path in entries(directory)? {
        if path.is_dir() {
            collect(&path, counts)?;
        } else if path.extension().is_some_and(|suffix| suffix == "out") {
            counts.push(read(&path)?);
        }
    }
    Ok(())
}

fn entries(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let unreadable = |source| Error::file(directory, source);
    let entries = fs::read_dir(directory).map_err(unreadable)?;
    entries.map(|entry| entry.map(|entry| entry.path()).map_err(unreadable)).collect()
}

/// Reads the count from one of callgrind's files. The directory is named `STEP.CASE`.
fn read(path: &Path) -> Result<Count, Error> {
    let text = fs::read_to_string(path).map_err(|source| Error::file(path, source))?;
    let name = path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned();
    let instructions = text.lines().find_map(|line| {
        line.strip_prefix("summary: ")
            .or_else(|| line.strip_prefix("totals: "))?
            .split(' ')
            .next()?
            .parse()
            .ok()
    });

    match (name.split_once('.'), instructions) {
        (Some((step, case)), Some(instructions)) => {
            Ok(Count { step: step.into(), case: case.into(), instructions })
        }
        _ => Err(Error::Unexpected {
            what: path.display().to_string(),
            expected: "a file of callgrind with a line `summary:`".into(),
            got: "another format".into(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the lines of a section of a manifest, sorted, without comments.
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
    fn profile_is_that_of_the_shipped_product() {
        let mut product = section("Cargo.toml", "[profile.dist]");
        let before = product.len();
        product.retain(|line| line != "inherits = \"release\"");
        assert_eq!(product.len() + 1, before, "it begins with the profile for release");
        product.extend(section("Cargo.toml", "[profile.release]"));
        product.sort();
        assert_eq!(section("bench/counts/Cargo.toml", "[profile.release]"), product);
    }

    #[test]
    fn gungraun_library_and_runner_have_one_version() {
        let libraries = section("bench/counts/Cargo.toml", "[dev-dependencies]");
        assert_eq!(libraries, [format!("gungraun = \"{}\"", outside::GUNGRAUN_VERSION)]);
    }
}
