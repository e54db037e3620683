//! UDP socket options.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

use libc::c_int;
use socket2::Socket;

use super::syscalls;
use crate::datagram::WorkerRouting;

/// Makes the system report the local address of IPv4 datagrams.
#[cfg(any(target_os = "linux", target_vendor = "apple"))]
const RECEIVE_IPV4_INFO: c_int = libc::IP_PKTINFO;
#[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
const RECEIVE_IPV4_INFO: c_int = libc::IP_RECVDSTADDR;

/// Sets the options of a UDP socket that is bound to `local`.
pub(crate) fn configure_udp(socket: &Socket, local: SocketAddr, has_ipv4: bool) -> io::Result<()> {
    let set = |level, name, value| syscalls::set_option(socket.as_fd(), level, name, value);
    let has_all_addresses = c_int::from(local.ip().is_unspecified());

    if local.is_ipv6() {
        set(libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, 1)?;
        set(libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, has_all_addresses)?;
    } else {
        set(libc::IPPROTO_IP, RECEIVE_IPV4_INFO, has_all_addresses)?;
    }
    // Not all systems have these options for IPv4 on an IPv6 socket.
    if has_ipv4 {
        #[cfg(any(target_os = "linux", target_os = "freebsd", target_vendor = "apple"))]
        let _ = set(libc::IPPROTO_IP, libc::IP_RECVTOS, 1);
    }
    forbid_fragments(socket, local, has_ipv4);
    Ok(())
}

/// Prevents fragmentation of datagrams as far as the system allows. The path MTU is up to the transport.
fn forbid_fragments(socket: &Socket, local: SocketAddr, has_ipv4: bool) {
    let set = |level, name, value| drop(syscalls::set_option(socket.as_fd(), level, name, value));
    #[cfg(target_os = "linux")]
    {
        if local.is_ipv6() {
            set(libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE);
        }
        if has_ipv4 {
            set(libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE);
        }
    }
    #[cfg(not(target_os = "linux"))]
    {
        if local.is_ipv6() {
            set(libc::IPPROTO_IPV6, libc::IPV6_DONTFRAG, 1);
        }
        #[cfg(any(target_os = "freebsd", target_vendor = "apple"))]
        if has_ipv4 {
            set(libc::IPPROTO_IP, libc::IP_DONTFRAG, 1);
        }
        let _ = has_ipv4;
    }
}

/// Always fails because only Linux can use a program to select a socket. Workers share a socket on other
/// systems.
pub(crate) fn attach_routing(_: &impl AsFd, _: WorkerRouting) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
