//! Tests of HTTP/3 on the simulated network, where datagrams are lost, delayed, duplicated, corrupted and
//! marked, clients change their ports, releases are replaced, and the server stops.
//!
//! From its first byte to its last, each response must come from one of the two releases. The clients share
//! no code with the server: they consist of `quinn-proto` with its own cryptography as well as the testkit's
//! frames and field sections.

mod client;
mod early_requests;
pub(super) mod scripted;

use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant, SystemTime};

use cannery_eventloop::Datagram;
use cannery_eventloop::simulated::{
    DatagramPeer, Network, Path, Random, Simulated, SimulatedDatagrams, SimulatedListener,
};
use cannery_transport::quic::{self, EarlyData, Generation, PacketType};
use cannery_transport::{Certificates, Protocol, Seed, SelfSigned, Settings, Version};
use cannery_wire::limits::HANDSHAKES_PER_ITERATION_MAX;

use super::run_seeds;
use super::site::Releases;
use crate::config::{self, Config, ListenerKind};
use crate::content::Current;
use crate::fault::{self, Place};
use crate::http3::{ATTEMPTS_PER_ITERATION_MAX, HANDSHAKE_SILENCE_MAX, Http3Plan};
use crate::observe::Observer;
use crate::worker::stepper::Http3Stepper;
use crate::worker::{Plan, StopFlag, Worker};
use client::{Client, Outcome, Vanishing};

/// Half-open connections from which on clients must prove their addresses.
const HALF_OPEN_BEFORE_RETRY: usize = 256;

/// Half-open connections that an endpoint keeps.
const HALF_OPEN_MAX: usize = 1024;

/// Number of seeds in a normal run of the test, considering that each connection costs two handshakes of a
/// few milliseconds.
const SEEDS: u64 = 400;

/// Loop iterations after which a run must have ended.
const ITERATIONS_MAX: usize = 50_000;

/// The value of the field that refers to HTTP/3.
pub(super) const ALT_SVC: &str = "h3=\":443\"";

/// The address of the server.
const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 443);

/// The address of the forwarding socket of a program that the server takes over from.
const PREDECESSOR: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 1);

/// Time that the server takes to drain when it stops. A client that has lost every datagram for seconds may
/// not be done by then.
const DRAIN: Duration = Duration::from_secs(60);

/// TLS with a certificate for `localhost`.
pub(super) static TLS_CONTEXT: LazyLock<cannery_transport::Context> = LazyLock::new(|| {
    let now = SystemTime::now();
    let settings = Settings {
        certificates: Certificates::self_signed(SelfSigned::Ecdsa, &["localhost".to_owned()], now).unwrap(),
        seed: Some(Seed::generate(now).unwrap()),
        versions: vec![Version::Tls13],
        protocols: vec![Protocol::Http2],
        now,
    };
    cannery_transport::Context::new(settings).unwrap()
});

static CONTEXT: LazyLock<quic::Context> =
    LazyLock::new(|| quic::Context::new(&TLS_CONTEXT, None, EarlyData::Refused).unwrap());

#[test]
fn responses_over_any_path_are_whole() {
    let releases = Releases::build();
    run_seeds(SEEDS, |seed| run(seed, &releases));
}

#[test]
fn shutdown_waits_briefly_for_half_open_connections() {
    let mut random = Random::new(1);
    let network = Network::new(1);
    let releases = Releases::build();
    let current = Arc::new(Current::new(Arc::clone(&releases.first)));
    let mut worker = worker(&network, &current, None, &mut random);
    let vanishing = Rc::new(RefCell::new(Vanishing::new(&mut random)));
    let path = Path { loss: 0.0, corruption: 0.0, ..path(&mut random) };
    network.add_datagram_peer(address(0, 0), vanishing, path);
    while worker.is_idle() {
        worker.run_iteration(None);
    }

    let start = worker.now();
    let end = worker.begin_drain();
    while !worker.is_idle() {
        worker.run_iteration(Some(end));
    }
    // Deadlines are checked once a second.
    assert_eq!((worker.now() - start).as_secs(), HANDSHAKE_SILENCE_MAX.as_secs());
}

