//! The server's content, which is opened once, shared by all workers, and never changed.

mod current;
mod document;
mod dummy;
mod entry;
mod exchange;
mod hosted;
mod leases;
pub(crate) mod limits;
pub(crate) mod open;
mod preview;
mod releases;
mod sites;

pub(crate) use current::{Current, Mark};
pub(crate) use entry::Entry;
pub(crate) use exchange::{OnH1, OnStream};
pub(crate) use hosted::{HostNames, HostedSites, NewSlot, OpenerRequest, Waits};
pub(crate) use leases::{Leases, Withdrawn};
pub(crate) use preview::{Attempts, Preview};
pub(crate) use releases::{RETRY_AFTER, Releases, Trigger};
pub(crate) use sites::Sites;

use std::cell::RefCell;
use std::net::SocketAddr;
use std::sync::Arc;

use cannery_archive::Extent;
use cannery_site::{
    Answer, Conditions, Method, PLAIN_HTTP, Reason, Request, Scratch, Single, Site, Target, Values,
    https_redirect,
};
use cannery_transport::Version;
use cannery_wire::{
    ArchiveRef, Multiplexed, Output, Refusal, RequestHead, RequestLine, Response, ServerFields,
};

use crate::admission::Admission;
use crate::config::{self, Config};
use crate::error::StartError;
use crate::notice::Notice;
use crate::observe::{Handled, LoggedRequest, LoggedResponse, Observer, RefusedRequest, Status};
use crate::pages::admin::Admin;
use crate::pages::{BuiltinPages, Challenges, Page, is_document};
use crate::trusted_hosts::TrustedHosts;
use crate::verification::{Budget, Verification};
use dummy::Dummy;
use exchange::Exchange;
use sites::{Selection, Unavailable};

/// Where responses come from.
#[derive(Debug)]
pub(crate) enum Content {
    Sites(Sites),
    /// Pages of the admin server.
    Admin(Admin),
    /// The same response for every request.
    Dummy(Dummy),
}

/// The sites' content at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AtPath {
    /// A page, file or redirect.
    Page,
    /// Nothing.
    Nothing,
    /// The site can't be asked, or it refuses the path or the client.
    Unknown,
}

/// A request, and the properties of its connection that the response depends on.
pub(crate) struct IncomingRequest<'p, E> {
    pub(crate) exchange: E,
    pub(crate) peer: &'p Option<SocketAddr>,
    /// `None` if the connection does not use TLS.
    pub(crate) tls: Option<Version>,
    /// The `https` port that the request should be redirected to, if redirects are configured.
    pub(crate) https_port: Option<u16>,
    pub(crate) fields: &'p ServerFields,
}

/// Resources of the content that only the housekeeping thread needs.
#[derive(Debug)]
pub(crate) struct Resources {
    pub(crate) archives: Vec<ArchiveResources>,
    pub(crate) leases: Leases,
}

/// Resources of an archive.
#[derive(Debug, Default)]
pub(crate) struct ArchiveResources {
    /// Other releases in the same directory.
    pub(crate) releases: Option<Releases>,
    pub(crate) verification: Verification,
}

thread_local! {
    /// For looks at what a site has at a path. The worker's own buffers may be in use.
    static PATH_SCRATCH: RefCell<Scratch> = RefCell::default();
}

