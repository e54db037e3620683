//! Sockets and secrets from the supervisor, from a predecessor that the process replaces, or from a service manager.

use std::net::SocketAddr;

use cannery_base::FileVersion;

use super::ListenerKind;

/// Sockets and secrets that a process has inherited, as descriptors.
// Only `Role::inherit` fills this.
#[doc(hidden)]
#[derive(Debug, Clone, Default)]
pub struct Inheritance {
    /// Listening sockets, which replace the configured addresses for TCP and Unix sockets, except as `opens_tls` says.
    pub listeners: Vec<(ListenerKind, i32)>,
    /// The configured addresses for TLS are opened nevertheless: a service manager has passed no socket for TLS.
    pub opens_tls: bool,
    /// Listening sockets that belong to other processes.
    pub standby: Vec<Standby<i32>>,
    /// UDP sockets, which replace the configured addresses for HTTP/3.
    pub udp: InheritedUdp,
    /// A number from 0 to 3 that tells our connection IDs from those issued by the process we take over from.
    pub generation: u8,
    /// Forwarding sockets of the process that we take over from, indexed by worker number.
    pub predecessors: Vec<SocketAddr>,
    /// A pipe that contains the seed of the ticket keys. Processes with the same seed can accept each other's session
    /// tickets. With `None`, we generate our own seed.
    pub ticket_seed: Option<i32>,
    /// Sockets for statistics. A serving process replies on its socket, while the admin process queries the others
    /// through theirs.
    pub stats_sockets: Vec<i32>,
    /// Archives that the supervisor has verified, so that each process need not.
    pub verified: Vec<FileVersion>,
    /// The number of this process, if it is one of several. The first one verifies large archives while it serves them.
    pub member: Option<usize>,
}

impl Inheritance {
    /// Returns the part of HTTP/3 that this process serves, if it is one of several.
    pub(crate) fn http3_part(&self) -> Option<&Http3Part> {
        match &self.udp {
            InheritedUdp::Part(part) => Some(part),
            InheritedUdp::None | InheritedUdp::All(_) => None,
        }
    }

    /// Returns `true` if a socket can only be served with a certificate.
    pub(crate) fn needs_tls(&self) -> bool {
        self.has_udp_sockets() || self.has_tls_listeners()
    }

    pub(super) fn has_udp_sockets(&self) -> bool {
        !matches!(self.udp, InheritedUdp::None)
    }

    pub(super) fn has_tls_listeners(&self) -> bool {
        self.listeners.iter().any(|(kind, _)| *kind == ListenerKind::Tls)
    }
}

/// Inherited UDP sockets.
#[doc(hidden)]
#[derive(Debug, Clone, Default)]
pub enum InheritedUdp {
    /// None, so the configured addresses are opened.
    #[default]
    None,
    /// All sockets of the server. Several sockets for one address are in the order in which they were bound.
    All(Vec<i32>),
    /// The sockets of one of several processes.
    Part(Http3Part),
}

/// A listener of another process. We accept connections from it while that process is down.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standby<L> {
    /// The other process's number.
    pub process: usize,
    /// Kind of connections it accepts.
    pub kind: ListenerKind,
    /// The listening socket, or a descriptor.
    pub listener: L,
}

/// The part of HTTP/3 that one of several processes serves. The sockets were opened by the supervisor.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Http3Part {
    /// This process's first worker, counting the workers of all processes.
    pub first_worker: u8,
    /// Port of the first address.
    pub port: u16,
    /// Sockets: each is the number of one of our workers, and a descriptor.
    pub sockets: Vec<(usize, i32)>,
    /// Forwarding sockets, one for each worker in order, for datagrams that arrived at another worker or at a
    /// process that is taking over.
    pub forwarding: Vec<i32>,
    /// Addresses of the forwarding sockets of all processes, indexed by worker number.
    pub workers: Vec<SocketAddr>,
}
