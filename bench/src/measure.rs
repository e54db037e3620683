//! Measurements other than load scenarios, one module each.

mod build;
mod calls;
mod cold_start;
mod header_bytes;
mod hostile;
mod idle_memory;
mod observe;
mod reload;

use std::path::Path;

use anyhow::{Result, bail};

use crate::machine;
use crate::plan::Plan;
use crate::results::Samples;
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
        Kind::Build => build::run(context),
        Kind::Calls => calls::run(context),
        Kind::ColdStart => cold_start::run(context),
        Kind::HeaderBytes => header_bytes::run(context),
        Kind::Hostile => hostile::run(context),
        Kind::IdleMemory => idle_memory::run(context),
        Kind::Observe => observe::run(context),
        Kind::Reload => reload::run(context),
        Kind::Load => bail!("load scenarios are measured by `compare`"),
    }
}

impl<'a> Context<'a> {
    /// Returns the processors of well-behaved clients. With fewer than four processors, server, attackers and clients
    /// would measure each other, so only quick runs are possible.
    fn client_processors(&self) -> Result<&'static str> {
        match machine::processors() {
            4.. => Ok("2,3"),
            2 | 3 if self.plan.is_quick() => Ok("1"),
            _ => bail!("this measurement needs four processors"),
        }
    }

    fn site(&self) -> &'a Site {
        self.site.expect("only builds have no site")
    }

    /// Returns the configuration of a server for a step.
    fn launch(&self, step: &Step) -> Launch<'a> {
        Launch {
            site: self.site(),
            codings: self.scenario.codings,
            threads: step.threads,
            connections: step.connections,
            has_large_responses: false,
            wire: step.wire.unwrap_or(self.scenario.wire),
            flags: &self.scenario.flags,
            // No scenario of this kind has a floor.
            floor_responses: Path::new("/nonexistent"),
        }
    }
}
