//! Facts: the first record. Readers need this before they can look up anything.
//!
//! Comes right after the header, at a fixed position, to recognize an archive and its width. Data for people should go to the
//! manifest instead.

use super::Fields;
use super::format::Format;
use super::name;
use crate::{Corrupt, Digest};

/// The schema version that this program writes and reads.
pub const SCHEMA_VERSION: u32 = 4;

/// The first bytes of the facts, before the version.
pub(crate) const MAGIC: &[u8; 4] = b"CANR";
/// Length of the facts in bytes.
pub(crate) const FACTS_BYTES: usize = 96;
/// Offset of the digest in the facts. While computing the digest, we count these bytes as zeros.
pub(crate) const DIGEST_AT: usize = 64;

const SLASH_REDIRECTS: u32 = 1 << 0;
const FORCED_RULES: u32 = 1 << 1;
const HOSTS: u32 = 1 << 2;
const WILDCARD_HOSTS: u32 = 1 << 3;
const HEADER_RULES: u32 = 1 << 4;
const HOST_HEADER_RULES: u32 = 1 << 5;
const FLAGS: u32 = SLASH_REDIRECTS | FORCED_RULES | HOSTS | WILDCARD_HOSTS | HEADER_RULES | HOST_HEADER_RULES;

/// Maximum number of bytes from the start of a file that [`has_schema_version`] needs.
pub const SCHEMA_PREFIX_BYTES: usize = {
    let cdb = version_position(Format::Cdb);
    let cdb64 = version_position(Format::Cdb64);
    (if cdb > cdb64 { cdb } else { cdb64 }) + size_of_val(&SCHEMA_VERSION)
};

/// Returns `true` if `file` starts like an archive of [`SCHEMA_VERSION`].
///
/// This can be called at compile time for an archive that is part of the program because it only compares a dozen bytes.
#[must_use]
pub const fn has_schema_version(file: &[u8]) -> bool {
    begins_with_facts(file, Format::Cdb) || begins_with_facts(file, Format::Cdb64)
}

/// Returns `true` if the first record has the key of the facts, the magic bytes and our version.
const fn begins_with_facts(file: &[u8], format: Format) -> bool {
    let version = version_position(format);
    let magic = version - MAGIC.len();
    let key = magic - name::FACTS.len();
    has_bytes_at(file, key, name::FACTS)
        && has_bytes_at(file, magic, MAGIC)
        && has_bytes_at(file, version, &SCHEMA_VERSION.to_le_bytes())
}

/// Returns the position of the version, right after the key of the facts and the magic bytes.
#[allow(clippy::cast_possible_truncation)] // A few thousand bytes.
const fn version_position(format: Format) -> usize {
    (format.header_bytes() + format.record_header_bytes()) as usize + name::FACTS.len() + MAGIC.len()
}

const fn has_bytes_at(file: &[u8], position: usize, expected: &[u8]) -> bool {
    if file.len() < position + expected.len() {
        return false;
    }
    let mut index = 0;
    while index < expected.len() {
        if file[position + index] != expected[index] {
            return false;
        }
        index += 1;
    }
    true
}

/// Properties of an archive that readers need before they can look up anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// Whether the server redirects `/directory` to `/directory/` and `/file/` to `/file`. Such redirects do not have records.
    pub slash_redirects: bool,
    /// Whether some rules take precedence over an exact path.
    pub forced_rules: bool,
    /// Whether some keys contain a host.
    pub hosts: bool,
    /// Whether some hosts are wildcards.
    pub wildcard_hosts: bool,
    /// Whether some sites have header rules. The server needs to apply them to paths the archiver did not know.
    pub header_rules: bool,
    /// Whether some header rules are restricted to a host, so that they cannot be part of the heads of files.
    pub host_header_rules: bool,
    /// Maximum number of labels after the `*.` of a wildcard host.
    pub wildcard_labels_max: u16,
    /// Length of the longest path with a record, in bytes.
    pub path_bytes_max: u16,
    /// Maximum number of directories between the root and a scope. This tells us when to stop looking for scopes.
    pub scope_depth_max: u16,
    /// Number of path records.
    pub paths: u64,
    /// Number of distinct bodies.
    pub bodies: u64,
    /// Total length of the distinct bodies in bytes.
    pub body_bytes: u64,
    /// Serial number of the release, one higher than the previous release. 0 if it is unknown.
    pub serial: u64,
    /// Length of the whole file in bytes.
    pub file_bytes: u64,
    /// BLAKE3 digest of the file. First it covers everything after this record, and then the file up to the end of this record,
    /// with zeros in place of the digest.
    pub digest: Digest,
}

