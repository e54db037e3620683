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

/// Limit for one response.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(20);

/// Returns the bytes of a GET request.
pub(crate) fn request(version: &str, address: SocketAddrV4, target: &str, headers: &[String]) -> Vec<u8> {
    let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    format!("GET {target} HTTP/{version}\r\nHost: {address}\r\n{headers}\r\n").into_bytes()
}

/// Opens a connection with a read timeout.
pub(crate) fn connect(address: SocketAddrV4) -> Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address.into(), TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// A response as it was received.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) bytes: Vec<u8>,
    header_bytes: usize,
}

impl Response {
    /// Reads a response with a Content-Length, or without content.
    ///
    /// # Errors
    ///
    /// Fails if the connection ends early or the response has another framing.
    pub(crate) fn read(stream: &mut impl BufRead) -> Result<Response> {
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

    /// Returns the value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.header_section().lines().find_map(|line| value_of(line, name))
    }

    fn header_section(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.header_bytes]).unwrap_or_default()
    }

    /// Returns the content as it was sent, with its content coding.
    pub(crate) fn content(&self) -> &[u8] {
        &self.bytes[self.header_bytes..]
    }

    /// Fails if the status isn't 200 or the content is another one.
    pub(crate) fn expect(&self, content: &[u8]) -> Result<()> {
        ensure!(self.status == 200 && self.content() == content, "the response differs from the file");
        Ok(())
    }
}

/// Returns the value of a header line if it has this name.
pub(crate) fn value_of<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let (other, value) = line.split_once(':')?;
    other.eq_ignore_ascii_case(name).then(|| value.trim())
}

/// Sends a request on a new connection and returns the response.
pub(crate) fn exchange(address: SocketAddrV4, request: &[u8]) -> Result<Response> {
    let mut stream = connect(address)?;
    stream.write_all(request)?;
    Response::read(&mut BufReader::new(stream))
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
