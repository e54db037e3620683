//! A UDP address that is reserved for the sockets of the workers.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use socket2::{SockAddr, Socket as RawSocket};

use super::udp_socket::{DatagramOptions, UdpSocket, new_socket};
use crate::address::Address;
use crate::listener::{IpVersions, retry_while_in_use};
use crate::platform::syscalls;

/// A UDP address that is reserved until the sockets of the workers are opened.
///
/// The workers' sockets share the address (`SO_REUSEPORT`). The reservation detects a second server at the same address,
/// which would otherwise get a part of the datagrams unnoticed.
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
    /// Another process has the address, the address cannot be used, or it is that of a local socket.
    pub fn new(address: &Address, options: DatagramOptions) -> io::Result<DatagramClaim> {
        retry_while_in_use(|| DatagramClaim::try_once(address, options))
    }

    fn try_once(address: &Address, options: DatagramOptions) -> io::Result<DatagramClaim> {
        match address {
            Address::Internet(address) => DatagramClaim::bind(*address, IpVersions::One, options),
            Address::Every(port) => {
                let both =
                    DatagramClaim::bind((Ipv6Addr::UNSPECIFIED, *port).into(), IpVersions::Both, options);
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
        // The other workers may share the address from here on: only the call above had to be exclusive.
        socket.set_reuse_port(syscalls::BALANCES_LISTENERS)?;
        let no_address = || io::Error::other("the kernel gave a socket no address");
        let address = socket.local_addr()?.as_socket().ok_or_else(no_address)?;
        Ok(DatagramClaim { socket, address, versions, options })
    }

    /// Returns the address, with the port that the kernel chose.
    #[must_use]
    pub fn address(&self) -> Address {
        match self.versions {
            IpVersions::Both => Address::Every(self.address.port()),
            IpVersions::One => Address::Internet(self.address),
        }
    }

    /// Opens the sockets of this number of workers, in their order. At least one.
    ///
    /// The first is the reservation itself: a UDP socket receives as soon as it is bound. Systems that don't distribute
    /// datagrams among several sockets get one, which the workers share.
    ///
    /// # Errors
    /// A system call fails.
    pub fn open(self, workers: usize) -> io::Result<Vec<UdpSocket>> {
        let mut sockets = vec![UdpSocket::new(self.socket, self.options)?];
        for _ in 1..workers {
            sockets.push(sockets[0].open_another(self.options)?);
        }
        Ok(sockets)
    }
}
