//! The one lookup: a request in, an answer out, for every protocol alike and for `explain`.
//!
//! [`Site::answer`] is pure and total: same archive, same request, same answer. It does no I/O, allocates
//! nothing, never fails, and does not know which protocol asked.

#![forbid(unsafe_code)]

mod answer;
mod asset;
mod captures;
mod conditional;
mod custom_page;
mod earlier;
mod error_page;
mod failure;
mod https;
mod location;
mod multipart;
mod negotiate;
mod range;
mod request;
mod resolve;
mod site_fields;
mod sites;
mod target;

pub use answer::{Answer, Body, ContentRange, Fields, Page, Reason};
pub use asset::{is_asset, suffix};
pub use captures::CAPTURES_MAX;
pub use conditional::Validators;
pub use earlier::is_immutable;
pub use error_page::{ErrorPage, PLAIN_HTTP};
pub use https::https_redirect;
pub use location::{LOCATION_BYTES_MAX, Location};
pub use multipart::{Multipart, MultipartPiece};
pub use negotiate::Weights;
pub use range::RANGES_MAX;
pub use request::{Conditions, Method, Request, Single, Values};
pub use site_fields::{SITE_FIELDS_MAX, SiteFields, SiteLine};
pub use sites::Sites;
pub use target::Target;

use cannery_archive::{
    Archive, Candidates, Corrupt, Head, Key, KeyBuffer, Piece, Record, Representation, Resource,
};

use crate::captures::{Captures, Runs};
use crate::conditional::Verdict;
use crate::failure::Failure;
use crate::range::{Parts, Ranges};
use crate::resolve::{Found, Search};
use crate::site_fields::is_for_host;
use crate::sites::Place;

/// A site: an open archive and how requests choose within it.
#[derive(Debug)]
pub struct Site {
    archive: Archive,
    hosts: bool,
    /// What rules of `_headers` say of every path, for what is no request.
    for_all: Box<SiteFields>,
}

/// Room for what an answer only refers to, made once and used again for each request, and the time.
#[derive(Default)]
pub struct Scratch {
    current: Buffers,
    /// For the answer of an earlier release, which is looked for while that of the current one is at hand.
    earlier: Buffers,
    now: u64,
}

/// Room for one answer.
#[derive(Default)]
struct Buffers {
    key: KeyBuffer,
    room: Room,
    ruling: Ruling,
}

/// Room for what the rules of `_headers` say of a request.
#[derive(Default)]
struct Ruling {
    fields: Box<SiteFields>,
    candidates: Candidates,
}

/// Room for what few answers need.
#[derive(Default)]
struct Room {
    rewritten: KeyBuffer,
    search: Search,
    parts: Parts,
}

impl Scratch {
    /// Sets the time that conditions on dates are held against, in seconds since 1970.
    pub fn set_now(&mut self, seconds: u64) {
        self.now = seconds;
    }
}

impl Site {
    /// The site in `archive`. Without `hosts` the `Host` of a request chooses nothing.
    #[must_use]
    pub fn new(archive: Archive, hosts: bool) -> Site {
        let hosts = hosts && archive.facts().hosts;
        let mut ruling = Ruling::default();
        let place = Place { host: None, key: Key::ROOT, is_path: false };
        if find_site_fields(&archive, place, &mut ruling).is_err() {
            // Of a damaged archive: each answer that needs the rules says so.
            ruling.fields.clear();
        }
        Site { archive, hosts, for_all: ruling.fields }
    }

    /// The archive that the answers point into.
    #[must_use]
    #[inline]
    pub fn archive(&self) -> &Archive {
        &self.archive
    }

