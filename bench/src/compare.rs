//! Load scenarios: in every round each server once, one after the other, each freshly started, checked, warmed up, and
//! then measured.
//!
//! A server with a single error, in a check or of a load generator, has no values at that step.

use std::fs::{self, File};
use std::io::{BufReader, BufWriter, Write};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use crate::check::{self, Expected};
use crate::http::{self, Response};
use crate::load::{self, Clients, Count, Exchange, Job, Report};
use crate::machine::{self, Placement};
use crate::measure::Context;
use crate::metric::{Metric, PERCENTILES};
use crate::process::Server;
use crate::results::{Sample, Samples};
use crate::scenario::{Load, Order, Step, Wire};
use crate::servers::{self, Launch, Spec};

/// Load before a measurement.
const WARM_UP: Duration = Duration::from_millis(300);

/// Limit for warming up with many targets. A server that hasn't seen all of them by then caches none of them.
const WARM_UP_MAX: Duration = Duration::from_secs(4);

/// With more targets, all steps share one start of the server, because warming up takes seconds.
const TARGETS_LARGE: usize = 5_000;

/// From this mean size on, nginx is measured with sendfile: 89 kB cost it half as much with it, 13 bytes 12 % more. Over
/// HTTP/3 the same holds for GSO.
const LARGE_BYTES: u64 = 16 * 1024;

/// The duration of the run that finds nginx's maximum.
const SATURATING: Duration = Duration::from_secs(2);

/// The number of responses that are checked before each run, at most.
const CHECKED_MAX: usize = 40;

/// The number of different responses of the floor, at most: enough to exceed all processor caches.
const FLOOR_RESPONSES_MAX: usize = 50_000;

/// A scenario with what its preparation found out.
struct Comparison<'a> {
    context: &'a Context<'a>,
    has_large_responses: bool,
    /// The rate of an open loop.
    requests_per_s: f64,
}

/// Steps that share one start of a server.
struct Flight {
    steps: Vec<Step>,
    placement: Placement,
}

/// Measures a scenario.
pub(crate) fn run(context: &Context<'_>) -> Result<Samples> {
    let scenario = context.scenario;
    let comparison = Comparison::prepare(context)?;
    let steps = context.plan.steps(scenario)?;
    let shared = if context.site().targets.len() > TARGETS_LARGE { steps.len() } else { 1 };
    let mut flights = Vec::new();
    for steps in steps.chunks(shared) {
        match machine::placement(machine::processors(), steps[0].threads) {
            Some(placement) => flights.push(Flight { steps: steps.to_vec(), placement }),
            None => println!("{}: left out, too few processors", scenario.label(&steps[0])),
        }
    }

    // Steps that are compared with each other take turns within a round, so noise affects all of them. Otherwise each
    // step finishes before the next, so its servers run as close together as possible.
    let mut samples = Samples::default();
    if scenario.compares_threads() {
        comparison.rounds(&flights, &mut samples);
    } else {
        flights.chunks(1).for_each(|flight| comparison.rounds(flight, &mut samples));
    }
    Ok(samples)
}

