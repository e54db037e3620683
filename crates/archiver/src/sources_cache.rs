//! What is known of source files from earlier builds, so that an unchanged file is not read again.
//!
//! One file, loaded whole and replaced whole. Files are known by their absolute path and must have
//! exactly the stamp of then. A file touched within two seconds before the build is not remembered: it
//! might be written again within the same tick of the file system's clock. That comparison is the only
//! use of the clock. A cache that is damaged, or of another version, is empty.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use cannery_archive::Digest;

use crate::error::Error;
use crate::facts::Facts;
use crate::walk::Stamp;

/// First bytes of the file. The digit is the version of what follows.
const MAGIC: &[u8; 8] = b"CANRSRC1";

/// Younger files are not remembered, in nanoseconds: the coarsest file systems count in two seconds.
const RACY_NS: i128 = 2_000_000_000;

const UTF8: u8 = 1 << 0;
const FINGERPRINTED: u8 = 1 << 1;
const PROBED: u8 = 1 << 2;
const COMPRESSIBLE: u8 = 1 << 3;

/// Bytes of an entry without its path: the path's length, the stamp, the digest, the flags.
const ENTRY_BYTES: usize = 4 + 56 + Digest::BYTES + 1;

/// What is known of each file, by its absolute path.
type Entries = BTreeMap<Box<[u8]>, (Stamp, Facts)>;

/// What is known of source files.
#[derive(Debug)]
pub(crate) struct SourcesCache {
    place: PathBuf,
    entries: Entries,
    /// When the build began, in nanoseconds since 1970.
    began_ns: i128,
}

impl SourcesCache {
    /// Loads the cache at `place`; an empty one if there is none or it is not sound.
    pub(crate) fn load(place: &Path) -> Result<SourcesCache, Error> {
        let bytes = match fs::read(place) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(Error::cache(place)(error)),
        };
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let began_ns = i128::try_from(since_1970.as_nanos()).unwrap_or(i128::MAX);
        Ok(SourcesCache { place: place.to_owned(), entries: decode(&bytes).unwrap_or_default(), began_ns })
    }

    /// What is known of the file at this absolute path, if it still has this stamp.
    pub(crate) fn find(&self, path: &[u8], stamp: &Stamp) -> Option<Facts> {
        self.entries.get(path).filter(|(known, _)| known == stamp).map(|(_, facts)| *facts)
    }

    /// Forgets all below the folder `root`, remembers `files` (absolute path, stamp, facts), and replaces
    /// the cache at its place.
    pub(crate) fn replace(
        mut self,
        root: &[u8],
        files: impl Iterator<Item = (Box<[u8]>, Stamp, Facts)>,
    ) -> Result<(), Error> {
        self.entries.retain(|path, _| !path.strip_prefix(root).is_some_and(|rest| rest.starts_with(b"/")));
        let racy_ns = self.began_ns - RACY_NS;
        let settled = files.filter(|(_, stamp, _)| stamp.modified_ns.max(stamp.changed_ns) < racy_ns);
        self.entries.extend(settled.map(|(path, stamp, facts)| (path, (stamp, facts))));
        let mut name = self.place.clone().into_os_string();
        name.push(format!(".{}.tmp", std::process::id()));
        let temporary = PathBuf::from(name);
        let write = || -> io::Result<()> {
            fs::write(&temporary, encode(&self.entries))?;
            fs::rename(&temporary, &self.place)
        };
        write().map_err(Error::cache(&self.place))
    }
}

fn encode(entries: &Entries) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    for (path, (stamp, facts)) in entries {
        out.extend_from_slice(&u32::try_from(path.len()).unwrap_or(0).to_le_bytes());
        out.extend_from_slice(&stamp.size.to_le_bytes());
        out.extend_from_slice(&stamp.modified_ns.to_le_bytes());
        out.extend_from_slice(&stamp.changed_ns.to_le_bytes());
        out.extend_from_slice(&stamp.device.to_le_bytes());
        out.extend_from_slice(&stamp.inode.to_le_bytes());
        out.extend_from_slice(&facts.digest.0);
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        let probe = facts.compressible.map_or(0, |yes| PROBED | flag(yes, COMPRESSIBLE));
        out.push(flag(facts.utf8, UTF8) | flag(facts.fingerprinted, FINGERPRINTED) | probe);
        out.extend_from_slice(path);
    }
    let digest = Digest::of(&out);
    out.extend_from_slice(&digest.0);
    out
}

