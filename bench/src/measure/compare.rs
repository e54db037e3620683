//! Load scenarios: in every round each server once, one after the other, each freshly started, checked, warmed up, and
//! then measured.
//!
//! A server with a single error, in a check or of a load generator, has no values at that step.

mod recording;

use std::cell::Cell;
use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::Context;
use crate::check::{self, Content};
use crate::load::{self, Job, Pace, Report};
use crate::machine;
use crate::metric::{Metric, mebibytes};
use crate::process::Server;
use crate::promise::OURS;
use crate::results::{Sample, Samples};
use crate::scenario::{Count, Load, Order, Step, Wire};
use crate::servers::{self, Launch, Spec};

/// Load before a measurement.
const WARM_UP: Duration = Duration::from_millis(300);

/// Limit for warming up with many targets. A server that hasn't seen all of them by then caches none of them.
const WARM_UP_MAX: Duration = Duration::from_secs(4);

/// With more targets, warming up ends at the limit.
const TARGETS_LARGE: usize = 5_000;

/// From this mean size on, nginx is measured with sendfile: 89 kB cost it half as much with it, 13 bytes 12 % more. Over
/// HTTP/3 the same holds for GSO.
const LARGE_BYTES: u64 = 16 * 1024;

/// The duration of the run that finds a server's maximum.
const SATURATING: Duration = Duration::from_secs(2);

/// The number of responses that are checked before each run, at most.
const CHECKED_MAX: usize = 40;

/// A scenario with what its preparation found out.
struct Comparison<'a> {
    context: &'a Context<'a>,
    has_large_responses: bool,
    /// The rate of an open loop.
    requests_per_s: Option<f64>,
    /// Cannery's in this round, for the floor over UDP.
    pace: Cell<Option<Pace>>,
}

pub(crate) fn run(context: &Context<'_>) -> Result<Samples> {
    let comparison = Comparison::prepare(context)?;
    let mut steps = context.plan.steps(context.scenario)?;
    steps.retain(|step| {
        let placement = machine::placement(step.threads);
        if let Err(reason) = &placement {
            println!("{}: left out, {reason}", context.scenario.label(step));
        }
        placement.is_ok()
    });
    let files = context.site().targets.len();
    Ok(context.each_server(&steps, context.plan.rounds(), files, |spec, step| comparison.measure(spec, step)))
}

