//! How a run goes: one worker, a network full of peers, perhaps a new release or the order to stop, until all is over.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use cannery_eventloop::simulated::{Network, Random, Simulated, SimulatedListener};

use super::site::Releases;
use crate::config::{self, Config, ListenerKind};
use crate::observe::Observer;
use crate::reload::Current;
use crate::worker::{Plan, StopOrder, Worker};

/// Turns of the loop after which a run must have come to rest.
pub(super) const TURNS_MAX: usize = 20_000;

/// What happens to the server in a run.
pub(super) struct Plot {
    pub(super) proxied: bool,
    pub(super) http1: bool,
    pub(super) connections_max: Option<NonZeroUsize>,
    /// Bytes that a connection may receive and send in a turn.
    pub(super) turn_bytes_max: u64,
    /// The turn in which a new release comes, and the one in which the order to stop does.
    pub(super) release_at: Option<usize>,
    pub(super) stop_at: Option<usize>,
}

/// What came of it.
pub(super) struct Course {
    /// Whether the server was stopped.
    pub(super) stopped: bool,
}

impl Plot {
    pub(super) fn invent(random: &mut Random) -> Plot {
        let connections_max = if random.once_in(3) { NonZeroUsize::new(2) } else { None };
        // Often so small that little is done in one turn.
        let turn_bytes_max =
            100 + if random.once_in(2) { random.size(1000) } else { random.size(200_000) } as u64;
        let release_at = random.once_in(3).then(|| random.below(60));
        let stop_at = random.once_in(6).then(|| random.below(100));
        Plot { proxied: false, http1: true, connections_max, turn_bytes_max, release_at, stop_at }
    }

    /// Lets everything happen. Fails if there is no end to it, or something is left behind.
    pub(super) fn run(self, network: &Network, releases: &Releases) -> Result<Course, String> {
        // Whoever still holds one of these in the end has forgotten to let go of it.
        let releases = releases.held_apart();
        let current = Arc::new(Current::new(Arc::clone(&releases.first)));
        let config = Config {
            connections_max: self.connections_max,
            drain: Duration::from_secs(5),
            proxy_protocol: self.proxied,
            http1: self.http1,
            ..Config::plain(config::Content::Dummy { body: b"" })
        };
        let listeners = [(ListenerKind::Plain, SimulatedListener)];
        let (stop, observer) = (Arc::new(StopOrder::default()), Observer::default());
        let plan = Plan::new(&config, listeners, Arc::clone(&current), stop, observer);
        let plan = plan.with_iteration_bytes_max(self.turn_bytes_max);
        let events = Simulated::new(network.clone());
        let mut worker = Worker::new(events, plan).map_err(|error| error.to_string())?;
        let mut stops = None;
        for turn in 0.. {
            if turn > TURNS_MAX {
                return Err(format!("no rest after {:?}: {network:?}", network.elapsed()));
            }
            if self.release_at == Some(turn) {
                current.replace(Arc::clone(&releases.second));
                network.wake();
            }
            if self.stop_at == Some(turn) {
                stops = Some(worker.begin_drain());
            }
            if network.is_idle() && worker.is_idle() {
                let is_replaced = Arc::ptr_eq(&current.get(), &releases.second);
                if is_replaced && Arc::strong_count(&releases.first) > 1 {
                    return Err("somebody holds the release that was replaced".into());
                }
                break;
            }
            worker.run_iteration(stops);
            if stops.is_some_and(|end| worker.now() >= end) {
                break;
            }
        }
        Ok(Course { stopped: stops.is_some() })
    }
}
