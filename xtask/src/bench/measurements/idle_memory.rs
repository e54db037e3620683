//! What a connection costs in memory of the server's own that has asked once and waits.

use std::io::{BufReader, Write};
use std::net::TcpStream;

use super::super::answer::Answer;
use super::super::contenders::{Codings, Contender, Order};
use super::super::figures::{Figure, Figures, Quantity};
use super::super::question::Question;
use super::super::report::Report;
use super::super::scenario::Extent;
use super::super::scenarios::{HELLO, SERVERS};
use super::super::server::Running;
use super::super::site::Site;
use super::super::{Plan, machine, usage, wire};
use super::Measurement;
use crate::error::Error;
use crate::project;

pub(super) const MEASUREMENT: Measurement = Measurement {
    name: "idle-memory",
    title: "10,000 idle connections",
    says: "Each has asked for 13 bytes once. Counted is memory of the processes' own, beyond what they have with one \
           connection, without what the kernel keeps for sockets, which is the same for all.",
    contenders: SERVERS,
    points: &[POINT],
    quantities: &[Quantity::IdleBytes],
    run,
};

const POINT: &str = "10000";

const CONNECTIONS: u32 = 10_000;

/// Enough to see that it works.
const CONNECTIONS_QUICK: u32 = 1000;

fn run(contenders: &[Contender], plan: Plan, extent: Extent, report: &mut Report) -> Result<Figures, Error> {
    let connections = if extent == Extent::Quick { CONNECTIONS_QUICK } else { CONNECTIONS };
    let site = Site::of_files("idle-memory", &[("index.html", HELLO.to_vec())], Some("identity"))?;
    // There is no floor among the contenders, so nobody reads it.
    let answers = project::outside().join("running/answers");
    let order = Order {
        site: &site,
        codings: Codings::Identity,
        threads: 1,
        connections,
        has_large_answers: false,
        wire: wire::CLEAR,
        flags: &[],
        answers: &answers,
    };
    let mut figures = Figures::default();
    for round in 1..=plan.rounds {
        for contender in contenders {
            if !contender.bears(connections, 1)? {
                report.line(&format!(
                    "{} is left out: it does not hold so many connections here",
                    contender.name()
                ));
                continue;
            }
            let server = contender.start(&order, machine::free_address()?, "0")?;
            let value = bytes_each(&server, connections)?;
            report.line(&format!("{:<9} {value:>8.1} bytes a connection", contender.name()));
            figures.0.push(Figure {
                scenario: MEASUREMENT.name.into(),
                point: POINT.into(),
                contender: contender.name().into(),
                round,
                quantity: Quantity::IdleBytes,
                value,
            });
        }
    }
    Ok(figures)
}

/// What a server has more with so many connections than with one, divided by their number.
fn bytes_each(server: &Running, connections: u32) -> Result<f64, Error> {
    let first = ask_and_stay(server)?;
    let before = usage::anonymous_bytes_of_tree(server.process())?;
    let idle = (0..connections).map(|_| ask_and_stay(server)).collect::<Result<Vec<_>, _>>()?;
    let with_all = usage::anonymous_bytes_of_tree(server.process())?;
    drop((first, idle));
    Ok((with_all as f64 - before as f64) / f64::from(connections))
}

fn ask_and_stay(server: &Running) -> Result<TcpStream, Error> {
    let address = server.address();
    let broken = |source| Error::file(format!("an idle connection to {address}"), source);
    let mut connection = TcpStream::connect(address).map_err(broken)?;
    connection.write_all(&Question::new(&[]).spell(address, "/")).map_err(broken)?;
    let answer = Answer::read(&mut BufReader::new(&connection)).map_err(broken)?;
    answer.check("an idle connection", "", 200, HELLO)?;
    Ok(connection)
}
