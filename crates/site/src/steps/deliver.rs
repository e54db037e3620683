//! Sends a resource: chooses the representation, then checks conditions and ranges.

use cannery_archive::{Archive, Extent, Head, Representation, Resource};

use super::failure::Failure;
use super::negotiate;
use crate::answer::multipart::Multipart;
use crate::answer::{Answer, Body, Fields, Reason};
use crate::request::conditional::{self, Validators, Verdict};
use crate::request::range::{self, Parts, Ranges};
use crate::request::{Method, Request, Single};

/// How to send a resource.
#[derive(Clone, Copy)]
pub(crate) struct Delivery {
    /// The status of a rewrite. It overrides the resource's own one.
    pub(crate) status: Option<u16>,
    pub(crate) reason: Reason,
    pub(crate) head: HeadKind,
}

/// Selects the fields we take from the archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeadKind {
    /// All fields, including header rules for the path.
    Complete,
    /// Without header rules. The server adds their fields itself.
    Plain,
}

/// A representation that we will send as a whole, unless there is a condition or range.
pub(crate) struct Whole<'a> {
    status: u16,
    head: Head<'a>,
    validators: Validators<'a>,
    chosen: Representation<'a>,
    reason: Reason,
}

impl Delivery {
    /// Sends a resource with its own status and head.
    #[inline(always)]
    pub(crate) fn new(reason: Reason) -> Delivery {
        Delivery { status: None, reason, head: HeadKind::Complete }
    }
}

impl<'a> Whole<'a> {
    /// Returns `true` if we do not have to check conditions or ranges.
    #[inline(always)]
    pub(crate) fn is_unconditional(&self, request: &Request<'_>) -> bool {
        !request.conditions.any || self.status != 200
    }

    /// Returns an answer with the whole representation.
    #[inline(always)]
    pub(crate) fn answer(self, method: Method) -> Answer<'a> {
        let Whole { status, head, validators, chosen, reason } = self;
        let body = if method == Method::Head { Body::Empty } else { Body::Archive(chosen.body) };
        let fields = Fields::Canned { head, validators };
        Answer { status, fields, body, content_length: Some(chosen.body.length), reason, site_fields: None }
    }
}

/// Chooses a resource's representation.
// This is on the request path, so inline it (see `Site::answer_path`).
#[inline(always)]
pub(crate) fn choose<'a>(
    archive: &'a Archive,
    resource: Resource<'a>,
    delivery: Delivery,
    request: &Request<'a>,
) -> Result<Whole<'a>, Failure> {
    let Some(chosen) = negotiate::choose(resource.representations(), &request.accept_encoding)? else {
        return Err(Failure::new(406, Reason::NotAcceptable));
    };

    let status = delivery.status.filter(|status| *status != 200).unwrap_or(resource.status);
    let head = match delivery.head {
        HeadKind::Complete => archive.head(chosen.head)?,
        HeadKind::Plain => archive.plain_head(chosen.head)?,
    };
    let validators = match status {
        200 => Validators { etag: head.sends_etag.then_some(chosen.etag), modified: resource.modified },
        // Conditions don't apply to any other status (RFC 9110 §13.2.1), so we do not need validators either.
        _ => Validators::NONE,
    };

    // Check this early, so that we can rely on it when we send the body.
    archive.body(chosen.body)?;
    Ok(Whole { status, head, validators, chosen, reason: delivery.reason })
}

/// Outcome of conditions and range.
enum Outcome {
    Whole,
    NotModified,
    /// One part of the representation.
    Part(Extent),
    /// Several parts, which together are shorter than the representation.
    Parts,
    Failed(Failure),
}

impl<'a> Whole<'a> {
    /// Answers a request that has conditions or a range.
    // Answers are large, so inline this: it only builds them, and each call would copy them.
    #[inline(always)]
    pub(crate) fn answer_with_conditions(
        self,
        request: &Request<'a>,
        buffer: &'a mut Parts,
        now: u64,
    ) -> Result<Answer<'a>, Failure> {
        let outcome = self.evaluate(request, buffer, now);
        let Whole { head, validators, chosen, reason, .. } = self;
        Ok(match outcome {
            Outcome::Whole => self.answer(request.method),
            Outcome::NotModified => Answer::not_modified(head, validators, reason),
            Outcome::Part(part) => Answer::partial(head, validators, chosen.body, part, reason),
            Outcome::Parts => {
                let multipart = Multipart::new(buffer, head, chosen.etag, chosen.body);
                Answer::multipart(multipart, validators, reason)
            }
            Outcome::Failed(failure) => return Err(failure),
        })
    }

    /// Checks conditions, then the range. If several parts should be sent, they are in `buffer`.
    #[inline(never)]
    fn evaluate(&self, request: &Request<'a>, buffer: &mut Parts, now: u64) -> Outcome {
        let Whole { head, validators, chosen, .. } = *self;
        let conditions = &request.conditions;

        match conditional::evaluate(conditions, validators, now) {
            Verdict::Send => {}
            Verdict::NotModified => return Outcome::NotModified,
            Verdict::Failed => return Outcome::Failed(Failure::new(412, Reason::Precondition)),
        }

        // `Range` is only for GET (RFC 9110 §14.2).
        let Single::Value(range) = conditions.range else { return Outcome::Whole };
        if request.method != Method::Get || !conditional::range_applies(conditions.if_range, validators, now)
        {
            return Outcome::Whole;
        }

        match range::parse(range, chosen.body.length) {
            Ranges::Ignored => Outcome::Whole,
            Ranges::Unsatisfiable => Outcome::Failed(Failure::unsatisfiable(chosen.body.length)),
            Ranges::Parts(parts) => {
                if let [part] = parts.as_slice() {
                    return Outcome::Part(*part);
                }
                *buffer = parts;
                let length = Multipart::new(buffer, head, chosen.etag, chosen.body).length();
                if length < chosen.body.length { Outcome::Parts } else { Outcome::Whole }
            }
        }
    }
}
