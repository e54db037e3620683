//! Listening sockets of a server, opened or inherited, and their assignment to workers.
//!
//! They are opened by the first process before anything else, and will survive the exit of a worker
//! process as well as a takeover by another program.

use cannery_eventloop::{Address, Claim, ListenOptions, Listener};

use crate::config::{Config, ListenerKind, Standby};
use crate::error::StartError;

/// Listening sockets of a server.
#[derive(Debug)]
pub(crate) struct Listening {
    /// Addresses. Each is contained once.
    addresses: Vec<(ListenerKind, Address)>,
    /// Listeners of each worker.
    by_worker: Vec<Vec<(ListenerKind, Listener)>>,
    /// Reservations of the addresses (none for inherited sockets).
    claims: Vec<Claim>,
}

impl Listening {
    /// Opens the sockets for this many workers, or uses inherited ones.
    ///
    /// # Errors
    /// Returns an error if an address is not available, or if an inherited descriptor is not a listening socket.
    pub(crate) fn open(config: &Config, workers: usize) -> Result<Listening, StartError> {
        let inheritance = &config.inheritance;
        if inheritance.listeners.is_empty() {
            return open(config, config.listen_addresses(), workers);
        }
        let mut listening = inherit(config, workers)?;
        if inheritance.opens_tls {
            let tls = config.listen_addresses().filter(|(kind, _)| *kind == ListenerKind::Tls);
            listening.add(open(config, tls, workers)?);
        }
        Ok(listening)
    }

    /// Adds listeners for as many workers.
    fn add(&mut self, others: Listening) {
        self.addresses.extend(others.addresses);
        self.claims.extend(others.claims);
        for (listeners, more) in self.by_worker.iter_mut().zip(others.by_worker) {
            listeners.extend(more);
        }
    }

    /// Returns the server's addresses, and the kind of connections for each.
    #[must_use]
    pub(crate) fn addresses(&self) -> &[(ListenerKind, Address)] {
        &self.addresses
    }

    /// Returns the reservations of the addresses.
    pub(crate) fn claims(&self) -> &[Claim] {
        &self.claims
    }

    /// The standby listeners of each worker. They belong to other processes; while these are down, the
    /// worker accepts from them.
    pub(crate) fn standby(
        config: &Config,
        workers: usize,
    ) -> Result<Vec<Vec<Standby<Listener>>>, StartError> {
        let mut by_worker: Vec<Vec<_>> = (0..workers).map(|_| Vec::new()).collect();
        for (number, standby) in config.inheritance.standby.iter().enumerate() {
            let Standby { process, kind, listener: descriptor } = *standby;
            let failed = |source| StartError::Inherited { descriptor, source };
            let listener = Listener::inherit(descriptor).map_err(failed)?;
            by_worker[number % workers].push(Standby { process, kind, listener });
        }
        Ok(by_worker)
    }

    /// Returns the listeners of each worker, and the reservations. The reservations must outlive the listeners.
    #[must_use]
    pub(crate) fn into_parts(self) -> (Vec<Vec<(ListenerKind, Listener)>>, Vec<Claim>) {
        (self.by_worker, self.claims)
    }
}

fn open<'a>(
    config: &Config,
    addresses: impl Iterator<Item = (ListenerKind, &'a Address)>,
    workers: usize,
) -> Result<Listening, StartError> {
    let options = ListenOptions { mode: config.local_mode, defer_accept: config.defer_accept };
    let mut claims = Vec::new();
    for (kind, address) in addresses {
        let failed = |source| StartError::Listen { address: address.clone(), source };
        claims.push((kind, Claim::with_options(address, options).map_err(failed)?));
    }

    // Each worker listens on each address.
    let listen = |(kind, claim): &(ListenerKind, Claim)| {
        let failed = |source| StartError::Listen { address: claim.address(), source };
        claim.listen().map(|listener| (*kind, listener)).map_err(failed)
    };
    let open_all = |_| claims.iter().map(listen).collect::<Result<Vec<_>, _>>();
    let by_worker = (0..workers).map(open_all).collect::<Result<Vec<_>, _>>()?;

    let addresses = claims.iter().map(|(kind, claim)| (*kind, claim.address())).collect();
    Ok(Listening { addresses, by_worker, claims: claims.into_iter().map(|(_, claim)| claim).collect() })
}

/// Sockets of the same address.
struct Group {
    kind: ListenerKind,
    address: Address,
    listeners: Vec<Listener>,
}

/// Assigns inherited sockets. If an address has enough of them, each worker gets its own, otherwise all
/// workers share them.
fn inherit(config: &Config, workers: usize) -> Result<Listening, StartError> {
    let mut groups: Vec<Group> = Vec::new();
    // Group the sockets by address, in the order in which they were passed.
    for (kind, descriptor) in &config.inheritance.listeners {
        let failed = |source| StartError::Inherited { descriptor: *descriptor, source };
        let listener = Listener::inherit(*descriptor).map_err(failed)?;
        if config.defer_accept {
            listener.defer_accept().map_err(failed)?;
        }
        let address = listener.address().map_err(failed)?;
        match groups.iter_mut().find(|group| group.address == address) {
            Some(group) => group.listeners.push(listener),
            None => groups.push(Group { kind: *kind, address, listeners: vec![listener] }),
        }
    }

    let mut by_worker: Vec<Vec<_>> = (0..workers).map(|_| Vec::new()).collect();
    let mut addresses = Vec::new();
    for Group { kind, address, listeners } in groups {
        // Each worker gets its own sockets.
        if listeners.len() >= workers {
            for (number, listener) in listeners.into_iter().enumerate() {
                by_worker[number % workers].push((kind, listener));
            }
        } else {
            // Workers share the sockets. Each gets a duplicate of every descriptor.
            for listeners_of_one in &mut by_worker {
                for listener in &listeners {
                    let failed = |source| StartError::Listen { address: address.clone(), source };
                    listeners_of_one.push((kind, listener.try_clone().map_err(failed)?));
                }
            }
        }
        addresses.push((kind, address));
    }
    Ok(Listening { addresses, by_worker, claims: Vec::new() })
}
