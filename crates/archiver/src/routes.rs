//! Routes: decides which source should answer each path, and which fallback pages and rules apply below each
//! folder.
//!
//! At this point, only names matter. [`rules`](crate::routes::rules) adds the rules in `_redirects`.

pub(crate) mod access_control; // Access control of other servers: an error.
pub(crate) mod content_encoding; // Files that are compressed already, by rules.
pub(crate) mod header_rules; // `_headers` of each site.
pub(crate) mod immutable; // `--immutable`.
pub mod listing; // Folder listings.
pub(crate) mod redirect_loops; // Redirects that never end.
pub(crate) mod rules; // Adds redirects to the routes.
pub(crate) mod script_policy; // Policies that block the script of previews.
pub(crate) mod stand_ins; // Caching of pages in place of other paths.
pub(crate) mod suspects; // Files that are hardly meant to be public.

use std::collections::btree_map::Entry;
use std::collections::hash_map;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use cannery_archive::{Key, KeyBuffer, Origin};
use cannery_site::is_asset;

use crate::ground::diagnostic::Diagnostic;
use crate::hosts::host::wildcards_of;
use crate::hosts::site_path::{Site, ascii_folder, host_folder, site_of};
use crate::properties::special::{self, Role};
use crate::rulefiles::redirects::RedirectRule;
use crate::settings::options::Options;
use crate::sources::source::{SourceId, Sources};

/// Index into [`Routes::hosts`], or `None` for the default site.
pub(crate) type HostId = Option<u32>;

/// A host with rules or a site.
#[derive(Debug)]
pub(crate) struct Host {
    /// Name in lower case. `*.example.com` stands for all hosts below `example.com`.
    pub(crate) name: String,
    /// Whether the host has a site of its own. If so, we will not search the default site.
    pub(crate) has_site: bool,
}

/// The index of a host into lists that have an entry for each site. The default site comes
/// first in these.
pub(crate) fn site_index(host: HostId) -> usize {
    host.map_or(0, |host| host as usize + 1)
}

/// The answer to a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// A source with this status.
    Source { id: SourceId, status: u16 },
    /// A rule, as an index into [`Routes::rules`].
    Rule(u32),
}

/// The answer to a path, and its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) target: Target,
    pub(crate) origin: Origin,
}

/// Everything that applies to a folder and below.
#[derive(Debug, Default)]
pub(crate) struct Scope {
    /// Fallback pages by suffix.
    pub(crate) fallbacks: Vec<(Box<[u8]>, SourceId)>,
    /// Error pages by status.
    pub(crate) error_pages: BTreeMap<u16, SourceId>,
    /// Ordered rules with patterns, as indices into [`Routes::rules`].
    pub(crate) rules: Vec<u32>,
}

/// Where a rule comes from.
#[derive(Debug)]
pub(crate) struct RuleLine {
    pub(crate) file: Arc<str>,
    pub(crate) line: u32,
    pub(crate) rule: RuleName,
}

/// Identifies a rule in an archive.
#[derive(Debug)]
pub(crate) enum RuleName {
    /// A rule with a pattern, as an index into [`Routes::rules`].
    Ordinal(u32),
    /// A rule for exactly this path.
    Path(HostId, Box<[u8]>),
}

/// A rule file.
#[derive(Debug)]
pub(crate) struct RuleFile {
    pub(crate) id: SourceId,
    pub(crate) host: HostId,
    /// Folder relative to the root of its site. This should be either empty or end with `/`.
    pub(crate) folder: Box<[u8]>,
}

