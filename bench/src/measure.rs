//! Measurements, one module each.

mod adverse;
mod build;
mod calls;
mod cold_start;
mod compare;
mod folder;
mod header_bytes;
mod hostile;
mod idle_memory;
mod observe;
mod reload;

use std::time::Duration;

use anyhow::{Result, bail};

use crate::load::Job;
use crate::machine;
use crate::plan::Plan;
use crate::process::Server;
use crate::promise::OURS;
use crate::results::{Sample, Samples};
use crate::scenario::{Kind, Scenario, Scenarios, Step};
use crate::servers::{Launch, Servers, Spec};
use crate::site::Site;

pub(crate) struct Context<'a> {
    pub(crate) scenarios: &'a Scenarios,
    pub(crate) scenario: &'a Scenario,
    pub(crate) servers: &'a Servers,
    pub(crate) present: &'a [Spec<'a>],
    pub(crate) site: Option<&'a Site>,
    pub(crate) plan: Plan,
}

/// Runs the measurement of a scenario.
pub(crate) fn run(context: &Context<'_>) -> Result<Samples> {
    let rounds = context.plan.rounds();
    let each = |rounds, measure: fn(&Context<'_>, &Spec<'_>, &Step) -> Result<Sample>| {
        let measure = |spec: &Spec<'_>, step: &Step| measure(context, spec, step);
        Ok(context.each_server(&context.scenario.steps, rounds, 1, measure))
    };
    match context.scenario.measures {
        Kind::Load => compare::run(context),
        Kind::Build => build::run(context),
        Kind::Folder => folder::run(context),
        Kind::Observe => observe::run(context),
        Kind::Reload => reload::run(context),
        Kind::Adverse => context.each_step(adverse::measure),
        Kind::Hostile => context.each_step(hostile::measure),
        // The same in each round.
        Kind::Calls => each(1, calls::measure),
        Kind::HeaderBytes => each(1, header_bytes::measure),
        Kind::ColdStart => each(rounds, cold_start::measure),
        // The same in every round except for some pages.
        Kind::IdleMemory => each(rounds.min(3), idle_memory::measure),
    }
}

/// Rows of a table, by the names of their series.
type Rows = Vec<(String, Sample)>;

impl<'a> Context<'a> {
    /// Measures every server that can serve this many files at these steps, in turn within each round.
    fn each_server(
        &self,
        steps: &[Step],
        rounds: u64,
        files: usize,
        mut measure: impl FnMut(&Spec<'_>, &Step) -> Result<Sample>,
    ) -> Samples {
        // Steps that are compared with each other take turns within a round, so noise affects all of them. Otherwise each
        // step finishes before the next, so its servers run as close together as possible.
        let are_compared = self.scenario.compares_threads() || self.scenario.compares_key_exchanges();
        let take_turns = |_: &Step, _: &Step| are_compared;
        let mut samples = Samples::default();
        for steps in steps.chunk_by(take_turns) {
            let at_step = |step| self.present.iter().map(move |spec| (spec, step));
            let mut contenders: Vec<_> = steps.iter().flat_map(at_step).collect();
            contenders.retain(|(spec, step)| spec.can_serve(step.connections, files));
            for _ in 0..rounds {
                // A server with an error isn't measured again at this step.
                contenders.retain(|(spec, step)| {
                    let result = measure(spec, step);
                    let has_values = result.is_ok();
                    samples.record(&self.scenario.label(step), spec.name, result);
                    has_values
                });
            }
        }
        samples
    }

    /// Measures Cannery at every step, which has rows of its own. An error ends the benchmark.
    fn each_step(&self, measure: impl Fn(&Context<'_>, &Step) -> Result<Rows>) -> Result<Samples> {
        let mut samples = Samples::default();
        for step in &self.scenario.steps {
            let label = self.scenario.label(step);
            for (series, sample) in measure(self, step)? {
                samples.record(&label, &series, Ok(sample));
            }
        }
        Ok(samples)
    }

    /// Starts Cannery for a step, on the first processor.
    fn start_cannery(&self, step: &Step) -> Result<Server> {
        self.servers.get(OURS)?.start(&self.launch(step), "0")
    }

    /// Returns the processors of well-behaved clients. With fewer than four processors, server, attackers and clients
    /// would measure each other, so only quick runs are possible.
    fn client_processors(&self) -> Result<&'static str> {
        match machine::processors() {
            4.. => Ok("2,3"),
            2 | 3 if self.plan.is_quick => Ok("1"),
            _ => bail!("this measurement needs four processors"),
        }
    }

    /// Returns the duration of the load in one run.
    fn duration(&self) -> Duration {
        self.plan.duration(self.scenario)
    }

    fn site(&self) -> &'a Site {
        self.site.expect("only builds have no site")
    }

    /// Returns a step's number of connections, a tenth of them in quick runs.
    fn connections(&self, step: &Step) -> u32 {
        if self.plan.is_quick { step.connections.div_ceil(10) } else { step.connections }
    }

    /// Returns the load of a step on a server.
    fn job<'j>(&self, server: &Server, step: &Step, processors: &'j str) -> Job<'j>
    where
        'a: 'j,
    {
        Job {
            address: server.address(),
            connections: step.connections,
            duration: self.duration(),
            processors,
            wire: self.scenario.wire(step),
            key_exchange: step.key_exchange,
            targets: &self.site().targets,
            headers: &self.scenario.headers,
            status: self.scenario.status,
            lengths_vary: self.scenario.forecasts,
        }
    }

    /// Returns the configuration of a server for a step.
    fn launch<'l>(&'l self, step: &'l Step) -> Launch<'l> {
        Launch { scenario: self.scenario, step, site: self.site(), has_large_responses: false }
    }
}
