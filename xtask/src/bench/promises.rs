//! What is promised about speed, as data: a ratio of two medians of one run, or a bound. The page says of each
//! whether it is reached. A promise is changed here and nowhere else.

use super::figures::{Figures, Quantity};

/// One promise.
pub(crate) struct Promise {
    /// As a person says it.
    pub(crate) says: &'static str,
    scenario: &'static str,
    point: &'static str,
    quantity: Quantity,
    bound: Bound,
}

/// How our figure must lie. For all of them less is better.
#[derive(Clone, Copy)]
enum Bound {
    /// At most so many times that of another.
    AtMost(f64, &'static str),
    /// That of another is at least so many times ours.
    Better(f64, &'static str),
    /// Less than that of each of these.
    Least(&'static [&'static str]),
    /// At most so much, whatever the others have.
    Value(f64),
    /// At most so much more than at another step of the scenario.
    Above(f64, &'static str),
    /// At most so many times what it was with one thread, the step before; for steps that differ by threads.
    SinceOneThread(f64),
    /// It was measured at all: a run with an error leaves no figures.
    NoErrors,
}

/// What became of a promise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Outcome {
    /// What there is and what it has to be compared with, in the words of the bound.
    Reached(f64),
    Missed(f64),
    /// A promise about threads that were not all busy: what there is, and which part of their processors' time they
    /// used at the step where they used less.
    Undecided(f64, f64),
    /// Not measured, or the other one was not there.
    Unknown,
}

const ALL_PEERS: &[&str] = &["nginx", "lighttpd", "h2o", "apache2", "caddy"];

/// What is measured of us, but for the engine alone.
const OURS: &str = "cannery";

/// The ruler.
const FLOOR: &str = "floor";

/// The step of one thread, which others are compared with.
const ONE_THREAD: &str = "1";

/// How busy threads must be, at the least, for a verdict on how much more of them can do. Who waits for a load generator
/// is woken for fewer requests at a time, and so pays more for each, whoever serves: the floor, whose processes share
/// nothing, then needs more by itself than such a promise leaves room for. At 80 % that is 7 %.
pub(crate) const BUSY_LEAST: f64 = 0.9;

/// All promises, in the order of the page.
pub(crate) const PROMISES: [Promise; 40] = [
    cpu("K1, 64 connections: at most 1.06 times the floor", "k1", "64", Bound::AtMost(1.06, "floor")),
    cpu("K1, 64 connections: 1.5 times better than nginx", "k1", "64", Bound::Better(1.5, "nginx")),
    cpu("K1, 64 connections: 1.15 times better than lighttpd", "k1", "64", Bound::Better(1.15, "lighttpd")),
    cpu("K1, 64 connections: 1.15 times better than h2o", "k1", "64", Bound::Better(1.15, "h2o")),
    cpu("K1, 4,096 connections: no errors", "k1", "4096", Bound::NoErrors),
    cpu("K1, 4,096 connections: at most 1.10 times the floor", "k1", "4096", Bound::AtMost(1.1, "floor")),
    p99(
        "K1, 4,096 connections: p99 at most a tenth above the floor's",
        "k1",
        "4096",
        Bound::AtMost(1.1, "floor"),
    ),
    cpu("K1, 16,384 connections: no errors", "k1", "16384", Bound::NoErrors),
    cpu("K1, 16,384 connections: at most 1.10 times the floor", "k1", "16384", Bound::AtMost(1.1, "floor")),
    p99(
        "K1, 16,384 connections: p99 at most a tenth above the floor's",
        "k1",
        "16384",
        Bound::AtMost(1.1, "floor"),
    ),
    cpu("Serving an archive at most 4 % above the engine alone", "k1", "64", Bound::AtMost(1.04, "dummy")),
    cpu("K2, tiles, 64 connections: 1.5 times better than nginx", "k2", "64", Bound::Better(1.5, "nginx")),
    Promise {
        says: "K2, tiles: at most 16 MiB of private memory",
        scenario: "k2",
        point: "64",
        quantity: Quantity::PrivateMib,
        bound: Bound::Value(16.0),
    },
    cpu("Pipelined, 16 deep: 8 times better than nginx", "pipelined", "64", Bound::Better(8.0, "nginx")),
    cpu("W3, 89 kB: at most 1.05 times the floor", "w3", "64", Bound::AtMost(1.05, "floor")),
    cpu("W3, 89 kB: better than every peer", "w3", "64", Bound::Least(ALL_PEERS)),
    cpu(
        "W4, gzip: 20 times better than nginx that compresses",
        "w4-compressing",
        "64",
        Bound::Better(20.0, "nginx"),
    ),
    cpu(
        "W4, gzip: 1.3 times better than nginx with gzip_static",
        "w4-precompressed",
        "64",
        Bound::Better(1.3, "nginx"),
    ),
    cpu(
        "W9, 1,024 connections: 1.5 times better than nginx with gzip_static and brotli_static",
        "w9",
        "1024",
        Bound::Better(1.5, "nginx"),
    ),
    cpu("304: 1.5 times better than nginx", "not-modified", "64", Bound::Better(1.5, "nginx")),
    Promise {
        says: "At half the load that nginx can bear: p99.9 no worse than nginx's",
        scenario: "latency",
        point: "64",
        quantity: Quantity::P999Us,
        bound: Bound::AtMost(1.0, "nginx"),
    },
    cpu(
        "W1, 2 threads, each with clients of its own: at least 0.95 of linear",
        "w1-apart",
        "2",
        Bound::SinceOneThread(1.0 / 0.95),
    ),
    cpu(
        "W1, 2 threads, all asked by all clients: at least 0.95 of linear",
        "w1-across",
        "2",
        Bound::SinceOneThread(1.0 / 0.95),
    ),
    cpu("W1, 3 threads: at least 0.95 of linear", "w1-apart", "3", Bound::SinceOneThread(1.0 / 0.95)),
    Promise {
        says: "An idle connection: at most 200 bytes",
        scenario: "idle-memory",
        point: "10000",
        quantity: Quantity::IdleBytes,
        bound: Bound::Value(200.0),
    },
    Promise {
        says: "From start to first answer with 250,000 files: at most 10 ms",
        scenario: "cold-start",
        point: "250000",
        quantity: Quantity::FirstAnswerMs,
        bound: Bound::Value(10.0),
    },
    cpu("HTTP/2, 13 bytes, 32 streams: 1.2 times better than h2o", "h2", "16", Bound::Better(1.2, "h2o")),
    cpu("HTTP/2, 13 bytes, 32 streams: 7 times better than nginx", "h2", "16", Bound::Better(7.0, "nginx")),
    cpu("HTTP/2, 13 bytes, one stream: better than h2o", "h2-single", "64", Bound::Least(&["h2o"])),
    cpu("HTTP/2, 89 kB: 1.4 times better than h2o", "h2-large", "16", Bound::Better(1.4, "h2o")),
    cpu(
        "HTTP/2, documentation in brotli: 1.2 times better than h2o with its own files",
        "h2-docs",
        "16",
        Bound::Better(1.2, "h2o"),
    ),
    cpu("TLS, 13 bytes: 1.15 times better than h2o", "tls", "64", Bound::Better(1.15, "h2o")),
    cpu("TLS, 13 bytes: 1.3 times better than nginx", "tls", "64", Bound::Better(1.3, "nginx")),
    cpu("TLS, 89 kB: 1.4 times better than h2o", "tls-large", "64", Bound::Better(1.4, "h2o")),
    cpu("TLS, 89 kB: 2 times better than nginx", "tls-large", "64", Bound::Better(2.0, "nginx")),
    cpu("Whole handshakes, P-256: no worse than nginx", "handshakes", "32", Bound::AtMost(1.0, "nginx")),
    cpu(
        "Whole handshakes, RSA-2048: no worse than nginx",
        "handshakes-rsa",
        "32",
        Bound::AtMost(1.0, "nginx"),
    ),
    cpu("Resumed handshakes: no worse than nginx", "handshakes-resumed", "32", Bound::AtMost(1.0, "nginx")),
    Promise {
        says: "An idle connection over TLS: at most 12 KiB",
        scenario: "idle-memory-tls",
        point: "HTTP/1.1",
        quantity: Quantity::IdleBytes,
        bound: Bound::Value(12.0 * 1024.0),
    },
    Promise {
        says: "An idle connection over HTTP/2: at most 4 KiB above TLS",
        scenario: "idle-memory-tls",
        point: "HTTP/2",
        quantity: Quantity::IdleBytes,
        bound: Bound::Above(4.0 * 1024.0, "HTTP/1.1"),
    },
];

const fn cpu(says: &'static str, scenario: &'static str, point: &'static str, bound: Bound) -> Promise {
    Promise { says, scenario, point, quantity: Quantity::ProcessorUs, bound }
}

const fn p99(says: &'static str, scenario: &'static str, point: &'static str, bound: Bound) -> Promise {
    Promise { says, scenario, point, quantity: Quantity::P99Us, bound }
}

impl Promise {
    /// Compares the promise with what was measured.
    pub(crate) fn outcome(&self, figures: &Figures) -> Outcome {
        let Some((figure, reached)) = self.figure(figures) else { return Outcome::Unknown };
        match self.busy(figures) {
            Some(busy) if busy < BUSY_LEAST => Outcome::Undecided(figure, busy),
            _ if reached => Outcome::Reached(figure),
            _ => Outcome::Missed(figure),
        }
    }

