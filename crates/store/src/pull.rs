//! Pulls a release: its recipe, the ranges of the archive that this machine lacks, and the archive again from both.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::time::Instant;

use aws_lc_rs::digest::{Context, SHA256, digest};
use cannery_archive::Digest;
use cannery_publish::{BodyIndex, RebuildError, Recipe, RecipeError, Source, drop_damaged, rebuild};

use crate::error::{StoreError, StoreErrorKind};
use crate::limits::{ATTEMPTS_MAX, GAP_BYTES_MAX, PROGRESS_BYTES_MIN, PROGRESS_TIME};
use crate::release::{Blob, StoredRelease};
use crate::store::{Opened, Store};

/// Length of the digest before each body in an archive.
const DIGEST_BYTES: u64 = Digest::BYTES as u64;

/// The costs of a pull.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PullReport {
    /// Length of the compressed recipe in bytes.
    pub recipe_bytes: u64,
    /// Whether the recipe was a patch.
    pub is_patch: bool,
    /// Number of ranges of the archive.
    pub ranges: u64,
    /// Number of bytes of the archive that were transferred.
    pub range_bytes: u64,
    /// The names of damaged releases of this machine, whose contents were transferred again.
    pub damaged: Vec<String>,
}

/// Why a release couldn't be pulled.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PullError {
    /// The store didn't send what it has.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The recipe is malformed.
    #[error(transparent)]
    Recipe(#[from] RecipeError),
    /// The store has the recipe of another archive.
    #[error("the store has the recipe of another archive")]
    Other,
    /// The file can't be written, or the store sends other bytes than the recipe says.
    #[error(transparent)]
    Rebuild(RebuildError),
    /// The file can't be created, with the reason as a message.
    #[error("{0}")]
    Create(String),
    /// A release on this machine was intact, and then damaged.
    #[error("a release on this machine changes while it is read")]
    Unstable,
}

/// Writes the archive of a release into the file that `create` returns. The file was flushed but not synced.
///
/// `sources` are the releases of this machine. `bytes_max` bounds the length of the archive, if its signature says it.
///
/// # Errors
/// Returns [`PullError`] if it isn't the archive with the release's digest, bit by bit. The file has no meaning then.
pub fn pull(
    store: &mut dyn Store,
    release: &StoredRelease,
    mut sources: Vec<Source>,
    bytes: Option<u64>,
    create: &mut dyn FnMut() -> Result<File, String>,
) -> Result<(File, PullReport), PullError> {
    let mut report = PullReport::default();
    let recipe = read_recipe(store, release, &sources, &mut report)?;
    let is_other_length = bytes.is_some_and(|bytes| bytes != recipe.file_bytes());
    if recipe.digest() != release.digest || recipe.file_bytes() != release.archive.bytes || is_other_length {
        return Err(PullError::Other);
    }
    match transfer(store, release, &recipe, &sources, create, &mut report) {
        Err(Incomplete::Damaged) => {}
        Err(Incomplete::Failed(error)) => return Err(error),
        Ok(file) => return Ok((file, report)),
    }
    // All sources are read only now, because a damaged one is rare.
    report.damaged = drop_damaged(&mut sources);
    match transfer(store, release, &recipe, &sources, create, &mut report) {
        Ok(file) => Ok((file, report)),
        Err(Incomplete::Failed(error)) => Err(error),
        Err(Incomplete::Damaged) => Err(PullError::Unstable),
    }
}

/// Why an archive isn't complete.
enum Incomplete {
    Failed(PullError),
    /// A part of a source was needed that is damaged.
    Damaged,
}

impl From<PullError> for Incomplete {
    fn from(error: PullError) -> Incomplete {
        Incomplete::Failed(error)
    }
}

/// Transfers what the sources don't have, and rebuilds the archive meanwhile.
fn transfer(
    store: &mut dyn Store,
    release: &StoredRelease,
    recipe: &Recipe,
    sources: &[Source],
    create: &mut dyn FnMut() -> Result<File, String>,
    report: &mut PullReport,
) -> Result<File, Incomplete> {
    let index = BodyIndex::of(sources.iter().map(|source| &source.archive));
    let positions = recipe.body_positions().ok_or(PullError::Other)?;
    let bodies = recipe.bodies().zip(positions);
    let missing = bodies.filter(|(body, _)| index.find(body).is_none());
    // The digest of a body is right before its content, which is how the missing ones are expected.
    let wanted: Vec<Range<u64>> =
        missing.map(|(body, position)| position - DIGEST_BYTES..position + body.length).collect();
    if wanted.last().is_some_and(|last| last.end > release.archive.bytes) {
        return Err(PullError::Other.into());
    }

    let file = create().map_err(PullError::Create)?;
    let mut ranges = RangeReader::new(store, release.archive, &wanted);
    let rebuilt = rebuild(recipe, &index, &mut ranges, file);
    report.ranges += ranges.requests;
    report.range_bytes += ranges.transferred;
    match rebuilt {
        Ok((file, _)) => Ok(file),
        Err(error) => Err(match (ranges.failure.take(), &error) {
            (Some(failure), _) => PullError::Store(failure).into(),
            (None, RebuildError::Assemble(_)) if index.find_damaged(recipe.bodies()).is_some() => {
                Incomplete::Damaged
            }
            (None, _) => PullError::Rebuild(error).into(),
        }),
    }
}

