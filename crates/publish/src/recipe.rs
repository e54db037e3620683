//! Recipes: the parts of an archive without the contents of its bodies.
//!
//! A body is named by the first 96 bits of its digest, as in entity tags. The machine that has the body knows the other bits, and
//! who sends a missing one says them. If two bodies ever had the same name, the digest of the whole archive would be wrong, and
//! nothing would be published.
//!
//! Layout, with numbers in LEB128:
//!
//! | bytes | meaning |
//! |---|---|
//! | 4 | `CNR1` |
//! | 1 | 0 for the 32-bit format, 1 for the 64-bit format |
//! | 1 | 0 if padding follows from the bodies, 1 if it is stored |
//! | 96 | facts |
//! | 3 numbers | lengths of the sections |
//! | section | literals: keys and data of records, one after another |
//! | section | shapes: for each record its kind, then its lengths |
//! | section | names of the bodies |
//!
//! Similar bytes are together, because the whole is compressed: alone, or as a patch of another recipe, which is then the prefix
//! that zstd's matches may refer to.

pub(crate) mod bodies;
mod compression;
pub(crate) mod number;
pub(crate) mod rebuild;

use std::ops::Range;

use cannery_archive::{Alignment, Archive, BodyPositions, Corrupt, Digest, Format, Part};

use self::number::{put_number, take_number};
use crate::limits::RECIPE_BYTES_MAX;

const MAGIC: &[u8; 4] = b"CNR1";
const FACTS_BYTES: usize = 96;
/// Offset of the archive's digest in its facts.
const FACTS_DIGEST: usize = 64;
/// Offset of the archive's length in its facts.
const FACTS_LENGTH: usize = 40;
/// Offset of the archive's serial in its facts.
const FACTS_SERIAL: usize = 48;
const HEAD_BYTES: usize = MAGIC.len() + 2 + FACTS_BYTES;

/// Length of a body's name in bytes.
pub const BODY_NAME_BYTES: usize = 12;

/// The start of a body's digest.
pub type BodyName = [u8; BODY_NAME_BYTES];

/// Kinds of records. A body has a length. The others have lengths of key and data.
const BODY: u8 = 0;
const LINKED: u8 = 1;
const RECORD: u8 = 2;

/// An archive without its bodies.
#[derive(Clone, PartialEq, Eq)]
pub struct Recipe {
    bytes: Vec<u8>,
    literals: Range<usize>,
    shapes: Range<usize>,
    names: Range<usize>,
}

/// A body of a recipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecipeBody {
    /// The start of its digest.
    pub name: BodyName,
    /// Its length in bytes.
    pub length: u64,
}

/// A record of a recipe.
pub(crate) enum Step<'a> {
    Body(RecipeBody),
    Linked { key: &'a [u8], data: &'a [u8] },
    Record { key: &'a [u8], data: &'a [u8] },
}

