//! Where a server listens: an internet address and a port, or a path in the file system.

use std::fmt;
use std::net::SocketAddr;
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
        f.write_str("write `IP:PORT`, `[IPV6]:PORT` or `unix:PATH`")
    }
}

impl std::error::Error for NoAddress {}

impl FromStr for Address {
    type Err = NoAddress;

    fn from_str(text: &str) -> Result<Address, NoAddress> {
        match text.strip_prefix("unix:") {
            Some("") => Err(NoAddress),
            Some(path) => Ok(Address::Local(path.into())),
            None => text.parse().map(Address::Internet).map_err(|_| NoAddress),
        }
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
        for text in ["", "unix:", "localhost:80", "127.0.0.1", "/run/cannery.sock"] {
            assert_eq!(text.parse::<Address>(), Err(NoAddress), "{text}");
        }
    }
}
