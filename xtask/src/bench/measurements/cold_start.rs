//! From the start of the process to the last byte of its first answer, over very many files.

use super::super::contenders::{Codings, Contender, Order};
use super::super::figures::{Figure, Figures, Quantity};
use super::super::question::Question;
use super::super::report::Report;
use super::super::scenario::Extent;
use super::super::scenarios::{ENGINE_AND_SERVERS, HELLO, tiles};
use super::super::{Plan, machine, wire};
use super::Measurement;
use crate::error::Error;
use crate::project;

pub(super) const MEASUREMENT: Measurement = Measurement {
    name: "cold-start",
    title: "From start to first answer, 250,000 files",
    says: "A process is started and asked for the last of the map tiles as soon as it accepts connections, which is \
           looked at every half millisecond. The files are in the kernel's memory already. What it takes to become a \
           process on its processor, by taskset, is part of it.",
    is_secured: false,
    contenders: ENGINE_AND_SERVERS,
    points: &[POINT],
    quantities: &[Quantity::FirstAnswerMs],
    run,
};

const POINT: &str = "250000";

fn run(contenders: &[Contender], plan: Plan, extent: Extent, report: &mut Report) -> Result<Figures, Error> {
    let site = tiles(extent)?;
    let target = site.targets.last().expect("there are tiles");
    let content = site.content(target)?;
    // There is no floor among the contenders, so nobody reads it.
    let answers = project::outside().join("running/answers");
    let order = Order {
        site: &site,
        codings: Codings::Identity,
        threads: 1,
        connections: 1,
        has_large_answers: false,
        wire: wire::CLEAR,
        flags: &[],
        answers: &answers,
    };
    let mut figures = Figures::default();
    for round in 1..=plan.rounds {
        for contender in contenders {
            let name = contender.name();
            let content = if matches!(contender, Contender::Dummy) { HELLO } else { &content };
            let (quantity, value) = match first_answer_ms(contender, &order, target, content) {
                Ok(value) => {
                    report.line(&format!("{name:<9} first answer after {value:>8.1} ms"));
                    (Quantity::FirstAnswerMs, value)
                }
                Err(error) => {
                    report.line(&format!("{name} failed: {error}"));
                    (Quantity::Failures, 1.0)
                }
            };
            let (scenario, point, contender) = (MEASUREMENT.name.into(), POINT.into(), name.into());
            figures.0.push(Figure { scenario, point, contender, round, quantity, value });
        }
    }
    Ok(figures)
}

/// Starts a contender, asks for one target and looks at its clock when the answer is there. Then the answer is checked.
fn first_answer_ms(
    contender: &Contender,
    order: &Order<'_>,
    target: &String,
    content: &[u8],
) -> Result<f64, Error> {
    let server = contender.start(order, machine::free_address()?, "0")?;
    let mut value = f64::NAN;
    server.ask_each(&Question::new(&[]), [target], |_, answer| {
        value = server.age().as_secs_f64() * 1e3;
        answer.check(contender.name(), "", 200, content)
    })?;
    Ok(value)
}
