//! Sending: what is spelled goes out in one call, and what is more than the socket or a turn has room for is kept.
//!
//! Never copies a range of the archive: what is kept refers to it, and keeps its content alive.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::time::Instant;

use cannery_archive::Extent;
use cannery_eventloop::Socket;
use cannery_wire::limits::{SEGMENTS_MAX, ZERO_COPY_BODY_BYTES_MIN};
use cannery_wire::{Output, Segment};

use super::transport::Outlet;
use crate::content::Content;

/// What a connection still has to send.
#[derive(Debug)]
pub(super) struct Unsent {
    content: Arc<Content>,
    /// When its requests were answered.
    since: Instant,
    /// Our own bytes of all segments, one after the other.
    bytes: Vec<u8>,
    segments: VecDeque<Segment>,
    /// Of our own bytes, those that are sent.
    bytes_sent: usize,
    /// Of the first segment, the bytes that are sent.
    segment_sent: u64,
}

/// Sends what `output` holds, but no more than `bytes_max`, which is less by that much afterwards, and empties it, also
/// where the socket is broken: else the next peer would be sent what was this one's. What is not sent comes back.
pub(super) fn send_output(
    outlet: &mut Outlet<'_, impl Socket>,
    output: &mut Output,
    content: &Arc<Content>,
    now: Instant,
    bytes_max: &mut u64,
) -> io::Result<Option<Box<Unsent>>> {
    let unsent = send_parts(outlet, output, content, now, bytes_max);
    output.clear();
    unsent
}

/// The same, but for emptying it.
#[inline]
fn send_parts(
    outlet: &mut Outlet<'_, impl Socket>,
    output: &mut Output,
    content: &Arc<Content>,
    now: Instant,
    bytes_max: &mut u64,
) -> io::Result<Option<Box<Unsent>>> {
    let total = output.length();
    let sent = match output.inline_only() {
        _ if total == 0 => return Ok(None),
        _ if *bytes_max == 0 => 0,
        // Small answers are nothing else.
        Some(bytes) => outlet.send(up_to(bytes, *bytes_max))?,
        None => send_segments(outlet, output, content, *bytes_max)?,
    };
    *bytes_max -= sent as u64;
    if sent as u64 == total { Ok(None) } else { Ok(Some(keep(output, sent as u64, content, now))) }
}

/// Sends our own bytes and ranges of archives.
#[inline(never)]
fn send_segments(
    outlet: &mut Outlet<'_, impl Socket>,
    output: &mut Output,
    content: &Content,
    bytes_max: u64,
) -> io::Result<usize> {
    let (own, segments) = output.parts();
    Waiting { own, segments: segments.iter().copied(), skip: 0 }.send(outlet, content, bytes_max)
}

/// Sends our own bytes and a range of an archive behind them, and returns how much there was room for.
#[inline]
pub(super) fn send_answer(
    outlet: &mut Outlet<'_, impl Socket>,
    own: &[u8],
    (archive, extent): (u16, Extent),
    content: &Content,
) -> io::Result<u64> {
    let (own, bytes) = (IoSlice::new(own), content.range(archive, extent, 0));
    let sent = if is_lent(bytes, archive, outlet, content) {
        outlet.send_pages(&[own], bytes)?
    } else {
        outlet.send_runs(&[own, IoSlice::new(bytes)])?
    };
    Ok(sent as u64)
}

/// Whether bytes of the archive of this number are lent to the kernel, and not copied.
#[inline]
fn is_lent(bytes: &[u8], archive: u16, outlet: &Outlet<'_, impl Socket>, content: &Content) -> bool {
    bytes.len() >= ZERO_COPY_BODY_BYTES_MIN && content.may_be_lent(archive) && outlet.lends()
}

/// Keeps what is not sent of an output.
#[inline(never)]
pub(crate) fn keep(output: &mut Output, sent: u64, content: &Arc<Content>, now: Instant) -> Box<Unsent> {
    let (bytes, segments) = output.parts();
    let (bytes, segments) = (bytes.to_vec(), segments.iter().copied().collect());
    let (content, since) = (Arc::clone(content), now);
    let (bytes_sent, segment_sent) = (0, 0);
    let mut unsent = Unsent { content, since, bytes, segments, bytes_sent, segment_sent };
    unsent.advance(sent);
    Box::new(unsent)
}

impl Unsent {
    /// Sends more, but no more than `bytes_max`, which is less by that much afterwards; tells how many bytes that were,
    /// none if there was no room.
    pub(crate) fn send(
        &mut self,
        outlet: &mut Outlet<'_, impl Socket>,
        bytes_max: &mut u64,
    ) -> io::Result<usize> {
        let own = &self.bytes[self.bytes_sent..];
        let segments = self.segments.iter().copied();
        let waiting = Waiting { own, segments, skip: self.segment_sent };
        let sent = waiting.send(outlet, &self.content, *bytes_max)?;
        *bytes_max -= sent as u64;
        self.advance(sent as u64);
        Ok(sent)
    }

