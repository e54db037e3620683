//! The one lookup: a request in, an answer out, for every protocol alike and for `explain`.
//!
//! [`Site::answer`] is pure and total: same archive, same request, same answer. It does no I/O, allocates
//! nothing, never fails, and does not know which protocol asked.

#![forbid(unsafe_code)]

mod answer;
mod asset;
mod captures;
mod conditional;
mod date;
mod error_page;
mod location;
mod multipart;
mod negotiate;
mod range;
mod request;
mod resolve;
mod target;

pub use answer::{Answer, Body, ContentRange, Fields, Reason};
pub use asset::{is_asset, suffix};
pub use captures::CAPTURES_MAX;
pub use conditional::Validators;
pub use date::{DATE_BYTES, parse_date, parse_utc, spell_date};
pub use error_page::error_page;
pub use location::{LOCATION_BYTES_MAX, Location};
pub use multipart::{Multipart, MultipartPiece};
pub use negotiate::Weights;
pub use range::RANGES_MAX;
pub use request::{Conditions, Method, Request, Single, Values};
pub use target::Target;

use cannery_archive::{Archive, Corrupt, KeyBuffer, Record, Representation, Resource};

use crate::captures::Captures;
use crate::conditional::Verdict;
use crate::range::Ranges;
use crate::resolve::Found;

/// A site: an open archive and how requests choose within it.
#[derive(Debug)]
pub struct Site {
    archive: Archive,
    hosts: bool,
}

/// Room for the paths of one request, made once and used again for each, and the time.
#[derive(Default)]
pub struct Scratch {
    key: KeyBuffer,
    rewritten: KeyBuffer,
    now: u64,
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
        Site { archive, hosts }
    }

    /// The archive that the answers point into.
    #[must_use]
    #[inline]
    pub fn archive(&self) -> &Archive {
        &self.archive
    }

    /// The answer to a request.
    pub fn answer<'a>(&'a self, request: &Request<'a>, scratch: &'a mut Scratch) -> Answer<'a> {
        match request.method {
            Method::Get | Method::Head => {}
            Method::Options if request.target == b"*" || Target::parse(request.target).is_some() => {
                return Answer::own(204, Reason::Options);
            }
            // RFC 9110 §7.1: the other forms are not for it.
            Method::Options => return Answer::own(400, Reason::Target),
            Method::Other => return Answer::own(405, Reason::Method),
            Method::Unknown => return Answer::own(501, Reason::Method),
        }
        let answer = self.find_and_deliver(request, scratch);
        let answer = answer.unwrap_or_else(|corrupt| Answer::own(500, Reason::Corrupt(corrupt)));
        if request.method == Method::Head { answer.without_body() } else { answer }
    }

    fn find_and_deliver<'a>(
        &'a self,
        request: &Request<'a>,
        scratch: &'a mut Scratch,
    ) -> Result<Answer<'a>, Corrupt> {
        let now = scratch.now;
        let Some(target) = Target::parse(request.target) else {
            return Ok(Answer::own(400, Reason::Target));
        };
        let key = match target.key(&mut scratch.key) {
            Ok(key) => key,
            Err(bad) => return Ok(Answer::bad_path(bad)),
        };
        let host = if self.hosts { target.host(request.host) } else { None };
        match resolve::resolve(&self.archive, host, key)? {
            Found::Record { record, captures, reason } => match record {
                Record::Resource(resource) => self.deliver(resource, None, request, now, reason),
                Record::Redirect(redirect) => Ok(Answer::redirect(
                    redirect.status,
                    Location::of_rule(redirect, captures, target.query),
                    reason,
                )),
                Record::Rewrite(rewrite) => {
                    let status = rewrite.status;
                    let Ok(key) = captures.expand(rewrite.path, &mut scratch.rewritten)? else {
                        return Ok(Answer::own(404, Reason::Nothing));
                    };
                    self.deliver_rewritten(host, key, status, request, now, reason)
                }
            },
            Found::Slash { key, add } => {
                let location = Location::of_slash(key, add, target.query);
                Ok(Answer::redirect(308, location, Reason::Slash))
            }
            Found::MissingAsset => Ok(Answer::own(404, Reason::MissingAsset)),
            Found::Nothing => Ok(Answer::own(404, Reason::Nothing)),
        }
    }

    /// Answers from the path that a rule made. Only files are looked for: rules are applied once.
    fn deliver_rewritten<'a>(
        &'a self,
        host: Option<&'a [u8]>,
        key: cannery_archive::Key<'a>,
        status: u16,
        request: &Request<'a>,
        now: u64,
        reason: Reason,
    ) -> Result<Answer<'a>, Corrupt> {
        let of_host = match host {
            Some(_) => self.archive.path(host, key)?,
            None => None,
        };
        let record = match of_host {
            Some(record) => Some(record),
            None => self.archive.path(None, key)?,
        };
        match record {
            Some(Record::Resource(resource)) => self.deliver(resource, Some(status), request, now, reason),
            Some(Record::Redirect(redirect)) => {
                let location = Location::of_rule(redirect, Captures::NONE, None);
                Ok(Answer::redirect(redirect.status, location, reason))
            }
            Some(Record::Rewrite(_)) | None => Ok(Answer::own(404, Reason::Nothing)),
        }
    }

    /// Chooses the representation of a resource, and whether it has to be sent.
    #[inline]
    fn deliver<'a>(
        &'a self,
        resource: Resource<'a>,
        status: Option<u16>,
        request: &Request<'a>,
        now: u64,
        reason: Reason,
    ) -> Result<Answer<'a>, Corrupt> {
        let Some(chosen) = negotiate::choose(resource.representations(), &request.accept_encoding)? else {
            return Ok(Answer::own(406, Reason::NotAcceptable));
        };
        let status = status.filter(|status| *status != 200).unwrap_or(resource.status);
        let head = self.archive.head(chosen.head)?;
        let etag = head.sends_etag.then_some(chosen.etag);
        let validators = Validators { etag, modified: resource.modified };
        // Checked here, so that whoever sends it need not think of a range outside the file.
        self.archive.body(chosen.body)?;
        let conditions = &request.conditions;
        if conditions.any && status == 200 {
            match conditional::evaluate(conditions, validators, now) {
                Verdict::Send => {}
                Verdict::NotModified => return Ok(Answer::not_modified(head, validators, reason)),
                Verdict::Failed => return Ok(Answer::own(412, Reason::Precondition)),
            }
            // RFC 9110 §14.2: `Range` means something for GET alone.
            if let Single::Value(range) = conditions.range
                && request.method == Method::Get
                && conditional::range_counts(conditions.if_range, validators, now)
            {
                match range::parse(range, chosen.body.length) {
                    Ranges::Ignored => {}
                    Ranges::Unsatisfiable => return Ok(Answer::unsatisfiable(chosen.body.length)),
                    Ranges::Parts(parts) => {
                        if let Some(answer) = partial(parts, head, validators, &chosen, reason) {
                            return Ok(answer);
                        }
                    }
                }
            }
        }
        Ok(Answer::resource(status, head, validators, chosen, reason))
    }
}

/// The answer that holds these parts; nothing if it would be no shorter than the whole.
fn partial<'a>(
    parts: range::Parts,
    head: cannery_archive::Head<'a>,
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
