//! Addresses to listen on: an IP address and port, or a path.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

/// The address of a listening socket.
#[derive(Debug, Clone, PartialEq, Eq)]
// Exhaustive: programs have to show and reach every kind.
pub enum Address {
    /// An IP address and a port. If the port is 0, the kernel chooses a free one.
    Internet(SocketAddr),
    /// A port on all IPv6 and IPv4 addresses, using a single socket. If the kernel does not have IPv6, this will just be IPv4.
    Every(u16),
    /// A local (Unix) socket with this path.
    Local(PathBuf),
}

/// The text is not an address. The message lists the forms that are.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ParseAddressError;

impl fmt::Display for ParseAddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("write `IP:PORT`, `[IPV6]:PORT`, `localhost:PORT`, `:PORT` for every address, `PORT` or `unix:PATH`")
    }
}

impl std::error::Error for ParseAddressError {}

impl FromStr for Address {
    type Err = ParseAddressError;

    fn from_str(text: &str) -> Result<Address, ParseAddressError> {
        match text.strip_prefix("unix:") {
            Some("") => Err(ParseAddressError),
            Some(path) => Ok(Address::Local(path.into())),
            None => parse_internet(text).ok_or(ParseAddressError),
        }
    }
}

/// Parses `IP:PORT` and its short forms: a port alone means the loopback address, and `:PORT` means all addresses (like in Go
/// programs).
fn parse_internet(text: &str) -> Option<Address> {
    // Only digits. `u16::from_str` would accept a sign.
    let port = |text: &str| text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
    let loopback = |text| Some(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port(text)?).into());
    match text.rsplit_once(':') {
        None => loopback(text),
        Some(("", text)) => port(text).map(Address::Every),
        Some((host, text)) if host.eq_ignore_ascii_case("localhost") => loopback(text),
        Some(_) => text.parse().ok().map(Address::Internet),
    }
}

impl Address {
    /// Returns the port, or `None` for a local socket.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        match self {
            Address::Internet(address) => Some(address.port()),
            Address::Every(port) => Some(*port),
            Address::Local(_) => None,
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Internet(address) => address.fmt(f),
            Address::Every(port) => write!(f, ":{port}"),
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
    fn printed_addresses_parse() {
        for text in ["127.0.0.1:80", "[::1]:8080", ":80", "unix:/run/cannery.sock", "unix:relative"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn malformed_addresses_are_refused() {
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
            assert_eq!(text.parse::<Address>(), Err(ParseAddressError), "{text}");
        }
    }

    #[test]
    fn short_forms_parse() {
        for (text, address) in
            [("8080", "127.0.0.1:8080"), ("localhost:8080", "127.0.0.1:8080"), ("LocalHost:0", "127.0.0.1:0")]
        {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), address);
        }
    }
}
