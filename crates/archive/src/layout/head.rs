//! A response head: the lines that all files of a kind share, spelled once.
//!
//! Its text is cut into four runs, so that a 304, a 206 and a 200 are made from the same bytes by
//! leaving runs out. Behind it the same runs stand once more as HTTP/2 spells them (`hpack.rs`). This file never knows
//! what the lines say.

use super::format::Format;
use super::hpack::{self, HpackRuns, NewHpackLine};
use super::{Fields, length_u16};
use crate::{Corrupt, WriteError};

const SENDS_ETAG: u8 = 1 << 0;

/// A response head as it lies in the archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head<'a> {
    /// The status that the status line states.
    pub status: u16,
    /// Whether the entity tag of the representation is sent with it.
    pub sends_etag: bool,
    /// Which of the server's own fields the site sets itself, a bit for each; the server gives the bits
    /// their meaning.
    pub overrides: u8,
    /// All four runs, which lie one after the other.
    pub text: &'a [u8],
    /// The same for HTTP/2.
    pub hpack: HpackRuns<'a>,
    /// Where the first three runs end in the text: each no earlier than the one before, and no later than `text` does.
    ends: [u32; 3],
}

/// An answer carries a head from function to function, so the runs are cut out of the text when they are wanted.
impl<'a> Head<'a> {
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
        // The runs of HTTP/2 are looked at where they are used: most answers over HTTP/1 are too fast to pay for it.
        let hpack = HpackRuns::new(fields.rest());
        Ok(Head { status, sends_etag: flags & SENDS_ETAG != 0, overrides, text, hpack, ends })
    }

    /// The status line of HTTP/1.1, with its line end.
    #[must_use]
    pub fn status_line(&self) -> &'a [u8] {
        &self.text[..self.ends[0] as usize]
    }

    /// All that follows the status line.
    #[must_use]
    #[inline]
    pub fn lines(&self) -> &'a [u8] {
        &self.text[self.ends[0] as usize..]
    }

    /// The line that names the media type, or nothing.
    #[must_use]
    pub fn content_type(&self) -> &'a [u8] {
        &self.text[self.ends[0] as usize..self.ends[1] as usize]
    }

    /// Lines that describe these bytes, and are left out of a 304: coding and the like.
    #[must_use]
    pub fn representation(&self) -> &'a [u8] {
        &self.text[self.ends[1] as usize..self.ends[2] as usize]
    }

    /// Lines that hold for the resource, in a 304 too: caching, `Vary`, the site's own fields.
    #[must_use]
    #[inline]
    pub fn resource(&self) -> &'a [u8] {
        &self.text[self.ends[2] as usize..]
    }
}

/// A response head to be written. Two that are equal are stored once.
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
    /// The same four for HTTP/2, the first with the status: see [`Head::hpack`].
    pub hpack: [Vec<NewHpackLine>; 4],
}

impl NewHead {
    pub(crate) fn encode(&self) -> Result<Vec<u8>, WriteError> {
        let runs = [&self.status_line, &self.content_type, &self.representation, &self.resource];
        let mut out = Vec::with_capacity(12 + runs.iter().map(|run| run.len()).sum::<usize>());
        out.extend_from_slice(&self.status.to_le_bytes());
        out.push(if self.sends_etag { SENDS_ETAG } else { 0 });
        out.push(self.overrides);
        for run in runs {
            out.extend_from_slice(&length_u16("the header lines of a response", run.len())?.to_le_bytes());
        }
        for run in runs {
            out.extend_from_slice(run);
        }
        hpack::put_runs(&mut out, &self.hpack)?;
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_survives_encoding() {
        let line =
            NewHpackLine { id: 3, static_index: 59, size: 51, literal: b"\x0fAccept-Encoding".to_vec() };
        let new = NewHead {
            status: 200,
            sends_etag: true,
            overrides: 5,
            status_line: b"HTTP/1.1 200 OK\r\n".to_vec(),
            content_type: b"Content-Type: text/html\r\n".to_vec(),
            representation: b"Content-Encoding: br\r\n".to_vec(),
            resource: b"Vary: Accept-Encoding\r\n".to_vec(),
            hpack: [vec![], vec![], vec![], vec![line]],
        };
        let bytes = new.encode().unwrap();
        let head = Head::decode(&bytes, 0).unwrap();
        assert_eq!((head.status, head.sends_etag, head.overrides), (200, true, 5));
        assert_eq!(head.content_type(), b"Content-Type: text/html\r\n");
        assert_eq!(head.representation(), b"Content-Encoding: br\r\n");
        assert_eq!(head.resource(), b"Vary: Accept-Encoding\r\n");
        assert_eq!(head.text, [head.status_line(), head.lines()].concat());
        assert_eq!(head.hpack.resource().collect::<Vec<_>>(), [new.hpack[3][0].as_line()]);
        assert!(head.hpack.is_sound());
        assert!(head.lines().ends_with(b"Content-Encoding: br\r\nVary: Accept-Encoding\r\n"));
    }

    #[test]
    fn a_head_cut_anywhere_is_corrupt() {
        let new = NewHead {
            status: 404,
            sends_etag: false,
            overrides: 0,
            status_line: b"HTTP/1.1 404 Not Found\r\n".to_vec(),
            content_type: Vec::new(),
            representation: Vec::new(),
            resource: b"Cache-Control: no-store\r\n".to_vec(),
            hpack: Default::default(),
        };
        let bytes = new.encode().unwrap();
        for length in 0..bytes.len() {
            let head = Head::decode(&bytes[..length], 9);
            assert!(head.is_err() || head.is_ok_and(|head| !head.hpack.is_sound()), "cut to {length} bytes");
        }
    }
}
