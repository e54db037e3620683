//! Extracts links from HTML and CSS, and also policies from HTML, together with their byte offsets.
//!
//! HTML is read with a tokenizer that follows the WHATWG standard. In CSS, only comments, strings, `url()` and `@import`
//! are recognized.

use std::convert::Infallible;

use cannery_site::Intent;
use html5gum::Span;
use html5gum::Tokenizer;
use html5gum::emitters::callback::{CallbackEmitter, CallbackEvent};

/// A reference to another resource, exactly as in the file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) reference: Vec<u8>,
    pub(super) offset: usize,
    pub(super) purpose: Purpose,
}

/// How browsers use a link's target.
///
/// This decides whether a fallback page may answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Purpose {
    /// Navigates to it, in a window or frame.
    Page,
    /// Loads it as a part of the page, such as a script or an image.
    Part,
    /// Either of them, depending on the target.
    Any,
}

impl Purpose {
    /// All purposes, each at the index of its value.
    pub(super) const ALL: [Purpose; 3] = [Purpose::Page, Purpose::Part, Purpose::Any];

    /// Returns the intent of the browser's request.
    pub(super) fn intent(self) -> Intent {
        let mut intent = Intent::UNKNOWN;
        match self {
            Purpose::Page => intent.take_destination(b"document"),
            Purpose::Part => intent.take_destination(b"image"),
            Purpose::Any => {}
        }
        intent
    }
}

/// Everything found in a file.
#[derive(Debug, Default)]
pub(super) struct Document {
    /// `href` of the first `<base>` that has one.
    pub(super) base: Option<Vec<u8>>,
    pub(super) links: Vec<Link>,
    /// Policies in `<meta http-equiv="Content-Security-Policy">`, which are only allowed in the head.
    pub(super) policies: Vec<Policy>,
}

/// A policy, exactly as in the file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Policy {
    pub(super) text: Vec<u8>,
    pub(super) offset: usize,
}

/// `<link>` relations whose target is an origin rather than a resource.
const ORIGIN_RELATIONS: [&[u8]; 2] = [b"preconnect", b"dns-prefetch"];

/// `<link>` relations whose target is a part of the page.
const PART_RELATIONS: [&[u8]; 7] =
    [b"apple-touch-icon", b"icon", b"manifest", b"mask-icon", b"modulepreload", b"preload", b"stylesheet"];
/// Relations of `<link>` for which the target is another page.
const PAGE_RELATIONS: [&[u8]; 4] = [b"author", b"canonical", b"next", b"prev"];

/// Extracts the links of an HTML document.
pub(super) fn html(text: &[u8]) -> Document {
    let mut reader = Reader::default();
    let mut emitter =
        CallbackEmitter::new(|event: CallbackEvent<'_>, span: Span<usize>| -> Option<Infallible> {
            reader.read(&event, span.start);
            None
        });
    // Needed because scripts, style sheets and text areas do not contain tags.
    emitter.naively_switch_states(true);
    let Ok(()) = Tokenizer::new_with_emitter(text, emitter).finish();
    reader.document
}

/// Collects links from tokenizer events.
#[derive(Default)]
struct Reader {
    document: Document,
    /// Whether the body has started. Policies have no effect there.
    has_body: bool,
    element: Vec<u8>,
    attribute: Vec<u8>,
    /// Relevant attributes of the current element.
    attributes: Vec<(Attribute, Link)>,
}

/// An attribute that may contain a link or a policy, or on which the meaning of another one
/// depends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Attribute {
    Url,
    Data,
    Srcset,
    Style,
    Rel,
    HttpEquiv,
    Content,
    /// `name` or `property` of `<meta>`.
    MetaName,
}

impl Attribute {
    fn of(name: &[u8]) -> Option<Attribute> {
        match name {
            b"href" | b"src" | b"poster" | b"xlink:href" => Some(Attribute::Url),
            b"data" => Some(Attribute::Data),
            b"srcset" | b"imagesrcset" => Some(Attribute::Srcset),
            b"style" => Some(Attribute::Style),
            b"rel" => Some(Attribute::Rel),
            b"http-equiv" => Some(Attribute::HttpEquiv),
            b"content" => Some(Attribute::Content),
            b"name" | b"property" => Some(Attribute::MetaName),
            _ => None,
        }
    }
}

