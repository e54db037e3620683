//! UDP sockets of a server, opened or inherited, and their assignment to workers.
//!
//! For each address, every worker has a socket, and the kernel routes datagrams to workers by their
//! connection IDs. On systems that do not support this, only the first worker serves HTTP/3. If there are
//! several processes, the supervisor needs to keep the sockets open because closing one would change the
//! order in which the kernel numbers them.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use cannery_eventloop::{Address, DatagramClaim, DatagramOptions, DatagramSocket, UdpSocket, WorkerRouting};
use cannery_transport::quic::ConnectionIdLayout;

use crate::config::{Http3, Http3Part, InheritedUdp};
use crate::error::StartError;

/// UDP sockets of a server.
#[derive(Debug)]
pub(crate) struct Datagrams {
    /// Addresses. Each is contained once.
    addresses: Vec<Address>,
    /// Sockets of each worker.
    by_worker: Vec<Vec<UdpSocket>>,
    /// Forwarding socket of each worker. This is empty for a single worker if no process can take over.
    forwarding: Vec<UdpSocket>,
    /// Addresses of the forwarding sockets of all workers, including those of other processes.
    workers: Vec<SocketAddr>,
}

/// Sockets of an address, in the order in which they were bound.
struct Group {
    address: Address,
    sockets: Vec<UdpSocket>,
}

/// UDP sockets for one of several processes.
#[derive(Debug)]
pub(super) struct ProcessDatagrams {
    /// The process's first worker, counting the workers of all processes.
    pub(super) first_worker: u8,
    /// Port of the first address.
    pub(super) port: u16,
    pub(super) generation: u8,
    /// Sockets. The number is that of the worker in this process.
    pub(super) sockets: Vec<(usize, UdpSocket)>,
    /// One for each worker.
    pub(super) forwarding: Vec<UdpSocket>,
    /// Addresses of the forwarding sockets of all processes, indexed by worker number.
    pub(super) workers: Vec<SocketAddr>,
}

impl Datagrams {
    /// Opens the sockets for this many workers, or uses inherited ones.
    ///
    /// # Errors
    /// Returns an error if an address is not available, or if an inherited descriptor is not a UDP socket.
    pub(crate) fn open(
        http3: &Http3,
        inherited: &InheritedUdp,
        workers: usize,
    ) -> Result<Datagrams, StartError> {
        let by_worker = (0..workers).map(|_| Vec::new()).collect();
        let mut datagrams =
            Datagrams { addresses: Vec::new(), by_worker, forwarding: Vec::new(), workers: Vec::new() };
        let (groups, is_inherited) = match inherited {
            InheritedUdp::None => (bind(http3, workers)?, false),
            InheritedUdp::All(descriptors) => (inherit(descriptors)?, true),
            InheritedUdp::Part(part) => {
                datagrams.inherit_part(part)?;
                return Ok(datagrams);
            }
        };

        for group in groups {
            datagrams.addresses.push(group.address);
            match route(&group.sockets, http3) {
                Routing::ByWorker => {
                    for (number, socket) in group.sockets.into_iter().enumerate() {
                        datagrams.by_worker[number % workers].push(socket);
                    }
                }
                Routing::Unavailable => {
                    // We must not close inherited sockets because their owner would still receive datagrams
                    // there.
                    let kept = if is_inherited { group.sockets.len() } else { 1 };
                    datagrams.by_worker[0].extend(group.sockets.into_iter().take(kept));
                }
            }
        }
        Ok(datagrams)
    }

    /// Opens the forwarding sockets for a single process, unless only one worker serves HTTP/3 or the
    /// supervisor has already opened them.
    ///
    /// # Errors
    /// Returns an error if a forwarding socket cannot be opened.
    pub(crate) fn open_forwarding(&mut self) -> Result<(), StartError> {
        let serving = self.by_worker.iter().filter(|sockets| !sockets.is_empty()).count();
        if serving > 1 && self.forwarding.is_empty() {
            let workers = 0..self.by_worker.len();
            self.forwarding = workers.map(|_| forwarding_socket()).collect::<Result<_, _>>()?;
            self.workers = addresses(&self.forwarding);
        }
        Ok(())
    }

    /// Returns the addresses of the forwarding sockets of all workers.
    pub(crate) fn workers(&self) -> &[SocketAddr] {
        &self.workers
    }

    #[must_use]
    pub(crate) fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Returns the sockets of each worker, and the forwarding socket.
    pub(crate) fn into_sockets(self) -> impl Iterator<Item = (Vec<UdpSocket>, Option<UdpSocket>)> {
        let forwarding = self.forwarding.into_iter().map(Some).chain(std::iter::repeat_with(|| None));
        self.by_worker.into_iter().zip(forwarding)
    }

