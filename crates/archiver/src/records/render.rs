//! Response heads: rendered once, and shared by all representations with the same fields.
//!
//! We go through all heads twice, because header lines are numbered by frequency before the first head is written. A head
//! has no field that varies per request.

use std::collections::HashMap;

use cannery_archive::{Coding, HeadId, NewHead, WriteError, Writer};
use cannery_wire::response_head::{override_bit, put_field, status_line};
use cannery_wire::{hpack, qpack};
use foldhash::fast::RandomState;

use crate::ground::line_ids::{LineIds, Uses};
use crate::properties::caching::{cache_control, cache_kind};
use crate::properties::classify::MediaType;
use crate::rulefiles::headers::{self, HeaderRule, MergedFields};
use crate::settings::options::Options;

/// Properties that determine the head of a representation, in addition to the site's rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Look<'a> {
    pub(super) status: u16,
    pub(super) media_type: &'a str,
    /// Adds `charset=utf-8` to the media type.
    pub(super) charset: bool,
    pub(super) coding: Coding,
    /// The resource has other representations, or the client may reject this one.
    pub(super) negotiable: bool,
    /// Whether the response is this one depends on [`cannery_site::Intent`], and caches may reuse it without asking.
    pub(super) varies_by_intent: bool,
    pub(super) cache_control: Option<&'a str>,
}

/// A path, for the header rules that are part of its head.
#[derive(Debug, Clone, Copy)]
pub(super) struct RulePath<'p> {
    /// Index of the site in the list of header rules.
    pub(super) site: usize,
    pub(super) host: Option<&'p str>,
    pub(super) path: &'p [u8],
    /// A rule of `_redirects` shows another file here, or a folder has a listing.
    pub(super) is_rewritten: bool,
}

/// The merged header rules of a path.
#[derive(Default)]
struct Merged {
    site: usize,
    path: Vec<u8>,
    is_rewritten: bool,
    own: MergedFields,
    fields: MergedFields,
}

/// Counts heads first, then writes them.
pub(crate) struct Heads<'a> {
    options: &'a Options,
    /// Header rules of each site, by host index.
    rules: &'a [Vec<HeaderRule>],
    /// The merged rules of the path requested last.
    merged: Merged,
    uses: Uses,
    /// Cache of heads without rules: a site has many representations with the same head.
    looks_used: HashMap<Look<'a>, u64, RandomState>,
    line_ids: LineIds,
    by_look: HashMap<Look<'a>, HeadId, RandomState>,
    /// Heads with rules, together with the head without rules that each was made from.
    written: HashMap<(NewHead, Option<HeadId>), HeadId>,
}

/// Returns the default `Cache-Control` of a source with this status.
pub(super) fn caching<'a>(
    options: &'a Options,
    path: &[u8],
    media_type: MediaType<'_>,
    fingerprinted: bool,
    status: u16,
) -> Option<&'a str> {
    if options.exclude_cache && !options.preview {
        return None;
    }
    if status >= 400 {
        // A page for a missing path must not outlive the next release, in which the path may exist. Errors can't be
        // revalidated.
        return Some("no-store");
    }
    if options.preview {
        return Some("no-cache");
    }
    let by_kind = || cache_control(cache_kind(path, media_type), fingerprinted);
    Some(options.cache_control.as_deref().unwrap_or_else(by_kind))
}

