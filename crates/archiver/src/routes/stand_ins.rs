//! Header fields for pages that answer in place of another path, i.e. fallback pages, error pages, and pages shown by
//! rules.
//!
//! The content is described by header rules for the page's own file. For example, a fallback page should not become a download
//! just because `/*.pdf` is one.
//!
//! Caching needs more care, since such a response must not outlive a deploy that adds the missing path. Lifetimes given to the
//! path by a header rule or flag are about the missing file, so they do not apply. Rules for the page's own file do apply;
//! however, `immutable` is never accepted, and lifetimes of more than an hour are only accepted if the rule is for exactly this
//! file.

use std::collections::{BTreeSet, HashMap};

use cannery_archive::{Key, KeyBuffer, Origin};
use cannery_site::{is_representation_field, is_short_lived};

use crate::hosts::site_path::{Site, site_of};
use crate::properties::caching::{cache_control, cache_kind};
use crate::properties::classify::MediaType;
use crate::routes::{HostId, Route, Routes, Target, site_index};
use crate::rulefiles::headers::{self, HeaderRule, MergedFields};
use crate::rulefiles::redirects::Action;
use crate::settings::options::Options;
use crate::sources::source::{SourceId, Sources};

/// The fields that header rules set for the page's own file, for each page that stands in for other
/// paths.
///
/// The key needs to include the site for which the page is sent, because rules may be for one host.
#[derive(Default)]
pub(crate) struct StandIns(HashMap<(HostId, SourceId), OwnFields>);

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
        let values = ids(routes).into_iter().filter_map(|(host, id)| {
            let (Site::Default(path) | Site::Host(_, path)) = site_of(sources.path(id)) else { return None };
            let mut buffer = KeyBuffer::new();
            let key = Key::from_file(path, &mut buffer).ok()?;
            let rules = rules.get(site_index(host))?;
            let name = routes.host_name(host);
            let mut representation = MergedFields::default();

            // Our generated texts do not have a file.
            if !routes.status_texts.values().any(|text| *text == id) {
                representation = headers::merge(rules, name, key.bytes());
                representation.retain(|name| is_representation_field(name.as_bytes()));
            }

            let cache_control = own_caching(rules, name, key.bytes());
            Some(((host, id), OwnFields { cache_control, representation }))
        });
        StandIns(values.collect())
    }

    /// If rules set fields that describe a source, returns those that apply when it is sent for another path of a site.
    pub(crate) fn representation(&self, host: HostId, id: SourceId) -> Option<&MergedFields> {
        self.0.get(&(host, id)).map(|own| &own.representation).filter(|fields| !fields.is_empty())
    }

    /// Same, but only for the `Cache-Control` set by rules.
    fn own_caching(&self, host: HostId, id: SourceId) -> Option<&str> {
        self.0.get(&(host, id)).and_then(|own| own.cache_control.as_deref())
    }

    /// Determines the `Cache-Control` for a source with this status that is sent for another path of a site.
    pub(crate) fn caching<'a>(
        &'a self,
        options: &'a Options,
        (host, id): (HostId, SourceId),
        path: &[u8],
        media_type: MediaType<'_>,
        status: u16,
    ) -> Option<&'a str> {
        if !options.preview {
            if let Some(own) = self.own_caching(host, id) {
                return Some(own);
            }
            if options.exclude_cache {
                return None;
            }
        }
        if status >= 400 {
            // A page for a missing path must not outlive the next release, because the path may exist there. Caches
            // are not able to revalidate errors.
            return Some("no-store");
        }
        if options.preview {
            return Some("no-cache");
        }

        let value = options.cache_control.as_deref().filter(|value| is_short_lived(value.as_bytes()));
        Some(value.unwrap_or_else(|| cache_control(cache_kind(path, media_type), false)))
    }
}

