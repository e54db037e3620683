//! The weather forecast with axum: axum ADDRESS [--tls CERTIFICATE KEY].

#![forbid(unsafe_code)]

use std::net::SocketAddr;

use axum::routing::get;
use axum::{Json, Router};
use axum_server::tls_rustls::RustlsConfig;
use tokio::net::TcpListener;
use weather::{Forecast, forecasts};

async fn weather_forecast() -> Json<Vec<Forecast>> {
    Json(forecasts())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let app = Router::new().route("/weatherforecast", get(weather_forecast));
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [address] => axum::serve(TcpListener::bind(address).await?, app).await?,
        [address, "--tls", certificate, key] => {
            let address: SocketAddr = address.parse()?;
            let config = RustlsConfig::from_pem_file(certificate, key).await?;
            axum_server::bind_rustls(address, config).serve(app.into_make_service()).await?;
        }
        _ => return Err("usage: axum ADDRESS [--tls CERTIFICATE KEY]".into()),
    }
    Ok(())
}
