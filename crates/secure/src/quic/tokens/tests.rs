//! Unit tests of tokens, reset keys and the filter of used tokens.

use quinn_proto::crypto::{HandshakeTokenKey, HmacKey};

use super::*;

const LIFETIME: Duration = Duration::from_secs(1000);

fn secret() -> StaticSecret {
    StaticSecret::generate().unwrap()
}

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
fn sealed_token_opens_with_the_same_secret_only() {
    let (secret, other) = (secret(), secret());
    let key = TokenKey::new(&secret).aead_from_hkdf(b"random number");
    let mut sealed = b"token".to_vec();
    key.seal(&mut sealed, b"data").unwrap();
    assert_eq!(sealed.len(), 5 + 16);

    let opened = |secret: &StaticSecret, random: &[u8], data: &[u8]| {
        let key = TokenKey::new(secret).aead_from_hkdf(random);
        key.open(&mut sealed.clone(), data).ok().map(|token| token.to_vec())
    };
    assert_eq!(opened(&secret, b"random number", b"data").as_deref(), Some(&b"token"[..]));
    assert_eq!(opened(&other, b"random number", b"data"), None);
    assert_eq!(opened(&secret, b"another number", b"data"), None);
    assert_eq!(opened(&secret, b"random number", b"other"), None);
}

#[test]
fn reset_key_depends_on_the_secret() {
    let secret = secret();
    let sign = |secret: &StaticSecret| {
        let key = ResetKey::new(secret);
        let mut signature = vec![0; key.signature_len()];
        key.sign(b"id", &mut signature);
        signature
    };
    assert_eq!(sign(&secret), sign(&secret));
    assert_ne!(sign(&secret), sign(&self::secret()));
    assert!(ResetKey::new(&secret).verify(b"id", &sign(&secret)).is_ok());
    assert!(ResetKey::new(&secret).verify(b"another", &sign(&secret)).is_err());
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
