//! Bytes of header blocks over HTTP/2: the first of a connection, and a later one with warm header tables.

use anyhow::Result;

use super::Context;
use crate::check;
use crate::load::{self, Count, Job};
use crate::metric::Metric;
use crate::process::Server;
use crate::results::{Sample, Samples};
use crate::scenario::{Step, Wire};

pub(super) fn run(context: &Context<'_>) -> Result<Samples> {
    let mut samples = Samples::default();
    for spec in context.present {
        let server = spec.start(&context.launch(&context.scenario.steps[0]), "0")?;
        for step in &context.scenario.steps {
            let label = context.scenario.label(step);
            // The sizes are the same in each round, so one is enough.
            match measure(&server, step) {
                Ok(sample) => {
                    println!("{label:<17} {:<9} {:>5} B, then {:>4} B", spec.name, sample[0].1, sample[1].1);
                    samples.add(&label, spec.name, sample);
                }
                Err(error) => {
                    println!("{label:<17} {} failed: {error:#}", spec.name);
                    samples.fail(&label, spec.name);
                }
            }
        }
    }
    Ok(samples)
}

fn measure(server: &Server, step: &Step) -> Result<Sample> {
    let mut headers = step.headers.clone();
    if step.conditional {
        headers.extend(check::validators(Wire::H2, server.address(), &step.targets[0])?);
    }
    let status = match step.name.as_deref() {
        Some("304") => 304,
        Some("404") => 404,
        _ => 200,
    };
    let job = Job {
        address: server.address(),
        connections: 1,
        duration: std::time::Duration::ZERO,
        processors: "1",
        wire: Wire::H2,
        targets: &step.targets,
        target_file: None,
        headers: &headers,
        status,
    };

    // h2load reports the mean of a connection: of the first response, and of both.
    let mean = |count: usize| -> Result<f64> {
        let urls: Vec<_> =
            step.targets.iter().map(|target| format!("https://{}{target}", job.address)).collect();
        let report = load::h2load_urls(&job, 1, &Count::Requests(count), &urls)?;
        Ok(report.header_bytes.unwrap_or(f64::NAN))
    };
    let first = mean(1)?;
    let second = 2.0 * mean(2)? - first;
    Ok(vec![(Metric::HeaderBytes, first), (Metric::WarmHeaderBytes, second)])
}
