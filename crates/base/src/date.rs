//! HTTP dates (RFC 9110 §5.6.7) and RFC 3339 timestamps in UTC.
//!
//! Times are in seconds since 1970-01-01 00:00:00 UTC, without leap seconds. This module never reads the clock. However, callers
//! need to pass in the current time for the obsolete date format that lacks the century.
//!
//! Both parsing and formatting happen on the request path, so we do it ourselves: these functions do not allocate, and they
//! interpret two-digit years like the RFC requires.

/// Length of an IMF-fixdate in bytes: `Sun, 06 Nov 1994 08:49:37 GMT`.
pub const HTTP_DATE_BYTES: usize = 29;

const SECONDS_PER_DAY: u64 = 86_400;

/// Names of the days. It starts with the day of 1970-01-01.
const DAYS: [&[u8; 3]; 7] = [b"Thu", b"Fri", b"Sat", b"Sun", b"Mon", b"Tue", b"Wed"];
const LONG_DAYS: [&[u8]; 7] =
    [b"Thursday", b"Friday", b"Saturday", b"Sunday", b"Monday", b"Tuesday", b"Wednesday"];
const MONTHS: [&[u8; 3]; 12] =
    [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];

/// Formats a time as an IMF-fixdate, e.g. `Sun, 06 Nov 1994 08:49:37 GMT`. The result is correct up to the year 9999.
#[must_use]
pub fn format_http_date(seconds: u64) -> [u8; HTTP_DATE_BYTES] {
    let days = seconds / SECONDS_PER_DAY;
    let second = seconds % SECONDS_PER_DAY;
    let Date { year, month, day } = Date::from_days(days);

    let mut out = *b"Thu, 01 Jan 1970 00:00:00 GMT";
    out[..3].copy_from_slice(DAYS[(days % 7) as usize]);
    out[5..7].copy_from_slice(&two_digits(day));
    out[8..11].copy_from_slice(MONTHS[month]);
    out[12..14].copy_from_slice(&two_digits(year / 100));
    out[14..16].copy_from_slice(&two_digits(year % 100));
    out[17..19].copy_from_slice(&two_digits(second / 3600));
    out[20..22].copy_from_slice(&two_digits(second / 60 % 60));
    out[23..25].copy_from_slice(&two_digits(second % 60));
    out
}

/// Formats a time as an RFC 3339 timestamp: `1994-11-06T08:49:37Z`. Correct up to the year 9999.
#[must_use]
pub fn format_rfc3339(seconds: u64) -> [u8; 20] {
    let Date { year, month, day } = Date::from_days(seconds / SECONDS_PER_DAY);
    let second = seconds % SECONDS_PER_DAY;

    let mut out = *b"1970-01-01T00:00:00Z";
    let parts = [year / 100, year % 100, month as u64 + 1, day, second / 3600, second / 60 % 60, second % 60];
    for (part, at) in parts.into_iter().zip([0, 2, 5, 8, 11, 14, 17]) {
        out[at..at + 2].copy_from_slice(&two_digits(part));
    }
    out
}

/// Parses a date in any of the three formats of RFC 9110 §5.6.7.
///
/// A year with two digits is taken to be as late as possible, but at most 50 years after `now`.
///
/// Returns `None` if `value` has none of the three formats, if the day does not exist, or if it is before 1970.
#[must_use]
pub fn parse_http_date(value: &[u8], now: u64) -> Option<u64> {
    let comma = value.iter().position(|byte| *byte == b',');
    match comma {
        Some(3) => parse_imf_fixdate(value),
        Some(_) => parse_rfc850(value, now),
        None => parse_asctime(value),
    }
}

/// Parses `1994-11-06T08:49:37Z`, or `1994-11-06`, which means the start of this day (RFC 3339 §5.6, UTC only).
///
/// Returns `None` for any other text, for days that do not exist, and for those before 1970.
#[must_use]
pub fn parse_rfc3339(value: &[u8]) -> Option<u64> {
    let (date, time) = value.split_at_checked(10)?;
    let &[y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2] = date else { return None };
    let second = match time {
        [] => 0,
        [b'T', time @ .., b'Z'] => parse_time(time)?,
        _ => return None,
    };

    let month = usize::try_from(number(&[m1, m2])?).ok()?.checked_sub(1)?;
    (month < MONTHS.len()).then_some(())?;
    Date { year: number(&[y1, y2, y3, y4])?, month, day: number(&[d1, d2])? }.seconds(second)
}

/// Parses `Sun, 06 Nov 1994 08:49:37 GMT`.
fn parse_imf_fixdate(value: &[u8]) -> Option<u64> {
    let value: &[u8; HTTP_DATE_BYTES] = value.try_into().ok()?;
    let [w1, w2, w3, b',', b' ', date @ .., b' ', b'G', b'M', b'T'] = value else { return None };
    let [d1, d2, b' ', m1, m2, m3, b' ', y1, y2, y3, y4, b' ', time @ ..] = date else { return None };
    is_short_day(&[*w1, *w2, *w3]).then_some(())?;

    let year = number(&[*y1, *y2, *y3, *y4])?;
    let month = month(&[*m1, *m2, *m3])?;
    let day = number(&[*d1, *d2])?;
    Date { year, month, day }.seconds(parse_time(time)?)
}

