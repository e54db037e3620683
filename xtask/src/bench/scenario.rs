//! What a comparison consists of: a site, what is asked of it, how hard, and of whom.

use super::asker::Dealing;
use super::contenders::{Codings, Contender};
use super::question::Question;
use super::site::Site;
use super::wire::{self, Wire};
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
    pub(crate) wire: Wire,
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
    /// ab, which speaks HTTP/1.0 on one thread, and keeps its connections or takes a new one for each request.
    Ab { keeps: bool },
    /// h2load, so many requests at a time on each connection.
    Streams(u32),
    /// Our own, a connection for each request, over TLS with a whole handshake or with a ticket.
    Handshakes { resumes: bool },
    /// Our own, which costs less for a request than a server does, so that several threads of one are busy.
    Asker(Dealing),
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
pub(crate) const PLAIN: Asking = Asking {
    fields: &[],
    generator: Generator::Random,
    wire: wire::CLEAR,
    again: false,
    status: 200,
    part: None,
};

/// A step with one serving thread.
pub(crate) const fn connections(connections: u32) -> Point {
    Point { connections, threads: 1 }
}

impl Asking {
    pub(crate) fn question(&self) -> Question {
        let question = Question::new(self.fields).over(self.wire);
        if let Generator::Ab { keeps } = self.generator { question.of_http_1_0(keeps) } else { question }
    }

    /// Whether its generator tells how long requests wait. h2load and the asker do not, and wrk corrects its waits by
    /// the number of requests, which goes wrong where many share one.
    pub(crate) fn tells_waits(&self) -> bool {
        !matches!(self.generator, Generator::Pipelined(_) | Generator::Streams(_) | Generator::Asker(_))
    }

    /// Whether its generator can run for less than a second, and so warm a server up by itself.
    pub(crate) fn can_be_short(&self) -> bool {
        matches!(self.generator, Generator::Streams(_) | Generator::Handshakes { .. } | Generator::Asker(_))
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

    /// Whether it goes over TLS.
    pub(crate) fn is_secured(&self) -> bool {
        self.asking.wire.key.is_some()
    }

    /// Whether the steps differ by threads.
    pub(crate) fn is_across_threads(&self) -> bool {
        self.points.iter().any(|point| point.threads > 1)
    }
}
