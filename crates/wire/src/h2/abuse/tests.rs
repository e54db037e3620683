//! Unit tests of the budgets against abuse.

use super::*;

/// How often something may be done.
fn count(budget: &mut Budget, mut act: impl FnMut(&mut Budget) -> Result<(), ErrorCode>) -> u32 {
    let mut times = 0;
    while act(budget).is_ok() {
        times += 1;
    }
    times
}

#[test]
fn time_fills_a_purse_and_never_above_its_brim() {
    let mut budget = Budget::new();
    budget.set_time(1_000);
    assert_eq!(count(&mut budget, Budget::frame), CREDIT_MAX);
    budget.set_time(1_000);
    assert_eq!(budget.frame(), Err(ErrorCode::EnhanceYourCalm));
    budget.set_time(1_002);
    assert_eq!(count(&mut budget, Budget::frame), 2 * CREDIT_PER_SECOND);
    budget.set_time(u64::MAX);
    assert_eq!(count(&mut budget, Budget::frame), CREDIT_MAX);
}

#[test]
fn a_clock_that_goes_back_fills_nothing() {
    let mut budget = Budget::new();
    budget.set_time(1_000);
    count(&mut budget, Budget::reset);
    budget.set_time(900);
    assert_eq!(count(&mut budget, Budget::reset), 0);
}

#[test]
fn who_takes_answers_may_reset_as_many() {
    let mut budget = Budget::new();
    for _ in 0..10 * RESETS_MAX {
        budget.answered();
        assert_eq!(budget.reset(), Ok(()));
    }
}

#[test]
fn settings_cost_what_they_hold() {
    let mut budget = Budget::new();
    let times = count(&mut budget, |budget| budget.settings(6));
    assert_eq!(times, CREDIT_MAX / (SETTINGS_COST + 6));
}
