//! Requests before those that count: so that memory, caches and lists of open files are warm, and that whoever
//! compresses what it has not seen yet has seen everything.
//!
//! They are counted and not timed, since a load generator cannot run for less than a second.

use std::time::{Duration, Instant};

use super::conversation::Caller;
use super::question::Question;
use super::server::Running;
use crate::error::Error;

/// So many are enough where there are fewer targets.
const REQUESTS: usize = 10_000;

/// And so much time, after which only the targets are asked for that have not been.
const ENOUGH: Duration = Duration::from_millis(300);

/// More targets take seconds to be asked for once.
pub(crate) const TARGETS_LARGE: usize = 5_000;

/// So much time at most for those. Servers to which targets are new for longer are those that keep nothing of them.
const LARGE_AT_MOST: Duration = Duration::from_secs(4);

/// Connections. More would only leave their ports behind, which the kernel keeps for a minute, and finding free ones
/// then takes longer than the run.
const CONNECTIONS_MAX: u32 = 256;

/// Asks for each target once and again, on some connections at the same time, so many requests at once on each.
pub(crate) fn warm_up(
    server: &Running,
    question: &Question,
    targets: &[String],
    connections: u32,
    depth: usize,
) -> Result<(), Error> {
    let broken = |source| Error::file(format!("warming up {}", server.address()), source);
    let caller = Caller::new(server.address(), question)?;
    let connections = connections.min(CONNECTIONS_MAX);
    let mut conversations =
        (0..connections).map(|_| caller.call()).collect::<Result<Vec<_>, _>>().map_err(broken)?;
    let started = Instant::now();
    let mut asked = 0;
    loop {
        let is_enough = asked >= REQUESTS || started.elapsed() >= ENOUGH;
        let is_too_long = targets.len() > TARGETS_LARGE && started.elapsed() >= LARGE_AT_MOST;
        if (asked >= targets.len() && is_enough) || is_too_long {
            return Ok(());
        }
        // All ask before anybody listens, so that the server has something to do meanwhile.
        for conversation in &mut conversations {
            for _ in 0..depth {
                conversation.send(question, &targets[asked % targets.len()]).map_err(broken)?;
                asked += 1;
            }
        }
        for conversation in &mut conversations {
            for _ in 0..depth {
                conversation.receive().map_err(broken)?;
            }
        }
        if !question.keeps() {
            return Ok(());
        }
    }
}
