//! Unit tests of the filter of used tokens.

use super::*;

const LIFETIME: Duration = Duration::from_secs(1000);

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

/// Returns a number with bytes that look random.
fn random(number: u32) -> u128 {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &number.to_be_bytes());
    u128::from_be_bytes(digest.as_ref()[..16].try_into().unwrap())
}

fn is_new(used: &UsedTokens, token: u32, issued: u64) -> bool {
    used.check_and_insert(random(token), at(issued), LIFETIME).is_ok()
}

#[test]
fn token_is_used_once() {
    let used = UsedTokens::new();
    for token in 0..1000 {
        assert!(is_new(&used, token, 5_000 + u64::from(token)));
        assert!(!is_new(&used, token, 5_000 + u64::from(token)));
    }
}

#[test]
fn token_of_the_previous_period_is_remembered() {
    let used = UsedTokens::new();
    assert!(is_new(&used, 1, 5_999));
    assert!(is_new(&used, 2, 6_000));
    assert!(!is_new(&used, 1, 5_999));
    // The filter of the first token is reused, and tokens of its time have expired.
    assert!(is_new(&used, 3, 7_000));
    assert!(!is_new(&used, 1, 5_999));
    assert!(!is_new(&used, 2, 6_000));
    assert!(!is_new(&used, 4, 5_999), "expired");
}

#[test]
fn filter_is_mostly_empty_after_a_day_with_many_tokens() {
    let used = UsedTokens::new();
    let refused = (0..20_000).filter(|&token| !is_new(&used, token, 5_000)).count();
    assert!(refused < 400, "{refused} of the first tokens");
    let refused = (20_000..21_000).filter(|&token| !is_new(&used, token, 5_000)).count();
    assert!(refused < 60, "{refused} of 1000 after them");
}

#[test]
fn full_filter_refuses_and_never_forgets() {
    let used = UsedTokens::new();
    for token in 0..200_000 {
        is_new(&used, token, 5_000);
    }
    assert!((0..200_000).step_by(100).all(|token| !is_new(&used, token, 5_000)));
    assert!(is_new(&used, 1, 6_000), "the next period has another filter");
}
