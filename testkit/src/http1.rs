//! HTTP/1.1 client (RFC 9112) for persistent connections, with pipelining.

use std::io::{self, ErrorKind, Read, Write};

use crate::{Ended, Response};

/// A connection over any stream.
#[derive(Debug)]
pub struct Client<S> {
    stream: S,
    /// Bytes received after the last response that was returned.
    received: Vec<u8>,
}

impl<S: Read + Write> Client<S> {
    /// Uses a stream on which no response is pending.
    pub fn new(stream: S) -> Client<S> {
        Client { stream, received: Vec::new() }
    }

    /// Sends a request with this method and reads its response.
    ///
    /// # Errors
    ///
    /// Fails if the server closes the connection before the end of the response.
    ///
    /// # Panics
    ///
    /// Panics if the response is malformed, or if bytes follow it.
    pub fn request(&mut self, request: &[u8], method: &str) -> Result<Response, Ended> {
        self.send(request)?;
        let response = self.receive(method)?;
        assert!(self.received.is_empty(), "bytes after the response");
        Ok(response)
    }

    /// Sends bytes, such as several requests at once.
    ///
    /// # Errors
    ///
    /// Fails if the server has closed the connection.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).and_then(|()| self.stream.flush())
    }

    /// Returns `true` if bytes after the last response that was returned have been received.
    pub fn has_received(&self) -> bool {
        !self.received.is_empty()
    }

    /// Reads the next final response, given the method of its request. Interim responses are skipped.
    ///
    /// # Errors
    ///
    /// Fails if the server closes the connection before the end of the response.
    pub fn receive(&mut self, method: &str) -> Result<Response, Ended> {
        let mut chunk = [0; 16_384];
        loop {
            if let Some(length) = response_length(&self.received, method)
                && self.received.len() >= length
            {
                let response = parse(&self.received[..length], method).0;
                self.received.drain(..length);
                if response.status >= 200 {
                    return Ok(response);
                }
                continue;
            }

            match self.stream.read(&mut chunk)? {
                0 => return Err(Ended::Closed(ErrorKind::UnexpectedEof.into())),
                bytes => self.received.extend_from_slice(&chunk[..bytes]),
            }
        }
    }
}

/// Parses the response at the start of `bytes`, given the method of its request. Also returns the bytes that follow it.
///
/// # Panics
///
/// Panics unless each line ends with CRLF, a space follows each colon, and `Content-Length` states the length of the content (the
/// server should not send any other framing).
#[must_use]
pub fn parse<'b>(bytes: &'b [u8], method: &str) -> (Response, &'b [u8]) {
    let end = find_head_end(bytes);
    let end = end.unwrap_or_else(|| panic!("no header section in {:?}", String::from_utf8_lossy(bytes)));
    let head = str::from_utf8(&bytes[..end - 4]).unwrap();
    let mut lines = head.split("\r\n");
    let status_line = lines.next().unwrap();
    let status = status_line.strip_prefix("HTTP/1.1 ").unwrap()[..3].parse().unwrap();
    let fields = lines.map(|line| line.split_once(": ").unwrap()).map(|(a, b)| (a.to_owned(), b.to_owned()));
    let mut response = Response { status, fields: fields.collect(), body: Vec::new() };

    let rest = &bytes[end..];
    if method == "HEAD" || matches!(status, 100..=199 | 204 | 304) {
        return (response, rest);
    }
    let (body, rest) = rest.split_at(content_length(&response));
    response.body = body.to_vec();
    (response, rest)
}

/// Returns the length of the response at the start of `bytes`, or `None` while its head is incomplete.
fn response_length(bytes: &[u8], method: &str) -> Option<usize> {
    let head = find_head_end(bytes)?;
    let response = parse(&bytes[..head], "HEAD").0;
    let has_no_content = method == "HEAD" || matches!(response.status, 100..=199 | 204 | 304);
    let content = if has_no_content { 0 } else { content_length(&response) };
    Some(head + content)
}

fn content_length(response: &Response) -> usize {
    response.field("Content-Length").expect("Content-Length is always sent").parse().unwrap()
}

/// Returns the position after the empty line that ends a header section.
fn find_head_end(bytes: &[u8]) -> Option<usize> {
    bytes.windows(4).position(|window| window == b"\r\n\r\n").map(|position| position + 4)
}
