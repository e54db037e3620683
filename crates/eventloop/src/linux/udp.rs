//! UDP socket options, and the program that routes datagrams to workers.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

use libc::{c_int, sock_filter};
use socket2::Socket;

use super::syscalls;
use crate::datagram::WorkerRouting;
use crate::datagram::routing::{LONG_HEADER, LONG_ID_AT, LONG_LENGTH_AT, RANDOM_BYTE, SHORT_ID_AT};

/// Sets the options of a UDP socket that is bound to `local`.
pub(crate) fn configure_udp(socket: &Socket, local: SocketAddr, has_ipv4: bool) -> io::Result<()> {
    let set = |level, name, value| syscalls::set_option(socket.as_fd(), level, name, value);
    let has_all_addresses = c_int::from(local.ip().is_unspecified());

    // Datagrams should never be fragmented. Since the path MTU is up to the transport, we do not use the
    // kernel's cache either.
    if local.is_ipv6() {
        set(libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE)?;
        set(libc::IPPROTO_IPV6, libc::IPV6_DONTFRAG, 1)?;
        set(libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, 1)?;
        // This reports IPv4 addresses too, mapped to IPv6.
        set(libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, has_all_addresses)?;
    } else {
        set(libc::IPPROTO_IP, libc::IP_PKTINFO, has_all_addresses)?;
    }
    if has_ipv4 {
        set(libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE)?;
        set(libc::IPPROTO_IP, libc::IP_RECVTOS, 1)?;
    }

    set(libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1)?;
    // Not supported before Linux 5.0. Datagrams are received separately then.
    let _ = set(libc::SOL_UDP, libc::UDP_GRO, 1);
    Ok(())
}

/// Number of instructions in the program.
const PROGRAM_LENGTH: usize = 11;

/// Makes the kernel use this rule to select a socket among all those that share the address of this one.
pub(crate) fn attach_routing(socket: &impl AsFd, routing: WorkerRouting) -> io::Result<()> {
    syscalls::attach_reuseport_filter(socket.as_fd(), &program(routing))
}

/// Returns the rule as a program (classic BPF) to be run on a datagram's content. Note that loads beyond the
/// end return 0.
fn program(routing: WorkerRouting) -> [sock_filter; PROGRAM_LENGTH] {
    let WorkerRouting { workers, worker_byte } = routing;
    let load = |position: u8| instruction(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, position.into());
    [
        load(0),
        // A long header?
        jump(libc::BPF_JSET, LONG_HEADER, 0, 6),
        load(LONG_LENGTH_AT),
        jump(libc::BPF_JGT, worker_byte, 0, 2),
        load(LONG_ID_AT + worker_byte),
        skip(3),
        load(LONG_ID_AT + RANDOM_BYTE),
        skip(1),
        // A short header.
        load(SHORT_ID_AT + worker_byte),
        instruction(libc::BPF_ALU | libc::BPF_MOD | libc::BPF_K, workers.into()),
        instruction(libc::BPF_RET | libc::BPF_A, 0),
    ]
}

fn instruction(code: u32, operand: u32) -> sock_filter {
    let code = u16::try_from(code).expect("codes of instructions have 16 bits");
    sock_filter { code, jt: 0, jf: 0, k: operand }
}

/// Compares the loaded byte and then skips instructions, depending on the result.
fn jump(comparison: u32, operand: u8, skipped_if_true: u8, skipped_if_false: u8) -> sock_filter {
    let comparison = instruction(libc::BPF_JMP | libc::BPF_K | comparison, operand.into());
    sock_filter { jt: skipped_if_true, jf: skipped_if_false, ..comparison }
}

fn skip(count: u32) -> sock_filter {
    instruction(libc::BPF_JMP | libc::BPF_JA, count)
}
