//! What a comparison consists of: a site, what is asked of it, how hard, and of whom.

use super::contenders::{Codings, Contender};
use super::question::Question;
use super::site::Site;
use crate::error::Error;

/// One comparison. It is data: how it is measured stands in `compare.rs`, the same for all.
pub(crate) struct Scenario {
    /// How it is called on the command line, in files and in addresses of the page.
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    /// What it shows, for the page: sentences.
    pub(crate) says: &'static str,
    /// Makes the site; the argument says whether a smaller one will do.
    pub(crate) site: fn(Extent) -> Result<Site, Error>,
    pub(crate) codings: Codings,
    /// What our server is told beyond archive, address and threads.
    pub(crate) flags: &'static [&'static str],
    pub(crate) asking: Asking,
    pub(crate) points: &'static [Point],
    pub(crate) contenders: &'static [Contender],
}

/// How much is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    Whole,
    /// One step of a scenario, by what it is called.
    Step(u64),
    /// Only enough to see that everything works.
    Quick,
}

/// What is asked.
pub(crate) struct Asking {
    /// The fields of every request beyond `Host`.
    pub(crate) fields: &'static [(&'static str, &'static str)],
    pub(crate) generator: Generator,
    /// Whether each asks as one who has the answer already.
    pub(crate) again: bool,
    /// The status of every answer.
    pub(crate) status: u16,
    /// Which part of each file is the content: all of it, unless a range is asked for.
    pub(crate) part: Option<(usize, usize)>,
}

/// Who asks, and in which order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Generator {
    /// wrk, one request at a time on each connection; several targets as they come.
    Random,
    /// The same; several targets one after the other.
    Rotating,
    /// wrk, so many requests at once on each connection.
    Pipelined(usize),
    /// ab, which speaks HTTP/1.0 on one thread.
    Ab,
    /// Our own, at half the rate that nginx can answer.
    Paced,
}

/// One step of a scenario.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Point {
    pub(crate) connections: u32,
    pub(crate) threads: usize,
}

/// Plain requests for a whole file.
pub(crate) const PLAIN: Asking =
    Asking { fields: &[], generator: Generator::Random, again: false, status: 200, part: None };

/// A step with one serving thread.
pub(crate) const fn connections(connections: u32) -> Point {
    Point { connections, threads: 1 }
}

impl Asking {
    pub(crate) fn question(&self) -> Question {
        let question = Question::new(self.fields);
        if self.generator == Generator::Ab { question.of_http_1_0() } else { question }
    }

    /// How many requests are sent together.
    pub(crate) fn depth(&self) -> usize {
        if let Generator::Pipelined(depth) = self.generator { depth } else { 1 }
    }
}

impl Scenario {
    /// What a step is called: by what differs between the steps.
    pub(crate) fn label(&self, point: &Point) -> String {
        if self.is_across_threads() { point.threads.to_string() } else { point.connections.to_string() }
    }

    /// Whether the steps differ by threads.
    pub(crate) fn is_across_threads(&self) -> bool {
        self.points.iter().any(|point| point.threads > 1)
    }
}