impl<'a> Comparison<'a> {
    fn prepare(context: &'a Context<'a>) -> Result<Comparison<'a>> {
        let mut comparison = Comparison { context, has_large_responses: false, requests_per_s: 0.0 };
        // TLS prevents sendfile, and there is no floor that speaks TLS. Over HTTP/3, nginx is measured with GSO in its place.
        if context.present.iter().any(Spec::is_floor) {
            comparison.has_large_responses = comparison.record_floor_responses()? > LARGE_BYTES;
        }
        if context.scenario.wire == Wire::H3 {
            let site = context.site();
            let first = site.file(&site.targets[0]);
            comparison.has_large_responses = fs::metadata(first)?.len() > LARGE_BYTES;
        }
        if context.scenario.load == Load::OpenLoop {
            comparison.requests_per_s = comparison.half_of_maximum()?;
        }
        Ok(comparison)
    }

    /// Runs all rounds of some flights.
    fn rounds(&self, flights: &[Flight], samples: &mut Samples) {
        let Context { scenario, present, plan, .. } = self.context;
        let mut runs = Vec::new();
        for Flight { steps, placement } in flights {
            for spec in *present {
                let can_serve =
                    |step: &&Step| spec.can_serve(step.connections, self.context.site().targets.len());
                let able: Vec<_> = steps.iter().filter(can_serve).cloned().collect();
                if !able.is_empty() {
                    runs.push((spec, Flight { steps: able, placement: placement.clone() }));
                }
            }
        }

        for _ in 0..plan.rounds {
            // A server with an error isn't measured again at these steps.
            runs.retain(|(spec, flight)| match self.run_once(spec, flight) {
                Ok(found) => {
                    for (step, sample) in flight.steps.iter().zip(found) {
                        samples.record(&scenario.label(step), spec.name, Ok(sample));
                    }
                    true
                }
                Err(error) => {
                    println!("{} failed: {error:#}", spec.name);
                    flight.steps.iter().for_each(|step| samples.fail(&scenario.label(step), spec.name));
                    false
                }
            });
        }
    }

    /// Starts, checks and warms up a server, and measures each step.
    fn run_once(&self, spec: &Spec<'_>, flight: &Flight) -> Result<Vec<Sample>> {
        let Flight { steps, placement } = flight;
        let largest = steps.iter().max_by_key(|step| step.connections).context("no steps")?;
        let server = spec.start(&self.launch(largest), &placement.server)?;
        let (headers, response_bytes) = self.check(spec, &server)?;

        let mut job = self.job(&server, largest, &headers, placement);
        let clients = self.clients(&job)?;
        if self.context.plan.warms_up || job.targets.len() > 1 {
            job.connections = steps[0].connections;
            self.warm_up(&job, clients.as_ref())?;
        }

        let measure = |step: &Step| {
            let job = self.job(&server, step, &headers, placement);
            let before = server.cpu_time()?;
            let report = self.load(&job, clients.as_ref())?;
            let cpu = server.cpu_time()?.saturating_sub(before).as_secs_f64();
            let mut sample = self.sample(&report, cpu, step, &server)?;
            if report.header_bytes.is_none() {
                sample.push((Metric::ResponseBytes, response_bytes));
            }
            Ok(sample)
        };
        steps.iter().map(measure).collect()
    }

    fn sample(&self, report: &Report, cpu: f64, step: &Step, server: &Server) -> Result<Sample> {
        let wall = report.requests / report.requests_per_s * step.threads as f64;
        let mut sample = vec![
            (Metric::CpuUs, cpu * 1e6 / report.requests),
            (Metric::RequestsPerS, report.requests_per_s),
            (Metric::Busy, cpu / wall),
            (Metric::PrivateMib, server.anonymous_bytes()? as f64 / 1_048_576.0),
        ];
        sample.extend(report.header_bytes.map(|bytes| (Metric::WarmHeaderBytes, bytes)));
        // wrk corrects its percentiles by the number of requests, which fails if several are sent together.
        let is_pipelined = matches!(self.context.scenario.load, Load::Wrk { pipeline: 2.., .. });
        if let Some(percentiles) = report.percentiles_us.filter(|_| !is_pipelined) {
            sample.extend(PERCENTILES.into_iter().zip(percentiles));
        }
        Ok(sample)
    }

    fn launch(&self, step: &Step) -> Launch<'_> {
        Launch { has_large_responses: self.has_large_responses, ..self.context.launch(step) }
    }

    fn job<'j>(
        &'j self,
        server: &Server,
        step: &Step,
        headers: &'j [String],
        placement: &'j Placement,
    ) -> Job<'j> {
        // Very many connections take seconds to open.
        let factor = match step.connections {
            ..2048 => 1,
            2048..10_000 => 2,
            10_000.. => 4,
        };
        let job = self.context.job(server, step, &placement.generator);
        Job { headers, duration: job.duration * factor, ..job }
    }

    /// Checks some responses. Returns the request headers for the load, and the size of the first response.
    fn check(&self, spec: &Spec<'_>, server: &Server) -> Result<(Vec<String>, f64)> {
        let (scenario, site) = (self.context.scenario, self.context.site());
        let address = server.address();
        let mut headers = scenario.headers.clone();
        if scenario.conditional {
            headers.extend(check::validators(scenario.wire, address, &site.targets[0])?);
        }

        // The floor sends its responses in an order of its own, and the dummy always the same.
        let knows_content = spec.serves_site() || (spec.is_floor() && site.targets.len() == 1);
        let status = if spec.serves_site() || spec.is_floor() { scenario.status } else { 200 };
        let every = site.targets.len().div_ceil(CHECKED_MAX);
        let mut expected = Vec::new();
        for target in site.targets.iter().step_by(every) {
            let content =
                knows_content.then(|| check::expected_content(scenario, site, target)).transpose()?;
            expected.push(Expected { target, status, content });
        }
        let response_bytes = check::check(scenario, scenario.wire, address, &headers, &expected)?;
        Ok((headers, response_bytes))
    }

    /// Requests each target at least once, and one target many times, so caches and lists of open files are warm.
    fn warm_up(&self, job: &Job<'_>, clients: Option<&Clients>) -> Result<()> {
        let mut job = Job { duration: WARM_UP, ..job.clone() };
        match (self.context.scenario.load, clients) {
            (_, Some(clients)) => {
                // A full handshake takes longer than a resumed one, and most servers send two tickets.
                let resume = matches!(self.context.scenario.load, Load::NewConnection { resume: true });
                let duration = if resume { self.context.plan.duration } else { WARM_UP };
                return clients.warm_up(job.processors, duration);
            }
            (Load::Ab { keep_alive }, _) => {
                load::ab(&job, keep_alive, Some(if keep_alive { 10_000 } else { 256 }))?;
            }
            (Load::H2load { streams, .. }, _) if job.targets.len() > 1 => {
                let requests = job.targets.len() * job.connections as usize;
                load::h2load(&job, streams, &Count::Requests(requests))?;
            }
            (Load::Wrk { .. }, _) if job.targets.len() > 1 => {
                // Each thread of wrk goes through the targets from the beginning.
                job.connections = job.connections.min(256);
                let wanted = (job.targets.len() * 2) as f64;
                let is_large = job.targets.len() > TARGETS_LARGE;
                job.duration = if is_large { WARM_UP_MAX } else { Duration::from_secs(1) };
                let mut requests = 0.0;
                while requests < wanted {
                    requests += load::wrk(&job, Order::Rotating, 1)?.requests;
                    if is_large {
                        break;
                    }
                }
            }
            (Load::OpenLoop, _) => {
                load::wrk(&job, Order::Random, 1)?;
            }
            _ => {
                self.load(&job, None)?;
            }
        }
        Ok(())
    }

    /// Returns the clients of a handshake scenario.
    fn clients(&self, job: &Job<'_>) -> Result<Option<Clients>> {
        let Load::NewConnection { resume } = self.context.scenario.load else { return Ok(None) };
        let target = &job.targets[0];
        let request = http::request("1.1", job.address, target, job.headers);
        let count = (job.connections, resume);
        let clients =
            Clients::new(job.address, job.wire, request, self.context.site().content(target)?, count)?;
        Ok(Some(clients))
    }

    /// Runs the scenario's load generator.
    fn load(&self, job: &Job<'_>, clients: Option<&Clients>) -> Result<Report> {
        match self.context.scenario.load {
            Load::Wrk { order, pipeline } => load::wrk(job, order, pipeline),
            Load::Ab { keep_alive } => load::ab(job, keep_alive, None),
            Load::H2load { streams, requests: Some(requests), .. } => {
                load::h2load(job, streams, &Count::Requests(requests))
            }
            Load::H2load { streams, connections_per_s: Some(rate), .. } => {
                load::h2load(job, streams, &Count::ConnectionsPerS(rate))
            }
            Load::H2load { streams, .. } => load::h2load(job, streams, &Count::Duration),
            Load::Loadgen { distribution } => load::loadgen(job, &Exchange::first(job)?, distribution),
            Load::OpenLoop => load::open_loop(job, &Exchange::first(job)?, self.requests_per_s),
            Load::NewConnection { .. } => {
                clients.context("handshakes need clients")?.run(job.processors, job.duration)
            }
        }
    }

    /// Returns half the requests per second that nginx reaches on one processor, or Cannery if nginx is missing.
    fn half_of_maximum(&self) -> Result<f64> {
        let Context { servers, present, .. } = self.context;
        let step = &self.context.scenario.steps[0];
        let placement =
            machine::placement(machine::processors(), 1).context("a second processor is necessary")?;
        let nginx = present.iter().find(|spec| spec.name == "nginx").copied();
        let spec = nginx.map_or_else(|| servers.get(&self.context.scenario.floor_sends), Ok)?;
        let server = spec.start(&self.launch(step), &placement.server)?;
        let job = self.job(&server, step, &self.context.scenario.headers, &placement);
        let report = load::wrk(&Job { duration: SATURATING, ..job }, Order::Random, 1)?;
        Ok(report.requests_per_s / 2.0)
    }

    /// Records the responses that the floor sends. Returns their mean size in bytes.
    fn record_floor_responses(&self) -> Result<u64> {
        let spec = self.context.servers.get(&self.context.scenario.floor_sends)?;
        let server = spec.start(&self.launch(&Step::default()), "0")?;
        let (mut headers, _) = self.check(&spec, &server)?;
        let (version, pipeline) = match self.context.scenario.load {
            Load::Ab { .. } => ("1.0", 1),
            Load::Wrk { pipeline, .. } => ("1.1", pipeline),
            _ => ("1.1", 1),
        };
        if version == "1.0" {
            headers.push("Connection: Keep-Alive".into());
        }

        let mut file = BufWriter::new(File::create(servers::floor_responses()?)?);
        let mut stream = BufReader::new(http::connect(server.address())?);
        let every = self.context.site().targets.len().div_ceil(FLOOR_RESPONSES_MAX);
        let mut count = 0;
        let mut sum = 0;
        for target in self.context.site().targets.iter().step_by(every) {
            stream.get_mut().write_all(&http::request(version, server.address(), target, &headers))?;
            let bytes = Response::read(&mut stream)?.bytes;
            count += 1;
            sum += bytes.len() as u64;
            let all = bytes.repeat(pipeline);
            file.write_all(&(all.len() as u64).to_le_bytes())?;
            file.write_all(&all)?;
        }
        file.flush()?;
        ensure!(count > 0, "the site has no targets");
        Ok(sum / count)
    }
}
