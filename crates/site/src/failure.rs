//! Why a request is not answered from the site: an error of the server's own in the making.
//!
//! Never looks for the page that goes with it.

use cannery_archive::{Corrupt, Extent, PathError};

use crate::answer::{Answer, Body, Fields, Page, Reason};

/// Why a request is not answered from the site.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Failure {
    /// The status that says so.
    pub(crate) status: u16,
    pub(crate) reason: Reason,
    /// How long the representation is of which nothing is in the range that is wanted.
    complete_length: Option<u64>,
}

impl Failure {
    pub(crate) fn new(status: u16, reason: Reason) -> Failure {
        Failure { status, reason, complete_length: None }
    }

    pub(crate) fn invalid_path(bad: PathError) -> Failure {
        Failure::new(if bad == PathError::TooLong { 414 } else { 400 }, Reason::InvalidPath(bad))
    }

    /// RFC 9110 §15.5.17.
    pub(crate) fn unsatisfiable(complete_length: u64) -> Failure {
        Failure { complete_length: Some(complete_length), ..Failure::new(416, Reason::Range) }
    }

    /// The answer with a page of the site's and where its bytes lie, or with the one that is built in.
    pub(crate) fn answer<'a>(self, page: Option<(Page<'a>, Extent)>) -> Answer<'a> {
        let Failure { status, reason, complete_length } = self;
        let Some((page, body)) = page else {
            let fields = Fields::BuiltIn { page: None, complete_length };
            return Answer { fields, ..Answer::built_in(status, reason) };
        };
        let fields = Fields::BuiltIn { page: Some(page), complete_length };
        Answer {
            status,
            fields,
            body: Body::Archive(body),
            content_length: Some(body.length),
            reason,
            site_fields: None,
        }
    }
}

impl From<Corrupt> for Failure {
    fn from(corrupt: Corrupt) -> Failure {
        Failure::new(500, Reason::Corrupt(corrupt))
    }
}
