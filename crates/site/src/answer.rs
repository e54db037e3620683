//! Answers to requests: a status code, fields, and a body, which is usually a range of the archive.
//!
//! Answers do not depend on the protocol; the `wire` crate encodes them.

// Built-in pages for errors.
pub(crate) mod error_page;

// Targets of redirects.
pub(crate) mod location;

// Several ranges in one body.
pub(crate) mod multipart;

// Fields of header rules.
pub(crate) mod site_fields;

use cannery_archive::{Corrupt, Extent, Head, Origin, PathError};

use self::error_page::ErrorPage;
use self::location::Location;
use self::multipart::Multipart;
use self::site_fields::SiteFields;
use crate::request::Method;
use crate::request::conditional::Validators;
use crate::request::target::Target;

/// The answer to a request.
#[derive(Debug, Clone, Copy)]
pub struct Answer<'a> {
    /// The status code.
    pub status: u16,
    /// All fields that do not depend on the connection or the clock.
    pub fields: Fields<'a>,
    /// The body to send.
    pub body: Body<'a>,
    /// `Content-Length`, even if the body is not sent (HEAD). `None` if this status does not allow content (RFC 9110 §8.6).
    pub content_length: Option<u64>,
    /// How we got to this answer, for `explain` and logs.
    pub reason: Reason,
    /// Fields from header rules, unless the head includes them.
    pub site_fields: Option<&'a SiteFields>,
}

/// An answer's fields.
#[derive(Debug, Clone, Copy)]
// Exhaustive: each protocol has to encode every kind.
pub enum Fields<'a> {
    /// A complete head from the archive.
    Canned {
        /// The head.
        head: Head<'a>,
        /// `ETag` and `Last-Modified`.
        validators: Validators<'a>,
    },
    /// For a 206 with one part (RFC 9110 §15.3.7).
    Partial {
        /// The head of the whole representation.
        head: Head<'a>,
        /// `ETag` and `Last-Modified`.
        validators: Validators<'a>,
        /// `Content-Range`.
        range: ContentRange,
    },
    /// For a 206 with several parts. This only has the fields about the whole resource.
    Multipart {
        /// The parts, including the head and the boundary.
        multipart: Multipart<'a>,
        /// `ETag` and `Last-Modified`.
        validators: Validators<'a>,
    },
    /// For a 304. It repeats only some fields (RFC 9110 §15.4.5).
    NotModified {
        /// The head of the representation.
        head: Head<'a>,
        /// `ETag` and `Last-Modified`.
        validators: Validators<'a>,
    },
    /// For a redirect. Includes `Location`.
    Redirect(Location<'a>),
    /// The fields that this status requires, and those about the error page.
    BuiltIn {
        /// The site's error page. `None` if it is a built-in one.
        page: Option<Page<'a>>,
        /// For a 416, the length of the representation (RFC 9110 §15.5.17).
        complete_length: Option<u64>,
    },
}

/// A site's error page.
#[derive(Debug, Clone, Copy)]
pub struct Page<'a> {
    /// The page's head. Its status line is ignored.
    pub head: Head<'a>,
    /// Number of bytes of the path that are the directory with this page.
    pub covered: usize,
}

/// The part of a representation in a 206.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContentRange {
    /// Offset of the first byte.
    pub first: u64,
    /// Offset of the last byte.
    pub last: u64,
    /// Length of the whole representation.
    pub complete_length: u64,
}

