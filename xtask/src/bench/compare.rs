//! How a scenario is measured: in every round each contender once, one after the other, each started afresh, asked
//! and checked, warmed up, and then put under load.
//!
//! Whoever has a single error, of a generator or in a checked answer, has no figures at that step, and the command fails at
//! its end.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::time::Duration;

use super::answer::Answer;
use super::contenders::{Contender, Order};
use super::figures::{Figure, Figures, Quantity};
use super::handshakes::Visits;
use super::loaded::Loaded;
use super::machine::{self, Placement};
use super::paced::Pace;
use super::question::Question;
use super::report::Report;
use super::scenario::{Asking, Generator, Point, Scenario, connections};
use super::server::Running;
use super::site::Site;
use super::warm_up::{TARGETS_LARGE, warm_up};
use super::wrk::Load;
use super::{Plan, ab, asker, h2load, scenarios, usage};
use crate::error::Error;
use crate::project;

/// Load before the measured one of generators that can run for less than a second.
const WARM_UP: Duration = Duration::from_millis(300);

/// A run where it only has to be seen that everything works. Some generators make a second of it.
const QUICK: Duration = Duration::from_millis(500);

/// Very many connections take seconds to stand, so their runs last longer.
fn time_factor(point: &Point) -> u64 {
    match point.connections {
        ..2048 => 1,
        2048..10_000 => 2,
        10_000.. => 4,
    }
}

/// The waits that a load generator reports, in its order.
const WAITS: [Quantity; 5] =
    [Quantity::P50Us, Quantity::P90Us, Quantity::P99Us, Quantity::P999Us, Quantity::LongestUs];

/// Answers that are larger in the mean are better sent from the file by nginx. Measured: 13 bytes cost it 12 % less
/// without sendfile, 89 kB half as much with it.
const LARGE_BYTES: u64 = 16 * 1024;

/// How long it is measured what a server can do at most.
const SATURATING: Duration = Duration::from_secs(2);

/// How many answers are checked before each run, if there are more targets.
const CHECKED_MAX: usize = 40;

/// How many answers the floor has, if there are more targets: enough to lie outside all caches.
const FLOOR_ANSWERS_MAX: usize = 50_000;

/// Steps that are measured at one start of a server.
pub(crate) struct Flight {
    pub(crate) points: Vec<Point>,
    pub(crate) placement: Placement,
}

/// A scenario with all that it needs.
pub(crate) struct Comparison<'a> {
    scenario: &'a Scenario,
    contenders: &'a [Contender],
    site: &'a Site,
    question: Question,
    /// The file of the floor's answers.
    answers: PathBuf,
    /// The file of targets, where there are several.
    targets: Option<PathBuf>,
    /// Whether answers are so large that it pays to send them from the file.
    has_large_answers: bool,
    /// The rate of requests that come at an even one.
    requests_per_second: Option<f64>,
}

