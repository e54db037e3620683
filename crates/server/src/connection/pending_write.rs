//! Sends responses and keeps whatever does not fit into the socket or the budget.
//!
//! A pending write refers to ranges of the archives instead of copying anything from them. It also keeps
//! the release alive.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cannery_eventloop::Socket;
use cannery_wire::limits::{SEGMENTS_MAX, ZERO_COPY_BODY_BYTES_MIN};
use cannery_wire::{Output, Segment};

use super::transport::Writer;
use crate::content::Content;
use crate::context::Body;

/// Responses that still have to be sent.
#[derive(Debug)]
pub(super) struct PendingWrite {
    content: Arc<Content>,
    /// When the responses were written.
    since: Instant,
    /// Inline bytes of all segments.
    inline: Vec<u8>,
    segments: VecDeque<Segment>,
    /// Bytes of `inline` that have been sent.
    inline_sent: usize,
    /// Bytes of the first segment that have been sent.
    segment_sent: u64,
}

/// Sends up to `bytes_max` bytes of `output` and subtracts their number from `bytes_max`. Returns the rest,
/// if any.
///
/// The output is always empty afterwards, even in case of an error; otherwise, the next connection would send
/// it to its own client.
pub(super) fn send_output(
    writer: &mut Writer<'_, impl Socket>,
    output: &mut Output,
    content: &Arc<Content>,
    now: Instant,
    bytes_max: &mut u64,
) -> io::Result<Option<Box<PendingWrite>>> {
    let pending = send_segments_of(writer, output, content, now, bytes_max);
    output.clear();
    pending
}

/// Implements [`send_output`], except that it does not clear the output.
#[inline]
fn send_segments_of(
    writer: &mut Writer<'_, impl Socket>,
    output: &mut Output,
    content: &Arc<Content>,
    now: Instant,
    bytes_max: &mut u64,
) -> io::Result<Option<Box<PendingWrite>>> {
    let total = output.length();
    let sent = match output.inline_only() {
        _ if total == 0 => return Ok(None),
        _ if *bytes_max == 0 => 0,
        // Small responses only have inline bytes, so this is the common case.
        Some(inline) => writer.send(up_to(inline, *bytes_max))?,
        None => gather_output(writer, output, content, *bytes_max)?,
    };
    *bytes_max -= sent as u64;
    if sent as u64 == total {
        Ok(None)
    } else {
        Ok(Some(PendingWrite::from_rest(output, sent as u64, content, now)))
    }
}

/// Sends inline bytes and archive ranges.
#[inline(never)]
fn gather_output(
    writer: &mut Writer<'_, impl Socket>,
    output: &mut Output,
    content: &Content,
    bytes_max: u64,
) -> io::Result<usize> {
    let (inline, segments) = output.parts();
    Gather { inline, segments: segments.iter().copied(), skip: 0 }.send(writer, content, bytes_max)
}

/// Sends inline bytes, followed by a body. Returns the number of bytes that the socket took.
#[inline]
pub(super) fn send_with_body(
    writer: &mut Writer<'_, impl Socket>,
    inline: &[u8],
    Body { archive, extent }: Body,
    content: &Content,
) -> io::Result<u64> {
    let inline = IoSlice::new(inline);
    let body = content.range(archive, extent, 0);
    let sent = if is_sent_zero_copy(body, archive, writer, content) {
        writer.send_zero_copy(&[inline], body)?
    } else {
        writer.send_vectored(&[inline, IoSlice::new(body)])?
    };
    Ok(sent as u64)
}

/// Whether these archive bytes should be sent by reference, to avoid a copy in the kernel.
#[inline]
fn is_sent_zero_copy(
    bytes: &[u8],
    archive: u16,
    writer: &Writer<'_, impl Socket>,
    content: &Content,
) -> bool {
    bytes.len() >= ZERO_COPY_BODY_BYTES_MIN
        && content.may_be_sent_zero_copy(archive)
        && writer.has_zero_copy()
}

impl PendingWrite {
    /// Copies everything in `output` after the first `sent` bytes.
    #[inline(never)]
    pub(super) fn from_rest(
        output: &mut Output,
        sent: u64,
        content: &Arc<Content>,
        now: Instant,
    ) -> Box<PendingWrite> {
        let (inline, segments) = output.parts();
        let mut pending = PendingWrite {
            content: Arc::clone(content),
            since: now,
            inline: inline.to_vec(),
            segments: segments.iter().copied().collect(),
            inline_sent: 0,
            segment_sent: 0,
        };
        pending.advance(sent);
        Box::new(pending)
    }

