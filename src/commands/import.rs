//! `cannery import`: converts a kawipiko archive. The conversion itself is in the archiver crate.

use cannery_archiver::{ImportReport, import};

use super::build_failure;
use crate::flags::tools::Import;
use crate::format;
use crate::output::{self, Exit, Failure, Paint};

/// Maximum number of paths to print for each reason.
const PATHS_MAX: usize = 3;

/// Runs `cannery import`.
///
/// # Errors
///
/// Returns an error if the input is damaged, or if writing the archive has failed. With `--strict`,
/// this also fails if something was lost.
pub fn run(flags: &Import) -> Result<(), Failure> {
    let report = import(&flags.input, &flags.output)
        .map_err(|error| build_failure::failure(&error).as_json(flags.json))?;
    if flags.json {
        output::print_json(&report)?;
    } else {
        print(flags, &report)?;
    }
    if flags.strict && !report.lost.is_empty() {
        return Err(Failure::new(Exit::Strict, "not everything could be kept, and `--strict` is given"));
    }
    Ok(())
}

fn print(flags: &Import, report: &ImportReport) -> Result<(), Failure> {
    output::print(format_args!(
        "{}  {}: {}, {}, {}; {} in {}\n",
        Paint::for_results().strong(&flags.output.display().to_string()),
        format::bytes(report.archive_bytes),
        format::counted(report.files, "file"),
        format::counted(report.redirects, "redirect"),
        format::counted(report.wildcards, "wildcard"),
        format::bytes(report.body_bytes),
        format::counted(report.bodies, "content"),
    ))?;

    for (reason, paths) in &report.lost {
        let shown: Vec<_> =
            paths.iter().take(PATHS_MAX).map(|path| output::one_line(path).to_string()).collect();
        let more = if paths.len() > PATHS_MAX { ", …" } else { "" };
        output::print(format_args!(
            "not kept, {} times: {reason}: {}{more}\n",
            paths.len(),
            shown.join(", ")
        ))?;
    }
    Ok(())
}
