//! Link checker: finds internal links in pages and style sheets that lead nowhere.
//!
//! Links are joined to the URL of their file, as in a browser, and then looked up in the finished archive with the server's own
//! [`Site`]. This way, rules, redirects, fallback pages and listings have the same effect as for a client. For example, a link
//! in `<a>` is a navigation and may be answered by a fallback page, unlike a link in `<script>` or `<img>`. Links to other
//! origins are ignored, as are links created by scripts.
//!
//! We need to read the text of each page anyway, so this is also where we look for policies that would block the
//! preview script.

mod extract;
mod page;
mod url;

use std::collections::{HashMap, HashSet};

use cannery_archive::{Archive, Origin};
use cannery_base::FileStamp;
use cannery_site::{Fields, Method, Reason, Request, Scratch, Site, VirtualHosts, is_asset, suffix};

use self::extract::Purpose;
use self::page::{Page, PageLink, PagePolicy};
use self::url::Url;
use crate::contents::caches::Caches;
use crate::contents::sources_cache::{Extract, Extracts};
use crate::ground::diagnostic::{Diagnostic, Severity};
use crate::ground::ordered::{self, Jobs, Limits};
use crate::ground::progress::Progress;
use crate::hosts::site_path::{Site as Place, site_of};
use crate::properties::classify::essence;
use crate::routes::Routes;
use crate::routes::script_policy;
use crate::routes::suspects::left_out;
use crate::rulefiles::percent::{is_unreserved, percent_decode, percent_encode};
use crate::rulefiles::redirects::{Action, TemplatePiece};
use crate::settings::error::Error;
use crate::settings::options::{LinkCheck, Options};
use crate::sources::source::{SourceId, Sources};
use crate::sources::source_facts::SourceFacts;

/// Browsers give up after 20 redirects.
const REDIRECTS_MAX: usize = 20;

/// Maximum number of redirects to missing pages to report individually.
const REDIRECTS_REPORTED_MAX: usize = 5;

/// Maximum number of reported names that were left out even though there are links to them.
const LEFT_OUT_REPORTED_MAX: usize = 5;

/// The command that lists broken links.
const LIST_FLAG: &str = "`cannery-archiver --check-links`";

/// Maximum size of sources held in memory at once, including their links.
const HELD_BYTES_MAX: u64 = 32 << 20;

/// Host to look up in place of all hosts covered by a wildcard.
const ANY_LABEL: &str = "any-host-below";

/// Prefix of the server's own pages, which are not in any archive.
const SERVER_PAGES: &str = "/__/";

/// A page or style sheet.
struct LinkingFile {
    id: SourceId,
    is_html: bool,
    url: Url,
}

/// A file's broken links, and warnings about its policies.
struct Findings {
    broken: Vec<BrokenLink>,
    policies: Vec<Diagnostic>,
    origin: PageOrigin,
}

/// The origin of a page's links.
enum PageOrigin {
    Cached,
    /// The text. The next build may find the extract in the cache.
    Parsed(Option<Extract>),
}

struct BrokenLink {
    line: u32,
    reference: String,
    url: Url,
    error: TargetError,
}

/// The error that clients would get for a link target.
#[derive(Clone, Copy)]
enum TargetError {
    Status(u16),
    RedirectLoop,
}

/// Targets that have been looked up, with their errors.
type KnownTargets = HashMap<(Url, Purpose), Option<TargetError>>;

/// The pages and style sheets of a site, and the site that should be used for looking up their links.
pub(crate) struct Links<'a> {
    options: &'a Options,
    sources: &'a Sources,
    routes: &'a Routes,
    kept: Kept<'a>,
    site: Site,
    files: Vec<LinkingFile>,
}

/// The caches, and the properties of the sources.
#[derive(Clone, Copy)]
pub(crate) struct Kept<'a> {
    pub(crate) caches: &'a Caches<'a>,
    /// The properties of each source, unless there is no cache for them.
    pub(crate) known: &'a [(FileStamp, SourceFacts)],
}

/// The findings of a check.
pub(crate) struct Checked {
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// Files whose links were cached.
    pub(crate) pages_known: u64,
    /// Pages that the next build need not read.
    pub(crate) extracts: Extracts,
}

