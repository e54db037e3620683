//! Training: the load under which an instrumented server records the profile of `cargo xtask pgo`, over each version of HTTP.

use anyhow::{Result, ensure};

use crate::measure::{self, Context};
use crate::namespace;
use crate::newer_debian;
use crate::plan::Plan;
use crate::results::Results;
use crate::scenario::{Group, Scenarios};
use crate::servers::Servers;
use crate::site::Site;

/// The option that selects training.
const OPTION: &str = "--train";

/// The server. The sandbox would keep it from writing its profile.
const SERVER: &str = "cannery-without-sandbox";

/// The scenarios, each with one short run.
const SCENARIOS: [&str; 17] = [
    "small-file",
    "mixed",
    "pipelined",
    "not-modified",
    "range",
    "not-found",
    "h2",
    "h2-single",
    "h2-large",
    "h2-docs",
    "tls",
    "tls-large",
    "handshakes",
    "http3-streams",
    "http3-single",
    "http3-large",
    "http3-handshakes",
];

/// Puts the load of all scenarios, or of the named one, on the server.
pub(crate) fn run(scenarios: &Scenarios, servers: &Servers, name: Option<&str>) -> Result<()> {
    let present = [servers.get(SERVER)?];
    for scenario in &scenarios.all {
        let is_selected =
            name.map_or(SCENARIOS.contains(&scenario.name.as_str()), |name| name == scenario.name);
        if !is_selected {
            continue;
        }
        if scenario.group == Group::Http3 && !namespace::is_inside() {
            // Needs the network, which the namespace doesn't have.
            newer_debian::install(newer_debian::H2LOAD)?;
            namespace::run(&scenario.name, [OPTION.to_owned()].into_iter())?;
            continue;
        }

        println!("==> {}: {}", scenario.name, scenario.title);
        let site = scenarios.sites.get(&scenario.site);
        let site = site.map(|spec| Site::prepare(&scenario.site, spec, true)).transpose()?;
        let plan = Plan::QUICK;
        let context = Context { scenarios, scenario, servers, present: &present, site: site.as_ref(), plan };
        let results = Results { conditions: Vec::new(), rows: measure::run(&context)?.into_rows() };
        ensure!(results.failures() == 0, "{}: the line above has the reason", scenario.name);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_scenarios_and_the_server_exist() {
        let scenarios = Scenarios::load().unwrap();
        let exists = |name: &&str| scenarios.all.iter().any(|scenario| scenario.name == *name);
        assert!(SCENARIOS.iter().all(exists));
        Servers::load().unwrap().get(SERVER).unwrap();
    }
}
