//! A UDP address that is reserved for the workers' sockets.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use socket2::{SockAddr, Socket as RawSocket};

use super::udp_socket::{DatagramOptions, UdpSocket, new_socket};
use crate::address::Address;
use crate::listener::{IpVersions, retry_while_in_use};
use crate::platform::syscalls;

/// A UDP address we have reserved, so that the workers can open their sockets.
///
/// All of them share the address (`SO_REUSEPORT`). Without a reservation, a second server on the same address could go
/// unnoticed, since it would just get some of the datagrams.
#[derive(Debug)]
pub struct DatagramClaim {
    socket: RawSocket,
    address: SocketAddr,
    versions: IpVersions,
    options: DatagramOptions,
}

impl DatagramClaim {
    /// Reserves `address`.
    ///
    /// # Errors
    /// Fails if another process has the address, the address cannot be used, or it is a local socket.
    pub fn new(address: &Address, options: DatagramOptions) -> io::Result<DatagramClaim> {
        retry_while_in_use(|| DatagramClaim::try_once(address, options))
    }

    fn try_once(address: &Address, options: DatagramOptions) -> io::Result<DatagramClaim> {
        match address {
            Address::Internet(address) => DatagramClaim::bind(*address, IpVersions::One, options),
            Address::Every(port) => {
                let both =
                    DatagramClaim::bind((Ipv6Addr::UNSPECIFIED, *port).into(), IpVersions::Both, options);
                // Without IPv6 in the kernel, use IPv4 alone.
                match both.map_err(|error| (error.raw_os_error(), error)) {
                    Err((Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL), _)) => {
                        DatagramClaim::bind((Ipv4Addr::UNSPECIFIED, *port).into(), IpVersions::One, options)
                    }
                    both => both.map_err(|(_, error)| error),
                }
            }
            Address::Local(_) => Err(io::Error::new(io::ErrorKind::InvalidInput, "UDP has no local sockets")),
        }
    }

    fn bind(
        address: SocketAddr,
        versions: IpVersions,
        options: DatagramOptions,
    ) -> io::Result<DatagramClaim> {
        let socket = new_socket(address, versions)?;
        socket.bind(&SockAddr::from(address))?;
        // From now on, other workers can share the address. Only `bind` had to be exclusive.
        socket.set_reuse_port(syscalls::BALANCES_LISTENERS)?;
        let no_address = || io::Error::other("the kernel gave a socket no address");
        let address = socket.local_addr()?.as_socket().ok_or_else(no_address)?;
        Ok(DatagramClaim { socket, address, versions, options })
    }

    /// Returns the address with the actual port.
    #[must_use]
    pub fn address(&self) -> Address {
        match self.versions {
            IpVersions::Both => Address::Every(self.address.port()),
            IpVersions::One => Address::Internet(self.address),
        }
    }

    /// Opens sockets for this number of workers, in order. There will always be at least one.
    ///
    /// Note that UDP sockets receive as soon as they are bound, so the reservation itself becomes the first socket. On systems that
    /// cannot distribute datagrams among several sockets, all workers have to share it.
    ///
    /// # Errors
    /// Returns the error of a failed system call.
    pub fn open(self, workers: usize) -> io::Result<Vec<UdpSocket>> {
        let mut sockets = vec![UdpSocket::new(self.socket, self.options)?];
        for _ in 1..workers {
            sockets.push(sockets[0].open_another(self.options)?);
        }
        Ok(sockets)
    }
}
