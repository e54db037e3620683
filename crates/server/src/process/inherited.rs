//! Sockets and other descriptors that this process inherits: from the supervisor, from a predecessor that it
//! replaces, or from a service manager.

use std::net::SocketAddr;

use cannery_eventloop::{Address, Claim, Listener};

use super::inheritance::{
    ADMIN_VARIABLE, DATAGRAMS_VARIABLE, FORWARDING_VARIABLE, GENERATION_VARIABLE, LISTENERS_VARIABLE,
    PART_VARIABLE, PLACE_VARIABLE, PREDECESSORS_VARIABLE, SEED_VARIABLE, STANDBY_VARIABLE, STATS_VARIABLE,
    TLS_LISTENERS_VARIABLE, WORKERS_VARIABLE,
};
use crate::config::{Http3Part, ListenerKind, Standby};
use crate::error::StartError;

/// The first descriptor that a service manager passes (`SD_LISTEN_FDS_START`).
const FIRST_PASSED: i32 = 3;

/// Returns the listening sockets from the supervisor or, by `sd_listen_fds(3)`, from a service manager.
pub(super) fn listeners() -> Result<Vec<(ListenerKind, i32)>, StartError> {
    if let Some(descriptors) = descriptors(LISTENERS_VARIABLE)? {
        let tls = descriptors_or_none(TLS_LISTENERS_VARIABLE)?;
        let with_kind = |descriptor| (kind(tls.contains(&descriptor)), descriptor);
        return Ok(descriptors.into_iter().map(with_kind).collect());
    }

    let is_listener = |(_, name): &(i32, String)| !name.starts_with("quic");
    let with_kind = |(descriptor, name): (i32, String)| (kind(name.starts_with("tls")), descriptor);
    Ok(passed().filter(is_listener).map(with_kind).collect())
}

/// Returns the sockets that a service manager passes, with their names (`sd_listen_fds(3)`).
fn passed() -> impl Iterator<Item = (i32, String)> {
    let variable = |name| std::env::var(name).ok().and_then(|value| value.parse::<i32>().ok());
    let is_for_us = variable("LISTEN_PID").is_some_and(|pid| u32::try_from(pid) == Ok(std::process::id()));
    let count = variable("LISTEN_FDS").filter(|_| is_for_us).unwrap_or(0);
    // A socket unit names its descriptors with `FileDescriptorName=`.
    let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
    let names: Vec<_> = names.split(':').map(str::to_owned).collect();
    (FIRST_PASSED..FIRST_PASSED + count).zip(names.into_iter().chain(std::iter::repeat(String::new())))
}

/// Returns the UDP sockets from a predecessor or, by `sd_listen_fds(3)`, from a service manager.
pub(super) fn datagrams() -> Result<Vec<i32>, StartError> {
    if let Some(descriptors) = descriptors(DATAGRAMS_VARIABLE)? {
        return Ok(descriptors);
    }
    let is_quic = |(_, name): &(i32, String)| name.starts_with("quic");
    Ok(passed().filter(is_quic).map(|(descriptor, _)| descriptor).collect())
}

/// Returns the generation of connection IDs: a supervisor that takes over has another one than its predecessor.
pub(super) fn generation() -> u8 {
    std::env::var(GENERATION_VARIABLE).ok().and_then(|value| value.parse().ok()).unwrap_or(0)
}

/// Returns the forwarding sockets of the program that this one takes over from.
pub(super) fn forwarding_predecessors() -> Vec<SocketAddr> {
    addresses(PREDECESSORS_VARIABLE)
}

fn addresses(variable: &str) -> Vec<SocketAddr> {
    let value = std::env::var(variable).unwrap_or_default();
    value.split(',').filter_map(|address| address.parse().ok()).collect()
}