    /// The answer to a request.
    pub fn answer<'a>(&'a self, request: &Request<'a>, scratch: &'a mut Scratch) -> Answer<'a> {
        self.answer_in(request, &mut scratch.current, scratch.now)
    }

    #[inline]
    fn answer_in<'a>(&'a self, request: &Request<'a>, buffers: &'a mut Buffers, now: u64) -> Answer<'a> {
        match Key::from_plain_target(request.target) {
            Some(key) if matches!(request.method, Method::Get | Method::Head) => {
                let host = if self.hosts { request.host.and_then(target::host_name) } else { None };
                let place = Place { host, key, is_path: true };
                self.answer_path(place, None, request, &mut buffers.room, &mut buffers.ruling, now)
            }
            _ => self.answer_any(request, buffers, now),
        }
    }

    /// The answer to a request whose target has to be taken apart, or that asks for something else than a resource.
    #[inline(never)]
    fn answer_any<'a>(&'a self, request: &Request<'a>, buffers: &'a mut Buffers, now: u64) -> Answer<'a> {
        let Buffers { key, room, ruling } = buffers;
        let target = Target::parse(request.target);
        let host = if self.hosts { target.and_then(|target| target.host(request.host)) } else { None };
        // What is no path stands below the root like everything else.
        let (key, path) = match target {
            Some(target) => match target.key(key) {
                Ok(key) => (key, Ok(target.query)),
                Err(bad) => (Key::ROOT, Err(Failure::invalid_path(bad))),
            },
            None => (Key::ROOT, Err(Failure::new(400, Reason::Target))),
        };
        let place = Place { host, key, is_path: path.is_ok() };
        match (request.method, path) {
            (Method::Get | Method::Head, Ok(query)) => {
                self.answer_path(place, query, request, room, ruling, now)
            }
            (Method::Get | Method::Head, Err(failure)) => {
                self.finish(Err(failure), place, request, ruling, true)
            }
            (method, _) => {
                let answer = answer_other(method, target, request.target);
                self.finish(answer, place, request, ruling, true)
            }
        }
    }

    /// The answer to who asks for a resource by its path.
    // Nearly every request goes this way and meets a file. Each of its steps stands within it, and what is not usual in a
    // function of its own: parts that are handed on in registers need not be written to memory, nor copied there.
    #[inline(always)]
    fn answer_path<'a>(
        &'a self,
        place: Place<'a>,
        query: Option<&'a [u8]>,
        request: &Request<'a>,
        room: &'a mut Room,
        ruling: &'a mut Ruling,
        now: u64,
    ) -> Answer<'a> {
        let found = if place.host.is_some() || self.archive.facts().forced_rules {
            resolve::resolve(&self.archive, place, &mut room.search)
        } else {
            match self.archive.path(None, place.key) {
                Ok(Some(Record::Resource(resource))) => {
                    let reason = Reason::Path(resource.origin);
                    return match self.choose(resource, None, request, reason, false) {
                        Ok(whole) if whole.is_unconditional(request) => whole.answer(request.method),
                        Ok(whole) => {
                            let answer = deliver_on_conditions(&whole, request, &mut room.parts, now);
                            self.finish(answer, place, request, ruling, false)
                        }
                        Err(failure) => self.finish(Err(failure), place, request, ruling, false),
                    };
                }
                Ok(Some(record)) => Ok(Found::of_path(record)),
                Ok(None) => resolve::look_further(&self.archive, None, place.key, &mut room.search),
                Err(corrupt) => Err(corrupt),
            }
        };
        self.answer_found(found, place, query, request, room, ruling, now)
    }

    /// The answer of what was found, unless it was a file under just this path.
    #[inline(never)]
    #[expect(clippy::too_many_arguments, reason = "the rooms are borrowed apart from each other")]
    fn answer_found<'a>(
        &'a self,
        found: Result<Found<'a>, Corrupt>,
        place: Place<'a>,
        query: Option<&'a [u8]>,
        request: &Request<'a>,
        room: &'a mut Room,
        ruling: &'a mut Ruling,
        now: u64,
    ) -> Answer<'a> {
        let facts = self.archive.facts();
        let mut is_ruled = facts.header_rules;
        // The head of a file holds what the rules say of its path, but for those for one host.
        if let Ok(Found::Record { record: Record::Resource(_), reason: Reason::Path(_), .. }) = found {
            is_ruled = facts.host_header_rules
                && place.host.is_some()
                && find_site_fields(&self.archive, place, ruling).unwrap_or(false);
        }
        let answer = match found {
            Ok(found) => self.follow(&found, place, query, request, room, now, is_ruled),
            Err(corrupt) => Err(corrupt.into()),
        };
        self.finish(answer, place, request, ruling, is_ruled)
    }

    /// The answer as its method has it, or the error that stands in its place. `is_ruled` says that the answer's head does not
    /// hold what the rules of `_headers` say of the path; that of an error never does.
    #[inline(never)]
    fn finish<'a>(
        &'a self,
        answer: Result<Answer<'a>, Failure>,
        place: Place<'a>,
        request: &Request<'a>,
        ruling: &'a mut Ruling,
        is_ruled: bool,
    ) -> Answer<'a> {
        let (mut answer, is_ruled) = match answer {
            Ok(answer) => (answer, is_ruled),
            Err(failure) => {
                let answer = self.fail(failure, place, &request.accept_encoding);
                (answer.with_path(request.target), true)
            }
        };
        if is_ruled
            && self.archive.facts().header_rules
            && find_site_fields(&self.archive, place, ruling).is_ok()
            && !ruling.fields.is_empty()
        {
            answer.site_fields = Some(&ruling.fields);
        }
        if request.method == Method::Head { answer.without_body() } else { answer }
    }

    /// The answer to what is no request: an error of this status.
    #[must_use]
    pub fn refusal(&self, status: u16) -> Answer<'_> {
        let place = Place { host: None, key: Key::ROOT, is_path: false };
        // Nothing is known of the client, not even what it can decode.
        let accept_encoding = Values::one(b"identity, *;q=0");
        let mut answer = self.fail(Failure::new(status, Reason::BadRequest), place, &accept_encoding);
        if !self.for_all.is_empty() {
            answer.site_fields = Some(&self.for_all);
        }
        answer
    }

    /// The error that a request ends in, with the page that the site has for it nearest to the place, else
    /// with the one that is built in.
    #[cold]
    fn fail<'a>(&'a self, failure: Failure, place: Place<'a>, accept_encoding: &Values<'_>) -> Answer<'a> {
        let page = custom_page::find(&self.archive, place, failure.status, accept_encoding);
        // A page that cannot be read does not make it another error.
        failure.answer(page.ok().flatten())
    }

    #[inline]
    #[expect(clippy::too_many_arguments, reason = "the rooms are borrowed apart from each other")]
    fn follow<'a>(
        &'a self,
        found: &Found<'a>,
        place: Place<'a>,
        query: Option<&'a [u8]>,
        request: &Request<'a>,
        room: &'a mut Room,
        now: u64,
        is_ruled: bool,
    ) -> Result<Answer<'a>, Failure> {
        let Room { rewritten, search, parts } = room;
        let runs = &search.runs;
        match *found {
            Found::Record { record, matched, reason } => match record {
                Record::Resource(resource) => {
                    self.deliver(resource, None, request, parts, now, reason, is_ruled)
                }
                Record::Redirect(redirect) => {
                    let captures = matched.map_or(Captures::NONE, |path| Captures::new(path, runs));
                    redirect_to(redirect.status, Location::of_rule(redirect, captures, query), reason)
                }
                Record::Rewrite(rewrite) => {
                    let captures = matched.map_or(Captures::NONE, |path| Captures::new(path, runs));
                    let Ok(key) = captures.expand(rewrite.path, rewritten)? else {
                        return Err(Failure::new(404, Reason::NotFound));
                    };
                    let place = Place { key, ..place };
                    self.deliver_rewritten(place, rewrite.status, request, parts, now, reason, is_ruled)
                }
            },
            Found::Slash { key, add } => {
                let location = Location::of_slash(key, add, query);
                redirect_to(308, location, Reason::Slash)
            }
            Found::MissingAsset => Err(Failure::new(404, Reason::MissingAsset)),
            Found::Nothing => Err(Failure::new(404, Reason::NotFound)),
        }
    }

    /// Answers from the path that a rule made. Only files are looked for: rules are applied once.
    #[inline(never)]
    #[expect(clippy::too_many_arguments, reason = "the rooms are borrowed apart from each other")]
    fn deliver_rewritten<'a>(
        &'a self,
        place: Place<'a>,
        status: u16,
        request: &Request<'a>,
        parts: &'a mut Parts,
        now: u64,
        reason: Reason,
        is_ruled: bool,
    ) -> Result<Answer<'a>, Failure> {
        for site in Sites::of(&self.archive, place.host) {
            match self.archive.path(site?, place.key)? {
                Some(Record::Resource(resource)) => {
                    return self.deliver(resource, Some(status), request, parts, now, reason, is_ruled);
                }
                Some(Record::Redirect(redirect)) => {
                    let location = Location::of_rule(redirect, Captures::NONE, None);
                    return redirect_to(redirect.status, location, reason);
                }
                Some(Record::Rewrite(_)) => break,
                None => {}
            }
        }
        Err(Failure::new(404, Reason::NotFound))
    }

    /// Sends a resource as it is asked for.
    #[expect(clippy::too_many_arguments, reason = "the rooms are borrowed apart from each other")]
    fn deliver<'a>(
        &'a self,
        resource: Resource<'a>,
        status: Option<u16>,
        request: &Request<'a>,
        room: &'a mut Parts,
        now: u64,
        reason: Reason,
        is_ruled: bool,
    ) -> Result<Answer<'a>, Failure> {
        let whole = self.choose(resource, status, request, reason, is_ruled)?;
        if whole.is_unconditional(request) {
            return Ok(whole.answer(Method::Get));
        }
        deliver_on_conditions(&whole, request, room, now)
    }

    /// Chooses the representation of a resource.
    // A step of every request: see `answer_path`.
    #[inline(always)]
    fn choose<'a>(
        &'a self,
        resource: Resource<'a>,
        status: Option<u16>,
        request: &Request<'a>,
        reason: Reason,
        is_ruled: bool,
    ) -> Result<Whole<'a>, Failure> {
        let Some(chosen) = negotiate::choose(resource.representations(), &request.accept_encoding)? else {
            return Err(Failure::new(406, Reason::NotAcceptable));
        };
        let status = status.filter(|status| *status != 200).unwrap_or(resource.status);
        // What the rules add to an answer is added to a head without rules.
        let head =
            if is_ruled { self.archive.plain_head(chosen.head)? } else { self.archive.head(chosen.head)? };
        let validators = match status {
            200 => Validators { etag: head.sends_etag.then_some(chosen.etag), modified: resource.modified },
            // RFC 9110 §13.2.1: no condition counts here, so none is offered.
            _ => Validators::NONE,
        };
        // Checked here, so that whoever sends it need not think of a range outside the file.
        self.archive.body(chosen.body)?;
        Ok(Whole { status, head, validators, chosen, reason })
    }
}