    /// When the requests were answered whose answers these are.
    pub(crate) fn since(&self) -> Instant {
        self.since
    }

    /// The memory that it takes, in bytes.
    pub(crate) fn memory(&self) -> usize {
        size_of::<Unsent>() + self.bytes.capacity() + self.segments.capacity() * size_of::<Segment>()
    }

    pub(super) fn is_done(&self) -> bool {
        self.segments.is_empty()
    }

    fn advance(&mut self, mut sent: u64) {
        while let Some(segment) = self.segments.front() {
            let left = length(segment) - self.segment_sent;
            let step = sent.min(left);
            if let Segment::Inline(_) = segment {
                // Own bytes are counted in a usize already.
                self.bytes_sent += usize::try_from(step).unwrap_or(0);
            }
            sent -= step;
            if step < left {
                self.segment_sent += step;
                return;
            }
            self.segment_sent = 0;
            self.segments.pop_front();
        }
    }
}

fn length(segment: &Segment) -> u64 {
    match segment {
        Segment::Inline(bytes) => *bytes as u64,
        Segment::Archive(_, extent) => extent.length,
    }
}

/// Segments in order.
struct Waiting<'a, I> {
    /// Of their own bytes, those that are still to be sent.
    own: &'a [u8],
    segments: I,
    /// Bytes of the first one that are sent already.
    skip: u64,
}

impl<I: Iterator<Item = Segment>> Waiting<'_, I> {
    /// Sends them, but no more than `bytes_max`, and returns how much there was room for. Large bodies are lent, and the
    /// rest is gathered in one call as far as it goes.
    fn send(
        self,
        outlet: &mut Outlet<'_, impl Socket>,
        content: &Content,
        bytes_max: u64,
    ) -> io::Result<usize> {
        let Waiting { mut own, segments, mut skip } = self;
        let mut runs = [IoSlice::new(&[]); SEGMENTS_MAX];
        let (mut count, mut sent, mut left) = (0, 0, bytes_max);
        for segment in segments {
            let bytes = up_to(bytes_of(segment, std::mem::take(&mut skip), &mut own, content), left);
            left -= bytes.len() as u64;
            if let Segment::Archive(archive, _) = segment
                && is_lent(bytes, archive, outlet, content)
            {
                sent += outlet.send_pages(&runs[..count], bytes)?;
                if sent as u64 + left < bytes_max {
                    return Ok(sent);
                }
                count = 0;
            } else {
                runs[count] = IoSlice::new(bytes);
                count += 1;
            }
            if left == 0 || count == runs.len() {
                break;
            }
        }
        if count > 0 {
            sent += outlet.send_runs(&runs[..count])?;
        }
        Ok(sent)
    }
}

/// The bytes of a segment without the first `skip` of them, taken off the front of `own` if it is ours.
fn bytes_of<'a>(segment: Segment, skip: u64, own: &mut &'a [u8], content: &'a Content) -> &'a [u8] {
    match segment {
        Segment::Inline(bytes) => {
            let left = bytes.saturating_sub(usize::try_from(skip).unwrap_or(usize::MAX));
            let (bytes, rest) = own.split_at(left.min(own.len()));
            *own = rest;
            bytes
        }
        Segment::Archive(archive, extent) => content.range(archive, extent, skip),
    }
}

/// The first bytes, no more than so many.
#[inline]
fn up_to(bytes: &[u8], bytes_max: u64) -> &[u8] {
    &bytes[..bytes.len().min(usize::try_from(bytes_max).unwrap_or(usize::MAX))]
}

#[cfg(test)]
mod tests {
    use super::*;
    use cannery_eventloop::Received;

    use crate::config;
    use crate::config::Config;
    use crate::connection::transport::{Buffers, Transport};

    /// Fails as one does whose peer has reset it.
    struct Broken;

    impl Socket for Broken {
        fn receive(&self, _: &mut [u8]) -> io::Result<Received> {
            Err(io::ErrorKind::ConnectionReset.into())
        }

        fn send(&self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }

        fn send_vectored(&self, _: &[IoSlice<'_>]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }

        fn shutdown_write(&self) -> io::Result<()> {
            Ok(())
        }

        fn unacknowledged_bytes(&self) -> io::Result<u64> {
            Ok(0)
        }

        fn reset_on_close(&self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_a_broken_socket_did_not_take_is_nobody_elses() {
        let config = Config::plain(config::Content::Dummy { body: b"" });
        let content = Arc::new(Content::open(&config, None).unwrap().0);
        let mut output = Output::new();
        output.put(b"for one peer alone");
        let (mut transport, mut buffers) = (Transport::new(Broken), Buffers::new());
        let outlet = &mut transport.outlet(&mut buffers);
        let outcome = send_output(outlet, &mut output, &content, Instant::now(), &mut 1000);
        assert!(outcome.is_err());
        assert!(output.is_empty());
    }
}
