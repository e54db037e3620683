//! Serving, the same for each of the programs.

#![forbid(unsafe_code)]

use std::io;

use axum::Router;
use tokio::net::TcpListener;

/// Serves `app` at the address that is the program's first argument.
///
/// # Errors
///
/// Fails if the address is missing or can't be bound.
pub async fn serve(app: Router) -> io::Result<()> {
    let address = std::env::args().nth(1).ok_or(io::ErrorKind::InvalidInput)?;
    axum::serve(TcpListener::bind(address).await?, app).await
}
