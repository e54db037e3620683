//! Bytes of header blocks over HTTP/2: the first of a connection, and a later one with warm header tables.

use anyhow::Result;

use super::Context;
use crate::check;
use crate::load::{self, Job};
use crate::metric::Metric;
use crate::results::Sample;
use crate::scenario::{Count, Step};
use crate::servers::Spec;

pub(super) fn measure(context: &Context<'_>, spec: &Spec<'_>, step: &Step) -> Result<Sample> {
    let server = spec.start(&context.launch(step), "0")?;
    let job = context.job(&server, step, "1");
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
