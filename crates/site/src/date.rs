//! HTTP dates (RFC 9110 §5.6.7): seconds to the 29 bytes of an IMF-fixdate.
//!
//! Never reads the clock.

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

/// Year, month from 0 and day of the month of a day counted from 1970-01-01, in the Gregorian calendar.
///
/// Counts in eras of 400 years, which all have the same number of days, and in years that begin in
/// March, so that the leap day is the last one.
fn civil(days: u64) -> (u64, usize, u64) {
    const DAYS_FROM_MARCH_0000: u64 = 719_468;
    const ERA_DAYS: u64 = 146_097;
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
}
