//! When to renew a certificate: a state machine that knows neither files nor the network.
//!
//! The authority's advice decides (ARI, RFC 9773): we renew at a random moment of its window. Without advice, a certificate is
//! renewed after two thirds of its life, or after half of it if it lives for less than ten days. After failures we back off.
//!
//! The state is kept on disk ([`Journal`]), because no crash, restart or clock may lead to more orders than the limits of an
//! authority allow. The wall clock can be set at any time, so a time in the journal that it can't have written is ignored, and
//! a steady clock also keeps orders apart.

mod backoff;
mod journal;

#[cfg(test)]
mod tests;

use std::time::Duration;

pub use journal::{Advice, Attempt, Journal, LastError, Window};

use crate::certificate::Validity;
use crate::clock::{Now, Timestamp};
use crate::limits::{
    ADVICE_INTERVAL_MIN, BACKOFF_MAX, ORDER_INTERVAL_MIN, RENEWAL_INFO_INTERVAL, RETRY_AFTER_MAX,
};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Lives shorter than this count as short.
const SHORT_LIFE: Duration = Duration::from_secs(10 * 24 * 60 * 60);

/// The next thing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing, for this long.
    Wait(Duration),
    /// Ask the authority for its advice about the certificate.
    AskForAdvice,
    /// Order a certificate.
    Order,
}

/// The schedule of one certificate.
pub(crate) struct Schedule {
    journal: Journal,
    /// The certificate in the folder. `None` if there is none for these names from this authority.
    held: Option<Held>,
    /// The last order of this process, by the steady clock.
    ordered: Option<Duration>,
    /// `journal.attempt` and `ordered` as they were before the last order.
    before: (Option<Attempt>, Option<Duration>),
    /// Orders in a row that were not placed.
    misses: u32,
    /// Time of the steady clock before which this process does not try again.
    paused_until: Duration,
}

/// The certificate in the folder.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub(crate) validity: Validity,
    /// Whether it has an ID by which the authority can be asked for advice.
    pub(crate) has_renewal_id: bool,
}

/// The outcome of an order that the authority has fulfilled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fulfilled {
    /// The certificate will be renewed in time.
    Good,
    /// By our clock, it should be renewed already. We count this as a failure: otherwise we would order again and again.
    DueAlready,
}

impl Schedule {
    pub(crate) fn new(mut journal: Journal, held: Option<Held>) -> Schedule {
        journal.not_after = held.map(|held| held.validity.not_after);
        let before = (journal.attempt, None);
        Schedule { journal, held, ordered: None, before, misses: 0, paused_until: Duration::ZERO }
    }

    /// Records that the certificate was removed or replaced by another process.
    pub(crate) fn replace_held(&mut self, held: Option<Held>) {
        self.held = held;
        self.journal.not_after = held.map(|held| held.validity.not_after);
        self.journal.advice = None;
        self.journal.refuses_replacement = false;
    }

    /// Records that the operator wants another certificate now. The limits of the authority apply nevertheless.
    pub(crate) fn request_renewal(&mut self) {
        self.journal.is_renewal_requested = true;
    }

    pub(crate) fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Decides what to do now.
    pub(crate) fn next(&mut self, now: Now) -> Step {
        self.forget_the_future(now);
        let Some(held) = self.held else { return self.order_when_allowed(now) };
        if now.wall > held.validity.not_after {
            return self.order_when_allowed(now);
        }

        if self.journal.is_renewal_requested {
            return self.order_when_allowed(now);
        }
        if held.has_renewal_id && self.asks_again_at() <= now.wall {
            return Step::AskForAdvice;
        }
        let renews_at = self.renews_at(held.validity);
        if renews_at <= now.wall {
            return self.order_when_allowed(now);
        }
        self.journal.renews_at = Some(renews_at);
        let next = if held.has_renewal_id { renews_at.min(self.asks_again_at()) } else { renews_at };
        Step::Wait(now.wall.until(next))
    }

