//! Gets client addresses from HTTP proxies, using `X-Forwarded-For` or `Forwarded` (RFC 7239).
//!
//! Each proxy appends its client's address to the list that it has received. This means that only the right
//! end of the list can be trusted, and only if it was sent by a trusted proxy; the client is the rightmost
//! address that does not belong to one. Note that we only ever read one of the two fields because a proxy
//! that sets one of them typically passes on whatever its client has put into the other.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

/// Proxies that we trust to tell us their client's address.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TrustedProxies {
    /// Addresses that these proxies connect from.
    pub sources: Vec<ProxySource>,
    /// The field that they set.
    pub field: ForwardedField,
}

/// Where a trusted proxy connects from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProxySource {
    /// From an address in this network.
    #[non_exhaustive]
    Network {
        /// Any address of the network, in canonical form.
        address: IpAddr,
        /// Number of leading bits that all addresses have in common.
        prefix: u8,
    },
    /// From a local socket.
    Unix,
}

/// The field that contains client addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ForwardedField {
    /// `X-Forwarded-For`, the de facto standard.
    XForwardedFor,
    /// `Forwarded` (RFC 7239).
    Forwarded,
}

impl FromStr for ProxySource {
    type Err = String;

    fn from_str(text: &str) -> Result<ProxySource, String> {
        const FORM: &str = "write an address, a network such as `10.0.0.0/8` or `fd00::/8`, or `unix`";
        if text == "unix" {
            return Ok(ProxySource::Unix);
        }

        let (address, prefix) =
            text.split_once('/').map_or((text, None), |(address, prefix)| (address, Some(prefix)));
        let address: IpAddr = address.parse().map_err(|_| FORM.to_owned())?;
        let bits_max = if address.is_ipv4() { 32 } else { 128 };

        let is_number = |prefix: &&str| prefix.bytes().all(|byte| byte.is_ascii_digit());
        let prefix = match prefix {
            None => bits_max,
            Some(prefix) => {
                prefix.parse().ok().filter(|bits| is_number(&prefix) && *bits <= bits_max).ok_or(FORM)?
            }
        };
        // Convert IPv4-mapped networks to IPv4. We do the same with the addresses that we compare.
        Ok(match (address.to_canonical(), address) {
            (canonical @ IpAddr::V4(_), IpAddr::V6(_)) if prefix >= 96 => {
                ProxySource::Network { address: canonical, prefix: prefix - 96 }
            }
            _ => ProxySource::Network { address, prefix },
        })
    }
}

