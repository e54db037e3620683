//! Failures turn into error responses.

use cannery_archive::{Archive, Corrupt, Extent, PathError};

use super::custom_page;
use crate::answer::{Answer, Body, Fields, Page, Reason};
use crate::request::Values;
use crate::sites::Place;

/// An error response. We have not looked for its page yet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Failure {
    status: u16,
    reason: Reason,
    /// For a 416, the length of the representation.
    complete_length: Option<u64>,
}

impl Failure {
    pub(crate) fn new(status: u16, reason: Reason) -> Failure {
        Failure { status, reason, complete_length: None }
    }

    pub(crate) fn invalid_path(error: PathError) -> Failure {
        Failure::new(if error == PathError::TooLong { 414 } else { 400 }, Reason::InvalidPath(error))
    }

    /// Creates the failure for a range that cannot be satisfied (RFC 9110 §15.5.17).
    pub(crate) fn unsatisfiable(complete_length: u64) -> Failure {
        Failure { complete_length: Some(complete_length), ..Failure::new(416, Reason::Range) }
    }

    /// Returns the answer, with the site's nearest error page or (if there is none) the built-in page.
    #[cold]
    pub(crate) fn answer_at<'a>(
        self,
        archive: &'a Archive,
        place: Place<'a>,
        accept_encoding: &Values<'_>,
    ) -> Answer<'a> {
        let page = custom_page::find(archive, place, self.status, accept_encoding);
        // If the page is corrupt, we need to use the built-in one. The status stays the same.
        self.answer(page.ok().flatten())
    }

    fn answer<'a>(self, page: Option<(Page<'a>, Extent)>) -> Answer<'a> {
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
