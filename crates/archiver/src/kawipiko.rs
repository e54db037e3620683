//! Reads archives made by kawipiko. These are 32-bit constant databases in which paths refer to heads and
//! bodies.
//!
//! We should not trust any number in the file. There is no checksum, so a changed byte inside a body will go
//! unnoticed; any other inconsistency is an error that includes a position.

mod tables;

use std::collections::{HashMap, HashSet};

use self::tables::{NAMES, VALUES};

/// Key and value of the record that names the format.
const SCHEMA_KEY: &[u8] = b"schema";
const SCHEMA: &[u8] = b"kawipiko-2022a";

/// Number of hash tables that the header refers to.
const TABLES: usize = 256;
const HEADER_BYTES: usize = TABLES * 8;

/// Why a file could not be read: either it is not a kawipiko archive, or it is damaged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The first record does not name a format.
    #[error("not an archive of kawipiko: its first record is not `schema`")]
    Foreign,
    /// The record names another version of the format.
    #[error("an archive of kawipiko with the format `{got}`: only `kawipiko-2022a` can be read")]
    Version {
        /// The name of the format.
        got: String,
    },
    /// A structure contradicts the file.
    #[error("damaged archive of kawipiko: {what} at byte {offset}")]
    Damaged {
        /// The structure.
        what: &'static str,
        /// Its position in bytes.
        offset: usize,
    },
    /// A path refers to something that is missing or invalid.
    #[error("damaged archive of kawipiko: {what} of `{path}`")]
    Reference {
        /// The reference.
        what: &'static str,
        /// The path, as in the archive.
        path: String,
    },
}

/// Kind of a path's record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Redirect,
    Listing,
}

/// How kawipiko answers a path.
#[derive(Debug, Clone)]
pub(crate) struct Path<'a> {
    pub(crate) kind: Kind,
    /// Starts with `://` and the host, if there is one.
    pub(crate) path: &'a [u8],
    pub(crate) status: u16,
    /// Names and values, but not the status.
    pub(crate) fields: Vec<(&'static str, &'a str)>,
    pub(crate) body: &'a [u8],
    /// Two paths with the same file share this reference.
    pub(crate) reference: &'a [u8],
}

/// Reads all paths in file order.
pub(crate) fn read(file: &[u8]) -> Result<Vec<Path<'_>>, ReadError> {
    let records = records(file)?;
    let by_key: HashMap<&[u8], &[u8]> = records.iter().copied().collect();
    match by_key.get(SCHEMA_KEY) {
        Some(schema) if *schema == SCHEMA => {}
        Some(schema) => {
            let got = String::from_utf8_lossy(&schema[..schema.len().min(64)]).into_owned();
            return Err(ReadError::Version { got });
        }
        None => return Err(ReadError::Foreign),
    }

    let kinds = [(b"f:", Kind::File), (b"r:", Kind::Redirect), (b"l:", Kind::Listing)];
    let mut paths = Vec::new();
    for (key, reference) in &records {
        let kind = kinds.iter().find_map(|(prefix, kind)| Some((*kind, key.strip_prefix(*prefix)?)));
        let Some((kind, path)) = kind else { continue };
        let damaged = |what| ReadError::Reference { what, path: String::from_utf8_lossy(path).into_owned() };
        let Some((meta, data)) = reference.split_at_checked(8).filter(|(_, data)| data.len() == 8) else {
            return Err(damaged("the reference"));
        };
        let meta = by_key.get(meta).ok_or_else(|| damaged("the reference to the head"))?;
        let body = by_key.get(data).ok_or_else(|| damaged("the reference to the body"))?;
        let (status, fields) = head(meta).ok_or_else(|| damaged("the head"))?;
        paths.push(Path { kind, path, status, fields, body, reference });
    }
    Ok(paths)
}

/// Key and value.
type Entry<'a> = (&'a [u8], &'a [u8]);

