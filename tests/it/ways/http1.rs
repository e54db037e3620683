//! HTTP/1.1 on a connection that is kept: one request, one whole answer. Never pipelines.

use std::io::{Read, Write};

use super::http2::Ended;
use crate::site::{Response, parse};

/// A connection over some stream.
pub(crate) struct Http1<S> {
    stream: S,
}

impl<S: Read + Write> Http1<S> {
    pub(crate) fn over(stream: S) -> Http1<S> {
        Http1 { stream }
    }

    /// Sends a request and reads its answer, behind which no byte must come.
    pub(crate) fn ask(&mut self, request: &[u8], head_only: bool) -> Result<Response, Ended> {
        self.stream.write_all(request).and_then(|()| self.stream.flush()).map_err(Ended::Closed)?;
        let (mut received, mut chunk) = (Vec::new(), [0; 16_384]);
        let length = loop {
            if let Some(length) = length_of_first(&received, head_only)
                && received.len() >= length
            {
                break length;
            }
            match self.stream.read(&mut chunk).map_err(Ended::Closed)? {
                0 => return Err(Ended::Closed(std::io::ErrorKind::UnexpectedEof.into())),
                bytes => received.extend_from_slice(&chunk[..bytes]),
            }
        };
        assert_eq!(received.len(), length, "bytes behind the answer");
        let answer = parse(&received, head_only).0;
        // An interim answer is followed by the one that counts.
        if answer.status == 100 { self.ask(b"", head_only) } else { Ok(answer) }
    }
}

/// How long the answer is that bytes begin with, once its head is whole.
fn length_of_first(bytes: &[u8], head_only: bool) -> Option<usize> {
    let head = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let answer = parse(&bytes[..head], true).0;
    let length = answer.field("Content-Length").map_or(0, |length| length.parse().unwrap());
    let has_none = head_only || matches!(answer.status, 100 | 204 | 304);
    Some(head + if has_none { 0 } else { length })
}
