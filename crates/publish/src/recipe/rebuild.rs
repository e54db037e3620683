//! Rebuilds an archive from its recipe, bodies that this machine has, and a stream of the missing ones.

use std::fs::File;
use std::io::{self, Read};

use cannery_archive::{AssembleError, Assembler, Digest, WriteError};

use super::bodies::{BodyIndex, name_of};
use super::{Recipe, RecipeBody, RecipeError, Step};

/// The sources of a rebuilt archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RebuildReport {
    /// Number of bodies that were missing.
    pub missing: u64,
    /// Their total length in bytes.
    pub missing_bytes: u64,
    /// Total length of the other bodies in bytes.
    pub found_bytes: u64,
}

/// Why an archive cannot be rebuilt.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RebuildError {
    /// The recipe is malformed.
    #[error(transparent)]
    Recipe(#[from] RecipeError),
    /// The file cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The stream of missing bodies cannot be read.
    #[error("cannot read the missing contents: {0}")]
    Missing(io::Error),
    /// A missing body has another digest than the sender says.
    #[error("a content arrived with the digest {got} instead of {expected}")]
    Body {
        /// The digest that the sender says.
        expected: Digest,
        /// The digest of what arrived.
        got: Digest,
    },
    /// The bodies are longer than the archive.
    #[error("its contents are longer than the {file_bytes} bytes that the archive should have")]
    TooLong {
        /// The length of the archive, according to its facts.
        file_bytes: u64,
    },
    /// The parts don't fit together.
    #[error("the archive could not be rebuilt: {0}")]
    Assemble(AssembleError),
}

/// Writes the archive into `file`, which must be empty and open for both reading and writing. The returned file was flushed but not
/// synced.
///
/// For each body that `found` doesn't have, `missing` has its digest and its content, in the order of the recipe.
///
/// # Errors
/// Returns [`RebuildError`] if the result would not be the original archive, bit by bit. The file has no meaning then.
pub fn rebuild(
    recipe: &Recipe,
    found: &BodyIndex,
    missing: &mut dyn Read,
    file: File,
) -> Result<(File, RebuildReport), RebuildError> {
    // A recipe of a few bytes could otherwise fill the disk with copies of the same body.
    let file_bytes = recipe.file_bytes();
    let total = recipe.bodies().try_fold(0_u64, |total, body| total.checked_add(body.length));
    if total.is_none_or(|total| total > file_bytes) {
        return Err(RebuildError::TooLong { file_bytes });
    }

    let mut assembler = Assembler::new(file, recipe.format(), recipe.alignment())?;
    let mut report = RebuildReport::default();
    for step in recipe.steps() {
        match step? {
            Step::Record { key, data } => assembler.record(key, data)?,
            Step::Linked { key, data } => assembler.linked(key, data).map_err(assemble_error)?,
            Step::Body(body) => match found.find(&body) {
                Some((digest, content)) => {
                    assembler.body_from_slice(&digest, content)?;
                    report.found_bytes += body.length;
                }
                None => {
                    receive(&mut assembler, &body, missing)?;
                    report.missing += 1;
                    report.missing_bytes += body.length;
                }
            },
        }
    }
    let file = assembler.finish(recipe.facts()).map_err(assemble_error)?;
    Ok((file, report))
}

/// Writes a body that arrives as its digest and its content.
fn receive(assembler: &mut Assembler, body: &RecipeBody, missing: &mut dyn Read) -> Result<(), RebuildError> {
    let mut expected = Digest([0; Digest::BYTES]);
    missing.read_exact(&mut expected.0).map_err(RebuildError::Missing)?;
    if name_of(&expected) != body.name {
        return Err(RebuildError::Missing(io::Error::new(
            io::ErrorKind::InvalidData,
            "the digest of a content isn't that of the recipe",
        )));
    }

    let mut content = HashingReader { inner: missing, hasher: blake3::Hasher::new(), failure: None };
    let written = assembler.body(&expected, body.length, &mut content);
    if let Some(error) = content.failure.take() {
        return Err(RebuildError::Missing(error));
    }
    written?;
    let got = Digest(*content.hasher.finalize().as_bytes());
    if got == expected { Ok(()) } else { Err(RebuildError::Body { expected, got }) }
}

fn assemble_error(error: AssembleError) -> RebuildError {
    match error {
        AssembleError::Write(error) => RebuildError::Write(error),
        other => RebuildError::Assemble(other),
    }
}

/// Hashes what is read, and keeps an error apart from those of the file that it is copied to.
struct HashingReader<'a> {
    inner: &'a mut dyn Read,
    hasher: blake3::Hasher,
    failure: Option<io::Error>,
}

impl Read for HashingReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.inner.read(buffer) {
            Ok(0) if !buffer.is_empty() => {
                self.failure = Some(io::ErrorKind::UnexpectedEof.into());
                Ok(0)
            }
            Ok(count) => {
                self.hasher.update(&buffer[..count]);
                Ok(count)
            }
            Err(error) => {
                let kind = error.kind();
                if kind != io::ErrorKind::Interrupted {
                    self.failure = Some(error);
                }
                Err(kind.into())
            }
        }
    }
}
