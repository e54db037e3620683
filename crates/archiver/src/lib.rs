//! SOURCE FOLDER -> ARCHIVE: the work done once so that serving does none.
//!
//! The modules in reading order: [`walk`] lists the files, [`skip`] says which names stay out,
//! [`classify`] and [`fingerprint`] say what each file is and how long it may be kept,
//! [`redirects`] and [`headers`] read the two rule files, whose paths are a [`pattern`], [`listing`] draws a folder's page, and
//! [`diagnostic`] carries what all of them have to tell the person who runs the build.
//! [`compile`] is the pipeline: [`options`] in, [`report`] or [`error`] out, [`progress`] on the way. It
//! never prints, and what it writes does not depend on threads, clocks or the order of directories.

#![forbid(unsafe_code)]

pub mod error;
pub mod options;
pub mod progress;
pub mod report;

pub mod diagnostic;
pub mod skip;
pub mod walk;

pub mod caching;
pub mod classify;
pub mod fingerprint;

mod access_control;
mod fault;
mod host;
pub mod pattern;
mod pattern_index;
mod percent;

pub mod headers;
pub mod redirects;

mod line_ids;
pub mod listing;

mod circles;
mod gather;
mod listings;
mod routes;
mod rules;
mod special;
mod suspects;

mod content;
mod facts;
mod ordered;
mod read;
mod source;
mod sources_cache;

mod coders;
mod compress_cache;
mod encode;

mod bundles;
mod carry;
mod previous;

mod emit;
mod render;
mod store;

mod links;
mod publish;
mod tell;
pub mod temporary;
mod watch;

pub use error::{Error, ErrorClass, PreviousError};
pub use options::{Encoder, FormatChoice, LastModified, Levels, LinkCheck, Options};
pub use progress::{Progress, Stage};
pub use read::ENCODED_BYTES_MAX;
pub use report::Report;

use crate::carry::Carried;
use crate::emit::Emission;
use crate::links::Links;
use crate::previous::Previous;
use crate::publish::Staging;
use crate::store::Store;
use crate::watch::Watch;

/// Compiles the folder `options.sources` into the archive `options.archive`.
///
/// The archive appears whole or not at all: whatever goes wrong, the old one stands as it stood.
///
/// # Errors
/// See [`Error`]; each names the path where it went wrong.
pub fn compile(options: &Options, progress: &dyn Progress) -> Result<Report, Error> {
    gather::check(options)?;
    let mut previous = Previous::open(options)?;
    let serial = previous.serial(options);
    let mut watch = Watch::new(progress);
    let staging = Staging::beside(&options.archive)?;

    watch.stage(Stage::Walk, None);
    let (mut sources, mut report) = gather::sources(options, &staging)?;
    watch.stage(Stage::Route, None);
    let mut routes = routes::plan(&sources, options);
    rules::add(&mut routes, &sources, options)?;
    let header_rules = gather::header_rules(&mut routes, &sources)?;
    report.diagnostics.append(&mut routes.diagnostics);
    report.diagnostics.append(&mut previous.notes);
    report.diagnostics.append(&mut suspects::find(&sources));
    report.diagnostics.append(&mut access_control::find(&sources));
    if report.errors() > 0 {
        return Err(Error::Sources { path: options.archive.clone(), report: Box::new(report) });
    }
    report.generated =
        if options.include_folder_listing { listings::add(&mut routes, &mut sources, options) } else { 0 };

    gather::check_start_page(options, &sources, &routes)?;

    watch.stage(Stage::Read, Some(sources.len() as u64));
    let mut store = Store::begin(staging, options.format)?;
    let caches = gather::Caches::open(options)?;
    let mut read = caches.reading(options, &sources, &routes.control, progress).run(&mut store)?;
    let mut remarks = gather::mark_immutable(options, &sources, &mut read.contents)?;
    remarks.append(&mut bundles::mark(&sources, &previous, &mut read.contents)?);
    report.diagnostics.append(&mut remarks);
    gather::keep_as_they_are(&routes.hidden, &sources, &mut read.contents, &mut store)?;
    let encoding = caches.encoding(options, &sources, progress);
    watch.stage(Stage::Encode, Some(encoding.total_bytes(&read.contents)));
    let tally = encoding.run(&mut read.contents, &mut store)?;
    let carried = Carried::store(&previous, &routes, &mut store)?;

    watch.stage(Stage::Write, Some(routes.paths.len() as u64));
    let (bytes, records) = emit::bound(&routes, &sources, options);
    let (carried_bytes, carried_records) = carried.bound();
    store.require(bytes + carried_bytes, records + carried_records)?;
    let (mut writer, staging) = store.into_parts()?;
    let archive = staging.place().to_owned();
    let failed = || Error::write(&archive);
    let emission = Emission::new(options, &sources, &read.contents, &routes, &header_rules);
    let emitted = emission.run(&mut writer, &carried, progress).map_err(failed())?;
    tell::count(&mut report, &sources, &routes, &read, &tally, &emitted);
    tell::carried(&mut report, serial, &carried);
    writer.manifest(&tell::manifest(options, &report, &carried, &routes)).map_err(failed())?;
    writer.set_serial(serial);
    let (file, facts) = writer.finish(!options.exclude_slash_redirects).map_err(failed())?;
    tell::archive(&mut report, &facts);
    report.diagnostics.append(&mut routes.diagnostics);
    if options.check_links != LinkCheck::Off {
        let links = Links::open(options, &sources, &routes, staging.open()?);
        watch.stage(Stage::Links, Some(links.files()));
        report.diagnostics.append(&mut links.check(progress)?);
    }

    if options.strict && report.warnings() > 0 {
        return Err(Error::Strict { path: options.archive.clone(), report: Box::new(report) });
    }
    watch.stage(Stage::Publish, None);
    staging.publish(&file)?;
    report.cache_warnings = caches.keep(read.known, tally.verified, &sources);
    report.times = watch.finish();
    Ok(report)
}
