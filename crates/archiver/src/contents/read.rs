//! First pass: every source is read and hashed, and contents that will not be compressed are
//! stored.
//!
//! Sources are read in parallel but committed in order, so that the archive depends neither on timing nor on caches. Apart
//! from a small probe of files with an unknown type, compression is left to a later pass.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use cannery_archive::{BodyId, Coding, Digest, Extent, WriteError};
use cannery_base::{FileStamp, FileVersion};

use crate::codings::encoder::Encoder;
use crate::contents::caches::Caches;
use crate::contents::content::{Content, Contents, Form, SourceContent};
use crate::contents::store::Store;
use crate::ground::digest_map::DigestSet;
use crate::ground::ordered::{self, Jobs, Limits};
use crate::ground::progress::Progress;
use crate::properties::classify::MediaTypes;
use crate::settings::cancel::CancelFlag;
use crate::settings::error::Error;
use crate::settings::options::Options;
use crate::sources::source::{Source, SourceId, Sources};
use crate::sources::source_facts::{Examination, Probe, SourceFacts};

/// Longer sources are streamed instead of being held in memory.
pub(super) const HELD_SOURCE_BYTES_MAX: u64 = 8 << 20;

/// Maximum length of sources that are compressed. Encoders need to hold these in memory.
pub const ENCODED_BYTES_MAX: u64 = 128 << 20;

/// Minimum length of sources that are compressed. For shorter ones, `Content-Encoding` and `Vary` would take more
/// bytes than could be saved.
const ENCODED_BYTES_MIN: u64 = 96;

/// Maximum number of bytes that have been read but not yet committed.
const HELD_BYTES_MAX: u64 = 32 << 20;

/// Maximum number of sources and bytes per job. This is a compromise between less bookkeeping and a balanced
/// load.
const JOB_SOURCES: usize = 64;
const JOB_BYTES: u64 = 2 << 20;

/// The inputs of the first pass.
pub(crate) struct Reading<'a> {
    pub(crate) options: &'a Options,
    pub(crate) sources: &'a Sources,
    /// Sources that do not answer any path, sorted. If at all, they are stored uncompressed for use by
    /// `extract`.
    pub(crate) control: &'a [SourceId],
    pub(crate) caches: &'a Caches<'a>,
    pub(crate) cancel: &'a CancelFlag,
    pub(crate) progress: &'a dyn Progress,
}

struct ReadSource {
    facts: SourceFacts,
    stamp: FileStamp,
    body: BodySource,
}

impl ReadSource {
    /// Placeholder for an unreadable file. We will have to repeat the build without it.
    fn unreadable() -> ReadSource {
        let version = FileVersion { device: 0, inode: 0, size: 0, modified_ns: 0 };
        ReadSource {
            facts: Examination::begin(b"", false).finish(),
            stamp: FileStamp { version, changed_ns: 0 },
            body: BodySource::Memory(Vec::new()),
        }
    }
}

/// Source of the bytes of an uncompressed body.
enum BodySource {
    /// The file, which has to be read again.
    File,
    /// In memory.
    Memory(Vec<u8>),
    /// The archive of the last build.
    LastBuild(Extent),
}

/// Whether to compress a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Compression {
    Always,
    Never,
    /// Compress it if its first bytes turn out to be compressible.
    ByProbe,
}

/// The results of the first pass.
pub(crate) struct Outcome {
    pub(crate) contents: Contents,
    /// One entry per source, for the sources cache.
    pub(crate) known: Vec<(FileStamp, SourceFacts)>,
    pub(crate) found_in_cache: u64,
}

