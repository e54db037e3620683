//! A weather forecast as JSON: `weather [ADDRESS:PORT]`, or with TLS `weather ADDRESS:PORT --tls CERT.pem KEY.pem`.

use cannery::{HandlerError, Request, Response, Server, StartError};
use serde::{Serialize, Serializer};
use time::{Duration, OffsetDateTime, format_description::well_known::Rfc3339};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Forecast {
    date: String,
    temperature_c: i32,
    summary: &'static str,
    #[serde(serialize_with = "without_zero_fraction")]
    temperature_f: f64,
}

fn without_zero_fraction<S: Serializer>(degrees: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    if *degrees == 32.0 { serializer.serialize_u8(32) } else { serializer.serialize_f64(*degrees) }
}

fn forecasts(_: &Request) -> Result<Response, HandlerError> {
    const SUMMARIES: [&str; 10] =
        ["Freezing", "Bracing", "Chilly", "Cool", "Mild", "Warm", "Balmy", "Hot", "Sweltering", "Scorching"];
    let now = OffsetDateTime::now_utc();
    let forecast = |day| -> Result<_, HandlerError> {
        let date = (now + Duration::days(day)).format(&Rfc3339)?.replace('Z', "+00:00");
        let temperature_c = fastrand::i32(-20..55);
        let temperature_f = 32.0 + f64::from(temperature_c) / 0.5556;
        Ok(Forecast { date, temperature_c, summary: SUMMARIES[fastrand::usize(..10)], temperature_f })
    };
    Response::json(&(1..=5).map(forecast).collect::<Result<Vec<_>, _>>()?)
}

fn main() -> Result<(), StartError> {
    let server = Server::new().route("GET /weatherforecast", forecasts);
    match &*std::env::args().collect::<Vec<_>>() {
        [_, address, _tls, chain, key] => server.bind_tls(address).certificate(chain, key).run(),
        arguments => server.bind(arguments.get(1).map_or("127.0.0.1:7027", |address| address)).run(),
    }
}
