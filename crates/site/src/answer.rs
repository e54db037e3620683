//! An answer: status, head, and the body as a range of the archive.
//!
//! Never holds bytes spelled for one protocol only: `wire` spells it.

use cannery_archive::{Corrupt, Extent, Head, Origin, PathError, Representation};

use crate::conditional::Validators;
use crate::error_page::ErrorPage;
use crate::location::Location;
use crate::multipart::Multipart;
use crate::site_fields::SiteFields;
use crate::target::Target;

/// The answer to a request.
#[derive(Debug, Clone, Copy)]
pub struct Answer<'a> {
    /// The status code.
    pub status: u16,
    /// The fields, but for those that the connection and the clock decide.
    pub fields: Fields<'a>,
    /// The body that is to be sent.
    pub body: Body<'a>,
    /// The length of the body as `Content-Length` states it, also where it is not sent (HEAD). Nothing
    /// for a status that has no content (RFC 9110 §8.6).
    pub content_length: Option<u64>,
    /// Why the answer is this one: for `explain` and for logs.
    pub reason: Reason,
    /// What the rules of `_headers` add, unless the head holds it already.
    pub site_fields: Option<&'a SiteFields>,
}

/// The fields of an answer.
#[derive(Debug, Clone, Copy)]
pub enum Fields<'a> {
    /// The head that the archiver spelled, all of it.
    Canned {
        /// As it lies in the archive.
        head: Head<'a>,
        /// The entity tag to go with it, and the date.
        validators: Validators<'a>,
    },
    /// The same for a part of the representation (RFC 9110 §15.3.7).
    Partial {
        /// As it lies in the archive.
        head: Head<'a>,
        /// The entity tag to go with it, and the date.
        validators: Validators<'a>,
        /// Which part of how much.
        range: ContentRange,
    },
    /// The same for several parts: of the head, only what holds for the resource.
    Multipart {
        /// Knows the head, and the boundary.
        multipart: Multipart<'a>,
        /// The entity tag to go with it, and the date.
        validators: Validators<'a>,
    },
    /// Of the head that the archiver spelled, what a 304 repeats (RFC 9110 §15.4.5).
    NotModified {
        /// As it lies in the archive.
        head: Head<'a>,
        /// The entity tag to go with it, and the date.
        validators: Validators<'a>,
    },
    /// The server's own, and where to go.
    Redirect(Location<'a>),
    /// The server's own: what the status needs, and what describes the page that is its body.
    BuiltIn {
        /// The page of the site's; the one that is built in if the site has none.
        page: Option<Page<'a>>,
        /// How long the representation is of which nothing is in the `Range` (RFC 9110 §15.5.17).
        complete_length: Option<u64>,
    },
}

/// A page that a site has for an error.
#[derive(Debug, Clone, Copy)]
pub struct Page<'a> {
    /// As it lies in the archive. What its status line says does not count.
    pub head: Head<'a>,
    /// It holds for the folder whose key has so many bytes.
    pub covered: usize,
}

/// The bytes of a representation that an answer holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContentRange {
    /// The first byte, from 0.
    pub first: u64,
    /// The last byte.
    pub last: u64,
    /// How long the representation is.
    pub complete_length: u64,
}

/// The body of an answer.
#[derive(Debug, Clone, Copy)]
pub enum Body<'a> {
    /// None is sent.
    Empty,
    /// A range of the archive, which lies within it.
    Archive(Extent),
    /// Several ranges of the archive, and text between them.
    Multipart(Multipart<'a>),
    /// A page that is built into the server.
    BuiltIn(ErrorPage<'a>),
}

/// Why an answer is what it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The path has a record of its own.
    Path(Origin),
    /// A rule matched; its place in the order of the rules.
    Rule(u32),
    /// The path exists with, or without, a slash at its end.
    Slash,
    /// A fallback page of the folder whose key has so many bytes.
    Fallback(usize),
    /// Nothing was found.
    NotFound,
    /// An asset is missing, for which no fallback page may answer.
    MissingAsset,
    /// A condition of the request does not hold.
    Precondition,
    /// Nothing of the range that is wanted exists.
    Range,
    /// The client forbids every coding that there is.
    NotAcceptable,
    /// The method is not one that a resource allows.
    Method,
    /// `OPTIONS` was asked.
    Options,
    /// The host is not one that is served here.
    Host,
    /// What is asked for in the clear is at `https`.
    Https,
    /// What was sent is no request.
    BadRequest,
    /// The target has no form that a server answers.
    Target,
    /// The target's path is none.
    InvalidPath(PathError),
    /// The redirect would be longer than [`crate::LOCATION_BYTES_MAX`].
    LongLocation,
    /// The archive is damaged.
    Corrupt(Corrupt),
}