/// Retry packets should leave after the responses of their iteration, even if the Initial packets arrived
/// before the requests.
#[test]
fn responses_precede_retry_packets() {
    let mut random = Random::new(1);
    let mut stepper = Http3Stepper::new(config::Content::dummy(b"")).unwrap();
    let now = stepper.now();
    let mut client = Client::new(&mut random);
    while !client.is_confirmed() {
        let sent = transmitted(&mut client, now);
        stepper.step(sent);
        receive(&mut client, now, stepper.take_sent());
    }

    // With more half-open connections, each attempt is answered by a Retry packet.
    let mut initials = |count| -> Vec<_> {
        (0..count).flat_map(|_| transmitted(&mut Client::new(&mut random), now).into_iter().take(1)).collect()
    };
    while stepper.half_open() < HALF_OPEN_BEFORE_RETRY {
        stepper.step(initials(8));
        while stepper.is_busy() {
            stepper.step(Vec::new());
        }
    }
    let _ = stepper.take_sent();

    let requests = transmitted(&mut client, now);
    assert!(!requests.is_empty(), "the client has more requests");
    stepper.step([initials(8), requests].concat());
    let sent = stepper.take_sent();
    let is_retry = |datagram: &Vec<u8>| PacketType::of(datagram) == Some(PacketType::Retry);
    let has_short_header = |datagram: &Vec<u8>| PacketType::of(datagram) == Some(PacketType::Short);
    let response = sent.iter().rposition(has_short_header).expect("a response");
    let retry = sent.iter().position(is_retry).expect("a Retry packet");
    assert!(response < retry, "{response}, {retry}");
}

/// Handshakes over TCP may use the whole budget of every iteration.
#[test]
fn handshakes_over_tcp_leave_one_in_each_iteration() {
    let mut random = Random::new(1);
    let mut stepper = Http3Stepper::new(config::Content::dummy(b"")).unwrap();
    let now = stepper.now();
    let attempts = (0..3).flat_map(|_| transmitted(&mut Client::new(&mut random), now)).collect();
    assert_eq!(stepper.step_without_budget(attempts), 1);
    assert_eq!(stepper.step_without_budget(Vec::new()), 2);
    assert_eq!(stepper.step_without_budget(Vec::new()), 3);
}

/// Although clients that answer a Retry packet use connection IDs of the server's, their Initial packets
/// should wait like all others.
#[test]
fn attempts_after_a_retry_wait_too() {
    // Each sends its ClientHello in two Initial packets.
    const CLIENTS: usize = 20;
    let mut random = Random::new(1);
    let mut stepper = stepper_that_sends_retry(&mut random);
    let hellos = (0..CLIENTS).flat_map(|_| client_with_hello(&mut stepper, &mut random).1).collect();

    stepper.step(hellos);
    // At first, the endpoint gets as many first datagrams as it processes in an iteration. It then gets as
    // many of all datagrams, half of them second ones (which wait with those of the others), and finally as
    // many second ones.
    let processed = (1 + 1) * ATTEMPTS_PER_ITERATION_MAX + ATTEMPTS_PER_ITERATION_MAX / 2;
    assert_eq!(stepper.waiting_attempts(), 2 * CLIENTS - processed);
    stepper.step(Vec::new());
    assert_eq!(
        stepper.waiting_attempts(),
        2 * CLIENTS - processed - ATTEMPTS_PER_ITERATION_MAX / 2 - ATTEMPTS_PER_ITERATION_MAX
    );
}

