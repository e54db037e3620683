//! Second pass: compresses contents and stores the results that pay off.
//!
//! There is one job for each combination of content and coding. The longest jobs are started first, because otherwise a single
//! CPU might be busy with one of them at the end while all others are idle. To keep the archive independent of timing, results
//! are committed in order.

use std::cmp::Reverse;
use std::sync::atomic::{AtomicU64, Ordering};

use cannery_archive::{Coding, Digest};
use rayon::slice::ParallelSliceMut;

use crate::codings::coders::Coders;
use crate::codings::encoder::Encoder;
use crate::contents::caches::Caches;
use crate::contents::compress_cache::{Outcome, ResultKey};
use crate::contents::content::{ContentId, Contents, Form};
use crate::contents::read::store_identity;
use crate::contents::sources_cache::Verified;
use crate::contents::store::Store;
use crate::ground::ordered::{self, Jobs, Limits};
use crate::ground::progress::Progress;
use crate::settings::cancel::CancelFlag;
use crate::settings::effort::Effort;
use crate::settings::error::Error;
use crate::settings::options::Options;
use crate::sources::source::{SourceId, Sources};

/// Maximum number of bytes being compressed or waiting to be committed.
const HELD_BYTES_MAX: u64 = 64 << 20;

/// Minimum number of bytes to be saved by a result. `Content-Encoding` takes about twenty bytes, and decompression takes
/// time.
const SAVED_BYTES_MIN: u64 = 64;

/// Results must also save at least one part in this many (3 %).
const SAVED_PART_MIN: u64 = 33;

/// The inputs of the second pass.
pub(crate) struct Encoding<'a> {
    pub(crate) options: &'a Options,
    pub(crate) sources: &'a Sources,
    pub(crate) caches: &'a Caches<'a>,
    pub(crate) effort: Effort,
    pub(crate) cancel: &'a CancelFlag,
    pub(crate) progress: &'a dyn Progress,
}

/// Numbers of results, by origin.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) found: u64,
    pub(crate) made: u64,
    /// Results left to a later build.
    pub(crate) deferred: u64,
    /// The verified results.
    pub(crate) verified: Verified,
}

/// Compresses one content with one encoder.
struct Job {
    content: ContentId,
    digest: Digest,
    /// Length of the content in bytes.
    length: u64,
    /// One of the sources with this content.
    source: SourceId,
    encoder: Encoder,
}

/// A [`Tally`] that workers can update.
#[derive(Default)]
struct Counters {
    found: AtomicU64,
    made: AtomicU64,
    deferred: AtomicU64,
}