    /// For a promise about threads, which part of their processors' time ours used where they used less of it.
    fn busy(&self, figures: &Figures) -> Option<f64> {
        let at = |point| figures.median(self.scenario, point, OURS, Quantity::Busy);
        match self.bound {
            Bound::SinceOneThread(_) => Some(at(self.point)?.min(at(ONE_THREAD)?)),
            _ => None,
        }
    }

    /// For a promise about threads, what the same figure is of the floor, whose processes share nothing.
    pub(crate) fn of_the_floor(&self, figures: &Figures) -> Option<f64> {
        let at = |point| figures.median(self.scenario, point, FLOOR, self.quantity);
        match self.bound {
            Bound::SinceOneThread(_) => Some(at(self.point)? / at(ONE_THREAD)?),
            _ => None,
        }
    }

    /// The figure that the promise is about, and whether it is as promised.
    fn figure(&self, figures: &Figures) -> Option<(f64, bool)> {
        let at = |point, contender| figures.median(self.scenario, point, contender, self.quantity);
        if let Some(failures) = figures.median(self.scenario, self.point, OURS, Quantity::Failures) {
            return Some((failures, false));
        }
        let ours = at(self.point, OURS)?;
        let compared = match self.bound {
            Bound::AtMost(times, other) => {
                let ratio = ours / at(self.point, other)?;
                (ratio, ratio <= times)
            }
            Bound::Better(times, other) => {
                let ratio = at(self.point, other)? / ours;
                (ratio, ratio >= times)
            }
            Bound::Least(others) => {
                let least = others.iter().filter_map(|other| at(self.point, other)).min_by(f64::total_cmp)?;
                (least / ours, least > ours)
            }
            Bound::Value(most) => (ours, ours <= most),
            Bound::Above(most, point) => {
                let more = ours - at(point, OURS)?;
                (more, more <= most)
            }
            Bound::SinceOneThread(times) => {
                let ratio = ours / at(ONE_THREAD, OURS)?;
                (ratio, ratio <= times)
            }
            Bound::NoErrors => (0.0, true),
        };
        Some(compared)
    }