/// The routes of all sites.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    /// Hosts with rules or a site.
    pub(crate) hosts: Vec<Host>,
    /// Index of each name in `hosts`.
    host_ids: HashMap<String, u32>,
    pub(crate) paths: BTreeMap<(HostId, Box<[u8]>), Route>,
    /// Scopes by folder key.
    pub(crate) scopes: BTreeMap<(HostId, Box<[u8]>), Scope>,
    /// Number of rules in which the ends of the pattern overlap. The server's index is not able to
    /// exclude these.
    pub(crate) overlapping_rules: usize,
    /// Generated texts by status. We need these for rules with an error status if there is no
    /// page for it.
    pub(crate) status_texts: BTreeMap<u16, SourceId>,
    /// All rules, in order of precedence.
    pub(crate) rules: Vec<RedirectRule>,
    /// Origin of each effective rule, for the manifest.
    pub(crate) rule_lines: Vec<RuleLine>,
    /// Sources that are not served under their own names.
    pub(crate) hidden: Vec<SourceId>,
    /// Hidden sources that do not answer any path, sorted.
    pub(crate) control: Vec<SourceId>,
    pub(crate) redirect_files: Vec<RuleFile>,
    pub(crate) header_files: Vec<RuleFile>,
    /// Names without suffix of files that are not pages, e.g. `/security` for `security.txt`. Rules take precedence over
    /// these.
    pub(crate) weak_aliases: BTreeSet<(HostId, Box<[u8]>)>,
    pub(crate) diagnostics: Vec<Diagnostic>,
}

/// Pages that are named like a status, but are actually part of a series of numbered pages.
#[derive(Default)]
struct NumberedPages {
    count: usize,
    /// The first of these, and another page in its series.
    first: Option<(SourceId, String)>,
}

impl NumberedPages {
    /// Returns a single note about all of them.
    fn note(self, sources: &Sources) -> Option<Diagnostic> {
        let (id, sibling) = self.first?;
        let others = match self.count {
            1 => String::new(),
            2 => "; 1 more page is one too".to_owned(),
            count => format!("; {} more pages are too", count - 1),
        };
        let message = format!(
            "looks like one page of a series (beside `{sibling}`), so it isn't used as an error page{others}"
        );
        Some(Diagnostic::note_that(sources.path(id), "numbered-page", message))
    }
}

/// A file that answers a path such as `/folder/` or `/page` if there is no file with exactly that name.
///
/// If there are several, the one with the lowest rank wins.
struct Alias {
    rank: usize,
    id: SourceId,
    status: u16,
    /// Whether folders, rules and fallback pages take precedence.
    is_weak: bool,
}

/// Removes files that no request can reach, and warns about them.
pub(crate) fn drop_unservable(sources: &mut Sources) -> Vec<Diagnostic> {
    let mut buffer = KeyBuffer::new();
    let mut diagnostics = Vec::new();
    let mut invalid_hosts: BTreeMap<Box<[u8]>, (u64, &'static str)> = BTreeMap::new();

    sources.files.retain(|file| {
        let reason = match site_of(&file.path) {
            Site::Invalid(reason) => {
                invalid_hosts.entry(host_folder(&file.path).into()).or_insert((0, reason)).0 += 1;
                return false;
            }
            Site::Default(path) | Site::Host(_, path) if Key::from_file(path, &mut buffer).is_err() => {
                ("path-too-long", "has a longer path than a request can have, so it is left out")
            }
            Site::Default(_) | Site::Host(..) => return true,
        };
        diagnostics.push(Diagnostic::warning_that(&file.path, reason.0, reason.1));
        false
    });

    // The folder of an invalid host may contain thousands of files, so there should only be one
    // warning per folder.
    for (folder, (files, reason)) in invalid_hosts {
        let files = if files == 1 { "1 file".to_owned() } else { format!("{files} files") };
        let mut message = format!("{reason} ({files})");
        if let Some(spelling) = ascii_folder(&folder) {
            message.push_str(&format!("; name the folder `{spelling}`"));
        }
        diagnostics.push(Diagnostic::warning_that(&folder, "host-invalid", message));
    }

    diagnostics
}

/// Plans the routes of all files.
pub(crate) fn plan(sources: &Sources, options: &Options) -> Routes {
    let mut planner = Planner {
        sources,
        options,
        routes: Routes::default(),
        aliases: HashMap::new(),
        numbered: NumberedPages::default(),
        special_pages: HashMap::new(),
    };
    let mut buffer = KeyBuffer::new();
    for (id, file) in (0..).zip(&sources.files) {
        let (host, path) = match site_of(&file.path) {
            Site::Default(path) => (None, path),
            Site::Host(name, path) => (Some(planner.routes.add_site(&name)), path),
            Site::Invalid(_) => continue,
        };
        let Ok(key) = Key::from_file(path, &mut buffer) else { continue };
        planner.add_file(id, host, key.bytes());
    }
    planner.finish()
}

/// State of [`plan`].
struct Planner<'a> {
    sources: &'a Sources,
    options: &'a Options,
    routes: Routes,
    aliases: HashMap<(HostId, Box<[u8]>), Alias>,
    numbered: NumberedPages,
    /// Pages with a special role, by their path without the underscore that hides some of them.
    special_pages: HashMap<(HostId, Box<[u8]>), SourceId>,
}