/// Returns all sources that stand in for other paths, each with its site.
fn ids(routes: &Routes) -> BTreeSet<(HostId, SourceId)> {
    let mut ids = BTreeSet::new();
    for ((host, _), Route { target, origin }) in &routes.paths {
        match (target, origin) {
            (Target::Source { id, .. }, Origin::Rule) => {
                ids.insert((*host, *id));
            }
            (Target::Rule(ordinal), _) => ids.extend(constant_source(routes, *host, *ordinal)),
            _ => {}
        }
    }

    for ((host, _), scope) in &routes.scopes {
        let pages = scope.fallbacks.iter().map(|(_, id)| *id).chain(scope.error_pages.values().copied());
        ids.extend(pages.map(|id| (*host, id)));
        ids.extend(scope.rules.iter().filter_map(|ordinal| constant_source(routes, *host, *ordinal)));
    }
    ids
}

/// Returns the source that is shown by a rule when it is the same for all paths.
fn constant_source(routes: &Routes, host: HostId, ordinal: u32) -> Option<(HostId, SourceId)> {
    let Action::Rewrite { path, .. } = &routes.rules[ordinal as usize].action else { return None };
    Some((host, routes.source_at(host, &path.constant()?)?))
}

/// If a host shares a site and is named in a header rule, gives it its own copies of the pages that stand in for other paths.
///
/// This is only needed for rules with fields about content, because the heads of the shared site's pages
/// must not have these.
pub(crate) fn repeat_for_hosts(routes: &mut Routes, rules: &mut Vec<Vec<HeaderRule>>) {
    let named: BTreeSet<String> = rules
        .iter()
        .flatten()
        .filter(|rule| rule.fields.iter().any(|field| headers::is_about_content(field.name())))
        .filter_map(|rule| rule.host.clone())
        // An archive cannot have a site for a host such as `:project.pages.dev`.
        .filter(|host| host.starts_with('[') || !host.contains(':'))
        .collect();

    for name in named {
        if routes.host_id(&name).is_some_and(|host| routes.has_site(host)) {
            continue;
        }
        let Some(shared) = routes.sites_of_name(&name).last().copied() else { continue };
        let host = Some(routes.add_host(&name));
        let of_shared = rules[site_index(shared)].clone();
        rules.resize(rules.len().max(site_index(host) + 1), Vec::new());
        rules[site_index(host)] = of_shared;
        repeat(routes, shared, host);
    }
}

fn repeat(routes: &mut Routes, shared: HostId, host: HostId) {
    // The host's own rules come before all rules of the shared site. If there are any, the shared site has to keep its rules,
    // as those of deeper folders would come first otherwise.
    let has_rules = routes.scopes.iter().any(|((site, _), scope)| *site == host && !scope.rules.is_empty());
    let start = (shared, Box::default());
    let scopes: Vec<_> = routes
        .scopes
        .range(start..)
        .take_while(|((site, _), _)| *site == shared)
        .map(|((_, folder), scope)| {
            let rules = if has_rules { Vec::new() } else { scope.rules.clone() };
            (folder.clone(), scope.fallbacks.clone(), scope.error_pages.clone(), rules)
        })
        .filter(|(_, fallbacks, error_pages, rules)| {
            !(fallbacks.is_empty() && error_pages.is_empty() && rules.is_empty())
        })
        .collect();
    for (folder, fallbacks, error_pages, rules) in scopes {
        let scope = routes.scope(host, &folder);
        scope.fallbacks = fallbacks;
        scope.error_pages = error_pages;
        scope.rules.extend(rules);
    }
}

/// Determines the `Cache-Control` set by rules for a file. It is ignored if it is unsuitable for a page that stands
/// in for other paths.
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

/// Whether caches may reuse the response without asking.
pub(crate) fn has_lifetime(value: &str) -> bool {
    let mut directives = value.split(',').map(|directive| directive.trim().to_ascii_lowercase());
    let asks = |directive: &str| {
        matches!(directive, "no-store" | "max-age=0" | "no-cache") || directive.starts_with("no-cache=")
    };
    // Without any of these, caches are allowed to choose a lifetime themselves.
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
