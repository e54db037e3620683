//! Bytes of header blocks over HTTP/2: the first of a connection, and a later one with warm header tables.

use anyhow::Result;

use super::Context;
use crate::check;
use crate::load::{self, Job};
use crate::metric::Metric;
use crate::process::Server;
use crate::results::{Sample, Samples};
use crate::scenario::{Count, Step};

pub(super) fn run(context: &Context<'_>) -> Result<Samples> {
    let mut samples = Samples::default();
    for spec in context.present {
        let server = spec.start(&context.launch(&context.scenario.steps[0]), "0")?;
        for step in &context.scenario.steps {
            // The sizes are the same in each round, so one is enough.
            samples.record(&context.scenario.label(step), spec.name, measure(context, &server, step));
        }
    }
    Ok(samples)
}

fn measure(context: &Context<'_>, server: &Server, step: &Step) -> Result<Sample> {
    let job = context.job(server, step, "1");
    let mut headers = step.headers.clone();
    if step.conditional {
        headers.extend(check::validators(job.wire, job.address, &step.targets[0], &headers)?);
    }
    let status = step.status.unwrap_or(job.status);
    let job = Job { targets: &step.targets, headers: &headers, status, ..job };

    // h2load reports the mean of a connection: of the first response, and of both.
    let mean = |count| -> Result<f64> {
        let report = load::h2load(&job, 1, Count::Requests(count))?;
        Ok(report.header_bytes.unwrap_or(f64::NAN))
    };
    let first = mean(1)?;
    let second = 2.0 * mean(2)? - first;
    Ok(vec![(Metric::HeaderBytes, first), (Metric::WarmHeaderBytes, second)])
}
