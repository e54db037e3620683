//! Cold start: time from the start of the process to the last byte of its first response.

use anyhow::{Result, ensure};

use super::Context;
use crate::http;
use crate::metric::Metric;
use crate::results::{Sample, Samples};
use crate::servers::{Launch, Spec};

pub(super) fn run(context: &Context<'_>) -> Result<Samples> {
    let step = &context.scenario.steps[0];
    let label = context.scenario.label(step);
    let launch = context.launch(step);
    let mut samples = Samples::default();
    for _ in 0..context.plan.rounds {
        for spec in context.present {
            samples.record(&label, spec.name, first_response(context, spec, &launch));
        }
    }
    Ok(samples)
}

/// Starts a server, requests its last target, and checks the response.
pub(super) fn first_response(context: &Context<'_>, spec: &Spec<'_>, launch: &Launch<'_>) -> Result<Sample> {
    let target = launch.site.targets.last().expect("the site has files");
    let server = spec.start(launch, "0")?;
    let request = http::request("1.1", server.address(), target, &context.scenario.headers);
    let response = http::exchange(server.address(), &request)?;
    let milliseconds = server.age().as_secs_f64() * 1e3;

    let is_right = !spec.serves_site() || response.content() == launch.site.content(target)?;
    ensure!(response.status == 200 && is_right, "a wrong response for {target}");
    let peak = server.peak_bytes()? as f64 / 1_048_576.0;
    Ok(vec![(Metric::FirstResponseMs, milliseconds), (Metric::PeakMib, peak)])
}
