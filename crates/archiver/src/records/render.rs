//! Renders response heads. Representations with the same fields share a head.
//!
//! We need two passes over all heads, because header lines must have been numbered by frequency before we write the first
//! head. Fields that vary per request are not part of any head.

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

/// Everything that determines a representation's head, apart from the site's rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Look<'a> {
    pub(super) status: u16,
    pub(super) media_type: &'a str,
    /// Whether to add `charset=utf-8` to the media type.
    pub(super) charset: bool,
    pub(super) coding: Coding,
    /// Whether there are other representations, or clients can reject this one.
    pub(super) negotiable: bool,
    /// Whether the choice of this response depends on [`cannery_site::Intent`]. This is only set if caches can
    /// reuse the response without asking.
    pub(super) varies_by_intent: bool,
    pub(super) cache_control: Option<&'a str>,
}

/// A path whose header rules become part of the head.
#[derive(Debug, Clone, Copy)]
pub(super) struct RulePath<'p> {
    /// Index into the list of header rules.
    pub(super) site: usize,
    pub(super) host: Option<&'p str>,
    pub(super) path: &'p [u8],
    /// Whether the path is a folder listing, or shows another file because of a `_redirects` rule.
    pub(super) is_rewritten: bool,
}

/// A path's merged header rules.
#[derive(Default)]
struct Merged {
    site: usize,
    path: Vec<u8>,
    is_rewritten: bool,
    own: MergedFields,
    fields: MergedFields,
}

/// First counts all heads, then writes them.
pub(crate) struct Heads<'a> {
    options: &'a Options,
    /// Each site's header rules, by host index.
    rules: &'a [Vec<HeaderRule>],
    /// Cached rules of the last path.
    merged: Merged,
    uses: Uses,
    /// Counts of heads without rules, which are so common that each of them should be rendered only
    /// once.
    looks_used: HashMap<Look<'a>, u64, RandomState>,
    line_ids: LineIds,
    by_look: HashMap<Look<'a>, HeadId, RandomState>,
    /// Heads with rules, together with the same heads without rules.
    written: HashMap<(NewHead, Option<HeadId>), HeadId>,
}

/// Returns the default `Cache-Control` for a source with this status.
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
        // A page for a missing path must not outlive the next release, because the path may exist there. Caches are not
        // able to revalidate errors.
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

    /// Counts the head of a representation, including the header rules of `path` (if any) and the fields of its own
    /// file.
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

    pub(crate) fn note_head(&mut self, head: NewHead) {
        self.uses.add(head, 1);
    }

    /// Numbers the lines of all heads that were counted.
    ///
    /// This must be done before the first head is written.
    pub(crate) fn number(&mut self) {
        let mut uses = std::mem::take(&mut self.uses);
        for (look, times) in self.looks_used.drain() {
            uses.add(render_head(&look, &MergedFields::default(), self.options), times);
        }
        self.line_ids = LineIds::of(&uses);
    }

    /// Returns the head of a representation with the header rules of `path`. When the head is new, this also writes it. If
    /// there is no path, the head won't contain any rules, because the server will add the fields for the requested path.
    ///
    /// `own` contains the fields of a file that is sent in place of another path.
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

    /// Returns the head without the requested path's header rules.
    fn plain(
        &mut self,
        writer: &mut Writer,
        look: Look<'a>,
        path: Option<RulePath<'_>>,
        own: &MergedFields,
    ) -> Result<HeadId, WriteError> {
        let mut added = own.clone();
        if let Some(RulePath { site, host, path, is_rewritten }) = path {
            // The server will add the fields of matching rules to this head. It is not able to replace any, so we must not
            // include these here.
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

    /// Returns the ID of a head. New heads are written.
    pub(crate) fn write(&mut self, writer: &mut Writer, head: NewHead) -> Result<HeadId, WriteError> {
        self.write_ruled(writer, head, None)
    }

    /// Returns the ID of a head from an earlier release. New heads are written.
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

    /// Like `write`, but for a head with fields from rules. `plain` is the same head without these fields.
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

    /// The header rules of a site. The server will apply these to paths that are not known at build
    /// time.
    pub(super) fn rules(&self, site: usize) -> &'a [HeaderRule] {
        self.rules.get(site).map_or(&[], Vec::as_slice)
    }

    /// Merges the header rules of a path. This includes the fields of a file that is shown in its
    /// place.
    fn merge(&mut self, rule_path: RulePath<'_>, own: &MergedFields) -> &MergedFields {
        let RulePath { site, host, path, is_rewritten } = rule_path;
        // Consecutive calls often have the same path, e.g. when there are several codings of a file.
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

/// Renders a head. The fields of the site's rules should come last because they override the defaults.
fn render_head(look: &Look<'_>, merged: &MergedFields, options: &Options) -> NewHead {
    // An error may be fixed in the next release, so it must never be immutable, not even if a rule for all paths says so.
    let is_lasting = |name: &str, value: &str| {
        look.status >= 400 && name == "cache-control" && value.to_ascii_lowercase().contains("immutable")
    };
    let is_unfit_for_preview = |name: &str| options.preview && is_unfit_for_preview(name);
    let fields: Vec<_> = merged
        .fields
        .iter()
        .filter(|(name, value)| !is_lasting(name, value) && !is_unfit_for_preview(name))
        .collect();
    // A rule may replace or remove any default.
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

    // Content security policies are cumulative (CSP3 §8.1), that is, browsers enforce the policies of both the site
    // and the server.
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

/// Returns `true` for fields that should not be sent in previews: after the next edit, the same name will have other bytes,
/// and HSTS would be remembered by browsers for months.
pub(super) fn is_unfit_for_preview(name: &str) -> bool {
    ["cache-control", "strict-transport-security"].contains(&name)
}

/// Returns the names that rules add to `Vary`.
fn site_vary(merged: &MergedFields) -> impl Iterator<Item = &str> {
    let values = merged.fields.iter().filter(|(name, _)| name == "vary");
    let names = values.flat_map(|(_, value)| value.split(',')).map(str::trim);
    names.filter(|name| !name.is_empty() && !name.eq_ignore_ascii_case("accept-encoding"))
}

/// Returns a field name in title case, for example `X-Frame-Options` for `x-frame-options`.
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
