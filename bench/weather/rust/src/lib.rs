//! The weather forecast, for each of the libraries.

#![forbid(unsafe_code)]

use chrono::{DateTime, Days, Local};
use rand::seq::IndexedRandom;
use serde::{Serialize, Serializer};

const SUMMARIES: [&str; 10] =
    ["Freezing", "Bracing", "Chilly", "Cool", "Mild", "Warm", "Balmy", "Hot", "Sweltering", "Scorching"];

/// The forecast of one day.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Forecast {
    #[serde(serialize_with = "with_offset")]
    date: DateTime<Local>,
    temperature_c: i32,
    summary: &'static str,
    #[serde(serialize_with = "shortest")]
    temperature_f: f64,
}

/// Returns the forecast of the next five days.
pub fn forecasts() -> Vec<Forecast> {
    let now = Local::now();
    let mut random = rand::rng();
    (1..=5)
        .map(|day| {
            let temperature_c = rand::random_range(-20..=54);
            Forecast {
                date: now + Days::new(day),
                temperature_c,
                summary: SUMMARIES.choose(&mut random).expect("there are summaries"),
                temperature_f: 32.0 + f64::from(temperature_c) / 0.5556,
            }
        })
        .collect()
}

/// Writes the offset of UTC as `+00:00`; chrono's serde would write `Z`.
fn with_offset<S: Serializer>(date: &DateTime<Local>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&date.to_rfc3339())
}

/// Writes 32 degrees as `32`; serde would write `32.0`.
fn shortest<S: Serializer>(degrees: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    if degrees.fract() == 0.0 {
        serializer.serialize_i64(*degrees as i64)
    } else {
        serializer.serialize_f64(*degrees)
    }
}
