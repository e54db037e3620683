//! Linked records: path records that refer to bodies and heads by ordinal instead of by position.
//!
//! When a page near the start of an archive grows, the position of every later body changes, and with it most path records. Their
//! linked form stays the same, which makes it the better material for comparing two archives. It is also shorter, because entity
//! tags and body lengths follow from the body.
//!
//! A body's ordinal is stored as the difference to the last one referred to, since consecutive paths usually have consecutive
//! bodies. Records must therefore be linked and resolved in file order.

use crate::checksum::{Digest, ETag};
use crate::layout::Fields;
use crate::layout::format::Format;
use crate::layout::record::{Extent, Record, Resource};

/// Fields of a resource before its representations: kind, origin, status, count. The time of its last modification may follow.
const RESOURCE_HEAD_BYTES: usize = 5;

/// Bodies and heads, in file order, that records can refer to.
#[derive(Default)]
pub(crate) struct Targets {
    bodies: Vec<(Extent, ETag)>,
    heads: Vec<u64>,
    /// Ordinal of the body that the last linked record referred to.
    last_body: u64,
}

impl Targets {
    pub(crate) fn add_body(&mut self, digest: &Digest, extent: Extent) {
        self.bodies.push((extent, digest.etag()));
    }

    /// Adds the head whose record is at `position`.
    pub(crate) fn add_head(&mut self, position: u64) {
        self.heads.push(position);
    }

    /// Returns the linked form of a path record's data.
    ///
    /// Returns `None` if the record has no such form: it isn't a resource, it refers to something else, or its entity tag isn't
    /// the one of its body.
    pub(crate) fn link(&mut self, data: &[u8], format: Format) -> Option<Vec<u8>> {
        let Ok(Record::Resource(resource)) = Record::decode(data, format, 0) else { return None };
        let before = self.last_body;
        let linked = self.link_resource(data, &resource);

        // A resource may have bytes that its decoder ignores. Only a form that leads back to the same bytes will do.
        let after = std::mem::replace(&mut self.last_body, before);
        let linked = linked.filter(|linked| self.resolve(linked, format).as_deref() == Some(data));
        self.last_body = if linked.is_some() { after } else { before };
        linked
    }

    fn link_resource(&mut self, data: &[u8], resource: &Resource<'_>) -> Option<Vec<u8>> {
        let mut linked = data.get(..head_bytes(data, resource.modified.is_some()))?.to_vec();
        for representation in resource.representations() {
            let representation = representation.ok()?;
            let body =
                self.bodies.binary_search_by_key(&representation.body.position, |(body, _)| body.position);
            let head = self.heads.binary_search(&representation.head).ok()? as u64;
            let body = body.ok()? as u64;
            linked.push(representation.coding as u8);
            put_varint(&mut linked, zigzag(body.wrapping_sub(self.last_body)));
            put_varint(&mut linked, head);
            self.last_body = body;
        }
        Some(linked)
    }

    /// Returns the data of the path record that has this linked form, or `None` if there is none.
    pub(crate) fn resolve(&mut self, linked: &[u8], format: Format) -> Option<Vec<u8>> {
        // The start has the same layout in both forms, so the decoder can tell us how many representations there are.
        let Ok(Record::Resource(resource)) = Record::decode(linked, format, 0) else { return None };
        let (head, mut rest) = linked.split_at_checked(head_bytes(linked, resource.modified.is_some()))?;
        let count = head[RESOURCE_HEAD_BYTES - 1];

        let mut data = head.to_vec();
        for _ in 0..count {
            let (coding, after) = rest.split_first()?;
            rest = after;
            let body = self.last_body.wrapping_add(unzigzag(take_varint(&mut rest)?));
            let head = take_varint(&mut rest)?;
            let (extent, etag) = self.bodies.get(usize::try_from(body).ok()?)?;
            let head = *self.heads.get(usize::try_from(head).ok()?)?;
            self.last_body = body;

            data.push(*coding);
            data.extend_from_slice(&etag.0);
            for quantity in [extent.position, extent.length, head] {
                format.put(&mut data, quantity);
            }
        }
        rest.is_empty().then_some(data)
    }
}

fn head_bytes(data: &[u8], is_dated: bool) -> usize {
    let bytes = if is_dated { RESOURCE_HEAD_BYTES + size_of::<u64>() } else { RESOURCE_HEAD_BYTES };
    bytes.min(data.len())
}

/// Maps small differences, negative ones too, to small numbers.
fn zigzag(difference: u64) -> u64 {
    let signed = difference.cast_signed();
    ((signed << 1) ^ (signed >> 63)).cast_unsigned()
}

fn unzigzag(number: u64) -> u64 {
    (number >> 1) ^ (number & 1).wrapping_neg()
}

/// Appends a number in LEB128.
fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    out.push(number.to_le_bytes()[0]);
}

fn take_varint(rest: &mut &[u8]) -> Option<u64> {
    let mut bytes = Fields::new(rest, Format::Cdb64, 0, "a linked record");
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = bytes.u8().ok()?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            *rest = bytes.rest();
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_survive_both_encodings() {
        for number in [0, 1, 127, 128, 300, u64::MAX - 1, u64::MAX, 1 << 63] {
            assert_eq!(unzigzag(zigzag(number)), number);
            let mut bytes = Vec::new();
            put_varint(&mut bytes, number);
            let mut rest = bytes.as_slice();
            assert_eq!((take_varint(&mut rest), rest), (Some(number), b"".as_slice()));
        }
        assert_eq!(take_varint(&mut [0x80; 11].as_slice()), None, "too long");
        assert_eq!(take_varint(&mut [0x80].as_slice()), None, "cut");
    }

    #[test]
    fn linked_resource_leads_back_to_its_bytes() {
        let (first, second) = (Digest::of(b"1"), Digest::of(b"2"));
        let targets = || {
            let mut targets = Targets::default();
            targets.add_body(&first, Extent { position: 100, length: 7 });
            targets.add_body(&second, Extent { position: 200, length: 9 });
            targets.add_head(300);
            targets
        };
        for format in [Format::Cdb, Format::Cdb64] {
            let mut data = vec![1, 0, 200, 0, 2];
            for (digest, position, length) in [(&second, 200, 9), (&first, 100, 7)] {
                data.push(0);
                data.extend_from_slice(&digest.etag().0);
                for quantity in [position, length, 300] {
                    format.put(&mut data, quantity);
                }
            }
            let linked = targets().link(&data, format).unwrap();
            assert_eq!(linked, [1, 0, 200, 0, 2, 0, 2, 0, 0, 1, 0]);
            assert_eq!(targets().resolve(&linked, format).unwrap(), data);

            // Another entity tag, a reference into the middle of a body, and bytes that no decoder reads.
            for at in [6, 23] {
                let mut other = data.clone();
                other[at] ^= 1;
                assert_eq!(targets().link(&other, format), None);
            }
            data.push(0);
            assert_eq!(targets().link(&data, format), None);
        }
    }
}
