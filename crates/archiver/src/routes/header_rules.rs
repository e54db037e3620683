//! Collects the header rules of each site from the `_headers` files in the root and for each host.

use std::collections::HashMap;

use cannery_site::SITE_FIELDS_MAX;

use crate::ground::diagnostic::{Diagnostic, Severity};
use crate::hosts::host::covers;
use crate::routes::script_policy;
use crate::routes::{Host, HostId, Routes, site_index};
use crate::rulefiles::headers::{self, HeaderRule};
use crate::rulefiles::pattern::PatternPiece;
use crate::settings::error::Error;
use crate::sources::source::Sources;

/// Parses the `_headers` of each site, starting with the default site, followed by the hosts in
/// order.
pub(crate) fn parse(routes: &mut Routes, sources: &Sources) -> Result<Vec<Vec<HeaderRule>>, Error> {
    let mut rules = vec![Vec::new(); routes.all_sites().count()];
    for file in std::mem::take(&mut routes.header_files) {
        if !file.folder.is_empty() {
            routes.warn(
                sources.path(file.id),
                "headers-not-at-root",
                "is ignored, because only the `_headers` at the root of a site applies",
            );
            continue;
        }
        let mut text = Vec::new();
        sources.read(file.id, &mut text)?;
        let name = String::from_utf8_lossy(sources.path(file.id)).into_owned();
        let (parsed, diagnostics) = headers::parse(&text, &name);
        routes.diagnostics.extend(diagnostics);
        if sources.script_pages.is_some() {
            routes.diagnostics.extend(script_policy::find(&parsed));
        }
        rules[site_index(file.host)] = parsed;
    }

    // Rules in the root's file may name a host. These apply to that host's site too, before the site's own
    // rules.
    for (index, Host { name, has_site }) in (1..).zip(&routes.hosts) {
        if *has_site {
            let below = name.strip_prefix("*.");
            let is_of = |host: &String| {
                covers(host, name)
                    || below.is_some_and(|below| host.ends_with(below) && host.len() > below.len())
            };
            let of_root = rules[0].iter().filter(|rule| rule.host.as_ref().is_some_and(is_of));
            let all = of_root.chain(&rules[index]).cloned().collect();
            rules[index] = all;
        }
    }

    let sites_with_rules: Vec<HostId> =
        routes.all_sites().filter(|site| !rules[site_index(*site)].is_empty()).collect();
    for site in sites_with_rules {
        check_fields(routes, &rules[site_index(site)]);
        routes.scope(site, b"/");
    }

    warn_of_unused_placeholders(routes, &rules);

    // Hosts that have rules but no site use the default site's rules.
    for (index, host) in (1..).zip(&routes.hosts) {
        if !host.has_site {
            rules[index] = rules[0].clone();
        }
    }
    Ok(rules)
}

/// Reports rules with a value that refers to the path if they do not match any known path. We are only able to make
/// the value for known paths.
fn warn_of_unused_placeholders(routes: &mut Routes, rules: &[Vec<HeaderRule>]) {
    for (site, rules) in rules.iter().enumerate() {
        for rule in rules.iter().filter(|rule| rule.fields.iter().any(|field| rule.is_reference(field))) {
            let is_used = routes
                .paths
                .keys()
                .any(|(host, path)| site_index(*host) == site && rule.matches(routes.host_name(*host), path));
            if !is_used {
                let message = "this rule has a value with a placeholder, which is sent only for files, and no file matches its path";
                let place = Diagnostic::warning(rule.file.as_bytes(), "header-placeholder", message);
                routes.diagnostics.push(place.at_line(rule.line));
            }
        }
    }
}

/// Reports rules that could add more fields to a path than the server can handle.
fn check_fields(routes: &mut Routes, rules: &[HeaderRule]) {
    // A path has only one first segment. If it is a literal in a rule, we can group rules by it.
    let mut by_start: HashMap<&[u8], usize> = HashMap::new();
    let mut everywhere = 0;

    for rule in rules {
        let start = match rule.pattern.pieces.first() {
            Some(PatternPiece::Literal(literal)) => {
                let slash = literal.iter().skip(1).position(|byte| *byte == b'/').map(|place| place + 1);
                slash.map(|slash| &literal[..slash]).or_else(|| rule.pattern.is_static().then_some(literal))
            }
            _ => None,
        };
        let count = start.map_or(&mut everywhere, |start| by_start.entry(start).or_default());
        *count += rule.fields.len();
    }

    let most = everywhere + by_start.values().copied().max().unwrap_or(0);
    if let Some(rule) = rules.last().filter(|_| most > SITE_FIELDS_MAX) {
        let message = format!(
            "up to {most} fields could be added to one path, more than the maximum of {SITE_FIELDS_MAX}; use fewer rules"
        );
        routes.diagnostics.push(Diagnostic {
            severity: Severity::Error,
            file: rule.file.to_string(),
            line: Some(rule.line),
            code: "header-too-many",
            message,
        });
    }
}
