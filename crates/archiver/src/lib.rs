//! Compiles a source folder into an archive.
//!
//! [`compile`] builds once, into a file; a [`Compiler`] builds again and again, into memory, or on disk if the archive is
//! large. Both run the same pipeline, in which we give each step a line. It never prints, and the archive doesn't depend on
//! threads, clocks or the order of directory entries.

#![forbid(unsafe_code)]

// Input and output of a build.
pub mod diagnostic; // Remarks about the source folder, with file and line.
pub mod error; // Why a build fails.
pub mod options; // All options, with defaults.
pub mod progress; // Progress of a build, for a progress bar.
pub mod report; // Counts and sizes of a finished build.

// Which files there are.
pub mod boundary; // Links that lead out of the folder.
mod folder_file; // Opens files of a folder.
mod precompressed; // Files that are compressed already.
mod prepare; // The walk, less the build's own files.
pub mod skip; // Names to leave out: hidden files, backups, ignore files.
mod source; // Reads source files, unchanged and whole.
mod sparse; // Files of holes.
pub mod walk; // Lists a directory tree.

// Properties of a file.
pub mod caching; // `Cache-Control` by kind of file.
pub mod classify; // Media types.
pub mod fingerprint; // Names that contain a digest of the content.
mod special; // Names with a meaning, such as `index.html` and `404.html`.

// Rule files.
mod access_control; // Access control of other servers: an error.
mod access_words; // Words that restrict access elsewhere: an error.
mod content_encoding; // Files that are compressed already, by rules.
mod header_rules; // `_headers` of each site.
pub mod headers; // The grammar of `_headers`.
mod host; // Hosts in rules.
pub mod pattern; // Path patterns of both rule files.
mod pattern_index; // Finds patterns that may match.
mod percent; // Percent-encoding.
mod punycode; // International host names.
mod redirect_loops; // Redirects that never end.
pub mod redirects; // The grammar of `_redirects`.
mod rule_error; // Why a line yields no rule.
mod rules; // Adds redirects to the routes.
mod script_policy; // Policies that block the script of previews.

// Routes: the answer to each path.
pub mod listing; // Folder listings.
mod routes; // Files to paths.
mod site_path; // Paths of the folder as paths of sites.
mod suspects; // Files that are hardly meant to be public.

// Contents.
mod caches; // The two caches, on disk or in memory.
mod coders; // Encoders: gzip, Zopfli, brotli, zstd.
mod compress_cache; // Cache of compressed contents.
mod content; // Distinct contents.
mod decode; // Decoders, with a limit.
mod digest_map; // Hash maps by digest.
mod encode; // Compresses contents.
mod immutable; // `--immutable`.
mod memory_cache; // Compressed contents in memory.
mod ordered; // Parallel work with results in order.
mod read; // Reads and hashes sources.
mod source_facts; // What one pass over a source finds out.
mod sources_cache; // Cache of digests of source files.

// Earlier releases.
mod bundles; // Fingerprinted names of bundlers.
mod carryover; // Fingerprinted files of earlier releases.
mod previous; // Archives of earlier releases.
mod replaced; // Files that only the replaced archive has.

// Builds of one folder again and again, in one process.
mod cancel; // Cancellation.
mod changes; // Compares two builds.
mod compiler; // The public interface.
mod effort; // How thorough a build is.
mod resume; // The last build of another process.
mod session; // One of the builds.
mod snapshot; // The last build.
mod stability; // Waits until the folder has settled.
mod unreadable; // Files that can't be read.
mod writers; // Detects files that are being written.

// The archive.
mod destination; // A path, memory, or a file without a name.
mod disk; // Files without a name on disk.
mod emit; // Routes to records.
pub mod library; // Messages for programs without flags.
mod line_ids; // IDs of frequent header lines, for HPACK.
mod links; // Link checker.
pub mod manifest; // The manifest record.
mod memory_file; // Files without a name in memory.
mod publish; // Temporary file, sync and rename.
mod render; // Response heads.
mod stand_ins; // Caching of pages in place of other paths.
mod stopwatch; // Times the stages.
mod store; // Stores each body once.
mod summary; // Fills in the report.

// Archives of another program.
mod import; // Converts an archive of kawipiko.
mod kawipiko; // Reads archives of kawipiko.
pub mod temporary; // Temporary files that are removed on signals.

