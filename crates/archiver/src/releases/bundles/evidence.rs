//! Finds out which names are fingerprints by comparing releases.
//!
//! If a script or style sheet no longer exists and there is a new one that only differs in its hash, then this reveals the shape
//! of a tool's names: folder, separator, hash length, digits and suffix. It is only trusted if the name without hash is unique in
//! both folders. A script that was sent as immutable by an earlier release is just as good. After this, all names with this shape
//! count as fingerprints, even in earlier releases, unless they are words.
//!
//! Images, fonts and films only count if they are such a pair themselves and if there are scripts with the same shape,
//! because `item-B08N5WRWNW.jpg` may well contain the number of an article. Documents and data never count.
//!
//! In this module, the folder of a wildcard host is always spelled `_hosts/*.example.com/`,
//! even if it is called `_hosts/_wildcard.example.com/` on disk.
//!
//! If an earlier release had other bytes under a name, then the name is refuted, whatever it looks
//! like.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Range;

use cannery_archive::{Archive, Coding, Corrupt, ETag, Origin, Resource};
use cannery_site::is_immutable;

use super::InferableNames;
use super::names::{Digits, Family, Shape, angular_hash, is_base32, is_word_or_date, split};
use crate::contents::content::Contents;
use crate::hosts::site_path::{canonical, source_path};
use crate::releases::previous::Previous;
use crate::releases::resources::resources;
use crate::settings::error::{Error, PreviousError};
use crate::sources::source::Sources;

/// A name in this release that had other bytes in an earlier one.
pub(super) struct Refuted {
    /// The newest release with the other bytes.
    pub(super) serial: u64,
    /// The newest release that sent it as immutable.
    pub(super) immutable_in: Option<u64>,
}

/// Evidence found in earlier releases.
#[derive(Default)]
pub(crate) struct Evidence {
    shapes: HashMap<Shape, Digits>,
    /// Both paths of each pair that only differs in the hash.
    renamed: HashSet<Vec<u8>>,
    /// Names in this release that have been refuted.
    refuted: HashMap<Vec<u8>, Refuted>,
    /// Paths that have different bytes in two earlier releases.
    ambiguous: HashSet<Vec<u8>>,
    /// Paths in this release that, according to a manifest, once had other bytes.
    kept_mutable: HashSet<Vec<u8>>,
}

/// A path of an earlier release.
struct EarlierPath {
    path: Vec<u8>,
    serial: u64,
    etag: Option<ETag>,
    is_immutable: bool,
    is_carried: bool,
}

/// The part of a name before the hash, the length of the hash, and the part after the hash.
type Stem<'p> = (&'p [u8], usize, &'p [u8]);

/// Names of a release by stem, or `None` if several names have the same stem (e.g. the items of a
/// collection).
#[derive(Default)]
struct Stems<'p>(HashMap<Stem<'p>, Option<&'p [u8]>>);

impl<'p> Stems<'p> {
    fn add(&mut self, path: &'p [u8], hash: &Range<usize>) {
        let stem = (&path[..hash.start], hash.len(), &path[hash.end..]);
        self.0.entry(stem).and_modify(|known| *known = None).or_insert(Some(path));
    }

    /// Returns the name with this stem, if there is only one.
    fn only(&self, stem: Stem<'_>) -> Option<&'p [u8]> {
        self.0.get(&stem).copied().flatten()
    }
}

impl Evidence {
    /// Compares the sources with earlier releases.
    ///
    /// # Errors
    ///
    /// Returns an error if an earlier archive is corrupt.
    pub(crate) fn find(
        sources: &Sources,
        contents: &Contents,
        previous: &Previous,
        inferable: InferableNames<'_>,
    ) -> Result<Evidence, Error> {
        let mut evidence = Evidence::default();
        if previous.archives.is_empty() {
            return Ok(evidence);
        }

        let current: HashMap<Cow<'_, [u8]>, ETag> = sources
            .files
            .iter()
            .zip(&contents.by_source)
            .map(|(file, known)| (canonical(&file.path), contents.all[known.content as usize].digest.etag()))
            .collect();

        let mut seen: HashMap<Vec<u8>, ETag> = HashMap::new();
        let mut releases = Vec::new();
        for earlier in &previous.archives {
            let failed = |source: Corrupt| Error::Previous {
                path: earlier.path.clone(),
                source: PreviousError::Corrupt(source),
            };
            let paths = paths_of(&earlier.archive).map_err(failed)?;
            let mutable = earlier.mutable.iter().map(|path| canonical(path.as_bytes()).into_owned());
            evidence.kept_mutable.extend(mutable.filter(|path| current.contains_key(&**path)));

            let mut own = Vec::new();
            for found in paths {
                evidence.compare(&found, &current, &mut seen);
                if found.is_immutable && inferable.may_infer(&found.path) {
                    evidence.add_shape(&found.path);
                }
                // Carried files are left over from yet another release.
                if !found.is_carried && inferable.may_infer(&found.path) {
                    own.push(found.path);
                }
            }
            releases.push(own);
        }

        let files: Vec<&[u8]> =
            current.keys().map(|path| &**path).filter(|path| inferable.may_infer(path)).collect();
        let is_new = |path: &[u8]| !seen.contains_key(path);
        let is_gone = |path: &[u8]| !current.contains_key(path);
        for release in &releases {
            evidence.add_renamed(release, &files, &is_gone, &is_new);
        }
        Ok(evidence)
    }

