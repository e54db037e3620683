//! Time between two attempts after failures: exponential backoff with jitter.

use std::time::Duration;

use crate::limits::{BACKOFF_MAX, ORDER_INTERVAL_MIN, RETRY_AFTER_MAX};

/// Returns the time to wait after this many failures in a row. It doubles with each of them, from a minute to six hours, and up to
/// a quarter is added by chance, so that machines that failed together don't try again together.
///
/// `chance` is in `0.0..1.0`. `retry_after` is what the authority asked for.
pub(super) fn delay(failures: u32, retry_after: Option<Duration>, chance: f64) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    let base = ORDER_INTERVAL_MIN.saturating_mul(1 << doublings).min(BACKOFF_MAX.mul_f64(0.8));
    let asked_for = retry_after.unwrap_or_default().min(RETRY_AFTER_MAX);
    base.mul_f64(1.0 + chance.clamp(0.0, 1.0) / 4.0).max(asked_for)
}

/// Whether more failures don't make the wait longer.
pub(super) fn is_longest(failures: u32) -> bool {
    delay(failures, None, 0.0) >= BACKOFF_MAX.mul_f64(0.8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delay_doubles_up_to_six_hours() {
        let minutes = |failures, chance| delay(failures, None, chance).as_secs() / 60;
        assert_eq!([0, 1, 2, 3, 4].map(|failures| minutes(failures, 0.0)), [1, 1, 2, 4, 8]);
        assert_eq!((minutes(9, 0.0), minutes(u32::MAX, 0.0), minutes(u32::MAX, 1.0)), (256, 288, 360));
        assert_eq!(minutes(5, 1.0), 20, "16 minutes and a quarter more");
        assert!(!is_longest(9) && is_longest(10));
    }

    #[test]
    fn retry_after_is_obeyed_within_a_day() {
        let hour = Duration::from_secs(3600);
        assert_eq!(delay(1, Some(hour), 0.5), hour);
        assert_eq!(delay(1, Some(Duration::ZERO), 0.0), ORDER_INTERVAL_MIN);
        assert_eq!(delay(1, Some(1000 * hour), 0.0), 24 * hour);
    }
}