pub use cancel::CancelFlag;
pub use changes::{BuiltFiles, Change};
pub use compiler::{Build, Compiler};
pub use decode::{DecodeError, decode};
pub use disk::{MEMORY_ARCHIVE_BYTES_MAX, TemporaryDirectory};
pub use effort::Effort;
pub use error::{Error, ErrorClass, PreviousError};
pub use import::{ImportReport, import};
pub use kawipiko::ReadError;
pub use options::{Encoder, FormatChoice, LastModified, Levels, LinkCheck, LinkException, Options};
pub use progress::{Progress, Stage};
pub use publish::replace_file;
pub use punycode::ascii_host;
pub use read::ENCODED_BYTES_MAX;
pub use report::Report;

use std::collections::HashSet;
use std::fs::File;

use cannery_base::FileStamp;

use crate::bundles::{Evidence, InferableNames};
use crate::caches::{Caches, DiskCaches};
use crate::carryover::{Carryover, Selection};
use crate::destination::Destination;
use crate::emit::{Emission, Rules};
use crate::encode::Encoding;
use crate::links::Links;
use crate::listing::Listings;
use crate::previous::Previous;
use crate::publish::Staging;
use crate::read::Reading;
use crate::routes::Routes;
use crate::session::Session;
use crate::snapshot::Bodies;
use crate::source::Sources;
use crate::source_facts::SourceFacts;
use crate::stand_ins::StandIns;
use crate::stopwatch::Stopwatch;
use crate::store::Store;
use crate::summary::Results;
use crate::suspects::left_out;

/// Compiles the folder `options.sources` into the archive `options.archive`.
///
/// The archive is replaced as a whole or not at all: after an error, the old one is unchanged.
///
/// # Errors
/// See [`Error`]. Each error names the path concerned.
pub fn compile(options: &Options, progress: &dyn Progress) -> Result<Report, Error> {
    Ok(build(options, None, progress)?.report)
}

/// A finished build.
pub(crate) struct Built {
    file: File,
    report: Report,
    sources: Sources,
    /// By source file, if the caches store them.
    known: Vec<(FileStamp, SourceFacts)>,
    /// The bodies of the archive.
    bodies: Bodies,
    /// Number of compressed contents that a quick build did without.
    deferred: u64,
    /// Whether a page of the folder answers `/`.
    has_start_page: bool,
    /// The routes, which take a while to drop.
    routes: Routes,
}