/// Parses the obsolete RFC 850 format, `Sunday, 06-Nov-94 08:49:37 GMT`.
fn parse_rfc850(value: &[u8], now: u64) -> Option<u64> {
    let comma = value.iter().position(|byte| *byte == b',')?;
    let [b',', b' ', date @ .., b' ', b'G', b'M', b'T'] = &value[comma..] else { return None };
    let [d1, d2, b'-', m1, m2, m3, b'-', y1, y2, b' ', time @ ..] = date else { return None };
    LONG_DAYS.contains(&&value[..comma]).then_some(())?;

    let this_year = Date::from_days(now / SECONDS_PER_DAY).year;
    let in_this_century = this_year - this_year % 100 + number(&[*y1, *y2])?;
    let year = if in_this_century > this_year + 50 { in_this_century - 100 } else { in_this_century };
    let month = month(&[*m1, *m2, *m3])?;
    let day = number(&[*d1, *d2])?;
    Date { year, month, day }.seconds(parse_time(time)?)
}

/// Parses the obsolete format of C's `asctime`, `Sun Nov  6 08:49:37 1994`.
fn parse_asctime(value: &[u8]) -> Option<u64> {
    let value: &[u8; 24] = value.try_into().ok()?;
    let [w1, w2, w3, b' ', m1, m2, m3, b' ', d1, d2, b' ', rest @ ..] = value else { return None };
    let [time @ .., b' ', y1, y2, y3, y4] = rest else { return None };
    is_short_day(&[*w1, *w2, *w3]).then_some(())?;

    let year = number(&[*y1, *y2, *y3, *y4])?;
    let month = month(&[*m1, *m2, *m3])?;
    let day = number(&[if *d1 == b' ' { b'0' } else { *d1 }, *d2])?;
    Date { year, month, day }.seconds(parse_time(time)?)
}

/// Parses `08:49:37` and returns seconds since midnight. A leap second counts as the second before it.
fn parse_time(time: &[u8]) -> Option<u64> {
    let [h1, h2, b':', m1, m2, b':', s1, s2] = time else { return None };
    let hour = number(&[*h1, *h2])?;
    let minute = number(&[*m1, *m2])?;
    let second = number(&[*s1, *s2])?;
    let is_valid = hour < 24 && minute < 60 && second <= 60;
    is_valid.then(|| hour * 3600 + minute * 60 + second.min(59))
}

fn is_short_day(name: &[u8; 3]) -> bool {
    DAYS.contains(&name)
}

/// Returns the index of a month, starting with 0.
fn month(name: &[u8; 3]) -> Option<usize> {
    MONTHS.iter().position(|known| *known == name)
}

fn number(digits: &[u8]) -> Option<u64> {
    digits
        .iter()
        .try_fold(0, |number, digit| digit.is_ascii_digit().then(|| number * 10 + u64::from(digit - b'0')))
}

fn two_digits(number: u64) -> [u8; 2] {
    let digit = |number: u64| b'0' + (number % 10) as u8;
    [digit(number / 10), digit(number)]
}

/// A day in the proleptic Gregorian calendar.
///
/// To convert days, we use Howard Hinnant's `days_from_civil` and `civil_from_days`. They count in eras of 400 years (all of them
/// have the same number of days). Years begin in March, so that the leap day is the last day of the year.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Date {
    year: u64,
    /// Starts at 0 for January.
    month: usize,
    /// Starts at 1.
    day: u64,
}

/// Days from 0000-03-01 to 1970-01-01.
const EPOCH_DAYS: u64 = 719_468;
/// Days in 400 years.
const DAYS_PER_ERA: u64 = 146_097;

impl Date {
    /// Converts from days since 1970-01-01.
    fn from_days(days: u64) -> Date {
        let days = days + EPOCH_DAYS;
        let era = days / DAYS_PER_ERA;
        let day_of_era = days % DAYS_PER_ERA;
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;

        let year = era * 400 + year_of_era + u64::from(month_from_march >= 10);
        let month = ((month_from_march + 2) % 12) as usize;
        let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        Date { year, month, day }
    }

    /// Returns the time that is `second` seconds after midnight.
    ///
    /// Returns `None` if the day does not exist, or if it is before 1970.
    fn seconds(self, second: u64) -> Option<u64> {
        let Date { year, month, day } = self;
        if year < 1970 || !(1..=31).contains(&day) {
            return None;
        }

        let month_from_march = (month as u64 + 10) % 12;
        let year_from_march = year - u64::from(month < 2);
        let era = year_from_march / 400;
        let year_of_era = year_from_march % 400;
        let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
        let days = era * DAYS_PER_ERA + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        let days = days.checked_sub(EPOCH_DAYS)?;

        // If the day does not exist (e.g. February 30), it will convert back to a different date.
        (Date::from_days(days) == self).then(|| days * SECONDS_PER_DAY + second)
    }
}

#[cfg(test)]
mod tests;
