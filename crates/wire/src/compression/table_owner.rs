//! Decides which of the archives that share a connection may use the dynamic table and numbers the lines in it.

use cannery_archive::LINE_IDS;

/// Maximum number of lines that an encoder can keep track of: first the archive's lines, then the server's.
pub(crate) const LINE_SLOTS: usize = 64;

const _: () = assert!((LINE_IDS as usize) < LINE_SLOTS, "the server has lines too");

/// The archive that line IDs on a connection refer to.
///
/// A new release becomes the new owner, whereas the archive of another host on the same connection never does. Otherwise, the two
/// hosts could take turns emptying the table.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TableOwner {
    owner: Option<Owner>,
    /// Whether the current section is from a different archive. If so, we send its lines as literals.
    is_for_other_archive: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Owner {
    /// Index among the connection's archives.
    archive: u16,
    /// The first bytes of the archive's digest.
    identity: u64,
}

/// Whether the current section is from the owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ownership {
    /// The section is from the owner.
    Owner,
    /// The section is from a new owner, so the table has no lines from this archive yet.
    Replaced,
    /// The lines of this section must not use the table, since it is from a different archive.
    Other,
}

impl TableOwner {
    /// Starts a section from this archive, which may become the owner. `identity` is the start of its digest, or 0 without an
    /// archive.
    #[inline]
    pub(crate) fn begin_section(&mut self, archive: u16, identity: u64) -> Ownership {
        if self.owner == Some(Owner { archive, identity }) {
            self.is_for_other_archive = false;
            return Ownership::Owner;
        }
        self.change_archive(archive, identity)
    }

    #[cold]
    fn change_archive(&mut self, archive: u16, identity: u64) -> Ownership {
        let ownership = match self.owner {
            _ if identity == 0 => Ownership::Other,
            Some(owner) if owner.identity == identity => Ownership::Owner,
            Some(owner) if owner.archive != archive => Ownership::Other,
            replaced => {
                self.owner = Some(Owner { archive, identity });
                if replaced.is_some() { Ownership::Replaced } else { Ownership::Owner }
            }
        };

        self.is_for_other_archive = ownership == Ownership::Other;
        ownership
    }

    /// Returns `true` if the current section's lines must not use the table.
    #[inline]
    pub(crate) fn is_for_other_archive(&self) -> bool {
        self.is_for_other_archive
    }

    /// Returns the slot for one of the archive's lines, or `None` if it must not use the table.
    #[inline]
    pub(crate) fn slot_of_archive_line(&self, id: u8) -> Option<usize> {
        // Make sure that a damaged archive can't use the server's IDs.
        (id < LINE_IDS && !self.is_for_other_archive).then_some(id.into())
    }
}

/// Returns the slot for one of the server's lines, which does not depend on the archive.
#[inline]
pub(crate) fn slot_of_server_line(id: u8) -> Option<usize> {
    let slot = usize::from(id);
    (slot < LINE_SLOTS).then_some(slot)
}
