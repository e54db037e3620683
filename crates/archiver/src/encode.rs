//! The second pass: contents that are worth it are coded, and stored where it pays.
//!
//! Each content in each coding is a job of its own. The longest come first, so that no CPU is left with a
//! long one at the end; results are committed in the order of the jobs, so the archive does not depend on
//! timing. Never keeps a coded form that does not pay.

use std::cmp::Reverse;
use std::sync::atomic::{AtomicU64, Ordering};

use cannery_archive::{Coding, Digest};

use crate::coders::{self, Coders};
use crate::compress_cache::{CompressCache, Outcome, ResultKey};
use crate::content::{ContentId, Contents, Form};
use crate::error::Error;
use crate::options::{Encoder, Options};
use crate::ordered::{self, Limits};
use crate::progress::Progress;
use crate::read::store_identity;
use crate::source::Sources;
use crate::sources_cache::{SourcesCache, Verified};
use crate::store::Store;

/// What is being coded and what waits to be committed may hold so many bytes together.
const HELD_BYTES_MAX: u64 = 64 << 20;

/// A coded form pays if it is at least so many bytes smaller: `Content-Encoding` takes some twenty more in
/// the head, and decoding is work for the client.
const SAVED_BYTES_MIN: u64 = 64;

/// And if it is smaller by one part in so many: 3 %. Less is not worth a place in the archive.
const SAVED_PART_MIN: u64 = 33;

/// Codes the contents.
pub(crate) struct Encoding<'a> {
    pub(crate) options: &'a Options,
    pub(crate) sources: &'a Sources,
    pub(crate) cache: Option<&'a CompressCache>,
    /// Knows which results of `cache` were decoded before.
    pub(crate) known: Option<&'a SourcesCache>,
    pub(crate) progress: &'a dyn Progress,
}

/// How many results there were, by where they came from.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) found: u64,
    pub(crate) made: u64,
    /// The results that decode to their contents.
    pub(crate) verified: Verified,
}

struct Job {
    content: ContentId,
    encoder: Encoder,
}

