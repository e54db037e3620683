//! HTTP/1 requests as bytes, and the bytes of their responses.
//!
//! The load generators of our own and the floor need exact bytes. Everything else about responses is curl's (`check`).
//!
//! We don't use the testkit here, because it panics on framing that Cannery never sends. Benchmarks also measure other
//! servers, and report such a response as an error.

use std::io::{self, BufRead, Read, Write};
use std::net::{SocketAddrV4, TcpStream};
use std::time::Duration;

/// Limit for one response.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(20);

/// Returns the bytes of a GET request.
pub(crate) fn request(version: &str, address: SocketAddrV4, target: &str, headers: &[String]) -> Vec<u8> {
    let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    format!("GET {target} HTTP/{version}\r\nHost: {address}\r\n{headers}\r\n").into_bytes()
}

/// Opens a connection with a read timeout.
pub(crate) fn connect(address: SocketAddrV4) -> io::Result<TcpStream> {
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
    pub(crate) fn read(stream: &mut impl BufRead) -> io::Result<Response> {
        let malformed = || io::Error::new(io::ErrorKind::InvalidData, "a response without status or length");
        let mut bytes = Vec::new();
        let mut length = None;
        loop {
            let start = bytes.len();
            stream.read_until(b'\n', &mut bytes)?;
            let line = bytes[start..].strip_suffix(b"\r\n").ok_or_else(malformed)?;
            if line.is_empty() {
                break;
            }
            let line = String::from_utf8_lossy(line);
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().ok();
            }
        }

        let status_line = String::from_utf8_lossy(&bytes);
        let status =
            status_line.split(' ').nth(1).and_then(|word| word.parse().ok()).ok_or_else(malformed)?;
        let header_bytes = bytes.len();
        let length: u64 = if status == 304 { 0 } else { length.ok_or_else(malformed)? };
        stream.take(length).read_to_end(&mut bytes)?;
        if ((bytes.len() - header_bytes) as u64) < length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(Response { status, bytes, header_bytes })
    }

    /// Returns the content as it was sent, with its content coding.
    pub(crate) fn content(&self) -> &[u8] {
        &self.bytes[self.header_bytes..]
    }
}

/// Sends a request on a new connection and returns the response.
pub(crate) fn exchange(address: SocketAddrV4, request: &[u8]) -> io::Result<Response> {
    let mut stream = connect(address)?;
    stream.write_all(request)?;
    Response::read(&mut io::BufReader::new(stream))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> io::Result<Response> {
        Response::read(&mut text.as_bytes())
    }

    #[test]
    fn a_response_ends_after_its_content_length() {
        let text = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 304 Not Modified\r\n\r\n";
        let mut stream = text.as_bytes();
        let first = Response::read(&mut stream).unwrap();
        assert_eq!((first.status, first.content(), first.bytes.len()), (200, b"ok".as_slice(), 40));
        assert_eq!(Response::read(&mut stream).unwrap().status, 304);
        assert!(stream.is_empty());
    }

    #[test]
    fn an_incomplete_response_is_an_error() {
        assert!(read("").is_err());
        assert!(read("HTTP/1.1 200 OK\r\n").is_err());
        assert!(read("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab").is_err());
        assert!(read("HTTP/1.1 200 OK\r\n\r\n").is_err());
    }
}
