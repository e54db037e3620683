//! UDP relay that impairs the path between a client and a server, e.g. by loss, corruption, reordering, delay, blackholes, or a NAT
//! that forgets its binding.
//!
//! Decisions are made using a seed. However, the order of datagrams depends on the machine.

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The longest time until a thread notices that the relay changes or ends.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The extra delay of a reordered datagram, which must be longer than the time between two datagrams.
const REORDERING_DELAY: Duration = Duration::from_millis(3);

/// Impairments of a path, in each direction. The default has none.
#[derive(Debug, Clone, Copy, Default)]
pub struct Impairments {
    /// Percentage of datagrams that will be lost.
    pub loss_percent: u64,
    /// Percentage of datagrams in which a byte will be changed.
    pub corruption_percent: u64,
    /// Percentage of datagrams that will arrive after later ones.
    pub reordering_percent: u64,
    /// The delay of each datagram.
    pub delay: Duration,
    /// Whether every datagram is lost.
    pub is_blackhole: bool,
}

/// A running relay. It ends when this value is dropped.
pub struct Relay {
    address: SocketAddr,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    downstream: UdpSocket,
    /// The socket with the address the server sees.
    upstream: Mutex<Arc<UdpSocket>>,
    /// The address of the last datagram from a client.
    client: Mutex<Option<SocketAddr>>,
    server: SocketAddr,
    impairments: Mutex<Impairments>,
    impaired: AtomicUsize,
    has_ended: AtomicBool,
}

/// A direction of the path.
#[derive(Clone, Copy)]
enum Direction {
    ToServer,
    ToClient,
}

impl Relay {
    /// Starts a relay to a server.
    ///
    /// # Errors
    ///
    /// Fails if a socket cannot be bound.
    pub fn start(server: SocketAddr, impairments: Impairments) -> io::Result<Relay> {
        let downstream = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        downstream.set_read_timeout(Some(POLL_INTERVAL))?;
        let address = downstream.local_addr()?;
        let shared = Arc::new(Shared {
            downstream,
            upstream: Mutex::new(upstream()?),
            client: Mutex::new(None),
            server,
            impairments: Mutex::new(impairments),
            impaired: AtomicUsize::new(0),
            has_ended: AtomicBool::new(false),
        });
        let threads = [(Direction::ToServer, 1), (Direction::ToClient, 2)].map(|(direction, seed)| {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || shared.forward(direction, seed))
        });
        Ok(Relay { address, shared, threads: threads.into() })
    }

    /// Returns the address at which clients reach the server.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes the path.
    pub fn impair(&self, impairments: Impairments) {
        *lock(&self.shared.impairments) = impairments;
    }

    /// Returns the number of datagrams that were lost, changed or reordered.
    #[must_use]
    pub fn impaired(&self) -> usize {
        self.shared.impaired.load(Ordering::Relaxed)
    }

    /// From now on, sends to the server from another port, like a NAT that has forgotten its binding. Datagrams from the server to
    /// the old port will be lost.
    ///
    /// # Errors
    ///
    /// Fails if no socket can be bound.
    pub fn rebind(&self) -> io::Result<()> {
        *lock(&self.shared.upstream) = upstream()?;
        Ok(())
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.shared.has_ended.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// Forwards the datagrams of a direction until the relay ends.
    fn forward(&self, direction: Direction, mut random: u64) {
        let mut buffer = vec![0; 65_536];
        // Datagrams, along with the times at which they should be sent on, soonest first.
        let mut delayed: VecDeque<(Instant, Vec<u8>)> = VecDeque::new();
        while !self.has_ended.load(Ordering::Relaxed) {
            let upstream = Arc::clone(&lock(&self.upstream));
            let socket = match direction {
                Direction::ToServer => &self.downstream,
                Direction::ToClient => &*upstream,
            };

            let next = delayed.front().map(|(time, _)| time.saturating_duration_since(Instant::now()));
            let timeout = next.unwrap_or(POLL_INTERVAL).clamp(Duration::from_micros(100), POLL_INTERVAL);
            let _ = socket.set_read_timeout(Some(timeout));
            if let Ok((bytes, source)) = socket.recv_from(&mut buffer) {
                if matches!(direction, Direction::ToServer) {
                    *lock(&self.client) = Some(source);
                }
                if let Some((delay, datagram)) = self.impair(buffer[..bytes].to_vec(), &mut random) {
                    let time = Instant::now() + delay;
                    let place = delayed.partition_point(|(other, _)| *other <= time);
                    delayed.insert(place, (time, datagram));
                }
            }

            while delayed.front().is_some_and(|(time, _)| *time <= Instant::now()) {
                let (_, datagram) = delayed.pop_front().expect("the queue is not empty");
                self.send(direction, &datagram);
            }
        }
    }

    fn send(&self, direction: Direction, datagram: &[u8]) {
        // A datagram that cannot be sent is lost.
        let _ = match (direction, *lock(&self.client)) {
            (Direction::ToServer, _) => lock(&self.upstream).send_to(datagram, self.server),
            (Direction::ToClient, Some(client)) => self.downstream.send_to(datagram, client),
            (Direction::ToClient, None) => return,
        };
    }

    /// Returns the datagram and its delay, or `None` if it is lost.
    fn impair(&self, mut datagram: Vec<u8>, random: &mut u64) -> Option<(Duration, Vec<u8>)> {
        let impairments = *lock(&self.impairments);
        let mut is_chosen = |percent: u64| {
            let is_chosen = next(random) % 100 < percent;
            self.impaired.fetch_add(usize::from(is_chosen), Ordering::Relaxed);
            is_chosen
        };
        if impairments.is_blackhole || is_chosen(impairments.loss_percent) {
            return None;
        }
        let is_reordered = is_chosen(impairments.reordering_percent);
        if is_chosen(impairments.corruption_percent) {
            let place = usize::try_from(next(random)).unwrap() % datagram.len().max(1);
            if let Some(byte) = datagram.get_mut(place) {
                *byte ^= 0x55;
            }
        }
        let reordering = if is_reordered { REORDERING_DELAY } else { Duration::ZERO };
        Some((impairments.delay + reordering, datagram))
    }
}

/// Binds a socket for datagrams to the server.
fn upstream() -> io::Result<Arc<UdpSocket>> {
    UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map(Arc::new)
}

/// Returns the next number of a sequence (xorshift64*).
fn next(state: &mut u64) -> u64 {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn datagrams_reach_both_ends_unless_the_path_is_a_blackhole() {
    let [client, server] = [(); 2].map(|()| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
    for socket in [&client, &server] {
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    }
    let relay = Relay::start(server.local_addr().unwrap(), Impairments::default()).unwrap();
    let mut buffer = [0; 16];
    let mut ports = Vec::new();
    for _ in 0..2 {
        client.send_to(b"request", relay.address()).unwrap();
        let (bytes, source) = server.recv_from(&mut buffer).unwrap();
        assert_eq!(&buffer[..bytes], b"request");
        ports.push(source.port());
        server.send_to(b"response", source).unwrap();
        let (bytes, source) = client.recv_from(&mut buffer).unwrap();
        assert_eq!((&buffer[..bytes], source), (&b"response"[..], relay.address()));
        relay.rebind().unwrap();
        // The thread of the server's datagrams may still wait for those to the old port.
        std::thread::sleep(2 * POLL_INTERVAL);
    }
    assert_ne!(ports[0], ports[1]);

    relay.impair(Impairments { is_blackhole: true, ..Impairments::default() });
    client.send_to(b"lost", relay.address()).unwrap();
    server.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    assert!(server.recv_from(&mut buffer).is_err());
}
