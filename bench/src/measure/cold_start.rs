//! Cold start: time from the start of the process to the last byte of its first response.

use anyhow::{Result, ensure};

use super::Context;
use crate::http;
use crate::metric::{Metric, mebibytes};
use crate::results::Sample;
use crate::scenario::Step;
use crate::servers::Spec;

/// Starts a server, requests its last target, and checks the response.
pub(super) fn measure(context: &Context<'_>, spec: &Spec<'_>, step: &Step) -> Result<Sample> {
    let target = context.site().targets.last().expect("the site has files");
    let server = spec.start(&context.launch(step), "0")?;
    let response = http::get(server.address(), target, &context.scenario.headers)?;
    let milliseconds = server.age().as_secs_f64() * 1e3;

    let is_right = !spec.serves_site() || response.content() == context.site().content(target)?;
    ensure!(response.status == 200 && is_right, "a wrong response for {target}");
    let mut sample =
        vec![(Metric::FirstResponseMs, milliseconds), (Metric::PeakMib, mebibytes(server.peak_bytes()?))];
    sample.extend(spec.extra_bytes(context.site())?.map(|bytes| (Metric::ExtraBytes, bytes as f64)));
    Ok(sample)
}
