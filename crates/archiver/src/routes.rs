//! Files to keys: which source answers which path, and what holds below each folder.
//!
//! Never reads a file's bytes: rules come in from `rules`, once they are parsed.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use cannery_archive::{Key, KeyBuffer, Origin};

use crate::diagnostic::Diagnostic;
use crate::host::{is_too_deep, wildcards_of};
use crate::options::Options;
use crate::redirects::RedirectRule;
use crate::source::{SourceId, Sources};
use crate::special::{self, Role};

/// The top-level folder in which each folder is the site of a host.
const HOSTS_FOLDER: &[u8] = b"_hosts/";

/// A host: an index into [`Routes::hosts`]; nothing for the default site.
pub(crate) type HostId = Option<u32>;

/// What answers a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// The content of a source, with this status.
    Source { id: SourceId, status: u16 },
    /// What a rule says; an index into [`Routes::rules`].
    Rule(u32),
}

/// A path and what answers it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) target: Target,
    pub(crate) origin: Origin,
}

/// What holds below a folder.
#[derive(Debug, Default)]
pub(crate) struct Scope {
    /// Suffix and source.
    pub(crate) fallbacks: Vec<(Box<[u8]>, SourceId)>,
    /// The pages for errors, by status.
    pub(crate) error_pages: BTreeMap<u16, SourceId>,
    /// Rules with a pattern, as indices into [`Routes::rules`], in their order.
    pub(crate) rules: Vec<u32>,
}

/// Where a rule was written.
#[derive(Debug)]
pub(crate) struct RuleLine {
    pub(crate) file: Arc<str>,
    pub(crate) line: u32,
    pub(crate) rule: RuleName,
}

/// A rule as an archive knows it.
#[derive(Debug)]
pub(crate) enum RuleName {
    /// One with a pattern: an index into [`Routes::rules`].
    Ordinal(u32),
    /// One for exactly this path.
    Path(HostId, Box<[u8]>),
}

/// A file that holds rules.
#[derive(Debug)]
pub(crate) struct RuleFile {
    pub(crate) id: SourceId,
    pub(crate) host: HostId,
    /// The folder that it lies in, relative to the root of its site: empty, or with a `/` at its end.
    pub(crate) folder: Box<[u8]>,
}

/// Which path is answered by what.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    /// Hosts with something of their own, and whether it is a whole site.
    pub(crate) hosts: Vec<(String, bool)>,
    /// The places of their names there.
    host_ids: HashMap<String, u32>,
    pub(crate) paths: BTreeMap<(HostId, Box<[u8]>), Route>,
    /// By the key of the folder.
    pub(crate) scopes: BTreeMap<(HostId, Box<[u8]>), Scope>,
    /// Rules whose pattern can only be told from one that matches by trying it.
    pub(crate) overlapping_rules: usize,
    /// All rules, in the order in which they count.
    pub(crate) rules: Vec<RedirectRule>,
    /// Where each rule that answers something was written, for the manifest.
    pub(crate) rule_lines: Vec<RuleLine>,
    /// Sources that are not served under their own name.
    pub(crate) hidden: Vec<SourceId>,
    /// Of those, the ones that answer nothing at all. Sorted.
    pub(crate) control: Vec<SourceId>,
    pub(crate) redirect_files: Vec<RuleFile>,
    pub(crate) header_files: Vec<RuleFile>,
    pub(crate) diagnostics: Vec<Diagnostic>,
}

/// Pages that have the name of a status and stand among numbered ones.
#[derive(Default)]
struct NumberedPages {
    count: usize,
    /// The first of them, and the number beside it.
    first: Option<(SourceId, String)>,
}

impl NumberedPages {
    /// Returns one note about all of them.
    fn note(self, sources: &Sources) -> Option<Diagnostic> {
        let (id, sibling) = self.first?;
        let others = match self.count {
            1 => String::new(),
            2 => "; 1 more page is one too".to_owned(),
            count => format!("; {} more pages are too", count - 1),
        };
        let message = format!("is an ordinary page, because `{sibling}` stands beside it{others}");
        Some(Diagnostic::note(sources.path(id), "numbered-page", message))
    }
}

/// Names that a file would like to have, if nobody has a better right to them.
#[derive(Default)]
struct Wishes {
    by_key: HashMap<(HostId, Box<[u8]>), Wish>,
    numbered: NumberedPages,
}

/// Who wants a name. The lower rank wins.
struct Wish {
    rank: usize,
    id: SourceId,
    status: u16,
}