impl Encoding<'_> {
    /// The encoders that are used: of two for one coding the better one.
    fn encoders(&self) -> impl Iterator<Item = Encoder> + '_ {
        let wanted = &self.options.encoders;
        wanted.iter().copied().filter(|encoder| match encoder {
            Encoder::Identity => false,
            Encoder::Gzip => !wanted.contains(&Encoder::Zopfli),
            Encoder::Zopfli | Encoder::Brotli | Encoder::Zstd => true,
        })
    }

    /// Bytes that will be coded, each counted once however many codings there are: for progress.
    pub(crate) fn total_bytes(&self, contents: &Contents) -> u64 {
        if self.encoders().next().is_none() {
            return 0;
        }
        contents.all.iter().filter(|content| content.to_encode).map(|content| content.length).sum()
    }

    /// Codes everything that is to be coded, and stores as it is what no coding has paid for.
    pub(crate) fn run(&self, contents: &mut Contents, store: &mut Store) -> Result<Tally, Error> {
        let jobs = self.jobs(contents);
        let limits = Limits { threads: self.options.thread_count(), held_bytes_max: HELD_BYTES_MAX };
        let (found, made) = (AtomicU64::new(0), AtomicU64::new(0));
        let mut verified = Verified::new();
        let codings = self.encoders().count() as u64;
        let mut coded_bytes = 0;
        let all = &mut contents.all;
        let described: Vec<_> =
            all.iter().map(|content| (content.digest, content.length, content.first)).collect();
        ordered::run(
            limits,
            &jobs,
            || Coders::new(self.options.levels),
            |job| described[job.content as usize].1,
            |coders, job| {
                let (digest, length, source) = described[job.content as usize];
                let level = self.options.levels.of(job.encoder);
                let key = ResultKey { content: digest, encoder: job.encoder, level };
                let verified = self.known.and_then(|known| known.verified(&key));
                let cached = self.cache.and_then(|cache| cache.find(&key, length, verified, coders));
                if let Some(outcome) = cached {
                    found.fetch_add(1, Ordering::Relaxed);
                    return Ok(weighed(outcome));
                }
                made.fetch_add(1, Ordering::Relaxed);
                let bytes = self.sources.read_again(source, &digest)?;
                let coded = coders.encode(job.encoder, &bytes);
                let failed =
                    |_| Error::Encoder { encoder: job.encoder.name(), path: self.sources.full_path(source) };
                let outcome = worth(coded.map_err(failed)?, bytes.len() as u64);
                if let Some(cache) = self.cache {
                    cache.keep(&key, &outcome);
                }
                Ok(weighed(outcome))
            },
            |job, outcome| {
                let content = &mut all[job.content as usize];
                if let Outcome::Coded(bytes, digest) = outcome {
                    if self.known.is_some() {
                        let level = self.options.levels.of(job.encoder);
                        let key = ResultKey { content: content.digest, encoder: job.encoder, level };
                        verified.insert(key, digest);
                    }
                    let body = store.body(&digest, &bytes)?;
                    let coding = coders::coding(job.encoder);
                    let length = bytes.len() as u64;
                    content.forms.push(Form { coding, body, length, etag: digest.etag() });
                }
                // A content counts in parts, one for each coding, which together are its length.
                let before = coded_bytes / codings.max(1);
                coded_bytes += content.length;
                self.progress.advance(coded_bytes / codings.max(1) - before);
                Ok::<(), Error>(())
            },
        )?;
        self.complete(contents, store)?;
        Ok(Tally { found: found.into_inner(), made: made.into_inner(), verified })
    }

    /// The jobs, the longest first. Of equal ones the order is that of their digests, so that it is the
    /// same everywhere.
    fn jobs(&self, contents: &Contents) -> Vec<Job> {
        let mut jobs = Vec::new();
        for (id, content) in (0..).zip(&contents.all) {
            if content.to_encode {
                jobs.extend(self.encoders().map(|encoder| Job { content: id, encoder }));
            }
        }
        jobs.sort_by_cached_key(|job| {
            let content = &contents.all[job.content as usize];
            (Reverse(content.length * cost(job.encoder)), content.digest, job.encoder)
        });
        jobs
    }

    /// Stores as it is what has no form yet, and puts the smallest form first.
    fn complete(&self, contents: &mut Contents, store: &mut Store) -> Result<(), Error> {
        for content in &mut contents.all {
            if content.forms.is_empty() && content.wanted {
                let (digest, length) = (content.digest, content.length);
                content.forms.push(store_identity(
                    self.sources,
                    content.first,
                    &digest,
                    length,
                    None,
                    store,
                )?);
            }
            // Who takes brotli or zstd takes gzip too: a form that is not smaller than gzip's serves nobody.
            let gzip = content.forms.iter().find(|form| form.coding == Coding::Gzip).map(|form| form.length);
            let special = |coding| matches!(coding, Coding::Brotli | Coding::Zstd);
            content.forms.retain(|form| !special(form.coding) || gzip.is_none_or(|gzip| form.length < gzip));
            content.forms.sort_by_key(|form| (form.length, form.coding));
        }
        Ok(())
    }
}

/// How long an encoder takes for a byte, roughly, beside the fastest at its highest level.
const fn cost(encoder: Encoder) -> u64 {
    match encoder {
        Encoder::Identity | Encoder::Gzip | Encoder::Zstd => 1,
        Encoder::Brotli => 4,
        Encoder::Zopfli => 12,
    }
}

fn worth(coded: Vec<u8>, length: u64) -> Outcome {
    let saved = length.saturating_sub(coded.len() as u64);
    if saved >= SAVED_BYTES_MIN.max(length / SAVED_PART_MIN) {
        let digest = Digest::of(&coded);
        Outcome::Coded(coded, digest)
    } else {
        Outcome::NotWorth
    }
}

/// A result, with the bytes that it holds until it is committed.
fn weighed(outcome: Outcome) -> (Outcome, u64) {
    let bytes = match &outcome {
        Outcome::Coded(bytes, _) => bytes.len() as u64,
        Outcome::NotWorth => 0,
    };
    (outcome, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_pays_is_kept() {
        assert!(matches!(worth(vec![0; 1000], 1063), Outcome::NotWorth), "63 bytes are too few");
        assert!(matches!(worth(vec![0; 1000], 1064), Outcome::Coded(..)));
        assert!(matches!(worth(vec![0; 98_000], 100_000), Outcome::NotWorth), "2 % are too few");
        assert!(matches!(worth(vec![0; 96_000], 100_000), Outcome::Coded(..)));
        assert!(matches!(worth(vec![0; 200], 100), Outcome::NotWorth), "it has grown");
    }
}
