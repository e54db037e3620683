//! Header rules for responses whose path the archiver did not know: fallback pages, errors, redirects and `OPTIONS`.
//!
//! We do not need this for files, since their heads include the fields. No bytes are copied: fields are ranges of the archive.

use cannery_archive::{HeaderEffect, HeaderField};

/// Maximum number of fields that header rules may add for one path. The archiver ensures this.
pub const SITE_FIELDS_MAX: usize = 256;

/// All header rules that match a request, combined.
#[derive(Debug, Clone)]
pub struct SiteFields {
    lines: [Line; SITE_FIELDS_MAX],
    count: usize,
    /// The server's fields that are replaced, as in [`cannery_archive::Head::overrides`].
    set: u8,
    /// The server's fields that are removed.
    removed: u8,
    replaces_content_type: bool,
    replaces_caching: bool,
    /// A `Cache-Control` by us instead of the page's own.
    caching: Option<&'static [u8]>,
}

/// A field value. Several values of a line form a linked list.
#[derive(Debug, Clone, Copy, Default)]
struct Line {
    name: Run,
    value: Run,
    /// Index of the line's next value. 0 if it is the last.
    next: u16,
    /// Whether this is the first value of a line. To remove a line, set this to `false`.
    is_first: bool,
}

/// A range of the archive.
#[derive(Debug, Clone, Copy, Default)]
struct Run {
    start: usize,
    length: usize,
}

impl Run {
    fn new(file: &[u8], bytes: &[u8]) -> Run {
        // `bytes` is a slice of `file`, so the difference of the pointers is an offset.
        Run { start: (bytes.as_ptr() as usize).wrapping_sub(file.as_ptr() as usize), length: bytes.len() }
    }

    fn bytes<'f>(&self, file: &'f [u8]) -> &'f [u8] {
        file.get(self.start..).and_then(|rest| rest.get(..self.length)).unwrap_or_default()
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
            caching: None,
        }
    }
}

/// A field line from header rules.
#[derive(Debug, Clone, Copy)]
pub struct SiteLine<'a>(LineSource<'a>);

#[derive(Debug, Clone, Copy)]
enum LineSource<'a> {
    /// A line from the archive.
    Rules(&'a SiteFields, usize),
    /// A `Cache-Control` with this value.
    Caching(&'static [u8]),
}

impl SiteFields {
    pub(crate) fn clear(&mut self) {
        self.count = 0;
        self.set = 0;
        self.removed = 0;
        self.replaces_content_type = false;
        self.replaces_caching = false;
        self.caching = None;
    }

    /// Replaces the page's `Cache-Control`.
    pub(crate) fn set_caching(&mut self, value: &'static [u8]) {
        self.replaces_caching = true;
        self.caching = Some(value);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0 && self.removed == 0 && !self.replaces_content_type && !self.replaces_caching
    }

    /// Adds a rule's field. It overrides earlier rules.
    pub(crate) fn add(&mut self, file: &[u8], field: &HeaderField<'_>) {
        self.replaces_content_type |= field.name == b"Content-Type";
        self.replaces_caching |= field.name == b"Cache-Control";

        let first = (0..self.count).find(|index| {
            let line = &self.lines[*index];
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
        // The server's policy should stay: if there are several content security policies, all of them apply (CSP3 §8.1).
        if field.name != b"Content-Security-Policy" {
            self.set |= field.overrides;
        }

        let new = Line {
            name: Run::new(file, field.name),
            value: Run::new(file, field.value),
            next: 0,
            is_first: true,
        };
        match (first, field.effect) {
            (Some(index), HeaderEffect::Replace) => self.lines[index] = new,
            (Some(index), HeaderEffect::Join) => {
                if let Some(next) = self.push(Line { is_first: false, ..new }) {
                    let mut last = index;
                    while self.lines[last].next != 0 {
                        last = usize::from(self.lines[last].next);
                    }
                    self.lines[last].next = next;
                }
            }
            _ => {
                self.push(new);
            }
        }
    }

    /// Adds a value. Returns its index, or `None` when there are too many.
    fn push(&mut self, line: Line) -> Option<u16> {
        *self.lines.get_mut(self.count)? = line;
        self.count += 1;
        u16::try_from(self.count - 1).ok()
    }

    /// Returns which fields the server omits, as in [`cannery_archive::Head::overrides`].
    #[must_use]
    pub fn overrides(&self) -> u8 {
        self.set | self.removed
    }

    /// Returns `true` if the page's media type is omitted.
    #[must_use]
    pub fn replaces_content_type(&self) -> bool {
        self.replaces_content_type
    }

    /// Returns the media type that the rules set, or nothing.
    pub(crate) fn media_type<'a>(&self, file: &'a [u8]) -> &'a [u8] {
        let mut lines = self.lines[..self.count].iter();
        let line = lines.find(|line| line.is_first && line.name.bytes(file) == b"Content-Type");
        line.map_or(b"", |line| line.value.bytes(file))
    }

    /// Returns `true` if the page's `Cache-Control` is omitted.
    #[must_use]
    pub fn replaces_caching(&self) -> bool {
        self.replaces_caching
    }

    /// Returns the lines for a response. Unless it has content from the site, fields about content are left out.
    pub fn lines<'a>(&'a self, file: &'a [u8], has_content: bool) -> impl Iterator<Item = SiteLine<'a>> {
        self.all().filter(move |line| {
            let name = line.name(file);
            let is_about_content =
                name == b"Cache-Control" || name == b"Expires" || is_representation_field(name);
            has_content || !is_about_content
        })
    }

    fn all(&self) -> impl Iterator<Item = SiteLine<'_>> {
        let first = (0..self.count).filter(|index| self.lines[*index].is_first);
        let caching = self.caching.map(LineSource::Caching);
        first.map(|index| LineSource::Rules(self, index)).chain(caching).map(SiteLine)
    }
}