    /// Whether the next order should name the certificate that it replaces. Such orders are exempt from limits.
    pub(crate) fn names_replaced(&self) -> bool {
        self.held.is_some_and(|held| held.has_renewal_id) && !self.journal.refuses_replacement
    }

    /// Whether a failed check of our own should no longer prevent the order. Only the authority's check counts, and ours may be wrong:
    /// some machines can't reach their own public address.
    pub(crate) fn overrules_check(&self, now: Now) -> bool {
        self.held.is_some_and(|Held { validity, .. }| {
            let life = validity.not_before.until(validity.not_after);
            backoff::is_longest(self.misses) || now.wall.until(validity.not_after) < life / 4
        })
    }

    /// Records that an order is about to be placed. The journal must be on disk before the first request.
    pub(crate) fn begin_order(&mut self, now: Now, chance: f64) {
        self.before = (self.journal.attempt, self.ordered);
        let failures = self.journal.attempt.map_or(0, |attempt| attempt.failures).saturating_add(1);
        let next_at = now.wall + backoff::delay(failures, None, chance);
        self.journal.attempt = Some(Attempt { at: now.wall, failures, next_at });
        self.ordered = Some(now.steady);
    }

    /// Takes back the beginning of an order that couldn't be recorded, so nothing was sent.
    pub(crate) fn cancel_order(&mut self) {
        (self.journal.attempt, self.ordered) = self.before;
    }

    /// Records that a certificate is about to be put into the folder. Until then, the one before is there, perhaps from another
    /// authority.
    pub(crate) fn record_pending(&mut self, fingerprint: &str) {
        fingerprint.clone_into(&mut self.journal.pending);
    }

    /// Records that the authority of the last attempt has issued the certificate in the folder.
    pub(crate) fn record_authority(&mut self) {
        self.journal.directory.clone_from(&self.journal.attempt_directory);
        self.journal.pending.clear();
    }

    /// Records why the order wasn't placed. The authority has noticed nothing, so the operator may correct the mistake and start
    /// another process, which tries again at once. This one backs off.
    pub(crate) fn miss_order(&mut self, now: Now, error: LastError, chance: f64) {
        self.cancel_order();
        self.misses = self.misses.saturating_add(1);
        let pause = backoff::delay(self.misses, None, chance);
        self.paused_until = now.steady + pause;
        self.journal.renews_at = Some(now.wall + pause);
        self.journal.last_error = Some(error);
    }

    /// Records why the last order has failed.
    pub(crate) fn fail_order(
        &mut self,
        now: Now,
        error: LastError,
        retry_after: Option<Duration>,
        chance: f64,
    ) {
        let failures = self.journal.attempt.map_or(1, |attempt| attempt.failures.max(1));
        let next_at = now.wall + backoff::delay(failures, retry_after, chance);
        self.journal.attempt = Some(Attempt { at: now.wall, failures, next_at });
        self.journal.renews_at = Some(next_at);
        self.journal.last_error = Some(error);
        self.misses = 0;
    }

    /// Records that the authority doesn't accept the certificate that an order replaces, for example because another order has
    /// replaced it.
    pub(crate) fn stop_naming_replaced(&mut self) {
        self.journal.refuses_replacement = true;
    }

    /// Records a new certificate, which is already in the folder.
    pub(crate) fn fulfill_order(&mut self, now: Now, held: Held) -> Fulfilled {
        self.held = Some(held);
        self.journal.not_after = Some(held.validity.not_after);
        self.journal.issued_at = Some(now.wall);
        self.journal.advice = None;
        self.journal.refuses_replacement = false;
        self.journal.is_renewal_requested = false;
        self.misses = 0;
        if self.renews_at(held.validity) <= now.wall {
            return Fulfilled::DueAlready;
        }
        self.journal.attempt =
            Some(Attempt { at: now.wall, failures: 0, next_at: now.wall + ORDER_INTERVAL_MIN });
        self.journal.renews_at = Some(self.renews_at(held.validity));
        self.journal.last_error = None;
        Fulfilled::Good
    }

