//! Questions and answers on one connection, over whichever wire: for checks before anything is timed, and to warm up.
//!
//! What is timed is asked by load generators. TLS is that of rustls, and heads of HTTP/2 are decoded by a library that is
//! not ours, so that nothing that is measured is trusted with its own check.

mod http2;
mod secured;
mod tickets;

use std::io::{self, BufReader, Read, Write};
use std::net::{SocketAddrV4, TcpStream};
use std::time::Duration;

use rustls::{ClientConnection, StreamOwned};

pub(crate) use secured::{Client, is_resumed};

use self::http2::Http2;
use super::answer::Answer;
use super::question::Question;
use super::wire::{Key, Protocol};
use crate::error::Error;

/// How long any answer may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// A connection that stands.
pub(crate) struct Conversation {
    address: SocketAddrV4,
    speaker: Speaker,
}

enum Speaker {
    Http1(BufReader<Line>),
    Http2(Box<Http2>),
}

/// What bytes go through.
enum Line {
    Clear(TcpStream),
    Secured(Box<StreamOwned<ClientConnection, TcpStream>>),
}

/// Whoever opens conversations with one server, all over the same wire.
pub(crate) struct Caller {
    address: SocketAddrV4,
    protocol: Protocol,
    client: Option<Client>,
}

impl Caller {
    /// For conversations as a question wants them.
    pub(crate) fn new(address: SocketAddrV4, question: &Question) -> Result<Caller, Error> {
        let wire = question.wire();
        let client = wire.key.map(|key: Key| Client::new(key, wire.protocol)).transpose()?;
        Ok(Caller { address, protocol: wire.protocol, client })
    }

    /// Connects, with all handshakes.
    pub(crate) fn call(&self) -> io::Result<Conversation> {
        let connection = TcpStream::connect(self.address)?;
        connection.set_read_timeout(Some(PATIENCE))?;
        connection.set_nodelay(true)?;
        let line = match &self.client {
            None => Line::Clear(connection),
            Some(client) => Line::Secured(Box::new(client.secure(connection)?)),
        };
        let speaker = match self.protocol {
            Protocol::Http1 => Speaker::Http1(BufReader::new(line)),
            Protocol::Http2 => Speaker::Http2(Box::new(Http2::open(BufReader::new(line))?)),
        };
        Ok(Conversation { address: self.address, speaker })
    }
}

impl Conversation {
    /// Asks, and waits for the answer.
    pub(crate) fn ask(&mut self, question: &Question, target: &str) -> io::Result<Answer> {
        self.send(question, target)?;
        self.receive()
    }

    /// Asks. Over HTTP/2 the answer is to be received before the next question.
    pub(crate) fn send(&mut self, question: &Question, target: &str) -> io::Result<()> {
        match &mut self.speaker {
            Speaker::Http1(line) => line.get_mut().write_all(&question.spell(self.address, target)),
            Speaker::Http2(http2) => http2.send(&question.fields_of_http2(self.address, target)),
        }
    }

    /// The next answer.
    pub(crate) fn receive(&mut self) -> io::Result<Answer> {
        match &mut self.speaker {
            Speaker::Http1(line) => Answer::read(line),
            Speaker::Http2(http2) => http2.receive(),
        }
    }
}

impl Read for Line {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Line::Clear(connection) => connection.read(bytes),
            Line::Secured(stream) => stream.read(bytes),
        }
    }
}

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Line::Clear(connection) => connection.write(bytes),
            Line::Secured(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Line::Clear(connection) => connection.flush(),
            Line::Secured(stream) => stream.flush(),
        }
    }
}