impl<'a> Links<'a> {
    pub(crate) fn open(
        options: &'a Options,
        sources: &'a Sources,
        routes: &'a Routes,
        kept: Kept<'a>,
        archive: Archive,
    ) -> Links<'a> {
        let mut files = Vec::new();
        for (id, file) in (0..).zip(&sources.files) {
            let is_html = match essence(options.media_types.of(&file.path).text) {
                "text/html" | "application/xhtml+xml" => true,
                "text/css" => false,
                _ => continue,
            };
            let Some(url) = url_of(&file.path) else { continue };
            files.push(LinkingFile { id, is_html, url });
        }
        Links { options, sources, routes, kept, site: Site::new(archive, VirtualHosts::Enabled), files }
    }

    pub(crate) fn file_count(&self) -> u64 {
        self.files.len() as u64
    }

    /// Warns about each broken link, or if there are to be no individual warnings, just notes their number.
    ///
    /// # Errors
    ///
    /// This will fail if a source cannot be read.
    pub(crate) fn check(&self, progress: &dyn Progress) -> Result<Checked, Error> {
        let limits = Limits { threads: self.options.thread_count(), held_bytes_max: HELD_BYTES_MAX };
        let held_bytes = |file: &LinkingFile| self.sources.length(file.id);
        let jobs = Jobs { all: &self.files, held_bytes };
        let mut broken = Vec::new();
        let mut policies = Vec::new();
        let mut pages_known = 0;
        let mut extracts = Extracts::new();

        ordered::run(
            limits,
            &jobs,
            || (Scratch::default(), KnownTargets::new()),
            |(scratch, known), file| Ok((self.check_file(file, scratch, known)?, 0)),
            |file, found: Findings| {
                broken.extend(found.broken.into_iter().map(|link| (file.id, link)));
                policies.extend(found.policies);
                match found.origin {
                    PageOrigin::Cached => pages_known += 1,
                    PageOrigin::Parsed(extract) => extracts.extend(extract),
                }
                progress.advance(1);
                Ok::<(), Error>(())
            },
        )?;

        let redirects = self.broken_redirects();
        let mut diagnostics: Vec<Diagnostic> = match self.options.check_links {
            LinkCheck::List => {
                let links = broken.iter().map(|(id, link)| link.warning(self.sources.path(*id)));
                links.chain(redirects.iter().map(|redirect| redirect.diagnostic(Severity::Warning))).collect()
            }
            LinkCheck::Count | LinkCheck::Off => {
                let reported = redirects.iter().take(REDIRECTS_REPORTED_MAX);
                let notes = reported.map(|redirect| redirect.diagnostic(Severity::Note));
                let more = redirects.len().saturating_sub(REDIRECTS_REPORTED_MAX);
                let rest = (more > 0).then(|| {
                    let message =
                        format!("{more} more redirects lead to a missing page; {LIST_FLAG} lists them");
                    Diagnostic::note(b".", "redirect-target-missing", message)
                });
                summary(&broken).into_iter().chain(notes).chain(rest).collect()
            }
        };

        diagnostics.append(&mut self.linked_left_out(&broken));
        diagnostics.append(&mut policies);
        Ok(Checked { diagnostics, pages_known, extracts })
    }

    /// Returns redirects whose target is constant and leads to an error.
    fn broken_redirects(&self) -> Vec<BrokenRedirect<'_>> {
        let mut scratch = Scratch::default();
        let mut lines = HashSet::new();
        let mut broken = Vec::new();
        for rule in &self.routes.rules {
            let Action::Redirect { target, .. } = &rule.action else { continue };
            let [TemplatePiece::Literal(target)] = &target.pieces[..] else { continue };

            let own_host = match site_of(rule.file.as_bytes()) {
                Place::Host(host, _) => Some(host.into_owned()),
                Place::Default(_) | Place::Invalid(_) => None,
            };
            let host = rule.host.clone().or(own_host).map(String::into_boxed_str);
            let start = Url { host, path: "/".to_owned() };
            let Some(url) = start.join(target).filter(|url| self.is_checked(url, &start)) else { continue };

            // A rule may be listed twice, by its path and among the forced rules, but it should only be reported once.
            let is_part = rule.source.static_path().is_some_and(|path| is_asset(suffix(&path)));
            let purpose = if is_part { Purpose::Part } else { Purpose::Page };
            if let Some(TargetError::Status(status)) = self.follow(&url, purpose, &mut scratch)
                && lines.insert((&rule.file, rule.line))
            {
                broken.push(BrokenRedirect { file: &rule.file, line: rule.line, path: url.path, status });
            }
        }
        broken
    }

    /// Checks a file for broken links (each of them is only reported once) and for policies that
    /// would block the preview script.
    fn check_file(
        &self,
        file: &LinkingFile,
        scratch: &mut Scratch,
        known: &mut KnownTargets,
    ) -> Result<Findings, Error> {
        let (page, origin) = self.page(file)?;
        let base = page.base.and_then(|reference| file.url.join(&reference));
        let base = base.unwrap_or_else(|| file.url.clone());

        let mut reported = HashSet::new();
        let mut broken = Vec::new();
        for PageLink { reference, purpose, line } in page.links {
            if reported.contains(&reference) {
                continue;
            }
            let Some(url) = base.join(&reference).filter(|url| self.is_checked(url, &file.url)) else {
                continue;
            };
            if let Some(error) = self.follow_cached(url.clone(), purpose, scratch, known) {
                let shown = String::from_utf8_lossy(&reference).into_owned();
                broken.push(BrokenLink { line, reference: shown, url, error });
                reported.insert(reference);
            }
        }
        Ok(Findings { broken, policies: self.blocking(file, &page.policies), origin })
    }

    /// Returns the page from the cache, or else reads it.
    fn page(&self, file: &LinkingFile) -> Result<(Page, PageOrigin), Error> {
        let content = self.kept.known.get(file.id as usize).map(|(_, facts)| facts.digest);
        let cached = content.and_then(|content| self.kept.caches.extract(&content));
        if let Some(page) = cached.and_then(|encoded| Page::decode(encoded, file.is_html)) {
            return Ok((page, PageOrigin::Cached));
        }

        let mut text = Vec::new();
        self.sources.read(file.id, &mut text)?;
        let page = Page::read(&text, file.is_html);
        let content = content.filter(|_| self.kept.caches.stores_extracts());
        let extract = content.and_then(|content| Some((content, page.encode(file.is_html)?)));
        Ok((page, PageOrigin::Parsed(extract)))
    }

    /// Returns warnings about a file's policies that would block the preview script.
    fn blocking(&self, file: &LinkingFile, policies: &[PagePolicy]) -> Vec<Diagnostic> {
        if !self.sources.gets_script(file.id) {
            return Vec::new();
        }
        let path = self.sources.path(file.id);
        let warning = |policy: &PagePolicy| script_policy::in_page(path, policy.line, &policy.text);
        policies.iter().filter_map(warning).collect()
    }

    /// Returns `true` if a URL is internal and not excepted by the user.
    fn is_checked(&self, url: &Url, file: &Url) -> bool {
        let exceptions = &self.options.check_links_except;
        let is_exception = !exceptions.is_empty() && {
            let path = percent_decode(url.path.as_bytes()).unwrap_or_default();
            exceptions.iter().any(|exception| exception.matches(&path))
        };
        !is_exception && self.is_internal(url, file)
    }

    /// Warns about each name that was left out by a built-in rule even though there are links to it.
    fn linked_left_out(&self, broken: &[(SourceId, BrokenLink)]) -> Vec<Diagnostic> {
        let mut found = Vec::new();
        for skipped in self.sources.skipped.iter().filter(|skipped| left_out::is_built_in(skipped)) {
            let Some(url) = url_of(&skipped.path) else { continue };
            let is_within = |path: &str| {
                path.strip_prefix(&url.path)
                    .is_some_and(|rest| rest.is_empty() || skipped.is_folder && rest.starts_with('/'))
            };
            let leads_there = |link: &&(SourceId, BrokenLink)| {
                matches!(link.1.error, TargetError::Status(404))
                    && link.1.url.host == url.host
                    && is_within(&link.1.url.path)
            };

            let links = broken.iter().filter(leads_there).count();
            if links > 0 && found.len() < LEFT_OUT_REPORTED_MAX {
                found.push(left_out::linked(skipped, links));
            }
        }
        found
    }

    /// Whether the archive is responsible for a URL, i.e. if the URL has the same host as the file, or if the archive
    /// has something for its host.
    fn is_internal(&self, url: &Url, file: &Url) -> bool {
        let is_known = |host: &str| self.routes.sites_of_name(host).first().is_some_and(Option::is_some);
        url.host == file.host || url.host.as_deref().is_some_and(is_known)
    }

    /// Like [`Links::follow`], but first looks for the URL in `known`.
    fn follow_cached(
        &self,
        url: Url,
        purpose: Purpose,
        scratch: &mut Scratch,
        known: &mut KnownTargets,
    ) -> Option<TargetError> {
        let target = (url, purpose);
        if let Some(error) = known.get(&target) {
            return *error;
        }
        let error = self.follow(&target.0, purpose, scratch);
        known.insert(target, error);
        error
    }

    /// Requests a URL and follows redirects.
    ///
    /// Returns `None` when they end at a page or leave the site.
    fn follow(&self, url: &Url, purpose: Purpose, scratch: &mut Scratch) -> Option<TargetError> {
        let mut at = url.clone();
        for _ in 0..=REDIRECTS_MAX {
            // Wildcard hosts begin with `*`. The server needs a real host.
            let host = at.host.as_deref().map(|host| match host.strip_prefix('*') {
                Some(below) => format!("{ANY_LABEL}{below}"),
                None => host.to_owned(),
            });
            let request = Request {
                host: host.as_deref().map(str::as_bytes),
                intent: purpose.intent(),
                ..Request::new(Method::Get, at.path.as_bytes())
            };

            let answer = self.site.answer(&request, scratch);
            let Fields::Redirect(location) = answer.fields else {
                // An error page that is requested by its own name has the status of an error as well, but
                // the link is not broken.
                let is_file = matches!(answer.reason, Reason::Path(Origin::File | Origin::Alias));
                let is_found = answer.status < 400 || is_file || at.path.starts_with(SERVER_PAGES);
                return (!is_found).then_some(TargetError::Status(answer.status));
            };

            let mut target = Vec::new();
            location.for_each_piece(&mut |bytes| target.extend_from_slice(bytes));
            at = at.join(&target).filter(|next| self.is_checked(next, &at))?;
        }
        Some(TargetError::RedirectLoop)
    }
}

