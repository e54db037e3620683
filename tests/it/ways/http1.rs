//! HTTP/1.1 client on a persistent connection, with pipelining.

use std::io::{ErrorKind, Read, Write};

use super::http2::Ended;
use crate::site::{Response, parse};

/// A connection over some stream.
pub(crate) struct Http1<S> {
    stream: S,
    /// Bytes received after the last response that was returned.
    received: Vec<u8>,
}

impl<S: Read + Write> Http1<S> {
    pub(crate) fn over(stream: S) -> Http1<S> {
        Http1 { stream, received: Vec::new() }
    }

    /// Sends a request and reads its response, which must be the last byte that the server sends.
    pub(crate) fn ask(&mut self, request: &[u8], head_only: bool) -> Result<Response, Ended> {
        self.send(request).map_err(Ended::Closed)?;
        let response = self.receive(head_only)?;
        assert!(self.received.is_empty(), "bytes after the response");
        Ok(response)
    }

    /// Sends bytes, such as several requests at once.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.write_all(bytes).and_then(|()| self.stream.flush())
    }

    /// Returns `true` if bytes after the last response that was returned have been received.
    pub(crate) fn has_received(&self) -> bool {
        !self.received.is_empty()
    }

    /// Reads the next final response. `head_only` is set for the response to a `HEAD` request.
    pub(crate) fn receive(&mut self, head_only: bool) -> Result<Response, Ended> {
        let mut chunk = [0; 16_384];
        loop {
            if let Some(length) = length_of_first(&self.received, head_only)
                && self.received.len() >= length
            {
                let response = parse(&self.received[..length], head_only).0;
                self.received.drain(..length);
                // A final response follows an interim one.
                if response.status != 100 {
                    return Ok(response);
                }
                continue;
            }

            match self.stream.read(&mut chunk).map_err(Ended::Closed)? {
                0 => return Err(Ended::Closed(ErrorKind::UnexpectedEof.into())),
                bytes => self.received.extend_from_slice(&chunk[..bytes]),
            }
        }
    }
}

/// Returns the length of the response that `bytes` begin with, or `None` while its head is incomplete.
fn length_of_first(bytes: &[u8], head_only: bool) -> Option<usize> {
    let head = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let response = parse(&bytes[..head], true).0;
    let length = response.field("Content-Length").map_or(0, |length| length.parse().unwrap());
    let has_none = head_only || matches!(response.status, 100 | 204 | 304);
    Some(head + if has_none { 0 } else { length })
}