impl Encoding<'_> {
    /// Returns the encoders to use.
    ///
    /// If several of them produce the same coding, only the best one is returned.
    fn encoders(&self) -> impl Iterator<Item = Encoder> + '_ {
        let wanted = &self.options.encoders;
        let is_superseded = |encoder: Encoder| {
            wanted.range(encoder..).any(|other| *other != encoder && other.coding() == encoder.coding())
        };
        let compresses = move |encoder: &Encoder| *encoder != Encoder::Identity && !is_superseded(*encoder);
        wanted.iter().copied().filter(compresses)
    }

    /// Returns the number of bytes to compress.
    ///
    /// Each content counts once, regardless of the number of codings.
    pub(crate) fn total_bytes(&self, contents: &Contents) -> u64 {
        if self.encoders().next().is_none() {
            return 0;
        }
        contents.all.iter().filter(|content| content.should_encode).map(|content| content.length).sum()
    }

    /// Compresses all contents. If no coding makes a content smaller, it will be stored uncompressed.
    pub(crate) fn run(&self, contents: &mut Contents, store: &mut Store) -> Result<Tally, Error> {
        let all = self.jobs(contents);
        let jobs = Jobs { all: &all, held_bytes: |job: &Job| job.length };
        let limits = Limits { threads: self.options.thread_count(), held_bytes_max: HELD_BYTES_MAX };
        let counters = Counters::default();
        let mut verified = Verified::new();
        let codings = self.encoders().count() as u64;
        let mut coded_bytes = 0;
        let scratch = || Coders::new(self.options.levels);

        // Runs on this thread, in the order of the jobs.
        let mut commit = |job: &Job, outcome: Option<Outcome>| {
            let content = &mut contents.all[job.content as usize];
            let stored = match outcome {
                Some(Outcome::Coded(bytes, digest)) => {
                    if self.caches.stores_verified() {
                        verified.insert(self.key(job), digest);
                    }
                    Some((store.body(&digest, &bytes)?, bytes.len() as u64, digest))
                }
                Some(Outcome::Stored(extent, digest)) => {
                    Some((store.copied_body(&digest, extent)?, extent.length, digest))
                }
                Some(Outcome::NotWorth) | None => None,
            };

            if let Some((body, length, digest)) = stored {
                let coding = job.encoder.coding();
                content.forms.push(Form { coding, body, length, etag: digest.etag() });
            }

            // With each coding, the progress advances by an equal share of the content's length. Rounding must not affect the
            // sum of these shares.
            let before = coded_bytes / codings.max(1);
            coded_bytes += content.length;
            self.progress.advance(coded_bytes / codings.max(1) - before);
            Ok::<(), Error>(())
        };

        if self.effort == Effort::Quick {
            // Quick builds will only look up cached results. We can do that right here: passing the results to
            // another thread would be slower.
            let mut coders = scratch();
            for job in &all {
                let outcome = self.compress(job, &mut coders, &counters)?;
                commit(job, outcome)?;
            }
        } else {
            let work = |coders: &mut Coders, job: &Job| {
                let outcome = self.compress(job, coders, &counters)?;
                let held_bytes = outcome.as_ref().map_or(0, Outcome::bytes);
                Ok((outcome, held_bytes))
            };
            ordered::run(limits, &jobs, scratch, work, commit)?;
        }
        self.complete(contents, store)?;

        let Counters { found, made, deferred } = counters;
        Ok(Tally {
            found: found.into_inner(),
            made: made.into_inner(),
            deferred: deferred.into_inner(),
            verified,
        })
    }

    /// Returns the result of a job.
    ///
    /// This is taken from the cache if possible; otherwise, the content is compressed (except in quick builds).
    fn compress(
        &self,
        job: &Job,
        coders: &mut Coders,
        counters: &Counters,
    ) -> Result<Option<Outcome>, Error> {
        self.cancel.check()?;
        let key = self.key(job);
        if let Some(outcome) = self.caches.result(&key, job.length, coders) {
            counters.found.fetch_add(1, Ordering::Relaxed);
            return Ok(Some(outcome));
        }
        if self.effort == Effort::Quick {
            counters.deferred.fetch_add(1, Ordering::Relaxed);
            return Ok(None);
        }

        counters.made.fetch_add(1, Ordering::Relaxed);
        let bytes = self.sources.read_again(job.source, &job.digest)?;
        let coded = coders.encode(job.encoder, &bytes).map_err(|_| Error::Encoder {
            encoder: job.encoder.name(),
            path: self.sources.full_path(job.source),
        })?;
        let outcome = worth(coded, bytes.len() as u64);
        self.caches.keep_result(&key, &outcome);
        Ok(Some(outcome))
    }

    fn key(&self, job: &Job) -> ResultKey {
        let level = self.options.levels.of(job.encoder);
        ResultKey { content: job.digest, encoder: job.encoder, level }
    }

    /// Returns all jobs, sorted by descending length.
    ///
    /// Ties are broken by digest to make the order the same on every machine.
    fn jobs(&self, contents: &Contents) -> Vec<Job> {
        let mut jobs = Vec::new();
        for (id, content) in (0..).zip(&contents.all) {
            if content.should_encode {
                jobs.extend(self.encoders().map(|encoder| Job {
                    content: id,
                    digest: content.digest,
                    length: content.length,
                    source: content.first,
                    encoder,
                }));
            }
        }

        jobs.par_sort_unstable_by_key(|job| {
            // Almost always, the first eight bytes suffice, and these can be compared faster as a
            // number.
            let beginning = job.digest.0.first_chunk().map(|bytes| u64::from_be_bytes(*bytes));
            (Reverse(job.length * job.encoder.cost()), beginning, job.digest, job.encoder)
        });
        jobs
    }

    /// Stores contents uncompressed if they do not have any other form, then sorts all forms by
    /// size.
    fn complete(&self, contents: &mut Contents, store: &mut Store) -> Result<(), Error> {
        for content in &mut contents.all {
            if content.forms.is_empty() && content.wanted {
                let source = content.first;
                store_identity(content, source, self.sources, store)?;
            }

            // Others are only useful if they are smaller than gzip: clients that accept them should accept gzip too.
            let gzip = content.forms.iter().find(|form| form.coding == Coding::Gzip).map(|form| form.length);
            let special = |coding| !matches!(coding, Coding::Identity | Coding::Gzip);
            content.forms.retain(|form| !special(form.coding) || gzip.is_none_or(|gzip| form.length < gzip));
            content.forms.sort_by_key(|form| (form.length, form.coding));
        }
        Ok(())
    }
}

/// Returns the compressed bytes, or [`Outcome::NotWorth`] if they do not save enough.
fn worth(coded: Vec<u8>, length: u64) -> Outcome {
    let saved = length.saturating_sub(coded.len() as u64);
    if saved >= SAVED_BYTES_MIN.max(length / SAVED_PART_MIN) {
        let digest = Digest::of(&coded);
        Outcome::Coded(coded, digest)
    } else {
        Outcome::NotWorth
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_useful_results_are_kept() {
        assert!(matches!(worth(vec![0; 1000], 1063), Outcome::NotWorth), "63 bytes are too few");
        assert!(matches!(worth(vec![0; 1000], 1064), Outcome::Coded(..)));
        assert!(matches!(worth(vec![0; 98_000], 100_000), Outcome::NotWorth), "2 % are too few");
        assert!(matches!(worth(vec![0; 96_000], 100_000), Outcome::Coded(..)));
        assert!(matches!(worth(vec![0; 200], 100), Outcome::NotWorth), "it has grown");
    }
}
