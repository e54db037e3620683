//! Tests of the schedule with a virtual clock: lives of certificates, failures, crashes, and clocks that are set.

use super::*;

const HOUR: Duration = Duration::from_secs(3600);
const MINUTE: Duration = Duration::from_secs(60);
const START: Timestamp = Timestamp(1_800_000_000);

/// A schedule with its clocks. It counts orders.
struct Simulation {
    schedule: Schedule,
    wall: Timestamp,
    steady: Duration,
    orders: Vec<Duration>,
    questions: usize,
    /// The validity of issued certificates. `None`: orders fail.
    life: Option<Duration>,
    /// The authority's window, relative to the start of a certificate's life.
    window: Option<(Duration, Duration)>,
    has_renewal_id: bool,
}

impl Simulation {
    fn new(life: Option<Duration>) -> Simulation {
        Simulation {
            schedule: Schedule::new(Journal::default(), None),
            wall: START,
            steady: Duration::ZERO,
            orders: Vec::new(),
            questions: 0,
            life,
            window: None,
            has_renewal_id: true,
        }
    }

    fn now(&self) -> Now {
        Now { wall: self.wall, steady: self.steady }
    }

    fn sleep(&mut self, time: Duration) {
        self.wall = self.wall + time;
        self.steady += time;
    }

    fn held(&self) -> Held {
        let not_before = self.wall - HOUR;
        let validity = Validity { not_before, not_after: not_before + self.life.unwrap() };
        Held { validity, has_renewal_id: self.has_renewal_id }
    }

    /// Does one step. Chances differ from step to step.
    fn step(&mut self) -> Step {
        let now = self.now();
        let chance = (self.orders.len() * 7 + self.questions * 3) as f64 % 10.0 / 10.0;
        let step = self.schedule.next(now);
        match step {
            Step::Wait(time) => self.sleep(time.max(Duration::from_secs(1))),
            Step::AskForAdvice => {
                self.questions += 1;
                match (self.window, self.schedule.held) {
                    (Some((start, end)), Some(held)) => {
                        let begin = held.validity.not_before;
                        self.schedule.take_advice(now, (begin + start, begin + end), None, chance);
                    }
                    _ => self.schedule.miss_advice(now, None, chance),
                }
            }
            Step::Order => {
                self.orders.push(self.steady);
                self.schedule.begin_order(now, chance);
                self.sleep(Duration::from_secs(5));
                let now = self.now();
                match self.life {
                    Some(_) => {
                        let held = self.held();
                        if self.schedule.fulfill_order(now, held) == Fulfilled::DueAlready {
                            self.schedule.fail_order(now, failure(now), None, chance);
                        }
                    }
                    None => self.schedule.fail_order(now, failure(now), None, chance),
                }
            }
        }
        step
    }

    fn run(&mut self, time: Duration) {
        let end = self.steady + time;
        while self.steady < end {
            self.step();
        }
    }

    /// Begins an order that isn't placed, because our own check fails.
    fn miss(&mut self) {
        let now = self.now();
        self.schedule.begin_order(now, 0.0);
        self.schedule.miss_order(now, failure(now), 0.0);
    }

    /// Ends the process and starts another one with the journal on disk.
    fn restart(&mut self) {
        let text = serde_json::to_string(self.schedule.journal()).unwrap();
        let held = self.schedule.held;
        self.schedule = Schedule::new(serde_json::from_str(&text).unwrap(), held);
    }

    fn assert_orders_keep_apart(&self) {
        for pair in self.orders.windows(2) {
            assert!(pair[1] - pair[0] >= MINUTE, "orders at {pair:?}");
        }
    }
}

fn failure(now: Now) -> LastError {
    LastError { at: now.wall, kind: "test".into(), message: "it failed".into(), hint: None }
}

#[test]
fn short_lives_are_renewed_after_half_and_long_ones_after_two_thirds() {
    for (days, expected) in [(6, 72), (9, 108), (45, 720), (90, 1440)] {
        let mut simulation = Simulation::new(Some(days * DAY));
        simulation.has_renewal_id = false;
        simulation.run(days * DAY);
        let apart = simulation.orders[1] - simulation.orders[0];
        // The certificate was an hour old when it was issued.
        assert_eq!(apart.as_secs() / 3600 + 1, expected, "{days} days");
    }
}

#[test]
fn thirty_renewals_of_six_days_with_restarts() {
    let mut simulation = Simulation::new(Some(6 * DAY));
    simulation.window = Some((2 * DAY, 4 * DAY));
    while simulation.orders.len() < 31 {
        simulation.step();
        simulation.restart();
        let held = simulation.schedule.held.map(|held| held.validity.not_after);
        assert!(held.is_none_or(|not_after| not_after > simulation.wall), "a certificate has expired");
    }
    simulation.assert_orders_keep_apart();
    let apart: Vec<_> = simulation.orders.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(apart.iter().all(|time| (2 * DAY - HOUR..4 * DAY).contains(time)), "{apart:?}");
    let distinct: std::collections::HashSet<_> = apart.iter().map(|time| time.as_secs() / 3600).collect();
    assert!(distinct.len() > 3, "moments within the window are chosen at random: {distinct:?}");
}

