//! The listening sockets of a server, opened or inherited, and which worker has which.
//!
//! Opened by the first process before anything else, so that a worker that dies, or a program that takes over,
//! leaves no client in front of a closed door.

use cannery_eventloop::{Address, Claim, ListenOptions, Listener};

use super::vacancies::Standby;
use crate::config::{Config, ListenerKind};
use crate::error::StartError;

/// The listening sockets of a server.
#[derive(Debug)]
pub struct Listening {
    /// Where, each address once.
    addresses: Vec<(ListenerKind, Address)>,
    /// Those of each worker.
    of_workers: Vec<Vec<(ListenerKind, Listener)>>,
    /// What keeps the addresses ours; nothing for those that were inherited.
    claims: Vec<Claim>,
}

impl Listening {
    /// Opens the sockets for so many workers, or takes those that were inherited.
    pub fn open(config: &Config, workers: usize) -> Result<Listening, StartError> {
        if config.inherited.is_empty() { open(config, workers) } else { inherit(config, workers) }
    }

    /// Where the server listens, and for what.
    #[must_use]
    pub fn addresses(&self) -> &[(ListenerKind, Address)] {
        &self.addresses
    }

    /// What keeps the addresses ours.
    pub(crate) fn claims(&self) -> &[Claim] {
        &self.claims
    }

    /// The listeners of other processes: for each worker, those that it serves while they are gone.
    pub(crate) fn standby(config: &Config, workers: usize) -> Result<Vec<Vec<Standby>>, StartError> {
        let mut of_workers: Vec<Vec<_>> = (0..workers).map(|_| Vec::new()).collect();
        for (place, (process, kind, descriptor)) in config.standby.iter().enumerate() {
            let failed = |source| StartError::Inherited { descriptor: *descriptor, source };
            let listener = Listener::inherit(*descriptor).map_err(failed)?;
            of_workers[place % workers].push(Standby { process: *process, kind: *kind, listener });
        }
        Ok(of_workers)
    }

    /// The listeners of each worker, and what has to be kept while they are used.
    #[must_use]
    pub fn into_parts(self) -> (Vec<Vec<(ListenerKind, Listener)>>, Vec<Claim>) {
        (self.of_workers, self.claims)
    }
}

fn open(config: &Config, workers: usize) -> Result<Listening, StartError> {
    let plain = config.listen.iter().map(|address| (ListenerKind::Plain, address));
    let secured = config.listen_tls.iter().map(|address| (ListenerKind::Tls, address));
    let options = ListenOptions { mode: config.local_mode, defer_accept: config.defer_accept };
    let mut claims = Vec::new();
    for (kind, address) in plain.chain(secured) {
        let failed = |source| StartError::Listen { address: address.clone(), source };
        claims.push((kind, Claim::with_options(address, options).map_err(failed)?));
    }
    let listen = |(kind, claim): &(ListenerKind, Claim)| {
        let failed = |source| StartError::Listen { address: claim.address(), source };
        claim.listen().map(|listener| (*kind, listener)).map_err(failed)
    };
    let of_worker = |_| claims.iter().map(listen).collect::<Result<Vec<_>, _>>();
    let of_workers = (0..workers).map(of_worker).collect::<Result<Vec<_>, _>>()?;
    let addresses = claims.iter().map(|(kind, claim)| (*kind, claim.address())).collect();
    Ok(Listening { addresses, of_workers, claims: claims.into_iter().map(|(_, claim)| claim).collect() })
}

/// The sockets of one address.
struct Group {
    kind: ListenerKind,
    address: Address,
    listeners: Vec<Listener>,
}

/// Where there are as many sockets of an address as workers, each has its own; else all have all of them.
fn inherit(config: &Config, workers: usize) -> Result<Listening, StartError> {
    let mut groups: Vec<Group> = Vec::new();
    for (kind, descriptor) in &config.inherited {
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
    let mut of_workers: Vec<Vec<_>> = (0..workers).map(|_| Vec::new()).collect();
    let mut addresses = Vec::new();
    for Group { kind, address, listeners } in groups {
        if listeners.len() >= workers {
            for (number, listener) in listeners.into_iter().enumerate() {
                of_workers[number % workers].push((kind, listener));
            }
        } else {
            for of_worker in &mut of_workers {
                for listener in &listeners {
                    let failed = |source| StartError::Listen { address: address.clone(), source };
                    of_worker.push((kind, listener.try_clone().map_err(failed)?));
                }
            }
        }
        addresses.push((kind, address));
    }
    Ok(Listening { addresses, of_workers, claims: Vec::new() })
}
