//! The authority's advice about when to renew a certificate (ARI, RFC 9773).
//!
//! The request has no signature, so it needs no account.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use cannery_base::date::parse_rfc3339;
use serde::Deserialize;

use crate::certificate::RenewalId;
use crate::clock::Timestamp;
use crate::error::Error;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RenewalInfo {
    suggested_window: SuggestedWindow,
}

#[derive(Deserialize)]
struct SuggestedWindow {
    start: String,
    end: String,
}

/// Returns the URL of a certificate's renewal information (RFC 9773 §4.1).
pub(super) fn url(resource: &str, id: &RenewalId) -> String {
    let encode = |bytes: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(bytes);
    format!("{resource}/{}.{}", encode(&id.authority_key_identifier), encode(&id.serial))
}

/// Parses the window of a response.
///
/// # Errors
/// Returns an error if there is none, or if it ends before it starts, which RFC 9773 §4.2 forbids.
pub(super) fn parse(response: &[u8]) -> Result<(Timestamp, Timestamp), Error> {
    let senseless = |why: &str| Error::Senseless { why: format!("its renewal information {why}") };
    let info: RenewalInfo = serde_json::from_slice(response).map_err(|_| senseless("has no window"))?;
    let SuggestedWindow { start, end } = info.suggested_window;
    let (Some(start), Some(end)) = (parse_time(&start), parse_time(&end)) else {
        return Err(senseless("has times that aren't those of RFC 3339"));
    };
    if end <= start {
        return Err(senseless("ends before it starts"));
    }
    Ok((start, end))
}

/// Parses a time with any offset, and without fractions of a second.
fn parse_time(text: &str) -> Option<Timestamp> {
    let (date_and_time, rest) = text.split_at_checked(19)?;
    let since_1970 = parse_rfc3339(format!("{date_and_time}Z").as_bytes())?;
    let digits = |byte: char| byte.is_ascii_digit();
    let offset = rest.strip_prefix('.').map_or(rest, |fraction| fraction.trim_start_matches(digits));
    if matches!(offset, "Z" | "z") {
        return Some(Timestamp(since_1970));
    }

    let (sign, hours_and_minutes) = offset.split_at_checked(1)?;
    let (hours, minutes) = hours_and_minutes.split_once(':')?;
    let (hours, minutes): (u64, u64) = (hours.parse().ok()?, minutes.parse().ok()?);
    if hours > 23 || minutes > 59 {
        return None;
    }
    let seconds = hours * 3600 + minutes * 60;
    match sign {
        "+" => since_1970.checked_sub(seconds).map(Timestamp),
        "-" => since_1970.checked_add(seconds).map(Timestamp),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_is_that_of_the_specification() {
        // RFC 9773 appendix A.
        let authority_key_identifier = [
            0x69, 0x88, 0x5b, 0x6b, 0x87, 0x46, 0x40, 0x41, 0xe1, 0xb3, 0x7b, 0x84, 0x7b, 0xa0, 0xae, 0x2c,
            0xde, 0x01, 0xc8, 0xd4,
        ];
        let id = RenewalId {
            authority_key_identifier: authority_key_identifier.to_vec(),
            serial: vec![0x00, 0x87, 0x65, 0x43, 0x21],
        };
        assert_eq!(
            url("https://ca.example/ari", &id),
            "https://ca.example/ari/aYhba4dGQEHhs3uEe6CuLN4ByNQ.AIdlQyE"
        );
    }

    #[test]
    fn window_is_parsed() {
        let parse = |start: &str, end: &str| {
            parse(format!(r#"{{"suggestedWindow":{{"start":"{start}","end":"{end}"}}}}"#).as_bytes())
        };
        let window = parse("2025-01-02T04:00:00Z", "2025-01-03T04:00:00.123456789Z").unwrap();
        assert_eq!((window.0.0, window.1.0), (1_735_790_400, 1_735_876_800));
        let window = parse("2025-01-02T05:30:00+01:30", "2025-01-02T23:00:00-05:00").unwrap();
        assert_eq!((window.0.0, window.1.0), (1_735_790_400, 1_735_876_800));
        for (start, end) in [
            ("2025-01-03T04:00:00Z", "2025-01-02T04:00:00Z"),
            ("2025-01-02", "2025-01-03"),
            ("", ""),
            ("2025-01-02T04:00:00", "2025-01-03T04:00:00"),
            ("2025-01-02T04:00:00ä1:00", "2025-01-03T04:00:00+99999999999999999999:00"),
        ] {
            assert!(parse(start, end).is_err(), "{start} {end}");
        }
        assert!(super::parse(b"{}").is_err());
        assert!(super::parse(b"").is_err());
    }
}
