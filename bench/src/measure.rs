//! Measurements, one module each; load scenarios are in `compare`.

mod adverse;
mod build;
mod calls;
mod cold_start;
mod folder;
mod header_bytes;
mod hostile;
mod idle_memory;
mod observe;
mod reload;

use anyhow::{Result, bail};

use crate::compare;
use crate::load::Job;
use crate::machine;
use crate::plan::Plan;
use crate::process::Server;
use crate::results::{Sample, Samples};
use crate::scenario::{Kind, Scenario, Scenarios, Step};
use crate::servers::{Launch, Servers, Spec};
use crate::site::Site;

/// The context of a measurement.
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
    match context.scenario.measures {
        Kind::Adverse => adverse::run(context),
        Kind::Build => build::run(context),
        Kind::Calls => Ok(calls::run(context)),
        Kind::ColdStart => Ok(cold_start::run(context)),
        Kind::Folder => folder::run(context),
        Kind::HeaderBytes => header_bytes::run(context),
        Kind::Hostile => hostile::run(context),
        Kind::IdleMemory => Ok(idle_memory::run(context)),
        Kind::Observe => observe::run(context),
        Kind::Reload => reload::run(context),
        Kind::Load => compare::run(context),
    }
}

impl<'a> Context<'a> {
    /// Measures every server that can serve this many files at these steps, in turn within each round.
    pub(crate) fn each_server(
        &self,
        steps: &[Step],
        rounds: u64,
        files: usize,
        mut measure: impl FnMut(&Spec<'_>, &Step) -> Result<Sample>,
    ) -> Samples {
        // Steps that are compared with each other take turns within a round, so noise affects all of them. Otherwise each
        // step finishes before the next, so its servers run as close together as possible.
        let take_turns = |_: &Step, _: &Step| self.scenario.compares_threads();
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

    /// Returns the processors of well-behaved clients. With fewer than four processors, server, attackers and clients
    /// would measure each other, so only quick runs are possible.
    fn client_processors(&self) -> Result<&'static str> {
        match machine::processors() {
            4.. => Ok("2,3"),
            2 | 3 if self.plan.is_quick => Ok("1"),
            _ => bail!("this measurement needs four processors"),
        }
    }

    pub(crate) fn site(&self) -> &'a Site {
        self.site.expect("only builds have no site")
    }

    /// Returns a step's number of connections, a tenth of them in quick runs.
    fn connections(&self, step: &Step) -> u32 {
        if self.plan.is_quick { step.connections.div_ceil(10) } else { step.connections }
    }

    /// Returns the load of a step on a server.
    pub(crate) fn job<'j>(&self, server: &Server, step: &Step, processors: &'j str) -> Job<'j>
    where
        'a: 'j,
    {
        Job {
            address: server.address(),
            connections: step.connections,
            duration: self.plan.duration,
            processors,
            wire: self.scenario.wire(step),
            targets: &self.site().targets,
            headers: &self.scenario.headers,
            status: self.scenario.status,
            lengths_vary: self.scenario.forecasts,
        }
    }

    /// Returns the configuration of a server for a step.
    pub(crate) fn launch<'l>(&'l self, step: &'l Step) -> Launch<'l> {
        Launch { scenario: self.scenario, step, site: self.site(), has_large_responses: false }
    }
}
