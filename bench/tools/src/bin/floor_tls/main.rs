//! The floor over TLS: the least work with which one thread can answer requests over TLS 1.3 through epoll.
//!
//! It makes real handshakes, with the server's library for cryptography but with no other, opens each record, and seals prepared
//! responses. It parses no request beyond its end. It is not a server and must never be reachable from outside: it listens on
//! 127.0.0.1 only. CPU time that a real server needs beyond the floor's is the server's own.
//!
//! ```text
//! floor_tls PORT CERTIFICATE KEY RESPONSES http1|http1-close|http2
//! ```
//!
//! RESPONSES has the format of `floor.c`: complete responses, each after its length as eight bytes, least significant first. For
//! HTTP/2, responses are frames: the first is for a connection's first request, and the last for each other.

#![forbid(unsafe_code)]

mod handshake;
mod http2;
mod record;

use std::env;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::ExitCode;

use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::net::{AddressFamily, SocketFlags, SocketType, accept_with, bind, listen, socket_with, sockopt};

use crate::handshake::{Awaited, Identity};
use crate::http2::{Frames, Http2};
use crate::record::{
    ALERT, APPLICATION_DATA, CHANGE_CIPHER_SPEC, HANDSHAKE, HEADER_BYTES, Keys, RECORD_BYTES_MAX,
};

/// The reason for which a connection is closed.
type Refusal = &'static str;

const EVENTS_MAX: usize = 512;
const BACKLOG: i32 = 4096;
const LENGTH_BYTES: usize = 8;

/// The alert that ends a connection: a warning, close_notify.
const CLOSE_NOTIFY: [u8; 2] = [1, 0];

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args().skip(1).collect();
    match run(&arguments) {
        Ok(never) => match never {},
        Err(error) => {
            eprintln!("floor_tls: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<std::convert::Infallible, String> {
    let [port, certificate, key, responses, mode] = arguments else {
        return Err("usage: floor_tls PORT CERTIFICATE KEY RESPONSES http1|http1-close|http2".into());
    };
    let port = port.parse().map_err(|_| format!("not a port: {port}"))?;
    let identity = Identity::read(Path::new(certificate), Path::new(key))?;
    let file = fs::read(responses).map_err(|error| format!("{responses}: {error}"))?;
    let answers = Answers::new(&file, mode)?;
    let describe = |error: io::Error| error.to_string();
    let listener = listen_on(port).map_err(describe)?;
    println!("https://127.0.0.1:{port}/");
    serve(&listener, &identity, &answers).map_err(describe)
}

/// The prepared responses.
enum Answers {
    Http1 {
        responses: Vec<Vec<u8>>,
        /// Whether a connection ends with its first response.
        closes: bool,
    },
    Http2(Vec<Frames>),
}

impl Answers {
    /// Reads the responses of a file.
    fn new(mut file: &[u8], mode: &str) -> Result<Answers, String> {
        let mut responses = Vec::new();
        while let Some((length, rest)) = file.split_first_chunk::<LENGTH_BYTES>() {
            let length = usize::try_from(u64::from_le_bytes(*length)).unwrap_or(usize::MAX);
            let (response, rest) =
                rest.split_at_checked(length).ok_or("a response is longer than the file")?;
            responses.push(response.to_vec());
            file = rest;
        }
        if responses.is_empty() || !file.is_empty() {
            return Err("the file is not a list of responses".into());
        }
        match mode {
            "http1" => Ok(Answers::Http1 { responses, closes: false }),
            "http1-close" => Ok(Answers::Http1 { responses, closes: true }),
            "http2" => {
                let frames = responses.iter().map(|response| Frames::new(response));
                frames.collect::<Option<_>>().map(Answers::Http2).ok_or("not frames of HTTP/2".into())
            }
            _ => Err(format!("no such mode: {mode}")),
        }
    }

    /// Returns the protocol that the handshake selects.
    fn protocol(&self) -> Option<&'static [u8]> {
        matches!(self, Answers::Http2(_)).then_some(b"h2")
    }
}

fn listen_on(port: u16) -> io::Result<TcpListener> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let listener = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
    // Without it, a second run on the same port would wait a minute for old connections.
    sockopt::set_socket_reuseaddr(&listener, true)?;
    bind(&listener, &std::net::SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))?;
    listen(&listener, BACKLOG)?;
    Ok(listener.into())
}

