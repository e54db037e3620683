//! Stores bodies in the archive that is being written, each digest once.
//!
//! We start with the 32-bit format. If it runs out of room, everything is converted to the 64-bit format in a second temporary
//! file, where writing continues (unless the options ask for a particular format).

use std::io::Read;
use std::sync::Arc;

use cannery_archive::{BodyId, Digest, Extent, Format, WriteError, Writer};

use crate::destination::Destination;
use crate::ground::digest_map::DigestMap;
use crate::settings::error::Error;
use crate::settings::options::FormatChoice;
use crate::sources::snapshot::Snapshot;

/// Allowance for response heads, the manifest and small records when estimating whether 32-bit positions will be
/// enough.
const SLACK_BYTES: u64 = 16 << 20;
const SLACK_RECORDS: u64 = 65_536;

/// An archive that is being written.
pub(crate) struct Store {
    destination: Destination,
    /// This is `None` only after widening has failed. Nothing will be written after that.
    writer: Option<Writer>,
    may_widen: bool,
    /// Total length of all contents. Each of them is in the archive at least once.
    content_bytes: u64,
    bodies: DigestMap<BodyId>,
    /// The last build. Unchanged bodies are copied from its archive.
    earlier: Option<Arc<Snapshot>>,
}

impl Store {
    /// Starts an archive for contents of about `content_bytes` bytes.
    pub(crate) fn begin(
        mut destination: Destination,
        format: FormatChoice,
        earlier: Option<Arc<Snapshot>>,
        content_bytes: u64,
    ) -> Result<Store, Error> {
        let (width, may_widen) = match format {
            FormatChoice::Auto => (Format::Cdb, true),
            FormatChoice::Cdb => (Format::Cdb, false),
            FormatChoice::Cdb64 => (Format::Cdb64, false),
        };

        let file = match earlier.as_ref().map(|earlier| earlier.estimate_archive_bytes(content_bytes)) {
            // If it is already known that memory will not suffice, we should start on disk: moving the archive there later
            // would take a quarter of the time of a quick build.
            Some(bytes) if destination.needs_disk(bytes) => destination.begin_on_disk(content_bytes),
            Some(_) | None => None,
        };
        let file = file.map_or_else(|| destination.create(), Ok)?;
        let mut writer = Writer::new(file, width).map_err(Error::write(destination.path()))?;
        set_source(&mut writer, earlier.as_deref());
        let expected = earlier.as_ref().map_or(0, |earlier| earlier.bodies.len());
        let bodies = DigestMap::with_capacity_and_hasher(expected, Default::default());
        Ok(Store { destination, writer: Some(writer), may_widen, content_bytes, bodies, earlier })
    }

    /// Returns the body with this digest, if there is one.
    pub(super) fn find(&self, digest: &Digest) -> Option<BodyId> {
        self.bodies.get(digest).copied()
    }

    /// Stores a body, unless the archive has it already.
    pub(crate) fn body(&mut self, digest: &Digest, bytes: &[u8]) -> Result<BodyId, Error> {
        self.write_body(digest, bytes.len() as u64, |writer| writer.body_from_slice(digest, bytes))
    }

    /// Stores a body of `length` bytes from a reader, unless it is already part of the archive.
    pub(super) fn body_from(
        &mut self,
        digest: &Digest,
        length: u64,
        content: &mut dyn Read,
    ) -> Result<BodyId, Error> {
        self.write_body(digest, length, |writer| writer.body(digest, length, content))
    }

    /// Copies a body from the archive of the last build, unless it is already part of the new one.
    pub(super) fn copied_body(&mut self, digest: &Digest, extent: Extent) -> Result<BodyId, Error> {
        let earlier = Arc::clone(self.earlier.as_ref().expect("the extent is of the last build"));
        self.write_body(digest, extent.length, |writer| {
            if writer.format() == earlier.archive.format() {
                return writer.copied_body(digest, extent);
            }
            // The kernel can only copy between archives of the same format.
            let content = earlier.archive.body(extent).map_err(|_| WriteError::Full)?;
            writer.body_from_slice(digest, content)
        })
    }

    fn write_body(
        &mut self,
        digest: &Digest,
        length: u64,
        mut write: impl FnMut(&mut Writer) -> Result<BodyId, WriteError>,
    ) -> Result<BodyId, Error> {
        if let Some(body) = self.find(digest) {
            return Ok(body);
        }
        self.leave_memory_if_full(length, 1)?;
        let mut written = self.with_writer(&mut write);
        if self.is_to_widen(&written) {
            self.widen()?;
            written = self.with_writer(write);
        }
        let body = written.map_err(Error::write(self.destination.path()))?;
        self.bodies.insert(*digest, body);
        Ok(body)
    }

    /// Makes room for `records` more records (with a total of `bytes` bytes), heads, the manifest and small records.
    pub(crate) fn require(&mut self, bytes: u64, records: u64) -> Result<(), Error> {
        self.leave_memory_if_full(bytes, records)?;
        let required = self.with_writer(|writer| {
            writer.require(bytes.saturating_add(SLACK_BYTES), records.saturating_add(SLACK_RECORDS))
        });
        if self.is_to_widen(&required) {
            return self.widen();
        }
        required.map_err(Error::write(self.destination.path()))
    }

    /// Finishes the bodies and returns their IDs, which the remaining records need.
    pub(crate) fn into_parts(self) -> Result<(Writer, Destination, DigestMap<BodyId>), Error> {
        let writer = self.writer.ok_or(WriteError::Full).map_err(Error::write(self.destination.path()))?;
        Ok((writer, self.destination, self.bodies))
    }

    /// Moves an in-memory archive to disk if it would become too large with `records` more records with a total of
    /// `bytes` bytes.
    fn leave_memory_if_full(&mut self, bytes: u64, records: u64) -> Result<(), Error> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        let archive_bytes = writer.length_with(bytes, records).unwrap_or(u64::MAX);
        if self.destination.needs_disk(archive_bytes)
            && let Some(file) = self.destination.move_to_disk(archive_bytes.max(self.content_bytes))
        {
            writer.move_to(file).map_err(Error::write(self.destination.path()))?;
        }
        Ok(())
    }

    fn with_writer<T>(
        &mut self,
        action: impl FnOnce(&mut Writer) -> Result<T, WriteError>,
    ) -> Result<T, WriteError> {
        self.writer.as_mut().ok_or(WriteError::Full).and_then(action)
    }

    fn is_to_widen<T>(&self, outcome: &Result<T, WriteError>) -> bool {
        let is_narrow = self.writer.as_ref().is_some_and(|writer| writer.format() == Format::Cdb);
        self.may_widen && is_narrow && matches!(outcome, Err(WriteError::Full))
    }

    fn widen(&mut self) -> Result<(), Error> {
        let Some(narrow) = self.writer.take() else { return Ok(()) };
        let mut wide =
            narrow.widen(self.destination.create()?).map_err(Error::write(self.destination.path()))?;
        set_source(&mut wide, self.earlier.as_deref());
        self.writer = Some(wide);
        self.destination.drop_older();
        Ok(())
    }
}

/// Lets the writer copy bodies from the archive of the last build. This only works if both have the same
/// format.
fn set_source(writer: &mut Writer, earlier: Option<&Snapshot>) {
    if let Some(earlier) = earlier.filter(|earlier| earlier.archive.format() == writer.format()) {
        writer.set_source(Arc::clone(&earlier.archive));
    }
}

#[cfg(test)]
mod tests;