    /// Distributes the sockets (including new forwarding sockets) among processes with this many
    /// workers.
    ///
    /// # Errors
    /// Returns an error if a forwarding socket cannot be opened.
    pub(super) fn into_processes(
        self,
        workers: usize,
        generation: u8,
    ) -> Result<Vec<ProcessDatagrams>, StartError> {
        let port = self.addresses.first().and_then(Address::port).unwrap_or(443);
        let mut processes: Vec<ProcessDatagrams> = Vec::new();

        for (number, sockets) in self.by_worker.into_iter().enumerate() {
            if number % workers == 0 {
                // If more workers exist than fit into a byte, the rest do not get any sockets.
                let first_worker = u8::try_from(number).unwrap_or(u8::MAX);
                let forwarding = (0..workers).map(|_| forwarding_socket()).collect::<Result<_, _>>()?;
                let sockets = Vec::new();
                let workers = Vec::new();
                processes.push(ProcessDatagrams {
                    first_worker,
                    port,
                    generation,
                    sockets,
                    forwarding,
                    workers,
                });
            }

            if let Some(process) = processes.last_mut() {
                process.sockets.extend(sockets.into_iter().map(|socket| (number % workers, socket)));
            }
        }

        // Since a datagram can arrive at any process, each of them needs to know the workers of
        // all.
        let workers: Vec<_> = processes.iter().flat_map(|process| addresses(&process.forwarding)).collect();
        for process in &mut processes {
            process.workers.clone_from(&workers);
        }
        Ok(processes)
    }

    /// Uses the sockets that the supervisor has assigned to the workers of this process.
    fn inherit_part(&mut self, part: &Http3Part) -> Result<(), StartError> {
        let workers = self.by_worker.len();
        for (worker, descriptor) in &part.sockets {
            let socket = inherit_socket(*descriptor)?;
            let address = socket.address();
            if !self.addresses.contains(&address) {
                self.addresses.push(address);
            }
            self.by_worker[worker % workers].push(socket);
        }
        self.workers.clone_from(&part.workers);
        self.forwarding =
            part.forwarding.iter().map(|descriptor| inherit_socket(*descriptor)).collect::<Result<_, _>>()?;
        Ok(())
    }
}

/// Method by which the kernel distributes datagrams among the sockets of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Routing {
    /// By the worker in their connection IDs.
    ByWorker,
    /// In a way that would split connections.
    Unavailable,
}

/// Makes the kernel route datagrams by their connection IDs, if it supports that.
fn route(sockets: &[UdpSocket], http3: &Http3) -> Routing {
    let layout = ConnectionIdLayout::new(http3.server_id);
    let (Ok(workers), Ok(worker_byte)) = (u8::try_from(sockets.len()), u8::try_from(layout.worker_offset()))
    else {
        return Routing::Unavailable;
    };
    let routing = WorkerRouting { workers, worker_byte };
    match sockets.first().map(|socket| routing.attach(socket)) {
        Some(Ok(())) => Routing::ByWorker,
        Some(Err(_)) | None => Routing::Unavailable,
    }
}

fn bind(http3: &Http3, workers: usize) -> Result<Vec<Group>, StartError> {
    let open = |address: &Address| {
        let failed = |source| StartError::ListenUdp { address: address.clone(), source };
        let claim = DatagramClaim::new(address, DatagramOptions::default()).map_err(failed)?;
        Ok(Group { address: claim.address(), sockets: claim.open(workers).map_err(failed)? })
    };
    http3.listen.iter().map(open).collect()
}

/// Groups inherited sockets by address.
fn inherit(descriptors: &[i32]) -> Result<Vec<Group>, StartError> {
    let mut groups: Vec<Group> = Vec::new();
    for descriptor in descriptors {
        let socket = inherit_socket(*descriptor)?;
        let address = socket.address();
        match groups.iter_mut().find(|group| group.address == address) {
            Some(group) => group.sockets.push(socket),
            None => groups.push(Group { address, sockets: vec![socket] }),
        }
    }
    Ok(groups)
}

/// Opens a socket that can only be reached from this machine.
fn forwarding_socket() -> Result<UdpSocket, StartError> {
    let address = Address::Internet((Ipv4Addr::LOCALHOST, 0).into());
    let failed = |source| StartError::ListenUdp { address: address.clone(), source };
    let claim = DatagramClaim::new(&address, DatagramOptions::default()).map_err(failed)?;
    claim.open(1).map_err(failed)?.pop().ok_or_else(|| failed(io::ErrorKind::NotFound.into()))
}

fn addresses(sockets: &[UdpSocket]) -> Vec<SocketAddr> {
    sockets.iter().map(DatagramSocket::local_address).collect()
}

fn inherit_socket(descriptor: i32) -> Result<UdpSocket, StartError> {
    UdpSocket::inherit(descriptor, DatagramOptions::default())
        .map_err(|source| StartError::InheritedUdp { descriptor, source })
}
