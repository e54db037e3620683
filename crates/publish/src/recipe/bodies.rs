//! Bodies that this machine has, by name.

use std::collections::HashMap;
use std::sync::Arc;

use cannery_archive::{Archive, Digest, RecordKind};

use super::{BODY_NAME_BYTES, BodyName, RecipeBody};

/// An index of the bodies in some archives.
#[derive(Default)]
pub struct BodyIndex {
    archives: Vec<Arc<Archive>>,
    bodies: HashMap<BodyName, Found>,
}

/// A body in an archive.
#[derive(Clone, Copy)]
struct Found {
    digest: Digest,
    /// Index of the archive.
    archive: usize,
    start: usize,
    end: usize,
}

impl BodyIndex {
    /// Returns an index of the bodies in these archives, best first.
    #[must_use]
    pub fn of<'a>(archives: impl Iterator<Item = &'a Arc<Archive>>) -> BodyIndex {
        let mut index = BodyIndex::default();
        for archive in archives {
            index.add(Arc::clone(archive));
        }
        index
    }

    /// Adds the bodies of an archive, except those that an earlier one has. Records after a corrupt one are left out.
    pub fn add(&mut self, archive: Arc<Archive>) {
        let number = self.archives.len();
        for entry in archive.entries().map_while(Result::ok) {
            let RecordKind::Body(digest) = entry.kind() else { continue };
            let Ok(start) = usize::try_from(entry.data_position) else { break };
            let found = Found { digest, archive: number, start, end: start + entry.data.len() };
            self.bodies.entry(name_of(&digest)).or_insert(found);
        }
        self.archives.push(archive);
    }

    /// Returns digest and content of a body, or `None` if no archive has it.
    #[must_use]
    pub fn find(&self, body: &RecipeBody) -> Option<(Digest, &[u8])> {
        let found = self.bodies.get(&body.name)?;
        let content = self.archives[found.archive].bytes().get(found.start..found.end)?;
        (content.len() as u64 == body.length).then_some((found.digest, content))
    }

    /// Returns the number of an archive with a body that doesn't match its digest, if one of the bodies is like this.
    ///
    /// This reads all of these bodies. It explains why a rebuilt archive has another digest.
    #[must_use]
    pub fn find_damaged(&self, mut bodies: impl Iterator<Item = RecipeBody>) -> Option<&Arc<Archive>> {
        bodies.find_map(|body| {
            let (digest, content) = self.find(&body)?;
            let archive = self.bodies.get(&body.name)?.archive;
            (Digest::of(content) != digest).then_some(&self.archives[archive])
        })
    }
}

/// Returns the name of the body with this digest.
pub(crate) fn name_of(digest: &Digest) -> BodyName {
    let mut name = [0; BODY_NAME_BYTES];
    name.copy_from_slice(&digest.0[..BODY_NAME_BYTES]);
    name
}
