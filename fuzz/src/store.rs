//! Arbitrary bytes as the document of a store, and as a publisher's statement. Everything that is accepted has bounds, and means the
//! same after it was written again.

use cannery_store::StoredSite;
use cannery_store::limits::{DOCUMENT_BYTES_MAX, EARLIER_MAX, PATCHES_MAX, RECIPE_BLOB_BYTES_MAX};
use cannery_trust::Statement;

/// Parses the document that names the current release.
pub fn store_document(data: &[u8]) {
    let Ok(site) = StoredSite::parse(data) else { return };
    assert!(site.earlier.len() <= EARLIER_MAX);
    for release in site.releases() {
        assert!(release.patches.len() <= PATCHES_MAX);
        let recipes = release.patches.iter().map(|patch| patch.blob).chain([release.recipe]);
        assert!(recipes.map(|blob| blob.bytes).all(|bytes| bytes <= RECIPE_BLOB_BYTES_MAX));
    }
    let written = site.to_json();
    // What is written has more spaces, and may be too long for that.
    if written.len() as u64 <= DOCUMENT_BYTES_MAX {
        assert_eq!(StoredSite::parse(&written).as_ref(), Ok(&site));
    }
}

/// Parses the text that a publisher has signed.
pub fn statement(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(statement) = Statement::parse(text) else { return };
    assert_eq!(Statement::parse(&statement.to_text()).as_ref(), Ok(&statement));
}
