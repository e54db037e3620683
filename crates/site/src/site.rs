//! Answers requests from an open archive.

use std::sync::Arc;

use cannery_archive::{Archive, Key, KeyBuffer, Record};

use crate::answer::site_fields::SiteFields;
use crate::answer::{Answer, Reason};
use crate::lookup::{Buffers, ContentRules, HeaderRuleSearch, Lookup};
use crate::request::target::{self, Target};
use crate::request::{Method, Request, Values};
use crate::sites::Place;
use crate::steps::deliver::{self, Delivery, HeadKind};
use crate::steps::failure::Failure;
use crate::steps::resolve::{self, Found};

/// An open archive, ready to answer requests.
#[derive(Debug)]
pub struct Site {
    pub(crate) archive: Archive,
    /// Whether the host matters. If so, it selects one of the sites.
    pub(crate) has_hosts: bool,
    /// Header rules for all paths, which also apply to malformed requests.
    universal_fields: Box<SiteFields>,
}

/// Whether the request's host selects a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum VirtualHosts {
    /// If the archive has a site for the host, use it.
    Enabled,
    /// Always use the default site.
    Ignored,
}

/// The current time, plus buffers that answers borrow from. You should reuse it for many requests.
#[derive(Default)]
pub struct Scratch {
    pub(crate) current: RequestBuffers,
    /// For earlier releases: while we look there, the current release's answer is still borrowed.
    pub(crate) earlier: RequestBuffers,
    pub(crate) now: u64,
}

/// Buffers for one answer.
#[derive(Default)]
pub(crate) struct RequestBuffers {
    pub(crate) key: KeyBuffer,
    pub(crate) buffers: Buffers,
    pub(crate) header_rules: HeaderRuleSearch,
}

/// A `GET` or `HEAD` request with its path and query.
#[derive(Clone, Copy)]
struct PathRequest<'a, 'r> {
    place: Place<'a>,
    query: Option<&'a [u8]>,
    request: &'r Request<'a>,
}

impl Scratch {
    /// Sets the current time in seconds since 1970, needed for conditions with dates.
    pub fn set_now(&mut self, seconds: u64) {
        self.now = seconds;
    }
}

impl AsRef<Archive> for Site {
    fn as_ref(&self) -> &Archive {
        &self.archive
    }
}

impl Site {
    /// Returns the site in `archive`.
    #[must_use]
    pub fn new(archive: Archive, virtual_hosts: VirtualHosts) -> Site {
        let has_hosts = virtual_hosts == VirtualHosts::Enabled && archive.facts().hosts;
        let mut header_rules = HeaderRuleSearch::default();

        if header_rules.find(&archive, Place::UNKNOWN, ContentRules::NONE).is_err() {
            // The archive is corrupt. We will say so for each request that needs the rules.
            header_rules.fields.clear();
        }

        Site { archive, has_hosts, universal_fields: header_rules.fields }
    }

    /// Returns this site if that treats hosts in the given way, or else one with the same archive that does.
    #[must_use]
    pub fn with_virtual_hosts(self: Arc<Site>, virtual_hosts: VirtualHosts) -> Arc<Site> {
        let has_hosts = virtual_hosts == VirtualHosts::Enabled && self.archive.facts().hosts;
        if has_hosts == self.has_hosts {
            return self;
        }
        Arc::new(Site::new(Archive::sharing(self), virtual_hosts))
    }

    /// Returns the archive. Answers refer to it.
    #[must_use]
    #[inline]
    pub fn archive(&self) -> &Archive {
        &self.archive
    }

