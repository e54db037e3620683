//! The address `:PORT` on machines without IPv6. It means all addresses of both IP versions, as a test of
//! `regression::command_lines` checks.

use std::net::TcpListener;

use crate::harness::{Server, in_network_namespace, server_command};

/// Starts a server at `:PORT`, and checks that it serves IPv4.
fn check_ipv4() {
    let mut command = server_command();
    command.args(["--dummy", "--threads", "1", "--bind", ":0"]);
    let server = Server::run(command);
    assert!(server.address.starts_with("127.0.0.1:"), "{}", server.address);
    assert_eq!(server.get("/").status, 200);
    assert_eq!(server.stop(), Some(0));
}

/// No interface has an IPv6 address, but the kernel still opens sockets for both versions.
#[test]
fn colon_port_serves_ipv4_if_ipv6_is_disabled() {
    const DISABLE_IPV6: &str = "ip link set lo up && echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6";
    in_network_namespace("listen::colon_port_serves_ipv4_if_ipv6_is_disabled", DISABLE_IPV6, || {
        assert!(TcpListener::bind("[::1]:0").is_err(), "IPv6 is not disabled");
        check_ipv4();
    });
}

/// The kernel opens no IPv6 socket, as after a start with `ipv6.disable=1`.
#[test]
#[cfg(target_os = "linux")]
fn colon_port_falls_back_to_ipv4_without_ipv6_in_the_kernel() {
    // The filter applies to its thread, and to the processes that this thread starts.
    let thread = std::thread::spawn(|| {
        deny_ipv6_sockets();
        let error = TcpListener::bind("[::1]:0").unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EAFNOSUPPORT));
        check_ipv4();
    });
    thread.join().unwrap();
}

/// Makes `socket` fail for IPv6 in this thread with the error of a kernel without IPv6.
#[cfg(target_os = "linux")]
fn deny_ipv6_sockets() {
    use seccompiler::{
        BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
        SeccompRule, TargetArch, apply_filter,
    };

    let ipv6 = u64::from(libc::AF_INET6.cast_unsigned());
    let domain_is_ipv6 = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, ipv6).unwrap();
    let rule = SeccompRule::new(vec![domain_is_ipv6]).unwrap();
    let filter = SeccompFilter::new(
        [(libc::SYS_socket, vec![rule])].into(),
        SeccompAction::Allow,
        SeccompAction::Errno(libc::EAFNOSUPPORT.cast_unsigned()),
        TargetArch::try_from(std::env::consts::ARCH).unwrap(),
    );
    let program = BpfProgram::try_from(filter.unwrap()).unwrap();
    apply_filter(&program).unwrap();
}
