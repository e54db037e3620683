//! Private memory of a server per idle connection that has sent one request.

use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::Context;
use crate::check::{self, Content};
use crate::load::{self, Job};
use crate::machine::{self, wait_until};
use crate::metric::Metric;
use crate::process::Server;
use crate::results::Sample;
use crate::scenario::{Step, Wire};
use crate::servers::Spec;

/// Limit for opening all connections.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The server is idle if it uses no CPU time for this long.
const QUIET: Duration = Duration::from_millis(300);

/// No server needs less CPU time for a handshake over QUIC.
const HANDSHAKE_MIN: Duration = Duration::from_micros(100);

pub(super) fn measure(context: &Context<'_>, spec: &Spec<'_>, step: &Step) -> Result<Sample> {
    let server = spec.start(&context.launch(step), "0")?;
    let connections = context.connections(step);
    let last = (machine::processors() - 1).to_string();
    let job = Job { connections, ..context.job(&server, step, &last) };

    // The first request triggers one-time allocations of the server. The dummy sends its own content.
    let expected = [(job.targets[0].as_str(), Content::Any)];
    check::check(context.scenario, job.wire, job.address, job.headers, job.status, &expected)?;
    let before = server.anonymous_bytes()?;
    // With several threads, each has a descriptor table of its own, and the kernel distributes connections only roughly.
    let expected = connections as usize / step.threads;
    let expected = if step.threads == 1 { expected } else { expected / 2 };
    let _clients = load::hold_idle(&job)?;
    wait_until_idle(&server, job.wire, expected)?;
    let after = server.anonymous_bytes()?;
    Ok(vec![(Metric::IdleBytes, (after as f64 - before as f64) / f64::from(connections))])
}

/// Waits until the server has this many connections and uses no more CPU time.
fn wait_until_idle(server: &Server, wire: Wire, connections: usize) -> Result<()> {
    let at_first = server.cpu_time()?;
    let mut used = at_first;
    let is_idle = || {
        thread::sleep(QUIET);
        let now = server.cpu_time()?;
        let are_open = match wire {
            // All QUIC connections share a socket.
            Wire::H3 => now.saturating_sub(at_first) >= HANDSHAKE_MIN * u32::try_from(connections)?,
            _ => server.descriptors() >= connections,
        };
        let recent = now.saturating_sub(used);
        used = now;
        // Servers with timers use some microseconds all the time.
        Ok(are_open && recent < QUIET / 100)
    };
    wait_until(TIMEOUT, Duration::ZERO, is_idle).context("the server is busy or lacks connections")
}