impl Planner<'_> {
    /// Adds the routes that follow from a file's name.
    fn add_file(&mut self, id: SourceId, host: HostId, key: &[u8]) {
        let slash = key.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
        let (folder, name) = key.split_at(slash + 1);

        let mut role = special::role(name);
        // If `404.html` is next to `403.html` and `405.html`, it may just be page 404 of a series.
        if let Role::Fallback { hidden: false, .. } | Role::ErrorPage { hidden: false, .. } = role
            && let Some(sibling) = numbered_sibling(self.sources, id)
        {
            self.numbered.count += 1;
            self.numbered.first.get_or_insert((id, sibling));
            role = Role::Plain;
        }

        self.warn_of_second_page(id, host, key, role);
        let (status, is_hidden) = match role {
            Role::Plain => (200, false),
            Role::Index { rank, hidden } => {
                if !self.options.exclude_index {
                    self.add_alias(host, folder.into(), Alias { rank, id, status: 200, is_weak: false });
                }
                (200, hidden)
            }
            Role::Fallback { suffix, hidden } => {
                self.routes.scope(host, folder).fallbacks.push((suffix.into(), id));
                (200, hidden)
            }
            Role::ErrorPage { status, hidden } => {
                self.routes.scope(host, folder).error_pages.entry(status).or_insert(id);
                (status, hidden)
            }
            Role::IgnoreFile => {
                self.routes.control.push(id);
                (200, true)
            }
            Role::Redirects => {
                self.routes.control.push(id);
                self.routes.redirect_files.push(RuleFile { id, host, folder: folder[1..].into() });
                (200, true)
            }
            Role::Headers => {
                self.routes.control.push(id);
                self.routes.header_files.push(RuleFile { id, host, folder: folder[1..].into() });
                (200, true)
            }
        };

        if is_hidden {
            self.routes.hidden.push(id);
            return;
        }

        let route = Route { target: Target::Source { id, status }, origin: Origin::File };
        if self.routes.paths.insert((host, key.into()), route).is_some() {
            let message =
                "answers the same path as a file in the other folder of this host, which is not served";
            self.routes.warn(self.sources.path(id), "host-twice", message);
        }
        if let Some((stem, rank)) = special::stripped(name).filter(|_| !self.options.exclude_strip) {
            let is_weak = !special::is_page_suffix(suffix_of(name));
            self.add_alias(host, [folder, stem].concat().into(), Alias { rank, id, status, is_weak });
        }
    }

    /// Warns if there is both `404.html` and `_404.html`, for example.
    fn warn_of_second_page(&mut self, id: SourceId, host: HostId, key: &[u8], role: Role<'_>) {
        let role_name = match role {
            // None of them is used.
            Role::Index { .. } if self.options.exclude_index => return,
            Role::Index { .. } => "index page",
            Role::Fallback { .. } => "fallback page",
            Role::ErrorPage { .. } => "error page",
            Role::Plain | Role::Redirects | Role::Headers | Role::IgnoreFile => return,
        };
        let slash = key.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
        let (folder, name) = key.split_at(slash + 1);
        let visible = match name.strip_prefix(b"_").unwrap_or(name) {
            name if name.starts_with(b"wildcard.") => [b"200", &name[b"wildcard".len()..]].concat(),
            name => name.to_owned(),
        };
        let first = *self.special_pages.entry((host, [folder, &visible].concat().into())).or_insert(id);
        if first == id {
            return;
        }
        // The hidden index page has the lower rank. Of other pages, the first one in the order of paths is used.
        let is_first_used = !matches!(role, Role::Index { hidden: true, .. });
        let (used, unused) = if is_first_used { (first, id) } else { (id, first) };
        let used = String::from_utf8_lossy(self.sources.path(used)).into_owned();
        let message = format!(
            "is not used as the {role_name} of its folder, because `{used}` is; remove one of the two"
        );
        self.routes.warn(self.sources.path(unused), "role-twice", message);
    }

    fn add_alias(&mut self, host: HostId, key: Box<[u8]>, alias: Alias) {
        match self.aliases.entry((host, key)) {
            hash_map::Entry::Vacant(entry) => {
                entry.insert(alias);
            }
            hash_map::Entry::Occupied(mut entry) if alias.rank < entry.get().rank => {
                entry.insert(alias);
            }
            hash_map::Entry::Occupied(_) => {}
        }
    }

    /// Finishes the routes. This adds aliases, unless there is a file with exactly the same name.
    fn finish(self) -> Routes {
        let Planner { sources, mut routes, aliases, numbered, .. } = self;
        let folders = folder_keys(sources, &routes);

        let mut hiding = Vec::new();
        for (path, Alias { id, status, is_weak, .. }) in aliases {
            let is_folder = folders.contains(&path);
            if is_weak && (is_folder || routes.has_fallback_for(path.0, &path.1)) {
                continue;
            }
            let Entry::Vacant(entry) = routes.paths.entry(path) else { continue };
            let (host, path) = entry.key();
            if is_weak {
                routes.weak_aliases.insert((*host, path.clone()));
            } else if is_folder {
                hiding.push((id, *host, [path, b"/".as_slice()].concat().into_boxed_slice()));
            }
            entry.insert(Route { target: Target::Source { id, status }, origin: Origin::Alias });
        }
        hiding.retain(|(_, host, folder)| routes.paths.contains_key(&(*host, folder.clone())));
        hiding.sort_unstable();
        routes.diagnostics.extend(hiding_note(sources, &hiding));
        routes.diagnostics.extend(numbered.note(sources));

        let hiding: Vec<_> = routes.scopes.values().filter_map(Scope::fallback_that_hides_errors).collect();
        for (fallback, error_page) in hiding {
            let message = format!(
                "answers missing pages too, with status 200, so `{}` does not; move it to a folder that has only files of \
                 its kind",
                String::from_utf8_lossy(sources.path(error_page))
            );
            routes.warn(sources.path(fallback), "fallback-hides-error-page", message);
        }
        routes
    }
}

