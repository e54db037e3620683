//! Load scenarios: in every round each server once, one after the other, each freshly started, checked, warmed up, and
//! then measured.
//!
//! A server with a single error, in a check or of a load generator, has no values at that step.

use std::fs::{self, File};
use std::io::{BufReader, BufWriter, Write};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::check::{self, Expected};
use crate::http::{self, Response};
use crate::load::{self, Clients, Count, Job, OpenLoop, Report};
use crate::machine::{self, Placement};
use crate::metric::{Metric, PERCENTILES};
use crate::plan::Plan;
use crate::process::Server;
use crate::project;
use crate::results::{Sample, Samples};
use crate::scenario::{Load, Order, Scenario, Step, Wire};
use crate::servers::{Launch, Servers, Spec};
use crate::site::Site;

/// Load before a measurement.
const WARM_UP: Duration = Duration::from_millis(300);

/// Limit for warming up with many targets. A server that hasn't seen all of them by then caches none of them.
const WARM_UP_MAX: Duration = Duration::from_secs(4);

/// With more targets, all steps share one start of the server, because warming up takes seconds.
const TARGETS_LARGE: usize = 5_000;

/// From this mean size on, nginx is measured with sendfile: 89 kB cost it half as much with it, 13 bytes 12 % more.
const LARGE_BYTES: u64 = 16 * 1024;

/// The duration of the run that finds nginx's maximum.
const SATURATING: Duration = Duration::from_secs(2);

/// The number of responses that are checked before each run, at most.
const CHECKED_MAX: usize = 40;

/// The number of different responses of the floor, at most: enough to exceed all processor caches.
const FLOOR_RESPONSES_MAX: usize = 50_000;

/// A scenario with its site and files.
struct Comparison<'a> {
    scenario: &'a Scenario,
    plan: Plan,
    site: &'a Site,
    floor_responses: PathBuf,
    target_file: Option<PathBuf>,
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
pub(crate) fn run(
    scenario: &Scenario,
    servers: &Servers,
    present: &[Spec<'_>],
    site: &Site,
    plan: Plan,
) -> Result<Samples> {
    let comparison = Comparison::prepare(scenario, servers, present, site, plan)?;
    let steps = plan.steps(scenario)?;
    let shared = if site.targets.len() > TARGETS_LARGE { steps.len() } else { 1 };
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
        comparison.rounds(&flights, present, &mut samples);
    } else {
        flights.chunks(1).for_each(|flight| comparison.rounds(flight, present, &mut samples));
    }
    Ok(samples)
}

impl<'a> Comparison<'a> {
    fn prepare(
        scenario: &'a Scenario,
        servers: &Servers,
        present: &[Spec<'_>],
        site: &'a Site,
        plan: Plan,
    ) -> Result<Comparison<'a>> {
        let mut comparison = Comparison {
            scenario,
            plan,
            site,
            floor_responses: project::scratch("running/responses")?,
            target_file: None,
            has_large_responses: false,
            requests_per_s: 0.0,
        };
        if site.targets.len() > 1 {
            let file = project::scratch("running/targets")?;
            fs::write(&file, site.targets.join("\n") + "\n")?;
            comparison.target_file = Some(file);
        }
        // TLS prevents sendfile, and there is no floor that speaks TLS.
        if present.iter().any(Spec::is_floor) {
            comparison.has_large_responses = comparison.record_floor_responses(servers)? > LARGE_BYTES;
        }
        if scenario.load == Load::OpenLoop {
            comparison.requests_per_s = comparison.half_of_maximum(servers, present)?;
        }
        Ok(comparison)
    }