    /// Compares a path of an earlier release with this release and with other earlier releases.
    fn compare(
        &mut self,
        found: &EarlierPath,
        current: &HashMap<Cow<'_, [u8]>, ETag>,
        seen: &mut HashMap<Vec<u8>, ETag>,
    ) {
        let EarlierPath { path, serial, etag, is_immutable, .. } = found;
        let Some(etag) = etag else { return };
        if seen.insert(path.clone(), *etag).is_some_and(|other| other != *etag) {
            self.ambiguous.insert(path.clone());
        }

        if current.get(path.as_slice()).is_some_and(|own| own != etag) {
            let refuted =
                self.refuted.entry(path.clone()).or_insert(Refuted { serial: *serial, immutable_in: None });
            refuted.serial = refuted.serial.max(*serial);
            if *is_immutable {
                refuted.immutable_in = refuted.immutable_in.max(Some(*serial));
            }
        }
    }

    fn add_shape(&mut self, path: &[u8]) {
        if Family::of(path) == Family::Code
            && let Some(hash) = hash_of(path)
            && let Some(shape) = Shape::of(path, &hash)
        {
            let digits = self.shapes.entry(shape).or_default();
            *digits = digits.and(Digits::of(&path[hash]));
        }
    }

    /// Finds pairs of names that only differ in their hash, where the first was removed since an earlier release and the second
    /// was added in this release.
    fn add_renamed(
        &mut self,
        release: &[Vec<u8>],
        files: &[&[u8]],
        is_gone: &dyn Fn(&[u8]) -> bool,
        is_new: &dyn Fn(&[u8]) -> bool,
    ) {
        let (mut before, mut after) = (Stems::default(), Stems::default());
        for (stems, paths) in [
            (&mut before, &mut release.iter().map(|path| &**path) as &mut dyn Iterator<Item = _>),
            (&mut after, &mut files.iter().copied()),
        ] {
            paths
                .filter_map(|path| Some((path, hash_of(path)?)))
                .for_each(|(path, hash)| stems.add(path, &hash));
        }

        let pairs = |before: &Stems<'_>, after: &Stems<'_>| -> Vec<(Vec<u8>, Vec<u8>)> {
            let pair = |(stem, earlier): (&Stem<'_>, &Option<&[u8]>)| {
                let earlier = earlier.filter(|path| is_gone(path))?;
                let successor = after.only(*stem).filter(|path| is_new(path))?;
                Some((earlier.to_vec(), successor.to_vec()))
            };
            before.0.iter().filter_map(pair).collect()
        };

        let found = pairs(&before, &after);
        for (earlier, successor) in &found {
            self.add_shape(earlier);
            self.add_shape(successor);
        }
        // Images and the like need scripts with the same shape.
        for (earlier, successor) in found.iter().filter(|(path, _)| Family::of(path) == Family::Media) {
            let shape = split(earlier).and_then(|(_, hash, _)| Shape::of(earlier, &hash));
            if shape.is_some_and(|shape| self.shapes.keys().any(|code| shape.agrees_with(code))) {
                self.renamed.extend([earlier.clone(), successor.clone()]);
            }
        }

        // Once the shape is known, one of the hashes in a pair is allowed to resemble a word, e.g.
        // `BfRhxndv`.
        let shapes: Vec<Shape> = self.shapes.keys().cloned().collect();
        for shape in shapes {
            let (mut before, mut after) = (Stems::default(), Stems::default());
            for path in release {
                shape.range_in(path).into_iter().for_each(|hash| before.add(path, &hash));
            }
            for path in files {
                shape.range_in(path).into_iter().for_each(|hash| after.add(path, &hash));
            }
            for (earlier, successor) in pairs(&before, &after) {
                let is_word =
                    |path: &[u8]| shape.range_in(path).is_none_or(|hash| is_word_or_date(&path[hash]));
                if !is_word(&earlier) || !is_word(&successor) {
                    self.renamed.extend([earlier, successor]);
                }
            }
        }
    }

