//! Distinct contents: what each is, who has it, and in which forms it is stored.
//!
//! Two sources have the same content exactly if their digests are the same; never by name or size.

use std::collections::HashMap;

use cannery_archive::{BodyId, Coding, Digest, ETag};

use crate::source::SourceId;

/// A distinct content.
pub(crate) type ContentId = u32;

/// A content in one coding, as it is stored.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Form {
    pub(crate) coding: Coding,
    pub(crate) body: BodyId,
    pub(crate) length: u64,
    pub(crate) etag: ETag,
}

/// A content: the bytes of one or more sources.
#[derive(Debug)]
pub(crate) struct Content {
    pub(crate) digest: Digest,
    /// Length in bytes, before any coding.
    pub(crate) length: u64,
    /// The first source that has it, in the order of the sources.
    pub(crate) first: SourceId,
    /// Whether some source that has it is stored at all.
    pub(crate) wanted: bool,
    /// Whether some source that has it is of a kind that compresses.
    pub(crate) to_encode: bool,
    /// How it is stored, smallest form first once all are there.
    pub(crate) forms: Vec<Form>,
}

/// What is known of a source once its content is: sixteen bytes, for there are many.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SourceContent {
    pub(crate) content: ContentId,
    pub(crate) utf8: bool,
    pub(crate) fingerprinted: bool,
}

/// All contents, in the order in which the sources first showed them.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    pub(crate) all: Vec<Content>,
    of_digest: HashMap<Digest, ContentId>,
    /// For each source, in order.
    pub(crate) of_source: Vec<SourceContent>,
}

impl Contents {
    /// The content with this digest; a new one belongs to `source` first.
    pub(crate) fn of_digest(&mut self, digest: Digest, length: u64, source: SourceId) -> &mut Content {
        let next = ContentId::try_from(self.all.len()).expect("there are no more contents than sources");
        let id = *self.of_digest.entry(digest).or_insert(next);
        if id == next {
            self.all.push(Content {
                digest,
                length,
                first: source,
                wanted: false,
                to_encode: false,
                forms: Vec::new(),
            });
        }
        &mut self.all[id as usize]
    }

    /// The number of a content that is there.
    pub(crate) fn id(&self, digest: &Digest) -> ContentId {
        self.of_digest[digest]
    }

    pub(crate) fn of_source(&self, source: SourceId) -> (&Content, SourceContent) {
        let known = self.of_source[source as usize];
        (&self.all[known.content as usize], known)
    }
}
