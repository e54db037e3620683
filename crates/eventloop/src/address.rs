//! Addresses to listen at: an internet address and a port, or a path in the file system.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// TCP. Port 0 is any free one.
    Internet(SocketAddr),
    /// A local socket of this path.
    Local(PathBuf),
}

/// A text that is no address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoAddress;

impl fmt::Display for NoAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("write `IP:PORT`, `[IPV6]:PORT`, `localhost:PORT`, `:PORT` for all of IPv4, `PORT` or `unix:PATH`")
    }
}

impl std::error::Error for NoAddress {}

impl FromStr for Address {
    type Err = NoAddress;

    fn from_str(text: &str) -> Result<Address, NoAddress> {
        match text.strip_prefix("unix:") {
            Some("") => Err(NoAddress),
            Some(path) => Ok(Address::Local(path.into())),
            None => internet(text).map(Address::Internet).ok_or(NoAddress),
        }
    }
}

/// Parses `IP:PORT` and its short forms. A port alone stays on this machine; only `:PORT`, as Go programs know it,
/// means every address.
fn internet(text: &str) -> Option<SocketAddr> {
    // Digits only: `u16` would take a sign.
    let port = |text: &str| text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
    let at = |ip: Ipv4Addr, text| Some(SocketAddr::new(IpAddr::V4(ip), port(text)?));
    match text.rsplit_once(':') {
        None => at(Ipv4Addr::LOCALHOST, text),
        Some(("", text)) => at(Ipv4Addr::UNSPECIFIED, text),
        Some((host, text)) if host.eq_ignore_ascii_case("localhost") => at(Ipv4Addr::LOCALHOST, text),
        Some(_) => text.parse().ok(),
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Internet(address) => address.fmt(f),
            Address::Local(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Address {
        Address::Internet(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_back_as_they_are_shown() {
        for text in ["127.0.0.1:80", "[::1]:8080", "unix:/run/cannery.sock", "unix:relative"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "unix:",
            "example.com:80",
            "127.0.0.1",
            "/run/cannery.sock",
            ":",
            ":+80",
            "65536",
            "::1",
            "-1",
        ] {
            assert_eq!(text.parse::<Address>(), Err(NoAddress), "{text}");
        }
    }

    #[test]
    fn short_forms_are_read() {
        for (text, address) in [
            ("8080", "127.0.0.1:8080"),
            (":8080", "0.0.0.0:8080"),
            ("localhost:8080", "127.0.0.1:8080"),
            ("LocalHost:0", "127.0.0.1:0"),
        ] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), address);
        }
    }
}