/// The server signs once it has the last datagram of a ClientHello. If these arrive from many clients at the
/// same time, the handshakes should take turns with responses, like those of other new connections.
#[test]
fn ends_of_client_hellos_wait_for_the_budget() {
    const CLIENTS: usize = 20;
    let mut random = Random::new(1);
    let mut stepper = Http3Stepper::new(config::Content::dummy(b"")).unwrap();
    let now = stepper.now();
    let clients: Vec<_> = (0..CLIENTS).map(|_| client_with_hello(&mut stepper, &mut random)).collect();
    let (mut clients, hellos): (Vec<_>, Vec<_>) = clients.into_iter().unzip();
    let [first, second] = [0, 1].map(|part| hellos.iter().map(move |hello| hello[part].clone()));
    stepper.step(first.collect());
    while stepper.is_busy() {
        stepper.step(Vec::new());
    }
    assert_eq!((stepper.half_open(), stepper.waiting_attempts()), (CLIENTS, 0));

    let per_iteration = HANDSHAKES_PER_ITERATION_MAX as usize;
    stepper.step(second.collect());
    assert_eq!(stepper.waiting_attempts(), CLIENTS - per_iteration);
    stepper.step(Vec::new());
    assert_eq!(stepper.waiting_attempts(), CLIENTS - 2 * per_iteration);
    stepper.step_without_budget(Vec::new());
    assert_eq!(stepper.waiting_attempts(), CLIENTS - 2 * per_iteration - 1);
    while stepper.is_busy() {
        stepper.step(Vec::new());
    }
    let last = &mut clients[CLIENTS - 1];
    for _ in 0..4 {
        receive(last, now, stepper.take_sent());
        stepper.step(transmitted(last, now));
    }
    assert!(last.is_confirmed());
}

/// A Handshake packet shows that a datagram continues a handshake, unless it is forged.
#[test]
fn forged_handshake_packets_take_no_precedence() {
    const CLIENTS: usize = 20;
    let mut random = Random::new(1);
    let mut stepper = stepper_that_sends_retry(&mut random);
    let mut ends = Vec::new();
    for _ in 0..CLIENTS {
        let (_, [first, mut second]) = client_with_hello(&mut stepper, &mut random);
        stepper.step(vec![first]);
        while stepper.is_busy() {
            stepper.step(Vec::new());
        }
        // Version and destination as in the Initial packet, no source, and 20 bytes.
        let destination_end = 6 + usize::from(second[5]);
        let forged = [&[0xe3], &second[1..destination_end], &[0, 20], &[0; 20]].concat();
        second.extend(forged);
        ends.push(second);
    }
    stepper.step(ends);
    assert_eq!(stepper.waiting_attempts(), CLIENTS - HANDSHAKES_PER_ITERATION_MAX as usize);
}

/// The endpoint derives keys for an Initial packet before it finds that the packet is invalid.
#[test]
fn invalid_initial_packets_use_the_budget() {
    const DATAGRAMS: usize = 20;
    let mut random = Random::new(1);
    let mut stepper = stepper_that_sends_retry(&mut random);
    // It has a connection ID of the server's (from a Retry packet), but its reserved bits are set (RFC 9000
    // §17.2).
    let (_, [mut invalid, _]) = client_with_hello(&mut stepper, &mut random);
    invalid[0] ^= 0x0c;
    stepper.step(vec![invalid; DATAGRAMS]);
    // The endpoint gets as many at once, and as many of those that had to wait.
    assert_eq!(stepper.waiting_attempts(), DATAGRAMS - 2 * ATTEMPTS_PER_ITERATION_MAX);
    assert_eq!(stepper.half_open(), HALF_OPEN_BEFORE_RETRY);
}

/// Shorter datagrams with an Initial packet MUST be discarded (RFC 9000 §14.1). The endpoint does so at once
/// in order not to take any budget from others.
#[test]
fn short_initial_packets_use_no_budget() {
    let mut random = Random::new(1);
    let mut stepper = stepper_that_sends_retry(&mut random);
    let (_, [mut short, _]) = client_with_hello(&mut stepper, &mut random);
    short.truncate(1199);
    let (_, [honest, _]) = client_with_hello(&mut stepper, &mut random);
    let mut datagrams = vec![short; 100];
    datagrams.push(honest);
    stepper.step(datagrams);
    assert_eq!((stepper.waiting_attempts(), stepper.half_open()), (0, HALF_OPEN_BEFORE_RETRY + 1));
}

/// Returns a server that answers further clients by Retry packets because it has many half-open connections.
fn stepper_that_sends_retry(random: &mut Random) -> Http3Stepper {
    let mut stepper = Http3Stepper::new(config::Content::dummy(b"")).unwrap();
    while stepper.half_open() < HALF_OPEN_BEFORE_RETRY {
        let (_, hello) = client_with_hello(&mut stepper, random);
        stepper.step(hello.into());
        stepper.step(Vec::new());
    }
    stepper
}

