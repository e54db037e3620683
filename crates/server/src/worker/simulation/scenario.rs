//! A simulated run: one worker serves all peers of a network until every connection is closed.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use cannery_eventloop::simulated::{Network, Random, Simulated, SimulatedListener};

use super::site::Releases;
use crate::config::{self, Config, HttpVersions, ListenerKind};
use crate::content::Current;
use crate::observe::Observer;
use crate::worker::{Plan, StopFlag, Worker};

/// Loop iterations after which a run must have ended.
pub(super) const ITERATIONS_MAX: usize = 20_000;

/// Configuration of the server in a run, and the events that it must survive.
pub(super) struct Scenario {
    pub(super) proxied: bool,
    pub(super) http1: bool,
    pub(super) connections_max: Option<NonZeroUsize>,
    /// Limit on the bytes that a connection receives and sends in a loop iteration.
    pub(super) iteration_bytes_max: u64,
    /// The iteration before which a new release is published.
    pub(super) release_at: Option<usize>,
    /// The iteration before which the server is stopped.
    pub(super) stop_at: Option<usize>,
}

/// Result of a run that ended.
pub(super) struct Outcome {
    pub(super) stopped: bool,
}

impl Scenario {
    pub(super) fn generate(random: &mut Random) -> Scenario {
        let connections_max = if random.once_in(3) { NonZeroUsize::new(2) } else { None };
        // In half of the runs, small enough that a response takes many iterations.
        let iteration_bytes_max =
            100 + if random.once_in(2) { random.size(1000) } else { random.size(200_000) } as u64;
        let release_at = random.once_in(3).then(|| random.below(60));
        let stop_at = random.once_in(6).then(|| random.below(100));
        Scenario { proxied: false, http1: true, connections_max, iteration_bytes_max, release_at, stop_at }
    }

    /// Runs the scenario to its end.
    ///
    /// # Errors
    ///
    /// Returns an error if the run does not end within [`ITERATIONS_MAX`], or if the replaced release is
    /// still referenced.
    pub(super) fn run(self, network: &Network, releases: &Releases) -> Result<Outcome, String> {
        // We count references to these copies at the end, to find leaks.
        let releases = releases.unshared();
        let current = Arc::new(Current::new(Arc::clone(&releases.first)));
        let config = Config {
            connections_max: self.connections_max,
            drain: Duration::from_secs(5),
            proxy_protocol: self.proxied,
            versions: if self.http1 { HttpVersions::All } else { HttpVersions::Http2 },
            ..Config::plain(config::Content::dummy(b""))
        };

        let listeners = [(ListenerKind::Plain, SimulatedListener)];
        let stop = Arc::new(StopFlag::default());
        let observer = Observer::default();
        let plan = Plan::new(&config, listeners, Arc::clone(&current), stop, observer);
        let plan = plan.with_iteration_bytes_max(self.iteration_bytes_max);
        let events = Simulated::new(network.clone());
        let mut worker = Worker::new(events, plan).map_err(|error| error.to_string())?;

        let mut stops = None;
        for iteration in 0.. {
            if iteration > ITERATIONS_MAX {
                return Err(format!("not idle after {:?}: {network:?}", network.elapsed()));
            }
            if self.release_at == Some(iteration) {
                current.replace(Arc::clone(&releases.second));
                network.wake();
            }
            if self.stop_at == Some(iteration) {
                stops = Some(worker.begin_drain());
            }
            if network.is_idle() && worker.is_idle() {
                let is_replaced = Arc::ptr_eq(&current.get(), &releases.second);
                if is_replaced && Arc::strong_count(&releases.first) > 1 {
                    return Err("the replaced release is still referenced".into());
                }
                break;
            }

            worker.run_iteration(stops);
            if stops.is_some_and(|end| worker.now() >= end) {
                break;
            }
        }

        Ok(Outcome { stopped: stops.is_some() })
    }
}