/// Checks that these records are exactly the ones referred to by the hash tables, then returns them
/// in file order.
fn records(file: &[u8]) -> Result<Vec<Entry<'_>>, ReadError> {
    let damaged = |what, offset| ReadError::Damaged { what, offset };
    // Kawipiko writes this record first.
    let first = file.get(HEADER_BYTES..).and_then(|rest| rest.get(8..8 + SCHEMA_KEY.len()));
    if first != Some(SCHEMA_KEY) || number(file, HEADER_BYTES) != Some(SCHEMA_KEY.len()) {
        return Err(ReadError::Foreign);
    }

    // Then the tables follow, without gaps, up to the end of the file.
    let references = (0..TABLES).map(|table| table * 8);
    let end = number(file, 0).unwrap_or_default();
    let mut tables_end = end;
    let mut positions = HashSet::new();
    for at in references {
        let position = number(file, at).ok_or(damaged("a reference to a hash table", at))?;
        let slots = number(file, at + 4).ok_or(damaged("a reference to a hash table", at))?;
        let length = slots.checked_mul(8).ok_or(damaged("a hash table", position))?;
        if position != tables_end {
            return Err(damaged("a reference to a hash table", at));
        }
        tables_end = position.checked_add(length).ok_or(damaged("a hash table", position))?;
        let table = file.get(position..tables_end).ok_or(damaged("a hash table", position))?;
        // Both numbers are 0 in an empty slot. The hash alone is not enough, because it may be 0
        // for a key.
        let used = table.chunks_exact(8).filter_map(|slot| number(slot, 4)).filter(|record| *record != 0);
        positions.extend(used);
    }
    if tables_end != file.len() {
        return Err(damaged("the end of the file", tables_end));
    }

    let mut records = Vec::new();
    let mut keys = HashSet::new();
    let mut at = HEADER_BYTES;

    while at < end {
        let what = "a record";
        let key_bytes = number(file, at).ok_or(damaged(what, at))?;
        let data_bytes = number(file, at + 4).ok_or(damaged(what, at))?;
        let key_end = at.checked_add(8).and_then(|start| start.checked_add(key_bytes));
        let data_end =
            key_end.and_then(|end| end.checked_add(data_bytes)).filter(|data_end| *data_end <= end);
        let (Some(key_end), Some(data_end)) = (key_end, data_end) else { return Err(damaged(what, at)) };

        let key = &file[at + 8..key_end];
        // Keys with a hash of 0 are lost by kawipiko: they are not in any table, so no server would
        // find them.
        let is_found = positions.remove(&at);
        if !is_found && hash(key) != 0 || !keys.insert(key) {
            return Err(damaged("a record that no lookup finds", at));
        }
        if is_found {
            records.push((key, &file[key_end..data_end]));
        }
        at = data_end;
    }

    match positions.into_iter().min() {
        Some(position) => Err(damaged("a reference to a record", position)),
        None => Ok(records),
    }
}

/// Hashes a key.
fn hash(key: &[u8]) -> u32 {
    key.iter().fold(5381, |hash: u32, byte| hash.wrapping_mul(33) ^ u32::from(*byte))
}

/// Reads a number, or returns `None` if it's out of bounds.
fn number(bytes: &[u8], at: usize) -> Option<usize> {
    let bytes = bytes.get(at..)?.first_chunk::<4>()?;
    usize::try_from(u32::from_le_bytes(*bytes)).ok()
}

/// A head's status and fields.
type Head<'a> = (u16, Vec<(&'static str, &'a str)>);

/// Decodes a head, i.e. a list of pairs.
///
/// Names come from the table. Values may come from either the table or the head itself.
fn head(mut rest: &[u8]) -> Option<Head<'_>> {
    let mut status = None;
    let mut fields = Vec::new();

    while !rest.is_empty() {
        let name = NAMES.get(index(take(&mut rest, 8)?, b'h')?)?;
        let value = match rest.first()? {
            b'H' => *VALUES.get(index(take(&mut rest, 8)?, b'H')?)?,
            b'Z' => {
                let length = take(&mut rest, 4)?[1..].iter().try_fold(0, |length, letter| {
                    let digit = letter.checked_sub(b'a').filter(|digit| *digit < 25)?;
                    Some(length * 25 + usize::from(digit))
                })?;
                std::str::from_utf8(take(&mut rest, length)?).ok()?
            }
            _ => return None,
        };

        // A control byte would end the line and start another.
        if value.is_empty() || !value.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
            return None;
        }

        if *name == "!Status" {
            status = value.parse().ok().filter(|status| (200..=599).contains(status));
        } else {
            fields.push((*name, value));
        }
    }
    Some((status?, fields))
}

/// Finds the table entry that `h0000001` and so on denote.
fn index(reference: &[u8], prefix: u8) -> Option<usize> {
    let digits = std::str::from_utf8(reference.strip_prefix(&[prefix])?).ok()?;
    let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    usize::from_str_radix(digits, 16).ok().filter(|_| is_hex)?.checked_sub(1)
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(length)?;
    *rest = left;
    Some(taken)
}