/// Finds what the rules of `_headers` say of a place: those of the last site that its host's requests are looked for in. Without a
/// path, the rules for all paths. Returns whether a rule for certain hosts is among them.
fn find_site_fields(archive: &Archive, place: Place<'_>, ruling: &mut Ruling) -> Result<bool, Corrupt> {
    let Ruling { fields, candidates } = ruling;
    fields.clear();
    let mut site = None;
    for next in Sites::of(archive, place.host) {
        site = next?;
    }
    let Some(root) = archive.root(site)? else { return Ok(false) };
    let path = place.is_path.then(|| &place.key.bytes()[1..]);
    let mut is_of_host = false;
    root.header_rules(path, candidates, |rule| {
        let is_match = match path {
            Some(path) => Runs::of_exactly(rule.pattern, path)?.is_some(),
            None => {
                let mut pieces = rule.pattern;
                matches!((pieces.next(), pieces.next()), (Some(Ok(Piece::Splat(_))), None))
            }
        };
        if is_match && is_for_host(rule.host, place.host) {
            is_of_host |= !rule.host.is_empty();
            for field in rule.fields {
                fields.add(archive.bytes(), &field?);
            }
        }
        Ok(())
    })?;
    Ok(is_of_host)
}

/// What is sent where no condition and no range stands against it.
struct Whole<'a> {
    status: u16,
    head: Head<'a>,
    validators: Validators<'a>,
    chosen: Representation<'a>,
    reason: Reason,
}

