//! A store in memory, which loses, delays, cuts and changes what it sends.

use std::collections::HashMap;
use std::io::Cursor;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use cannery_store::{Blob, Look, Opened, Store, StoreError, StoreErrorKind, StoredSite};

use super::{Random, World, lock};

/// Contents of the store.
#[derive(Default)]
pub(super) struct Shelf {
    blobs: HashMap<[u8; 32], Arc<Vec<u8>>>,
    /// All documents, the current one last.
    documents: Vec<StoredSite>,
}

impl Shelf {
    pub(super) fn point(&mut self, site: StoredSite) {
        self.documents.push(site);
    }

    pub(super) fn current_serial(&self) -> Option<u64> {
        self.documents.last().map(|site| site.current.serial)
    }
}

/// The store as one machine sees it.
pub(super) struct BadStore {
    world: Arc<World>,
    task: usize,
    /// Chooses faults, if there are any.
    random: Option<Random>,
}

/// A fault of a response.
enum Fault {
    None,
    Lost,
    Late(Duration),
    /// It ends after this share of its bytes, in percent.
    Cut(u64),
    /// A bit of it is wrong.
    Wrong,
    /// It is the whole blob instead of a range.
    Whole,
    /// It is a part that begins elsewhere, as if it were the right one.
    Shifted,
}

impl BadStore {
    pub(super) fn new(world: &Arc<World>, task: usize, seed: u64) -> BadStore {
        BadStore { world: Arc::clone(world), task, random: Some(Random::new(seed)) }
    }

    pub(super) fn without_faults(world: &Arc<World>) -> BadStore {
        BadStore { world: Arc::clone(world), task: 0, random: None }
    }

    fn fault(&mut self) -> Fault {
        let Some(random) = &mut self.random else { return Fault::None };
        if self.world.is_calm.load(Ordering::Relaxed) {
            return Fault::None;
        }
        match random.below(20) {
            0 | 1 => Fault::Lost,
            2..6 => Fault::Late(Duration::from_millis(random.below(3000))),
            6 => Fault::Cut(random.below(100)),
            7 => Fault::Wrong,
            8 => Fault::Whole,
            9 => Fault::Shifted,
            _ => Fault::None,
        }
    }

    /// Changes a bit.
    fn damage(&mut self, bytes: &mut [u8]) {
        let Some(random) = &mut self.random else { return };
        let position = usize::try_from(random.below(bytes.len().max(1) as u64)).unwrap();
        if let Some(byte) = bytes.get_mut(position) {
            *byte ^= 1 << random.below(8);
        }
    }
}

fn error(kind: StoreErrorKind, message: &str) -> StoreError {
    StoreError { kind, message: message.to_owned(), hint: None }
}

fn lost() -> StoreError {
    error(StoreErrorKind::Unreachable, "the store can't be reached")
}

impl Store for BadStore {
    fn look(&mut self, known: Option<&str>) -> Result<Look, StoreError> {
        let fault = self.fault();
        if let Fault::Late(time) = fault {
            self.world.turns.sleep(self.task, time);
        }
        let world = Arc::clone(&self.world);
        let shelf = lock(&world.shelf);
        let count = shelf.documents.len();
        // A cache may have an older one.
        let index =
            if matches!(fault, Fault::Shifted) { count.saturating_sub(2) } else { count.saturating_sub(1) };
        let Some(site) = shelf.documents.get(index) else { return Ok(Look::Empty) };
        let version = index.to_string();
        if known == Some(&version) {
            return Ok(Look::Same);
        }
        let mut bytes = site.to_json();
        match fault {
            Fault::Lost => return Err(lost()),
            Fault::Cut(percent) => bytes.truncate(bytes.len() * usize::try_from(percent).unwrap() / 100),
            Fault::Wrong => self.damage(&mut bytes),
            _ => {}
        }
        match StoredSite::parse(&bytes) {
            // A version of its own, so that the right document is read later.
            Ok(site) if matches!(fault, Fault::Wrong) => {
                Ok(Look::New { site: Box::new(site), version: format!("{version}-wrong") })
            }
            Ok(site) => Ok(Look::New { site: Box::new(site), version }),
            Err(wrong) => Err(error(StoreErrorKind::Wrong, &wrong.to_string())),
        }
    }

    fn open(&mut self, blob: &Blob, range: Range<u64>) -> Result<Opened, StoreError> {
        let content = lock(&self.world.shelf).blobs.get(&blob.sha256).cloned();
        let content = content.ok_or_else(|| error(StoreErrorKind::Missing, "there is no such file"))?;
        let part = |range: &Range<u64>| {
            let [start, end] = [range.start, range.end].map(|position| usize::try_from(position).unwrap());
            content.get(start..end.min(content.len())).unwrap_or_default().to_vec()
        };
        let (mut start, mut bytes) = (range.start, part(&range));
        match self.fault() {
            Fault::None => {}
            Fault::Lost => return Err(lost()),
            Fault::Late(time) => self.world.turns.sleep(self.task, time),
            Fault::Cut(percent) => bytes.truncate(bytes.len() * usize::try_from(percent).unwrap() / 100),
            Fault::Wrong => self.damage(&mut bytes),
            Fault::Whole => (start, bytes) = (0, content.to_vec()),
            Fault::Shifted => bytes = part(&(range.start / 2..range.start / 2 + (range.end - range.start))),
        }
        Ok(Opened { start, reader: Box::new(Cursor::new(bytes)) })
    }

    fn has(&mut self, blob: &Blob) -> Result<bool, StoreError> {
        Ok(lock(&self.world.shelf).blobs.contains_key(&blob.sha256))
    }

    fn put(&mut self, blob: &Blob, content: &[u8]) -> Result<(), StoreError> {
        lock(&self.world.shelf).blobs.insert(blob.sha256, Arc::new(content.to_vec()));
        Ok(())
    }

    fn point(&mut self, site: &StoredSite, _: Option<&str>) -> Result<(), StoreError> {
        lock(&self.world.shelf).point(site.clone());
        Ok(())
    }

    fn remove(&mut self, _: &Blob) -> Result<(), StoreError> {
        Ok(())
    }
}
