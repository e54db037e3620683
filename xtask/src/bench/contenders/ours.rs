//! How the floor and our own server are started.

use std::net::SocketAddrV4;
use std::process::Command;

use super::Order;
use crate::bench::certificates::Certificate;
use crate::bench::commands;
use crate::error::Error;

pub(super) fn floor(order: &Order<'_>, address: SocketAddrV4) -> Result<Command, Error> {
    let mut command = Command::new(commands::floor()?);
    command.arg(address.port().to_string()).arg("--answers").arg(order.answers);
    command.arg(order.threads.to_string());
    Ok(command)
}

pub(super) fn dummy(order: &Order<'_>, address: SocketAddrV4) -> Result<Command, Error> {
    let mut command = server(order, address)?;
    command.arg("--dummy");
    Ok(command)
}

pub(super) fn cannery(order: &Order<'_>, address: SocketAddrV4) -> Result<Command, Error> {
    let mut command = server(order, address)?;
    command.arg("--archive").arg(&order.site.archive).args(order.flags);
    Ok(command)
}

pub(super) fn ring(order: &Order<'_>, address: SocketAddrV4) -> Result<Command, Error> {
    let mut command = cannery(order, address)?;
    command.args(["--io", "io_uring"]);
    Ok(command)
}

pub(super) fn deferred(order: &Order<'_>, address: SocketAddrV4) -> Result<Command, Error> {
    let mut command = cannery(order, address)?;
    command.arg("--defer-accept");
    Ok(command)
}

fn server(order: &Order<'_>, address: SocketAddrV4) -> Result<Command, Error> {
    let mut command = Command::new(commands::path("cannery-server")?);
    command.args(["--quiet", "--threads"]).arg(order.threads.to_string());
    match order.wire.key {
        None => command.arg("--bind").arg(address.to_string()),
        Some(key) => {
            let bundle = Certificate::of(key)?.bundle;
            command.arg("--bind-tls").arg(address.to_string()).arg("--tls-bundle").arg(bundle)
        }
    };
    Ok(command)
}