impl Content {
    /// Opens the configured content. Also returns its resources for the housekeeping thread.
    pub(crate) fn open(
        config: &Config,
        challenges: Option<Challenges>,
    ) -> Result<(Content, Resources), StartError> {
        let mut leases = Leases::new();
        match &config.content {
            config::Content::Archives { archives, loading, .. } => {
                let mut entries = Vec::new();
                let mut resources = Vec::new();
                let mut budget = Budget::default();
                for named in archives {
                    let policy = named.releases().and(config.release_trust.clone());
                    let mut admission = policy.map(Admission::new);
                    let opened = open::open_at_startup(
                        named,
                        config,
                        *loading,
                        &mut budget,
                        admission.as_mut(),
                        &mut leases,
                    )?;
                    if opened.is_unguarded {
                        let path = named.path();
                        let notice = if named.is_opened_by_path() {
                            Notice::Unguarded { path: path.to_owned() }
                        } else {
                            open::opened_unguarded(path, named.host.as_ref())
                        };
                        (config.on_notice.0)(&notice);
                    }

                    let site = opened.site;
                    let mut releases = named.releases().cloned().map(|directory| {
                        Releases::new(directory, config.virtual_hosts).with_loading(*loading).with(admission)
                    });
                    if let Some(releases) = &mut releases {
                        let mut notices = Vec::new();
                        releases.scan(site.archive(), Trigger::Startup, &mut leases, &mut notices);
                        for notice in &notices {
                            (config.on_notice.0)(notice);
                        }
                    }

                    let earlier = releases.as_ref().map_or_else(Vec::new, Releases::sites);
                    entries.push(Entry {
                        host: named.host.clone(),
                        site,
                        earlier,
                        preview: None,
                        is_withdrawn: false,
                    });
                    resources.push(ArchiveResources { releases, verification: opened.verification });
                }

                let special = config.special_pages.clone().map(Arc::new);
                let live = config.live_folder.clone();
                let builtin_pages = BuiltinPages {
                    special,
                    live,
                    challenges: challenges.map(Arc::new),
                    thumbprint: config.acme_thumbprint.clone(),
                    certificate_health: Arc::default(),
                };
                let trusted = config.trusted_hosts.as_deref().map(TrustedHosts::new);
                Ok((
                    Content::Sites(Sites::new(entries, builtin_pages).trusting(trusted)),
                    Resources { archives: resources, leases },
                ))
            }
            config::Content::Dummy { body, delay } => {
                let resources = Resources { archives: Vec::new(), leases };
                Ok((Content::Dummy(Dummy::new(body, *delay)), resources))
            }
        }
    }

    /// Returns the status at startup, for operators.
    pub(crate) fn status(&self, config: &Config) -> Status {
        match (self, &config.content) {
            (Content::Sites(sites), config::Content::Archives { archives, .. }) => {
                let facts = sites.entries().iter().map(|entry| entry.site.archive().facts());
                Status::new(archives.iter().zip(facts), sites.certificate_health())
            }
            _ => Status::new(std::iter::empty(), Arc::default()),
        }
    }

