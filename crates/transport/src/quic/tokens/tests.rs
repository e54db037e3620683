//! Unit tests of tokens and reset keys.

use quinn_proto::crypto::{HandshakeTokenKey, HmacKey};

use super::*;

fn secret() -> StaticSecret {
    StaticSecret::generate().unwrap()
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
