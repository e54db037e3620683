//! Private memory of a server per idle connection that has sent one request.

use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::Context;
use crate::check::{self, Content};
use crate::load::{IdleClients, Job};
use crate::machine::{self, wait_until};
use crate::metric::Metric;
use crate::process::Server;
use crate::results::Sample;
use crate::scenario::Step;
use crate::servers::Spec;

/// Limit for opening all connections.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Time in which servers free what handshakes and requests have used: some do so once a second.
const REST: Duration = Duration::from_secs(3);

/// The server is idle if it uses no CPU time for this long.
const QUIET: Duration = Duration::from_millis(300);

/// Interval between two reads of the log of responses.
const PAUSE: Duration = Duration::from_millis(50);

pub(super) fn measure(context: &Context<'_>, spec: &Spec<'_>, step: &Step) -> Result<Sample> {
    let server = spec.start(&context.launch(step), "0")?;
    let connections = context.connections(step);
    let last = (machine::processors() - 1).to_string();
    let job = Job { connections, ..context.job(&server, step, &last) };

    // The first request triggers one-time allocations of the server. The dummy sends its own content.
    let expected = [(job.targets[0].as_str(), Content::Any)];
    check::check(context.scenario, job.wire, job.address, job.headers, job.status, &expected)?;
    let before = server.anonymous_bytes()?;
    let clients = IdleClients::open(&job)?;
    wait_until(TIMEOUT, PAUSE, || Ok(clients.responses()? >= connections as usize))
        .context("connections without a response")?;
    thread::sleep(REST);
    wait_until_idle(&server)?;
    let after = server.anonymous_bytes()?;
    Ok(vec![(Metric::IdleBytes, (after as f64 - before as f64) / f64::from(connections))])
}

/// Waits until the server uses no more CPU time.
fn wait_until_idle(server: &Server) -> Result<()> {
    let mut used = server.cpu_time()?;
    let is_idle = || {
        thread::sleep(QUIET);
        let now = server.cpu_time()?;
        let recent = now.saturating_sub(used);
        used = now;
        // Servers with timers use some microseconds all the time.
        Ok(recent < QUIET / 100)
    };
    wait_until(TIMEOUT, Duration::ZERO, is_idle).context("the server is busy")
}