impl Reader {
    fn read(&mut self, event: &CallbackEvent<'_>, offset: usize) {
        match event {
            CallbackEvent::OpenStartTag { name } => {
                (*name).clone_into(&mut self.element);
                self.attributes.clear();
            }
            CallbackEvent::AttributeName { name } => (*name).clone_into(&mut self.attribute),
            CallbackEvent::AttributeValue { value } => {
                if let Some(attribute) = Attribute::of(&self.attribute) {
                    let link = Link { reference: value.to_vec(), offset, purpose: Purpose::Part };
                    self.attributes.push((attribute, link));
                }
            }
            CallbackEvent::CloseStartTag { .. } => self.finish_element(),
            CallbackEvent::String { value } if self.element == b"style" => {
                self.document.links.extend(css(value).into_iter().map(|link| link.after(offset)));
            }
            // The content is part of the page for browsers without scripts, but the tokenizer returns it as text.
            CallbackEvent::String { value } if self.element == b"noscript" => {
                let inner = html(value);
                self.document.links.extend(inner.links.into_iter().map(|link| link.after(offset)));
            }
            // The content of `<style>` is a single string, so anything after this does not belong to the style
            // sheet.
            CallbackEvent::EndTag { .. } => self.element.clear(),
            _ => {}
        }
    }

    /// Whether an attribute has one of these values, ignoring letter case.
    fn has_value(&self, wanted: Attribute, values: &[&[u8]]) -> bool {
        self.attributes.iter().any(|(attribute, link)| {
            let value = link.reference.trim_ascii();
            *attribute == wanted && values.iter().any(|known| value.eq_ignore_ascii_case(known))
        })
    }

    /// Returns how browsers use the element's links.
    fn purpose(&self) -> Purpose {
        match &*self.element {
            b"a" | b"area" | b"frame" | b"iframe" => Purpose::Page,
            b"embed" | b"object" => Purpose::Any,
            b"link" => {
                let relations = self.attributes.iter().filter(|(attribute, _)| *attribute == Attribute::Rel);
                let mut relations =
                    relations.flat_map(|(_, link)| link.reference.split(u8::is_ascii_whitespace));
                let is_any = |known: &[&[u8]], relation: &[u8]| {
                    known.iter().any(|known| relation.eq_ignore_ascii_case(known))
                };
                relations
                    .find_map(|relation| match relation {
                        _ if is_any(&PART_RELATIONS, relation) => Some(Purpose::Part),
                        _ if is_any(&PAGE_RELATIONS, relation) => Some(Purpose::Page),
                        _ => None,
                    })
                    .unwrap_or(Purpose::Any)
            }
            _ => Purpose::Part,
        }
    }

    fn finish_element(&mut self) {
        // Custom elements can give any meaning to their attributes, so we should not look at these.
        if self.element.contains(&b'-') {
            return;
        }

        let is_origin = self.element == b"link"
            && self.attributes.iter().any(|(attribute, link)| {
                let mut relations = link.reference.split(u8::is_ascii_whitespace);
                *attribute == Attribute::Rel
                    && relations.any(|relation| {
                        ORIGIN_RELATIONS.iter().any(|known| relation.eq_ignore_ascii_case(known))
                    })
            });

        self.has_body |= self.element == b"body";
        let is_policy = self.element == b"meta"
            && !self.has_body
            && self.attributes.iter().any(|(attribute, value)| {
                *attribute == Attribute::HttpEquiv
                    && value.reference.eq_ignore_ascii_case(b"content-security-policy")
            });

        let is_refresh = self.element == b"meta" && self.has_value(Attribute::HttpEquiv, &[b"refresh"]);
        let is_media = self.element == b"meta" && self.has_value(Attribute::MetaName, &MEDIA_NAMES);
        let purpose = self.purpose();

        for (attribute, link) in self.attributes.drain(..) {
            match attribute {
                Attribute::Url if self.element == b"base" => {
                    self.document.base.get_or_insert(link.reference);
                }
                Attribute::Url if !is_origin => self.document.links.push(Link { purpose, ..link }),
                Attribute::Data if self.element == b"object" => {
                    self.document.links.push(Link { purpose, ..link });
                }
                Attribute::Srcset => {
                    let candidates = srcset(&link.reference).into_iter();
                    let links = candidates.map(|reference| Link { reference: reference.to_vec(), ..link });
                    self.document.links.extend(links);
                }
                Attribute::Style => {
                    let links = css(&link.reference).into_iter().map(|found| found.after(link.offset));
                    self.document.links.extend(links);
                }
                Attribute::Content if is_policy => {
                    self.document.policies.push(Policy { text: link.reference, offset: link.offset });
                }
                Attribute::Content if is_refresh => {
                    let reference = refresh_target(&link.reference).map(<[u8]>::to_vec);
                    let target = |reference| Link { reference, purpose: Purpose::Page, ..link };
                    self.document.links.extend(reference.map(target));
                }
                Attribute::Content if is_media => self.document.links.push(link),
                Attribute::Url
                | Attribute::Data
                | Attribute::MetaName
                | Attribute::Rel
                | Attribute::HttpEquiv
                | Attribute::Content => {}
            }
        }
    }
}