#[test]
fn moment_stays_until_the_window_changes() {
    let mut simulation = Simulation::new(Some(90 * DAY));
    simulation.window = Some((50 * DAY, 60 * DAY));
    simulation.run(2 * DAY);
    let chosen =
        |simulation: &Simulation| simulation.schedule.journal().advice.unwrap().window.unwrap().chosen;
    let before = chosen(&simulation);
    assert!(simulation.questions > 6, "asked every six hours");
    simulation.run(2 * DAY);
    assert_eq!(chosen(&simulation), before);

    // The authority revokes: the window is in the past.
    simulation.window = Some((Duration::ZERO, HOUR));
    let orders = simulation.orders.len();
    simulation.run(HOUR);
    assert_eq!(simulation.orders.len(), orders + 1);
}

#[test]
fn advice_to_renew_at_once_causes_few_orders() {
    let mut simulation = Simulation::new(Some(90 * DAY));
    simulation.window = Some((Duration::ZERO, HOUR));
    simulation.run(10 * DAY);
    let count = simulation.orders.len();
    assert!((30..=41).contains(&count), "{count} orders in ten days");
}

#[test]
fn advice_cannot_let_a_certificate_expire() {
    let mut simulation = Simulation::new(Some(6 * DAY));
    simulation.window = Some((40 * DAY, 50 * DAY));
    simulation.run(30 * DAY);
    let apart = simulation.orders[1] - simulation.orders[0];
    assert!(apart < 6 * DAY - DAY, "{apart:?}");
}

#[test]
fn authority_without_advice_is_asked_seldom() {
    let mut simulation = Simulation::new(Some(90 * DAY));
    simulation.run(10 * DAY);
    assert!(simulation.questions < 70, "{}", simulation.questions);
    assert_eq!(simulation.orders.len(), 1);
    simulation.run(60 * DAY);
    assert_eq!(simulation.orders.len(), 2, "two thirds of the life");
}

#[test]
fn failures_back_off_to_six_hours() {
    let mut simulation = Simulation::new(None);
    simulation.run(10 * DAY);
    simulation.assert_orders_keep_apart();
    let count = simulation.orders.len();
    assert!((45..65).contains(&count), "{count} attempts in ten days");
    assert!(simulation.schedule.journal().last_error.is_some());

    simulation.life = Some(90 * DAY);
    simulation.run(7 * HOUR);
    assert_eq!(simulation.schedule.journal().last_error, None);
    assert_eq!(simulation.schedule.journal().attempt.unwrap().failures, 0);
}

#[test]
fn crash_loop_backs_off_as_failures_do() {
    let mut simulation = Simulation::new(None);
    let end = DAY;
    while simulation.steady < end {
        if simulation.schedule.next(simulation.now()) == Step::Order {
            simulation.orders.push(simulation.steady);
            simulation.schedule.begin_order(simulation.now(), 0.0);
        }
        // The process dies with the order in flight, and starts again a second later.
        simulation.restart();
        simulation.sleep(Duration::from_secs(1));
    }
    simulation.assert_orders_keep_apart();
    assert!(simulation.orders.len() < 16, "{} orders in a day", simulation.orders.len());
}

#[test]
fn clock_that_jumps_never_causes_two_orders_a_minute() {
    let mut simulation = Simulation::new(Some(6 * DAY));
    simulation.run(HOUR);
    for jump in 0..200 {
        // Ahead beyond the expiry, and back to the start.
        simulation.wall = if jump % 2 == 0 { START + 400 * DAY } else { START };
        for _ in 0..5 {
            simulation.step();
            let wait = Duration::from_secs(1);
            simulation.steady += wait;
        }
    }
    simulation.assert_orders_keep_apart();
}

#[test]
fn journal_from_the_future_does_not_stop_renewals() {
    let mut simulation = Simulation::new(None);
    simulation.wall = START + 4000 * DAY;
    simulation.run(DAY);
    simulation.wall = START;
    simulation.restart();
    simulation.life = Some(90 * DAY);
    let orders = simulation.orders.len();
    simulation.run(7 * HOUR);
    assert_eq!(simulation.orders.len(), orders + 1);

    // The same for a time at which the authority is asked again.
    let mut simulation = Simulation::new(Some(90 * DAY));
    simulation.window = Some((50 * DAY, 60 * DAY));
    simulation.run(HOUR);
    let journal = &mut simulation.schedule.journal;
    journal.advice.as_mut().unwrap().asks_again_at = START + 1000 * DAY;
    assert_eq!(simulation.schedule.next(simulation.now()), Step::AskForAdvice);
}

