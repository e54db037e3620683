//! Keeps rendered listings for the next build. It will be able to reuse them for folders that still have
//! the same entries.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use super::{Entry, Listing};
use crate::sources::source::GeneratedPage;

/// Listings of this build and the last one, by folder. Cloning does not copy any pages.
#[derive(Clone, Default)]
pub(crate) struct Listings {
    before: HashMap<Box<[u8]>, Arc<Rendered>>,
    now: HashMap<Box<[u8]>, Arc<Rendered>>,
}

/// The listing of a folder.
///
/// Pages are rendered on demand, as folders with an index page, for example, do not need HTML.
pub(super) struct Rendered {
    listing: Listing,
    html: OnceLock<Arc<GeneratedPage>>,
    json: OnceLock<Arc<GeneratedPage>>,
}

impl Listings {
    /// Returns the listing for a folder with these entries.
    pub(super) fn of(&mut self, folder: &[u8], entries: Vec<Entry>) -> Arc<Rendered> {
        let listing = Listing::new(folder, entries);
        let known = self.before.get(folder).filter(|known| known.listing.entries == listing.entries);
        let rendered = known
            .cloned()
            .unwrap_or_else(|| Arc::new(Rendered { listing, html: OnceLock::new(), json: OnceLock::new() }));
        self.now.insert(folder.into(), Arc::clone(&rendered));
        rendered
    }

    /// Finishes a build and returns its listings for the next one.
    pub(crate) fn finish(self) -> Listings {
        Listings { before: self.now, now: HashMap::new() }
    }
}

impl Rendered {
    pub(super) fn html(&self) -> Arc<GeneratedPage> {
        Arc::clone(self.html.get_or_init(|| page(self.listing.html())))
    }

    pub(super) fn json(&self) -> Arc<GeneratedPage> {
        Arc::clone(self.json.get_or_init(|| page(self.listing.json())))
    }
}

fn page(content: String) -> Arc<GeneratedPage> {
    Arc::new(GeneratedPage { content: content.into_bytes(), facts: OnceLock::new() })
}