    /// Returns `true` if the name of a file in this release is a fingerprint.
    pub(super) fn has_fingerprinted(&self, path: &[u8]) -> bool {
        let path = canonical(path);
        !self.refuted.contains_key(&*path) && self.is_fingerprinted(&path)
    }

    /// When the name of a file in this release is refuted by an earlier release, returns the latter.
    pub(super) fn refutation(&self, path: &[u8]) -> Option<&Refuted> {
        self.refuted.get(&*canonical(path))
    }

    /// Returns `true` if a path in an earlier archive has a name that is a fingerprint.
    pub(crate) fn has_fingerprinted_key(&self, stored: &[u8]) -> bool {
        if self.shapes.is_empty() {
            return false;
        }
        self.is_fingerprinted(&source_path(stored))
    }

    fn is_fingerprinted(&self, path: &[u8]) -> bool {
        self.renamed.contains(path) || !self.kept_mutable.contains(path) && self.has_known_shape(path)
    }

    /// Returns `true` if earlier releases have different bytes for a path.
    pub(crate) fn is_ambiguous_key(&self, stored: &[u8]) -> bool {
        !self.ambiguous.is_empty() && self.ambiguous.contains(&source_path(stored))
    }

    /// Remembers paths in this release that are not fingerprints in spite of other evidence.
    pub(super) fn keep_mutable(&mut self, paths: &[Vec<u8>]) {
        self.kept_mutable.extend(paths.iter().map(|path| canonical(path).into_owned()));
    }

    /// Returns names that mustn't count as fingerprints in later releases either, sorted.
    pub(crate) fn mutable(&self) -> Vec<String> {
        let looks_hashed = |path: &&Vec<u8>| {
            split(path).is_some() || self.shapes.keys().any(|shape| shape.range_in(path).is_some())
        };
        let refuted = self.refuted.keys().filter(looks_hashed);
        let names: BTreeSet<_> = refuted
            .chain(&self.kept_mutable)
            .map(|path| String::from_utf8_lossy(path).into_owned())
            .collect();
        names.into_iter().collect()
    }

    pub(super) fn is_kept_mutable(&self, path: &[u8]) -> bool {
        self.kept_mutable.contains(&*canonical(path))
    }

    fn has_known_shape(&self, path: &[u8]) -> bool {
        self.shapes.iter().any(|(shape, digits)| {
            shape.range_in(path).is_some_and(|hash| {
                let token = &path[hash];
                let may_be_word = digits.are_base32() && is_base32(token) && Family::of(path) == Family::Code;
                digits.contain(token) && (may_be_word || !is_word_or_date(token))
            })
        })
    }
}

/// Returns the range of the hash in a path.
///
/// In Angular's entry points, the hash is allowed to look like a word.
fn hash_of(path: &[u8]) -> Option<Range<usize>> {
    split(path).map(|(_, hash, _)| hash).or_else(|| angular_hash(path))
}

/// Returns all files in an archive.
fn paths_of(archive: &Archive) -> Result<Vec<EarlierPath>, Corrupt> {
    let serial = archive.facts().serial;
    let mut paths = Vec::new();
    for found in resources(archive) {
        let (stored, resource) = found?;
        if !matches!(resource.origin, Origin::File | Origin::Carried) {
            continue;
        }
        let is_immutable = is_immutable(archive, &resource)?;
        paths.push(EarlierPath {
            path: source_path(stored),
            serial,
            etag: etag_of(&resource)?,
            is_immutable,
            is_carried: resource.origin == Origin::Carried,
        });
    }
    Ok(paths)
}

/// Returns the entity tag of the uncompressed content, which is derived from its digest.
fn etag_of(resource: &Resource<'_>) -> Result<Option<ETag>, Corrupt> {
    for representation in resource.representations() {
        let representation = representation?;
        if representation.coding == Coding::Identity {
            return Ok(Some(ETag(*representation.etag)));
        }
    }
    Ok(None)
}
