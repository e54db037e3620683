//! Tests for limits against abuse.

use super::*;

/// Returns the number of times that `act` succeeds.
fn count(budget: &mut Budget, mut act: impl FnMut(&mut Budget) -> Result<(), Exhausted>) -> u32 {
    let mut times = 0;
    while act(budget).is_ok() {
        times += 1;
    }
    times
}

#[test]
fn time_refills_the_bucket_up_to_its_capacity() {
    let mut budget = Budget::new();
    budget.set_time(1_000);
    assert_eq!(count(&mut budget, Budget::charge_frame), CREDIT_MAX);
    budget.set_time(1_000);
    assert_eq!(budget.charge_frame(), Err(Exhausted));
    budget.set_time(1_002);
    assert_eq!(count(&mut budget, Budget::charge_frame), 2 * CREDIT_PER_SECOND);
    budget.set_time(u64::MAX);
    assert_eq!(count(&mut budget, Budget::charge_frame), CREDIT_MAX);
}

#[test]
fn clock_that_goes_back_refills_nothing() {
    let mut budget = Budget::new();
    budget.set_time(1_000);
    count(&mut budget, Budget::charge_reset);
    budget.set_time(900);
    assert_eq!(count(&mut budget, Budget::charge_reset), 0);
}

#[test]
fn each_response_allows_another_reset() {
    let mut budget = Budget::new();
    for _ in 0..10 * RESETS_MAX {
        budget.credit_response();
        assert_eq!(budget.charge_reset(), Ok(()));
    }
}

#[test]
fn settings_are_charged_per_parameter() {
    let mut budget = Budget::new();
    let times = count(&mut budget, |budget| budget.charge_settings(6));
    assert_eq!(times, CREDIT_MAX / (SETTINGS_COST + 6));
}
