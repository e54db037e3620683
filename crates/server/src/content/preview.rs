//! Previews: who may see them, and until when.

use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cannery_archive::Digest;
use cannery_wire::RequestHead;

use super::limits::{PASSWORD_COUNTERS, WRONG_PASSWORDS_PER_MINUTE_MAX};
use crate::config::PreviewFile;
use crate::pages::{Page, fields};

/// A preview.
#[derive(Debug)]
pub(crate) struct Preview {
    /// When it ends, in seconds since 1970.
    expires: Option<u64>,
    password: Option<Password>,
}

#[derive(Debug)]
struct Password {
    salt: String,
    /// In hexadecimal digits.
    digest: String,
    is_sent_plain: bool,
    attempts: Arc<Attempts>,
}

impl Preview {
    /// Reads the settings in a preview's file.
    pub(crate) fn parse(json: &[u8], attempts: &Arc<Attempts>) -> Result<Preview, serde_json::Error> {
        let PreviewFile { expires, password } = serde_json::from_slice(json)?;
        let password = password.map(|password| Password {
            salt: password.salt,
            digest: password.digest.to_ascii_lowercase(),
            is_sent_plain: password.plain,
            attempts: Arc::clone(attempts),
        });
        Ok(Preview { expires, password })
    }

    /// Returns `true` if the preview has ended. `now` is in seconds since 1970.
    pub(crate) fn has_ended(&self, now: u64) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
    }

    /// Returns the page for a client who may not see the preview. `now` is in seconds since 1970.
    #[cold]
    pub(super) fn refusal(
        &self,
        head: &RequestHead<'_>,
        has_tls: bool,
        peer: Option<SocketAddr>,
        now: u64,
    ) -> Option<Page<'static>> {
        let password = self.password.as_ref()?;
        if !has_tls && !password.is_sent_plain {
            return Some(page(
                403,
                "This preview has a password, which must not be sent without TLS: use https.\n",
                &[],
            ));
        }

        let authorization = fields(head.field_lines)
            .find(|(name, _)| name.eq_ignore_ascii_case(b"authorization"))
            .map(|(_, value)| value);
        // Other schemes are no attempts to guess a password.
        let Some(sent) = authorization.and_then(sent_password) else { return Some(unauthorized()) };
        let attempt = password.attempts.of(&password.salt, peer);
        if attempt.is_exhausted(now) {
            return Some(page(
                429,
                "Too many wrong passwords from this address: try again in a minute.\n",
                &[("Retry-After", "60")],
            ));
        }
        if password.is(&sent) {
            return None;
        }
        attempt.count(now);
        Some(unauthorized())
    }
}

impl Password {
    /// Compares the digests in constant time.
    fn is(&self, sent: &[u8]) -> bool {
        let digest = Digest::of(&[self.salt.as_bytes(), sent].concat()).to_string();
        let difference = digest.bytes().zip(self.digest.bytes()).fold(0, |all, (a, b)| all | (a ^ b));
        digest.len() == self.digest.len() && difference == 0
    }
}

/// Returns the password in credentials of HTTP Basic authentication (RFC 7617), with any user name.
fn sent_password(authorization: &[u8]) -> Option<Vec<u8>> {
    let (scheme, rest) = authorization.split_at_checked(6)?;
    if !scheme.eq_ignore_ascii_case(b"basic ") {
        return None;
    }
    let mut credentials = decode_base64(rest.trim_ascii())?;
    let colon = credentials.iter().position(|byte| *byte == b':')?;
    Some(credentials.split_off(colon + 1))
}

fn unauthorized() -> Page<'static> {
    page(
        401,
        "This preview needs a password. Any user name will do.\n",
        &[("WWW-Authenticate", "Basic realm=\"preview\", charset=\"UTF-8\"")],
    )
}

fn page(status: u16, text: &'static str, fields: &'static [(&'static str, &'static str)]) -> Page<'static> {
    Page { status, media_type: "text/plain; charset=utf-8", body: text.as_bytes().into(), fields }
}

/// Decodes base64 with or without padding. Returns `None` for other bytes.
fn decode_base64(text: &[u8]) -> Option<Vec<u8>> {
    let end = text.iter().rposition(|byte| *byte != b'=').map_or(0, |last| last + 1);
    let mut bytes = Vec::with_capacity(end * 3 / 4);
    let (mut bits, mut count) = (0u32, 0);
    for byte in &text[..end] {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count).to_le_bytes()[0]);
        }
    }
    Some(bytes)
}