/// Returns the keys of all folders, without a trailing slash.
fn folder_keys(sources: &Sources, routes: &Routes) -> HashSet<(HostId, Box<[u8]>)> {
    let mut buffer = KeyBuffer::new();
    let mut keys = HashSet::new();
    for folder in &sources.folders {
        let path = [folder, b"/".as_slice()].concat();
        let (host, path) = match site_of(&path) {
            Site::Default(path) => (None, path),
            Site::Host(name, path) => (routes.host_ids.get(&*name).copied(), path),
            Site::Invalid(_) => continue,
        };
        if let Ok(key) = Key::from_file(path.strip_suffix(b"/").unwrap_or(path), &mut buffer) {
            keys.insert((host, key.bytes().into()));
        }
    }
    keys
}

/// When the short name of a page is also the name of a folder with an index page, this should
/// be noted. There is a single note for all such pages.
fn hiding_note(sources: &Sources, hiding: &[(SourceId, HostId, Box<[u8]>)]) -> Option<Diagnostic> {
    let (id, _, folder) = hiding.first()?;
    let folder = String::from_utf8_lossy(folder);
    let others = match hiding.len() {
        1 => String::new(),
        2 => " (1 more page is like this)".to_owned(),
        count => format!(" ({} more pages are like this)", count - 1),
    };
    let message = format!(
        "answers `{}`, and the folder's index page only `{folder}`{others}",
        &folder[..folder.len() - 1]
    );
    Some(Diagnostic::note_that(sources.path(*id), "short-name", message))
}