impl<'a> SiteLine<'a> {
    /// Returns the field name in HTTP/1's letter case.
    #[must_use]
    pub fn name(&self, file: &'a [u8]) -> &'a [u8] {
        match self.0 {
            LineSource::Rules(fields, index) => fields.lines[index].name.bytes(file),
            LineSource::Caching(_) => b"Cache-Control",
        }
    }

    /// Returns the line's values. Join them with `, `.
    pub fn values(&self, file: &'a [u8]) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let mut next = Some(self.0);
        std::iter::from_fn(move || match next.take()? {
            LineSource::Rules(fields, index) => {
                let line = &fields.lines[index];
                next = (line.next != 0).then(|| LineSource::Rules(fields, line.next.into()));
                Some(line.value.bytes(file))
            }
            LineSource::Caching(value) => Some(value),
        })
    }
}

/// Returns `true` if a field is about the time for which a response may be reused, whether by browsers, by all caches, or only
/// by those of one vendor. The name may have any letter case.
#[must_use]
pub fn is_caching_field(name: &[u8]) -> bool {
    let suffix = b"-cache-control";
    let end = name.len().checked_sub(suffix.len()).map_or(b"".as_slice(), |start| &name[start..]);
    CACHING_FIELDS.iter().any(|known| name.eq_ignore_ascii_case(known)) || end.eq_ignore_ascii_case(suffix)
}

/// There are others like `CDN-Cache-Control` (RFC 9213). We recognize them by suffix.
const CACHING_FIELDS: [&[u8]; 6] =
    [b"Cache-Control", b"Edge-Control", b"Expires", b"Pragma", b"Surrogate-Control", b"X-Accel-Expires"];

/// Maximum time for which a rule for many paths can allow caching of a page that is shown in place of another.
const LIFETIME_SECONDS_MAX: u64 = 3600;

/// Returns `true` if this `Cache-Control` does not allow to reuse a response for longer than an hour.
#[must_use]
pub fn is_short_lived(value: &[u8]) -> bool {
    value.split(|byte| *byte == b',').all(|directive| {
        let mut parts = directive.splitn(2, |byte| *byte == b'=').map(<[u8]>::trim_ascii);
        let name = parts.next().unwrap_or_default();
        let Some(seconds) = parts.next() else { return !name.eq_ignore_ascii_case(b"immutable") };

        let is_lifetime = [b"max-age".as_slice(), b"s-maxage", b"stale-while-revalidate"]
            .iter()
            .any(|known| name.eq_ignore_ascii_case(known));
        // If the lifetime isn't a number, it may be too long.
        let seconds =
            seconds.strip_prefix(b"\"").and_then(|inner| inner.strip_suffix(b"\"")).unwrap_or(seconds);
        let seconds = str::from_utf8(seconds).ok().and_then(|seconds| seconds.parse::<u64>().ok());

        !is_lifetime || seconds.is_some_and(|seconds| seconds <= LIFETIME_SECONDS_MAX)
    })
}

/// Returns `true` if a rule for a file also affects how the file is cached under another path. In order to do so, the field must
/// have the syntax of `Cache-Control` and must not allow long caching. Longer lifetimes are only meant for the file's own path.
pub(crate) fn restricts_caching(field: &HeaderField<'_>) -> bool {
    let is_date = [b"Expires".as_slice(), b"Pragma", b"X-Accel-Expires"].contains(&field.name);
    field.effect != HeaderEffect::Remove
        && is_caching_field(field.name)
        && !is_date
        && is_short_lived(field.value)
}

/// Returns `true` if a field describes the content (RFC 9110 §8), e.g. its media type or the name to save it under. When a page is
/// shown in place of a missing file, such fields should not apply to it. The name can have any letter case.
///
/// `Content-Security-Policy` and similar fields do not count. They tell browsers how to treat a response.
#[must_use]
pub fn is_representation_field(name: &[u8]) -> bool {
    let begins_with =
        |start: &[u8]| name.get(..start.len()).is_some_and(|bytes| bytes.eq_ignore_ascii_case(start));
    begins_with(b"Content-") && !begins_with(b"Content-Security-")
        || REPRESENTATION_FIELDS.iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// More fields about the content: digests (RFC 3230, RFC 9530) and source maps (ECMA-426).
const REPRESENTATION_FIELDS: [&[u8]; 5] =
    [b"Digest", b"Repr-Digest", b"SourceMap", b"Unencoded-Digest", b"X-SourceMap"];

/// Returns `true` if a rule for this host applies to the request.
pub(crate) fn matches_host(rule: &[u8], host: Option<&[u8]>) -> bool {
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