impl Wishes {
    fn add(&mut self, host: HostId, key: Box<[u8]>, rank: usize, id: SourceId, status: u16) {
        let best = self.by_key.entry((host, key)).or_insert(Wish { rank, id, status });
        if rank < best.rank {
            *best = Wish { rank, id, status };
        }
    }
}

/// Takes out the files that no request can ask for, and says of each why.
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
                ("path-too-long", "has a path that is longer than a request can be: left out")
            }
            Site::Default(_) | Site::Host(..) => return true,
        };
        diagnostics.push(Diagnostic::warning(&file.path, reason.0, reason.1));
        false
    });
    // One remark for a folder, however many files are in it.
    for (folder, (files, reason)) in invalid_hosts {
        let files = if files == 1 { "1 file".to_owned() } else { format!("{files} files") };
        let message = format!("{reason} ({files})");
        diagnostics.push(Diagnostic::warning(&folder, "host-invalid", message));
    }
    diagnostics
}

/// Which site a source path belongs to, and the path within that site.
pub(crate) enum Site<'p> {
    Default(&'p [u8]),
    Host(Cow<'p, str>, &'p [u8]),
    Invalid(&'static str),
}

pub(crate) fn site_of(path: &[u8]) -> Site<'_> {
    let Some(rest) = path.strip_prefix(HOSTS_FOLDER) else { return Site::Default(path) };
    let Some(slash) = rest.iter().position(|byte| *byte == b'/') else {
        return Site::Invalid(
            "stands in `_hosts/`, where only folders named after hosts are served: left out",
        );
    };
    match std::str::from_utf8(&rest[..slash]).ok().and_then(host_of_folder) {
        Some(host) => Site::Host(host, &rest[slash + 1..]),
        None => Site::Invalid(
            "is not the name of a host as requests spell it, in lower case and with `xn--` for letters beyond ASCII: left out",
        ),
    }
}

/// The folder of a host that a file lies in; the file itself if it lies in none.
fn host_folder(path: &[u8]) -> &[u8] {
    let rest = path.strip_prefix(HOSTS_FOLDER).unwrap_or_default();
    let name = rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len());
    &path[..path.len() - rest.len() + name]
}

/// The host that a folder is named after. `*.example.com` stands for all hosts below `example.com`, and
/// `_wildcard.example.com` for the same where a file system has no `*`.
fn host_of_folder(name: &str) -> Option<Cow<'_, str>> {
    let below = name.strip_prefix("_wildcard.");
    let host = below.map_or(Cow::Borrowed(name), |below| Cow::Owned(format!("*.{below}")));
    is_host(host.strip_prefix("*.").unwrap_or(&host)).then_some(host).filter(|host| !is_too_deep(host))
}

/// RFC 1123 §2.1: labels of letters, digits and hyphens, no hyphen at either end.
fn is_host(name: &str) -> bool {
    let is_label = |label: &str| {
        let plain =
            label.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
        plain && (1..=63).contains(&label.len()) && !label.starts_with('-') && !label.ends_with('-')
    };
    name.len() <= 253 && name.split('.').all(is_label)
}

/// Plans what answers each path, as far as names tell.
pub(crate) fn plan(sources: &Sources, options: &Options) -> Routes {
    let mut routes = Routes::default();
    let mut wishes = Wishes::default();
    let mut buffer = KeyBuffer::new();
    for (id, file) in (0..).zip(&sources.files) {
        let (host, path) = match site_of(&file.path) {
            Site::Default(path) => (None, path),
            Site::Host(name, path) => (Some(routes.host(&name, true)), path),
            Site::Invalid(_) => continue,
        };
        let Ok(key) = Key::from_file(path, &mut buffer) else { continue };
        routes.add_file(sources, options, &mut wishes, id, host, key.bytes());
    }
    for ((host, key), Wish { id, status, .. }) in wishes.by_key {
        let route = Route { target: Target::Source { id, status }, origin: Origin::Alias };
        routes.paths.entry((host, key)).or_insert(route);
    }
    routes.diagnostics.extend(wishes.numbered.note(sources));
    routes
}

impl Routes {
    /// The number of a host.
    pub(crate) fn host(&mut self, name: &str, own_site: bool) -> u32 {
        let id = self.host_ids.get(name).copied().unwrap_or_else(|| {
            // Each host takes a line or a file, of which there are fewer than 2^32.
            let id = u32::try_from(self.hosts.len()).expect("hosts are counted by 32 bits");
            self.hosts.push((name.to_owned(), false));
            self.host_ids.insert(name.to_owned(), id);
            id
        });
        self.hosts[id as usize].1 |= own_site;
        // A host is known by what holds below its root.
        self.scopes.entry((Some(id), b"/".as_slice().into())).or_default();
        id
    }

