//! HTTP/3 resources: QUIC context and UDP sockets.

use std::net::SocketAddr;
use std::sync::mpsc::Sender;
use std::time::{Duration, SystemTime};

use cannery_eventloop::{Address, UdpSocket};
use cannery_transport::quic::{self, Generation};
use cannery_transport::{SEED_BYTES, Seed};

use crate::config::{Config, Http3};
use crate::error::StartError;
use crate::http3::Http3Plan;
use crate::notice::Notice;
use crate::process::Datagrams;

/// Time, in seconds, for which clients may remember that we serve HTTP/3. Most servers announce a
/// day.
const ALT_SVC_SECONDS: u32 = 86_400;

/// Open HTTP/3 resources.
pub(super) struct Http3Resources {
    context: quic::Context,
    datagrams: Datagrams,
    /// `Alt-Svc` value (RFC 7838 §3).
    alt_svc: String,
    /// Our first worker, counting the workers of all processes.
    first_worker: u8,
    generation: u8,
    /// Forwarding sockets of the process that we take over from.
    predecessors: Vec<SocketAddr>,
    drain: Duration,
}

/// HTTP/3 plans of the workers, in order.
pub(super) struct Http3Plans {
    plans: std::vec::IntoIter<Http3Plan<UdpSocket>>,
    alt_svc: String,
}

impl Http3Resources {
    /// Opens the UDP sockets of all workers.
    pub(super) fn open(
        config: &Config,
        http3: &Http3,
        tls: &cannery_transport::Context,
    ) -> Result<Http3Resources, StartError> {
        let context = quic::Context::new(tls, http3.server_id, config.early_data())?;
        let mut datagrams = Datagrams::open(http3, &config.inheritance.udp, config.threads.get())?;
        datagrams.open_forwarding()?;
        // The supervisor knows the port even if this process has no sockets.
        let part = config.inheritance.http3_part();
        let port_of_part = part.map(|part| part.port);
        let own_port =
            || datagrams.addresses().first().and_then(Address::port).or(port_of_part).unwrap_or(443);
        let authority = http3.alternative.clone().unwrap_or_else(|| format!(":{}", own_port()));
        let alt_svc = format!("h3=\"{authority}\"; ma={ALT_SVC_SECONDS}");

        Ok(Http3Resources {
            context,
            datagrams,
            alt_svc,
            first_worker: part.map_or(0, |part| part.first_worker),
            generation: config.inheritance.generation,
            predecessors: config.inheritance.predecessors.clone(),
            drain: config.drain,
        })
    }

    pub(super) fn addresses(&self) -> &[Address] {
        self.datagrams.addresses()
    }

    /// Returns a plan for each worker. Notices from the workers will be sent to `notices`.
    ///
    /// # Errors
    /// Returns an error if the system's random number generator fails.
    pub(super) fn into_plans(self, notices: &Sender<Notice>) -> Result<Http3Plans, StartError> {
        let Http3Resources { context, datagrams, alt_svc, first_worker, generation, predecessors, drain } =
            self;
        let mut plans = Vec::new();

        let workers = datagrams.workers().to_vec();
        for (worker, (sockets, forwarding_socket)) in (first_worker..=u8::MAX).zip(datagrams.into_sockets()) {
            plans.push(Http3Plan {
                context: context.clone(),
                worker,
                generation: Generation::new(generation),
                seed: random_seed()?,
                sockets,
                forwarding_socket,
                workers: workers.clone(),
                predecessors: predecessors.clone(),
                drain,
                notices: notices.clone(),
            });
        }
        Ok(Http3Plans { plans: plans.into_iter(), alt_svc })
    }
}

impl Http3Plans {
    /// Returns the next worker's plan, and the `Alt-Svc` value.
    pub(super) fn next(&mut self) -> Option<(Http3Plan<UdpSocket>, String)> {
        Some((self.plans.next()?, self.alt_svc.clone()))
    }
}

/// Returns 32 random bytes.
fn random_seed() -> Result<[u8; 32], StartError> {
    let seed = Seed::generate(SystemTime::now())?.to_bytes();
    let mut bytes = [0; 32];
    bytes.copy_from_slice(&seed[SEED_BYTES - 32..]);
    Ok(bytes)
}