/// The entries, if every byte is as it was written.
fn decode(bytes: &[u8]) -> Option<Entries> {
    let (written, digest) = bytes.split_last_chunk::<{ Digest::BYTES }>()?;
    if Digest::of(written).0 != *digest {
        return None;
    }
    let mut rest = written.strip_prefix(MAGIC)?;
    let mut entries = Vec::with_capacity(rest.len() / (ENTRY_BYTES + 48));
    while !rest.is_empty() {
        let path_bytes = u32::from_le_bytes(take(&mut rest)?) as usize;
        let stamp = Stamp {
            size: u64::from_le_bytes(take(&mut rest)?),
            modified_ns: i128::from_le_bytes(take(&mut rest)?),
            changed_ns: i128::from_le_bytes(take(&mut rest)?),
            device: u64::from_le_bytes(take(&mut rest)?),
            inode: u64::from_le_bytes(take(&mut rest)?),
        };
        let digest = Digest(take(&mut rest)?);
        let [flags] = take(&mut rest)?;
        let (path, behind) = rest.split_at_checked(path_bytes)?;
        rest = behind;
        let compressible = (flags & PROBED != 0).then_some(flags & COMPRESSIBLE != 0);
        let facts = Facts {
            digest,
            utf8: flags & UTF8 != 0,
            fingerprinted: flags & FINGERPRINTED != 0,
            compressible,
        };
        entries.push((path.into(), (stamp, facts)));
    }
    Some(entries.into_iter().collect())
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, behind) = rest.split_first_chunk::<N>()?;
    *rest = behind;
    Some(*taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(modified_ns: i128) -> Stamp {
        Stamp { size: 3, modified_ns, changed_ns: 5, device: 1, inode: 2 }
    }

    fn facts(content: &[u8], compressible: Option<bool>) -> Facts {
        Facts { digest: Digest::of(content), utf8: true, fingerprinted: false, compressible }
    }

    fn replace(place: &Path, root: &[u8], files: &[(&[u8], Stamp, Facts)]) {
        let files = files.iter().map(|(path, stamp, facts)| (Box::from(*path), *stamp, *facts));
        SourcesCache::load(place).unwrap().replace(root, files).unwrap();
    }

    #[test]
    fn a_file_is_known_while_its_stamp_is_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("cache");
        let known = facts(b"a", Some(false));
        replace(&place, b"/site", &[(b"/site/a", stamp(7), known)]);
        let cache = SourcesCache::load(&place).unwrap();
        assert_eq!(cache.find(b"/site/a", &stamp(7)), Some(known));
        assert_eq!(cache.find(b"/site/a", &stamp(8)), None);
        assert_eq!(cache.find(b"/site/b", &stamp(7)), None);
    }

    #[test]
    fn one_cache_serves_several_folders_and_forgets_what_has_gone() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("cache");
        let known = facts(b"a", None);
        replace(&place, b"/one", &[(b"/one/a", stamp(7), known), (b"/one/b", stamp(7), known)]);
        replace(&place, b"/on", &[(b"/on/a", stamp(7), known)]);
        replace(&place, b"/one", &[(b"/one/b", stamp(7), known)]);
        let cache = SourcesCache::load(&place).unwrap();
        let paths: Vec<&[u8]> = cache.entries.keys().map(|path| &**path).collect();
        assert_eq!(paths, [b"/on/a".as_slice(), b"/one/b"]);
    }

    #[test]
    fn a_file_that_was_just_touched_is_not_remembered() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("cache");
        let now_ns = SourcesCache::load(&place).unwrap().began_ns;
        replace(&place, b"/site", &[(b"/site/a", stamp(now_ns), facts(b"a", None))]);
        assert_eq!(SourcesCache::load(&place).unwrap().find(b"/site/a", &stamp(now_ns)), None);
    }

    #[test]
    fn a_damaged_cache_is_empty() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("cache");
        replace(&place, b"/site", &[(b"/site/a", stamp(7), facts(b"a", Some(true)))]);
        let whole = fs::read(&place).unwrap();
        assert!(decode(&whole).is_some());
        for length in 0..whole.len() {
            assert!(decode(&whole[..length]).is_none(), "cut to {length} bytes");
        }
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x80;
            assert!(decode(&bytes).is_none(), "byte {at} flipped");
        }
    }

    #[test]
    fn a_folder_in_place_of_the_file_is_an_error_that_names_it() {
        let folder = tempfile::tempdir().unwrap();
        let error = SourcesCache::load(folder.path()).unwrap_err();
        assert!(matches!(&error, Error::Cache { path, .. } if path == folder.path()), "{error}");
    }
}
