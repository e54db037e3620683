//! Builds: size of an archive, and time and memory of building it.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::{Context, cold_start};
use crate::metric::Metric;
use crate::project::{self, files_below};
use crate::results::Samples;
use crate::scenario::{Build, Step};
use crate::site::{self, Site};

/// Builds that take this long in total need no more rounds.
const ENOUGH: Duration = Duration::from_secs(10);

pub(super) fn run(context: &Context<'_>) -> Result<Samples> {
    let mut samples = Samples::default();
    for build in &context.scenario.builds {
        let spec = &context.scenarios.sites[&build.site];
        let sources = site::sources(&build.site, spec, context.plan.is_quick())?;
        let bytes = vec![(Metric::ArchiveBytes, bytes_below(&sources)? as f64)];
        samples.record(&build.site, "files", Ok(bytes));

        // Quick runs leave out the slow codings.
        let codings = if context.plan.is_quick() { &build.compress[..1] } else { &build.compress };
        for coding in codings {
            measure(context, build, &sources, coding, &mut samples)?;
        }
        if build.then_start {
            start(context, build, &mut samples)?;
        }
    }
    Ok(samples)
}

fn measure(
    context: &Context<'_>,
    build: &Build,
    sources: &Path,
    coding: &str,
    samples: &mut Samples,
) -> Result<()> {
    let archive = project::scratch("running/archive.cdb")?;
    let started = Instant::now();
    for round in 0..context.plan.rounds {
        if round > 0 && started.elapsed() > ENOUGH {
            break;
        }
        let used = site::build(sources, &archive, (coding != "default").then_some(coding))?;
        let bytes = fs::metadata(&archive)?.len();
        let sample = vec![
            (Metric::ArchiveBytes, bytes as f64),
            (Metric::BuildS, used.wall.as_secs_f64()),
            (Metric::BuildCpuS, used.cpu.as_secs_f64()),
            (Metric::PeakMib, used.peak_bytes as f64 / 1_048_576.0),
        ];
        samples.record(&build.site, coding, Ok(sample));
    }
    Ok(())
}

/// Times a server's start with the archive, and its peak memory until the first response.
fn start(context: &Context<'_>, build: &Build, samples: &mut Samples) -> Result<()> {
    let spec = &context.scenarios.sites[&build.site];
    let site = Site::prepare(&build.site, spec, context.plan.is_quick())?;
    let context = Context { site: Some(&site), ..*context };
    let server = context.servers.get("cannery")?;
    let launch = context.launch(&Step::default());
    for _ in 0..context.plan.rounds {
        let sample = cold_start::first_response(&context, &server, &launch);
        samples.record(&build.site, "first response of cannery", sample);
    }
    Ok(())
}

fn bytes_below(folder: &Path) -> Result<u64> {
    let mut sum = 0;
    for file in files_below(folder)? {
        sum += fs::metadata(file)?.len();
    }
    Ok(sum)
}
