//! What a server answers with: opened once, shared by the workers, never changed.

mod dummy;
mod exchange;
mod file_id;
pub(crate) mod open;
mod releases;
mod sites;

pub(crate) use exchange::{OnH1, OnH2};
pub(crate) use file_id::FileId;
pub(crate) use releases::{Look, OpenRelease, Releases};
pub(crate) use sites::{Entry, Sites};

use std::net::SocketAddr;
use std::sync::Arc;

use cannery_archive::{Extent, Lease};
use cannery_secure::Version;
use cannery_site::{Answer, Method, PLAIN_HTTP, Reason, Scratch, Site, Target, https_redirect};
use cannery_wire::{ArchiveRef, Output, Refusal, ServerFields};

use crate::admin::Admin;
use crate::config::{self, Config};
use crate::error::StartError;
use crate::notice::Notice;
use crate::observe::{LoggedRequest, Observer, Response, Status};
use crate::pages::{BuiltinPages, Challenges, Page};
use dummy::Dummy;
use exchange::Exchange;

/// What a server answers with.
#[derive(Debug)]
pub(crate) enum Content {
    /// Sites.
    Sites(Sites),
    /// What an operator may ask.
    Admin(Admin),
    /// The same to every request.
    Dummy(Dummy),
}

/// A request, and who asks.
pub(crate) struct Asked<'p, E> {
    pub(crate) exchange: E,
    pub(crate) peer: &'p Option<SocketAddr>,
    /// The version of TLS, if there is any.
    pub(crate) tls: Option<Version>,
    /// The port of `https` that it is to be sent to, if it is.
    pub(crate) https_port: Option<u16>,
}

/// What the thread that looks for new releases keeps of an archive.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    pub(crate) lease: Option<Lease>,
    /// The other releases of its directory.
    pub(crate) releases: Option<Releases>,
}

impl Content {
    /// What a configuration tells to answer with, and what is kept of the archives in their order.
    pub(crate) fn open(
        config: &Config,
        challenges: Option<Challenges>,
    ) -> Result<(Content, Vec<Kept>), StartError> {
        match &config.content {
            config::Content::Archives { archives, loading, .. } => {
                let (mut entries, mut kept) = (Vec::new(), Vec::new());
                for named in archives {
                    let failed = |source| StartError::Archive { path: named.path.clone(), source };
                    let opened = open::open(&named.path, *loading).map_err(failed)?;
                    if opened.is_unguarded {
                        (config.on_notice.0)(&Notice::Unguarded { path: named.path.clone() });
                    }
                    let site = Arc::new(Site::new(opened.archive, config.hosts));
                    let mut releases =
                        named.releases.clone().map(|directory| Releases::new(directory, config.hosts));
                    if let Some(releases) = &mut releases {
                        let mut notices = Vec::new();
                        releases.look(&site.archive().facts().digest, Look::Start, &mut notices);
                        notices.iter().for_each(|notice| (config.on_notice.0)(notice));
                    }
                    let earlier = releases.as_ref().map_or_else(Vec::new, Releases::sites);
                    entries.push(Entry { host: named.host.clone(), site, earlier });
                    kept.push(Kept { lease: opened.lease, releases });
                }
                let special = config.special_pages.clone().map(Arc::new);
                let builtin_pages = BuiltinPages { special, challenges: challenges.map(Arc::new) };
                Ok((Content::Sites(Sites::new(entries, builtin_pages)), kept))
            }
            config::Content::Dummy { body } => Ok((Content::Dummy(Dummy::new(body)), Vec::new())),
        }
    }

    /// What is served at the start, as it is told to operators.
    pub(crate) fn status(&self, config: &Config) -> Status {
        match (self, &config.content) {
            (Content::Sites(sites), config::Content::Archives { archives, .. }) => {
                let facts = sites.entries().iter().map(|entry| entry.site.archive().facts());
                Status::new(archives.iter().zip(facts))
            }
            _ => Status::new(std::iter::empty()),
        }
    }

