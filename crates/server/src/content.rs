//! What a server answers with: opened once, shared by the workers, never changed.

use std::net::SocketAddr;

use cannery_archive::{Archive, Extent};
use cannery_site::{Scratch, Site};
use cannery_wire::h1::{Connection, RequestHead, dummy_answer};
use cannery_wire::{Output, ServerFields};

use crate::config::{self, Config};
use crate::error::StartError;
use crate::observer::{Answered, Observer};

/// What a server answers with.
#[derive(Debug)]
pub(crate) enum Content {
    /// A site.
    Site(Site),
    /// Whole answers, spelled already, whatever is asked.
    Dummy {
        /// For connections that stay open as HTTP/1.1 does.
        plain: Vec<u8>,
        /// For HTTP/1.0 connections that stay open.
        keep_alive: Vec<u8>,
        /// For connections that end.
        close: Vec<u8>,
    },
}

/// A request, and who asks.
pub(crate) struct Asked<'a> {
    pub(crate) peer: Option<SocketAddr>,
    pub(crate) head: &'a RequestHead<'a>,
}

impl Content {
    pub(crate) fn open(config: &Config) -> Result<Content, StartError> {
        match &config.content {
            config::Content::Archive { path, loading } => {
                let archive = Archive::open(path, *loading);
                let archive = archive.map_err(|source| StartError::Archive { path: path.clone(), source })?;
                Ok(Content::Site(Site::new(archive, config.hosts)))
            }
            config::Content::Dummy { body } => Ok(Content::Dummy {
                plain: dummy_answer(body, None),
                keep_alive: dummy_answer(body, Some("keep-alive")),
                close: dummy_answer(body, Some("close")),
            }),
        }
    }

    /// Answers one request.
    #[inline]
    pub(crate) fn answer(
        &self,
        http: &mut Connection,
        asked: &Asked<'_>,
        scratch: &mut Scratch,
        fields: &ServerFields,
        output: &mut Output,
        observer: &mut Observer,
    ) {
        let Asked { peer, head } = *asked;
        let before = output.length();
        match self {
            Content::Site(site) => {
                let answer = site.answer(&head.request, scratch);
                http.answer(head, &answer, site.archive().bytes(), fields, output);
                let bytes = output.length() - before;
                observer.answered(&Answered { peer, head, answer: Some(&answer), bytes });
            }
            Content::Dummy { plain, keep_alive, close } => {
                let bytes = match (head.keep_alive, head.is_http10) {
                    (true, false) => plain,
                    (true, true) => keep_alive,
                    (false, _) => close,
                };
                http.answer_spelled(head, bytes, output);
                let bytes = output.length() - before;
                observer.answered(&Answered { peer, head, answer: None, bytes });
            }
        }
    }

    /// The bytes of a range of the archive, without the first `skip` of them.
    #[inline]
    pub(crate) fn range(&self, extent: Extent, skip: u64) -> &[u8] {
        let rest = Extent { position: extent.position + skip, length: extent.length - skip };
        match self {
            // `site` has checked that the range lies within the archive.
            Content::Site(site) => site.archive().body(rest).unwrap_or_default(),
            Content::Dummy { .. } => &[],
        }
    }
}
