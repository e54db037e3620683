//! The little of DER (ITU-T X.690) that is read here: elements one behind the other, and times.
//!
//! Knows no certificate and no response. Never panics on any bytes: what is not understood is `None`.

pub(crate) const INTEGER: u8 = 0x02;
pub(crate) const OCTET_STRING: u8 = 0x04;
pub(crate) const OBJECT_IDENTIFIER: u8 = 0x06;
pub(crate) const ENUMERATED: u8 = 0x0a;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
pub(crate) const SEQUENCE: u8 = 0x30;

/// An element that is told from others by its number, and that holds elements.
pub(crate) const fn tagged(number: u8) -> u8 {
    0xa0 | number
}

/// The content of the element at the start of `bytes`, if it has this tag, and what follows it.
pub(crate) fn element(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&first, rest) = bytes.split_first()?;
    let (&length, rest) = rest.split_first()?;
    let (length, rest) = match length {
        0..=0x7f => (usize::from(length), rest),
        0x81..=0x83 => {
            let (digits, rest) = rest.split_at_checked(usize::from(length & 0x7f))?;
            (digits.iter().fold(0, |length, &digit| length << 8 | usize::from(digit)), rest)
        }
        _ => return None,
    };
    (first == tag).then_some(())?;
    rest.split_at_checked(length)
}

/// A time in either of the two forms of RFC 5280 §4.1.2.5, and what follows it.
pub(crate) fn time(bytes: &[u8]) -> Option<(i64, &[u8])> {
    if let Some((text, rest)) = element(bytes, UTC_TIME) {
        // Two digits of a year stand for 1950 to 2049.
        let year = number(text.get(..2)?)?;
        let year = if year < 50 { 2000 + year } else { 1900 + year };
        return Some((seconds(year, text.get(2..)?)?, rest));
    }
    let (text, rest) = element(bytes, GENERALIZED_TIME)?;
    Some((seconds(number(text.get(..4)?)?, text.get(4..)?)?, rest))
}

/// Seconds since 1970 of a year and `MMDDHHMMSSZ`.
fn seconds(year: i64, text: &[u8]) -> Option<i64> {
    let (digits, zone) = text.split_at_checked(10)?;
    let mut parts = digits.chunks(2).map(number);
    let mut next = |range: std::ops::RangeInclusive<i64>| parts.next()?.filter(|part| range.contains(part));
    let (month, day) = (next(1..=12)?, next(1..=31)?);
    let (hour, minute, second) = (next(0..=23)?, next(0..=59)?, next(0..=60)?);
    (zone == b"Z").then_some(days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second)
}

/// Days from 1970 to a date of the Gregorian calendar. Years are counted from March, which puts the day that comes and
/// goes at the end, so that the days before a month are a straight line.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month > 2 { year } else { year - 1 };
    let month = (month + 9) % 12;
    let leap_days = year / 4 - year / 100 + year / 400;
    365 * year + leap_days + (153 * month + 2) / 5 + day - 1 - 719_468
}

fn number(digits: &[u8]) -> Option<i64> {
    std::str::from_utf8(digits).ok()?.parse().ok().filter(|_| digits.iter().all(u8::is_ascii_digit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_counted_as_the_calendar_does() {
        for (text, expected) in [
            (&b"\x17\x0d700101000000Z"[..], 0),
            (b"\x17\x0d991231235959Z", 946_684_799),
            (b"\x17\x0d000301000000Z", 951_868_800),
            (b"\x18\x0f20240229120000Z", 1_709_208_000),
            (b"\x18\x0f20500101000000Z", 2_524_608_000),
            (b"\x17\x0d500101000000Z", -631_152_000),
        ] {
            let (seconds, rest) = time(text).unwrap();
            assert_eq!((seconds, rest.len()), (expected, 0), "{}", text.escape_ascii());
        }
    }

    #[test]
    fn what_is_no_date_is_none() {
        for text in [
            &b"\x17\x0d701301000000Z"[..],
            b"\x17\x0d700101000000+",
            b"\x17\x0d7001010000",
            b"\x17\x0d70010100000-Z",
            b"\x17\x05+1+1Z",
            b"\x18\x03202",
            b"",
        ] {
            assert_eq!(time(text), None, "{}", text.escape_ascii());
        }
    }
}