    /// The sites that a path of this host is looked for in, in order: the host's own, those of all hosts below a
    /// part of its name, and the default one, until one of them is a whole site.
    pub(crate) fn sites_of(&self, host: HostId) -> Vec<HostId> {
        self.host_name(host).map_or_else(|| vec![None], |name| self.sites_of_name(name))
    }

    /// The same for any host, also one that nothing was written for.
    pub(crate) fn sites_of_name(&self, name: &str) -> Vec<HostId> {
        let known = |name: &str| self.host_ids.get(name).copied();
        let behind = wildcards_of(name).filter_map(|name| known(&name));
        let mut sites: Vec<HostId> = known(name).into_iter().chain(behind).map(Some).chain([None]).collect();
        let is_whole = |site: &HostId| site.is_some_and(|host| self.hosts[host as usize].1);
        let whole = sites.iter().position(is_whole);
        sites.truncate(whole.map_or(sites.len(), |place| place + 1));
        sites
    }

    /// Whether `/` of some site is answered: by a page, a rule or a fallback page.
    pub(crate) fn has_start_page(&self) -> bool {
        let sites = (0..).take(self.hosts.len()).map(Some).chain([None]);
        sites.into_iter().any(|host| {
            let root: (HostId, Box<[u8]>) = (host, b"/".as_slice().into());
            let is_answered_below = |scope: &Scope| {
                let mut rules = scope.rules.iter().map(|rule| &self.rules[*rule as usize]);
                !scope.fallbacks.is_empty() || rules.any(|rule| rule.source.matches(b"/"))
            };
            self.paths.contains_key(&root) || self.scopes.get(&root).is_some_and(is_answered_below)
        })
    }

    pub(crate) fn host_name(&self, host: HostId) -> Option<&str> {
        host.map(|host| self.hosts[host as usize].0.as_str())
    }

    pub(crate) fn warn(&mut self, path: &[u8], code: &'static str, message: impl Into<String>) {
        self.diagnostics.push(Diagnostic::warning(path, code, message));
    }

    fn add_file(
        &mut self,
        sources: &Sources,
        options: &Options,
        wishes: &mut Wishes,
        id: SourceId,
        host: HostId,
        key: &[u8],
    ) {
        let slash = key.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
        let (folder, name) = key.split_at(slash + 1);
        let mut role = special::role(name);
        if let Role::Fallback { hidden: false, .. } | Role::ErrorPage { hidden: false, .. } = role
            && let Some(sibling) = numbered_sibling(sources, id)
        {
            wishes.numbered.count += 1;
            wishes.numbered.first.get_or_insert((id, sibling));
            role = Role::Plain;
        }
        let (mut status, mut hidden) = (200, false);
        match role {
            Role::Plain => {}
            Role::Index { rank, hidden: under_score } => {
                hidden = under_score;
                if !options.exclude_index {
                    wishes.add(host, folder.into(), rank, id, 200);
                }
            }
            Role::Fallback { suffix, hidden: under_score } => {
                hidden = under_score;
                self.scope(host, folder).fallbacks.push((suffix.into(), id));
            }
            Role::ErrorPage { status: error, hidden: under_score } => {
                (status, hidden) = (error, under_score);
                self.scope(host, folder).error_pages.entry(error).or_insert(id);
            }
            Role::IgnoreFile => {
                self.control.push(id);
                hidden = true;
            }
            Role::Redirects | Role::Headers => {
                self.control.push(id);
                hidden = true;
                let file = RuleFile { id, host, folder: folder[1..].into() };
                if role == Role::Redirects {
                    self.redirect_files.push(file);
                } else {
                    self.header_files.push(file);
                }
            }
        }
        if hidden {
            self.hidden.push(id);
            return;
        }
        let route = Route { target: Target::Source { id, status }, origin: Origin::File };
        if self.paths.insert((host, key.into()), route).is_some() {
            let message = "has the place of a file in the other folder of this host, which is not served";
            self.warn(sources.path(id), "host-twice", message);
        }
        if let Some((stem, rank)) = special::stripped(name).filter(|_| !options.exclude_strip) {
            wishes.add(host, [folder, stem].concat().into(), rank, id, status);
        }
    }

    pub(crate) fn scope(&mut self, host: HostId, folder: &[u8]) -> &mut Scope {
        self.scopes.entry((host, folder.into())).or_default()
    }
}

/// A file beside this one, with the same suffix, whose name is a number that no status is.
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