/// Returns the part of HTTP/3 that this process serves, or `None` if HTTP/3 is not served.
pub(super) fn http3_part() -> Result<Option<Http3Part>, StartError> {
    let Ok(place) = std::env::var(PLACE_VARIABLE) else { return Ok(None) };
    let sockets = std::env::var(PART_VARIABLE).unwrap_or_default();
    let invalid = || invalid(PART_VARIABLE, "NUMBER:NUMBER");
    let (first_worker, port) = place.split_once(':').ok_or_else(invalid)?;
    let parse = |entry: &str| {
        let (worker, descriptor) = entry.split_once(':')?;
        Some((worker.parse().ok()?, descriptor.parse().ok()?))
    };
    let entries = sockets.split(',').filter(|entry| !entry.is_empty());
    Ok(Some(Http3Part {
        first_worker: first_worker.parse().map_err(|_| invalid())?,
        port: port.parse().map_err(|_| invalid())?,
        sockets: entries.map(parse).collect::<Option<Vec<_>>>().ok_or_else(invalid)?,
        forwarding: descriptors_or_none(FORWARDING_VARIABLE)?,
        workers: addresses(WORKERS_VARIABLE),
    }))
}

/// Returns the listening sockets of the other processes, by descriptor.
pub(super) fn standby_listeners() -> Result<Vec<Standby<i32>>, StartError> {
    let tls = descriptors_or_none(TLS_LISTENERS_VARIABLE)?;
    let value = std::env::var(STANDBY_VARIABLE).unwrap_or_default();
    let parse = |entry: &str| {
        let (process, descriptor) = entry.split_once(':')?;
        let listener = descriptor.parse().ok()?;
        Some(Standby { process: process.parse().ok()?, kind: kind(tls.contains(&listener)), listener })
    };
    let entries = value.split(',').filter(|entry| !entry.is_empty()).map(parse).collect::<Option<Vec<_>>>();
    entries.ok_or_else(|| invalid(STANDBY_VARIABLE, "PROCESS:DESCRIPTOR"))
}

/// Returns the sockets over which processes exchange statistics: one in a process that serves, one for each such process
/// in the admin process.
pub(super) fn stats_sockets() -> Result<Vec<i32>, StartError> {
    descriptors_or_none(STATS_VARIABLE)
}

/// Returns the descriptor that holds the seed of the keys of TLS tickets, which all processes share.
pub(super) fn ticket_seed() -> Result<Option<i32>, StartError> {
    Ok(descriptors_or_none(SEED_VARIABLE)?.first().copied())
}

/// Returns the admin listener: the predecessor's if there is one, otherwise a new one with the claim to
/// its address.
pub(super) fn admin_listener(address: &Address) -> Result<(Option<Claim>, Listener), StartError> {
    let failed = |source| StartError::Listen { address: address.clone(), source };
    if let [descriptor] = descriptors_or_none(ADMIN_VARIABLE)?[..] {
        return Ok((None, Listener::inherit(descriptor).map_err(failed)?));
    }
    let claim = Claim::new(address).map_err(failed)?;
    let listener = claim.listen().map_err(failed)?;
    Ok((Some(claim), listener))
}

fn kind(has_tls: bool) -> ListenerKind {
    if has_tls { ListenerKind::Tls } else { ListenerKind::Plain }
}

fn descriptors_or_none(variable: &'static str) -> Result<Vec<i32>, StartError> {
    Ok(descriptors(variable)?.unwrap_or_default())
}

/// Returns the descriptors in a variable of the supervisor, or `None` if the variable is not set.
fn descriptors(variable: &'static str) -> Result<Option<Vec<i32>>, StartError> {
    let Ok(value) = std::env::var(variable) else { return Ok(None) };
    let numbers = value.split(',').filter(|number| !number.is_empty()).map(str::parse);
    let numbers: Result<Vec<i32>, _> = numbers.collect();
    numbers.map(Some).map_err(|_| invalid(variable, "numbers"))
}

fn invalid(variable: &'static str, of: &'static str) -> StartError {
    StartError::InheritedList { variable, of }
}