    /// Returns the answer to a request.
    pub fn answer<'a>(&'a self, request: &Request<'a>, scratch: &'a mut Scratch) -> Answer<'a> {
        self.answer_in(request, &mut scratch.current, scratch.now)
    }

    #[inline]
    pub(crate) fn answer_in<'a>(
        &'a self,
        request: &Request<'a>,
        buffers: &'a mut RequestBuffers,
        now: u64,
    ) -> Answer<'a> {
        match Key::from_plain_target(request.target) {
            Some(key) if matches!(request.method, Method::Get | Method::Head) => {
                let host = if self.has_hosts { request.host.and_then(target::host_name) } else { None };
                let place = Place { host, key, is_path: true };
                let path = PathRequest { place, query: None, request };
                self.answer_path(path, &mut buffers.buffers, &mut buffers.header_rules, now)
            }
            _ => self.answer_unusual(request, buffers, now),
        }
    }

    /// Answers a request with a method other than `GET` or `HEAD`, or with a target that needs to be parsed.
    #[inline(never)]
    fn answer_unusual<'a>(
        &'a self,
        request: &Request<'a>,
        buffers: &'a mut RequestBuffers,
        now: u64,
    ) -> Answer<'a> {
        let RequestBuffers { key, buffers, header_rules } = buffers;
        let target = Target::parse(request.target);
        let host = if self.has_hosts { target.and_then(|target| target.host(request.host)) } else { None };

        // If the path is invalid, use the error pages of the root.
        let (key, path) = match target {
            Some(target) => match target.key(key) {
                Ok(key) => (key, Ok(target.query)),
                Err(error) => (Key::ROOT, Err(Failure::invalid_path(error))),
            },
            None => (Key::ROOT, Err(Failure::new(400, Reason::Target))),
        };
        let place = Place { host, key, is_path: path.is_ok() };

        let answer = match (request.method, path) {
            (Method::Get | Method::Head, Ok(query)) => {
                let path = PathRequest { place, query, request };
                return self.answer_path(path, buffers, header_rules, now);
            }
            (Method::Get | Method::Head, Err(failure)) => Err(failure),
            (method, _) => answer_other_method(method, target, request.target),
        };

        let lookup = Lookup { archive: &self.archive, place, query: None, request, now };
        lookup.finish(answer, header_rules, HeadKind::Plain)
    }

    /// Answers a `GET` or `HEAD` request for a path.
    // Nearly all requests come through here and find a file. We inline all steps for this case to keep their results in registers.
    // Less common cases are separate functions.
    #[inline(always)]
    fn answer_path<'a>(
        &'a self,
        path: PathRequest<'a, '_>,
        buffers: &'a mut Buffers,
        header_rules: &'a mut HeaderRuleSearch,
        now: u64,
    ) -> Answer<'a> {
        let PathRequest { place, query, request } = path;
        let archive = &self.archive;

        let found = if place.host.is_some() || archive.facts().forced_rules {
            resolve::resolve(archive, place, request.intent, &mut buffers.search)
        } else {
            match archive.path(None, place.key) {
                Ok(Some(Record::Resource(resource))) => {
                    let delivery = Delivery::new(Reason::Path(resource.origin));
                    let failure = match deliver::choose(archive, resource, delivery, request) {
                        Ok(whole) if whole.is_unconditional(request) => return whole.answer(request.method),
                        Ok(whole) => match whole.answer_with_conditions(request, &mut buffers.parts, now) {
                            Ok(answer) => return answer,
                            Err(failure) => failure,
                        },
                        Err(failure) => failure,
                    };
                    let lookup = Lookup { archive, place, query, request, now };
                    return lookup.finish(Err(failure), header_rules, HeadKind::Complete);
                }
                Ok(Some(record)) => Ok(Found::path(record)),
                Ok(None) => {
                    resolve::find_fallback(archive, None, place.key, request.intent, &mut buffers.search)
                }
                Err(corrupt) => Err(corrupt),
            }
        };

        let lookup = Lookup { archive, place, query, request, now };
        lookup.answer(found, buffers, header_rules)
    }

    /// Returns the answer to a malformed request: an error with this status.
    #[must_use]
    pub fn refusal(&self, status: u16) -> Answer<'_> {
        // We do not know which codings the client accepts, but identity is always fine.
        let accept_encoding = Values::one(b"identity, *;q=0");
        let failure = Failure::new(status, Reason::BadRequest);
        let mut answer = failure.answer_at(&self.archive, Place::UNKNOWN, &accept_encoding);

        if !self.universal_fields.is_empty() {
            answer.site_fields = Some(&self.universal_fields);
        }
        answer
    }
}

/// Answers if the method is not `GET` or `HEAD`.
#[cold]
fn answer_other_method<'a>(
    method: Method,
    parsed: Option<Target<'_>>,
    target: &[u8],
) -> Result<Answer<'a>, Failure> {
    match method {
        // Asterisk form is only allowed for OPTIONS. There are other forms too, but not for methods that we support (RFC 9110
        // §7.1).
        Method::Options if parsed.is_none() && target != b"*" => Err(Failure::new(400, Reason::Target)),
        Method::Options => Ok(Answer::built_in(204, Reason::Options)),
        Method::Unknown => Err(Failure::new(501, Reason::Method)),
        Method::Get | Method::Head | Method::Other => Err(Failure::new(405, Reason::Method)),
    }
}