impl<'a> Heads<'a> {
    pub(crate) fn new(options: &'a Options, rules: &'a [Vec<HeaderRule>]) -> Heads<'a> {
        Heads {
            options,
            rules,
            merged: Merged::default(),
            uses: Uses::default(),
            looks_used: HashMap::default(),
            line_ids: LineIds::default(),
            by_look: HashMap::default(),
            written: HashMap::new(),
        }
    }

    /// Returns the number of distinct heads.
    pub(super) fn count(&self) -> u64 {
        self.written.len() as u64
    }

    /// Counts the head of a representation, with the header rules of `path` if there is one, and the fields of its own file.
    pub(super) fn note(&mut self, look: Look<'a>, path: Option<RulePath<'_>>, own: &MergedFields) {
        let options = self.options;
        let fields = match path {
            Some(path) => self.merge(path, own),
            None => own,
        };
        if fields.is_empty() {
            *self.looks_used.entry(look).or_insert(0) += 1;
        } else {
            let head = render_head(&look, fields, options);
            self.uses.add(head, 1);
        }
    }

    /// Counts a head.
    pub(crate) fn note_head(&mut self, head: NewHead) {
        self.uses.add(head, 1);
    }

    /// Numbers the lines of all counted heads, before the first head is written.
    pub(crate) fn number(&mut self) {
        let mut uses = std::mem::take(&mut self.uses);
        for (look, times) in self.looks_used.drain() {
            uses.add(render_head(&look, &MergedFields::default(), self.options), times);
        }
        self.line_ids = LineIds::of(&uses);
    }

    /// Returns the head of a representation with the header rules of `path`, and writes it if it is new. Without a path,
    /// returns the head without rules: the server adds the fields for the requested path.
    ///
    /// `own` are the fields of a file that is sent in place of another path.
    pub(super) fn of(
        &mut self,
        writer: &mut Writer,
        look: Look<'a>,
        path: Option<RulePath<'_>>,
        own: &MergedFields,
    ) -> Result<HeadId, WriteError> {
        let plain = self.plain(writer, look, path, own)?;
        let Some(path) = path else { return Ok(plain) };

        let options = self.options;
        let fields = self.merge(path, own);
        if fields.is_empty() {
            return Ok(plain);
        }
        let head = render_head(&look, fields, options);
        self.write_ruled(writer, head, Some(plain))
    }

    /// Returns the head without the header rules of the requested path.
    fn plain(
        &mut self,
        writer: &mut Writer,
        look: Look<'a>,
        path: Option<RulePath<'_>>,
        own: &MergedFields,
    ) -> Result<HeadId, WriteError> {
        let mut added = own.clone();
        if let Some(RulePath { site, host, path, is_rewritten }) = path {
            // The server adds the fields of rules to the lines of the head, and doesn't replace them.
            let rules = self.rules(site);
            added.retain(|name| !headers::is_named_exactly(rules, path, name));
            if !is_rewritten {
                added = headers::merge_references(rules, host, path);
            }
        }
        if !added.is_empty() {
            let head = render_head(&look, &added, self.options);
            return self.write(writer, head);
        }
        if let Some(head) = self.by_look.get(&look) {
            return Ok(*head);
        }
        let head = render_head(&look, &MergedFields::default(), self.options);
        let head = self.write(writer, head)?;
        self.by_look.insert(look, head);
        Ok(head)
    }

    /// Returns the ID of a head, and writes it if it is new.
    pub(crate) fn write(&mut self, writer: &mut Writer, head: NewHead) -> Result<HeadId, WriteError> {
        self.write_ruled(writer, head, None)
    }

    /// Returns the ID of a head of an earlier release, and writes it if it is new.
    pub(super) fn write_carried(
        &mut self,
        writer: &mut Writer,
        head: &NewHead,
        plain: &NewHead,
    ) -> Result<HeadId, WriteError> {
        if head == plain {
            return self.write(writer, head.clone());
        }
        let plain = self.write(writer, plain.clone())?;
        self.write_ruled(writer, head.clone(), Some(plain))
    }

    /// Returns the ID of a head with fields of rules, and that of the head without them.
    fn write_ruled(
        &mut self,
        writer: &mut Writer,
        head: NewHead,
        plain: Option<HeadId>,
    ) -> Result<HeadId, WriteError> {
        let key = (head, plain);
        if let Some(written) = self.written.get(&key) {
            return Ok(*written);
        }
        let id_of = |name: &str, value: &[u8]| self.line_ids.get(name, value);
        let hpack = hpack::encode_head(&key.0, id_of);
        let qpack = qpack::encode_head(&key.0, id_of);
        let id = writer.head(&NewHead { hpack, qpack, ..key.0.clone() })?;
        if let Some(plain) = plain {
            writer.plain_head(id, plain)?;
        }
        self.written.insert(key, id);
        Ok(id)
    }

    /// Returns the header rules of a site, which the server applies if the path isn't known at build time.
    pub(super) fn rules(&self, site: usize) -> &'a [HeaderRule] {
        self.rules.get(site).map_or(&[], Vec::as_slice)
    }

    /// Returns the merged header rules of a path, and the fields of the file that a rule shows there.
    fn merge(&mut self, rule_path: RulePath<'_>, own: &MergedFields) -> &MergedFields {
        let RulePath { site, host, path, is_rewritten } = rule_path;
        let merged = &self.merged;
        if (merged.site, &*merged.path, merged.is_rewritten, &merged.own) != (site, path, is_rewritten, own) {
            let fields = match self.rules.get(site) {
                Some(rules) if rules.is_empty() && own.is_empty() => MergedFields::default(),
                Some(rules) if is_rewritten => headers::merge_for_rewrite(rules, host, path, own),
                Some(rules) => headers::merge(rules, host, path),
                None => MergedFields::default(),
            };
            self.merged = Merged { site, path: path.to_vec(), is_rewritten, own: own.clone(), fields };
        }
        &self.merged.fields
    }
}

