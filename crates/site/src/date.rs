//! HTTP dates (RFC 9110 §5.6.7): seconds to the 29 bytes of an IMF-fixdate, and all three forms to seconds;
//! beside them the form of command lines and logs (RFC 3339).
//!
//! Never reads the clock: the one form that hides its century is told the time.

/// Bytes of an IMF-fixdate: `Sun, 06 Nov 1994 08:49:37 GMT`.
pub const DATE_BYTES: usize = 29;

const DAYS: [&[u8; 3]; 7] = [b"Thu", b"Fri", b"Sat", b"Sun", b"Mon", b"Tue", b"Wed"];
const MONTHS: [&[u8; 3]; 12] =
    [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];

/// Spells the time that is so many seconds after 1970-01-01 00:00:00 UTC. Right up to the year 9999.
#[must_use]
pub fn spell_date(seconds: u64) -> [u8; DATE_BYTES] {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
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

/// Spells the same time for people and logs: `1994-11-06T08:49:37Z` (RFC 3339). Right up to the year 9999.
#[must_use]
pub fn spell_utc(seconds: u64) -> [u8; 20] {
    let (year, month, day) = civil(seconds / 86_400);
    let second = seconds % 86_400;
    let mut out = *b"1970-01-01T00:00:00Z";
    let parts = [year / 100, year % 100, month as u64 + 1, day, second / 3600, second / 60 % 60, second % 60];
    for (part, at) in parts.into_iter().zip([0, 2, 5, 8, 11, 14, 17]) {
        out[at..at + 2].copy_from_slice(&two_digits(part));
    }
    out
}

/// The seconds after 1970-01-01 00:00:00 UTC that a date stands for, in any of the three forms. Nothing if it
/// has none of them, names a day that there is not, or lies before 1970.
///
/// A year of two digits means the latest one that is not more than 50 years ahead of `now`.
#[must_use]
pub fn parse_date(value: &[u8], now: u64) -> Option<u64> {
    let comma = value.iter().position(|byte| *byte == b',');
    match comma {
        Some(3) => parse_imf_fixdate(value),
        Some(_) => parse_rfc850(value, now),
        None => parse_asctime(value),
    }
}

/// The seconds after 1970-01-01 00:00:00 UTC that `1994-11-06T08:49:37Z` stands for, or `1994-11-06`, which is
/// the first second of that day (RFC 3339 §5.6, in UTC alone). Nothing for any other text.
#[must_use]
pub fn parse_utc(value: &[u8]) -> Option<u64> {
    let (date, time) = value.split_at_checked(10)?;
    let &[y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2] = date else { return None };
    let second = match time {
        [] => 0,
        [b'T', time @ .., b'Z'] => parse_time(time)?,
        _ => return None,
    };
    let month = usize::try_from(number(&[m1, m2])?).ok()?.checked_sub(1)?;
    (month < 12).then_some(())?;
    seconds(number(&[y1, y2, y3, y4])?, month, number(&[d1, d2])?, second)
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`.
fn parse_imf_fixdate(value: &[u8]) -> Option<u64> {
    let value: &[u8; DATE_BYTES] = value.try_into().ok()?;
    let [d, a, y, b',', b' ', date @ .., b' ', b'G', b'M', b'T'] = value else { return None };
    is_short_day(&[*d, *a, *y]).then_some(())?;
    let [d1, d2, b' ', m1, m2, m3, b' ', y1, y2, y3, y4, b' ', time @ ..] = date else { return None };
    let year = number(&[*y1, *y2, *y3, *y4])?;
    seconds(year, month(&[*m1, *m2, *m3])?, number(&[*d1, *d2])?, parse_time(time)?)
}

/// `Sunday, 06-Nov-94 08:49:37 GMT`.
fn parse_rfc850(value: &[u8], now: u64) -> Option<u64> {
    const NAMES: [&[u8]; 7] =
        [b"Monday", b"Tuesday", b"Wednesday", b"Thursday", b"Friday", b"Saturday", b"Sunday"];
    let comma = value.iter().position(|byte| *byte == b',')?;
    NAMES.contains(&&value[..comma]).then_some(())?;
    let [b',', b' ', date @ .., b' ', b'G', b'M', b'T'] = &value[comma..] else { return None };
    let [d1, d2, b'-', m1, m2, m3, b'-', y1, y2, b' ', time @ ..] = date else { return None };
    let (this_year, ..) = civil(now / 86_400);
    let of_this_century = this_year - this_year % 100 + number(&[*y1, *y2])?;
    let year = if of_this_century > this_year + 50 { of_this_century - 100 } else { of_this_century };
    seconds(year, month(&[*m1, *m2, *m3])?, number(&[*d1, *d2])?, parse_time(time)?)
}

/// `Sun Nov  6 08:49:37 1994`.
fn parse_asctime(value: &[u8]) -> Option<u64> {
    let value: &[u8; 24] = value.try_into().ok()?;
    let [d, a, y, b' ', m1, m2, m3, b' ', d1, d2, b' ', rest @ ..] = value else { return None };
    is_short_day(&[*d, *a, *y]).then_some(())?;
    let [time @ .., b' ', y1, y2, y3, y4] = rest else { return None };
    let day = number(&[if *d1 == b' ' { b'0' } else { *d1 }, *d2])?;
    seconds(number(&[*y1, *y2, *y3, *y4])?, month(&[*m1, *m2, *m3])?, day, parse_time(time)?)
}

/// `08:49:37` as seconds of the day. A leap second counts as the one before.
fn parse_time(time: &[u8]) -> Option<u64> {
    let [h1, h2, b':', m1, m2, b':', s1, s2] = time else { return None };
    let (hour, minute, second) = (number(&[*h1, *h2])?, number(&[*m1, *m2])?, number(&[*s1, *s2])?);
    let is_time = hour < 24 && minute < 60 && second <= 60;
    is_time.then(|| hour * 3600 + minute * 60 + second.min(59))
}

fn is_short_day(name: &[u8; 3]) -> bool {
    DAYS.contains(&name)
}

/// The month of a name, from 0.
fn month(name: &[u8; 3]) -> Option<usize> {
    MONTHS.iter().position(|known| *known == name)
}

fn number(digits: &[u8]) -> Option<u64> {
    digits
        .iter()
        .try_fold(0, |number, digit| digit.is_ascii_digit().then(|| number * 10 + u64::from(digit - b'0')))
}

/// The seconds of a day in the Gregorian calendar and of a time of that day.
fn seconds(year: u64, month: usize, day: u64, second: u64) -> Option<u64> {
    if year < 1970 || !(1..=31).contains(&day) {
        return None;
    }
    // Counted in years that begin in March, as in `civil`.
    let from_march = (month as u64 + 10) % 12;
    let year_from_march = year - u64::from(month < 2);
    let (era, year_of_era) = (year_from_march / 400, year_from_march % 400);
    let day_of_year = (153 * from_march + 2) / 5 + day - 1;
    let days = era * ERA_DAYS + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    let days = days.checked_sub(DAYS_FROM_MARCH_0000)?;
    // A day that there is not, such as the 30th of February, comes back as another one.
    (civil(days) == (year, month, day)).then(|| days * 86_400 + second)
}

/// Days from the first of March of the year 0 to 1970-01-01.
const DAYS_FROM_MARCH_0000: u64 = 719_468;
/// Days of 400 years.
const ERA_DAYS: u64 = 146_097;

/// Year, month from 0 and day of the month of a day counted from 1970-01-01, in the Gregorian calendar.
///
/// Counts in eras of 400 years, which all have the same number of days, and in years that begin in
/// March, so that the leap day is the last one.
fn civil(days: u64) -> (u64, usize, u64) {
    let days = days + DAYS_FROM_MARCH_0000;
    let (era, day_of_era) = (days / ERA_DAYS, days % ERA_DAYS);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let year = era * 400 + year_of_era + u64::from(month_from_march >= 10);
    let month = usize::try_from((month_from_march + 2) % 12).unwrap_or(0);
    (year, month, day)
}

fn two_digits(number: u64) -> [u8; 2] {
    let digit = |number: u64| b'0' + (number % 10) as u8;
    [digit(number / 10), digit(number)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn date(seconds: u64) -> String {
        String::from_utf8(spell_date(seconds).to_vec()).unwrap()
    }

    #[test]
    fn known_dates() {
        assert_eq!(date(0), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(date(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(date(951_782_400), "Tue, 29 Feb 2000 00:00:00 GMT");
        assert_eq!(date(4_102_444_799), "Thu, 31 Dec 2099 23:59:59 GMT");
        assert_eq!(date(4_107_542_400), "Mon, 01 Mar 2100 00:00:00 GMT");
    }

    const NOW: u64 = 1_763_700_000;

    #[test]
    fn the_three_forms_mean_the_same() {
        for value in
            ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"]
        {
            assert_eq!(parse_date(value.as_bytes(), NOW), Some(784_111_777), "{value}");
        }
        assert_eq!(parse_date(b"Sat Nov 26 08:49:37 1994", NOW), Some(784_111_777 + 20 * 86_400));
        let leap_second = parse_date(b"Sat, 31 Dec 2016 23:59:60 GMT", NOW);
        assert_eq!(leap_second, parse_date(b"Sat, 31 Dec 2016 23:59:59 GMT", NOW));
    }

    #[test]
    fn two_digits_of_a_year_are_at_most_fifty_years_ahead() {
        let year = |value: &str, now| {
            parse_date(value.as_bytes(), now).map(|seconds| spell_date(seconds)[12..16].to_vec())
        };
        let in_2025 = 1_763_700_000;
        assert_eq!(year("Friday, 01-Jan-75 00:00:00 GMT", in_2025), Some(b"2075".to_vec()));
        assert_eq!(year("Friday, 01-Jan-76 00:00:00 GMT", in_2025), Some(b"1976".to_vec()));
        assert_eq!(year("Friday, 01-Jan-00 00:00:00 GMT", in_2025), Some(b"2000".to_vec()));
    }

    #[test]
    fn what_is_no_date_is_none() {
        for value in [
            "",
            "0",
            "Sun, 06 Nov 1994 08:49:37",
            "Sun, 06 Nov 1994 08:49:37 UTC",
            "Sun, 06 Nov 1994 08:49:37 +0000",
            "sun, 06 nov 1994 08:49:37 gmt",
            "Sun, 6 Nov 1994 08:49:37 GMT",
            "Sun, 31 Feb 1994 08:49:37 GMT",
            "Sun, 29 Feb 1900 08:49:37 GMT",
            "Sun, 00 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 24:00:00 GMT",
            "Sun, 06 Nov 1994 08:60:00 GMT",
            "Sun, 06 Nov 1969 08:49:37 GMT",
            "Sunday, 06-Nov-1994 08:49:37 GMT",
            "Sun, 06-Nov-94 08:49:37 GMT",
            "Sun Nov 6 08:49:37 1994",
            "784111777",
        ] {
            assert_eq!(parse_date(value.as_bytes(), NOW), None, "{value:?}");
        }
    }

    #[test]
    fn every_date_that_is_spelled_is_read_back() {
        for seconds in (0..4_200_000_000u64).step_by(86_400 * 3 + 3601) {
            assert_eq!(parse_date(&spell_date(seconds), NOW), Some(seconds));
        }
    }

    #[test]
    fn every_day_follows_the_one_before() {
        let leap =
            |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
        let (mut year, mut month, mut day) = (1970, 0, 1);
        for days in 0..400 * 366 {
            assert_eq!(civil(days), (year, month, day));
            let length = match month {
                1 if leap(year) => 29,
                1 => 28,
                3 | 5 | 8 | 10 => 30,
                _ => 31,
            };
            day += 1;
            if day > length {
                (day, month) = (1, month + 1);
            }
            if month == 12 {
                (month, year) = (0, year + 1);
            }
        }
    }

    #[test]
    fn a_date_of_a_command_line_is_in_utc() {
        assert_eq!(parse_utc(b"1994-11-06T08:49:37Z"), Some(784_111_777));
        assert_eq!(parse_utc(b"2000-02-29"), Some(951_782_400));
        assert_eq!(spell_utc(784_111_777), *b"1994-11-06T08:49:37Z");
        assert_eq!(spell_utc(4_102_444_799), *b"2099-12-31T23:59:59Z");
        for text in [
            "",
            "1994",
            "1994-11-6",
            "1994-13-01",
            "1994-00-01",
            "1994-02-30",
            "1969-12-31",
            "1994-11-06T",
            "1994-11-06T08:49:37",
            "1994-11-06T08:49:37+01:00",
            "1994-11-06 08:49:37Z",
            "1994-11-06T25:00:00Z",
            "1994-11-06Z",
            "94-11-06",
        ] {
            assert_eq!(parse_utc(text.as_bytes()), None, "{text}");
        }
    }
}