/// Starts a client whose ClientHello takes two datagrams, which are returned as well. The client may
/// have got a Retry packet before.
fn client_with_hello(stepper: &mut Http3Stepper, random: &mut Random) -> (Client, [Vec<u8>; 2]) {
    let now = stepper.now();
    let mut client = Client::new(random);
    let mut hello = transmitted(&mut client, now);
    if stepper.half_open() >= HALF_OPEN_BEFORE_RETRY {
        hello.truncate(1);
        stepper.step(hello);
        stepper.step(Vec::new());
        receive(&mut client, now, stepper.take_sent());
        hello = transmitted(&mut client, now);
    }
    (client, hello.try_into().expect("two datagrams"))
}

fn receive(client: &mut Client, now: Instant, datagrams: Vec<Vec<u8>>) {
    for mut bytes in datagrams {
        client.receive(now, Datagram { source: SERVER, destination: None, ecn: None, bytes: &mut bytes });
    }
}

/// When there are as many half-open connections as the endpoint keeps, attempts should have to wait while the
/// handshakes of the others go on.
#[test]
fn attempts_wait_for_half_open_connections() {
    const MORE: usize = 20;
    let mut random = Random::new(1);
    let mut stepper = Http3Stepper::new(config::Content::dummy(b"")).unwrap();
    let now = stepper.now();
    let complete = |client: &mut Client, stepper: &mut Http3Stepper| {
        for _ in 0..4 {
            receive(client, now, stepper.take_sent());
            stepper.step(transmitted(client, now));
        }
        assert!(client.is_confirmed());
    };

    // Of each ClientHello, the second datagram is kept back.
    let mut clients = Vec::new();
    while stepper.half_open() < HALF_OPEN_MAX - ATTEMPTS_PER_ITERATION_MAX - 1 {
        let (client, [first, second]) = client_with_hello(&mut stepper, &mut random);
        stepper.step(vec![first]);
        stepper.step(Vec::new());
        clients.push((client, second));
    }
    let more: Vec<_> = (0..MORE).map(|_| client_with_hello(&mut stepper, &mut random)).collect();
    let (mut more, hellos): (Vec<_>, Vec<_>) = more.into_iter().unzip();

    // As many connections become half-open as an iteration processes, plus one from the queue. The second
    // datagram of the latter is in the queue as well, after attempts that wait, but should not wait with
    // them.
    let [first, second] = [0, 1].map(|part| hellos.iter().map(move |hello| hello[part].clone()));
    stepper.step(first.chain(second).collect());
    while stepper.is_busy() {
        stepper.step(Vec::new());
    }
    let waiting = MORE - ATTEMPTS_PER_ITERATION_MAX - 1;
    assert_eq!((stepper.half_open(), stepper.waiting_attempts()), (HALF_OPEN_MAX, 2 * waiting));
    complete(&mut more[ATTEMPTS_PER_ITERATION_MAX], &mut stepper);

    // Others complete their handshakes, too, and each makes room for one that waits.
    for (client, second) in clients.iter_mut().take(2 * MORE) {
        stepper.step(vec![std::mem::take(second)]);
        complete(client, &mut stepper);
    }
    assert_eq!(stepper.waiting_attempts(), 0);
}