    /// Runs all rounds of some flights.
    fn rounds(&self, flights: &[Flight], present: &[Spec<'_>], samples: &mut Samples) {
        let mut runs = Vec::new();
        for Flight { steps, placement } in flights {
            for spec in present {
                let can_serve = |step: &&Step| spec.can_serve(step.connections, self.site.targets.len());
                let able: Vec<_> = steps.iter().filter(can_serve).cloned().collect();
                if !able.is_empty() {
                    runs.push((spec, Flight { steps: able, placement: placement.clone() }));
                }
            }
        }

        for _ in 0..self.plan.rounds {
            // A server with an error isn't measured again at these steps.
            runs.retain(|(spec, flight)| match self.run_once(spec, flight) {
                Ok(found) => {
                    for (step, sample) in flight.steps.iter().zip(found) {
                        samples.add(&self.scenario.label(step), spec.name, sample);
                    }
                    true
                }
                Err(error) => {
                    println!("{} failed: {error:#}", spec.name);
                    flight.steps.iter().for_each(|step| samples.fail(&self.scenario.label(step), spec.name));
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
        if self.plan.warms_up || self.site.targets.len() > 1 {
            job.connections = steps[0].connections;
            self.warm_up(&job, clients.as_ref())?;
        }

        let measure = |step: &Step| {
            let job = self.job(&server, step, &headers, placement);
            let before = server.cpu_time()?;
            let report = self.load(&job, clients.as_ref())?;
            let cpu = server.cpu_time()?.saturating_sub(before).as_secs_f64();
            let sample = self.sample(&report, cpu, step, &server, response_bytes)?;
            let label = self.scenario.label(step);
            println!(
                "{label:>5} {:<16} {:>8.3} µs per request {:>9.0} requests/s",
                spec.name,
                cpu * 1e6 / report.requests,
                report.requests_per_s
            );
            Ok(sample)
        };
        steps.iter().map(measure).collect()
    }

    fn sample(
        &self,
        report: &Report,
        cpu: f64,
        step: &Step,
        server: &Server,
        response_bytes: f64,
    ) -> Result<Sample> {
        let wall = report.requests / report.requests_per_s * step.threads as f64;
        let mut sample = vec![
            (Metric::CpuUs, cpu * 1e6 / report.requests),
            (Metric::RequestsPerS, report.requests_per_s),
            (Metric::Busy, cpu / wall),
            (Metric::PrivateMib, server.anonymous_bytes()? as f64 / 1_048_576.0),
        ];
        match report.header_bytes {
            Some(bytes) => sample.push((Metric::WarmHeaderBytes, bytes)),
            None => sample.push((Metric::ResponseBytes, response_bytes)),
        }
        // wrk corrects its percentiles by the number of requests, which fails if several are sent together.
        let is_pipelined = matches!(self.scenario.load, Load::Wrk { pipeline: 2.., .. });
        if let Some(percentiles) = report.percentiles_us.filter(|_| !is_pipelined) {
            sample.extend(PERCENTILES.into_iter().zip(percentiles));
        }
        Ok(sample)
    }

    fn launch(&self, step: &Step) -> Launch<'_> {
        Launch {
            site: self.site,
            codings: self.scenario.codings,
            threads: step.threads,
            connections: step.connections,
            has_large_responses: self.has_large_responses,
            wire: self.wire(),
            flags: &self.scenario.flags,
            floor_responses: &self.floor_responses,
        }
    }

    fn wire(&self) -> Wire {
        self.scenario.wire
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
        Job {
            address: server.address(),
            connections: step.connections,
            duration: self.plan.duration * factor,
            processors: &placement.generator,
            wire: self.wire(),
            targets: &self.site.targets,
            target_file: self.target_file.as_deref(),
            headers,
            status: self.scenario.status,
        }
    }

    /// Checks some responses. Returns the request headers for the load, and the size of the first response.
    fn check(&self, spec: &Spec<'_>, server: &Server) -> Result<(Vec<String>, f64)> {
        let mut headers = self.scenario.headers.clone();
        if self.scenario.conditional {
            headers.extend(check::validators(self.wire(), server.address(), &self.site.targets[0])?);
        }

        // The floor sends its responses in an order of its own, and the dummy always the same.
        let knows_content = spec.serves_site() || (spec.is_floor() && self.site.targets.len() == 1);
        let status = if spec.serves_site() || spec.is_floor() { self.scenario.status } else { 200 };
        let every = self.site.targets.len().div_ceil(CHECKED_MAX);
        let mut expected = Vec::new();
        for target in self.site.targets.iter().step_by(every) {
            let content = knows_content
                .then(|| check::expected_content(self.scenario, self.site, target))
                .transpose()?;
            expected.push(Expected { target, status, content });
        }
        let response_bytes = check::check(self.scenario, self.wire(), server.address(), &headers, &expected)?;
        Ok((headers, response_bytes))
    }

    /// Requests each target at least once, and one target many times, so caches and lists of open files are warm.
    fn warm_up(&self, job: &Job<'_>, clients: Option<&Clients>) -> Result<()> {
        let mut job = Job { duration: WARM_UP, ..job.clone() };
        match (self.scenario.load, clients) {
            (_, Some(clients)) => {
                // A full handshake takes longer than a resumed one, and most servers send two tickets.
                let resume = matches!(self.scenario.load, Load::NewConnection { resume: true });
                let duration = if resume { self.plan.duration } else { WARM_UP };
                return clients.warm_up(job.processors, duration);
            }
            (Load::Ab { keep_alive }, _) => {
                load::ab(&job, keep_alive, Some(if keep_alive { 10_000 } else { 256 }))?;
            }
            (Load::H2load { streams }, _) if job.targets.len() > 1 => {
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
        let Load::NewConnection { resume } = self.scenario.load else { return Ok(None) };
        let target = &job.targets[0];
        let request = http::request("1.1", job.address, target, job.headers);
        let count = (job.connections, resume);
        let clients = Clients::new(job.address, job.wire, request, self.site.content(target)?, count)?;
        Ok(Some(clients))
    }

    /// Runs the scenario's load generator.
    fn load(&self, job: &Job<'_>, clients: Option<&Clients>) -> Result<Report> {
        match self.scenario.load {
            Load::Wrk { order, pipeline } => load::wrk(job, order, pipeline),
            Load::Ab { keep_alive } => load::ab(job, keep_alive, None),
            Load::H2load { streams } => load::h2load(job, streams, &Count::Duration),
            Load::Loadgen { distribution } => {
                let (request, response) = first_exchange(job)?;
                load::loadgen(job, &request, &response, distribution)
            }
            Load::OpenLoop => {
                let (request, response) = first_exchange(job)?;
                let open_loop = OpenLoop {
                    address: job.address,
                    request: &request,
                    response: &response,
                    connections: job.connections,
                    requests_per_s: self.requests_per_s,
                    duration: job.duration,
                };
                open_loop.run(job.processors)
            }
            Load::NewConnection { .. } => {
                clients.context("handshakes need clients")?.run(job.processors, job.duration)
            }
        }
    }

    /// Returns half the requests per second that nginx reaches on one processor, or Cannery if nginx is missing.
    fn half_of_maximum(&self, servers: &Servers, present: &[Spec<'_>]) -> Result<f64> {
        let step = &self.scenario.steps[0];
        let placement =
            machine::placement(machine::processors(), 1).context("a second processor is necessary")?;
        let nginx = present.iter().find(|spec| spec.name == "nginx").copied();
        let spec = nginx.map_or_else(|| servers.get(&self.scenario.floor_sends), Ok)?;
        let server = spec.start(&self.launch(step), &placement.server)?;
        let job = self.job(&server, step, &self.scenario.headers, &placement);
        let report = load::wrk(&Job { duration: SATURATING, ..job }, Order::Random, 1)?;
        Ok(report.requests_per_s / 2.0)
    }

    /// Records the responses that the floor sends. Returns their mean size in bytes.
    fn record_floor_responses(&self, servers: &Servers) -> Result<u64> {
        let step = Step::of_connections(1);
        let spec = servers.get(&self.scenario.floor_sends)?;
        let server = spec.start(&self.launch(&step), "0")?;
        let (mut headers, _) = self.check(&spec, &server)?;
        let (version, pipeline) = match self.scenario.load {
            Load::Ab { .. } => ("1.0", 1),
            Load::Wrk { pipeline, .. } => ("1.1", pipeline),
            _ => ("1.1", 1),
        };
        if version == "1.0" {
            headers.push("Connection: Keep-Alive".into());
        }

        let mut file = BufWriter::new(File::create(&self.floor_responses)?);
        let mut stream = BufReader::new(http::connect(server.address())?);
        let every = self.site.targets.len().div_ceil(FLOOR_RESPONSES_MAX);
        let mut count = 0;
        let mut sum = 0;
        for target in self.site.targets.iter().step_by(every) {
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

/// Returns the bytes of the request for the first target and of its response.
fn first_exchange(job: &Job<'_>) -> Result<(Vec<u8>, Vec<u8>)> {
    let request = http::request("1.1", job.address, &job.targets[0], job.headers);
    let response = http::exchange(job.address, &request)?;
    Ok((request, response.bytes))
}