#[test]
fn certificate_that_is_due_at_once_is_a_failure() {
    // The clock is a year ahead of the authority's.
    let mut simulation = Simulation::new(Some(6 * DAY));
    simulation.has_renewal_id = false;
    simulation.schedule.begin_order(simulation.now(), 0.0);
    let not_before = START - 365 * DAY;
    let validity = Validity { not_before, not_after: not_before + 6 * DAY };
    let held = Held { validity, has_renewal_id: false };
    assert_eq!(simulation.schedule.fulfill_order(simulation.now(), held), Fulfilled::DueAlready);
    assert!(matches!(simulation.schedule.next(simulation.now()), Step::Wait(_)));
}

#[test]
fn expired_certificate_is_ordered_at_once_without_advice() {
    let validity = Validity { not_before: START - 90 * DAY, not_after: START - HOUR };
    let held = Held { validity, has_renewal_id: true };
    let mut schedule = Schedule::new(Journal::default(), Some(held));
    let now = Now { wall: START, steady: Duration::ZERO };
    assert_eq!(schedule.next(now), Step::Order);
    assert!(schedule.names_replaced());
    schedule.stop_naming_replaced();
    assert!(!schedule.names_replaced());
}

#[test]
fn retry_after_is_waited_for() {
    let mut simulation = Simulation::new(None);
    simulation.schedule.begin_order(simulation.now(), 0.0);
    let now = simulation.now();
    simulation.schedule.fail_order(now, failure(now), Some(3 * HOUR), 0.0);
    simulation.restart();
    assert_eq!(simulation.schedule.next(simulation.now()), Step::Wait(3 * HOUR));
}

#[test]
fn order_that_was_not_placed_only_delays_this_process() {
    let mut simulation = Simulation::new(None);
    let mut attempts = 0;
    while simulation.steady < DAY {
        match simulation.schedule.next(simulation.now()) {
            Step::Order => {
                attempts += 1;
                simulation.miss();
            }
            Step::Wait(time) => simulation.sleep(time),
            Step::AskForAdvice => unreachable!("there is no certificate"),
        }
    }
    assert!((8..16).contains(&attempts), "{attempts} attempts in a day");
    assert!(simulation.schedule.journal().last_error.is_some());

    // The next process tries at once, but not within a minute of an order.
    simulation.restart();
    assert_eq!(simulation.schedule.next(simulation.now()), Step::Order);
    let now = simulation.now();
    simulation.schedule.begin_order(now, 0.0);
    simulation.schedule.fail_order(now, failure(now), None, 0.0);
    simulation.sleep(MINUTE);
    simulation.miss();
    simulation.restart();
    assert_eq!(simulation.schedule.journal().attempt.unwrap().failures, 1);
}

#[test]
fn failed_checks_do_not_prevent_renewals_for_good() {
    let mut simulation = Simulation::new(Some(90 * DAY));
    simulation.has_renewal_id = false;
    simulation.run(59 * DAY);
    let renewed = simulation.orders.len();
    let mut misses = 0;
    while simulation.schedule.next(simulation.now()) != Step::Order || !overrules(&simulation) {
        match simulation.schedule.next(simulation.now()) {
            Step::Order => {
                misses += 1;
                simulation.miss();
            }
            Step::Wait(time) => simulation.sleep(time),
            Step::AskForAdvice => unreachable!("the certificate has no ID"),
        }
    }
    assert_eq!((simulation.orders.len(), misses), (renewed, 10));

    // Another process doesn't know of them, but the certificate is about to expire.
    simulation.restart();
    assert!(!overrules(&simulation));
    simulation.sleep(8 * DAY);
    assert!(overrules(&simulation));

    // Without a certificate, mistakes are corrected before the authority notices them.
    let mut simulation = Simulation::new(None);
    for _ in 0..20 {
        simulation.miss();
    }
    assert!(!overrules(&simulation));
}

fn overrules(simulation: &Simulation) -> bool {
    simulation.schedule.overrules_check(simulation.now())
}

#[test]
fn requested_renewal_waits_for_the_limits() {
    let mut simulation = Simulation::new(Some(90 * DAY));
    simulation.has_renewal_id = false;
    assert_eq!(simulation.step(), Step::Order);

    // The last order was a moment ago.
    simulation.schedule.request_renewal();
    simulation.restart();
    assert!(matches!(simulation.step(), Step::Wait(wait) if wait <= MINUTE));
    assert_eq!(simulation.step(), Step::Order);
    assert!(matches!(simulation.step(), Step::Wait(wait) if wait > DAY), "it was renewed once");

    // A failure doesn't end the request, and it backs off.
    simulation.life = None;
    simulation.schedule.request_renewal();
    simulation.run(12 * HOUR);
    assert!((5..20).contains(&simulation.orders.len()), "{:?}", simulation.orders);
    simulation.assert_orders_keep_apart();
    simulation.life = Some(90 * DAY);
    let orders = simulation.orders.len();
    simulation.run(20 * DAY);
    assert_eq!(simulation.orders.len(), orders + 1);
}
