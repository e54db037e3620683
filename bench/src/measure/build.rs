//! Builds: size of an archive, and time and memory of building it.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::{Context, cold_start};
use crate::metric::Metric;
use crate::project::{self, files_below};
use crate::results::{Sample, Samples};
use crate::scenario::{Build, Step};
use crate::site::{self, Site};

/// Builds that take this long in total need no more rounds.
const ENOUGH: Duration = Duration::from_secs(10);

pub(super) fn run(context: &Context<'_>) -> Result<Samples> {
    let mut samples = Samples::default();
    for Build { site, compress, then_start } in &context.scenario.builds {
        let spec = &context.scenarios.sites[site];
        let sources = site::sources(site, spec, context.plan.is_quick)?;
        let mut bytes = 0;
        for file in files_below(&sources)? {
            bytes += fs::metadata(file)?.len();
        }
        samples.record(site, "files", Ok(vec![(Metric::ArchiveBytes, bytes as f64)]));

        // Quick runs leave out the slow codings.
        let codings = if context.plan.is_quick { &compress[..1] } else { compress };
        for coding in codings {
            let started = Instant::now();
            for round in 0..context.plan.rounds() {
                if round == 0 || started.elapsed() < ENOUGH {
                    samples.record(site, coding, measure(&sources, coding));
                }
            }
        }
        if *then_start {
            let prepared = Site::prepare(site, spec, context.plan.is_quick)?;
            let context = Context { site: Some(&prepared), ..*context };
            let server = context.servers.get("cannery")?;
            for _ in 0..context.plan.rounds() {
                let sample = cold_start::measure(&context, &server, &Step::default());
                samples.record(site, "first response of cannery", sample);
            }
        }
    }
    Ok(samples)
}

/// Builds an archive with some coding, or with the flags that the archiver has by default.
pub(super) fn measure(sources: &Path, coding: &str) -> Result<Sample> {
    let archive = project::scratch("running/archive.cdb")?;
    let mut sample = site::build(sources, &archive, (coding != "default").then_some(coding))?;
    sample.insert(0, (Metric::ArchiveBytes, fs::metadata(&archive)?.len() as f64));
    Ok(sample)
}