/// An iteration processes a few connection attempts, and they are answered in the end.
#[test]
fn connections_do_not_wait_for_a_flood() {
    const ATTEMPTS: usize = 150;
    let releases = Releases::build();
    let mut random = Random::new(1);
    let network = Network::new(1);
    let current = Arc::new(Current::new(Arc::clone(&releases.first)));
    let mut worker = worker(&network, &current, None, &mut random);
    let client = Rc::new(RefCell::new(Client::new(&mut random)));
    network.add_datagram_peer(address(0, 0), Rc::clone(&client) as _, Path::PERFECT);
    while !client.borrow().is_confirmed() {
        assert!(network.elapsed() < Duration::from_secs(10), "the client waits");
        worker.run_iteration(None);
    }

    // All of them arrive at the same time.
    let mut flood = Vec::new();
    for port in 0..ATTEMPTS {
        let vanishing = Rc::new(RefCell::new(Vanishing::new(&mut random)));
        network.add_datagram_peer(address(1, port), Rc::clone(&vanishing) as _, Path::PERFECT);
        flood.push(vanishing);
    }
    let waiting = |worker: &Worker<Simulated>| worker.http3.as_ref().expect("it serves").waiting_attempts();
    let mut most = 0;
    while !client.borrow().is_done() || waiting(&worker) > 0 {
        assert!(network.elapsed() < Duration::from_secs(120), "the client or an attempt waits");
        let before = waiting(&worker);
        worker.run_iteration(None);
        most = most.max(waiting(&worker));
        assert!(before <= waiting(&worker) + ATTEMPTS_PER_ITERATION_MAX, "{before} waited");
    }
    assert!(most > 2 * ATTEMPTS_PER_ITERATION_MAX, "{most} waited");
    assert_eq!(client.borrow().outcome(), Outcome::Complete);

    // If the socket has no room for a reply, the reply is lost and the client would have to repeat
    // its attempt.
    let end = worker.now() + Duration::from_secs(1);
    while worker.now() < end {
        worker.run_iteration(Some(end));
    }
    let answered = flood.iter().filter(|vanishing| vanishing.borrow().is_answered()).count();
    assert!(answered > ATTEMPTS / 4 * 3, "{answered} were answered");
}

/// The others get all datagrams and all responses.
#[test]
fn panic_ends_one_connection() {
    let releases = Releases::build();
    for place in [Place::Datagram, Place::Run] {
        let mut random = Random::new(1);
        let network = Network::new(1);
        let current = Arc::new(Current::new(Arc::clone(&releases.first)));
        let mut worker = worker(&network, &current, None, &mut random);
        // Datagrams of all clients arrive in the same iterations.
        let path = Path::PERFECT;
        let clients: Vec<_> = (0..3)
            .map(|number| {
                let client = Rc::new(RefCell::new(Client::new(&mut random)));
                network.add_datagram_peer(address(number, 0), Rc::clone(&client) as _, path);
                client
            })
            .collect();

        while !clients.iter().all(|client| client.borrow().is_confirmed()) {
            worker.run_guarded_iteration(None);
        }
        fault::arm(place, 0);
        while clients.iter().any(|client| !client.borrow().is_done()) {
            assert!(network.elapsed() < Duration::from_secs(120), "{place:?}: a client waits");
            worker.run_guarded_iteration(None);
        }
        assert!(fault::has_fired(), "{place:?}: no panic");
        let outcomes: Vec<_> = clients.iter().map(|client| client.borrow().outcome()).collect();
        let lost = outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Lost(_))).count();
        let complete = outcomes.iter().filter(|outcome| **outcome == Outcome::Complete).count();
        assert_eq!((lost, complete), (1, 2), "{place:?}: {outcomes:?}");
    }
}

/// Runs the scenario of a seed, with up to three clients, one worker, and sometimes a new release or a
/// shutdown.
///
/// # Errors
/// Returns an error if a client received another response, or none.
fn run(seed: u64, releases: &Releases) -> Result<(), String> {
    let mut random = Random::new(seed);
    let network = Network::new(random.number());
    let releases = releases.unshared();
    let current = Arc::new(Current::new(Arc::clone(&releases.first)));
    let predecessor = seed.is_multiple_of(4).then_some(PREDECESSOR);
    let mut worker = worker(&network, &current, predecessor, &mut random);

    let path = path(&mut random);
    let clients: Vec<_> = (0..random.size(3))
        .map(|number| {
            let client = Rc::new(RefCell::new(Client::new(&mut random)));
            (network.add_datagram_peer(address(number, 0), Rc::clone(&client) as _, path), client)
        })
        .collect();
    let release_at = random.once_in(3).then(|| random.below(200));
    let stop_at = random.once_in(6).then(|| random.below(300));
    // One client changes its port, once.
    let mut rebinds = random.once_in(2).then(|| random.below(3));

    let mut end = None;
    for iteration in 0.. {
        if iteration > ITERATIONS_MAX {
            return Err(format!("not idle after {:?}: {path:?}", network.elapsed()));
        }
        if release_at == Some(iteration) {
            current.replace(Arc::clone(&releases.second));
            network.wake();
        }
        if stop_at == Some(iteration) {
            end = Some(worker.begin_drain());
        }
        // RFC 9000 §9: not before the handshake is confirmed.
        if let Some(index) = rebinds
            && let Some((peer, client)) = clients.get(index)
            && client.borrow().is_confirmed()
            && random.once_in(50)
        {
            network.rebind(*peer, address(index, 1 + random.below(1000)));
            rebinds = None;
        }
        let are_done = clients.iter().all(|(_, client)| client.borrow().is_done());
        if are_done && worker.is_idle() || end.is_some_and(|end| worker.now() >= end) {
            break;
        }
        worker.run_iteration(end);
    }

    for (_, client) in &clients {
        let outcome = client.borrow().outcome();
        match outcome {
            Outcome::Complete => {}
            Outcome::Refused | Outcome::Unanswered if end.is_some() => {}
            outcome => return Err(format!("{outcome:?} over {path:?} after {:?}", network.elapsed())),
        }
    }
    Ok(())
}

