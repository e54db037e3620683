//! The network of HTTP/3 scenarios: a namespace with a loopback device that has the MTU of Ethernet.
//!
//! The usual loopback device carries datagrams of 64 KiB. Path MTU discovery finds that, and servers then send forty times
//! fewer packets than over any real network.

use std::env;
use std::process::Command;

use anyhow::Result;

use crate::project;

/// Set in a process that runs in the namespace.
const VARIABLE: &str = "CANNERY_BENCH_NAMESPACE";

/// Configures the device, and replaces the shell by the program.
const SCRIPT: &str = r#"ip link set lo mtu 1500 up && exec "$@""#;

/// Returns `true` if this process runs in the namespace.
pub(crate) fn is_inside() -> bool {
    env::var_os(VARIABLE).is_some()
}

/// Measures a scenario with these options in a new namespace, which only root can create.
pub(crate) fn run(scenario: &str, options: impl Iterator<Item = String>) -> Result<()> {
    let mut command = Command::new("unshare");
    command.args(["--net", "sh", "-c", SCRIPT, "sh"]).arg(env::current_exe()?).arg(scenario).args(options);
    project::run(command.env(VARIABLE, "1"))
}
