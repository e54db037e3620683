//! Sockets and other descriptors that this process inherits from the supervisor, from a predecessor that it
//! replaces, or from a service manager.

use std::net::SocketAddr;

use cannery_eventloop::{Address, Claim, Listener};

use super::spawn::{
    ADMIN_VARIABLE, DATAGRAMS_VARIABLE, FORWARDING_VARIABLE, GENERATION_VARIABLE, LISTENERS_VARIABLE,
    PART_VARIABLE, PLACE_VARIABLE, PREDECESSORS_VARIABLE, SEED_VARIABLE, STANDBY_VARIABLE, STATS_VARIABLE,
    TLS_LISTENERS_VARIABLE, WORKERS_VARIABLE,
};
use crate::config::{Http3Part, InheritedUdp, ListenerKind, Standby};
use crate::error::StartError;

/// The first descriptor passed by a service manager (`SD_LISTEN_FDS_START`).
const FIRST_PASSED: i32 = 3;

/// Returns the listening sockets from the supervisor or a predecessor, or `None` if there is neither.
pub(super) fn listeners() -> Result<Option<Vec<(ListenerKind, i32)>>, StartError> {
    let Some(descriptors) = descriptors(LISTENERS_VARIABLE)? else { return Ok(None) };
    let tls = descriptors_or_none(TLS_LISTENERS_VARIABLE)?;
    let with_kind = |descriptor| (kind(tls.contains(&descriptor)), descriptor);
    Ok(Some(descriptors.into_iter().map(with_kind).collect()))
}

/// Returns the listening sockets from a service manager (`sd_listen_fds(3)`).
pub(super) fn passed_listeners() -> Vec<(ListenerKind, i32)> {
    let is_listener = |(_, name): &(i32, String)| !name.starts_with("quic");
    let with_kind = |(descriptor, name): (i32, String)| (kind(name.starts_with("tls")), descriptor);
    passed().filter(is_listener).map(with_kind).collect()
}

/// Returns the sockets from a service manager, and their names (`sd_listen_fds(3)`).
fn passed() -> impl Iterator<Item = (i32, String)> {
    let variable = |name| std::env::var(name).ok().and_then(|value| value.parse::<i32>().ok());
    let is_for_us = variable("LISTEN_PID").is_some_and(|pid| u32::try_from(pid) == Ok(std::process::id()));
    let count = variable("LISTEN_FDS").filter(|_| is_for_us).unwrap_or(0);
    // In a socket unit, `FileDescriptorName=` sets the name.
    let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
    let names: Vec<_> = names.split(':').map(str::to_owned).collect();
    (FIRST_PASSED..FIRST_PASSED + count).zip(names.into_iter().chain(std::iter::repeat(String::new())))
}

/// Returns the UDP sockets from a predecessor, or those from a service manager (`sd_listen_fds(3)`).
pub(super) fn datagrams() -> Result<InheritedUdp, StartError> {
    let is_quic = |(_, name): &(i32, String)| name.starts_with("quic");
    let passed = || passed().filter(is_quic).map(|(descriptor, _)| descriptor).collect();
    let descriptors = descriptors(DATAGRAMS_VARIABLE)?.unwrap_or_else(passed);
    Ok(if descriptors.is_empty() { InheritedUdp::None } else { InheritedUdp::All(descriptors) })
}

/// Returns the generation of connection IDs, which differs between a supervisor that takes over and
/// its predecessor.
pub(super) fn generation() -> Result<u8, StartError> {
    parse_generation(value(GENERATION_VARIABLE).as_deref())
}

fn parse_generation(value: Option<&str>) -> Result<u8, StartError> {
    value.map_or(Ok(0), |value| value.parse().map_err(|_| invalid(GENERATION_VARIABLE, "numbers up to 255")))
}

/// Returns the forwarding sockets of the process we are taking over from.
pub(super) fn forwarding_predecessors() -> Result<Vec<SocketAddr>, StartError> {
    addresses(PREDECESSORS_VARIABLE)
}

fn addresses(variable: &'static str) -> Result<Vec<SocketAddr>, StartError> {
    parse_addresses(variable, &value(variable).unwrap_or_default())
}

fn parse_addresses(variable: &'static str, value: &str) -> Result<Vec<SocketAddr>, StartError> {
    let addresses = value.split(',').filter(|address| !address.is_empty()).map(str::parse);
    addresses.collect::<Result<_, _>>().map_err(|_| invalid(variable, "addresses"))
}