impl ProxySource {
    fn contains(&self, other: IpAddr) -> bool {
        let ProxySource::Network { address, prefix } = *self else { return false };
        let prefix = u32::from(prefix);
        match (address, other) {
            (IpAddr::V4(network), IpAddr::V4(other)) => {
                let differing = network.to_bits() ^ other.to_bits();
                differing.checked_shr(Ipv4Addr::BITS - prefix).unwrap_or(0) == 0
            }
            (IpAddr::V6(network), IpAddr::V6(other)) => {
                let differing = network.to_bits() ^ other.to_bits();
                differing.checked_shr(Ipv6Addr::BITS - prefix).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

impl TrustedProxies {
    /// Returns proxies that connect from `sources` and set `field`.
    #[must_use]
    pub fn new(sources: Vec<ProxySource>, field: ForwardedField) -> TrustedProxies {
        TrustedProxies { sources, field }
    }

    /// Determines the client's address. Usually, this is the peer's address, but if the peer is a trusted
    /// proxy, it may tell us another one. `field_lines` are the request's field lines in HTTP/1 syntax.
    pub(crate) fn client(&self, peer: Option<SocketAddr>, field_lines: &[u8]) -> Option<SocketAddr> {
        let is_trusted = match peer {
            Some(peer) => self.trusts(peer.ip().to_canonical()),
            None => self.sources.contains(&ProxySource::Unix),
        };
        if !is_trusted {
            return peer;
        }

        let mut client = Client { proxies: self, found: None };
        for line in field_lines.split(|byte| *byte == b'\n') {
            let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
            let name = &line[..colon];
            let value = line[colon + 1..].trim_ascii();
            match self.field {
                ForwardedField::XForwardedFor if name.eq_ignore_ascii_case(b"x-forwarded-for") => {
                    value.split(|byte| *byte == b',').for_each(|element| client.take(address_of(element)));
                }
                ForwardedField::Forwarded if name.eq_ignore_ascii_case(b"forwarded") => {
                    if has_valid_quotes(value) {
                        split_unquoted(value, b',').for_each(|element| client.take(forwarded_for(element)));
                    } else {
                        client.take(None);
                    }
                }
                _ => {}
            }
        }

        client.found.map(|address| SocketAddr::new(address, 0)).or(peer)
    }

    fn trusts(&self, address: IpAddr) -> bool {
        self.sources.iter().any(|source| source.contains(address))
    }
}

/// Tracks the client while we read the list from the left. Each element becomes the new client unless it
/// is the address of a trusted proxy.
struct Client<'p> {
    proxies: &'p TrustedProxies,
    found: Option<IpAddr>,
}

impl Client<'_> {
    /// Reads the next element. If it is not an address (e.g. `unknown`), nothing to the left of it can be
    /// trusted either.
    fn take(&mut self, element: Option<IpAddr>) {
        self.found = match (element, self.found) {
            (Some(address), Some(found)) if self.proxies.trusts(address) => Some(found),
            (address, _) => address,
        };
    }
}

/// Parses an element of `X-Forwarded-For`. It may have a port and brackets.
fn address_of(element: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(element.trim_ascii()).ok()?;
    let bare =
        text.strip_prefix('[').and_then(|rest| rest.split_once(']')).map_or(text, |(address, _)| address);
    let with_port = || text.parse().map(|address: SocketAddr| address.ip());
    bare.parse().or_else(|_| with_port()).ok().map(|address: IpAddr| address.to_canonical())
}

/// Parses the address in the `for` parameter of a `Forwarded` element (RFC 7239 §4, §6).
fn forwarded_for(element: &[u8]) -> Option<IpAddr> {
    let value = split_unquoted(element, b';').find_map(|pair| {
        let (name, value) = pair.split_at_checked(pair.iter().position(|byte| *byte == b'=')?)?;
        name.trim_ascii().eq_ignore_ascii_case(b"for").then(|| value[1..].trim_ascii())
    })?;
    // Addresses do not contain any escaped characters, so we do not need to remove backslashes.
    address_of(value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")).unwrap_or(value))
}

/// Whether each quoted string in a list is the whole value of a parameter, and ends before the list does.
///
/// Otherwise, the client may have sent a quote that hides what a proxy has appended, as in `for=6.6.6.6;x=", for=203.0.113.1`.
fn has_valid_quotes(list: &[u8]) -> bool {
    let mut rest = list;
    while let Some(quote) = rest.iter().position(|byte| *byte == b'"') {
        let (before, quoted) = (rest[..quote].trim_ascii_end(), &rest[quote + 1..]);
        let Some(end) = quoted_length(quoted) else { return false };
        rest = &quoted[end + 1..];
        let is_at_end = matches!(rest.trim_ascii_start().first(), None | Some(b',' | b';'));
        if before.last() != Some(&b'=') || !is_at_end {
            return false;
        }
    }
    true
}

/// Returns the length of a quoted string, or `None` if it has no closing quote.
fn quoted_length(quoted: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        match quoted.get(at)? {
            b'"' => return Some(at),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// Splits a list at each separator that is not inside a quoted string (RFC 9110 §5.6.4).
fn split_unquoted(list: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let mut is_quoted = false;
    let mut is_escaped = false;
    list.split(move |byte| {
        if is_escaped {
            is_escaped = false;
            return false;
        }
        match *byte {
            b'"' => is_quoted = !is_quoted,
            b'\\' => is_escaped = is_quoted,
            byte => return byte == separator && !is_quoted,
        }
        false
    })
}

#[cfg(test)]
mod tests;