impl<'a> Comparison<'a> {
    pub(crate) fn prepare(
        scenario: &'a Scenario,
        contenders: &'a [Contender],
        site: &'a Site,
    ) -> Result<Comparison<'a>, Error> {
        let mut comparison = Comparison {
            scenario,
            contenders,
            site,
            question: scenario.asking.question(),
            answers: project::outside().join("running/answers"),
            targets: None,
            has_large_answers: false,
            requests_per_second: None,
        };
        if site.targets.len() > 1 {
            comparison.targets = Some(write_targets(&site.targets)?);
        }
        // Through TLS nothing is sent from a file, and where no floor is nobody wants answers.
        if contenders.iter().any(|contender| matches!(contender, Contender::Floor)) {
            comparison.has_large_answers = comparison.write_answers()? > LARGE_BYTES;
        }
        if scenario.asking.generator == Generator::Paced {
            comparison.requests_per_second = Some(comparison.half_load()?);
        }
        Ok(comparison)
    }

    /// How many steps there are to a flight. Where it takes seconds to ask for everything once, that is done for all of
    /// them together.
    pub(crate) fn steps_together(&self) -> usize {
        if self.site.targets.len() > TARGETS_LARGE { self.scenario.points.len() } else { 1 }
    }

    /// All rounds of some flights of steps, which each contender makes one after the other in each round. Whoever has an
    /// error has no figures for that flight but that one, and is not asked for it again.
    pub(crate) fn measure(
        &self,
        flights: &[Flight],
        plan: Plan,
        report: &mut Report,
    ) -> Result<Figures, Error> {
        let mut figures = Figures::default();
        let mut runs = Vec::new();
        for contender in self.contenders {
            for Flight { points, placement } in flights {
                runs.push((contender, self.bearable(contender, points, report)?, placement));
            }
        }
        runs.retain(|(_, points, _)| !points.is_empty());
        for round in 1..=plan.rounds {
            runs.retain(|(contender, points, placement)| {
                let name = contender.name();
                let figure = |point: &Point, quantity, value| Figure {
                    scenario: self.scenario.name.into(),
                    point: self.scenario.label(point),
                    contender: name.into(),
                    round,
                    quantity,
                    value,
                };
                match self.run_once(contender, points, placement, plan, report) {
                    Ok(found) => {
                        let found = points.iter().zip(found).flat_map(|(point, found)| {
                            found.into_iter().map(move |(quantity, value)| (*point, quantity, value))
                        });
                        figures
                            .0
                            .extend(found.map(|(point, quantity, value)| figure(&point, quantity, value)));
                        true
                    }
                    Err(error) => {
                        report.line(&format!("{name} failed: {error}"));
                        let labels: Vec<_> = points.iter().map(|point| self.scenario.label(point)).collect();
                        figures
                            .0
                            .retain(|figure| figure.contender != name || !labels.contains(&figure.point));
                        figures.0.extend(points.iter().map(|point| figure(point, Quantity::Failures, 1.0)));
                        false
                    }
                }
            });
        }
        Ok(figures)
    }

    /// Those of some steps that a contender can take part in here.
    fn bearable(
        &self,
        contender: &Contender,
        points: &[Point],
        report: &mut Report,
    ) -> Result<Vec<Point>, Error> {
        let mut bearable = Vec::new();
        for point in points {
            if contender.bears(point.connections, self.site.targets.len())? {
                bearable.push(*point);
            } else {
                report.line(&format!(
                    "{} is left out of {}: it does not hold so many connections or files here",
                    contender.name(),
                    self.scenario.label(point)
                ));
            }
        }
        Ok(bearable)
    }

    /// A fresh server, checked answers, a warm-up, and a timed run for each step.
    fn run_once(
        &self,
        contender: &Contender,
        points: &[Point],
        placement: &Placement,
        plan: Plan,
        report: &mut Report,
    ) -> Result<Vec<Vec<(Quantity, f64)>>, Error> {
        let most = points.iter().max_by_key(|point| point.connections).expect("there is a step");
        let address = machine::free_address()?;
        let server = contender.start(&self.order(most), address, &placement.server)?;
        let (question, first) = self.check(contender, &server)?;
        let visits = self.visits(&question, &server, most, self.time(most, plan), placement)?;
        if visits.is_none() && (plan.warms_up || self.site.targets.len() > 1) {
            self.warm_up(&question, &server, &points[0], placement)?;
        }
        let timed = |point: &Point| {
            let before = usage::processor_time_of_tree(server.process())?;
            let time = self.time(point, plan);
            let loaded = match &visits {
                Some(visits) => visits.run(&placement.generator, time)?,
                None => self.load(&question, &server, point, time, placement)?,
            };
            let used = usage::processor_time_of_tree(server.process())?.saturating_sub(before).as_secs_f64();
            let private = usage::anonymous_bytes_of_tree(server.process())?;

            let processor_us = used * 1e6 / loaded.requests;
            let rate = loaded.requests_per_second;
            let (label, name) = (self.scenario.label(point), contender.name());
            report.line(&format!(
                "{label:>5} {name:<16} {processor_us:>8.3} us a request {rate:>10.0} requests/s"
            ));
            report.raw(&loaded.raw);
            let wall = loaded.requests / rate * point.threads as f64;
            let mut figures = vec![
                (Quantity::ProcessorUs, processor_us),
                (Quantity::RequestsPerSecond, rate),
                (Quantity::Busy, used / wall),
                (Quantity::HeadBytes, first.head_bytes as f64),
                (Quantity::AnswerBytes, first.raw.len() as f64),
                (Quantity::PrivateMib, private as f64 / 1_048_576.0),
            ];
            if self.scenario.asking.tells_waits() {
                figures.extend(WAITS.into_iter().zip(loaded.waits_us));
            }
            figures.extend(loaded.head_bytes.map(|bytes| (Quantity::WarmHeadBytes, bytes)));
            Ok(figures)
        };
        points.iter().map(timed).collect()
    }

    /// How long a run lasts.
    fn time(&self, point: &Point, plan: Plan) -> Duration {
        if !plan.warms_up {
            return QUICK;
        }
        Duration::from_secs(plan.seconds * time_factor(point))
    }

    /// Visitors who have been there before, where each comes for himself.
    fn visits(
        &self,
        question: &Question,
        server: &Running,
        point: &Point,
        time: Duration,
        placement: &Placement,
    ) -> Result<Option<Visits>, Error> {
        let (Generator::Handshakes { resumes }, Some(key)) =
            (self.scenario.asking.generator, question.wire().key)
        else {
            return Ok(None);
        };
        let target = &self.site.targets[0];
        let request = question.spell(server.address(), target);
        let content = self.site.content(target)?;
        let visits = Visits::new(server.address(), (key, resumes), request, content, point.connections)?;
        // A whole handshake takes longer than a resumed one, and most servers send two tickets in it.
        let before = if resumes { time } else { time.min(WARM_UP) };
        visits.prepare(&placement.generator, before)?;
        Ok(Some(visits))
    }

    /// Asks for everything before it counts.
    fn warm_up(
        &self,
        question: &Question,
        server: &Running,
        point: &Point,
        placement: &Placement,
    ) -> Result<(), Error> {
        if self.scenario.asking.can_be_short() {
            return self.load(question, server, point, WARM_UP, placement).map(drop);
        }
        let depth = self.scenario.asking.depth();
        warm_up(server, question, &self.site.targets, point.connections, depth)
    }

    fn order(&self, point: &Point) -> Order<'_> {
        Order {
            site: self.site,
            codings: self.scenario.codings,
            threads: point.threads,
            connections: point.connections,
            has_large_answers: self.has_large_answers,
            wire: self.scenario.asking.wire,
            flags: self.scenario.flags,
            answers: &self.answers,
        }
    }

    /// Asks for some of the targets and compares the answers with the files. Returns what is to be asked under
    /// load, and the first answer to that.
    fn check(&self, contender: &Contender, server: &Running) -> Result<(Question, Answer), Error> {
        let first = &self.site.targets[..1];
        let mut question = self.question.clone();
        if self.scenario.asking.again {
            server.ask_each(&self.question, first, |_, answer| {
                question = self.question.again_after(&answer);
                Ok(())
            })?;
        }
        let step = self.site.targets.len().div_ceil(CHECKED_MAX);
        let some = self.site.targets.iter().step_by(step);
        let mut kept = None;
        server.ask_each(&question, some, |target, answer| {
            let who = format!("{} for {target}", contender.name());
            if matches!(contender, Contender::Dummy) {
                answer.check(&who, question.codings(), 200, scenarios::HELLO)?;
            } else if contender.serves_the_site() || self.site.targets.len() == 1 {
                let (status, content) = (self.scenario.asking.status, self.expected(target)?);
                answer.check(&who, question.codings(), status, &content)?;
            }
            // The floor gives its answers in an order of its own, whatever is asked.
            kept.get_or_insert(answer);
            Ok(())
        })?;
        Ok((question, kept.unwrap_or_default()))
    }

    /// The content of an answer, without its coding.
    fn expected(&self, target: &str) -> Result<Vec<u8>, Error> {
        let Asking { status, part, .. } = self.scenario.asking;
        let content = match status {
            304 => Vec::new(),
            404 => self.site.content("/404.html")?,
            _ => self.site.content(target)?,
        };
        Ok(part.map_or(content.clone(), |(from, to)| content[from..=to].to_vec()))
    }

    fn load(
        &self,
        question: &Question,
        server: &Running,
        point: &Point,
        time: Duration,
        placement: &Placement,
    ) -> Result<Loaded, Error> {
        let fields = question.words();
        let words = match (self.scenario.asking.generator, &self.targets) {
            (Generator::Pipelined(depth), _) => vec!["pipelined".to_owned(), depth.to_string()],
            (Generator::Rotating, Some(file)) => vec!["rotating".to_owned(), file.display().to_string()],
            (_, Some(file)) => vec!["random".to_owned(), file.display().to_string()],
            (_, None) => Vec::new(),
        };
        let load = Load {
            address: server.address(),
            connections: point.connections,
            time,
            target: &self.site.targets[0],
            fields: &fields,
            wire: question.wire(),
            words: &words,
        };
        match self.scenario.asking.generator {
            Generator::Ab { keeps } => ab::run(&load, &placement.generator, keeps),
            Generator::Streams(streams) => {
                h2load::run(&load, &self.site.targets, streams, &placement.generator)
            }
            Generator::Asker(dealing) => {
                let (request, answer) = self.first_exchange(question, server)?;
                asker::run(&load, &request, &answer, dealing, &placement.generator)
            }
            Generator::Paced if self.requests_per_second.is_some() => {
                let (request, answer) = self.first_exchange(question, server)?;
                let pace = Pace {
                    address: load.address,
                    request: &request,
                    answer: &answer,
                    connections: load.connections,
                    requests_per_second: self.requests_per_second.unwrap_or_default(),
                    seconds: load.seconds(),
                };
                pace.run(&placement.generator)
            }
            _ => load.run(&placement.generator, self.scenario.asking.status),
        }
    }

    /// The bytes of the first request and of its answer, for generators that ask for nothing else.
    fn first_exchange(&self, question: &Question, server: &Running) -> Result<(Vec<u8>, Vec<u8>), Error> {
        let mut answer = Vec::new();
        server.ask_each(question, &self.site.targets[..1], |_, first| {
            answer = first.raw;
            Ok(())
        })?;
        Ok((question.spell(server.address(), &self.site.targets[0]), answer))
    }

    /// Half of what nginx can answer in a second on one processor, or our server where there is no nginx.
    fn half_load(&self) -> Result<f64, Error> {
        let nginx = self.contenders.iter().find(|contender| contender.name() == "nginx");
        let point = &self.scenario.points[0];
        let placement =
            machine::placement(machine::processors(), point.threads).ok_or_else(|| Error::Missing {
                what: "a second processor".into(),
                remedy: "server and load generator on one would measure each other".into(),
            })?;
        let address = machine::free_address()?;
        let server =
            nginx.unwrap_or(&Contender::Cannery).start(&self.order(point), address, &placement.server)?;
        let loaded = self.load(&self.question, &server, point, SATURATING, &placement)?;
        Ok(loaded.requests_per_second / 2.0)
    }

    /// Lets our server give each answer once, and keeps their bytes for the floor. Returns how many they have in the
    /// mean.
    fn write_answers(&self) -> Result<u64, Error> {
        let failed = |source| Error::file(&self.answers, source);
        fs::create_dir_all(project::outside().join("running")).map_err(failed)?;
        let address = machine::free_address()?;
        let server = Contender::Cannery.start(&self.order(&connections(1)), address, "0")?;
        let (question, _) = self.check(&Contender::Cannery, &server)?;
        let mut file = BufWriter::new(File::create(&self.answers).map_err(failed)?);
        let step = self.site.targets.len().div_ceil(FLOOR_ANSWERS_MAX);
        let depth = self.scenario.asking.depth();
        let (mut count, mut sum) = (0, 0);
        server.ask_each(&question, self.site.targets.iter().step_by(step), |_, answer| {
            count += 1;
            sum += answer.raw.len() as u64;
            let bytes = answer.raw.repeat(depth);
            file.write_all(&(bytes.len() as u64).to_le_bytes()).map_err(failed)?;
            file.write_all(&bytes).map_err(failed)
        })?;
        file.flush().map_err(failed)?;
        Ok(sum / count)
    }
}

/// A line for each target, for wrk.
fn write_targets(targets: &[String]) -> Result<PathBuf, Error> {
    let path = project::outside().join("running/targets");
    fs::create_dir_all(project::outside().join("running")).map_err(|source| Error::file(&path, source))?;
    fs::write(&path, targets.join("\n") + "\n").map_err(|source| Error::file(&path, source))?;
    Ok(path)
}