/// Number of wrong passwords per minute, for each preview and address.
///
/// The table never grows. Addresses whose hashes have the same slot share it.
#[derive(Debug)]
pub(crate) struct Attempts {
    /// The minute since 1970 in the high half, and the wrong passwords in that minute in the low half.
    slots: Box<[AtomicU64]>,
    hasher: RandomState,
}

/// The slot of an address.
struct Attempt<'a>(&'a AtomicU64);

impl Default for Attempts {
    fn default() -> Attempts {
        Attempts {
            slots: (0..PASSWORD_COUNTERS).map(|_| AtomicU64::new(0)).collect(),
            hasher: RandomState::new(),
        }
    }
}

impl Attempts {
    /// Finds the slot of an address. A network of IPv6 has one for all of its addresses.
    fn of(&self, preview: &str, peer: Option<SocketAddr>) -> Attempt<'_> {
        let network = match peer.map(|peer| peer.ip().to_canonical()) {
            None => [0; 8],
            Some(IpAddr::V4(address)) => {
                let [a, b, c, d] = address.octets();
                [0, 0, 0, 4, a, b, c, d]
            }
            Some(IpAddr::V6(address)) => {
                let [a, b, c, d, e, f, g, h, ..] = address.octets();
                [a, b, c, d, e, f, g, h]
            }
        };
        let hash = self.hasher.hash_one((preview, network));
        Attempt(&self.slots[usize::try_from(hash % PASSWORD_COUNTERS as u64).unwrap_or_default()])
    }
}

impl Attempt<'_> {
    fn is_exhausted(&self, now: u64) -> bool {
        let slot = self.0.load(Ordering::Relaxed);
        slot >> 32 == now / 60 && slot & u64::from(u32::MAX) >= WRONG_PASSWORDS_PER_MINUTE_MAX
    }

    fn count(&self, now: u64) {
        let minute = now / 60;
        let next = |slot: u64| Some(if slot >> 32 == minute { slot + 1 } else { minute << 32 | 1 });
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn preview() -> Preview {
        let digest = Digest::of(b"salthorse staple").to_string();
        let json = format!(
            r#"{{"expires": 100, "later": true, "password": {{"salt": "salt", "digest": "{digest}"}}}}"#
        );
        Preview::parse(json.as_bytes(), &Arc::default()).unwrap()
    }

    fn status(preview: &Preview, lines: &str, has_tls: bool, peer: &str, now: u64) -> Option<u16> {
        let head = RequestHead { field_lines: lines.as_bytes(), ..RequestHead::EMPTY };
        preview.refusal(&head, has_tls, Some(peer.parse().unwrap()), now).map(|page| page.status)
    }

    #[test]
    fn password_is_accepted_from_any_user_over_tls_only() {
        let preview = preview();
        // `me:horse staple`, and `:horse staple`
        for credentials in ["bWU6aG9yc2Ugc3RhcGxl", "OmhvcnNlIHN0YXBsZQ=="] {
            let lines = format!("Accept: */*\r\nauthorization:  bAsIc {credentials}\r\n");
            assert_eq!(status(&preview, &lines, true, "192.0.2.1:1", 0), None);
            assert_eq!(status(&preview, &lines, false, "192.0.2.1:1", 0), Some(403));
        }
        let wrong = [
            "",
            "Basic",
            "Basic ",
            "Basic bWU6aG9yc2U=",
            "Basic horse staple",
            "Bearer bWU6aG9yc2Ugc3RhcGxl",
        ];
        for value in wrong {
            let lines = format!("Authorization: {value}\r\n");
            assert_eq!(status(&preview, &lines, true, "192.0.2.1:1", 0), Some(401), "{value}");
        }
        assert!(!preview.has_ended(99) && preview.has_ended(100));
    }

    #[test]
    fn wrong_passwords_are_limited_for_each_address() {
        let preview = preview();
        let (wrong, right) =
            ("Authorization: Basic OmE=\r\n", "Authorization: Basic bWU6aG9yc2Ugc3RhcGxl\r\n");
        for _ in 0..WRONG_PASSWORDS_PER_MINUTE_MAX {
            assert_eq!(status(&preview, wrong, true, "[2001:db8::1]:1", 5), Some(401));
        }
        // Another address of the same network, with the right password.
        assert_eq!(status(&preview, right, true, "[2001:db8::2]:1", 5), Some(429));
        assert_eq!(status(&preview, "", true, "[2001:db8::2]:1", 5), Some(401));
        assert_eq!(status(&preview, right, true, "[2001:db8:0:1::2]:1", 5), None);
        assert_eq!(status(&preview, right, true, "[2001:db8::2]:1", 65), None);
    }
}
