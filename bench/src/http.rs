//! HTTP/1 requests as bytes, and the bytes of their responses.
//!
//! The load generators of our own and the floor need exact bytes. Everything else about responses is curl's (`check`).
//!
//! We don't use the testkit here, because it panics on framing that Cannery never sends. Benchmarks also measure other
//! servers, and report such a response as an error.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddrV4, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::machine::wait_until;

/// Limit for one response.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(20);

/// Returns the bytes of a GET request.
pub(crate) fn request(version: &str, address: SocketAddrV4, target: &str, headers: &[String]) -> Vec<u8> {
    let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    format!("GET {target} HTTP/{version}\r\nHost: {address}\r\n{headers}\r\n").into_bytes()
}

/// Requests a target on a new connection.
pub(crate) fn get(address: SocketAddrV4, target: &str, headers: &[String]) -> Result<Response> {
    let mut connection = Connection::open(address)?;
    connection.send(&request("1.1", address, target, headers))?;
    connection.receive()
}

/// Waits until a target is sent with a content coding.
pub(crate) fn await_coding(address: SocketAddrV4, target: &str, coding: &str, limit: Duration) -> Result<()> {
    let headers = [format!("Accept-Encoding: {coding}")];
    let is_coded = || Ok(get(address, target, &headers)?.header("content-encoding") == Some(coding));
    wait_until(limit, Duration::from_millis(50), is_coded).context("it is never compressed")
}

/// A persistent connection with a read timeout.
pub(crate) struct Connection(BufReader<TcpStream>);

impl Connection {
    pub(crate) fn open(address: SocketAddrV4) -> Result<Connection> {
        let stream = TcpStream::connect_timeout(&address.into(), TIMEOUT)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_nodelay(true)?;
        Ok(Connection(BufReader::new(stream)))
    }

    pub(crate) fn send(&mut self, request: &[u8]) -> Result<()> {
        Ok(self.0.get_mut().write_all(request)?)
    }

    pub(crate) fn receive(&mut self) -> Result<Response> {
        Response::read(&mut self.0)
    }

    /// Reads to the end of a text that isn't a response.
    pub(crate) fn skip_to(&mut self, text: &[u8]) -> Result<()> {
        let mut received = Vec::new();
        let mut byte = [0];
        while !received.ends_with(text) {
            self.0.read_exact(&mut byte)?;
            received.extend(byte);
        }
        Ok(())
    }
}

/// A response as it was received.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) bytes: Vec<u8>,
    header_bytes: usize,
}

impl Response {
    /// Reads a response with a Content-Length, or without content. Any other framing is an error.
    fn read(stream: &mut impl BufRead) -> Result<Response> {
        let mut bytes = Vec::new();
        while !bytes.ends_with(b"\r\n\r\n") {
            ensure!(stream.read_until(b'\n', &mut bytes)? > 0, "the connection ends within a response");
        }
        let mut response = Response { status: 0, header_bytes: bytes.len(), bytes };
        let status = response.header_section().split(' ').nth(1).and_then(|status| status.parse().ok());
        response.status = status.context("a response without status")?;
        if response.status != 304 {
            let length = response.header("content-length").and_then(|length| length.parse::<u64>().ok());
            let length = length.context("a response without length")?;
            let received = stream.take(length).read_to_end(&mut response.bytes)?;
            ensure!(received as u64 == length, "the connection ends within a response");
        }
        Ok(response)
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.header_section().lines().find_map(|line| field_value(line, name))
    }

    fn header_section(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.header_bytes]).unwrap_or_default()
    }

    /// Returns the content as it was sent, with its content coding.
    pub(crate) fn content(&self) -> &[u8] {
        &self.bytes[self.header_bytes..]
    }

    /// Returns the content of a page or script.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(self.content()).into_owned()
    }

    /// Fails if the status isn't 200 or the content is another one.
    pub(crate) fn expect(&self, content: &[u8]) -> Result<()> {
        ensure!(self.status == 200 && self.content() == content, "the response differs from the file");
        Ok(())
    }
}

/// Returns the value of a header line if it has this name.
pub(crate) fn field_value<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let (other, value) = line.split_once(':')?;
    other.eq_ignore_ascii_case(name).then(|| value.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_ends_after_its_content_length() {
        let text = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 304 Not Modified\r\n\r\n";
        let mut stream = text.as_bytes();
        let first = Response::read(&mut stream).unwrap();
        assert_eq!((first.status, first.content(), first.bytes.len()), (200, b"ok".as_slice(), 40));
        assert_eq!(Response::read(&mut stream).unwrap().status, 304);
        assert!(stream.is_empty());
        first.expect(b"ok").unwrap();
        first.expect(b"no").unwrap_err();
    }

    #[test]
    fn an_incomplete_response_is_an_error() {
        for text in [
            "",
            "HTTP/1.1 200 OK\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab",
            "HTTP/1.1 200 OK\r\n\r\n",
        ] {
            Response::read(&mut text.as_bytes()).unwrap_err();
        }
    }
}
