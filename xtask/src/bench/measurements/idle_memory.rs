//! What a connection costs in memory of the server's own that has asked once and waits: in the clear, over TLS, and
//! over HTTP/2.

use super::super::contenders::{Codings, Contender, Order};
use super::super::conversation::{Caller, Conversation};
use super::super::figures::{Figure, Figures, Quantity};
use super::super::question::Question;
use super::super::report::Report;
use super::super::scenario::Extent;
use super::super::scenarios::{ENGINE_AND_SERVERS, HELLO};
use super::super::server::Running;
use super::super::site::Site;
use super::super::wire::{self, Wire};
use super::super::{Plan, machine, usage};
use super::Measurement;
use crate::error::Error;
use crate::project;

pub(super) const MEASUREMENT: Measurement = Measurement {
    name: "idle-memory",
    title: "10,000 idle connections",
    says: "Each has asked for 13 bytes once. Counted is memory of the processes' own, beyond what they have with one \
           connection, without what the kernel keeps for sockets, which is the same for all.",
    is_secured: false,
    contenders: ENGINE_AND_SERVERS,
    points: &["10000"],
    quantities: &[Quantity::IdleBytes],
    run: |contenders, plan, extent, report| {
        let mut idle = Idle { name: MEASUREMENT.name, contenders, plan, report, figures: Figures::default() };
        idle.measure("10000", wire::CLEAR, if extent == Extent::Quick { 1000 } else { 10_000 })?;
        Ok(idle.figures)
    },
};

pub(super) const OVER_TLS: Measurement = Measurement {
    name: "idle-memory-tls",
    title: "2,000 idle connections over TLS",
    says: "The same over TLS, with HTTP/1.1 and with HTTP/2: the keys, and what a library keeps beside them; with HTTP/2 \
           the tables of heads, and what is remembered of streams.",
    is_secured: true,
    contenders: ENGINE_AND_SERVERS,
    points: &[HTTP1, HTTP2],
    quantities: &[Quantity::IdleBytes],
    run: |contenders, plan, extent, report| {
        let connections = if extent == Extent::Quick { 200 } else { 2000 };
        let mut idle = Idle { name: OVER_TLS.name, contenders, plan, report, figures: Figures::default() };
        idle.measure(HTTP1, wire::TLS, connections)?;
        idle.measure(HTTP2, wire::HTTP2, connections)?;
        Ok(idle.figures)
    },
};

const HTTP1: &str = "HTTP/1.1";
const HTTP2: &str = "HTTP/2";

/// What is counted is the same in every round but for some pages.
const ROUNDS_MAX: u64 = 3;

/// A measurement under way.
struct Idle<'a> {
    name: &'static str,
    contenders: &'a [Contender],
    plan: Plan,
    report: &'a mut Report,
    figures: Figures,
}

impl Idle<'_> {
    /// So many connections over some wire, with everybody who bears them.
    fn measure(&mut self, point: &str, wire: Wire, connections: u32) -> Result<(), Error> {
        let site = Site::of_files(self.name, &[("index.html", HELLO.to_vec())], Some("identity"))?;
        // There is no floor among the contenders, so nobody reads it.
        let answers = project::outside().join("running/answers");
        let order = Order {
            site: &site,
            codings: Codings::Identity,
            threads: 1,
            connections,
            has_large_answers: false,
            wire,
            flags: &[],
            answers: &answers,
        };
        for round in 1..=self.plan.rounds.min(ROUNDS_MAX) {
            for contender in self.contenders {
                let name = contender.name();
                if !contender.bears(connections, 1)? {
                    self.report
                        .line(&format!("{name} is left out: it does not hold so many connections here"));
                    continue;
                }
                let found = contender
                    .start(&order, machine::free_address()?, "0")
                    .and_then(|server| bytes_each(&server, wire, connections));
                let (quantity, value) = match found {
                    Ok(value) => {
                        self.report.line(&format!("{point:<9} {name:<9} {value:>8.1} bytes a connection"));
                        (Quantity::IdleBytes, value)
                    }
                    Err(error) => {
                        self.report.line(&format!("{point:<9} {name} failed: {error}"));
                        (Quantity::Failures, 1.0)
                    }
                };
                self.figures.0.push(Figure {
                    scenario: self.name.into(),
                    point: point.into(),
                    contender: name.into(),
                    round,
                    quantity,
                    value,
                });
            }
        }
        Ok(())
    }
}

/// What a server has more with so many connections than with one, divided by their number.
fn bytes_each(server: &Running, wire: Wire, connections: u32) -> Result<f64, Error> {
    let question = Question::new(&[]).over(wire);
    let caller = Caller::new(server.address(), &question)?;
    let first = ask_and_stay(&caller, server, &question)?;
    let before = usage::anonymous_bytes_of_tree(server.process())?;
    let idle =
        (0..connections).map(|_| ask_and_stay(&caller, server, &question)).collect::<Result<Vec<_>, _>>()?;
    let with_all = usage::anonymous_bytes_of_tree(server.process())?;
    drop((first, idle));
    Ok((with_all as f64 - before as f64) / f64::from(connections))
}

fn ask_and_stay(caller: &Caller, server: &Running, question: &Question) -> Result<Conversation, Error> {
    let broken = |source| Error::file(format!("an idle connection to {}", server.address()), source);
    let mut conversation = caller.call().map_err(broken)?;
    let answer = conversation.ask(question, "/").map_err(broken)?;
    answer.check("an idle connection", "", 200, HELLO)?;
    Ok(conversation)
}
