//! What the rules of `_headers` add to an answer of which the archiver did not know the path: a fallback page, an error, a
//! redirect, an answer to `OPTIONS`.
//!
//! The heads of files hold all this already. Remembers places in the archive and copies nothing.

use cannery_archive::{HeaderEffect, HeaderField};

/// More fields than this the rules for one path never have: the archiver sees to it.
pub const SITE_FIELDS_MAX: usize = 256;

/// What the rules that match a request add up to.
#[derive(Debug, Clone)]
pub struct SiteFields {
    lines: [Line; SITE_FIELDS_MAX],
    count: usize,
    /// The server's own fields that are set, and those that are taken away.
    set: u8,
    removed: u8,
    replaces_content_type: bool,
    replaces_caching: bool,
}

/// A value of a field, and which value follows it in the same line.
#[derive(Debug, Clone, Copy, Default)]
struct Line {
    name: Run,
    value: Run,
    /// The place of the next value of this line, or 0.
    next: u16,
    /// Whether a line begins with it. What was taken away begins none.
    is_first: bool,
}

/// Bytes of the archive.
#[derive(Debug, Clone, Copy, Default)]
struct Run {
    begin: usize,
    length: usize,
}

impl Run {
    fn of(file: &[u8], bytes: &[u8]) -> Run {
        // Both are slices of the same memory.
        Run { begin: (bytes.as_ptr() as usize).wrapping_sub(file.as_ptr() as usize), length: bytes.len() }
    }

    fn bytes<'f>(&self, file: &'f [u8]) -> &'f [u8] {
        file.get(self.begin..).and_then(|rest| rest.get(..self.length)).unwrap_or_default()
    }
}

impl Default for SiteFields {
    fn default() -> SiteFields {
        SiteFields {
            lines: [Line::default(); SITE_FIELDS_MAX],
            count: 0,
            set: 0,
            removed: 0,
            replaces_content_type: false,
            replaces_caching: false,
        }
    }
}

/// A line that the rules add.
#[derive(Debug, Clone, Copy)]
pub struct SiteLine<'a> {
    fields: &'a SiteFields,
    place: usize,
}

impl SiteFields {
    pub(crate) fn clear(&mut self) {
        self.count = 0;
        (self.set, self.removed) = (0, 0);
        (self.replaces_content_type, self.replaces_caching) = (false, false);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0 && self.removed == 0 && !self.replaces_content_type && !self.replaces_caching
    }

    /// Adds what one rule says of one field, after the rules before it.
    pub(crate) fn add(&mut self, file: &[u8], field: &HeaderField<'_>) {
        self.replaces_content_type |= field.name == b"Content-Type";
        self.replaces_caching |= field.name == b"Cache-Control";
        let first = (0..self.count).find(|place| {
            let line = &self.lines[*place];
            line.is_first && line.name.bytes(file) == field.name
        });
        if field.effect == HeaderEffect::Remove {
            self.removed |= field.overrides;
            self.set &= !field.overrides;
            for line in self.lines[..self.count].iter_mut().filter(|line| line.name.bytes(file) == field.name)
            {
                line.is_first = false;
            }
            return;
        }
        self.removed &= !field.overrides;
        // Policies for content add up (CSP3 §8.1): the server's own stays.
        if field.name != b"Content-Security-Policy" {
            self.set |= field.overrides;
        }
        let new = Line {
            name: Run::of(file, field.name),
            value: Run::of(file, field.value),
            next: 0,
            is_first: true,
        };
        match (first, field.effect) {
            (Some(place), HeaderEffect::Replace) => self.lines[place] = new,
            (Some(place), HeaderEffect::Join) => {
                if let Some(at) = self.push(Line { is_first: false, ..new }) {
                    let mut last = place;
                    while self.lines[last].next != 0 {
                        last = usize::from(self.lines[last].next);
                    }
                    self.lines[last].next = at;
                }
            }
            _ => drop(self.push(new)),
        }
    }

    fn push(&mut self, line: Line) -> Option<u16> {
        *self.lines.get_mut(self.count)? = line;
        self.count += 1;
        u16::try_from(self.count - 1).ok()
    }

    /// The server's own fields that are left out: bits as in [`cannery_archive::Head::overrides`].
    #[must_use]
    pub fn overrides(&self) -> u8 {
        self.set | self.removed
    }

    /// Whether the media type of the page is left out.
    #[must_use]
    pub fn replaces_content_type(&self) -> bool {
        self.replaces_content_type
    }

    /// Whether the page's own `Cache-Control` is left out. What is an error today may be there tomorrow: of an error, none
    /// that says `immutable` counts.
    #[must_use]
    pub fn replaces_caching(&self, file: &[u8], status: u16) -> bool {
        self.replaces_caching && !(status >= 400 && self.is_lasting(file))
    }

    fn is_lasting(&self, file: &[u8]) -> bool {
        self.all().filter(|line| line.name(file) == b"Cache-Control").any(|line| {
            line.values(file)
                .any(|value| value.windows(9).any(|word| word.eq_ignore_ascii_case(b"immutable")))
        })
    }

    /// The lines of an answer with this status. One without content of the site's has none that describes content.
    pub fn lines<'a>(
        &'a self,
        file: &'a [u8],
        status: u16,
        has_content: bool,
    ) -> impl Iterator<Item = SiteLine<'a>> {
        let leaves_caching = status >= 400 && self.is_lasting(file);
        self.all().filter(move |line| {
            let name = line.name(file);
            let is_caching = name == b"Cache-Control";
            let describes = is_caching
                || name == b"Expires"
                || name.starts_with(b"Content-") && !name.starts_with(b"Content-Security-");
            !(is_caching && leaves_caching) && (has_content || !describes)
        })
    }

    fn all(&self) -> impl Iterator<Item = SiteLine<'_>> {
        let first = (0..self.count).filter(|place| self.lines[*place].is_first);
        first.map(|place| SiteLine { fields: self, place })
    }
}

impl<'a> SiteLine<'a> {
    /// The field's name, as HTTP/1 spells it.
    #[must_use]
    pub fn name(&self, file: &'a [u8]) -> &'a [u8] {
        self.fields.lines[self.place].name.bytes(file)
    }

    /// The values of the line, which are joined with `, `.
    pub fn values(&self, file: &'a [u8]) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let fields = self.fields;
        let mut next = Some(self.place);
        std::iter::from_fn(move || {
            let line = &fields.lines[next?];
            next = (line.next != 0).then_some(line.next.into());
            Some(line.value.bytes(file))
        })
    }
}

/// Whether a rule's host is the one of a request.
pub(crate) fn is_for_host(rule: &[u8], host: Option<&[u8]>) -> bool {
    let Some(host) = host else { return rule.is_empty() };
    if rule.is_empty() {
        return true;
    }
    if let Some(name) = rule.strip_prefix(b"*") {
        let start = host.len().checked_sub(name.len());
        return start.is_some_and(|start| start > 0 && host[start..].eq_ignore_ascii_case(name));
    }
    if rule.starts_with(b"[") {
        return rule.eq_ignore_ascii_case(host);
    }
    let mut labels = host.split(|byte| *byte == b'.');
    let all = rule.split(|byte| *byte == b'.').all(|wanted| {
        labels.next().is_some_and(|label| {
            wanted.starts_with(b":") && !label.is_empty() || wanted.eq_ignore_ascii_case(label)
        })
    });
    all && labels.next().is_none()
}
