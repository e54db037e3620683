//! Compiles a source folder into an archive.
//!
//! [`compile`] builds once, into a file. If a folder is being edited, you should use a [`Compiler`] instead. This will
//! build again and again, either into memory or (if the archive is large) on disk. Both of them run the pipeline in
//! `build` below, where each step takes about one line. This crate never prints anything, and the archive should not
//! depend on threads, clocks or the order of directory entries.
//!
//! This crate is internal to Cannery, i.e. its interface may change in any release. Programs should use the `cannery` crate
//! instead.

#![forbid(unsafe_code)]

// The rooms, from the outermost to the innermost. Modules may only import from modules further down.

// Converts kawipiko archives.
mod import;

// Runs the pipeline, either once or again and again.
mod builds;

// Link checker.
mod links;

// Archive records: routes and response heads.
mod records;

// Files of earlier releases.
mod releases;

// Decides what answers each path.
mod routes;

// Reads, compresses and stores contents. Equal contents are stored once.
mod contents;

// Source files.
mod sources;

// Where the archive goes.
mod destination;

// Options, effort, cancellation, errors.
mod settings;

// Encoders and decoders of each content coding.
mod codings;

// kawipiko archive reader.
mod kawipiko;

// Parsers for `_redirects` and `_headers`.
mod rulefiles;

// Walks the source folder and decides which files belong to the site.
mod tree;

// Host names.
mod hosts;

// Properties of single files, for example their media type.
mod properties;

// Helpers for all of the above.
mod ground;

pub use builds::changes::{BuiltFiles, Change};
pub use builds::compiler::{Build, Compiler};
pub use builds::followed::FollowedNames;
pub use codings::bounded::DecodeError;
pub use codings::coders::decode;
pub use codings::encoder::Encoder;
pub use codings::levels::{LevelError, Levels};
pub use contents::read::ENCODED_BYTES_MAX;
pub use destination::disk::{MEMORY_ARCHIVE_BYTES_MAX, TemporaryDirectory};
pub use destination::publish::replace_file;
pub use ground::progress::{Progress, Stage};
pub use ground::report::Report;
pub use ground::{diagnostic, progress, report, temporary};
pub use hosts::punycode::ascii_host;
pub use import::{ImportReport, import};
pub use kawipiko::ReadError;
pub use properties::{caching, classify, fingerprint};
pub use releases::manifest;
pub use routes::listing;
pub use rulefiles::{headers, pattern, redirects};
pub use settings::cancel::CancelFlag;
pub use settings::effort::Effort;
pub use settings::error::{Error, ErrorClass, PreviousError};
pub use settings::options::{FormatChoice, LastModified, LinkCheck, LinkException, Options};
pub use settings::{error, library, options};
pub use tree::{boundary, skip, walk};

use std::collections::HashSet;
use std::fs::File;

use cannery_base::FileStamp;

use crate::builds::prepare;
use crate::builds::session::Session;
use crate::builds::summary::Results;
use crate::contents::caches::{Caches, DiskCaches};
use crate::contents::encode::Encoding;
use crate::contents::read::{self, Reading};
use crate::contents::sources_cache::{Extracts, News};
use crate::contents::store::Store;
use crate::destination::Destination;
use crate::destination::publish::Staging;
use crate::ground::stopwatch::Stopwatch;
use crate::links::{Checked, Kept, Links};
use crate::records::emit::{self, Emission, Rules};
use crate::releases::bundles::{self, Evidence, InferableNames};
use crate::releases::carryover::{Carryover, Selection};
use crate::releases::previous::Previous;
use crate::releases::replaced;
use crate::routes::listing::Listings;
use crate::routes::stand_ins::StandIns;
use crate::routes::suspects::{self, left_out};
use crate::routes::{Routes, access_control, content_encoding, header_rules, immutable, rules, stand_ins};
use crate::sources::snapshot::Bodies;
use crate::sources::source::Sources;
use crate::sources::source_facts::SourceFacts;

/// Compiles the folder `options.sources` into the archive `options.archive`.
///
/// The archive is replaced as a whole or not at all, i.e. if the build fails, the old archive remains in
/// place.
///
/// # Errors
///
/// See [`Error`] for details. Each error should name the path that caused it.
pub fn compile(options: &Options, progress: &dyn Progress) -> Result<Report, Error> {
    Ok(build(options, None, progress)?.report)
}

/// A finished build.
pub(crate) struct Built {
    file: File,
    report: Report,
    sources: Sources,
    /// One entry per source file, or empty if none of the caches would store any.
    known: Vec<(FileStamp, SourceFacts)>,
    /// The bodies in the archive, which the next build can copy.
    bodies: Bodies,
    /// Number of compressed contents that this build, being a quick one, has left to a later build.
    deferred: u64,
    /// Whether one of the folder's own pages answers `/`.
    has_start_page: bool,
    /// These should be dropped in the background: if there are many routes, this may take a while.
    routes: Routes,
}