/// Renders a head: the default fields, unless the site's rules override them, then the site's.
fn render_head(look: &Look<'_>, merged: &MergedFields, options: &Options) -> NewHead {
    // An error may be gone with the next release, so it is never immutable, even if the site says so for all paths.
    let is_lasting = |name: &str, value: &str| {
        look.status >= 400 && name == "cache-control" && value.to_ascii_lowercase().contains("immutable")
    };
    let is_unfit_for_preview = |name: &str| options.preview && is_unfit_for_preview(name);
    let fields: Vec<_> = merged
        .fields
        .iter()
        .filter(|(name, value)| !is_lasting(name, value) && !is_unfit_for_preview(name))
        .collect();
    let own = |name: &str| {
        let replaced = fields.iter().any(|(known, _)| known == name);
        !replaced && !merged.removed.iter().any(|removed| removed == name)
    };

    let mut content_type = Vec::new();
    if own("content-type") {
        let charset = if look.charset { "; charset=utf-8" } else { "" };
        put_field(&mut content_type, "Content-Type", format!("{}{charset}", look.media_type).as_bytes());
    }
    let mut representation = Vec::new();
    if look.coding != Coding::Identity {
        put_field(&mut representation, "Content-Encoding", look.coding.name().as_bytes());
    }
    let mut resource = Vec::new();
    let by_intent = ["Accept", "Sec-Fetch-Dest"].into_iter().filter(|_| look.varies_by_intent);
    let vary: Vec<&str> = look
        .negotiable
        .then_some("Accept-Encoding")
        .into_iter()
        .chain(by_intent)
        .chain(site_vary(merged))
        .collect();
    if !vary.is_empty() {
        put_field(&mut resource, "Vary", vary.join(", ").as_bytes());
    }
    if let Some(value) = look.cache_control.filter(|_| own("cache-control")) {
        put_field(&mut resource, "Cache-Control", value.as_bytes());
    }
    if look.status == 200 && own("accept-ranges") {
        put_field(&mut resource, "Accept-Ranges", b"bytes");
    }
    for (name, value) in fields.iter().filter(|(name, _)| name != "vary") {
        let lines = if name == "content-type" { &mut content_type } else { &mut resource };
        put_field(lines, &title_case(name), value.as_bytes());
    }

    // Content security policies are cumulative (CSP3 §8.1): browsers enforce both the site's and the server's.
    let replaces = |name: &&String| *name != "content-security-policy";
    let overridden = merged.fields.iter().map(|(name, _)| name).filter(replaces).chain(&merged.removed);
    NewHead {
        status: look.status,
        sends_etag: !options.exclude_etag,
        overrides: overridden.fold(0, |bits, name| bits | override_bit(name)),
        status_line: status_line(look.status),
        content_type,
        representation,
        resource,
        hpack: Default::default(),
        qpack: Default::default(),
    }
}

/// Returns `true` for a field that isn't sent in a preview: the name has other bytes after the next edit, and browsers
/// remember HSTS for months.
pub(super) fn is_unfit_for_preview(name: &str) -> bool {
    ["cache-control", "strict-transport-security"].contains(&name)
}

/// Returns the names that the site's rules add to `Vary`.
fn site_vary(merged: &MergedFields) -> impl Iterator<Item = &str> {
    let values = merged.fields.iter().filter(|(name, _)| name == "vary");
    let names = values.flat_map(|(_, value)| value.split(',')).map(str::trim);
    names.filter(|name| !name.is_empty() && !name.eq_ignore_ascii_case("accept-encoding"))
}

/// Returns a field name in title case: `X-Frame-Options` for `x-frame-options`.
pub(super) fn title_case(name: &str) -> String {
    let mut begins = true;
    let raise = |character: char| {
        let raised = if begins { character.to_ascii_uppercase() } else { character };
        begins = character == '-';
        raised
    };
    name.chars().map(raise).collect()
}

#[cfg(test)]
mod tests;
