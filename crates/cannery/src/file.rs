//! A file of a site by its path, without HTTP.

use bytes::Bytes;
use cannery_site::{Body, Fields, Method, Request, Scratch, Values};

use crate::site::Site;

/// A file of a site.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SiteFile {
    /// The content, uncompressed. It shares the archive's memory.
    pub content: Bytes,
    /// The media type, such as `text/html; charset=utf-8`.
    pub media_type: String,
    /// The entity tag without quotes, or `None` when the archive was built without entity tags. It is the
    /// same for equal contents.
    pub etag: Option<String>,
}

impl Site {
    /// Returns the file for an absolute path, e.g. `/docs/` or `/style.css`.
    ///
    /// Special characters must be percent-encoded. Returns `None` if there is no file at this path, if the path is
    /// redirected, or if the archive was built without uncompressed contents.
    ///
    /// ```
    /// # use cannery_archiver::{Options, compile};
    /// # let dir = tempfile::tempdir()?;
    /// # std::fs::write(dir.path().join("index.html"), "<title>Hello</title>")?;
    /// # let archive = dir.path().join("site.cdb");
    /// # compile(&Options::new(dir.path(), &archive), &())?;
    /// let site = cannery::Site::open(&archive)?;
    ///
    /// let page = site.file("/").unwrap();
    /// assert_eq!(page.content, "<title>Hello</title>");
    /// assert_eq!(page.media_type, "text/html; charset=utf-8");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn file(&self, path: &str) -> Option<SiteFile> {
        let release = self.release();
        let mut request = Request::new(Method::Get, path.as_bytes());
        request.accept_encoding = Values::one(b"identity, *;q=0");
        let mut scratch = Scratch::default();
        let answer = release.answers.answer(&request, &mut scratch);

        // Anything else, for example a redirect or an error page, is not a file.
        let (200, Fields::Canned { head, validators }, Body::Archive(extent)) =
            (answer.status, answer.fields, answer.body)
        else {
            return None;
        };

        let line = String::from_utf8_lossy(head.content_type());
        let media_type = line.trim_end().strip_prefix("Content-Type: ").unwrap_or_default();
        let etag = validators.etag.map(|etag| String::from_utf8_lossy(etag.as_ref()).into_owned());
        Some(SiteFile { content: release.slice(extent)?, media_type: media_type.to_owned(), etag })
    }
}