/// Reads the recipe, as a patch if this machine has one of the bases.
fn read_recipe(
    store: &mut dyn Store,
    release: &StoredRelease,
    sources: &[Source],
    report: &mut PullReport,
) -> Result<Recipe, PullError> {
    let shortest = release.patches.iter().filter(|patch| patch.blob.bytes < release.recipe.bytes);
    let mut patches: Vec<_> = shortest.collect();
    patches.sort_by_key(|patch| patch.blob.bytes);
    for patch in patches {
        let Some(source) = sources.iter().find(|source| source.archive.facts().digest == patch.base) else {
            continue;
        };
        let Ok(base) = Recipe::of(&source.archive) else { continue };
        if Digest::of(base.bytes()) != patch.base_recipe {
            continue;
        }
        // A patch only saves bytes, so one that is lost or damaged is left out.
        let compressed = match read_blob(store, &patch.blob) {
            Ok(compressed) => compressed,
            Err(error) if error.kind.is_damage() => continue,
            Err(error) => return Err(error.into()),
        };
        report.recipe_bytes += compressed.len() as u64;
        if let Ok(recipe) = Recipe::decompress(&compressed, Some(&base)) {
            report.is_patch = true;
            return Ok(recipe);
        }
    }
    let compressed = read_blob(store, &release.recipe)?;
    report.recipe_bytes += compressed.len() as u64;
    Ok(Recipe::decompress(&compressed, None)?)
}

/// Returns whether the store sends the right bytes of a blob that it has. This transfers all of it.
pub(crate) fn is_intact(store: &mut dyn Store, blob: &Blob) -> Result<bool, StoreError> {
    let whole = 0..blob.bytes;
    let mut reader = RangeReader::new(store, *blob, std::slice::from_ref(&whole));
    let mut hasher = Context::new(&SHA256);
    let mut part = vec![0; 64 << 10];
    loop {
        match reader.read(&mut part) {
            Ok(0) => return Ok(hasher.finish().as_ref() == blob.sha256),
            Ok(count) => hasher.update(&part[..count]),
            Err(error) => {
                let failure = reader.failure.take().unwrap_or_else(|| StoreError::wrong(error.to_string()));
                // A blob that is too short ends early again and again.
                return if failure.kind.is_damage() { Ok(false) } else { Err(failure) };
            }
        }
    }
}

/// Reads a blob into memory, and verifies it. Its length was checked with the document.
fn read_blob(store: &mut dyn Store, blob: &Blob) -> Result<Vec<u8>, StoreError> {
    let whole = 0..blob.bytes;
    let mut reader = RangeReader::new(store, *blob, std::slice::from_ref(&whole));
    let mut bytes = Vec::new();
    if let Err(error) = reader.by_ref().take(blob.bytes).read_to_end(&mut bytes) {
        return Err(reader.failure.take().unwrap_or_else(|| StoreError::wrong(error.to_string())));
    }
    if digest(&SHA256, &bytes).as_ref() != blob.sha256 {
        return Err(StoreError::wrong(format!("the store sends other bytes than {}", blob.digest()))
            .hint(
                "the store or something on the way to it is broken: push the same site again, which replaces what is damaged",
            ));
    }
    Ok(bytes)
}

/// Reads ranges of a blob one after another, as if they were adjacent. Near ones are fetched together, and a transfer that was cut is
/// continued.
struct RangeReader<'a> {
    store: &'a mut dyn Store,
    blob: Blob,
    /// The wanted ranges that weren't read yet, last first.
    wanted: Vec<Range<u64>>,
    /// Ends of the requests for them, last first.
    ends: Vec<u64>,
    current: Option<Transfer>,
    /// The number of requests.
    requests: u64,
    transferred: u64,
    /// Attempts in a row without progress.
    failures: u32,
    failure: Option<StoreError>,
}

/// An open response.
struct Transfer {
    reader: Box<dyn Read + Send>,
    /// Position of the next byte.
    position: u64,
    /// Position after the last byte that it has.
    end: u64,
    /// Bytes that were wanted, since it was opened.
    read: u64,
    pace: Pace,
}