/// Names of `<meta>` elements for which the content is the URL of an image, video or sound.
const MEDIA_NAMES: [&[u8]; 11] = [
    b"msapplication-tileimage",
    b"og:audio",
    b"og:audio:url",
    b"og:image",
    b"og:image:secure_url",
    b"og:image:url",
    b"og:video",
    b"og:video:secure_url",
    b"og:video:url",
    b"twitter:image",
    b"twitter:image:src",
];

/// Extracts the URL from a refresh such as `5; url=/next` (see "shared declarative refresh steps"
/// in HTML).
fn refresh_target(content: &[u8]) -> Option<&[u8]> {
    let is_time = |byte: &u8| byte.is_ascii_digit() || *byte == b'.' || byte.is_ascii_whitespace();
    let start = content.iter().position(|byte| !is_time(byte))?;
    let rest = content[start..].strip_prefix(b";").or_else(|| content[start..].strip_prefix(b","))?;
    let mut rest = rest.trim_ascii_start();
    if has_prefix(rest, b"url") {
        let after = rest[3..].trim_ascii_start();
        rest = after.strip_prefix(b"=").map_or(rest, <[u8]>::trim_ascii_start);
    }
    let url = match rest.first() {
        Some(quote @ (b'"' | b'\'')) => rest[1..].split(|byte| byte == quote).next()?,
        _ => rest,
    };
    Some(url.trim_ascii()).filter(|url| !url.is_empty())
}

impl Link {
    /// The same link in a text that begins at this offset.
    fn after(self, offset: usize) -> Link {
        Link { offset: self.offset + offset, ..self }
    }
}

/// Returns the URLs of image candidates (HTML, "srcset attributes").
fn srcset(text: &[u8]) -> Vec<&[u8]> {
    let mut urls = Vec::new();
    let mut rest = text;
    loop {
        let start = rest.iter().position(|byte| !byte.is_ascii_whitespace() && *byte != b',');
        let Some(start) = start else { return urls };
        rest = &rest[start..];
        let end = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
        let url = &rest[..end];
        rest = &rest[end..];
        // Candidates are separated by a comma at the end of the URL; otherwise, there are
        // descriptors up to the next comma.
        let trimmed = url.iter().rposition(|byte| *byte != b',').map_or(0, |last| last + 1);
        urls.push(&url[..trimmed]);
        if trimmed == url.len() {
            let comma = rest.iter().position(|byte| *byte == b',').unwrap_or(rest.len());
            rest = &rest[comma..];
        }
    }
}

/// Finds the links of a style sheet.
pub(super) fn css(text: &[u8]) -> Vec<Link> {
    let mut links = Vec::new();
    let mut at = 0;
    let mut is_import = false;

    while at < text.len() {
        let rest = &text[at..];
        let is_in_word = at > 0 && is_word(text[at - 1]);
        match rest[0] {
            b'/' if rest.starts_with(b"/*") => {
                at += find(&rest[2..], b"*/").map_or(rest.len(), |end| end + 4);
            }
            quote @ (b'"' | b'\'') => {
                let end = string_end(rest, quote);
                if is_import {
                    push(&mut links, &text[at + 1..at + end], at);
                }
                is_import = false;
                at += end + 1;
            }
            b'@' => {
                is_import = has_prefix(rest, b"@import");
                at += 1;
            }
            b'u' | b'U' if !is_in_word && has_prefix(rest, b"url(") => {
                let start = rest[4..]
                    .iter()
                    .position(|byte| !byte.is_ascii_whitespace())
                    .map_or(rest.len(), |skip| skip + 4);
                let (start, end) = match rest.get(start) {
                    Some(quote @ (b'"' | b'\'')) => (start + 1, start + string_end(&rest[start..], *quote)),
                    _ => (start, find(rest, b")").unwrap_or(rest.len())),
                };
                push(&mut links, &rest[start.min(end)..end], at);
                is_import = false;
                at += end + 1;
            }
            byte => {
                is_import &= byte != b';';
                at += 1;
            }
        }
    }
    links
}

/// Adds a link. Those with an escape are skipped: URLs do not contain escapes, and hacks that do are not links.
fn push(links: &mut Vec<Link>, reference: &[u8], offset: usize) {
    if !reference.contains(&b'\\') {
        let reference = reference.trim_ascii().to_vec();
        links.push(Link { reference, offset, purpose: Purpose::Part });
    }
}

/// Finds the quote at the end of the string at the start of `text`. When the string is not
/// closed, this is the end of the text.
fn string_end(text: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < text.len() && text[at] != quote {
        at += if text[at] == b'\\' { 2 } else { 1 };
    }
    at.min(text.len())
}

fn find(text: &[u8], needle: &[u8]) -> Option<usize> {
    text.windows(needle.len()).position(|window| window == needle)
}

fn has_prefix(text: &[u8], prefix: &[u8]) -> bool {
    text.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_') || !byte.is_ascii()
}

#[cfg(test)]
mod tests;
