//! The links and policies of a page or style sheet, without its text. They only depend on the content, so the next build need not
//! parse an unchanged page again if it has the sources cache.

use std::collections::HashSet;

use super::extract::{self, Document, Link, Purpose};

/// Incremented whenever other links or policies are found in the same text, or if they are encoded in another way.
const VERSION: u8 = 1;

/// A page or style sheet.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Page {
    /// `href` of the first `<base>` that has one.
    pub(super) base: Option<Vec<u8>>,
    /// Links in the order of the text. Each reference occurs once for each purpose.
    pub(super) links: Vec<PageLink>,
    /// Policies for scripts.
    pub(super) policies: Vec<PagePolicy>,
}

/// A reference to another resource, exactly as in the text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PageLink {
    pub(super) reference: Vec<u8>,
    pub(super) purpose: Purpose,
    pub(super) line: u32,
}

/// A policy, exactly as in the text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PagePolicy {
    pub(super) text: Vec<u8>,
    pub(super) line: u32,
}

impl Page {
    /// Reads a page, or a style sheet.
    pub(super) fn read(text: &[u8], is_html: bool) -> Page {
        let Document { base, links, policies } = match is_html {
            true => extract::html(text),
            false => Document { links: extract::css(text), ..Document::default() },
        };

        let mut lines = Lines { text, offset: 0, line: 1 };
        let mut page = Page { base, links: Vec::new(), policies: Vec::new() };
        let mut seen = HashSet::new();
        for Link { reference, offset, purpose } in links {
            let line = lines.at(offset);
            if !is_template(&reference) && !is_data(&reference) && seen.insert((reference.clone(), purpose)) {
                page.links.push(PageLink { reference, purpose, line });
            }
        }
        for policy in policies {
            page.policies.push(PagePolicy { line: lines.at(policy.offset), text: policy.text });
        }
        page
    }

    /// Encodes the page for the cache: the version, a byte that tells style sheets from pages, the base, the links and the policies.
    /// Lengths and lines have 32 bits in little endian. Returns `None` if a length has more.
    pub(super) fn encode(&self, is_html: bool) -> Option<Box<[u8]>> {
        fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) -> Option<()> {
            out.extend_from_slice(&u32::try_from(bytes.len()).ok()?.to_le_bytes());
            out.extend_from_slice(bytes);
            Some(())
        }

        let mut out = vec![VERSION, u8::from(is_html), u8::from(self.base.is_some())];
        put_bytes(&mut out, self.base.as_deref().unwrap_or_default())?;

        out.extend_from_slice(&u32::try_from(self.links.len()).ok()?.to_le_bytes());
        for link in &self.links {
            out.push(link.purpose as u8);
            out.extend_from_slice(&link.line.to_le_bytes());
            put_bytes(&mut out, &link.reference)?;
        }

        for policy in &self.policies {
            out.extend_from_slice(&policy.line.to_le_bytes());
            put_bytes(&mut out, &policy.text)?;
        }
        Some(out.into())
    }

    /// Decodes a page. Returns `None` if another version has encoded it, or if it is of another kind.
    pub(super) fn decode(encoded: &[u8], is_html: bool) -> Option<Page> {
        let mut rest = encoded.strip_prefix(&[VERSION, u8::from(is_html)])?;
        let [has_base] = take(&mut rest)?;
        let base = take_bytes(&mut rest)?;

        let mut page =
            Page { base: (has_base == 1).then_some(base), links: Vec::new(), policies: Vec::new() };
        for _ in 0..u32::from_le_bytes(take(&mut rest)?) {
            let [purpose] = take(&mut rest)?;
            let purpose = *Purpose::ALL.get(usize::from(purpose))?;
            let line = u32::from_le_bytes(take(&mut rest)?);
            page.links.push(PageLink { purpose, line, reference: take_bytes(&mut rest)? });
        }
        while !rest.is_empty() {
            let line = u32::from_le_bytes(take(&mut rest)?);
            page.policies.push(PagePolicy { line, text: take_bytes(&mut rest)? });
        }
        Some(page)
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, after) = rest.split_first_chunk::<N>()?;
    *rest = after;
    Some(*taken)
}

fn take_bytes(rest: &mut &[u8]) -> Option<Vec<u8>> {
    let length = u32::from_le_bytes(take(rest)?);
    let (taken, after) = rest.split_at_checked(length as usize)?;
    *rest = after;
    Some(taken.to_vec())
}

/// Returns `true` for template placeholders such as `{{ url }}`. A script or a later build step will replace these.
fn is_template(reference: &[u8]) -> bool {
    const MARKS: [&[u8]; 5] = [b"{{", b"{%", b"<%", b"${", b"#{"];
    MARKS.iter().any(|mark| reference.windows(mark.len()).any(|window| window == *mark))
}

/// Returns `true` for a `data:` URL. It leads nowhere, and may have an image in it.
fn is_data(reference: &[u8]) -> bool {
    reference.trim_ascii_start().get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"data:"))
}

/// Converts offsets to line numbers.
///
/// This is fast if offsets are mostly ascending.
struct Lines<'t> {
    text: &'t [u8],
    offset: usize,
    line: u32,
}

impl Lines<'_> {
    fn at(&mut self, offset: usize) -> u32 {
        let offset = offset.min(self.text.len());
        if offset < self.offset {
            self.offset = 0;
            self.line = 1;
        }
        let feeds = self.text[self.offset..offset].iter().filter(|byte| **byte == b'\n').count();
        // Beyond 2^32 lines, the warning will contain a line number that is too small. This should
        // be good enough.
        self.line = self.line.saturating_add(u32::try_from(feeds).unwrap_or(u32::MAX));
        self.offset = offset;
        self.line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] =
        b"<base href=/docs/>\n<meta http-equiv=content-security-policy content=\"script-src 'none'\">\n\
        <link rel=stylesheet href=a.css>\n<a href=b>\n<a href=b><img src=b><object data=c></object>\n\
        <img src=\"data:image/png;base64,AAAA\"><a href=\"{{ url }}\">";

    #[test]
    fn references_occur_once_for_each_purpose() {
        let page = Page::read(TEXT, true);
        let links: Vec<_> =
            page.links.iter().map(|link| (link.reference.as_slice(), link.purpose, link.line)).collect();
        assert_eq!(
            links,
            [
                (&b"a.css"[..], Purpose::Part, 3),
                (b"b", Purpose::Page, 4),
                (b"b", Purpose::Part, 5),
                (b"c", Purpose::Any, 5)
            ]
        );
        assert_eq!(page.base.as_deref(), Some(&b"/docs/"[..]));
        assert_eq!((page.policies[0].line, page.policies[0].text.as_slice()), (2, &b"script-src 'none'"[..]));
    }

    #[test]
    fn pages_are_decoded_as_they_were_encoded() {
        for text in [TEXT, b"", b"<a href=>", b"@import 'a'; b { background: url(c) }"] {
            for is_html in [true, false] {
                let page = Page::read(text, is_html);
                let encoded = page.encode(is_html).unwrap();
                assert_eq!(Page::decode(&encoded, !is_html), None);
                for end in 0..encoded.len() {
                    assert_ne!(Page::decode(&encoded[..end], is_html).as_ref(), Some(&page));
                }
                assert_eq!(Page::decode(&encoded, is_html), Some(page));
            }
        }
    }
}