impl Reading<'_> {
    /// Reads all sources and stores those bodies that will not be compressed.
    pub(crate) fn run(&self, store: &mut Store) -> Result<Outcome, Error> {
        let all = self.jobs();
        let held_bytes = |job: &Range<SourceId>| job.clone().map(|id| self.held_bytes(id)).sum::<u64>();
        let jobs = Jobs { all: &all, held_bytes };
        let limits = Limits { threads: self.options.thread_count(), held_bytes_max: HELD_BYTES_MAX };
        let claimed = Mutex::new(DigestSet::default());
        let found_in_cache = AtomicU64::new(0);
        let mut contents = Contents::default();
        let mut known = Vec::with_capacity(if self.caches.stores_facts() { self.sources.len() } else { 0 });

        let work = |(): &mut (), job: &Range<SourceId>| {
            // We should not stop at the first unreadable file, as all of them are listed in a single
            // error.
            let read = |id| match self.read(id, &claimed, &found_in_cache) {
                Err(error) if self.sources.set_aside(id, &error) => Ok(ReadSource::unreadable()),
                outcome => outcome,
            };
            let sources = job.clone().map(read).collect::<Result<Vec<_>, _>>()?;

            // Most bodies are no longer needed, so let the scheduler know how much memory the job really
            // holds.
            let held_bytes = sources.iter().map(|source| match &source.body {
                BodySource::Memory(bytes) => bytes.len() as u64,
                BodySource::File | BodySource::LastBuild(_) => 0,
            });
            let held_bytes = held_bytes.sum();
            Ok((sources, held_bytes))
        };

        ordered::run(
            limits,
            &jobs,
            || (),
            work,
            |job, sources| {
                for (id, source) in job.clone().zip(sources) {
                    self.commit(id, &source, &mut contents, store)?;
                    if self.caches.stores_facts() {
                        known.push((source.stamp, source.facts));
                    }
                }
                self.progress.advance(u64::from(job.end - job.start));
                Ok::<(), Error>(())
            },
        )?;

        self.sources.check_unreadable()?;
        Ok(Outcome { contents, known, found_in_cache: found_in_cache.into_inner() })
    }

    /// Splits the sources into jobs.
    fn jobs(&self) -> Vec<Range<SourceId>> {
        let end = self.sources.next_id();
        let mut jobs = Vec::new();
        let mut start = 0;
        let mut bytes = 0;
        for id in 0..end {
            bytes += self.held_bytes(id);
            if bytes >= JOB_BYTES || (id + 1 - start) as usize >= JOB_SOURCES || id + 1 == end {
                jobs.push(start..id + 1);
                start = id + 1;
                bytes = 0;
            }
        }
        jobs
    }

    /// Returns an estimate of the memory needed for reading a source.
    fn held_bytes(&self, id: SourceId) -> u64 {
        let length = self.sources.length(id);
        if length > HELD_SOURCE_BYTES_MAX { 1 << 20 } else { length }
    }

    fn media_types(&self) -> &MediaTypes {
        &self.options.media_types
    }

    /// Decides whether to compress a source, judging by its type and length only.
    fn compression(&self, id: SourceId) -> Compression {
        let media_type = self.media_types().of(self.sources.type_path(id));
        let length = self.sources.length(id);
        if !(ENCODED_BYTES_MIN..=ENCODED_BYTES_MAX).contains(&length) || !self.encodes() {
            return Compression::Never;
        }
        match media_type.text {
            "application/octet-stream" => Compression::ByProbe,
            _ if media_type.compress => Compression::Always,
            _ => Compression::Never,
        }
    }

    fn encodes(&self) -> bool {
        self.options.encoders.iter().any(|encoder| *encoder != Encoder::Identity)
    }

    fn stores_identity(&self) -> bool {
        self.options.encoders.contains(&Encoder::Identity)
    }

    /// Reads and hashes one source, unless the cache has its digest.
    fn read(
        &self,
        id: SourceId,
        claimed: &Mutex<DigestSet>,
        found_in_cache: &AtomicU64,
    ) -> Result<ReadSource, Error> {
        self.cancel.check()?;
        // A precompressed file must be read anyway because we have to decode it.
        let cached = if self.sources.precompressed.contains_key(&id) { None } else { self.find_in_cache(id) };
        if let Some((stamp, facts)) = cached {
            // Generated pages do not count because there is no file to read.
            let is_file = matches!(self.sources.of(id), Source::File(_));
            found_in_cache.fetch_add(u64::from(is_file), Ordering::Relaxed);

            // When the last build has this content, the store will copy it from there.
            if let Some(extent) = self.sources.earlier_extent(&facts.digest) {
                return Ok(ReadSource { facts, stamp, body: BodySource::LastBuild(extent) });
            }

            // Otherwise the bytes are only needed if they are stored uncompressed, and only for the first source with this
            // content.
            let is_stored = self.stores_identity() || !self.should_encode(id, &facts);
            let is_first =
                is_stored && claimed.lock().unwrap_or_else(PoisonError::into_inner).insert(facts.digest);
            let is_small = stamp.version.size <= HELD_SOURCE_BYTES_MAX;
            let body = if is_first && is_small {
                BodySource::Memory(self.sources.read_again(id, &facts.digest)?.into_owned())
            } else {
                BodySource::File
            };
            return Ok(ReadSource { facts, stamp, body });
        }

        // Not in the cache, so read it.
        let path = self.sources.path(id);
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
        let probe = self.compression(id) == Compression::ByProbe;

        if self.sources.length(id) > HELD_SOURCE_BYTES_MAX {
            let begin = || Examination::begin(name, probe);
            let (examination, stamp) = self.sources.stream(id, begin, Examination::take)?;
            return Ok(ReadSource { facts: examination.finish(), stamp, body: BodySource::File });
        }

        let mut bytes = Vec::new();
        let stamp = self.sources.read(id, &mut bytes)?;
        let mut examination = Examination::begin(name, probe);
        examination.take(&bytes);
        let facts = examination.finish();
        if let Source::Generated(generated) = self.sources.of(id) {
            // Fails if another build has set it meanwhile, to the same value.
            let _ = generated.page.facts.set(facts);
        }

        let is_stored = self.stores_identity() || !self.should_encode(id, &facts);
        let is_first =
            is_stored && claimed.lock().unwrap_or_else(PoisonError::into_inner).insert(facts.digest);
        let body = if is_first { BodySource::Memory(bytes) } else { BodySource::File };
        Ok(ReadSource { facts, stamp, body })
    }

    fn find_in_cache(&self, id: SourceId) -> Option<(FileStamp, SourceFacts)> {
        let (stamp, facts) = match self.sources.of(id) {
            Source::File(file) => (file.stamp, self.caches.facts(&file.path, &file.stamp)?),
            Source::Generated(generated) => (generated.stamp(), *generated.page.facts.get()?),
        };
        // The cached facts may have been stored by a build that did not need the probe. If we do need it, the file
        // has to be read.
        let lacks_probe = facts.probe == Probe::Missing && self.compression(id) == Compression::ByProbe;
        (!lacks_probe).then_some((stamp, facts))
    }

    fn should_encode(&self, id: SourceId, facts: &SourceFacts) -> bool {
        match self.compression(id) {
            Compression::Always => true,
            Compression::Never => false,
            Compression::ByProbe => facts.probe == Probe::Compressible,
        }
    }

    fn commit(
        &self,
        id: SourceId,
        read: &ReadSource,
        contents: &mut Contents,
        store: &mut Store,
    ) -> Result<(), Error> {
        let SourceFacts { digest, utf8, fingerprinted, .. } = read.facts;
        let is_control = self.control.binary_search(&id).is_ok();
        let should_encode = !is_control && self.should_encode(id, &read.facts);
        let (number, content) = contents.find_or_add(digest, read.stamp.version.size, id);
        let wanted = !(is_control && self.options.exclude_file_listing);
        content.wanted |= wanted;
        content.should_encode |= should_encode;

        if wanted && content.forms.is_empty() && (self.stores_identity() || !should_encode) {
            store_body(content, id, &read.body, self.sources, store)?;
        }

        contents.by_source.push(SourceContent { content: number, utf8, fingerprinted });
        Ok(())
    }
}

