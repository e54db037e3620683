//! Header fields for pages that answer in place of another path: fallback pages, error pages, and pages shown by rules.
//!
//! The content is described by header rules for the page's own file. For example, a fallback page isn't a download just because
//! `/*.pdf` is.
//!
//! Caching needs more care, because such a response must not outlive a deploy that adds the missing path. If a header rule or flag
//! gives the path a lifetime, it's about the missing file, so it doesn't count. Rules for the page's own file do, but we never accept
//! `immutable`, and lifetimes of more than an hour only if the rule is for exactly this file.

use std::collections::{BTreeSet, HashMap};

use cannery_archive::{Key, KeyBuffer, Origin};
use cannery_site::{is_representation_field, is_short_lived};

use crate::hosts::site_path::{Site, site_of};
use crate::properties::caching::{cache_control, cache_kind};
use crate::properties::classify::MediaType;
use crate::routes::{Route, Routes, Target, site_index};
use crate::rulefiles::headers::{self, HeaderRule, MergedFields};
use crate::rulefiles::redirects::Action;
use crate::settings::options::Options;
use crate::sources::source::{SourceId, Sources};

/// For each page that stands in for other paths, the fields that header rules set for its own file.
#[derive(Default)]
pub(crate) struct StandIns(HashMap<SourceId, OwnFields>);

#[derive(Default)]
struct OwnFields {
    cache_control: Option<String>,
    /// Fields that describe the page.
    representation: MergedFields,
}

impl StandIns {
    pub(crate) fn find(sources: &Sources, routes: &Routes, rules: &[Vec<HeaderRule>]) -> StandIns {
        if rules.iter().all(Vec::is_empty) {
            return StandIns::default();
        }
        let values = ids(routes).into_iter().filter_map(|id| {
            let (host, path) = match site_of(sources.path(id)) {
                Site::Default(path) => (None, path),
                Site::Host(name, path) => (routes.host_id(&name)?, path),
                Site::Invalid(_) => return None,
            };

            let mut buffer = KeyBuffer::new();
            let key = Key::from_file(path, &mut buffer).ok()?;
            let rules = rules.get(site_index(host))?;
            let host = routes.host_name(host);
            let mut representation = MergedFields::default();

            // Our generated texts don't have a file.
            if !routes.status_texts.values().any(|text| *text == id) {
                representation = headers::merge(rules, host, key.bytes());
                representation.retain(|name| is_representation_field(name.as_bytes()));
            }

            let cache_control = own_caching(rules, host, key.bytes());
            Some((id, OwnFields { cache_control, representation }))
        });
        StandIns(values.collect())
    }

    /// If rules set fields that describe a source, returns those that apply when it stands in for another path.
    pub(crate) fn representation(&self, id: SourceId) -> Option<&MergedFields> {
        self.0.get(&id).map(|own| &own.representation).filter(|fields| !fields.is_empty())
    }

    /// Returns the `Cache-Control` of a source with this status when it stands in for another path.
    pub(crate) fn caching<'a>(
        &'a self,
        options: &'a Options,
        id: SourceId,
        path: &[u8],
        media_type: MediaType<'_>,
        status: u16,
    ) -> Option<&'a str> {
        if !options.preview {
            if let Some(own) = self.0.get(&id).and_then(|own| own.cache_control.as_deref()) {
                return Some(own);
            }
            if options.exclude_cache {
                return None;
            }
        }
        if status >= 400 {
            // A page for a missing path must not outlive the next release, which may have this path. Caches can't revalidate errors.
            return Some("no-store");
        }
        if options.preview {
            return Some("no-cache");
        }

        let value = options.cache_control.as_deref().filter(|value| is_short_lived(value.as_bytes()));
        Some(value.unwrap_or_else(|| cache_control(cache_kind(path, media_type), false)))
    }
}

/// Returns all sources that stand in for other paths.
fn ids(routes: &Routes) -> BTreeSet<SourceId> {
    let mut ids = BTreeSet::new();
    for Route { target, origin } in routes.paths.values() {
        if let (Target::Source { id, .. }, Origin::Rule) = (target, origin) {
            ids.insert(*id);
        }
    }

    for ((host, _), scope) in &routes.scopes {
        ids.extend(scope.fallbacks.iter().map(|(_, id)| *id));
        ids.extend(scope.error_pages.values());
        for ordinal in &scope.rules {
            if let Action::Rewrite { path, .. } = &routes.rules[*ordinal as usize].action
                && let Some(path) = path.constant()
            {
                ids.extend(routes.source_at(*host, &path));
            }
        }
    }
    ids
}

/// Returns the `Cache-Control` that rules set for a file, if it's suitable for a page that stands in for other paths.
fn own_caching(rules: &[HeaderRule], host: Option<&str>, path: &[u8]) -> Option<String> {
    let value_of = |merged: MergedFields| {
        merged.fields.into_iter().find(|(name, _)| name == "cache-control").map(|(_, value)| value)
    };
    let value = value_of(headers::merge(rules, host, path))?;
    if is_short_lived(value.as_bytes()) {
        return Some(value);
    }
    value_of(headers::merge_exact(rules, host, path)).filter(|value| !is_immutable(value))
}

fn is_immutable(value: &str) -> bool {
    value.to_ascii_lowercase().contains("immutable")
}

/// Returns `true` if caches may reuse the response without asking.
pub(crate) fn has_lifetime(value: &str) -> bool {
    let mut directives = value.split(',').map(|directive| directive.trim().to_ascii_lowercase());
    let asks = |directive: &str| {
        matches!(directive, "no-store" | "max-age=0" | "no-cache") || directive.starts_with("no-cache=")
    };
    // If it doesn't contain any of these, caches may choose a lifetime themselves.
    !directives.any(|directive| asks(&directive)) || value.to_ascii_lowercase().contains("s-maxage")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lifetimes_are_recognized() {
        for value in
            ["no-store", "no-cache", "max-age=3600", "private, MAX-AGE=60, s-maxage=\"60\"", "public"]
        {
            assert!(is_short_lived(value.as_bytes()), "{value}");
        }
        for value in [
            "immutable",
            "max-age=60, Immutable",
            "max-age=3601",
            "s-maxage = 86400",
            "max-age=0, stale-while-revalidate=99999",
            "max-age=99999999999999999999999",
        ] {
            assert!(!is_short_lived(value.as_bytes()), "{value}");
        }
    }

    #[test]
    fn value_comes_from_rules_for_the_own_file() {
        let value = |text: &str| {
            let (rules, _) = headers::parse(text.as_bytes(), "_headers");
            own_caching(&rules, None, b"/200.html")
        };
        assert_eq!(value("/*\n  Cache-Control: max-age=60\n").as_deref(), Some("max-age=60"));
        assert_eq!(value("/*\n  Cache-Control: max-age=86400\n"), None);
        assert_eq!(value("/200.html\n  Cache-Control: max-age=86400\n").as_deref(), Some("max-age=86400"));
        assert_eq!(value("/200.html\n  Cache-Control: max-age=9, immutable\n"), None);
        assert_eq!(value("/assets/*\n  Cache-Control: max-age=60\n"), None);
        let both =
            "/200.html\n  Cache-Control: max-age=7\n/*\n  Cache-Control: max-age=31536000, immutable\n";
        assert_eq!(value(both).as_deref(), Some("max-age=7"));
    }
}
