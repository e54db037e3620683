//! The weather forecast with actix-web: actix-web ADDRESS [--tls CERTIFICATE KEY].

#![forbid(unsafe_code)]

use actix_web::web::Json;
use actix_web::{App, HttpServer, get};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use weather::{Forecast, forecasts};

#[get("/weatherforecast")]
async fn weather_forecast() -> Json<Vec<Forecast>> {
    Json(forecasts())
}

#[actix_web::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = HttpServer::new(|| App::new().service(weather_forecast));
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [address] => server.bind(address)?.run().await?,
        [address, "--tls", certificate, key] => {
            let chain = CertificateDer::pem_file_iter(certificate)?.collect::<Result<_, _>>()?;
            let key = PrivateKeyDer::from_pem_file(key)?;
            let config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key)?;
            server.bind_rustls_0_23(address, config)?.run().await?;
        }
        _ => return Err("usage: actix-web ADDRESS [--tls CERTIFICATE KEY]".into()),
    }
    Ok(())
}