/// How fast a transfer is: one that is too slow is given up.
struct Pace {
    since: Instant,
    bytes: u64,
}

impl Pace {
    fn start() -> Pace {
        Pace { since: Instant::now(), bytes: 0 }
    }

    /// Counts bytes. Returns `false` if there were too few in the last [`PROGRESS_TIME`].
    fn is_sufficient(&mut self, count: usize) -> bool {
        self.bytes += count as u64;
        if self.since.elapsed() < PROGRESS_TIME {
            return true;
        }
        let is_sufficient = self.bytes >= PROGRESS_BYTES_MIN;
        *self = Pace::start();
        is_sufficient
    }
}

impl<'a> RangeReader<'a> {
    fn new(store: &'a mut dyn Store, blob: Blob, wanted: &[Range<u64>]) -> RangeReader<'a> {
        let mut ends: Vec<u64> = Vec::new();
        for range in wanted {
            match ends.last_mut() {
                Some(end) if range.start <= end.saturating_add(GAP_BYTES_MAX) => *end = range.end,
                _ => ends.push(range.end),
            }
        }
        ends.reverse();
        let wanted = wanted.iter().rev().filter(|range| !range.is_empty()).cloned().collect();
        let (current, failure) = (None, None);
        RangeReader { store, blob, wanted, ends, current, requests: 0, transferred: 0, failures: 0, failure }
    }

    /// Reads from the current transfer, after skipping up to `start`. Returns 0 if it has ended early.
    fn read_at(&mut self, start: u64, buffer: &mut [u8]) -> Result<usize, StoreError> {
        let mut transfer = match self.current.take() {
            Some(transfer) if transfer.position <= start && start < transfer.end => transfer,
            _ => self.open(start)?,
        };
        let mut skipped = [0; 8192];
        loop {
            let gap = start - transfer.position;
            let count = if gap > 0 {
                let part = usize::try_from(gap).unwrap_or(usize::MAX).min(skipped.len());
                transfer.reader.read(&mut skipped[..part])
            } else {
                transfer.reader.read(buffer)
            };
            let count = match count {
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // The transfer is continued by the next request.
                Err(_) => 0,
            };
            transfer.position += count as u64;
            self.transferred += count as u64;
            if count == 0 {
                return Ok(0);
            }
            let is_fast_enough = transfer.pace.is_sufficient(count);
            if gap == 0 {
                // Skipped bytes are no progress: a store could send them again and again.
                transfer.read += count as u64;
                if transfer.read >= PROGRESS_BYTES_MIN {
                    self.failures = 0;
                }
                // The received bytes are used; the rest comes with another attempt, which counts as a failure.
                if is_fast_enough {
                    self.current = Some(transfer);
                } else {
                    self.failures += 1;
                }
                return Ok(count);
            }
            if !is_fast_enough {
                return Ok(0);
            }
        }
    }

    fn give_up(&mut self) -> io::Error {
        let message = format!(
            "the connection was lost or too slow {} times while {} was transferred",
            self.failures,
            self.blob.digest()
        );
        self.failure = Some(StoreError::new(StoreErrorKind::Cut, message));
        io::ErrorKind::ConnectionAborted.into()
    }

    /// Opens a transfer for the wanted range that begins at `start`, and for those close to it.
    fn open(&mut self, start: u64) -> Result<Transfer, StoreError> {
        while self.ends.last().is_some_and(|end| *end <= start) {
            self.ends.pop();
        }
        let end = self.ends.last().copied().unwrap_or(start);
        self.requests += 1;
        let Opened { start: position, reader } = self.store.open(&self.blob, start..end)?;
        // Some stores send the whole blob instead.
        let end = if position == start { end } else { self.blob.bytes };
        Ok(Transfer { reader, position, end, read: 0, pace: Pace::start() })
    }
}

impl Read for RangeReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(range) = self.wanted.last().cloned() else { return Ok(0) };
        let rest = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        let part = buffer.len().min(rest);
        if part == 0 {
            return Ok(0);
        }
        loop {
            match self.read_at(range.start, &mut buffer[..part]) {
                Ok(0) => {
                    self.failures += 1;
                    if self.failures < ATTEMPTS_MAX {
                        continue;
                    }
                    return Err(self.give_up());
                }
                Ok(_) if self.failures >= ATTEMPTS_MAX => return Err(self.give_up()),
                Ok(count) => {
                    let start = range.start + count as u64;
                    self.wanted.pop();
                    if start < range.end {
                        self.wanted.push(start..range.end);
                    } else {
                        self.failures = 0;
                    }
                    return Ok(count);
                }
                Err(error) => {
                    self.failure = Some(error);
                    return Err(io::ErrorKind::ConnectionAborted.into());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::release::StoredSite;
    use crate::store::Look;

    /// A blob in memory, whose transfers end after some bytes.
    struct Memory {
        bytes: Vec<u8>,
        cut: usize,
        ignores_ranges: bool,
        opened: Vec<Range<u64>>,
    }

    impl Store for Memory {
        fn look(&mut self, _: Option<&str>) -> Result<Look, StoreError> {
            Ok(Look::Empty)
        }
        fn open(&mut self, _: &Blob, range: Range<u64>) -> Result<Opened, StoreError> {
            self.opened.push(range.clone());
            let range = if self.ignores_ranges { 0..self.bytes.len() as u64 } else { range };
            let (start, end) = (usize::try_from(range.start).unwrap(), usize::try_from(range.end).unwrap());
            let mut bytes = self.bytes[start..end].to_vec();
            bytes.truncate(self.cut);
            Ok(Opened { start: range.start, reader: Box::new(io::Cursor::new(bytes)) })
        }
        fn has(&mut self, _: &Blob) -> Result<bool, StoreError> {
            Ok(true)
        }
        fn put(&mut self, _: &Blob, _: &[u8]) -> Result<(), StoreError> {
            Ok(())
        }
        fn point(&mut self, _: &StoredSite, _: Option<&str>) -> Result<(), StoreError> {
            Ok(())
        }
        fn remove(&mut self, _: &Blob) -> Result<(), StoreError> {
            Ok(())
        }
    }

    fn read(memory: &mut Memory, wanted: &[Range<u64>]) -> Result<Vec<u8>, StoreError> {
        let blob = Blob::of(&memory.bytes);
        let mut reader = RangeReader::new(memory, blob, wanted);
        let mut bytes = Vec::new();
        match reader.read_to_end(&mut bytes) {
            Ok(_) => Ok(bytes),
            Err(_) => Err(reader.failure.take().unwrap()),
        }
    }

    fn memory(cut: usize, ignores_ranges: bool) -> Memory {
        let bytes =
            (0..400_000_u32).map(|number| number.wrapping_mul(2_654_435_761).to_le_bytes()[2]).collect();
        Memory { bytes, cut, ignores_ranges, opened: Vec::new() }
    }

    const WANTED: [Range<u64>; 4] = [100..200, 300..5000, 200_000..390_000, 390_000..390_001];

    fn expected(memory: &Memory) -> Vec<u8> {
        let slice = |range: &Range<u64>| {
            memory.bytes[usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap()].to_vec()
        };
        WANTED.iter().flat_map(slice).collect()
    }

    #[test]
    fn near_ranges_are_fetched_together() {
        let mut memory = memory(usize::MAX, false);
        assert!(read(&mut memory, &WANTED).unwrap() == expected(&memory));
        assert_eq!(memory.opened, [100..5000, 200_000..390_001]);
    }

    #[test]
    fn whole_blob_instead_of_a_range_is_read_once() {
        let mut memory = memory(usize::MAX, true);
        assert!(read(&mut memory, &WANTED).unwrap() == expected(&memory));
        assert_eq!(memory.opened.len(), 1);
    }

    #[test]
    fn many_short_ranges_need_a_request_each() {
        let wanted: Vec<_> = (0..20).map(|index| index * 20_000..index * 20_000 + 500).collect();
        let mut memory = memory(usize::MAX, false);
        assert_eq!(read(&mut memory, &wanted).unwrap().len(), 20 * 500);
        assert_eq!(memory.opened, wanted);

        memory.ignores_ranges = true;
        memory.opened.clear();
        assert_eq!(read(&mut memory, &wanted).unwrap().len(), 20 * 500);
        assert!(memory.opened.len() <= 2, "{:?}", memory.opened);
    }

    /// A store that sends everything from the start, and never gets as far as what is wanted.
    #[test]
    fn skipped_bytes_are_no_progress() {
        let mut memory = memory(150_000, true);
        let wanted = 300_000..300_100;
        assert!(read(&mut memory, std::slice::from_ref(&wanted)).is_err());
        assert_eq!(memory.opened.len(), ATTEMPTS_MAX as usize);
    }

    #[test]
    fn cut_transfers_are_continued_while_there_is_progress() {
        let mut memory = memory(70_000, false);
        assert!(read(&mut memory, &WANTED).unwrap() == expected(&memory));
        assert_eq!(memory.opened[1..4], [200_000..390_001, 270_000..390_001, 340_000..390_001]);
        memory.cut = 1000;
        memory.opened.clear();
        assert!(read(&mut memory, &WANTED).is_err());
        assert!(memory.opened.len() < 10, "{:?}", memory.opened);
    }
}