impl<'a> Whole<'a> {
    /// Whether nothing stands against it.
    #[inline(always)]
    fn is_unconditional(&self, request: &Request<'_>) -> bool {
        !request.conditions.any || self.status != 200
    }

    /// The answer that it is.
    #[inline(always)]
    fn answer(self, method: Method) -> Answer<'a> {
        let Whole { status, head, validators, chosen, reason } = self;
        let body = if method == Method::Head { Body::Empty } else { Body::Archive(chosen.body) };
        let fields = Fields::Canned { head, validators };
        Answer { status, fields, body, content_length: Some(chosen.body.length), reason, site_fields: None }
    }
}

/// The answer to a request with conditions, or for a part of the whole.
#[inline(never)]
fn deliver_on_conditions<'a>(
    whole: &Whole<'a>,
    request: &Request<'a>,
    room: &'a mut Parts,
    now: u64,
) -> Result<Answer<'a>, Failure> {
    let Whole { head, validators, chosen, reason, .. } = *whole;
    let conditions = &request.conditions;
    match conditional::evaluate(conditions, validators, now) {
        Verdict::Send => {}
        Verdict::NotModified => return Ok(Answer::not_modified(head, validators, reason)),
        Verdict::Failed => return Err(Failure::new(412, Reason::Precondition)),
    }
    // RFC 9110 §14.2: `Range` means something for GET alone.
    if let Single::Value(range) = conditions.range
        && request.method == Method::Get
        && conditional::range_counts(conditions.if_range, validators, now)
    {
        match range::parse(range, chosen.body.length) {
            Ranges::Ignored => {}
            Ranges::Unsatisfiable => return Err(Failure::unsatisfiable(chosen.body.length)),
            Ranges::Parts(parts) => {
                *room = parts;
                if let Some(answer) = partial(room, head, validators, &chosen, reason) {
                    return Ok(answer);
                }
            }
        }
    }
    Ok(Answer::resource(200, head, validators, chosen, reason))
}

