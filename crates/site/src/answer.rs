//! The answer to a request: status code, fields, and a body that is mostly a range of the archive.
//!
//! An answer is independent of the protocol. The `wire` crate encodes it.

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
    /// The fields, except those that depend on the connection or the clock.
    pub fields: Fields<'a>,
    /// The body to send.
    pub body: Body<'a>,
    /// The value of `Content-Length`, also if the body is not sent (HEAD), or `None` for a status code without content
    /// (RFC 9110 §8.6).
    pub content_length: Option<u64>,
    /// The reason for the answer, for `explain` and for logs.
    pub reason: Reason,
    /// The fields that header rules add, unless the head includes them.
    pub site_fields: Option<&'a SiteFields>,
}

/// The fields of an answer.
#[derive(Debug, Clone, Copy)]
pub enum Fields<'a> {
    /// A whole head of the archive.
    Canned {
        /// The head.
        head: Head<'a>,
        /// The values of `ETag` and `Last-Modified`.
        validators: Validators<'a>,
    },
    /// The head of a 206 with one part (RFC 9110 §15.3.7).
    Partial {
        /// The head of the whole representation.
        head: Head<'a>,
        /// The values of `ETag` and `Last-Modified`.
        validators: Validators<'a>,
        /// The value of `Content-Range`.
        range: ContentRange,
    },
    /// The head of a 206 with several parts, which has only the fields about the resource.
    Multipart {
        /// The parts, with the head and the boundary.
        multipart: Multipart<'a>,
        /// The values of `ETag` and `Last-Modified`.
        validators: Validators<'a>,
    },
    /// The head of a 304, which repeats some fields (RFC 9110 §15.4.5).
    NotModified {
        /// The head of the representation.
        head: Head<'a>,
        /// The values of `ETag` and `Last-Modified`.
        validators: Validators<'a>,
    },
    /// The fields of a redirect, including `Location`.
    Redirect(Location<'a>),
    /// The fields that the status code requires, and those about the error page.
    BuiltIn {
        /// The error page of the site, or `None` for the built-in page.
        page: Option<Page<'a>>,
        /// For a 416, the length of the representation (RFC 9110 §15.5.17).
        complete_length: Option<u64>,
    },
}

/// An error page of a site.
#[derive(Debug, Clone, Copy)]
pub struct Page<'a> {
    /// The head of the page. Its status line is ignored.
    pub head: Head<'a>,
    /// Length of the key of the page's directory, which is a prefix of the path.
    pub covered: usize,
}

/// The range of a representation in a 206.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContentRange {
    /// Offset of the first byte.
    pub first: u64,
    /// Offset of the last byte.
    pub last: u64,
    /// Length of the representation.
    pub complete_length: u64,
}

/// The body of an answer.
#[derive(Debug, Clone, Copy)]
pub enum Body<'a> {
    /// No body is sent.
    Empty,
    /// A range inside the archive.
    Archive(Extent),
    /// Several ranges inside the archive, with text between them.
    Multipart(Multipart<'a>),
    /// A built-in error page.
    BuiltIn(ErrorPage<'a>),
}

/// The reason for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The path has a record of its own.
    Path(Origin),
    /// The rule with this ordinal matches the path.
    Rule(u32),
    /// The path exists with or without a slash at its end.
    Slash,
    /// A fallback page applies. Contains the length of the key of its directory.
    Fallback(usize),
    /// The path does not exist.
    NotFound,
    /// A missing asset, for which no fallback page applies.
    MissingAsset,
    /// A condition of the request is false.
    Precondition,
    /// The requested range is not satisfiable.
    Range,
    /// The client does not accept any available coding.
    NotAcceptable,
    /// The method is not allowed or not known.
    Method,
    /// The method is `OPTIONS`.
    Options,
    /// The server has no site for the host.
    Host,
    /// The request is redirected to `https`.
    Https,
    /// The request is malformed.
    BadRequest,
    /// The form of the target is not allowed.
    Target,
    /// The path of the target is invalid.
    InvalidPath(PathError),
    /// The `Location` would be longer than [`crate::LOCATION_BYTES_MAX`].
    LongLocation,
    /// The archive is corrupt.
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

    /// Returns the head of the file that the answer is from.
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

    /// Returns an answer with the built-in page for the status code, if there is one.
    #[must_use]
    pub fn built_in(status: u16, reason: Reason) -> Answer<'a> {
        let page = ErrorPage::new(status);
        let length = page.map_or(0, |page| page.len() as u64);
        let body = page.map_or(Body::Empty, Body::BuiltIn);
        let content_length = (status != 204).then_some(length);
        let fields = Fields::BuiltIn { page: None, complete_length: None };
        Answer { status, fields, body, content_length, reason, site_fields: None }
    }

    /// Returns the same answer with a text on its built-in page, such as the requested host.
    #[must_use]
    pub fn with_subject(mut self, subject: &'a [u8]) -> Answer<'a> {
        if let Body::BuiltIn(page) = &mut self.body {
            *page = page.with_subject(subject);
            self.content_length = Some(page.len() as u64);
        }
        self
    }

    /// Returns the same answer with the path of a target on its built-in page, unless the target is malformed.
    pub(crate) fn with_path(self, target: &'a [u8]) -> Answer<'a> {
        match self.body {
            Body::BuiltIn(_) => match Target::parse(target) {
                Some(target) => self.with_subject(target.path),
                None => self,
            },
            _ => self,
        }
    }

    /// Returns the number of content bytes to send, which is 0 for `HEAD` whatever `Content-Length` is.
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

    /// Returns the same answer without its body, for `HEAD`.
    #[must_use]
    pub fn without_body(mut self) -> Answer<'a> {
        self.body = Body::Empty;
        self
    }
}
