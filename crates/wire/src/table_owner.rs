//! The archive that owns the lines in a peer's dynamic table.

/// The archive that gives line IDs their meaning on a connection.
///
/// It changes when another archive takes its place (a new release). An archive in another place (another host on the same
/// connection) never becomes the owner: otherwise two hosts would empty the table for each other again and again.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TableOwner {
    owner: Option<Owner>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Owner {
    /// Number of the archive among those that the connection serves.
    archive: u16,
    /// First bytes of its digest.
    identity: u64,
}

/// The relation of an archive to the owner.
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
    /// Returns `true` if the archive is the owner.
    #[inline]
    pub(crate) fn is(self, archive: u16, identity: u64) -> bool {
        self.owner == Some(Owner { archive, identity })
    }

    /// Compares an archive with the owner, which may change. `identity` is the beginning of its digest, or 0 if there is no
    /// archive.
    pub(crate) fn update(&mut self, archive: u16, identity: u64) -> Ownership {
        match self.owner {
            _ if identity == 0 => Ownership::Other,
            Some(owner) if owner.identity == identity => Ownership::Owner,
            Some(owner) if owner.archive != archive => Ownership::Other,
            replaced => {
                self.owner = Some(Owner { archive, identity });
                if replaced.is_some() { Ownership::Replaced } else { Ownership::Owner }
            }
        }
    }
}