    /// Responds to a request.
    #[inline]
    pub(crate) fn answer<'a>(
        &'a self,
        mut incoming: IncomingRequest<'_, impl Exchange<'a>>,
        scratch: &'a mut Scratch,
        output: &mut Output,
        observer: &mut Observer,
    ) {
        let peer = incoming.peer;
        let tls = incoming.tls;
        let fields = incoming.fields;
        let exchange = &mut incoming.exchange;
        let head = exchange.head();
        let length_before = observer.records_requests().then(|| output.length());

        let response = match self {
            Content::Sites(sites) => {
                let is_recorded = length_before.is_some();
                let recorded = answer_from_sites(sites, &mut incoming, scratch, output, is_recorded);
                let Some(response) = recorded else { return };
                response
            }
            Content::Admin(admin) => {
                exchange.respond_with_page(&admin.page(head), fields, output);
                return;
            }
            Content::Dummy(dummy) => {
                dummy.wait();
                exchange.respond_with_dummy(dummy, fields, output);
                let is_head = head.request.method == Method::Head;
                let content_bytes = if is_head { 0 } else { dummy.body.len() as u64 };
                LoggedResponse::Own { status: 200, content_bytes }
            }
        };

        if let Some(before) = length_before {
            let bytes = output.length() - before;
            observer.request_answered(&LoggedRequest {
                peer: *peer,
                tls,
                head,
                response: &response,
                bytes,
                handled: Handled::default(),
            });
        }
    }

    /// Finds out what the sites have at exactly the path of a request, whatever its method. Pages that stand in for any path are nothing
    /// here, whether they are fallback pages or those of rules such as `/* /index.html 200`.
    #[cold]
    pub(crate) fn at_path(&self, request: &Request<'_>) -> AtPath {
        let Content::Sites(sites) = self else { return AtPath::Unknown };
        let mut read = Request::new(Method::Get, request.target);
        read.host = request.host;
        if sites.builtin_page(&RequestHead { request: read, ..RequestHead::EMPTY }).is_some() {
            return AtPath::Page;
        }
        match sites.of(&read) {
            Selection::Site(_, entry) => PATH_SCRATCH.with_borrow_mut(|scratch| {
                let answer = entry.site.answer(&read, scratch);
                match answer.reason {
                    Reason::Rule(_) if matches!(answer.status, 300..=399) => AtPath::Page,
                    Reason::Rule(_) | Reason::Fallback(_) | Reason::NotFound | Reason::MissingAsset
                        if entry.preview.is_none() && sites.untrusted_host(request).is_none() =>
                    {
                        AtPath::Nothing
                    }
                    Reason::Rule(_)
                    | Reason::Fallback(_)
                    | Reason::NotFound
                    | Reason::MissingAsset
                    | Reason::InvalidPath(_)
                    | Reason::Target => AtPath::Unknown,
                    _ => AtPath::Page,
                }
            }),
            Selection::Unavailable(_) | Selection::Unknown => AtPath::Unknown,
        }
    }

    /// Responds to an HTTP/2 or HTTP/3 request that is refused.
    #[cold]
    pub(crate) fn refuse<C: Multiplexed>(
        &self,
        refusal: Refusal,
        incoming: IncomingRequest<'_, OnStream<'_, '_, C>>,
        output: &mut Output,
        observer: &mut Observer,
    ) {
        let IncomingRequest { mut exchange, peer, tls, fields, .. } = incoming;
        let head = exchange.head();

        let (answer, archive) = self.refusal(refusal);
        let answer = answer.for_method(head.request.method);
        exchange.respond(&Response { answer: &answer, archive, fields }, output);

        observer.request_refused(&RefusedRequest {
            peer: *peer,
            tls,
            refusal,
            line: RequestLine::from_refused_head(head),
            head: Some(head),
            content_bytes: answer.sent_content_bytes(),
        });
    }

    /// Selects the response to bytes that were refused as a request, along with the archive that it refers
    /// to. If the default site has an error page for the status and foreign pages may read it, we use that
    /// page.
    pub(crate) fn refusal(&self, refusal: Refusal) -> (Answer<'_>, ArchiveRef<'_>) {
        // The site's error page would not be able to explain this error.
        if refusal == Refusal::PlainHttp {
            let answer =
                Answer { status: refusal.status(), ..Answer::built_in(PLAIN_HTTP, Reason::BadRequest) };
            return (answer, ArchiveRef::NONE);
        }

        let status = refusal.status();
        let default = match self {
            // The host of such a request might be unknown or unchecked, e.g. because the target is too long.
            Content::Sites(sites) if sites.trusts_all_hosts() => sites.default(),
            _ => None,
        };
        match default {
            Some((number, site)) => (site.refusal(status), archive_ref(number, site)),
            None => (Answer::built_in(status, Reason::BadRequest), ArchiveRef::NONE),
        }
    }

    /// Returns `true` if we respond to requests for this host.
    #[cold]
    pub(crate) fn answers_host(&self, request: &Request<'_>) -> bool {
        match self {
            Content::Sites(sites) => sites.untrusted_host(request).is_none(),
            Content::Admin(_) | Content::Dummy(_) => true,
        }
    }

    /// Whether archive ranges may be sent zero-copy. For this, their bytes must never change while they are in flight, even if
    /// another process writes to the file, or if the archive is replaced and dropped.
    #[inline]
    pub(crate) fn may_be_sent_zero_copy(&self, archive: u16) -> bool {
        match self {
            Content::Sites(sites) => {
                sites.get(archive).is_some_and(|site| site.archive().may_be_sent_zero_copy())
            }
            Content::Admin(_) | Content::Dummy { .. } => false,
        }
    }

    /// Returns the bytes of an archive.
    pub(crate) fn archive(&self, number: u16) -> &[u8] {
        match self {
            Content::Sites(sites) => sites.get(number).map_or(&[], |site| site.archive().bytes()),
            Content::Admin(_) | Content::Dummy(_) => &[],
        }
    }

    /// Returns the bytes of an archive range, except for the first `skip`.
    #[inline]
    pub(crate) fn range(&self, archive: u16, extent: Extent, skip: u64) -> &[u8] {
        let rest = Extent { position: extent.position + skip, length: extent.length - skip };
        match self {
            Content::Sites(sites) => {
                let bytes = sites.get(archive).and_then(|site| site.archive().body(rest).ok());
                debug_assert!(bytes.is_some(), "`site` has checked that the range lies within the archive");
                bytes.unwrap_or_default()
            }
            Content::Admin(_) | Content::Dummy(_) => &[],
        }
    }
}