/// Why bytes are not a recipe.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecipeError {
    /// The archive cannot be taken apart.
    #[error(transparent)]
    Archive(#[from] Corrupt),
    /// The recipe is longer than [`RECIPE_BYTES_MAX`].
    #[error("the list of paths has more than {} MiB, the most that can be transferred", RECIPE_BYTES_MAX >> 20)]
    TooLong,
    /// A number or tag contradicts the rest.
    #[error("the recipe is malformed: {0}")]
    Malformed(&'static str),
    /// It cannot be decompressed.
    #[error("the recipe cannot be decompressed: {0}")]
    Compression(&'static str),
}

impl Recipe {
    /// Returns the recipe of an archive.
    ///
    /// This doesn't read bodies. You should verify the archive first, because a damaged one can't be rebuilt.
    ///
    /// # Errors
    /// Returns [`RecipeError`] if the archive is corrupt or has too many paths.
    pub fn of(archive: &Archive) -> Result<Recipe, RecipeError> {
        let parts = archive.parts()?;
        let mut sections = Sections::default();
        parts.for_each(|part| match part {
            Part::Body { digest, content } => sections.add_body(&digest, content.len() as u64),
            Part::Linked { key, data } => sections.add(LINKED, key, &data),
            Part::Record { key, data } => sections.add(RECORD, key, data),
        })?;

        let Sections { literals, shapes, names } = sections;
        let mut bytes = Vec::with_capacity(HEAD_BYTES + 30 + literals.len() + shapes.len() + names.len());
        bytes.extend_from_slice(MAGIC);
        bytes.push(u8::from(archive.format() == Format::Cdb64));
        bytes.push(u8::from(parts.alignment == Alignment::Stored));
        bytes.extend_from_slice(parts.facts);
        for section in [&literals, &shapes, &names] {
            put_number(&mut bytes, section.len() as u64);
        }
        for section in [literals, shapes, names] {
            bytes.extend_from_slice(&section);
        }
        Recipe::parse(bytes)
    }

    /// Parses a recipe.
    ///
    /// # Errors
    /// Returns [`RecipeError`] if it is malformed. A recipe that parses may still not lead to an archive.
    pub fn parse(bytes: Vec<u8>) -> Result<Recipe, RecipeError> {
        if bytes.len() > RECIPE_BYTES_MAX {
            return Err(RecipeError::TooLong);
        }
        let malformed = RecipeError::Malformed;
        let head = bytes.get(..HEAD_BYTES).filter(|head| head.starts_with(MAGIC));
        let head = head.ok_or(malformed("it does not start like one"))?;
        if head[MAGIC.len()] > 1 || head[MAGIC.len() + 1] > 1 {
            return Err(malformed("its format or alignment is unknown"));
        }

        let mut rest = &bytes[HEAD_BYTES..];
        let mut lengths = [0; 3];
        for length in &mut lengths {
            let number = take_number(&mut rest).and_then(|number| usize::try_from(number).ok());
            *length = number.ok_or(malformed("the length of a section"))?;
        }
        let mut start = bytes.len() - rest.len();
        let [literals, shapes, names] = lengths.map(|length| {
            let section = start..start.saturating_add(length);
            start = section.end;
            section
        });
        if start != bytes.len() || !names.len().is_multiple_of(BODY_NAME_BYTES) {
            return Err(malformed("its sections do not add up"));
        }

        let recipe = Recipe { bytes, literals, shapes, names };
        // From here on, all steps are known to be inside their sections.
        let mut steps = recipe.steps();
        steps.by_ref().try_for_each(|step| step.map(drop))?;
        if !steps.is_finished() {
            return Err(malformed("its sections have more than its records"));
        }
        Ok(recipe)
    }

    /// Returns the bytes of the recipe, which [`Recipe::parse`] parses.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Compresses the recipe, as a patch of `base` if there is one.
    ///
    /// # Errors
    /// Returns [`RecipeError::Compression`] if zstd fails, for example because there isn't enough memory.
    pub fn compress(&self, base: Option<&Recipe>) -> Result<Vec<u8>, RecipeError> {
        compression::compress(&self.bytes, base.map_or(b"", |base| &base.bytes))
    }

    /// Decompresses what [`Recipe::compress`] returned for the same base.
    ///
    /// # Errors
    /// Returns [`RecipeError`] if it is not a compressed recipe. Memory grows with what was decompressed so far, not with what
    /// the bytes claim.
    pub fn decompress(compressed: &[u8], base: Option<&Recipe>) -> Result<Recipe, RecipeError> {
        Recipe::parse(compression::decompress(compressed, base.map_or(b"", |base| &base.bytes))?)
    }

    /// Returns the width of the archive.
    #[must_use]
    pub fn format(&self) -> Format {
        if self.bytes[MAGIC.len()] == 1 { Format::Cdb64 } else { Format::Cdb }
    }

    pub(crate) fn alignment(&self) -> Alignment {
        if self.bytes[MAGIC.len() + 1] == 1 { Alignment::Stored } else { Alignment::Derived }
    }

    pub(crate) fn facts(&self) -> &[u8; FACTS_BYTES] {
        let facts = self.bytes[..HEAD_BYTES].last_chunk();
        facts.expect("the facts are at the end of the head")
    }

    /// Returns the digest of the archive.
    #[must_use]
    pub fn digest(&self) -> Digest {
        let mut digest = Digest([0; Digest::BYTES]);
        digest.0.copy_from_slice(&self.facts()[FACTS_DIGEST..]);
        digest
    }

    /// Returns the length of the archive in bytes, as its facts state it.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        let mut length = [0; size_of::<u64>()];
        length.copy_from_slice(&self.facts()[FACTS_LENGTH..][..size_of::<u64>()]);
        u64::from_le_bytes(length)
    }

    /// Returns the bodies in the order of the archive.
    pub fn bodies(&self) -> impl Iterator<Item = RecipeBody> {
        self.steps().filter_map(|step| match step {
            Ok(Step::Body(body)) => Some(body),
            _ => None,
        })
    }

    /// Returns the position of each body's content in the archive. The digest of the body, 32 bytes, is right before it.
    ///
    /// Returns `None` if positions don't follow from what is before the bodies. No archive of ours is like this.
    #[must_use]
    pub fn body_positions(&self) -> Option<Vec<u64>> {
        let count = self.names.len() / BODY_NAME_BYTES;
        let mut layout = BodyPositions::new(self.format(), self.alignment());
        let mut positions = Vec::with_capacity(count);
        for step in self.steps() {
            if positions.len() == count {
                break;
            }
            match step.ok()? {
                Step::Body(body) => positions.push(layout.body(body.length)?),
                Step::Record { key, data } => layout.record(key.len(), data.len())?,
                Step::Linked { .. } => return None,
            }
        }
        Some(positions)
    }

    /// Returns the serial of the archive, as its facts state it.
    #[must_use]
    pub fn serial(&self) -> u64 {
        let mut serial = [0; size_of::<u64>()];
        serial.copy_from_slice(&self.facts()[FACTS_SERIAL..][..size_of::<u64>()]);
        u64::from_le_bytes(serial)
    }

    pub(crate) fn steps(&self) -> Steps<'_> {
        Steps {
            literals: &self.bytes[self.literals.clone()],
            shapes: &self.bytes[self.shapes.clone()],
            names: &self.bytes[self.names.clone()],
        }
    }
}

