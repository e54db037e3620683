//! Tests with known dates, invalid dates, and round trips.

use super::*;

fn date(seconds: u64) -> String {
    String::from_utf8(format_http_date(seconds).to_vec()).unwrap()
}

#[test]
fn known_times_are_formatted() {
    assert_eq!(date(0), "Thu, 01 Jan 1970 00:00:00 GMT");
    assert_eq!(date(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT");
    assert_eq!(date(951_782_400), "Tue, 29 Feb 2000 00:00:00 GMT");
    assert_eq!(date(4_102_444_799), "Thu, 31 Dec 2099 23:59:59 GMT");
    assert_eq!(date(4_107_542_400), "Mon, 01 Mar 2100 00:00:00 GMT");
}

const NOW: u64 = 1_763_700_000;

#[test]
fn all_three_formats_are_parsed() {
    for value in
        ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"]
    {
        assert_eq!(parse_http_date(value.as_bytes(), NOW), Some(784_111_777), "{value}");
    }
    assert_eq!(parse_http_date(b"Sat Nov 26 08:49:37 1994", NOW), Some(784_111_777 + 20 * 86_400));
    let leap_second = parse_http_date(b"Sat, 31 Dec 2016 23:59:60 GMT", NOW);
    assert_eq!(leap_second, parse_http_date(b"Sat, 31 Dec 2016 23:59:59 GMT", NOW));
}

#[test]
fn two_digit_year_is_at_most_50_years_ahead() {
    let year = |value: &str, now| {
        parse_http_date(value.as_bytes(), now).map(|seconds| format_http_date(seconds)[12..16].to_vec())
    };
    let in_2025 = 1_763_700_000;
    assert_eq!(year("Friday, 01-Jan-75 00:00:00 GMT", in_2025), Some(b"2075".to_vec()));
    assert_eq!(year("Friday, 01-Jan-76 00:00:00 GMT", in_2025), Some(b"1976".to_vec()));
    assert_eq!(year("Friday, 01-Jan-00 00:00:00 GMT", in_2025), Some(b"2000".to_vec()));
}

#[test]
fn invalid_dates_are_rejected() {
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
        assert_eq!(parse_http_date(value.as_bytes(), NOW), None, "{value:?}");
    }
}

#[test]
fn formatted_dates_are_parsed_back() {
    for seconds in (0..4_200_000_000u64).step_by(86_400 * 3 + 3601) {
        assert_eq!(parse_http_date(&format_http_date(seconds), NOW), Some(seconds));
    }
}

#[test]
fn days_of_400_years_follow_each_other() {
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970;
    let mut month = 0;
    let mut day = 1;

    for days in 0..400 * 366 {
        assert_eq!(Date::from_days(days), Date { year, month, day });
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
fn rfc3339_is_parsed_and_formatted_in_utc() {
    assert_eq!(parse_rfc3339(b"1994-11-06T08:49:37Z"), Some(784_111_777));
    assert_eq!(parse_rfc3339(b"2000-02-29"), Some(951_782_400));
    assert_eq!(format_rfc3339(784_111_777), *b"1994-11-06T08:49:37Z");
    assert_eq!(format_rfc3339(4_102_444_799), *b"2099-12-31T23:59:59Z");

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
        assert_eq!(parse_rfc3339(text.as_bytes()), None, "{text}");
    }
}