impl Scope {
    /// If the folder has a page for 404 and its only fallbacks are for assets (e.g. `_wildcard.png`), returns both. This is
    /// probably a mistake, because the fallback will also answer missing pages.
    fn fallback_that_hides_errors(&self) -> Option<(SourceId, SourceId)> {
        let error_page = *self.error_pages.get(&404)?;
        let (_, first) = self.fallbacks.first()?;
        let are_assets = self.fallbacks.iter().all(|(suffix, _)| is_asset(suffix));
        are_assets.then_some((*first, error_page))
    }
}

impl Routes {
    /// Returns the index of a host and adds the host if it's new.
    pub(crate) fn add_host(&mut self, name: &str) -> u32 {
        let id = self.host_ids.get(name).copied().unwrap_or_else(|| {
            // This should not overflow: each host takes at least a line or a file, and there are
            // fewer than 2^32 of these.
            let id = u32::try_from(self.hosts.len()).expect("hosts are counted by 32 bits");
            self.hosts.push(Host { name: name.to_owned(), has_site: false });
            self.host_ids.insert(name.to_owned(), id);
            id
        });

        // In an archive, every host must have a scope for its root.
        self.scopes.entry((Some(id), b"/".as_slice().into())).or_default();
        id
    }

    /// Returns the index of a host that has a site of its own. If necessary, this adds the host.
    fn add_site(&mut self, name: &str) -> u32 {
        let id = self.add_host(name);
        self.hosts[id as usize].has_site = true;
        id
    }

    /// Returns the default site, followed by all hosts.
    pub(crate) fn all_sites(&self) -> impl Iterator<Item = HostId> {
        std::iter::once(None).chain((0..).take(self.hosts.len()).map(Some))
    }

    /// Lists the sites in which the server will look up this host's paths: the host itself, matching wildcards, and the
    /// default site, in this order.
    ///
    /// The list ends with the first host that has a site of its own.
    pub(crate) fn sites_of(&self, host: HostId) -> Vec<HostId> {
        self.host_name(host).map_or_else(|| vec![None], |name| self.sites_of_name(name))
    }

    /// Same as [`Self::sites_of`], but for any host name, even if it's unknown.
    pub(crate) fn sites_of_name(&self, name: &str) -> Vec<HostId> {
        let known = |name: &str| self.host_ids.get(name).copied();
        let wildcards = wildcards_of(name).filter_map(|name| known(&name));
        let mut sites: Vec<HostId> =
            known(name).into_iter().chain(wildcards).map(Some).chain([None]).collect();
        if let Some(last) = sites.iter().position(|site| self.has_site(*site)) {
            sites.truncate(last + 1);
        }
        sites
    }

    /// Whether a page, rule or fallback page answers `/` on any site.
    pub(crate) fn has_start_page(&self) -> bool {
        self.all_sites().any(|host| {
            let root: (HostId, Box<[u8]>) = (host, b"/".as_slice().into());
            let is_answered_below = |scope: &Scope| {
                let mut rules = scope.rules.iter().map(|rule| &self.rules[*rule as usize]);
                !scope.fallbacks.is_empty() || rules.any(|rule| rule.source.matches(b"/"))
            };
            self.paths.contains_key(&root) || self.scopes.get(&root).is_some_and(is_answered_below)
        })
    }

    /// Returns `true` if this path, assuming that it has no file, would be answered by a fallback
    /// page.
    pub(crate) fn has_fallback_for(&self, host: HostId, path: &[u8]) -> bool {
        let folders = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        folders.map(|(slash, _)| &path[..=slash]).any(|folder| {
            let scope = self.scopes.get(&(host, folder.into()));
            // The path does not have a suffix, so we do not need to distinguish fallbacks for
            // pages from those for assets.
            scope.is_some_and(|scope| !scope.fallbacks.is_empty())
        })
    }

