//! Socket addresses the way system calls need them: `sockaddr_in` and `sockaddr_in6`.

use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6};

/// Size of `sockaddr_in6`, which is the longer one.
pub(super) const NAME_BYTES: usize = size_of::<libc::sockaddr_in6>();

/// A socket address. Both kinds start with family and port; however, the exact position of the family depends on the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) bytes: [u8; NAME_BYTES],
    pub(crate) length: usize,
}

impl Name {
    /// An address of no family.
    pub(super) const NONE: Name = Name { bytes: [0; NAME_BYTES], length: 0 };

    /// Encodes an address.
    pub(super) fn new(address: SocketAddr) -> Name {
        let mut bytes = [0; NAME_BYTES];
        bytes[2..4].copy_from_slice(&address.port().to_be_bytes());
        let (family, length) = match address {
            SocketAddr::V4(address) => {
                bytes[4..8].copy_from_slice(&address.ip().octets());
                (libc::AF_INET, size_of::<libc::sockaddr_in>())
            }
            SocketAddr::V6(address) => {
                bytes[4..8].copy_from_slice(&address.flowinfo().to_ne_bytes());
                bytes[8..24].copy_from_slice(&address.ip().octets());
                bytes[24..28].copy_from_slice(&address.scope_id().to_ne_bytes());
                (libc::AF_INET6, NAME_BYTES)
            }
        };
        bytes[..2].copy_from_slice(&family_field(family, length));
        Name { bytes, length }
    }

    /// Parses an address. Returns `None` if it is not an IP address.
    pub(super) fn parse(bytes: &[u8; NAME_BYTES]) -> Option<SocketAddr> {
        let port = u16::from_be_bytes([bytes[2], bytes[3]]);
        match family(bytes) {
            libc::AF_INET => Some((*bytes[4..].first_chunk::<4>()?, port).into()),
            libc::AF_INET6 => {
                let flow = u32::from_ne_bytes(*bytes[4..].first_chunk()?);
                let address = Ipv6Addr::from(*bytes[8..].first_chunk::<16>()?);
                let scope = u32::from_ne_bytes(*bytes[24..].first_chunk()?);
                Some(SocketAddrV6::new(address, port, flow, scope).into())
            }
            _ => None,
        }
    }
}

#[cfg(target_os = "linux")]
fn family_field(family: libc::c_int, _: usize) -> [u8; 2] {
    libc::sa_family_t::try_from(family).expect("a small number").to_ne_bytes()
}

#[cfg(target_os = "linux")]
fn family(bytes: &[u8; NAME_BYTES]) -> libc::c_int {
    libc::sa_family_t::from_ne_bytes([bytes[0], bytes[1]]).into()
}

/// BSD has the length in the first byte, and the family in the second one.
#[cfg(not(target_os = "linux"))]
fn family_field(family: libc::c_int, length: usize) -> [u8; 2] {
    let byte = |number| u8::try_from(number).expect("a small number");
    [byte(libc::c_int::try_from(length).expect("a small number")), byte(family)]
}

#[cfg(not(target_os = "linux"))]
fn family(bytes: &[u8; NAME_BYTES]) -> libc::c_int {
    bytes[1].into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_address_parses() {
        let scoped = SocketAddrV6::new(Ipv6Addr::new(0xfe80, 0, 0, 0, 1, 2, 3, 0xffff), 443, 7, 3);
        for address in ["192.0.2.1:443", "[2001:db8::1]:65535", "[::ffff:192.0.2.1]:1"] {
            let address: SocketAddr = address.parse().unwrap();
            assert_eq!(Name::parse(&Name::new(address).bytes), Some(address));
        }
        assert_eq!(Name::parse(&Name::new(scoped.into()).bytes), Some(scoped.into()));
        assert_eq!(Name::parse(&Name::NONE.bytes), None);
    }

    #[test]
    fn length_is_that_of_the_system() {
        for address in ["192.0.2.1:443", "[2001:db8::1]:65535"] {
            let address: SocketAddr = address.parse().unwrap();
            assert_eq!(Name::new(address).length, socket2::SockAddr::from(address).len() as usize);
        }
    }
}
