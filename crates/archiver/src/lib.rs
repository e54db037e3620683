//! Compiles a source folder into an archive.
//!
//! [`compile`] is the pipeline, one step per line. It never prints, and the archive doesn't depend on threads, clocks or the
//! order of directory entries.

#![forbid(unsafe_code)]

// Input and output of a build.
pub mod diagnostic; // Remarks about the source folder, with file and line.
pub mod error; // Why a build fails.
pub mod options; // All options, with defaults.
pub mod progress; // Progress of a build, for a progress bar.
pub mod report; // Counts and sizes of a finished build.

// Which files there are.
mod prepare; // The walk, less the build's own files.
pub mod skip; // Names to leave out: hidden files, backups, ignore files.
mod source; // Reads source files, unchanged and whole.
pub mod walk; // Lists a directory tree.

// Properties of a file.
pub mod caching; // `Cache-Control` by kind of file.
pub mod classify; // Media types.
pub mod fingerprint; // Names that contain a digest of the content.
mod special; // Names with a meaning, such as `index.html` and `404.html`.

// Rule files.
mod access_control; // Access control of other servers: an error.
mod header_rules; // `_headers` of each site.
pub mod headers; // The grammar of `_headers`.
mod host; // Hosts in rules.
pub mod pattern; // Path patterns of both rule files.
mod pattern_index; // Finds patterns that may match.
mod percent; // Percent-encoding.
mod redirect_loops; // Redirects that lead from host to host and back.
pub mod redirects; // The grammar of `_redirects`.
mod rule_error; // Why a line yields no rule.
mod rules; // Adds redirects to the routes.

// Routes: the answer to each path.
pub mod listing; // Folder listings.
mod routes; // Files to paths.
mod suspects; // Files that are hardly meant to be public.

// Contents.
mod caches; // The two caches.
mod coders; // Encoders: gzip, Zopfli, brotli, zstd.
mod compress_cache; // Cache of compressed contents.
mod content; // Distinct contents.
mod encode; // Compresses contents.
mod immutable; // `--immutable`.
mod ordered; // Parallel work with results in order.
mod read; // Reads and hashes sources.
mod source_facts; // What one pass over a source finds out.
mod sources_cache; // Cache of digests of source files.

// Earlier releases.
mod bundles; // Fingerprinted names of bundlers.
mod carry; // Fingerprinted files of earlier releases.
mod previous; // Archives of earlier releases.

// The archive.
mod emit; // Routes to records.
mod line_ids; // IDs of frequent header lines, for HPACK.
mod links; // Link checker.
pub mod manifest; // The manifest record.
mod publish; // Temporary file, sync and rename.
mod render; // Response heads.
mod stopwatch; // Times the stages.
mod store; // Stores each body once.
mod summary; // Fills in the report.
pub mod temporary; // Temporary files that are removed on signals.

pub use error::{Error, ErrorClass, PreviousError};
pub use options::{Encoder, FormatChoice, LastModified, Levels, LinkCheck, Options};
pub use progress::{Progress, Stage};
pub use read::ENCODED_BYTES_MAX;
pub use report::Report;

use crate::bundles::ToolFolders;
use crate::caches::Caches;
use crate::carry::Carried;
use crate::emit::Emission;
use crate::links::Links;
use crate::previous::Previous;
use crate::publish::Staging;
use crate::stopwatch::Stopwatch;
use crate::store::Store;
use crate::summary::Results;

/// Compiles the folder `options.sources` into the archive `options.archive`.
///
/// The archive is replaced as a whole or not at all: after an error, the old one is unchanged.
///
/// # Errors
/// See [`Error`]. Each error names the path concerned.
pub fn compile(options: &Options, progress: &dyn Progress) -> Result<Report, Error> {
    options.check()?;
    let mut previous = Previous::open(options)?;
    let serial = previous.serial(options);
    let mut stopwatch = Stopwatch::new(progress);
    let staging = Staging::beside(&options.archive)?;

    stopwatch.stage(Stage::Walk, None);
    let (mut sources, mut report) = prepare::sources(options, &staging)?;

    stopwatch.stage(Stage::Route, None);
    let mut routes = routes::plan(&sources, options);
    rules::add(&mut routes, &sources, options)?;
    let header_rules = header_rules::parse(&mut routes, &sources)?;
    report.diagnostics.append(&mut routes.diagnostics);
    report.diagnostics.append(&mut previous.notes);
    report.diagnostics.append(&mut suspects::find(&sources));
    report.diagnostics.append(&mut access_control::find(&sources));
    if report.errors() > 0 {
        return Err(Error::Sources { path: options.archive.clone(), report: Box::new(report) });
    }
    if options.include_folder_listing {
        report.generated = listing::add(&mut routes, &mut sources, options);
    }
    prepare::check_start_page(options, &sources, &routes)?;

    stopwatch.stage(Stage::Read, Some(sources.len() as u64));
    let mut store = Store::begin(staging, options.format)?;
    let caches = Caches::open(options)?;
    let mut read = caches.reading(options, &sources, &routes.control, progress).run(&mut store)?;
    let mut remarks = immutable::mark(options, &sources, &mut read.contents)?;
    let tool_folders = ToolFolders::find(&sources, &previous)?;
    remarks.append(&mut bundles::mark(&sources, &tool_folders, &mut read.contents));
    report.diagnostics.append(&mut remarks);
    read::store_hidden(&routes.hidden, &sources, &mut read.contents, &mut store)?;

    let encoding = caches.encoding(options, &sources, progress);
    stopwatch.stage(Stage::Encode, Some(encoding.total_bytes(&read.contents)));
    let tally = encoding.run(&mut read.contents, &mut store)?;
    let carried = Carried::store(&previous, &tool_folders, &routes, &mut store)?;

    stopwatch.stage(Stage::Write, Some(routes.paths.len() as u64));
    let (bytes, records) = emit::bound(&routes, &sources, options);
    let (carried_bytes, carried_records) = carried.bound();
    store.require(bytes + carried_bytes, records + carried_records)?;
    let (mut writer, staging) = store.into_parts()?;
    let archive = staging.archive_path().to_owned();
    let write_error = || Error::write(&archive);
    let emission = Emission::new(options, &sources, &read.contents, &routes, &header_rules);
    let emitted = emission.run(&mut writer, &carried, progress).map_err(write_error())?;
    report.add_counts(&Results {
        sources: &sources,
        routes: &routes,
        read: &read,
        tally: &tally,
        emitted: &emitted,
    });
    report.add_carried(serial, &carried);
    writer.manifest(&manifest::encode(options, &report, &carried.releases, &routes)).map_err(write_error())?;
    writer.set_serial(serial);
    if options.exclude_slash_redirects {
        writer.disable_slash_redirects();
    }
    let (file, facts) = writer.finish().map_err(write_error())?;
    report.add_archive(&facts);
    report.diagnostics.append(&mut routes.diagnostics);

    if options.check_links != LinkCheck::Off {
        let links = Links::open(options, &sources, &routes, staging.open()?);
        stopwatch.stage(Stage::Links, Some(links.file_count()));
        report.diagnostics.append(&mut links.check(progress)?);
    }

    if options.strict && report.warnings() > 0 {
        return Err(Error::Strict { path: options.archive.clone(), report: Box::new(report) });
    }

    stopwatch.stage(Stage::Publish, None);
    staging.publish(&file)?;
    report.cache_warnings = caches.keep(read.known, tally.verified, &sources);
    report.times = stopwatch.finish();
    Ok(report)
}