/// Returns the datagrams that a client sends now.
fn transmitted(client: &mut Client, now: Instant) -> Vec<Vec<u8>> {
    let mut datagrams = Vec::new();
    while let Some(segments) = client.transmit(now) {
        datagrams
            .extend(segments.bytes.chunks(segments.segment_bytes.unwrap_or(usize::MAX)).map(<[u8]>::to_vec));
    }
    datagrams
}

/// Returns an address of a client, which changes its port.
pub(super) fn address(client: usize, port: usize) -> SocketAddr {
    let number = u8::try_from(client).expect("three clients");
    let port = u16::try_from(1024 + port).expect("a thousand ports");
    SocketAddr::new(Ipv4Addr::new(198, 51, 100, number).into(), port)
}

/// Creates a worker that serves the current release over HTTP/3 only. During a takeover, it will answer
/// the first connection attempts with Retry packets.
pub(super) fn worker(
    network: &Network,
    current: &Arc<Current>,
    predecessor: Option<SocketAddr>,
    random: &mut Random,
) -> Worker<Simulated> {
    let config = Config { drain: DRAIN, ..Config::plain(config::Content::dummy(b"")) };
    let listeners = [(ListenerKind::Plain, SimulatedListener)];
    let stop = Arc::new(StopFlag::default());
    let plan = Plan::new(&config, listeners, Arc::clone(current), stop, Observer::default());
    let plan = plan.with_http3(http3_plan(network, predecessor, random), ALT_SVC.to_owned());
    Worker::new(Simulated::new(network.clone()), plan).expect("the simulation watches any socket")
}

/// Returns everything that a worker needs to serve HTTP/3 on a network.
pub(super) fn http3_plan(
    network: &Network,
    predecessor: Option<SocketAddr>,
    random: &mut Random,
) -> Http3Plan<SimulatedDatagrams> {
    let mut seed = [0; 32];
    seed[..8].copy_from_slice(&random.number().to_le_bytes());
    Http3Plan {
        context: CONTEXT.clone(),
        worker: 0,
        generation: Generation::new(0),
        seed,
        sockets: vec![SimulatedDatagrams::bind(network, SERVER)],
        forwarding_socket: None,
        workers: Vec::new(),
        predecessors: predecessor.into_iter().collect(),
        drain: DRAIN,
        notices: std::sync::mpsc::channel().0,
    }
}

/// Returns a path that impairs datagrams in some of the possible ways.
fn path(random: &mut Random) -> Path {
    let mut some = |most: f64| if random.once_in(2) { random.fraction() * most } else { 0.0 };
    let (loss, duplication, corruption) = (some(0.08), some(0.1), some(0.03));
    let marking = some(0.2);
    Path {
        latency: Duration::from_millis(1 + random.below(80) as u64),
        jitter: Duration::from_millis(random.below(30) as u64),
        loss,
        duplication,
        corruption,
        marking,
        rebinding: 0.0,
        datagram_bytes_max: if random.once_in(3) { 1200 + random.below(272) } else { 1472 },
    }
}
