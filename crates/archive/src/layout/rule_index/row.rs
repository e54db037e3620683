//! Table rows in rule indexes. See `FORMAT.md`.

/// Used if a row does not have a parent.
pub(super) const NO_PARENT: u32 = u32::MAX;

/// A slot in the hash table of literals.
#[derive(Debug, Clone, Copy)]
pub(super) struct LiteralSlot {
    pub(super) hash: u32,
    /// Position of the segment.
    pub(super) position: u8,
    /// Length of the segment in bytes.
    pub(super) length: u8,
    /// Offset of the bytes in the heap.
    pub(super) text: u32,
    /// Offset of the set in the heap, or 0 if the slot is empty.
    pub(super) set: u32,
}

impl LiteralSlot {
    pub(super) const BYTES: usize = 14;
    pub(super) const EMPTY: [u8; Self::BYTES] = [0; Self::BYTES];

    #[inline]
    pub(super) fn decode(row: &[u8; Self::BYTES]) -> LiteralSlot {
        let [h0, h1, h2, h3, position, length, t0, t1, t2, t3, s0, s1, s2, s3] = *row;
        LiteralSlot {
            hash: u32::from_le_bytes([h0, h1, h2, h3]),
            position,
            length,
            text: u32::from_le_bytes([t0, t1, t2, t3]),
            set: u32::from_le_bytes([s0, s1, s2, s3]),
        }
    }

    pub(super) fn encode(&self) -> [u8; Self::BYTES] {
        let [h0, h1, h2, h3] = self.hash.to_le_bytes();
        let [t0, t1, t2, t3] = self.text.to_le_bytes();
        let [s0, s1, s2, s3] = self.set.to_le_bytes();
        [h0, h1, h2, h3, self.position, self.length, t0, t1, t2, t3, s0, s1, s2, s3]
    }
}

/// A row in the table of prefixes.
#[derive(Debug, Clone, Copy)]
pub(super) struct PrefixRow {
    /// Position of the segment.
    pub(super) position: u8,
    /// Length of the prefix in bytes.
    pub(super) length: u8,
    /// Offset of the bytes in the heap.
    pub(super) text: u32,
    /// Row of the longest proper prefix, or [`NO_PARENT`].
    pub(super) parent: u32,
    /// Offset of the set for longer segments.
    pub(super) longer: u32,
    /// Offset of the set for the segment that equals the prefix.
    pub(super) equal: u32,
}

impl PrefixRow {
    pub(super) const BYTES: usize = 18;

    #[inline]
    pub(super) fn decode(row: &[u8; Self::BYTES]) -> PrefixRow {
        let [position, length, t0, t1, t2, t3, p0, p1, p2, p3, l0, l1, l2, l3, e0, e1, e2, e3] = *row;
        PrefixRow {
            position,
            length,
            text: u32::from_le_bytes([t0, t1, t2, t3]),
            parent: u32::from_le_bytes([p0, p1, p2, p3]),
            longer: u32::from_le_bytes([l0, l1, l2, l3]),
            equal: u32::from_le_bytes([e0, e1, e2, e3]),
        }
    }

    pub(super) fn encode(&self) -> [u8; Self::BYTES] {
        let [t0, t1, t2, t3] = self.text.to_le_bytes();
        let [p0, p1, p2, p3] = self.parent.to_le_bytes();
        let [l0, l1, l2, l3] = self.longer.to_le_bytes();
        let [e0, e1, e2, e3] = self.equal.to_le_bytes();
        [self.position, self.length, t0, t1, t2, t3, p0, p1, p2, p3, l0, l1, l2, l3, e0, e1, e2, e3]
    }
}

/// A row in the table of suffixes. Their bytes are reversed.
#[derive(Debug, Clone, Copy)]
pub(super) struct SuffixRow {
    /// Length of the suffix in bytes.
    pub(super) length: u8,
    /// Offset of the bytes in the heap.
    pub(super) text: u32,
    /// Row of the longest other suffix that this one ends with, or [`NO_PARENT`].
    pub(super) parent: u32,
    /// Offset of the set.
    pub(super) set: u32,
}

impl SuffixRow {
    pub(super) const BYTES: usize = 13;

    #[inline]
    pub(super) fn decode(row: &[u8; Self::BYTES]) -> SuffixRow {
        let [length, t0, t1, t2, t3, p0, p1, p2, p3, s0, s1, s2, s3] = *row;
        SuffixRow {
            length,
            text: u32::from_le_bytes([t0, t1, t2, t3]),
            parent: u32::from_le_bytes([p0, p1, p2, p3]),
            set: u32::from_le_bytes([s0, s1, s2, s3]),
        }
    }

    pub(super) fn encode(&self) -> [u8; Self::BYTES] {
        let [t0, t1, t2, t3] = self.text.to_le_bytes();
        let [p0, p1, p2, p3] = self.parent.to_le_bytes();
        let [s0, s1, s2, s3] = self.set.to_le_bytes();
        [self.length, t0, t1, t2, t3, p0, p1, p2, p3, s0, s1, s2, s3]
    }
}