/// An answer's body.
#[derive(Debug, Clone, Copy)]
// Exhaustive: each protocol has to encode every kind.
pub enum Body<'a> {
    /// There is no body to send.
    Empty,
    /// A range of the archive.
    Archive(Extent),
    /// Several ranges of the archive, with text in between.
    Multipart(Multipart<'a>),
    /// A built-in error page.
    BuiltIn(ErrorPage<'a>),
}

/// How we got to an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
// Exhaustive: `explain` and logs have to name every reason.
pub enum Reason {
    /// There is a record for exactly this path.
    Path(Origin),
    /// The rule with this ordinal matches.
    Rule(u32),
    /// The path exists, but with a slash at the end, or without it.
    Slash,
    /// There is a fallback page. The number is the length of its directory's key.
    Fallback(usize),
    /// The path does not exist.
    NotFound,
    /// The path does not exist and looks like an asset. Fallback pages do not apply in this case.
    MissingAsset,
    /// The request has a condition that is false.
    Precondition,
    /// The range cannot be satisfied.
    Range,
    /// The client does not accept any coding we have.
    NotAcceptable,
    /// The method is unknown or not allowed.
    Method,
    /// The method is `OPTIONS`.
    Options,
    /// There is no site for this host.
    Host,
    /// Redirected to `https`.
    Https,
    /// The request is malformed.
    BadRequest,
    /// The target has a form that is not allowed.
    Target,
    /// The target's path is invalid.
    InvalidPath(PathError),
    /// `Location` would be longer than [`crate::LOCATION_BYTES_MAX`].
    LongLocation,
    /// The archive is corrupt.
    Corrupt(Corrupt),
}

impl<'a> Answer<'a> {
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
        let range = ContentRange {
            first: part.position,
            last: part.position + part.length - 1,
            complete_length: body.length,
        };
        let extent = Extent { position: body.position + part.position, length: part.length };

        Answer {
            status: 206,
            fields: Fields::Partial { head, validators, range },
            body: Body::Archive(extent),
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

    /// Sets the media type of a header rule in each of several parts, or removes it if it is empty.
    pub(crate) fn set_part_type(&mut self, media_type: &'a [u8]) {
        if let Fields::Multipart { multipart, validators } = self.fields {
            *self = Answer::multipart(multipart.with_type(media_type), validators, self.reason);
        }
    }

    /// Returns the head of the file that is sent.
    pub(crate) fn head(&self) -> Option<Head<'a>> {
        match self.fields {
            Fields::Canned { head, .. } | Fields::Partial { head, .. } | Fields::NotModified { head, .. } => {
                Some(head)
            }
            Fields::Multipart { multipart, .. } => Some(*multipart.head()),
            Fields::Redirect(_) | Fields::BuiltIn { .. } => None,
        }
    }

    pub(crate) fn redirect(status: u16, location: Location<'a>, reason: Reason) -> Answer<'a> {
        let fields = Fields::Redirect(location);
        Answer { status, fields, body: Body::Empty, content_length: Some(0), reason, site_fields: None }
    }

    /// Returns an answer with the built-in page for this status, if there is one.
    #[must_use]
    pub fn built_in(status: u16, reason: Reason) -> Answer<'a> {
        let page = ErrorPage::new(status);
        let length = page.map_or(0, |page| page.len() as u64);
        let body = page.map_or(Body::Empty, Body::BuiltIn);
        let content_length = (status != 204).then_some(length);
        let fields = Fields::BuiltIn { page: None, complete_length: None };
        Answer { status, fields, body, content_length, reason, site_fields: None }
    }

    /// Mentions a text on the built-in page, for example the requested host.
    #[must_use]
    pub fn with_subject(mut self, subject: &'a [u8]) -> Answer<'a> {
        self.mention(subject);
        self
    }

    fn mention(&mut self, subject: &'a [u8]) {
        if let Body::BuiltIn(page) = &mut self.body {
            *page = page.with_subject(subject);
            self.content_length = Some(page.len() as u64);
        }
    }

    /// Mentions the target's path on the built-in page, unless the target is malformed.
    pub(crate) fn mention_path(&mut self, target: &'a [u8]) {
        if let Body::BuiltIn(_) = self.body
            && let Some(target) = Target::parse(target)
        {
            self.mention(target.path);
        }
    }

    /// Returns the number of content bytes to send. For `HEAD`, this is 0, whatever `Content-Length` may be.
    #[must_use]
    pub fn sent_content_bytes(&self) -> u64 {
        match self.body {
            Body::Empty => 0,
            _ => {
                debug_assert!(self.content_length.is_some(), "an answer with a body has a Content-Length");
                self.content_length.unwrap_or(0)
            }
        }
    }

    /// Returns the answer to a request with this method, without the body for `HEAD`. RFC 9110 §9.3.2 does not make an exception for
    /// errors and redirects.
    #[must_use]
    #[inline]
    pub fn for_method(mut self, method: Method) -> Answer<'a> {
        self.adapt_to(method);
        self
    }

    /// Like [`for_method`](Self::for_method), without copying the answer, which is large.
    #[inline]
    pub(crate) fn adapt_to(&mut self, method: Method) {
        if method == Method::Head {
            self.body = Body::Empty;
        }
    }

    /// Returns the answer without the body, for `HEAD`.
    #[must_use]
    pub fn without_body(mut self) -> Answer<'a> {
        self.body = Body::Empty;
        self
    }
}