impl<'a> Comparison<'a> {
    fn prepare(context: &'a Context<'a>) -> Result<Comparison<'a>> {
        let mut comparison =
            Comparison { context, has_large_responses: false, requests_per_s: None, pace: Cell::new(None) };
        // TLS prevents sendfile. Over HTTP/3, nginx is measured with GSO in its place.
        if context.present.iter().any(Spec::is_floor) {
            let is_large = comparison.record_floor_responses()? > LARGE_BYTES;
            comparison.has_large_responses = is_large && context.scenario.wire == Wire::Clear;
        }
        if context.scenario.wire == Wire::H3 {
            let site = context.site();
            let first = site.file(&site.targets[0]);
            comparison.has_large_responses = fs::metadata(first)?.len() > LARGE_BYTES;
        }
        if context.present.iter().any(Spec::sends_datagrams) {
            load::build_loadgen_udp()?;
        }
        if let Load::Loadgen { half_of, .. } = &context.scenario.load {
            load::build_loadgen()?;
            if let Some(name) = half_of {
                comparison.requests_per_s = Some(comparison.half_maximum(name)?);
            }
        }
        Ok(comparison)
    }

    /// Starts, checks, warms up and measures a server.
    fn measure(&self, spec: &Spec<'_>, step: &Step) -> Result<Sample> {
        let scenario = self.context.scenario;
        let placement = machine::placement(step.threads)?;
        let server = spec.start(&self.launch(step), &placement.server)?;
        let (headers, response_bytes) = if spec.sends_datagrams() {
            (Vec::new(), servers::datagram_bytes(self.context.site()) as f64)
        } else {
            self.check(spec, &server, scenario.wire)?
        };
        let job = self.context.job(&server, step, &placement.generator);
        // Very many connections take seconds to open.
        let factor = match step.connections {
            ..2048 => 1,
            2048..10_000 => 2,
            10_000.. => 4,
        };
        let job = Job { headers: &headers, duration: job.duration * factor, ..job };
        if !self.context.plan.is_quick || job.targets.len() > 1 {
            self.warm_up(spec, &job, response_bytes)?;
        }

        let counts = server.counts()?;
        let before = server.cpu_time()?;
        let report = self.load(spec, &job, response_bytes)?;
        let cpu = server.cpu_seconds_since(before)?;
        let counted = server.counted_since(&counts, report.requests)?;

        if spec.name == OURS {
            let batch = requests_per_wait(&counted).round().min(job.connections.into());
            #[allow(clippy::cast_possible_truncation, reason = "there are no more than connections")]
            let batch = batch as u32;
            self.pace.set(Some(Pace { requests_per_s: report.requests_per_s, batch }));
        }

        let wall = report.requests / report.requests_per_s * step.threads as f64;
        let mut sample = vec![
            (Metric::CpuUs, cpu * 1e6 / report.requests),
            (Metric::RequestsPerS, report.requests_per_s),
            (Metric::Busy, cpu / wall),
            (Metric::PrivateMib, mebibytes(server.anonymous_bytes()?)),
            match report.header_bytes {
                Some(bytes) => (Metric::WarmHeaderBytes, bytes),
                None => (Metric::ResponseBytes, response_bytes),
            },
        ];
        if scenario.resources {
            sample.push((Metric::PeakMib, mebibytes(server.peak_bytes()?)));
            sample.extend(counted);
        }
        sample.extend(report.percentiles);
        Ok(sample)
    }

    fn launch<'l>(&'l self, step: &'l Step) -> Launch<'l> {
        Launch { has_large_responses: self.has_large_responses, ..self.context.launch(step) }
    }

    /// Checks some responses. Returns the request headers for the load, and the size of the first response.
    fn check(&self, spec: &Spec<'_>, server: &Server, wire: Wire) -> Result<(Vec<String>, f64)> {
        let (scenario, site) = (self.context.scenario, self.context.site());
        let address = server.address();
        let mut headers = scenario.headers.clone();
        if scenario.conditional {
            headers.extend(check::validators(wire, address, &site.targets[0], &headers)?);
        }

        // The floor sends its responses in an order of its own, or an old forecast, and the dummy always the same.
        let is_fixed = site.targets.len() == 1 && !scenario.forecasts;
        let knows_content = spec.serves_site() || (spec.is_floor() && is_fixed);
        let status = if spec.serves_site() || spec.is_floor() { scenario.status } else { 200 };
        let mut targets: Vec<_> =
            site.targets.iter().step_by(site.targets.len().div_ceil(CHECKED_MAX)).collect();
        if scenario.forecasts {
            targets = vec![&site.targets[0]; CHECKED_MAX];
        }
        let expected = targets.into_iter().map(|target| {
            let content = match (scenario.forecasts && !spec.is_floor(), knows_content) {
                (true, _) => Content::Forecast,
                (false, true) => Content::from_site(scenario, site, target)?,
                (false, false) => Content::Any,
            };
            Ok((target.as_str(), content))
        });
        let expected = expected.collect::<Result<Vec<_>>>()?;
        let response_bytes = check::check(scenario, wire, address, &headers, status, &expected)?;
        Ok((headers, response_bytes))
    }

    /// Requests each target at least once, and one target many times, so caches and lists of open files are warm.
    fn warm_up(&self, spec: &Spec<'_>, job: &Job<'_>, response_bytes: f64) -> Result<()> {
        let mut job = Job { duration: WARM_UP, ..job.clone() };
        match self.context.scenario.load {
            _ if spec.sends_datagrams() => {
                self.load(spec, &job, response_bytes)?;
            }
            Load::Ab { keep_alive } => {
                load::ab(&job, keep_alive, Some(if keep_alive { 10_000 } else { 256 }))?;
            }
            Load::H2load { streams, .. } if job.targets.len() > 1 => {
                let requests = job.targets.len() * job.connections as usize;
                load::h2load(&job, streams, Count::Requests(requests))?;
            }
            Load::Wrk { .. } if job.targets.len() > 1 => {
                // Each thread of wrk goes through the targets from the beginning.
                job.connections = job.connections.min(256);
                let is_large = job.targets.len() > TARGETS_LARGE;
                job.duration = if is_large { WARM_UP_MAX } else { Duration::from_secs(1) };
                let mut requests = 0.0;
                while requests < (job.targets.len() * 2) as f64 {
                    requests += load::wrk(&job, Order::Rotating, 1)?.requests;
                    if is_large {
                        break;
                    }
                }
            }
            Load::Loadgen { half_of: Some(_), .. } => {
                load::wrk(&job, Order::Random, 1)?;
            }
            _ => {
                self.load(spec, &job, response_bytes)?;
            }
        }
        Ok(())
    }

    /// Runs the scenario's load generator, or that of the floor over UDP.
    fn load(&self, spec: &Spec<'_>, job: &Job<'_>, response_bytes: f64) -> Result<Report> {
        if spec.sends_datagrams() {
            let pace =
                self.pace.get().context("Cannery, whose pace the floor has, was not measured before it")?;
            return load::loadgen_udp(job, response_bytes, pace);
        }
        match self.context.scenario.load {
            Load::Wrk { order, pipeline } => load::wrk(job, order, pipeline),
            Load::Ab { keep_alive } => load::ab(job, keep_alive, None),
            Load::H2load { streams, count } => load::h2load(job, streams, count),
            Load::Loadgen { distribution, .. } => load::loadgen(job, distribution, self.requests_per_s),
            Load::STime => load::s_time(job, response_bytes),
        }
    }

    /// Returns half the requests per second that a server reaches on one processor, or Cannery if that server is missing.
    fn half_maximum(&self, name: &str) -> Result<f64> {
        let Context { servers, present, .. } = self.context;
        let step = &self.context.scenario.steps[0];
        let placement = machine::placement(step.threads)?;
        let named = present.iter().find(|spec| spec.name == name).copied();
        let spec = named.map_or_else(|| servers.get(&self.context.scenario.floor_sends), Ok)?;
        let server = spec.start(&self.launch(step), &placement.server)?;
        let job = self.context.job(&server, step, &placement.generator);
        let report = load::wrk(&Job { duration: SATURATING, ..job }, Order::Random, 1)?;
        Ok(report.requests_per_s / 2.0)
    }
}

/// Returns the number of requests for each time that a server waited, from its counts for 1,000 requests.
fn requests_per_wait(counted: &Sample) -> f64 {
    let value =
        |wanted| counted.iter().find(|(metric, _)| *metric == wanted).map_or(0.0, |(_, value)| *value);
    let waits = value(Metric::Switches) * value(Metric::VoluntaryShare) / 1000.0;
    // A server that never waits finds all requests at once.
    if waits > 0.0 { (1.0 / waits).max(1.0) } else { f64::INFINITY }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_come_from_voluntary_switches() {
        let counted = |switches, share| vec![(Metric::Switches, switches), (Metric::VoluntaryShare, share)];
        assert_eq!(requests_per_wait(&counted(400.0, 0.5)), 5.0);
        assert_eq!(requests_per_wait(&counted(2000.0, 1.0)), 1.0);
        assert_eq!(requests_per_wait(&counted(0.0, 0.0)), f64::INFINITY);
    }
}