    /// Answers one request.
    #[inline]
    pub(crate) fn answer<'a>(
        &'a self,
        mut asked: Asked<'_, impl Exchange<'a>>,
        scratch: &'a mut Scratch,
        fields: &ServerFields,
        output: &mut Output,
        observer: &mut Observer,
    ) {
        let (exchange, peer, tls) = (&mut asked.exchange, asked.peer, asked.tls);
        let head = exchange.head();
        let watched_from = observer.watches().then(|| output.length());
        let response = match self {
            Content::Sites(sites) => answer_of(sites, &mut asked, scratch, fields, output),
            Content::Admin(admin) => {
                exchange.answer_page(&admin.page(head), fields, output);
                return;
            }
            Content::Dummy(dummy) => {
                exchange.answer_dummy(dummy, output);
                let is_head = head.request.method == Method::Head;
                let content_bytes = if is_head { 0 } else { dummy.body.len() as u64 };
                Response::Own { status: 200, content_bytes }
            }
        };
        if let Some(before) = watched_from {
            let bytes = output.length() - before;
            observer.answered(&LoggedRequest { peer: *peer, tls, head, response: &response, bytes });
        }
    }

    /// The answer to what is no request, and the archive that it refers to: the page that the default site has for such
    /// an error, if it has one.
    pub(crate) fn refusal(&self, refusal: Refusal) -> (Answer<'_>, ArchiveRef<'_>) {
        // The site's page cannot say what is wrong here.
        if refusal == Refusal::PlainHttp {
            let answer =
                Answer { status: refusal.status(), ..Answer::built_in(PLAIN_HTTP, Reason::BadRequest) };
            return (answer, ArchiveRef::NONE);
        }
        let status = refusal.status();
        let default = if let Content::Sites(sites) = self { sites.default() } else { None };
        match default {
            Some((number, site)) => (site.refusal(status), archive_ref(number, site)),
            None => (Answer::built_in(status, Reason::BadRequest), ArchiveRef::NONE),
        }
    }

    /// Whether ranges of an archive may be lent to the kernel: their bytes never change, not even those that are on
    /// their way to a peer when somebody writes into the file.
    #[inline]
    pub(crate) fn may_be_lent(&self, archive: u16) -> bool {
        match self {
            Content::Sites(sites) => sites.get(archive).is_some_and(|site| site.archive().is_in_memory()),
            Content::Admin(_) | Content::Dummy { .. } => false,
        }
    }

    /// The bytes of a range of an archive, without the first `skip` of them.
    #[inline]
    pub(crate) fn range(&self, archive: u16, extent: Extent, skip: u64) -> &[u8] {
        let rest = Extent { position: extent.position + skip, length: extent.length - skip };
        match self {
            // `site` has checked that the range lies within the archive.
            Content::Sites(sites) => {
                sites.get(archive).and_then(|site| site.archive().body(rest).ok()).unwrap_or_default()
            }
            Content::Admin(_) | Content::Dummy(_) => &[],
        }
    }
}

/// The answer of the site that a request is for, or with a page of the server's own where that site has none.
#[inline]
fn answer_of<'a>(
    sites: &'a Sites,
    asked: &mut Asked<'_, impl Exchange<'a>>,
    scratch: &'a mut Scratch,
    fields: &ServerFields,
    output: &mut Output,
) -> Response<'a> {
    let Asked { exchange, https_port, .. } = asked;
    let request = &exchange.head().request;
    let Some((number, entry)) = sites.of(request) else {
        if let Some(page) = sites.challenge(request) {
            return answer_page(exchange, &page, fields, output);
        }
        // RFC 9110 §15.5.20.
        let host = Target::parse(request.target).and_then(|target| target.host(request.host));
        let answer = Answer::built_in(421, Reason::Host).with_subject(host.unwrap_or_default());
        exchange.answer(&answer, ArchiveRef::NONE, fields, output);
        return Response::Site(answer);
    };
    if let Some(port) = *https_port
        && let Some(answer) = https_redirect(request, port, scratch)
    {
        exchange.answer(&answer, ArchiveRef::NONE, fields, output);
        return Response::Site(answer);
    }
    let site = entry.site.as_ref();
    let (answer, release) = if entry.earlier.is_empty() {
        (site.answer(request, scratch), None)
    } else {
        site.answer_with_earlier(&entry.earlier, request, scratch)
    };
    if !matches!(answer.reason, Reason::Path(_) | Reason::Method | Reason::Options)
        && let Some(page) = sites.builtin_page(request)
    {
        return answer_page(exchange, &page, fields, output);
    }
    let (number, site) = release.and_then(|place| sites.earlier(number, place)).unwrap_or((number, site));
    exchange.answer(&answer, archive_ref(number, site), fields, output);
    Response::Site(answer)
}

/// Answers with a page of the server's own.
#[cold]
fn answer_page<'a>(
    exchange: &mut impl Exchange<'a>,
    page: &Page<'_>,
    fields: &ServerFields,
    output: &mut Output,
) -> Response<'a> {
    exchange.answer_page(page, fields, output);
    let is_head = exchange.head().request.method == Method::Head;
    Response::Own { status: page.status, content_bytes: if is_head { 0 } else { page.body.len() as u64 } }
}

/// An archive as answers refer to it.
#[inline]
fn archive_ref(number: u16, site: &Site) -> ArchiveRef<'_> {
    let archive = site.archive();
    let identity = archive.facts().digest.0.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    ArchiveRef { number, bytes: archive.bytes(), identity }
}
