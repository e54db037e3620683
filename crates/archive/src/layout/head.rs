//! Response heads: a status line and field lines, encoded when we write the archive. Many files share the same head.
//!
//! The text has four runs. By leaving out some of them, the server can make a 200, a 206 or a 304 from the same bytes. The same
//! runs follow for HTTP/2 (`hpack.rs`) and HTTP/3 (`qpack.rs`).

use super::format::Format;
use super::hpack::{self, HpackRuns, NewHpackLine};
use super::qpack::{self, NewQpackLine, QpackRuns};
use super::{Fields, length_u16};
use crate::{Corrupt, WriteError};

const SENDS_ETAG: u8 = 1 << 0;

/// A response head in the archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head<'a> {
    /// The status code in the status line.
    pub status: u16,
    /// Whether the server sends the representation's entity tag.
    pub sends_etag: bool,
    /// Server fields that the site overrides, one bit for each. See `FORMAT.md` for the bits.
    pub overrides: u8,
    /// The text of all four runs.
    pub text: &'a [u8],
    /// The same runs for HTTP/2.
    pub hpack: HpackRuns<'a>,
    /// Ends of the first three runs. Invariant: ascending, and at most `text.len()`.
    ends: [u32; 3],
}

impl<'a> Head<'a> {
    // Heads should stay small, because we pass them by value a lot. This is why runs are sliced on demand.

    #[inline]
    pub(crate) fn decode(data: &'a [u8], offset: u64) -> Result<Head<'a>, Corrupt> {
        let mut fields = Fields::new(data, Format::Cdb, offset, "a head record");
        let [low, high, flags, overrides, lengths @ ..] = *fields.array::<12>()?;

        let status = u16::from_le_bytes([low, high]);
        let [first, second, third, fourth] = std::array::from_fn(|run| {
            u32::from(u16::from_le_bytes([lengths[2 * run], lengths[2 * run + 1]]))
        });
        let ends = [first, first + second, first + second + third];
        let text = fields.take((ends[2] + fourth) as usize)?;
        if flags & !SENDS_ETAG != 0 {
            return Err(fields.corrupt());
        }
        // Do not check the runs for HTTP/2 and HTTP/3 yet; HTTP/1 responses do not need them.
        let hpack = HpackRuns::new(fields.rest());
        Ok(Head { status, sends_etag: flags & SENDS_ETAG != 0, overrides, text, hpack, ends })
    }

    /// Returns the same runs for HTTP/3.
    #[must_use]
    #[inline]
    pub fn qpack(&self) -> QpackRuns<'a> {
        QpackRuns::new(self.hpack.rest())
    }

    /// Returns the status line of HTTP/1.1, including CRLF.
    #[must_use]
    pub fn status_line(&self) -> &'a [u8] {
        &self.text[..self.ends[0] as usize]
    }

    /// Returns all field lines, without the status line.
    #[must_use]
    #[inline]
    pub fn lines(&self) -> &'a [u8] {
        &self.text[self.ends[0] as usize..]
    }

    /// Returns the `Content-Type` line. It may be empty.
    #[must_use]
    pub fn content_type(&self) -> &'a [u8] {
        &self.text[self.ends[0] as usize..self.ends[1] as usize]
    }

    /// Returns field lines that describe the representation, e.g. its coding. These should be left out of a 304.
    #[must_use]
    pub fn representation(&self) -> &'a [u8] {
        &self.text[self.ends[1] as usize..self.ends[2] as usize]
    }

    /// Returns field lines that describe the resource: caching, `Vary`, and fields set by the site. A 304 has to repeat them.
    #[must_use]
    #[inline]
    pub fn resource(&self) -> &'a [u8] {
        &self.text[self.ends[2] as usize..]
    }
}

/// A response head to write. Write equal heads only once.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NewHead {
    /// See [`Head::status`].
    pub status: u16,
    /// See [`Head::sends_etag`].
    pub sends_etag: bool,
    /// See [`Head::overrides`].
    pub overrides: u8,
    /// See [`Head::status_line`].
    pub status_line: Vec<u8>,
    /// See [`Head::content_type`].
    pub content_type: Vec<u8>,
    /// See [`Head::representation`].
    pub representation: Vec<u8>,
    /// See [`Head::resource`].
    pub resource: Vec<u8>,
    /// See [`Head::hpack`]. The first run is `:status`.
    pub hpack: [Vec<NewHpackLine>; 4],
    /// See [`Head::qpack`]. The first run is `:status`.
    pub qpack: [Vec<NewQpackLine>; 4],
}

impl NewHead {
    pub(crate) fn encode(&self) -> Result<Vec<u8>, WriteError> {
        let runs = [&self.status_line, &self.content_type, &self.representation, &self.resource];
        let mut out = Vec::with_capacity(12 + runs.iter().map(|run| run.len()).sum::<usize>());
        out.extend_from_slice(&self.status.to_le_bytes());
        out.push(if self.sends_etag { SENDS_ETAG } else { 0 });
        out.push(self.overrides);
        for run in runs {
            out.extend_from_slice(&length_u16("the header section of a response", run.len())?.to_le_bytes());
        }
        for run in runs {
            out.extend_from_slice(run);
        }
        hpack::put_runs(&mut out, &self.hpack)?;
        qpack::put_runs(&mut out, &self.qpack)?;
        Ok(out)
    }
}

#[cfg(test)]
mod tests;