    /// Sends up to `bytes_max` bytes and subtracts their number from `bytes_max`. Returns the number of bytes
    /// sent (0 if the socket is full).
    pub(super) fn send(
        &mut self,
        writer: &mut Writer<'_, impl Socket>,
        bytes_max: &mut u64,
    ) -> io::Result<usize> {
        let inline = &self.inline[self.inline_sent..];
        let segments = self.segments.iter().copied();
        let gather = Gather { inline, segments, skip: self.segment_sent };
        let sent = gather.send(writer, &self.content, *bytes_max)?;
        *bytes_max -= sent as u64;
        self.advance(sent as u64);
        Ok(sent)
    }

    /// Adds time that the request has waited for a handler before.
    pub(super) fn has_waited(&mut self, waited: Duration) {
        self.since = self.since.checked_sub(waited).unwrap_or(self.since);
    }

    /// Returns when the responses were written.
    pub(super) fn since(&self) -> Instant {
        self.since
    }

    /// Returns the memory that this takes, in bytes.
    pub(super) fn memory(&self) -> usize {
        size_of::<PendingWrite>() + self.inline.capacity() + self.segments.capacity() * size_of::<Segment>()
    }

    pub(super) fn is_done(&self) -> bool {
        self.segments.is_empty()
    }

    fn advance(&mut self, mut sent: u64) {
        while let Some(segment) = self.segments.front() {
            let left = length(segment) - self.segment_sent;
            let step = sent.min(left);
            if let Segment::Inline(_) = segment {
                self.inline_sent += usize::try_from(step).expect("inline bytes are in memory");
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

/// Segments to send, in order.
struct Gather<'a, I> {
    /// Inline bytes that have not been sent.
    inline: &'a [u8],
    segments: I,
    /// Bytes of the first segment that have been sent.
    skip: u64,
}

impl<I: Iterator<Item = Segment>> Gather<'_, I> {
    /// Sends up to `bytes_max` bytes and returns the number that the socket took. Large bodies are sent
    /// zero-copy, everything else with as few system calls as possible.
    fn send(
        self,
        writer: &mut Writer<'_, impl Socket>,
        content: &Content,
        bytes_max: u64,
    ) -> io::Result<usize> {
        let Gather { mut inline, segments, mut skip } = self;
        let mut slices = [IoSlice::new(&[]); SEGMENTS_MAX];
        let mut count = 0;
        let mut sent = 0;
        let mut left = bytes_max;

        for segment in segments {
            let bytes = up_to(bytes_of(segment, std::mem::take(&mut skip), &mut inline, content), left);
            left -= bytes.len() as u64;

            if let Segment::Archive(archive, _) = segment
                && is_sent_zero_copy(bytes, archive, writer, content)
            {
                sent += writer.send_zero_copy(&slices[..count], bytes)?;
                // The socket is full.
                if sent as u64 + left < bytes_max {
                    return Ok(sent);
                }
                count = 0;
            } else {
                slices[count] = IoSlice::new(bytes);
                count += 1;
            }
            if left == 0 || count == slices.len() {
                break;
            }
        }

        if count > 0 {
            sent += writer.send_vectored(&slices[..count])?;
        }
        Ok(sent)
    }
}

/// Gets the bytes of a segment except for the first `skip`. If it is an inline segment, its bytes are
/// also removed from `inline`.
fn bytes_of<'a>(segment: Segment, skip: u64, inline: &mut &'a [u8], content: &'a Content) -> &'a [u8] {
    match segment {
        Segment::Inline(bytes) => {
            let skip = usize::try_from(skip).expect("inline bytes are in memory");
            let left = bytes.saturating_sub(skip);
            let (bytes, rest) = inline.split_at(left.min(inline.len()));
            *inline = rest;
            bytes
        }
        Segment::Archive(archive, extent) => content.range(archive, extent, skip),
    }
}

/// Returns the first bytes, but at most `bytes_max`.
#[inline]
fn up_to(bytes: &[u8], bytes_max: u64) -> &[u8] {
    // If the limit does not fit into an address, it is not a limit.
    &bytes[..bytes.len().min(usize::try_from(bytes_max).unwrap_or(usize::MAX))]
}

#[cfg(test)]
mod tests;
