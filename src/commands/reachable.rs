//! Finds addresses at which clients can reach a server, to print them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use cannery_server::Address;

/// This machine's addresses on the network.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LocalAddresses {
    v4: Option<IpAddr>,
    v6: Option<IpAddr>,
}

impl LocalAddresses {
    /// Finds the addresses of this machine if any of `addresses` is unspecified.
    ///
    /// This opens sockets, so it must be called before the process enters its sandbox.
    pub(super) fn find<'a>(addresses: impl IntoIterator<Item = &'a Address>) -> LocalAddresses {
        let is_unspecified = |address: &Address| match address {
            Address::Internet(address) => address.ip().is_unspecified(),
            Address::Every(_) => true,
            Address::Local(_) => false,
        };
        if !addresses.into_iter().any(is_unspecified) {
            return LocalAddresses::default();
        }

        // Connecting a datagram socket does not send anything, but makes the kernel choose the address from which it would send.
        // The destinations are reserved for documentation (RFC 5737, RFC 3849).
        let documentation_v4 = Ipv4Addr::new(192, 0, 2, 1);
        let documentation_v6 = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
        LocalAddresses {
            v4: source(Ipv4Addr::UNSPECIFIED.into(), documentation_v4.into()),
            v6: source(Ipv6Addr::UNSPECIFIED.into(), documentation_v6.into()),
        }
    }

    /// Returns addresses at which clients can reach a server listening at `address`.
    ///
    /// If this is unspecified, then these are the loopback address and the addresses of the machine on the network.
    pub(super) fn reachable(self, address: &Address) -> Vec<Address> {
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

/// Returns the address that this machine would use for sending to `remote`, if there is a route.
fn source(unspecified: IpAddr, remote: IpAddr) -> Option<IpAddr> {
    let socket = UdpSocket::bind((unspecified, 0)).ok()?;
    socket.connect((remote, 9)).ok()?;
    let ip = socket.local_addr().ok()?.ip();
    (!ip.is_unspecified() && !ip.is_loopback()).then_some(ip)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unspecified_addresses_become_reachable_ones() {
        let shown = |text: &str| {
            let address = text.parse().unwrap();
            LocalAddresses::find([&address]).reachable(&address)
        };
        assert_eq!(shown("127.0.0.1:80"), ["127.0.0.1:80".parse().unwrap()]);
        assert_eq!(shown("unix:/run/s"), ["unix:/run/s".parse().unwrap()]);
        assert_eq!(shown("0.0.0.0:80")[0], "127.0.0.1:80".parse().unwrap());
        assert_eq!(shown("[::]:80")[0], "[::1]:80".parse().unwrap());
        assert_eq!(shown(":80")[0], "127.0.0.1:80".parse().unwrap());
        let is_unspecified = |address: &Address| match address {
            Address::Internet(it) => it.ip().is_unspecified(),
            Address::Every(_) => true,
            Address::Local(_) => false,
        };
        for text in ["0.0.0.0:80", "[::]:80", ":80"] {
            assert!(!shown(text).iter().any(is_unspecified), "{text}");
        }
    }

    #[test]
    fn every_address_includes_both_ip_versions() {
        let v4 = Ipv4Addr::new(192, 0, 2, 7).into();
        let v6 = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 7).into();
        let local = LocalAddresses { v4: Some(v4), v6: Some(v6) };
        let shown = local.reachable(&Address::Every(80)).iter().map(Address::to_string).collect::<Vec<_>>();
        assert_eq!(shown, ["127.0.0.1:80", "192.0.2.7:80", "[2001:db8::7]:80"]);
    }
}
