//! Responses clients never have to ask for again.

use cannery_archive::{Archive, Corrupt, Head, Origin, Resource};
use cannery_base::swar::{self, find_byte, first_eq_mask, repeat};

/// Returns `true` if a resource is a file with `Cache-Control: immutable`, so that its content will never change. Pages do not
/// count: if a page was taken down, it should not come back.
///
/// # Errors
/// Fails if the archive is corrupt.
pub fn is_immutable(archive: &Archive, resource: &Resource<'_>) -> Result<bool, Corrupt> {
    if !matches!(resource.origin, Origin::File | Origin::Carried) || resource.status != 200 {
        return Ok(false);
    }

    let Some(representation) = resource.representations().next().transpose()? else { return Ok(false) };
    let head = archive.head(representation.head)?;
    Ok(has_immutable(&head) && !is_page(&head))
}

fn is_page(head: &Head<'_>) -> bool {
    let value = media_type(head);
    let begins_with =
        |name: &[u8]| value.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name));
    begins_with(b"text/html") || begins_with(b"application/xhtml+xml")
}

/// Returns `true` for data, which scripts may request under the same name for years.
pub(crate) fn is_data(head: &Head<'_>) -> bool {
    let value = media_type(head).split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii_end();
    [b"json".as_slice(), b"application/xml"].iter().any(|name| {
        value.len().checked_sub(name.len()).is_some_and(|start| value[start..].eq_ignore_ascii_case(name))
    })
}

/// Returns the media type from `Content-Type`.
fn media_type<'a>(head: &Head<'a>) -> &'a [u8] {
    let mut parts = head.content_type().splitn(2, |byte| *byte == b':');
    parts.nth(1).unwrap_or_default().trim_ascii()
}

/// Returns `true` if `Cache-Control` has `immutable` (RFC 8246 §2).
pub(crate) fn has_immutable(head: &Head<'_>) -> bool {
    let mut rest = head.resource();
    // The letter `m` rules out most files that may change.
    if !swar::any(rest, |word| first_eq_mask(word | repeat(CASE_BIT), b'm')) {
        return false;
    }

    while !rest.is_empty() {
        let (line, next) = rest.split_at(find_byte(rest, b'\n').unwrap_or(rest.len()));
        // Two letters rule out most fields.
        if let [b'C' | b'c', b'a' | b'A', ..] = line
            && let Some((name, value)) = line.split_at_checked(CACHE_CONTROL.len())
            && (name == CACHE_CONTROL || name.eq_ignore_ascii_case(CACHE_CONTROL))
            && has_directive(value, b"immutable")
        {
            return true;
        }
        rest = next.get(1..).unwrap_or_default();
    }
    false
}

/// Returns `true` if a list has this element, in any letter case.
fn has_directive(mut list: &[u8], directive: &[u8]) -> bool {
    while list.len() >= directive.len() {
        let (element, rest) = list.split_at(find_byte(list, b',').unwrap_or(list.len()));
        if element.trim_ascii().eq_ignore_ascii_case(directive) {
            return true;
        }
        list = rest.get(1..).unwrap_or_default();
    }
    false
}

/// The bit that is different in upper case and lower case letters.
const CASE_BIT: u8 = 0x20;

/// As the archiver writes it.
const CACHE_CONTROL: &[u8] = b"Cache-Control:";
