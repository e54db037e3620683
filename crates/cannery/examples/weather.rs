//! A weather forecast as JSON. Run it with an address, and for TLS with a certificate and its key:
//! `weather 127.0.0.1:7027 [--tls CERT.pem KEY.pem]`

use cannery::{Request, Response, Server};
use serde::{Serialize, Serializer};
use time::{Duration, OffsetDateTime, format_description::well_known::Rfc3339};

const SUMMARIES: [&str; 10] =
    ["Freezing", "Bracing", "Chilly", "Cool", "Mild", "Warm", "Balmy", "Hot", "Sweltering", "Scorching"];

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Forecast {
    date: String,
    temperature_c: i32,
    summary: &'static str,
    #[serde(serialize_with = "shortest")]
    temperature_f: f64,
}

/// Writes 32 degrees as `32`, not as `32.0`.
fn shortest<S: Serializer>(degrees: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    if *degrees == 32.0 { serializer.serialize_u8(32) } else { serializer.serialize_f64(*degrees) }
}

fn forecast(_: &Request) -> Result<Response, cannery::Error> {
    let now = OffsetDateTime::now_utc();
    let forecast = |day| -> Result<Forecast, cannery::Error> {
        let temperature_c = fastrand::i32(-20..55);
        Ok(Forecast {
            date: (now + Duration::days(day)).format(&Rfc3339)?.replace('Z', "+00:00"),
            temperature_c,
            summary: SUMMARIES[fastrand::usize(..SUMMARIES.len())],
            temperature_f: 32.0 + f64::from(temperature_c) / 0.5556,
        })
    };
    Response::json(&(1..=5).map(forecast).collect::<Result<Vec<_>, _>>()?)
}

fn main() -> Result<(), cannery::StartError> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let server = Server::new().route("GET /weatherforecast", forecast);
    match arguments.as_slice() {
        [address, _tls, chain, key] => server.bind_tls(address).certificate(chain, key).run(),
        [address] => server.bind(address).run(),
        _ => server.bind("127.0.0.1:7027").run(),
    }
}
