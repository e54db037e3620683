//! Distinct contents. Sources with equal bytes share one.
//!
//! Contents are compared by their digests only.

use cannery_archive::{BodyId, Coding, Digest, ETag};

use crate::ground::digest_map::DigestMap;
use crate::sources::source::SourceId;

/// Index of a distinct content.
pub(super) type ContentId = u32;

/// An encoded content, as stored in the archive.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Form {
    pub(crate) coding: Coding,
    pub(crate) body: BodyId,
    pub(crate) length: u64,
    pub(crate) etag: ETag,
}

/// A content that at least one source has.
#[derive(Debug)]
pub(crate) struct Content {
    pub(crate) digest: Digest,
    /// Length in bytes, uncompressed.
    pub(crate) length: u64,
    /// The first source that has this content.
    pub(crate) first: SourceId,
    /// Whether the archive needs this content.
    pub(super) wanted: bool,
    /// Whether at least one source with this content has a compressible type.
    pub(super) should_encode: bool,
    /// The stored codings, sorted by size at the end.
    pub(crate) forms: Vec<Form>,
}

/// Content and properties of a source.
///
/// Keep this small because there may be many.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SourceContent {
    pub(crate) content: ContentId,
    pub(crate) utf8: bool,
    pub(crate) fingerprinted: bool,
}

/// All contents, in the order in which they first occurred.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    pub(crate) all: Vec<Content>,
    by_digest: DigestMap<ContentId>,
    pub(crate) by_source: Vec<SourceContent>,
}

impl Contents {
    /// Returns the content with this digest and its index.
    ///
    /// When it is new, it will be added with `source` as its first source.
    pub(super) fn find_or_add(
        &mut self,
        digest: Digest,
        length: u64,
        source: SourceId,
    ) -> (ContentId, &mut Content) {
        let next = ContentId::try_from(self.all.len()).expect("there are no more contents than sources");
        let id = *self.by_digest.entry(digest).or_insert(next);
        if id == next {
            self.all.push(Content {
                digest,
                length,
                first: source,
                wanted: false,
                should_encode: false,
                forms: Vec::new(),
            });
        }
        (id, &mut self.all[id as usize])
    }

    /// Returns the content of a source.
    pub(crate) fn source_content(&self, source: SourceId) -> (&Content, SourceContent) {
        let known = self.by_source[source as usize];
        (&self.all[known.content as usize], known)
    }
}
