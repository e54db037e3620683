//! UDP sockets of a server, opened or inherited, and their assignment to workers.
//!
//! Each worker has a socket at each address, and the kernel passes a datagram to the worker whose number is in its connection
//! ID. Where that is not possible, because there are fewer sockets than workers or the system has no such routing, the first
//! worker serves HTTP/3 alone.

use cannery_eventloop::{Address, DatagramClaim, DatagramOptions, UdpSocket, WorkerRouting};
use cannery_secure::quic::ConnectionIdLayout;

use crate::config::Http3;
use crate::error::StartError;

/// The UDP sockets of a server.
#[derive(Debug)]
pub struct Datagrams {
    /// The addresses, each once.
    addresses: Vec<Address>,
    /// The sockets of each worker.
    by_worker: Vec<Vec<UdpSocket>>,
}

impl Datagrams {
    /// Opens the sockets for this number of workers, or uses the inherited ones.
    ///
    /// # Errors
    /// An address is not available, or an inherited descriptor is no UDP socket.
    pub fn open(http3: &Http3, workers: usize) -> Result<Datagrams, StartError> {
        let groups = if http3.inherited.is_empty() { bind(http3, workers)? } else { inherit(http3)? };
        let mut datagrams =
            Datagrams { addresses: Vec::new(), by_worker: (0..workers).map(|_| Vec::new()).collect() };
        for (address, sockets) in groups {
            datagrams.addresses.push(address);
            datagrams.assign(sockets, http3);
        }
        Ok(datagrams)
    }

    /// Returns the addresses.
    #[must_use]
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Returns the sockets of each worker.
    #[must_use]
    pub fn into_sockets(self) -> Vec<Vec<UdpSocket>> {
        self.by_worker
    }

    /// Assigns the sockets of an address to the workers.
    fn assign(&mut self, sockets: Vec<UdpSocket>, http3: &Http3) {
        let workers = self.by_worker.len();
        let has_routing = sockets.len() == workers && is_routed(&sockets, http3);
        for (number, socket) in sockets.into_iter().enumerate() {
            self.by_worker[if has_routing { number } else { 0 }].push(socket);
        }
    }
}

/// Makes the kernel route datagrams to the sockets by their connection IDs. Returns `false` if it can't.
fn is_routed(sockets: &[UdpSocket], http3: &Http3) -> bool {
    let layout = ConnectionIdLayout::new(http3.server_id);
    let (Ok(workers), Ok(worker_byte)) = (u8::try_from(sockets.len()), u8::try_from(layout.worker_offset()))
    else {
        return false;
    };
    let routing = WorkerRouting { workers, worker_byte };
    sockets.first().is_some_and(|socket| routing.attach(socket).is_ok())
}

fn bind(http3: &Http3, workers: usize) -> Result<Vec<(Address, Vec<UdpSocket>)>, StartError> {
    let open = |address: &Address| {
        let failed = |source| StartError::ListenUdp { address: address.clone(), source };
        let claim = DatagramClaim::new(address, DatagramOptions::default()).map_err(failed)?;
        Ok((claim.address(), claim.open(workers).map_err(failed)?))
    };
    http3.listen.iter().map(open).collect()
}

/// Groups the inherited sockets by address. Those of an address are in the order in which they were bound.
fn inherit(http3: &Http3) -> Result<Vec<(Address, Vec<UdpSocket>)>, StartError> {
    let mut groups: Vec<(Address, Vec<UdpSocket>)> = Vec::new();
    for descriptor in &http3.inherited {
        let failed = |source| StartError::Inherited { descriptor: *descriptor, source };
        let socket = UdpSocket::inherit(*descriptor, DatagramOptions::default()).map_err(failed)?;
        let address = socket.address();
        match groups.iter_mut().find(|(known, _)| *known == address) {
            Some((_, sockets)) => sockets.push(socket),
            None => groups.push((address, vec![socket])),
        }
    }
    Ok(groups)
}