impl Facts {
    pub(crate) fn encode(&self) -> [u8; FACTS_BYTES] {
        let flag = |is_set: bool, bit: u32| if is_set { bit } else { 0 };
        let flags = flag(self.slash_redirects, SLASH_REDIRECTS)
            | flag(self.forced_rules, FORCED_RULES)
            | flag(self.hosts, HOSTS)
            | flag(self.wildcard_hosts, WILDCARD_HOSTS)
            | flag(self.header_rules, HEADER_RULES)
            | flag(self.host_header_rules, HOST_HEADER_RULES);

        let mut out = Vec::with_capacity(FACTS_BYTES);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&SCHEMA_VERSION.to_le_bytes());
        out.extend_from_slice(&flags.to_le_bytes());
        out.extend_from_slice(&self.scope_depth_max.to_le_bytes());
        out.extend_from_slice(&self.path_bytes_max.to_le_bytes());
        for number in [self.paths, self.bodies, self.body_bytes, self.file_bytes, self.serial] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&self.wildcard_labels_max.to_le_bytes());
        out.extend_from_slice(&[0; 6]);
        out.extend_from_slice(&self.digest.0);
        out.try_into().expect("the fields above are FACTS_BYTES long")
    }

    pub(crate) fn decode(bytes: &[u8], offset: u64) -> Result<Facts, FactsError> {
        let mut fields = Fields::new(bytes, Format::Cdb64, offset, "the facts record");
        if fields.array()? != MAGIC {
            return Err(FactsError::Foreign);
        }
        let version = fields.u32()?;
        if version != SCHEMA_VERSION {
            return Err(FactsError::Version(version));
        }

        let flags = fields.u32()?;
        let scope_depth_max = fields.u16()?;
        let path_bytes_max = fields.u16()?;
        let mut numbers = [0; 5];
        for number in &mut numbers {
            *number = fields.quantity()?;
        }
        let [paths, bodies, body_bytes, file_bytes, serial] = numbers;
        let wildcard_labels_max = fields.u16()?;
        fields.take(6)?;

        let facts = Facts {
            slash_redirects: flags & SLASH_REDIRECTS != 0,
            forced_rules: flags & FORCED_RULES != 0,
            hosts: flags & HOSTS != 0,
            wildcard_hosts: flags & WILDCARD_HOSTS != 0,
            header_rules: flags & HEADER_RULES != 0,
            host_header_rules: flags & HOST_HEADER_RULES != 0,
            wildcard_labels_max,
            path_bytes_max,
            scope_depth_max,
            paths,
            bodies,
            body_bytes,
            serial,
            file_bytes,
            digest: Digest(*fields.array()?),
        };

        // An unknown flag might change the meaning of the archive.
        if flags & !FLAGS != 0 || !fields.is_empty() {
            return Err(fields.corrupt().into());
        }
        Ok(facts)
    }
}

/// Reasons why the facts cannot be decoded.
pub(crate) enum FactsError {
    /// The magic bytes are missing.
    Foreign,
    /// The archive has this version, which we cannot read.
    Version(u32),
    Corrupt(Corrupt),
}

impl From<Corrupt> for FactsError {
    fn from(corrupt: Corrupt) -> Self {
        FactsError::Corrupt(corrupt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_facts_are_decoded() {
        let facts = Facts {
            slash_redirects: true,
            forced_rules: false,
            hosts: true,
            wildcard_hosts: false,
            header_rules: true,
            host_header_rules: false,
            wildcard_labels_max: 3,
            path_bytes_max: 300,
            scope_depth_max: 7,
            paths: 250_000,
            bodies: 100_000,
            body_bytes: 1 << 40,
            serial: 12,
            file_bytes: 3 << 40,
            digest: Digest([7; 32]),
        };
        let bytes = facts.encode();
        assert_eq!(&bytes[DIGEST_AT..], &[7; 32], "the digest is at its offset");
        assert!(matches!(Facts::decode(&bytes, 0), Ok(decoded) if decoded == facts));
    }
}