/// A redirect to a missing path.
struct BrokenRedirect<'r> {
    file: &'r str,
    line: u32,
    path: String,
    status: u16,
}

impl BrokenRedirect<'_> {
    fn diagnostic(&self, severity: Severity) -> Diagnostic {
        let message = format!("redirects to `{}`, which answers {}", self.path, self.status);
        Diagnostic {
            severity,
            file: self.file.to_owned(),
            line: Some(self.line),
            code: "redirect-target-missing",
            message,
        }
    }
}

impl BrokenLink {
    fn warning(&self, path: &[u8]) -> Diagnostic {
        let target = &self.url.path;
        let error = match self.error {
            TargetError::Status(status) => format!("`{target}` answers {status}"),
            TargetError::RedirectLoop => format!("`{target}` is redirected more than {REDIRECTS_MAX} times"),
        };
        let message = format!("the link to `{}` is broken: {error}", self.reference);
        Diagnostic::warning(path, "broken-link", message).at_line(self.line)
    }
}

/// Returns the URL for a source path.
fn url_of(path: &[u8]) -> Option<Url> {
    let (host, path) = match site_of(path) {
        Place::Default(path) => (None, path),
        Place::Host(host, path) => (Some(host.into()), path),
        Place::Invalid(_) => return None,
    };
    let path = percent_encode(path, |byte| is_unreserved(byte) || byte == b'/');
    Some(Url { host, path: format!("/{path}") })
}

/// Returns a note with the number of broken links, if any.
fn summary(broken: &[(SourceId, BrokenLink)]) -> Option<Diagnostic> {
    if broken.is_empty() {
        return None;
    }
    let targets: HashSet<&Url> = broken.iter().map(|(_, link)| &link.url).collect();
    let (links, verb) = match broken.len() {
        1 => ("1 internal link".to_owned(), "leads"),
        count => (format!("{count} internal links"), "lead"),
    };
    let targets = match targets.len() {
        1 => "1 path that is".to_owned(),
        count => format!("{count} paths that are"),
    };
    let message = format!("{links} {verb} to {targets} not found; {LIST_FLAG} lists them");
    Some(Diagnostic::note(b".", "broken-links", message))
}