impl std::fmt::Debug for Recipe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recipe").field("digest", &self.digest()).field("bytes", &self.bytes.len()).finish()
    }
}

/// Sections of a recipe that is being made.
#[derive(Default)]
struct Sections {
    literals: Vec<u8>,
    shapes: Vec<u8>,
    names: Vec<u8>,
}

impl Sections {
    fn add_body(&mut self, digest: &Digest, length: u64) {
        self.shapes.push(BODY);
        put_number(&mut self.shapes, length);
        self.names.extend_from_slice(&digest.0[..BODY_NAME_BYTES]);
    }

    fn add(&mut self, kind: u8, key: &[u8], data: &[u8]) {
        self.shapes.push(kind);
        put_number(&mut self.shapes, key.len() as u64);
        put_number(&mut self.shapes, data.len() as u64);
        self.literals.extend_from_slice(key);
        self.literals.extend_from_slice(data);
    }
}

/// The records of a recipe, decoded one at a time.
pub(crate) struct Steps<'a> {
    literals: &'a [u8],
    shapes: &'a [u8],
    names: &'a [u8],
}

impl<'a> Steps<'a> {
    fn is_finished(&self) -> bool {
        self.literals.is_empty() && self.shapes.is_empty() && self.names.is_empty()
    }

    fn step(&mut self) -> Option<Step<'a>> {
        let (kind, shapes) = self.shapes.split_first()?;
        self.shapes = shapes;
        let length = take_number(&mut self.shapes)?;
        if *kind == BODY {
            let (name, names) = self.names.split_first_chunk()?;
            self.names = names;
            return Some(Step::Body(RecipeBody { name: *name, length }));
        }

        let data_bytes = take_number(&mut self.shapes)?;
        let (key, literals) = self.literals.split_at_checked(usize::try_from(length).ok()?)?;
        let (data, literals) = literals.split_at_checked(usize::try_from(data_bytes).ok()?)?;
        self.literals = literals;
        match *kind {
            LINKED => Some(Step::Linked { key, data }),
            RECORD => Some(Step::Record { key, data }),
            _ => None,
        }
    }
}

impl<'a> Iterator for Steps<'a> {
    type Item = Result<Step<'a>, RecipeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.shapes.is_empty() {
            return None;
        }
        let step = self.step();
        if step.is_none() {
            // After an error there is no next record.
            self.shapes = &[];
        }
        Some(step.ok_or(RecipeError::Malformed("a record does not fit its section")))
    }
}
