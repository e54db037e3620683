//! The listening sockets of a server, opened or inherited, and which worker has which.
//!
//! Opened by the first process before anything else, so that a worker that dies, or a program that takes over,
//! leaves no client in front of a closed door.

use cannery_eventloop::{Address, Claim, Listener};

use crate::config::Config;
use crate::error::StartError;

/// The listening sockets of a server.
#[derive(Debug)]
pub struct Listening {
    /// Where, each address once.
    addresses: Vec<Address>,
    /// Those of each worker.
    of_workers: Vec<Vec<Listener>>,
    /// What keeps the addresses ours; nothing for those that were inherited.
    claims: Vec<Claim>,
}

impl Listening {
    /// Opens the sockets for so many workers, or takes those that were inherited.
    pub fn open(config: &Config, workers: usize) -> Result<Listening, StartError> {
        if config.inherited.is_empty() { open(config, workers) } else { inherit(config, workers) }
    }

    /// Where the server listens.
    #[must_use]
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// What keeps the addresses ours.
    pub(crate) fn claims(&self) -> &[Claim] {
        &self.claims
    }

    /// The listeners of each worker, and what has to be kept while they are used.
    #[must_use]
    pub fn into_parts(self) -> (Vec<Vec<Listener>>, Vec<Claim>) {
        (self.of_workers, self.claims)
    }
}

fn open(config: &Config, workers: usize) -> Result<Listening, StartError> {
    let mut claims = Vec::new();
    for address in &config.listen {
        let failed = |source| StartError::Listen { address: address.clone(), source };
        claims.push(Claim::with_mode(address, config.local_mode).map_err(failed)?);
    }
    let listen = |claim: &Claim| {
        claim.listen().map_err(|source| StartError::Listen { address: claim.address(), source })
    };
    let of_worker = |_| claims.iter().map(listen).collect::<Result<Vec<_>, _>>();
    let of_workers = (0..workers).map(of_worker).collect::<Result<Vec<_>, _>>()?;
    Ok(Listening { addresses: claims.iter().map(Claim::address).collect(), of_workers, claims })
}

/// Where there are as many sockets of an address as workers, each has its own; else all have all of them.
fn inherit(config: &Config, workers: usize) -> Result<Listening, StartError> {
    let mut groups: Vec<(Address, Vec<Listener>)> = Vec::new();
    for descriptor in &config.inherited {
        let failed = |source| StartError::Inherited { descriptor: *descriptor, source };
        let listener = Listener::inherit(*descriptor).map_err(failed)?;
        let address = listener.address().map_err(failed)?;
        match groups.iter_mut().find(|(known, _)| *known == address) {
            Some((_, group)) => group.push(listener),
            None => groups.push((address, vec![listener])),
        }
    }
    let mut of_workers: Vec<Vec<Listener>> = (0..workers).map(|_| Vec::new()).collect();
    let mut addresses = Vec::new();
    for (address, group) in groups {
        if group.len() >= workers {
            for (number, listener) in group.into_iter().enumerate() {
                of_workers[number % workers].push(listener);
            }
        } else {
            for listeners in &mut of_workers {
                for listener in &group {
                    let failed = |source| StartError::Listen { address: address.clone(), source };
                    listeners.push(listener.share().map_err(failed)?);
                }
            }
        }
        addresses.push(address);
    }
    Ok(Listening { addresses, of_workers, claims: Vec::new() })
}