/// The answer to a method that asks for no resource.
#[cold]
fn answer_other<'a>(
    method: Method,
    parsed: Option<Target<'_>>,
    target: &[u8],
) -> Result<Answer<'a>, Failure> {
    match method {
        // RFC 9110 §7.1: the other forms are not for it.
        Method::Options if parsed.is_none() && target != b"*" => Err(Failure::new(400, Reason::Target)),
        Method::Options => Ok(Answer::built_in(204, Reason::Options)),
        Method::Unknown => Err(Failure::new(501, Reason::Method)),
        Method::Get | Method::Head | Method::Other => Err(Failure::new(405, Reason::Method)),
    }
}

/// A redirect, unless the address would be too long to be one that we send.
fn redirect_to(status: u16, location: Location<'_>, reason: Reason) -> Result<Answer<'_>, Failure> {
    if location.length() > LOCATION_BYTES_MAX {
        return Err(Failure::new(414, Reason::LongLocation));
    }
    Ok(Answer::redirect(status, location, reason))
}

/// The answer that holds these parts; nothing if it would be no shorter than the whole.
fn partial<'a>(
    parts: &'a Parts,
    head: Head<'a>,
    validators: Validators<'a>,
    chosen: &Representation<'a>,
    reason: Reason,
) -> Option<Answer<'a>> {
    if let [part] = parts.as_slice() {
        return Some(Answer::partial(head, validators, chosen.body, *part, reason));
    }
    let multipart = Multipart::new(parts, head, chosen.etag, chosen.body);
    let is_shorter = multipart.length() < chosen.body.length;
    is_shorter.then(|| Answer::multipart(multipart, validators, reason))
}