fn serve(
    listener: &TcpListener,
    identity: &Identity,
    answers: &Answers,
) -> io::Result<std::convert::Infallible> {
    // Edge-triggered as in `floor.c`, so a connection is registered once for both directions.
    let readiness = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET;
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let token = |socket: &dyn AsRawFd| {
        epoll::EventData::new_u64(u64::try_from(socket.as_raw_fd()).expect("descriptors are positive"))
    };
    epoll::add(&poll, listener, token(listener), epoll::EventFlags::IN)?;

    let mut events = Vec::with_capacity(EVENTS_MAX);
    let mut connections: Vec<Option<Connection>> = Vec::new();
    let mut worker = Worker {
        identity,
        answers,
        next: 0,
        input: vec![0; 2 * RECORD_BYTES_MAX],
        output: Vec::new(),
        plain: Vec::new(),
    };
    loop {
        events.clear();
        match epoll::wait(&poll, spare_capacity(&mut events), None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in &events {
            let place = usize::try_from(event.data.u64()).expect("tokens are descriptors");
            if event.data.u64() == token(listener).u64() {
                accept_all(listener, |socket| {
                    epoll::add(&poll, &socket, token(&socket), readiness)?;
                    let place = usize::try_from(socket.as_raw_fd()).expect("descriptors are positive");
                    if connections.len() <= place {
                        connections.resize_with(place + 1, || None);
                    }
                    connections[place] = Some(Connection::new(socket));
                    Ok(())
                })?;
                continue;
            }
            let Some(Some(connection)) = connections.get_mut(place) else { continue };
            let flags = event.flags;
            let is_readable = flags.intersects(!epoll::EventFlags::OUT);
            if worker.handle(connection, is_readable).is_err() {
                connections[place] = None;
            }
        }
    }
}

fn accept_all(listener: &TcpListener, mut add: impl FnMut(TcpStream) -> io::Result<()>) -> io::Result<()> {
    loop {
        match accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
            Ok(socket) => {
                let socket = TcpStream::from(socket);
                socket.set_nodelay(true)?;
                add(socket)?;
            }
            // A client may disconnect before it is accepted.
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::CONNABORTED) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

struct Connection {
    socket: TcpStream,
    stage: Stage,
    /// The beginning of a record.
    partial: Vec<u8>,
    /// Records that the socket hasn't accepted yet.
    unsent: Vec<u8>,
    http2: Http2,
}

enum Stage {
    /// The client sends its ClientHello.
    Hello,
    /// The client sends its Finished.
    Finished(Box<Awaited>),
    /// The client sends requests.
    Open { receiving: Box<Keys>, sending: Box<Keys> },
    /// Either side has ended the connection.
    Ended,
}

impl Connection {
    fn new(socket: TcpStream) -> Connection {
        let http2 = Http2::default();
        Connection { socket, stage: Stage::Hello, partial: Vec::new(), unsent: Vec::new(), http2 }
    }

    /// Sends as much as the socket accepts, and stores the rest.
    fn send(&mut self, records: &[u8]) -> io::Result<()> {
        let sent = match self.socket.write(records) {
            Ok(sent) => sent,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Err(error) => return Err(error),
        };
        self.unsent.extend_from_slice(&records[sent..]);
        Ok(())
    }
}

/// State that all connections share.
struct Worker<'a> {
    identity: &'a Identity,
    answers: &'a Answers,
    /// The number of the next response over HTTP/1.
    next: usize,
    input: Vec<u8>,
    /// Sealed records.
    output: Vec<u8>,
    /// Frames before they are sealed.
    plain: Vec<u8>,
}

impl Worker<'_> {
    /// Sends what is unsent, and answers what has arrived. The connection ends with an error.
    fn handle(&mut self, connection: &mut Connection, is_readable: bool) -> Result<(), ()> {
        if !connection.unsent.is_empty() {
            let unsent = std::mem::take(&mut connection.unsent);
            connection.send(&unsent).map_err(drop)?;
        }
        if !is_readable {
            return Ok(());
        }
        loop {
            let start = connection.partial.len();
            self.input[..start].copy_from_slice(&connection.partial);
            connection.partial.clear();
            let received = match connection.socket.read(&mut self.input[start..]) {
                Ok(0) => return Err(()),
                Ok(received) => received,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    connection.partial.extend_from_slice(&self.input[..start]);
                    return Ok(());
                }
                Err(_) => return Err(()),
            };

            let end = start + received;
            self.output.clear();
            let read = self.answer(connection, end).map_err(|reason| eprintln!("floor_tls: {reason}"))?;
            connection.partial.extend_from_slice(&self.input[read..end]);
            if !self.output.is_empty() {
                connection.send(&self.output).map_err(drop)?;
            }
            if matches!(connection.stage, Stage::Ended) {
                return Err(());
            }
            // There is no other event for data that didn't fit.
            if end < self.input.len() {
                return Ok(());
            }
        }
    }

    /// Handles the records of the input. Returns the length of the complete ones.
    fn answer(&mut self, connection: &mut Connection, end: usize) -> Result<usize, Refusal> {
        self.plain.clear();
        let mut read = 0;
        while let Some(header) = self.input[read..end].first_chunk::<HEADER_BYTES>() {
            let record_end = read + HEADER_BYTES + usize::from(u16::from_be_bytes([header[3], header[4]]));
            if record_end - read > RECORD_BYTES_MAX {
                return Err("a record is too long");
            }
            if record_end > end {
                break;
            }
            let record = &mut self.input[read..record_end];
            read = record_end;
            if record[0] == CHANGE_CIPHER_SPEC {
                continue;
            }
            connection.stage = match std::mem::replace(&mut connection.stage, Stage::Ended) {
                Stage::Hello if record[0] == HANDSHAKE => {
                    let hello = &record[HEADER_BYTES..];
                    let protocol = self.answers.protocol();
                    let awaited = handshake::answer(self.identity, hello, protocol, &mut self.output)?;
                    Stage::Finished(Box::new(awaited))
                }
                Stage::Hello => return Err("not a handshake"),
                Stage::Finished(awaited) => {
                    let (receiving, sending) = awaited.finish(record)?;
                    Stage::Open { receiving: Box::new(receiving), sending: Box::new(sending) }
                }
                Stage::Open { mut receiving, mut sending } => {
                    let (content_type, length) = receiving.open(record)?;
                    let content = &record[HEADER_BYTES..][..length];
                    let mut has_ended = content_type == ALERT;
                    match self.answers {
                        Answers::Http1 { responses, closes } if content.ends_with(b"\r\n\r\n") => {
                            sending.seal(APPLICATION_DATA, &responses[self.next], &mut self.output);
                            self.next = (self.next + 1) % responses.len();
                            if *closes {
                                sending.seal(ALERT, &CLOSE_NOTIFY, &mut self.output);
                                has_ended = true;
                            }
                        }
                        Answers::Http2(responses) if content_type == APPLICATION_DATA => {
                            connection.http2.receive(content, responses, &mut self.plain)?;
                        }
                        _ => {}
                    }
                    if has_ended { Stage::Ended } else { Stage::Open { receiving, sending } }
                }
                Stage::Ended => return Ok(read),
            };
        }
        // All frames of one read share records.
        if let Stage::Open { sending, .. } = &mut connection.stage
            && !self.plain.is_empty()
        {
            sending.seal(APPLICATION_DATA, &self.plain, &mut self.output);
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::sync::Arc;
    use std::thread;

    use cannery_testkit::http2::{self, Client};
    use cannery_testkit::tls::{self, ClientOptions};
    use rustls::crypto::aws_lc_rs::kx_group::{X25519, X25519MLKEM768};
    use rustls::crypto::{CryptoProvider, aws_lc_rs};

    use super::*;

    const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

    /// Starts a floor that runs until the tests end.
    fn start(mode: &'static str, responses: &[&[u8]]) -> SocketAddr {
        let certificate = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
        let key = certificate.signing_key.serialize_der();
        let identity = Identity::new(certificate.cert.der(), &key).unwrap();
        let with_length = |response: &&[u8]| [&(response.len() as u64).to_le_bytes()[..], response].concat();
        let file: Vec<u8> = responses.iter().flat_map(with_length).collect();
        let answers = Answers::new(&file, mode).unwrap();
        let listener = listen_on(0).unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || serve(&listener, &identity, &answers));
        address
    }

    fn connect(address: SocketAddr, options: ClientOptions) -> tls::TlsStream {
        let stream = TcpStream::connect(address).unwrap();
        tls::connect(stream, "localhost", Arc::new(options.tls13().build())).unwrap()
    }

    #[test]
    fn every_request_gets_the_next_response() {
        let large =
            [b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n".to_vec(), vec![7; 100_000]].concat();
        let mut client = connect(start("http1", &[RESPONSE, &large]), ClientOptions::default());
        for response in [RESPONSE, &large, RESPONSE] {
            client.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
            let mut received = vec![0; response.len()];
            client.read_exact(&mut received).unwrap();
            assert!(received == response);
        }
    }

    #[test]
    fn handshakes_work_with_both_groups_and_end_after_a_response() {
        let address = start("http1-close", &[RESPONSE]);
        for group in [X25519, X25519MLKEM768] {
            let provider = CryptoProvider { kx_groups: vec![group], ..aws_lc_rs::default_provider() };
            let mut client = connect(address, ClientOptions::default().provider(provider));
            assert_eq!(client.conn.negotiated_key_exchange_group().unwrap().name(), group.name());
            client.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
            let mut received = Vec::new();
            // This fails without close_notify.
            client.read_to_end(&mut received).unwrap();
            assert_eq!(received, RESPONSE);
        }
    }

    #[test]
    fn streams_get_the_first_frames_once() {
        let block = http2::field_block(&[(":status", "200"), ("content-length", "5")]);
        let frames = |content: &[u8]| {
            [http2::headers(0, 0, &block), http2::data(0, http2::END_STREAM, content)].concat()
        };
        let address = start("http2", &[&frames(b"first"), &frames(b"later")]);
        let tls = connect(address, ClientOptions::default().protocols(&["h2"]));
        assert_eq!(tls.conn.alpn_protocol(), Some(b"h2".as_slice()));
        let mut client = Client::new(tls);
        let request = [(":method", "GET"), (":scheme", "https"), (":authority", "localhost"), (":path", "/")];
        for content in [b"first", b"later", b"later"] {
            assert_eq!(client.request(&request).unwrap().body, content);
        }
    }
}