/// Responds with a page of the site that the request is for, or with a built-in page if the site has none at
/// this path. Returns the response if it `is_recorded`.
#[inline]
fn answer_from_sites<'a>(
    sites: &'a Sites,
    incoming: &mut IncomingRequest<'_, impl Exchange<'a>>,
    scratch: &'a mut Scratch,
    output: &mut Output,
    is_recorded: bool,
) -> Option<LoggedResponse<'a>> {
    let IncomingRequest { exchange, https_port, fields, tls, peer, .. } = incoming;
    let is_secured = tls.is_some();
    let head = exchange.head();
    let request = &head.request;

    if let Some(host) = sites.untrusted_host(request) {
        return Some(answer_page(exchange, &untrusted_host_page(host), fields, output));
    }

    let (number, entry) = match sites.of(request) {
        Selection::Site(number, entry)
            if !entry.preview.as_ref().is_some_and(|preview| preview.has_ended(fields.seconds())) =>
        {
            (number, entry)
        }
        Selection::Unavailable(why) => {
            let page = sites.page_of_any_host(request).unwrap_or_else(|| unavailable_page(why));
            return Some(answer_page(exchange, &page, fields, output));
        }
        Selection::Site(..) | Selection::Unknown => {
            return Some(answer_unknown_host(sites, exchange, fields, output));
        }
    };

    let fields = match &entry.preview {
        None => *fields,
        Some(_) => fields.for_previews(),
    };

    if let Some(port) = *https_port
        && let Some(answer) = https_redirect(request, port, scratch)
    {
        exchange.respond(&Response { answer: &answer, archive: ArchiveRef::NONE, fields }, output);
        return Some(LoggedResponse::Site(answer));
    }

    if let Some(preview) = &entry.preview
        && let Some(page) = preview.refusal(head, is_secured, **peer, fields.seconds())
    {
        let page = sites.page_of_any_host(request).unwrap_or(page);
        return Some(answer_page(exchange, &page, fields, output));
    }

    if let Some(path) = sites.document_script() {
        let scheme = if is_secured { "https" } else { "http" };
        let script = document::Script { path, host: request.host, scheme };
        let source = (number, entry);
        return Some(answer_with_script(sites, source, &script, exchange, fields, scratch, output));
    }

    let mut source = (number, entry.site.as_ref());
    let answer = find_answer(sites, entry, request, scratch, &mut source);
    if let Some(page) = page_instead(sites, &answer, head) {
        return Some(answer_page(exchange, &page, fields, output));
    }
    let archive = archive_ref(source.0, source.1);
    exchange.respond(&Response { answer: &answer, archive, fields }, output);
    // Answers are large, so we only copy those that are counted or logged.
    if is_recorded { Some(LoggedResponse::Site(answer)) } else { None }
}

/// Responds to a request for a host that has no site.
#[cold]
fn answer_unknown_host<'a>(
    sites: &'a Sites,
    exchange: &mut impl Exchange<'a>,
    fields: &ServerFields,
    output: &mut Output,
) -> LoggedResponse<'a> {
    let request = &exchange.head().request;
    if let Some(page) = sites.page_of_any_host(request) {
        return answer_page(exchange, &page, fields, output);
    }
    let answer = if sites.is_empty() {
        Answer::built_in(404, Reason::NotFound)
    } else {
        // See RFC 9110 §15.5.20.
        let host = Target::parse(request.target).and_then(|target| target.host(request.host));
        Answer::built_in(421, Reason::Host).with_subject(host.unwrap_or_default())
    };
    let answer = answer.for_method(request.method);
    exchange.respond(&Response { answer: &answer, archive: ArchiveRef::NONE, fields }, output);
    LoggedResponse::Site(answer)
}