/// Runs the pipeline. If there is a session, the archive is written to an unnamed file; otherwise, it replaces
/// `options.archive`.
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

    // Plan the routes before hashing or compressing anything, because this is where many mistakes in a
    // site show up.
    stopwatch.stage(Stage::Route, None);
    let mut routes = routes::plan(&sources, options);
    rules::add(&mut routes, &mut sources, options)?;
    let mut header_rules = header_rules::parse(&mut routes, &sources)?;
    content_encoding::find(&mut routes, &mut sources, &mut header_rules)?;

    // At this point, the build can still fail with all errors found so far. Afterwards, there may only
    // be warnings.
    report.diagnostics.append(&mut routes.diagnostics);
    report.diagnostics.append(&mut previous.notes);
    report.diagnostics.append(&mut suspects::find(&sources, options));
    report.diagnostics.append(&mut access_control::find(&sources));
    if report.errors() > 0 {
        return Err(Error::Sources { path: destination.path().to_owned(), report: Box::new(report) });
    }

    // This must be determined before listings are added: a generated listing is not a start page that the folder
    // could lose.
    let has_start_page = routes.has_start_page();

    if options.include_folder_listing {
        let mut single = Listings::default();
        let listings = session.as_mut().map_or(&mut single, |session| &mut session.listings);
        report.generated = listing::add(&mut routes, &mut sources, options, listings);
    }

    // The whole folder may currently be in the process of being replaced. In this case, we prefer keeping the last archive to
    // publishing half a site.
    let may_be_unfinished = session.as_ref().is_some_and(|session| session.may_be_unfinished);
    prepare::check_unfinished(options, &sources, has_start_page, may_be_unfinished)?;
    prepare::check_start_page(options, &sources, &routes)?;
    stand_ins::repeat_for_hosts(&mut routes, &mut header_rules);

    stopwatch.stage(Stage::Read, Some(sources.len() as u64));
    // Read and hash each source. When a content does not need to be compressed, we can store it right away.
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

    // Files with a hash of the content in their name are marked as immutable, so that browsers do not have to ask
    // again.
    let names = InferableNames::with_rules(options, &routes, &header_rules);
    bundles::unmark_entries(names, &sources, &mut read.contents);
    let mut remarks = immutable::mark(options, &sources, &mut read.contents)?;
    let mut evidence = Evidence::find(&sources, &read.contents, &previous, names)?;
    remarks.append(&mut bundles::mark(names, &sources, &mut evidence, &mut read.contents)?);

    // We collect unreadable files first. This way, a single error can list all of them.
    sources.check_unreadable()?;
    report.diagnostics.append(&mut remarks);
    read::store_hidden(&routes.hidden, &sources, &mut read.contents, &mut store)?;

    let encoding =
        Encoding { options, sources: &sources, caches: &caches, effort, cancel: &cancel, progress };
    stopwatch.stage(Stage::Encode, Some(encoding.total_bytes(&read.contents)));
    let tally = encoding.run(&mut read.contents, &mut store)?;

    // Files of earlier releases that may still be requested by open pages. These are read from the
    // previous archive.
    let (skip_rules, _) = prepare::skip_rules(options)?;
    let selection = Selection { routes: &routes, evidence: &evidence, names, skip_rules: &skip_rules };
    let carried = Carryover::store(&previous, &selection, &mut store)?;
    report.diagnostics.extend(carried.note());

    // All bodies have been stored, so only small records will follow. If these may not fit, this is the
    // last chance for the store to switch to the 64-bit format.
    stopwatch.stage(Stage::Write, Some(routes.paths.len() as u64));
    let (bytes, records) = emit::bound(&routes, &sources, options);
    let (carried_bytes, carried_records) = carried.bound();
    store.require(bytes + carried_bytes, records + carried_records)?;

    let (mut writer, destination, body_ids) = store.into_parts()?;
    let archive = destination.path().to_owned();
    let write_error = || Error::write(&archive);

    // These come last, because routes and response heads refer to bodies by their IDs.
    let own_fields = StandIns::find(&sources, &routes, &header_rules);
    let emission = Emission::new(
        options,
        &sources,
        &read.contents,
        &routes,
        Rules { headers: &header_rules, stand_ins: &own_fields },
    );
    let emitted = emission.run(&mut writer, &carried, progress).map_err(write_error())?;

    // The manifest contains the report, or at least what we know of it at this point.
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
    // The last chance to cancel before the archive becomes valid.
    cancel.check()?;
    let (file, facts) = writer.finish().map_err(write_error())?;
    report.add_archive(&facts);
    report.diagnostics.append(&mut routes.diagnostics);

    // The link checker looks up paths in the finished archive, exactly like the server will. In quick builds, it is
    // skipped.
    let mut extracts = Extracts::new();
    if options.check_links != LinkCheck::Off && effort == Effort::Full {
        let kept = Kept { caches: &caches, known: &read.known };
        let links = Links::open(options, &sources, &routes, kept, destination.open(&file)?);
        stopwatch.stage(Stage::Links, Some(links.file_count()));
        let Checked { diagnostics: mut found, pages_known, extracts: new } = links.check(progress)?;
        report.caches.pages_known = pages_known;
        extracts = new;
        // Names with several pages have already been reported by `left_out`, so links to them should not be
        // reported as well.
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
    // This warning is about the machine rather than the folder, so `--strict` should not turn it into an
    // error.
    report.diagnostics.extend(destination.warning());
    let file = destination.publish(file)?;
    report.cache_warnings = caches.keep(&read.known, News { verified: tally.verified, extracts }, &sources);
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