/// Stores hidden files uncompressed so that they can be restored by `extract`, regardless of the enabled
/// encoders.
pub(crate) fn store_hidden(
    hidden: &[SourceId],
    sources: &Sources,
    contents: &mut Contents,
    store: &mut Store,
) -> Result<(), Error> {
    for id in hidden {
        let place = contents.by_source[*id as usize].content as usize;
        let content = &mut contents.all[place];
        if content.forms.is_empty() && content.wanted {
            store_identity(content, *id, sources, store)?;
        }
    }
    Ok(())
}

/// Stores an uncompressed content, either from the last build or from source `id`. The source must not have changed.
pub(super) fn store_identity(
    content: &mut Content,
    id: SourceId,
    sources: &Sources,
    store: &mut Store,
) -> Result<(), Error> {
    let from = sources.earlier_extent(&content.digest).map_or(BodySource::File, BodySource::LastBuild);
    store_body(content, id, &from, sources, store)
}

/// Stores an uncompressed content.
///
/// When this has to be read from source `id`, then the source must not have changed.
fn store_body(
    content: &mut Content,
    id: SourceId,
    from: &BodySource,
    sources: &Sources,
    store: &mut Store,
) -> Result<(), Error> {
    let digest = &content.digest;
    let length = content.length;
    let body = match from {
        BodySource::Memory(bytes) => store.body(digest, bytes)?,
        BodySource::LastBuild(extent) => store.copied_body(digest, *extent)?,
        BodySource::File if length <= HELD_SOURCE_BYTES_MAX || !sources.is_verbatim(id) => {
            store.body(digest, &sources.read_again(id, digest)?)?
        }
        BodySource::File => store_streamed(digest, length, id, sources, store)?,
    };

    let etag = digest.etag();
    content.forms.push(Form { coding: Coding::Identity, body, length, etag });
    Ok(())
}

/// Stores a large file while reading it, to avoid having the whole file in memory.
fn store_streamed(
    digest: &Digest,
    length: u64,
    id: SourceId,
    sources: &Sources,
    store: &mut Store,
) -> Result<BodyId, Error> {
    let file = sources.open(id)?;
    let mut hashed = Hashed { file, hasher: blake3::Hasher::new(), failed: None };
    let stored = store.body_from(digest, length, &mut hashed);
    if let Some(source) = hashed.failed {
        return Err(Error::Read { path: sources.full_path(id), source });
    }

    let body = match stored {
        // The file was truncated while we read it.
        Err(Error::Write { source: WriteError::Io(error), .. })
            if error.kind() == ErrorKind::UnexpectedEof =>
        {
            return Err(sources.changing(id));
        }
        stored => stored?,
    };
    // Same length, other bytes.
    if hashed.hasher.finalize().as_bytes() != &digest.0 {
        return Err(sources.changing(id));
    }
    Ok(body)
}

/// Hashes a file while reading it.
///
/// The error type of the archive has no room for read errors, so we need to remember them here.
struct Hashed {
    file: File,
    hasher: blake3::Hasher,
    failed: Option<std::io::Error>,
}

impl Read for Hashed {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self.file.read(buffer) {
            Ok(bytes) => {
                self.hasher.update(&buffer[..bytes]);
                Ok(bytes)
            }
            Err(error) => {
                let kind = error.kind();
                self.failed = Some(error);
                Err(kind.into())
            }
        }
    }
}
