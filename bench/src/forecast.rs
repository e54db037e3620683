//! Validates weather forecasts: five objects with fixed members and random values within their rules.
//!
//! A forecast is compared with the only text that its date, temperature and summary allow, so a member too many, another
//! order, white space or another rounding is an error.

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use time::format_description::well_known::Rfc3339;
use time::{Duration, OffsetDateTime};

const DAYS: usize = 5;

const SUMMARIES: [&str; 10] =
    ["Freezing", "Bracing", "Chilly", "Cool", "Mild", "Warm", "Balmy", "Hot", "Sweltering", "Scorching"];

/// The difference that the clocks of server and client may have.
const TOLERANCE: Duration = Duration::seconds(10);

#[derive(Deserialize)]
struct Day {
    date: String,
    #[serde(rename = "temperatureC")]
    celsius: i32,
    summary: String,
}

/// Checks a forecast that was received now.
pub(crate) fn check(content: &[u8]) -> Result<()> {
    check_at(content, OffsetDateTime::now_utc()).with_context(|| content.escape_ascii().to_string())
}

fn check_at(content: &[u8], now: OffsetDateTime) -> Result<()> {
    let days: Vec<Day> = serde_json::from_slice(content)?;
    ensure!(days.len() == DAYS, "{} days", days.len());
    let mut objects = Vec::new();
    for (number, Day { date, celsius, summary }) in (1..).zip(&days) {
        // With a fraction and a numeric offset. The parser also accepts other separators than T.
        let has_form = date.contains('T') && date.contains('.') && !date.ends_with(['Z', 'z']);
        ensure!(has_form, "date {date}");
        let distance = OffsetDateTime::parse(date, &Rfc3339)? - now - Duration::days(number);
        ensure!(distance.abs() <= TOLERANCE, "{date} is {distance} away from day {number}");
        ensure!(SUMMARIES.contains(&summary.as_str()), "summary {summary}");
        ensure!((-20..55).contains(celsius), "{celsius} degrees");
        let fahrenheit = 32.0 + f64::from(*celsius) / 0.5556;
        objects.push(format!(
            r#"{{"date":"{date}","temperatureC":{celsius},"summary":"{summary}","temperatureF":{fahrenheit}}}"#
        ));
    }
    let expected = format!("[{}]", objects.join(","));
    ensure!(content == expected.as_bytes(), "{expected} expected");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A forecast with the vectors of the workload.
    const FORECAST: &str = concat!(
        r#"[{"date":"2026-11-23T10:00:00.5+00:00","temperatureC":16,"summary":"Mild","temperatureF":60.79769618430525},"#,
        r#"{"date":"2026-11-24T11:00:01.123456789+01:00","temperatureC":-20,"summary":"Cool","temperatureF":-3.9971202303815687},"#,
        r#"{"date":"2026-11-25T03:30:00.0-06:30","temperatureC":0,"summary":"Hot","temperatureF":32},"#,
        r#"{"date":"2026-11-26T10:00:00.0000000+00:00","temperatureC":39,"summary":"Scorching","temperatureF":102.19438444924407},"#,
        r#"{"date":"2026-11-27T09:59:59.9+00:00","temperatureC":2,"summary":"Chilly","temperatureF":35.59971202303816}]"#,
    );

    fn check_with(right: &str, wrong: &str) -> Result<()> {
        let now = OffsetDateTime::parse("2026-11-22T10:00:00Z", &Rfc3339)?;
        check_at(FORECAST.replacen(right, wrong, 1).as_bytes(), now)
    }

    #[test]
    fn a_forecast_is_compared_with_its_rules() {
        check_with("", "").unwrap();
        for (right, wrong) in [
            ("\"Mild\"", "\"Fine\""),
            ("\"Mild\"", "\"Mild\",\"more\":1"),
            ("\"temperatureC\":16", "\"temperatureC\":17"),
            ("\"temperatureC\":0,\"summary\":\"Hot\"", "\"summary\":\"Hot\",\"temperatureC\":0"),
            (":32}", ":32.0}"),
            ("},{", "}, {"),
            ("10:00:00.5", "10:01:00.5"),
            ("5+00:00", "5Z"),
            ("00.5+00:00", "00+00:00"),
            ("-23T", "-23 "),
            ("]", "]\n"),
            ("[", ""),
            (FORECAST, "[]"),
        ] {
            check_with(right, wrong).expect_err(wrong);
        }
    }
}