/// Returns the part of HTTP/3 that this process serves, or `None` without HTTP/3.
pub(super) fn http3_part() -> Result<Option<Http3Part>, StartError> {
    let Some(place) = value(PLACE_VARIABLE) else { return Ok(None) };
    let invalid_place = || invalid(PLACE_VARIABLE, "FIRST_WORKER:PORT");
    let (first_worker, port) = place.split_once(':').ok_or_else(invalid_place)?;

    let sockets = value(PART_VARIABLE).unwrap_or_default();
    let parse = |entry: &str| {
        let (worker, descriptor) = entry.split_once(':')?;
        Some((worker.parse().ok()?, descriptor.parse().ok()?))
    };
    let entries = sockets.split(',').filter(|entry| !entry.is_empty());
    let sockets = entries.map(parse).collect::<Option<Vec<_>>>();

    Ok(Some(Http3Part {
        first_worker: first_worker.parse().map_err(|_| invalid_place())?,
        port: port.parse().map_err(|_| invalid_place())?,
        sockets: sockets.ok_or_else(|| invalid(PART_VARIABLE, "WORKER:DESCRIPTOR"))?,
        forwarding: descriptors_or_none(FORWARDING_VARIABLE)?,
        workers: addresses(WORKERS_VARIABLE)?,
    }))
}

/// Returns the descriptors of other processes' listening sockets.
pub(super) fn standby_listeners() -> Result<Vec<Standby<i32>>, StartError> {
    let tls = descriptors_or_none(TLS_LISTENERS_VARIABLE)?;
    let value = value(STANDBY_VARIABLE).unwrap_or_default();
    let parse = |entry: &str| {
        let (process, descriptor) = entry.split_once(':')?;
        let listener = descriptor.parse().ok()?;
        Some(Standby { process: process.parse().ok()?, kind: kind(tls.contains(&listener)), listener })
    };
    let entries = value.split(',').filter(|entry| !entry.is_empty()).map(parse).collect::<Option<Vec<_>>>();
    entries.ok_or_else(|| invalid(STANDBY_VARIABLE, "PROCESS:DESCRIPTOR"))
}

/// The sockets for statistics: one in a serving process, or one for each serving process in the admin
/// process.
pub(super) fn stats_sockets() -> Result<Vec<i32>, StartError> {
    descriptors_or_none(STATS_VARIABLE)
}

/// Returns the descriptor of the ticket key seed, which all processes share.
pub(super) fn ticket_seed() -> Result<Option<i32>, StartError> {
    Ok(descriptors_or_none(SEED_VARIABLE)?.first().copied())
}

/// Gets the admin listener, either from the predecessor (if any) or as a new listener, which is
/// returned together with the claim to its address.
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

/// Returns the descriptors in a variable set by the supervisor. Returns `None` if it is not set.
fn descriptors(variable: &'static str) -> Result<Option<Vec<i32>>, StartError> {
    let Some(value) = value(variable) else { return Ok(None) };
    let numbers = value.split(',').filter(|number| !number.is_empty()).map(str::parse);
    let numbers: Result<Vec<i32>, _> = numbers.collect();
    numbers.map(Some).map_err(|_| invalid(variable, "numbers"))
}

/// Reads the value of a variable, or `None` if it is not set. A value that is not UTF-8 is treated like any
/// other wrong value.
fn value(variable: &str) -> Option<String> {
    std::env::var_os(variable).map(|value| value.to_string_lossy().into_owned())
}

fn invalid(variable: &'static str, of: &'static str) -> StartError {
    StartError::InheritedList { variable, of }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_generation_is_no_default() {
        assert_eq!(parse_generation(None).unwrap(), 0);
        assert_eq!(parse_generation(Some("3")).unwrap(), 3);
        for invalid in ["", "256", "-1", "one"] {
            let error = parse_generation(Some(invalid)).unwrap_err();
            assert!(error.to_string().starts_with("CANNERY_QUIC_GENERATION "), "{error}");
        }
    }

    #[test]
    fn invalid_addresses_are_not_dropped() {
        let parse = |value| parse_addresses(PREDECESSORS_VARIABLE, value);
        assert!(parse("").unwrap().is_empty());
        assert_eq!(parse("127.0.0.1:1,[::1]:2").unwrap().len(), 2);
        for invalid in ["127.0.0.1", "127.0.0.1:1,localhost:2"] {
            let error = parse(invalid).unwrap_err();
            assert!(error.to_string().starts_with("CANNERY_FORWARDING_OF_PREDECESSOR "), "{error}");
        }
    }
}