    /// What the figure of an outcome counts.
    pub(crate) fn unit(&self) -> &'static str {
        match self.bound {
            Bound::AtMost(..) | Bound::Better(..) | Bound::Least(_) => "times",
            Bound::SinceOneThread(_) => "times one thread's",
            Bound::Value(_) | Bound::Above(..) => self.quantity.words(),
            Bound::NoErrors => "errors",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::figures::Figure;
    use super::super::{measurements, scenarios};
    use super::*;

    fn promise(bound: Bound) -> Promise {
        cpu("a promise", "k1", "64", bound)
    }

    /// We need 4 us, the floor needs 2, nginx 6, and with half as many connections we need 3.
    fn figures() -> Figures {
        let of = |point: &str, contender: &str, value| Figure {
            scenario: "k1".into(),
            point: point.into(),
            contender: contender.into(),
            round: 1,
            quantity: Quantity::ProcessorUs,
            value,
        };
        Figures(vec![
            of("64", "cannery", 4.0),
            of("64", "floor", 2.0),
            of("64", "nginx", 6.0),
            of("32", "cannery", 3.0),
        ])
    }

    #[test]
    fn each_bound_is_compared_the_right_way_round() {
        let outcome = |bound| promise(bound).outcome(&figures());
        assert_eq!(outcome(Bound::AtMost(2.0, "floor")), Outcome::Reached(2.0));
        assert_eq!(outcome(Bound::AtMost(1.9, "floor")), Outcome::Missed(2.0));
        assert_eq!(outcome(Bound::Better(1.5, "nginx")), Outcome::Reached(1.5));
        assert_eq!(outcome(Bound::Better(1.6, "nginx")), Outcome::Missed(1.5));
        assert_eq!(outcome(Bound::Least(&["nginx", "absent"])), Outcome::Reached(1.5));
        assert_eq!(outcome(Bound::Least(&["nginx", "floor"])), Outcome::Missed(0.5));
        assert_eq!(outcome(Bound::Value(4.0)), Outcome::Reached(4.0));
        assert_eq!(outcome(Bound::Value(3.9)), Outcome::Missed(4.0));
        assert_eq!(outcome(Bound::Above(1.0, "32")), Outcome::Reached(1.0));
        assert_eq!(outcome(Bound::Above(0.5, "32")), Outcome::Missed(1.0));
        assert_eq!(outcome(Bound::NoErrors), Outcome::Reached(0.0));
    }

    /// One thread needs 4 us, two 4.2, and three 5, and are so busy.
    fn threads(busy: [f64; 3]) -> Figures {
        let steps = [("1", 4.0, busy[0]), ("2", 4.2, busy[1]), ("3", 5.0, busy[2])];
        let of = |point: &str, quantity, value| Figure {
            scenario: "w1".into(),
            point: point.into(),
            contender: OURS.into(),
            round: 1,
            quantity,
            value,
        };
        let both =
            |(point, us, busy)| [of(point, Quantity::ProcessorUs, us), of(point, Quantity::Busy, busy)];
        Figures(steps.into_iter().flat_map(both).collect())
    }

    #[test]
    fn there_is_a_verdict_on_threads_only_where_all_of_them_were_busy() {
        let outcome =
            |point, busy| cpu("", "w1", point, Bound::SinceOneThread(1.0 / 0.95)).outcome(&threads(busy));
        assert_eq!(outcome("2", [0.99, 0.9, 0.3]), Outcome::Reached(4.2 / 4.0));
        assert_eq!(outcome("3", [0.99, 0.9, 0.9]), Outcome::Missed(5.0 / 4.0));
        assert_eq!(outcome("3", [0.99, 0.9, 0.3]), Outcome::Undecided(5.0 / 4.0, 0.3));
        assert_eq!(outcome("2", [0.8, 0.9, 0.3]), Outcome::Undecided(4.2 / 4.0, 0.8));
    }

    #[test]
    fn whoever_had_an_error_has_missed_every_promise_of_that_step() {
        let mut figures = figures();
        figures.0[0].quantity = Quantity::Failures;
        figures.0[0].value = 1.0;
        assert_eq!(promise(Bound::NoErrors).outcome(&figures), Outcome::Missed(1.0));
        assert_eq!(promise(Bound::AtMost(9.0, "floor")).outcome(&figures), Outcome::Missed(1.0));
    }

    #[test]
    fn what_was_not_measured_is_neither_reached_nor_missed() {
        assert_eq!(promise(Bound::Better(1.0, "h2o")).outcome(&figures()), Outcome::Unknown);
        assert_eq!(promise(Bound::NoErrors).outcome(&Figures::default()), Outcome::Unknown);
    }

    #[test]
    fn every_promise_is_about_a_step_that_is_measured() {
        for promise in &PROMISES {
            let scenario = scenarios::ALL.iter().find(|scenario| scenario.name == promise.scenario);
            let of_scenario = scenario.iter().flat_map(|scenario| {
                scenario.points.iter().map(|point| scenario.label(point)).collect::<Vec<_>>()
            });
            let measurement = measurements::ALL.iter().find(|other| other.name == promise.scenario);
            let of_measurement =
                measurement.iter().flat_map(|other| other.points).map(|point| (*point).to_owned());
            let mut points = of_scenario.chain(of_measurement);
            assert!(points.any(|point| point == promise.point), "{}: no such step", promise.says);
        }
    }
}