    /// Records the authority's advice. A moment is chosen again only if the window has changed.
    pub(crate) fn take_advice(
        &mut self,
        now: Now,
        (start, end): (Timestamp, Timestamp),
        retry_after: Option<Duration>,
        chance: f64,
    ) {
        let known = self.journal.advice.and_then(|advice| advice.window);
        let window = match known {
            Some(known) if (known.start, known.end) == (start, end) => known,
            _ => {
                let chosen = start + start.until(end).mul_f64(chance.clamp(0.0, 1.0));
                Window { start, end, chosen }
            }
        };
        let interval =
            retry_after.unwrap_or(RENEWAL_INFO_INTERVAL).clamp(ORDER_INTERVAL_MIN, RETRY_AFTER_MAX);
        let asks_again_at = now.wall + interval;
        self.journal.advice = Some(Advice { window: Some(window), asks_again_at, failures: 0 });
    }

    /// Records that the authority gave no advice. The last one remains valid.
    pub(crate) fn miss_advice(&mut self, now: Now, retry_after: Option<Duration>, chance: f64) {
        let (window, failures) =
            self.journal.advice.map_or((None, 0), |advice| (advice.window, advice.failures));
        let failures = failures.saturating_add(1);
        let asks_again_at = now.wall + backoff::delay(failures, retry_after, chance);
        self.journal.advice = Some(Advice { window, asks_again_at, failures });
    }

    /// Returns `Order`, or waits for as long as the backoff lasts.
    fn order_when_allowed(&mut self, now: Now) -> Step {
        let by_journal =
            self.journal.attempt.map_or(Duration::ZERO, |attempt| now.wall.until(attempt.next_at));
        let by_process = self.ordered.map_or(Duration::ZERO, |ordered| {
            ORDER_INTERVAL_MIN.saturating_sub(now.steady.saturating_sub(ordered))
        });
        let by_pause = self.paused_until.saturating_sub(now.steady);
        match by_journal.max(by_process).max(by_pause) {
            Duration::ZERO => Step::Order,
            wait => {
                self.journal.renews_at = Some(now.wall + wait);
                Step::Wait(wait)
            }
        }
    }

    /// Moves times of the journal that lie too far ahead: the clock has been set back since they were written.
    fn forget_the_future(&mut self, now: Now) {
        if let Some(attempt) = &mut self.journal.attempt {
            let is_later = attempt.at > now.wall;
            let latest = now.wall + BACKOFF_MAX.max(RETRY_AFTER_MAX);
            if is_later || attempt.next_at > latest {
                let wait = attempt.at.until(attempt.next_at).min(RETRY_AFTER_MAX);
                *attempt = Attempt { at: now.wall, failures: attempt.failures, next_at: now.wall + wait };
            }
        }
        if let Some(advice) = &mut self.journal.advice
            && advice.asks_again_at > now.wall + RETRY_AFTER_MAX
        {
            advice.asks_again_at = now.wall;
        }
    }

    fn asks_again_at(&self) -> Timestamp {
        self.journal.advice.map_or(Timestamp(0), |advice| advice.asks_again_at)
    }

    /// Returns the moment of renewal. Advice can't move it into the last tenth of the certificate's life, or the last day of a
    /// long one: attempts may fail.
    fn renews_at(&self, validity: Validity) -> Timestamp {
        let Validity { not_before, not_after } = validity;
        let life = not_before.until(not_after);
        let latest = not_after - (life / 10).max(DAY).min(life / 3);
        match self.journal.advice.and_then(|advice| advice.window) {
            Some(window) => window.chosen.min(latest).max(self.earliest(life)),
            None if life < SHORT_LIFE => not_before + life / 2,
            None => not_before + life / 3 * 2,
        }
    }

    /// Returns the moment before which advice has no effect. Otherwise, an authority that always advises to renew at once would
    /// get an order every minute.
    fn earliest(&self, life: Duration) -> Timestamp {
        match self.journal.attempt {
            Some(Attempt { at, failures: 0, .. }) => at + (life / 4).min(ADVICE_INTERVAL_MIN),
            _ => Timestamp(0),
        }
    }
}
