//! How many bytes heads take over HTTP/2: the first of a connection, and the same again when both ends have had it.

use super::super::contenders::{Codings, Contender, Order};
use super::super::conversation::Caller;
use super::super::figures::{Figure, Figures, Quantity};
use super::super::question::Question;
use super::super::report::Report;
use super::super::scenario::Extent;
use super::super::scenarios::SERVERS;
use super::super::server::Running;
use super::super::site::Site;
use super::super::{Plan, machine, wire};
use super::Measurement;
use crate::error::Error;
use crate::project;

pub(super) const MEASUREMENT: Measurement = Measurement {
    name: "h2-heads",
    title: "Bytes of a head over HTTP/2",
    says: "Blocks of HPACK, without their frames' heads: of the first answer on a connection, and of the same answer the \
           second time, or of another page's. Servers say different things of themselves and of the file; each is asked for the same.",
    is_secured: true,
    contenders: SERVERS,
    points: &[PAGE, ANOTHER, CODED, UNCHANGED, PART, ABSENT],
    quantities: &[Quantity::HeadBytes, Quantity::WarmHeadBytes],
    run,
};

const PAGE: &str = "200";
const ANOTHER: &str = "200, then another";
const CODED: &str = "200, br";
const UNCHANGED: &str = "304";
const PART: &str = "206";
const ABSENT: &str = "404";

/// One step: what is asked for first and second, with which fields, and what status it gets.
struct Step {
    point: &'static str,
    targets: [&'static str; 2],
    fields: &'static [(&'static str, &'static str)],
    status: u16,
}

const STEPS: [Step; 5] = [
    Step { point: PAGE, targets: ["/"; 2], fields: &[], status: 200 },
    Step { point: ANOTHER, targets: ["/", "/another.html"], fields: &[], status: 200 },
    Step { point: CODED, targets: ["/"; 2], fields: &[("Accept-Encoding", "br")], status: 200 },
    Step { point: PART, targets: ["/"; 2], fields: &[("Range", "bytes=10-19")], status: 206 },
    Step { point: ABSENT, targets: ["/not/there"; 2], fields: &[], status: 404 },
];

/// A text that is worth to be compressed, and a page for what is not there.
fn site() -> Result<Site, Error> {
    let page = "All work and no play makes Jack a dull boy.\n".repeat(50).into_bytes();
    let another = page[..1000].to_vec();
    let files =
        [("index.html", page), ("another.html", another), ("404.html", b"There is no such page.\n".to_vec())];
    Site::of_files(MEASUREMENT.name, &files, Some("identity,gzip,brotli"))?.with_siblings(MEASUREMENT.name)
}

fn run(contenders: &[Contender], _: Plan, _: Extent, report: &mut Report) -> Result<Figures, Error> {
    let site = site()?;
    // There is no floor among the contenders, so nobody reads it.
    let answers = project::outside().join("running/answers");
    let order = Order {
        site: &site,
        codings: Codings::Precompressed,
        threads: 1,
        connections: 1,
        has_large_answers: false,
        wire: wire::HTTP2,
        flags: &[],
        answers: &answers,
    };
    let mut figures = Figures::default();
    for contender in contenders {
        let name = contender.name();
        let mut add = |point: &str, quantity, value| {
            // The number of bytes is the same each time, so that one round tells all.
            let (scenario, point, contender) = (MEASUREMENT.name.into(), point.into(), name.into());
            figures.0.push(Figure { scenario, point, contender, round: 1, quantity, value });
        };
        let server = contender.start(&order, machine::free_address()?, "0");
        match server.and_then(|server| heads(name, &server, &site)) {
            Ok(heads) => {
                for (point, [cold, warm]) in heads {
                    report.line(&format!("{point:<17} {name:<9} {cold:>5} B, and {warm:>4} B again"));
                    add(point, Quantity::HeadBytes, cold as f64);
                    add(point, Quantity::WarmHeadBytes, warm as f64);
                }
            }
            Err(error) => {
                report.line(&format!("{name} failed: {error}"));
                add(PAGE, Quantity::Failures, 1.0);
            }
        }
    }
    Ok(figures)
}

/// For each step the first head and the second.
fn heads(who: &str, server: &Running, site: &Site) -> Result<Vec<(&'static str, [usize; 2])>, Error> {
    let mut found = Vec::new();
    for Step { point, targets, fields, status } in STEPS {
        let question = Question::new(fields).over(wire::HTTP2);
        found.push((point, ask_twice(who, server, &question, targets, status)?));
    }
    let mut again = None;
    let question = Question::new(&[]).over(wire::HTTP2);
    server.ask_each(&question, &site.targets[..1], |_, answer| {
        again = Some(question.again_after(&answer));
        Ok(())
    })?;
    let again = again.unwrap_or(question);
    found.push((UNCHANGED, ask_twice(who, server, &again, ["/"; 2], 304)?));
    Ok(found)
}

fn ask_twice(
    who: &str,
    server: &Running,
    question: &Question,
    targets: [&str; 2],
    status: u16,
) -> Result<[usize; 2], Error> {
    let broken = |source| Error::file(format!("https://{}", server.address()), source);
    let mut conversation = Caller::new(server.address(), question)?.call().map_err(broken)?;
    let mut bytes = [0; 2];
    for (bytes, target) in bytes.iter_mut().zip(targets) {
        let answer = conversation.ask(question, target).map_err(broken)?;
        if answer.status != status {
            return Err(Error::Unexpected {
                what: format!("the answer of {who} for {target}"),
                expected: format!("status {status}"),
                got: format!("status {}", answer.status),
            });
        }
        *bytes = answer.head_bytes;
    }
    Ok(bytes)
}
