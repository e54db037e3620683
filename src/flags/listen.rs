//! The flags for the addresses of `cannery serve` and `cannery-server`: `--bind`, and also `--port` and `--host` (these
//! are known from other servers).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use cannery_server::config::Address;
use clap::{Args, value_parser};

use crate::output::Failure;

#[derive(Debug, Args)]
pub(super) struct PortFlags {
    /// Listen at this port of `--host`, which is this machine alone if it isn't given. Port 0 is any free port.
    #[arg(long, short, value_name = "PORT", value_parser = value_parser!(u16))]
    port: Option<u16>,

    /// Listen at this IP address, or without a value at every address of the machine. The port is `--port`, or 8080.
    #[arg(long, value_name = "IP", num_args = 0..=1, default_missing_value = "*", value_parser = parse_host)]
    host: Option<Host>,
}

/// An address without a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Host {
    Ip(IpAddr),
    /// Every address of the machine.
    Every,
}

impl Host {
    fn with_port(self, port: u16) -> Address {
        match self {
            Host::Ip(ip) => SocketAddr::new(ip, port).into(),
            Host::Every => Address::Every(port),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum BindAddress {
    Complete(Address),
    /// The port comes from `--port` or a default.
    WithoutPort(IpAddr),
}

impl FromStr for BindAddress {
    type Err = <Address as FromStr>::Err;

    fn from_str(text: &str) -> Result<BindAddress, Self::Err> {
        let ip = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
        match ip.parse() {
            Ok(ip) => Ok(BindAddress::WithoutPort(ip)),
            Err(_) => text.parse().map(BindAddress::Complete),
        }
    }
}

/// How to treat addresses without a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MissingPort {
    Default(u16),
    /// It's an error: a production server should only listen where it was told to.
    Refused,
}

impl PortFlags {
    /// Returns `true` if the command line has a port.
    pub(super) fn has_port(&self) -> bool {
        self.port.is_some()
    }

    /// Returns the addresses specified by `--bind`, `--port` and `--host` together. There may be none.
    ///
    /// # Errors
    /// Two flags specify a port or an address, or an address doesn't have a port and nothing else does.
    pub(super) fn addresses(
        &self,
        bind: &[BindAddress],
        default_port: u16,
        missing: MissingPort,
    ) -> Result<Vec<Address>, Failure> {
        if bind.is_empty() {
            let named = (self.port.is_some() || self.host.is_some()).then(|| {
                let host = self.host.unwrap_or(Host::Ip(Ipv4Addr::LOCALHOST.into()));
                host.with_port(self.port.unwrap_or(default_port))
            });
            return Ok(named.into_iter().collect());
        }

        if self.host.is_some() {
            return Err(Failure::usage("`--bind` and `--host` both name an address")
                .hint("`--bind` is repeatable, and takes the port too: `--bind 127.0.0.1:8080`"));
        }

        let addresses =
            bind.iter().map(|address| self.complete(address, missing)).collect::<Result<_, _>>()?;

        // For example, all of them may be local sockets.
        let lacks_port = |address: &BindAddress| matches!(address, BindAddress::WithoutPort(_));
        match self.port {
            Some(port) if !bind.iter().any(lacks_port) => Err(Failure::usage(format!(
                "`--port {port}` has no effect: no address of `--bind` needs a port"
            ))
            .hint("leave it out")),
            _ => Ok(addresses),
        }
    }

    fn complete(&self, address: &BindAddress, missing: MissingPort) -> Result<Address, Failure> {
        match (address, self.port, missing) {
            (BindAddress::Complete(address), Some(port), _) if address.port().is_some() => {
                Err(Failure::usage(format!("`--bind {address}` and `--port {port}` both name a port"))
                    .hint("leave one of them out"))
            }
            (BindAddress::Complete(address), _, _) => Ok(address.clone()),
            (BindAddress::WithoutPort(ip), Some(port), _)
            | (BindAddress::WithoutPort(ip), None, MissingPort::Default(port)) => {
                Ok(SocketAddr::new(*ip, port).into())
            }
            (BindAddress::WithoutPort(ip), None, MissingPort::Refused) => {
                let example = SocketAddr::new(*ip, 80);
                Err(Failure::usage(format!("`--bind {ip}` has no port"))
                    .hint(format!("write it behind the address, as in `--bind {example}`, or add `--port`")))
            }
        }
    }
}

fn parse_host(text: &str) -> Result<Host, String> {
    let ip = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    match ip {
        "*" => Ok(Host::Every),
        name if name.eq_ignore_ascii_case("localhost") => Ok(Host::Ip(Ipv4Addr::LOCALHOST.into())),
        // As `:PORT`: both versions of IP.
        "::" | "0" => Ok(Host::Every),
        ip => ip.parse().map(Host::Ip).map_err(|_| {
            format!(
                "write an IP address, such as `0.0.0.0` or `{}`; `--host` without a value, at the end of the line, is every \
                 address of the machine",
                Ipv6Addr::LOCALHOST
            )
        }),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[arg(long)]
        bind: Vec<BindAddress>,
        #[command(flatten)]
        port: PortFlags,
    }

    fn addresses(line: &str, missing: MissingPort) -> Option<Vec<String>> {
        let words = ["program"].into_iter().chain(line.split_whitespace());
        let line = Line::try_parse_from(words).ok()?;
        let found = line.port.addresses(&line.bind, 8080, missing).ok()?;
        Some(found.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn port_and_host_complete_each_other() {
        for (line, expected) in [
            ("", &[][..]),
            ("-p 3000", &["127.0.0.1:3000"]),
            ("--port=0", &["127.0.0.1:0"]),
            ("--host 0.0.0.0", &["0.0.0.0:8080"]),
            ("--host ::1 -p 3000", &["[::1]:3000"]),
            ("--host localhost -p 3000", &["127.0.0.1:3000"]),
            ("--port 3000 --host", &[":3000"]),
            ("--bind 0.0.0.0 --port 3000", &["0.0.0.0:3000"]),
            ("--bind [::1] --bind 127.0.0.1 -p 81", &["[::1]:81", "127.0.0.1:81"]),
            ("--bind unix:/run/s --bind ::1 --port 81", &["unix:/run/s", "[::1]:81"]),
        ] {
            for missing in [MissingPort::Default(8080), MissingPort::Refused] {
                assert_eq!(addresses(line, missing).unwrap(), expected, "{line}");
            }
        }
    }

    #[test]
    fn contradictions_are_refused() {
        for line in [
            "--bind :80 --port 81",
            "--bind unix:/run/s --port 81",
            "--bind 80 --host ::1",
            "--host app",
            "--port :80",
            "--port 65536",
        ] {
            assert_eq!(addresses(line, MissingPort::Default(8080)), None, "{line}");
        }
        assert_eq!(addresses("--bind ::1", MissingPort::Refused), None);
        assert_eq!(addresses("--bind ::1", MissingPort::Default(1)).unwrap(), ["[::1]:1"]);
    }
}