    /// Returns the nearest page for this status.
    ///
    /// On each of the host's sites, the path's folder and its parents are searched.
    pub(crate) fn nearest_error_page(&self, host: HostId, path: &[u8], status: u16) -> Option<SourceId> {
        self.sites_of(host).into_iter().find_map(|site| {
            let slashes = path.iter().enumerate().rev().filter(|(_, byte)| **byte == b'/');
            let mut folders = slashes.map(|(slash, _)| &path[..=slash]);
            folders.find_map(|folder| {
                let scope = self.scopes.get(&(site, folder.into()))?;
                scope.error_pages.get(&status).copied()
            })
        })
    }

    /// Removes paths without suffix if they would be answered by a rule with a pattern.
    pub(crate) fn drop_ruled_aliases(&mut self) {
        let aliases = std::mem::take(&mut self.weak_aliases);
        for (host, path) in &aliases {
            let is_ruled = self.sites_of(*host).into_iter().any(|site| {
                let scope = self.scopes.get(&(site, b"/".as_slice().into()));
                scope.is_some_and(|scope| {
                    scope.rules.iter().any(|rule| self.rules[*rule as usize].source.matches(path))
                })
            });
            if is_ruled {
                self.paths.remove(&(*host, path.clone()));
            }
        }
        self.weak_aliases = aliases;
    }

    /// Returns the index of a host if it has either rules or a site.
    pub(crate) fn host_id(&self, name: &str) -> Option<HostId> {
        self.host_ids.get(name).copied().map(Some)
    }

    pub(crate) fn host_name(&self, host: HostId) -> Option<&str> {
        host.map(|host| self.hosts[host as usize].name.as_str())
    }

    /// Whether the host has a site of its own. This is not the case for the default site.
    pub(crate) fn has_site(&self, host: HostId) -> bool {
        host.is_some_and(|host| self.hosts[host as usize].has_site)
    }

    /// Looks up the source that answers a percent-decoded path on a host. If the path does not exist or is
    /// redirected, this returns `None`.
    pub(crate) fn source_at(&self, host: HostId, path: &[u8]) -> Option<SourceId> {
        let mut buffer = KeyBuffer::new();
        let key = Key::from_parts([path.strip_prefix(b"/").unwrap_or(path)], &mut buffer).ok()?;
        let key: Box<[u8]> = key.bytes().into();
        let route = self.sites_of(host).into_iter().find_map(|site| self.paths.get(&(site, key.clone())))?;
        match route.target {
            Target::Source { id, .. } => Some(id),
            Target::Rule(_) => None,
        }
    }

    /// Returns the index that the next rule in `rules` will have.
    pub(crate) fn next_rule(&self) -> u32 {
        u32::try_from(self.rules.len()).expect("each rule takes a line, of which there are fewer than 2^32")
    }

    /// Adds a warning that is a sentence about the file, consisting of its path and this predicate.
    pub(crate) fn warn(&mut self, path: &[u8], code: &'static str, predicate: impl fmt::Display) {
        self.diagnostics.push(Diagnostic::warning_that(path, code, predicate));
    }

    pub(crate) fn scope(&mut self, host: HostId, folder: &[u8]) -> &mut Scope {
        self.scopes.entry((host, folder.into())).or_default()
    }
}

/// Looks for another file with the same folder and suffix that is named by a number. The number must not be a
/// status.
fn numbered_sibling(sources: &Sources, id: SourceId) -> Option<String> {
    let path = sources.path(id);
    let folder = &path[..path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1)];
    let suffix = suffix_of(path);
    let first = sources.files.partition_point(|file| &*file.path < folder);
    sources.files[first..].iter().map_while(|file| file.path.strip_prefix(folder)).find_map(|name| {
        let ordinary = !name.contains(&b'/') && special::is_ordinary_number(name, suffix);
        ordinary.then(|| String::from_utf8_lossy(name).into_owned())
    })
}

fn suffix_of(path: &[u8]) -> &[u8] {
    path.iter().rposition(|byte| *byte == b'.').map_or(b"", |dot| &path[dot + 1..])
}