/// Builds into the archive of the options, or into a file without a name if the build is one of a session.
pub(crate) fn build(
    options: &Options,
    mut session: Option<&mut Session<'_>>,
    progress: &dyn Progress,
) -> Result<Built, Error> {
    options.check()?;
    let mut previous = Previous::open(options)?;
    let serial = previous.serial(options);
    let mut stopwatch = Stopwatch::new(progress);
    let destination = match &session {
        None => Destination::Path(Staging::beside(&options.archive)?),
        Some(session) => Destination::Memory(session.space.clone()),
    };

    stopwatch.stage(Stage::Walk, None);
    let (mut sources, mut report) = prepare::sources(options, &destination, session.as_deref_mut())?;

    stopwatch.stage(Stage::Route, None);
    let mut routes = routes::plan(&sources, options);
    rules::add(&mut routes, &mut sources, options)?;
    let mut header_rules = header_rules::parse(&mut routes, &sources)?;
    content_encoding::find(&mut routes, &mut sources, &mut header_rules)?;
    report.diagnostics.append(&mut routes.diagnostics);
    report.diagnostics.append(&mut previous.notes);
    report.diagnostics.append(&mut suspects::find(&sources, options));
    report.diagnostics.append(&mut access_control::find(&sources));
    if report.errors() > 0 {
        return Err(Error::Sources { path: destination.path().to_owned(), report: Box::new(report) });
    }
    // A listing isn't one.
    let has_start_page = routes.has_start_page();
    if options.include_folder_listing {
        let mut single = Listings::default();
        let listings = session.as_mut().map_or(&mut single, |session| &mut session.listings);
        report.generated = listing::add(&mut routes, &mut sources, options, listings);
    }
    let may_be_unfinished = session.as_ref().is_some_and(|session| session.may_be_unfinished);
    prepare::check_unfinished(options, &sources, has_start_page, may_be_unfinished)?;
    prepare::check_start_page(options, &sources, &routes)?;

    stopwatch.stage(Stage::Read, Some(sources.len() as u64));
    let earlier = session.as_ref().and_then(|session| session.earlier.snapshot.clone());
    let mut store = Store::begin(destination, options.format, earlier, sources.bytes())?;
    let effort = session.as_ref().map_or(Effort::Full, |session| session.effort);
    let cancel = session.as_ref().map_or_else(CancelFlag::default, |session| session.cancel.clone());
    let caches = match session {
        None => Caches::Disk(DiskCaches::open(options)?),
        Some(session) => Caches::Memory { earlier: session.earlier.clone(), results: session.results },
    };
    let reading = Reading {
        options,
        sources: &sources,
        control: &routes.control,
        caches: &caches,
        cancel: &cancel,
        progress,
    };
    let mut read = reading.run(&mut store)?;
    let names = InferableNames::with_rules(options, &routes, &header_rules);
    bundles::unmark_entries(names, &sources, &mut read.contents);
    let mut remarks = immutable::mark(options, &sources, &mut read.contents)?;
    let mut evidence = Evidence::find(&sources, &read.contents, &previous, names)?;
    remarks.append(&mut bundles::mark(names, &sources, &mut evidence, &mut read.contents)?);
    sources.check_unreadable()?;
    report.diagnostics.append(&mut remarks);
    read::store_hidden(&routes.hidden, &sources, &mut read.contents, &mut store)?;

    let encoding =
        Encoding { options, sources: &sources, caches: &caches, effort, cancel: &cancel, progress };
    stopwatch.stage(Stage::Encode, Some(encoding.total_bytes(&read.contents)));
    let tally = encoding.run(&mut read.contents, &mut store)?;
    let (skip_rules, _) = prepare::skip_rules(options)?;
    let selection = Selection { routes: &routes, evidence: &evidence, names, skip_rules: &skip_rules };
    let carried = Carryover::store(&previous, &selection, &mut store)?;
    report.diagnostics.extend(carried.note());

    stopwatch.stage(Stage::Write, Some(routes.paths.len() as u64));
    let (bytes, records) = emit::bound(&routes, &sources, options);
    let (carried_bytes, carried_records) = carried.bound();
    store.require(bytes + carried_bytes, records + carried_records)?;

    let (mut writer, destination, body_ids) = store.into_parts()?;
    let archive = destination.path().to_owned();
    let write_error = || Error::write(&archive);
    let stand_ins = StandIns::find(&sources, &routes, &header_rules);
    let emission = Emission::new(
        options,
        &sources,
        &read.contents,
        &routes,
        Rules { headers: &header_rules, stand_ins: &stand_ins },
    );
    let emitted = emission.run(&mut writer, &carried, progress).map_err(write_error())?;

    // The manifest holds the report, as far as it is known.
    report.add_counts(&Results {
        sources: &sources,
        routes: &routes,
        read: &read,
        tally: &tally,
        emitted: &emitted,
    });
    report.add_carried(serial, &carried);
    writer
        .manifest(&manifest::encode(options, &report, &carried.releases, &evidence.mutable(), &routes))
        .map_err(write_error())?;
    writer.set_serial(serial);

    let bodies = Bodies::new(body_ids, writer.body_extents());
    if options.exclude_slash_redirects {
        writer.disable_slash_redirects();
    }
    cancel.check()?;
    let (file, facts) = writer.finish().map_err(write_error())?;
    report.add_archive(&facts);
    report.diagnostics.append(&mut routes.diagnostics);

    if options.check_links != LinkCheck::Off && effort == Effort::Full {
        let links = Links::open(options, &sources, &routes, destination.open(&file)?);
        stopwatch.stage(Stage::Links, Some(links.file_count()));
        let mut found = links.check(progress)?;
        // A name with pages was reported.
        let known: HashSet<String> = report.files_with(left_out::PAGES_LEFT_OUT);
        found.retain(|diagnostic| diagnostic.code != "linked-left-out" || !known.contains(&diagnostic.file));
        report.diagnostics.append(&mut found);
    }

    if options.strict && report.warnings() > 0 {
        return Err(Error::Strict { path: archive, report: Box::new(report) });
    }

    stopwatch.stage(Stage::Publish, None);
    if let Destination::Path(_) = destination {
        report.diagnostics.extend(replaced::note(options, &routes));
    }
    // About this machine, and not about the folder, so it is no error for `--strict`.
    report.diagnostics.extend(destination.warning());
    destination.publish(&file)?;
    report.cache_warnings = caches.keep(&read.known, tally.verified, &sources);
    report.times = stopwatch.finish();
    Ok(Built {
        file,
        report,
        sources,
        known: read.known,
        bodies,
        deferred: tally.deferred,
        has_start_page,
        routes,
    })
}
