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
use crate::scenario::{Kind, Scenario, Scenarios, Step, Wire};
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
    /// Measures every server at these steps, in turn within each round.
    fn each_server(
        &self,
        steps: &[Step],
        rounds: u64,
        mut measure: impl FnMut(&Spec<'_>, &Step) -> Result<Sample>,
    ) -> Samples {
        let mut samples = Samples::default();
        for step in steps {
            for _ in 0..rounds {
                for spec in self.present.iter().filter(|spec| spec.can_serve(step.connections, 1)) {
                    samples.record(&self.scenario.label(step), spec.name, measure(spec, step));
                }
            }
        }
        samples
    }

    /// Returns the processors of well-behaved clients. With fewer than four processors, server, attackers and clients
    /// would measure each other, so only quick runs are possible.
    fn client_processors(&self) -> Result<&'static str> {
        match machine::processors() {
            4.. => Ok("2,3"),
            2 | 3 if self.plan.is_quick() => Ok("1"),
            _ => bail!("this measurement needs four processors"),
        }
    }

    pub(crate) fn site(&self) -> &'a Site {
        self.site.expect("only builds have no site")
    }

    /// Returns a step's number of connections, a tenth of them in quick runs.
    fn connections(&self, step: &Step) -> u32 {
        if self.plan.is_quick() { step.connections.div_ceil(10) } else { step.connections }
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
            wire: self.wire(step),
            targets: &self.site().targets,
            headers: &self.scenario.headers,
            status: self.scenario.status,
            lengths_vary: self.scenario.forecasts,
        }
    }

    /// Returns the configuration of a server for a step.
    pub(crate) fn launch(&self, step: &Step) -> Launch<'a> {
        Launch {
            site: self.site(),
            codings: self.scenario.codings,
            threads: step.threads,
            connections: step.connections,
            has_large_responses: false,
            wire: self.wire(step),
            flags: &self.scenario.flags,
        }
    }

    fn wire(&self, step: &Step) -> Wire {
        step.wire.unwrap_or(self.scenario.wire)
    }
}