/// Responds to a request for a site whose documents get a script, as `cannery serve` does.
#[cold]
fn answer_with_script<'a>(
    sites: &'a Sites,
    (number, entry): (u16, &'a Entry),
    script: &document::Script<'_>,
    exchange: &mut impl Exchange<'a>,
    fields: &ServerFields,
    scratch: &'a mut Scratch,
    output: &mut Output,
) -> LoggedResponse<'a> {
    let head = exchange.head();
    let is_read = matches!(head.request.method, Method::Get | Method::Head);
    let is_document = is_read && is_document(head);

    let mut request = head.request;
    if is_document {
        // A document with a script is neither compressed nor revalidated.
        request.method = Method::Get;
        request.accept_encoding = Values::NONE;
        request.conditions = Conditions::NONE;
    } else if request.method == Method::Head {
        // The head of a document can only be composed with its content. `Range` means nothing to HEAD (RFC 9110 §14.2).
        request.method = Method::Get;
        (request.conditions.range, request.conditions.if_range) = (Single::Absent, Single::Absent);
    }
    let mut source = (number, entry.site.as_ref());
    let answer = find_answer(sites, entry, &request, scratch, &mut source);
    if let Some(page) = page_instead(sites, &answer, head) {
        return answer_page(exchange, &page, fields, output);
    }

    let (number, site) = source;
    let archive = archive_ref(number, site);
    let response = Response { answer: &answer, archive, fields };
    if let Some(generated) = document::compose(&response, site, is_document.then_some(script)) {
        exchange.respond_with_generated(&generated, output);
        let content_bytes = if head.request.method == Method::Head { 0 } else { generated.body.len() as u64 };
        return LoggedResponse::Own { status: generated.status, content_bytes };
    }
    // The script may have asked for the content that `HEAD` does not get.
    let answer = answer.for_method(head.request.method);
    exchange.respond(&Response { answer: &answer, archive, fields }, output);
    LoggedResponse::Site(answer)
}

/// Returns the answer to a request. `source` has the current archive, and may be set to an earlier one that the answer refers to.
// Answers are large: returned along with the archive, they would be copied once more.
#[inline(always)]
fn find_answer<'a>(
    sites: &'a Sites,
    entry: &'a Entry,
    request: &Request<'a>,
    scratch: &'a mut Scratch,
    source: &mut (u16, &'a Site),
) -> Answer<'a> {
    let (number, site) = *source;
    if entry.earlier.is_empty() {
        return site.answer(request, scratch);
    }

    let (answer, release) = site.answer_with_earlier(&entry.earlier, request, scratch);
    if let Some(earlier) = release.and_then(|index| sites.earlier(number, index)) {
        *source = earlier;
    }
    answer
}

/// Returns the built-in page to send instead of an answer. Paths of the site take precedence over built-in pages.
#[inline]
fn page_instead<'a>(sites: &'a Sites, answer: &Answer<'_>, head: &RequestHead<'_>) -> Option<Page<'a>> {
    if matches!(answer.reason, Reason::Path(_) | Reason::Method | Reason::Options) {
        return None;
    }
    sites.builtin_page(head)
}

/// Returns the page for a host whose site can't be served.
#[cold]
fn unavailable_page(why: Unavailable) -> Page<'static> {
    let (text, fields): (_, &[_]) = match why {
        Unavailable::Refused => ("The site of this host can't be served at the moment.\n", &[]),
        Unavailable::Busy => {
            ("The site of this host is still being opened: try again.\n", &[("Retry-After", "1")])
        }
    };
    Page { status: 503, media_type: "text/plain; charset=utf-8", body: text.as_bytes().into(), fields }
}

/// Returns the explanation for a host that is not trusted.
#[cold]
fn untrusted_host_page(host: &[u8]) -> Page<'static> {
    let host = String::from_utf8_lossy(host);
    let message = format!(
        "This server doesn't answer for the host `{host}`, because a page of a stranger could use that name to read the site.\n\
         It answers for IP addresses, for localhost and names below it, and for the hosts that the site names in `_hosts/`.\n\
         If the name is yours, start the server with `--allow-host {host}`.\n"
    );
    // See RFC 9110 §15.5.20.
    Page {
        status: 421,
        media_type: "text/plain; charset=utf-8",
        body: message.into_bytes().into(),
        fields: &[],
    }
}

/// Responds with a built-in page.
#[cold]
fn answer_page<'a>(
    exchange: &mut impl Exchange<'a>,
    page: &Page<'_>,
    fields: &ServerFields,
    output: &mut Output,
) -> LoggedResponse<'a> {
    exchange.respond_with_page(page, fields, output);
    let is_head = exchange.head().request.method == Method::Head;
    LoggedResponse::Own {
        status: page.status,
        content_bytes: if is_head { 0 } else { page.body.len() as u64 },
    }
}

/// Returns a reference to a site's archive, for its responses.
#[inline]
fn archive_ref(number: u16, site: &Site) -> ArchiveRef<'_> {
    let archive = site.archive();
    let identity = archive.facts().digest.0.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    ArchiveRef { number, bytes: archive.bytes(), identity }
}
