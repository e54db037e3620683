//! The archive that owns the lines in a peer's dynamic table, and the slots of lines in an encoder's state.

use cannery_archive::LINE_IDS;

/// Number of slots: of the lines of an archive, then of those of the server.
pub(crate) const LINE_SLOTS: usize = 64;

const _: () = assert!((LINE_IDS as usize) < LINE_SLOTS, "the server has lines too");

/// The archive that gives line IDs their meaning on a connection.
///
/// It changes when another archive takes its place (a new release). An archive in another place (another host on the same
/// connection) never becomes the owner: otherwise two hosts would empty the table for each other again and again.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TableOwner {
    owner: Option<Owner>,
    /// Whether the current section is for an archive other than the owner, so that its lines are sent as literals.
    is_for_other_archive: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Owner {
    /// Number of the archive among those that the connection serves.
    archive: u16,
    /// First bytes of its digest.
    identity: u64,
}

/// The relation of the current section's archive to the owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ownership {
    /// The archive is the owner.
    Owner,
    /// The archive is the owner now, instead of another one: no line of the table is of this archive.
    Replaced,
    /// The archive's lines must not use the table.
    Other,
}

impl TableOwner {
    /// Begins a section of lines of this archive, which may become the owner. `identity` is the beginning of its digest, or 0 if
    /// there is no archive.
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

    /// Returns `true` if the lines of the current section's archive must not use the table.
    #[inline]
    pub(crate) fn is_for_other_archive(&self) -> bool {
        self.is_for_other_archive
    }

    /// Returns the slot of a line of the current section's archive, or `None` if the line must not use the table.
    #[inline]
    pub(crate) fn slot_of_archive_line(&self, id: u8) -> Option<usize> {
        // A damaged archive must not use the server's IDs.
        (id < LINE_IDS && !self.is_for_other_archive).then_some(id.into())
    }
}

/// Returns the slot of a line of the server's own, which is the same for all archives.
#[inline]
pub(crate) fn slot_of_server_line(id: u8) -> Option<usize> {
    let slot = usize::from(id);
    (slot < LINE_SLOTS).then_some(slot)
}
