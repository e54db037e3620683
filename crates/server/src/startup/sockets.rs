//! Sockets of the workers, and their event loops' wakers.

use std::sync::mpsc::Sender;

use cannery_eventloop::{Balancer, Claim, Listener, UdpSocket, Waker};
use cannery_transport::Context;

use super::http3_resources::{Http3Plans, Http3Resources};
use crate::config::{Config, ListenerKind, Standby};
use crate::error::StartError;
use crate::http3::Http3Plan;
use crate::notice::Notice;
use crate::process::{Addresses, Listening};

/// Sockets of all workers.
pub(super) struct Sockets {
    listening: Listening,
    http3: Option<Http3Resources>,
    /// Standby listeners of each worker.
    standby: Vec<Vec<Standby<Listener>>>,
    wakers: Vec<Waker>,
    balancers: Vec<Balancer>,
}

/// Sockets of one worker.
pub(super) struct WorkerSockets {
    pub(super) listeners: Vec<(ListenerKind, Listener)>,
    pub(super) standby: Vec<Standby<Listener>>,
    pub(super) waker: Waker,
    pub(super) balancer: Balancer,
    /// HTTP/3 plan and `Alt-Svc` value. `None` if the worker does not serve HTTP/3.
    pub(super) http3: Option<(Http3Plan<UdpSocket>, String)>,
}

impl Sockets {
    /// Binds the addresses, or uses inherited sockets. Each waker is that of a worker.
    ///
    /// # Errors
    /// Returns an error if an address is not available, or if an inherited descriptor is not a socket.
    pub(super) fn open(
        config: &Config,
        tls: Option<&Context>,
        wakers: Vec<Waker>,
    ) -> Result<Sockets, StartError> {
        let workers = wakers.len();
        let listening = Listening::open(config, workers)?;
        let standby = Listening::standby(config, workers)?;
        let http3 = config.served_http3().zip(tls);
        let http3 = http3.map(|(http3, tls)| Http3Resources::open(config, http3, tls)).transpose()?;
        let balancers = Balancer::for_loops(&wakers).map_err(StartError::EventLoop)?;
        Ok(Sockets { listening, http3, standby, wakers, balancers })
    }

    /// Returns the addresses that clients can connect to.
    pub(super) fn addresses(&self) -> Addresses {
        Addresses {
            listeners: self.listening.addresses().to_vec(),
            quic: self.http3.as_ref().map(|http3| http3.addresses().to_vec()).unwrap_or_default(),
            admin: None,
        }
    }

    /// Returns the reservations of the addresses.
    pub(super) fn claims(&self) -> &[Claim] {
        self.listening.claims()
    }

    /// Divides the sockets among the workers. HTTP/3 will send its notices to `notices`. The reservations must outlive
    /// the listeners.
    ///
    /// # Errors
    /// Returns an error if the system's random number generator fails.
    pub(super) fn into_workers(
        self,
        notices: &Sender<Notice>,
    ) -> Result<(Vec<WorkerSockets>, Vec<Claim>), StartError> {
        let Sockets { listening, http3, standby, wakers, balancers } = self;
        let mut http3 = http3.map(|http3| http3.into_plans(notices)).transpose()?;
        let (by_worker, claims) = listening.into_parts();

        let workers = by_worker.into_iter().zip(standby).zip(wakers.into_iter().zip(balancers));
        let workers = workers.map(|((listeners, standby), (waker, balancer))| {
            let http3 = http3.as_mut().and_then(Http3Plans::next);
            WorkerSockets { listeners, standby, waker, balancer, http3 }
        });
        Ok((workers.collect(), claims))
    }
}
