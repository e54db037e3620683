//! Addresses by which people reach a server: those that it prints.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use cannery_server::Address;

/// The addresses by which the network knows this machine.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct OwnAddresses {
    v4: Option<IpAddr>,
    v6: Option<IpAddr>,
}

impl OwnAddresses {
    /// Asks the kernel, if one of these addresses stands for all. Opens sockets, so it has to be called before the sandbox
    /// is entered.
    pub(super) fn find<'a>(addresses: impl IntoIterator<Item = &'a Address>) -> OwnAddresses {
        let is_every = |address: &Address| match address {
            Address::Internet(address) => address.ip().is_unspecified(),
            Address::Every(_) => true,
            Address::Local(_) => false,
        };
        if !addresses.into_iter().any(is_every) {
            return OwnAddresses::default();
        }
        // TEST-NET-1 and the documentation prefix (RFC 5737, RFC 3849): connecting a datagram socket sends nothing, and
        // the kernel chooses the address that it would send from.
        let outside_v4 = Ipv4Addr::new(192, 0, 2, 1);
        let outside_v6 = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
        OwnAddresses {
            v4: source(Ipv4Addr::UNSPECIFIED.into(), outside_v4.into()),
            v6: source(Ipv6Addr::UNSPECIFIED.into(), outside_v6.into()),
        }
    }

    /// The addresses by which clients reach a server at `address`: if that stands for all, this machine's own and those
    /// by which the network knows it.
    pub(super) fn visible(self, address: &Address) -> Vec<Address> {
        let (port, ips) = match address {
            Address::Every(port) => (*port, [Some(Ipv4Addr::LOCALHOST.into()), self.v4, self.v6]),
            Address::Internet(every) if every.ip().is_unspecified() => match every.ip() {
                IpAddr::V4(_) => (every.port(), [Some(Ipv4Addr::LOCALHOST.into()), self.v4, None]),
                IpAddr::V6(_) => (every.port(), [Some(Ipv6Addr::LOCALHOST.into()), None, self.v6]),
            },
            Address::Internet(_) | Address::Local(_) => return vec![address.clone()],
        };
        ips.into_iter().flatten().map(|ip| SocketAddr::new(ip, port).into()).collect()
    }
}

/// The address of this machine from which it would send to `outside`. Returns `None` if it has no way there.
fn source(any: IpAddr, outside: IpAddr) -> Option<IpAddr> {
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect((outside, 9)).ok()?;
    let ip = socket.local_addr().ok()?.ip();
    (!ip.is_unspecified() && !ip.is_loopback()).then_some(ip)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_is_shown_as_the_ones_to_visit() {
        let shown = |text: &str| {
            let address = text.parse().unwrap();
            OwnAddresses::find([&address]).visible(&address)
        };
        assert_eq!(shown("127.0.0.1:80"), ["127.0.0.1:80".parse().unwrap()]);
        assert_eq!(shown("unix:/run/s"), ["unix:/run/s".parse().unwrap()]);
        assert_eq!(shown("0.0.0.0:80")[0], "127.0.0.1:80".parse().unwrap());
        assert_eq!(shown("[::]:80")[0], "[::1]:80".parse().unwrap());
        assert_eq!(shown(":80")[0], "127.0.0.1:80".parse().unwrap());
        let stands_for_all = |address: &Address| match address {
            Address::Internet(it) => it.ip().is_unspecified(),
            Address::Every(_) => true,
            Address::Local(_) => false,
        };
        for text in ["0.0.0.0:80", "[::]:80", ":80"] {
            assert!(!shown(text).iter().any(stands_for_all), "{text}");
        }
    }

    #[test]
    fn every_address_shows_both_versions() {
        let (v4, v6) =
            (Ipv4Addr::new(192, 0, 2, 7).into(), Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 7).into());
        let own = OwnAddresses { v4: Some(v4), v6: Some(v6) };
        let shown = own.visible(&Address::Every(80)).iter().map(Address::to_string).collect::<Vec<_>>();
        assert_eq!(shown, ["127.0.0.1:80", "192.0.2.7:80", "[2001:db8::7]:80"]);
    }
}