impl<'a> Answer<'a> {
    pub(crate) fn resource(
        status: u16,
        head: Head<'a>,
        validators: Validators<'a>,
        chosen: Representation<'a>,
        reason: Reason,
    ) -> Answer<'a> {
        Answer {
            status,
            fields: Fields::Canned { head, validators },
            body: Body::Archive(chosen.body),
            content_length: Some(chosen.body.length),
            reason,
            site_fields: None,
        }
    }

    pub(crate) fn not_modified(head: Head<'a>, validators: Validators<'a>, reason: Reason) -> Answer<'a> {
        let fields = Fields::NotModified { head, validators };
        Answer { status: 304, fields, body: Body::Empty, content_length: None, reason, site_fields: None }
    }

    pub(crate) fn partial(
        head: Head<'a>,
        validators: Validators<'a>,
        body: Extent,
        part: Extent,
        reason: Reason,
    ) -> Answer<'a> {
        let (first, last) = (part.position, part.position + part.length - 1);
        let range = ContentRange { first, last, complete_length: body.length };
        let fields = Fields::Partial { head, validators, range };
        let within = Extent { position: body.position + part.position, length: part.length };
        Answer {
            status: 206,
            fields,
            body: Body::Archive(within),
            content_length: Some(part.length),
            reason,
            site_fields: None,
        }
    }

    pub(crate) fn multipart(
        multipart: Multipart<'a>,
        validators: Validators<'a>,
        reason: Reason,
    ) -> Answer<'a> {
        Answer {
            status: 206,
            fields: Fields::Multipart { multipart, validators },
            body: Body::Multipart(multipart),
            content_length: Some(multipart.length()),
            reason,
            site_fields: None,
        }
    }

    pub(crate) fn redirect(status: u16, location: Location<'a>, reason: Reason) -> Answer<'a> {
        let fields = Fields::Redirect(location);
        Answer { status, fields, body: Body::Empty, content_length: Some(0), reason, site_fields: None }
    }

    /// An answer of the server itself, with the page that is built in for the status.
    #[must_use]
    pub fn built_in(status: u16, reason: Reason) -> Answer<'a> {
        let page = ErrorPage::of(status);
        let length = page.map_or(0, |page| page.len() as u64);
        let body = page.map_or(Body::Empty, Body::BuiltIn);
        let content_length = (status != 204).then_some(length);
        let fields = Fields::BuiltIn { page: None, complete_length: None };
        Answer { status, fields, body, content_length, reason, site_fields: None }
    }

    /// The same answer. A built-in page shows this text, such as the host that was requested.
    #[must_use]
    pub fn with_subject(mut self, subject: &'a [u8]) -> Answer<'a> {
        if let Body::BuiltIn(page) = &mut self.body {
            *page = page.with_subject(subject);
            self.content_length = Some(page.len() as u64);
        }
        self
    }

    /// The same answer. A built-in page shows the path of this request target, unless the target is malformed and has none.
    pub(crate) fn with_path(self, target: &'a [u8]) -> Answer<'a> {
        match self.body {
            Body::BuiltIn(_) => match Target::parse(target) {
                Some(target) => self.with_subject(target.path),
                None => self,
            },
            _ => self,
        }
    }

    /// Bytes of the content that is sent: none in a response to `HEAD`, whatever `Content-Length` says.
    #[must_use]
    pub fn sent_content_bytes(&self) -> u64 {
        match self.body {
            Body::Empty => 0,
            _ => self.content_length.unwrap_or(0),
        }
    }

    /// The same answer for `HEAD`: all fields, no content.
    #[must_use]
    pub fn without_body(mut self) -> Answer<'a> {
        self.body = Body::Empty;
        self
    }
}
