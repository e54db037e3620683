//! Forms with files (`multipart/form-data`, RFC 7578), read part by part while they arrive.
//!
//! The parser of `multer` is asynchronous, and takes whatever its stream has ready. We give it one piece at a time, and read the next
//! one only when it asks for more, so it never keeps more than a piece and the head of a part.

use std::fmt;
use std::io::{self, Read};
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::{Buf, Bytes};
use futures_core::Stream;

use crate::content_failure::ContentFailure;
use crate::error::HandlerError;
use crate::limits::{BOUNDARY_BYTES_MAX, PART_HEAD_BYTES_MAX, PART_TEXT_BYTES_MAX, PARTS_MAX};
use crate::request::Request;
use crate::save::save;

/// The parser gets content in pieces of this many bytes.
const PIECE_BYTES: usize = 8 * 1024;

/// A form with files (`multipart/form-data`) that is read part by part.
///
/// In a handler of [`Group::upload_route`](crate::Group::upload_route), files of any size can be stored while they arrive:
///
/// ```
/// # extern crate cannery_routes as cannery;
/// use cannery::{ContentReader, HandlerError, Multipart, Request};
///
/// fn store(request: &Request, content: ContentReader) -> Result<String, HandlerError> {
///     let mut title = String::new();
///     let mut form = Multipart::new(request, content)?;
///     while let Some(mut part) = form.next_part()? {
///         match part.name() {
///             "title" => title = part.text()?,
///             "photo" => _ = part.save_to("photo")?,
///             _ => {}
///         }
///     }
///     Ok(format!("{title} is stored."))
/// }
/// ```
///
/// The client chooses the names of files. Never use them as a path.
///
/// Errors have a kind like those of [`ContentReader`](crate::ContentReader): [`io::ErrorKind::InvalidData`] if the form is invalid,
/// [`io::ErrorKind::FileTooLarge`] if it exceeds a limit. With `?` in a handler, they become an error with status 400 or 413.
pub struct Multipart {
    parser: multer::Multipart<'static>,
    feed: Arc<Mutex<Feed>>,
    /// The part that was begun last.
    field: Option<multer::Field<'static>>,
    parts: usize,
    parts_max: usize,
    part_bytes_max: u64,
}

/// A part of a form. Reading it returns its content, while the next call of [`Multipart::next_part`] skips what was not read.
pub struct Part<'m> {
    form: &'m mut Multipart,
    name: String,
    /// Content that the parser has returned.
    piece: Bytes,
    /// Number of bytes that were read.
    bytes: u64,
}

/// Where the parser gets its content.
struct Feed {
    content: Box<dyn Read + Send>,
    /// Whether the parser may have another piece.
    may_read: bool,
    /// Number of bytes so far.
    bytes: u64,
}

struct Pieces(Arc<Mutex<Feed>>);

impl Stream for Pieces {
    type Item = io::Result<Bytes>;

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        let mut feed = lock(&self.0);
        if !std::mem::take(&mut feed.may_read) {
            return Poll::Pending;
        }
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            match feed.content.read(&mut piece) {
                Ok(0) => return Poll::Ready(None),
                Ok(bytes) => {
                    feed.bytes += bytes as u64;
                    piece.truncate(bytes);
                    return Poll::Ready(Some(Ok(piece.into())));
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Poll::Ready(Some(Err(error))),
            }
        }
    }
}

fn lock(feed: &Mutex<Feed>) -> MutexGuard<'_, Feed> {
    feed.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs the parser until it has a result. Each time it needs more, it gets another piece. Fails if it needs more than `bytes_max`.
fn wait<T>(
    feed: &Mutex<Feed>,
    bytes_max: u64,
    mut poll: impl FnMut(&mut Context<'_>) -> Poll<Result<T, multer::Error>>,
) -> io::Result<T> {
    let end = lock(feed).bytes.saturating_add(bytes_max);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(result) = poll(&mut context) {
            return result.map_err(convert);
        }
        let mut feed = lock(feed);
        if feed.bytes > end {
            return Err(ContentFailure::FormTooLong.into());
        }
        feed.may_read = true;
    }
}

fn convert(error: multer::Error) -> io::Error {
    match error {
        multer::Error::StreamReadFailed(error) => match error.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(other) => io::Error::other(other),
        },
        _ => ContentFailure::InvalidForm.into(),
    }
}

impl Multipart {
    /// Reads the content of a request as a form.
    ///
    /// In a handler that gets the complete content with the request, `content` can be
    /// `Cursor::new(request.content().to_vec())`.
    ///
    /// # Errors
    /// Returns an error with status 415 if the content isn't of the type `multipart/form-data`, or 400 if the boundary is missing or
    /// invalid.
    pub fn new(
        request: &Request<'_>,
        content: impl Read + Send + 'static,
    ) -> Result<Multipart, HandlerError> {
        if !request.media_type().eq_ignore_ascii_case("multipart/form-data") {
            return Err(HandlerError::new(415, "The content of the request must be a form with parts."));
        }
        let boundary = multer::parse_boundary(request.header("content-type").unwrap_or_default());
        let boundary = boundary.ok().filter(|boundary| (1..=BOUNDARY_BYTES_MAX).contains(&boundary.len()));
        let Some(boundary) = boundary else {
            return Err(HandlerError::new(400, "The form of the request has no valid boundary."));
        };
        let feed = Feed { content: Box::new(content), may_read: false, bytes: 0 };
        let feed = Arc::new(Mutex::new(feed));
        Ok(Multipart {
            parser: multer::Multipart::new(Pieces(Arc::clone(&feed)), boundary),
            feed,
            field: None,
            parts: 0,
            parts_max: PARTS_MAX,
            part_bytes_max: u64::MAX,
        })
    }

    /// Sets how many parts the form may have. The default is 1,000.
    #[must_use]
    pub fn parts_max(self, parts: usize) -> Multipart {
        Multipart { parts_max: parts, ..self }
    }

    /// Sets the length that the content of each part may have, in bytes. By default, there is only the limit for the whole
    /// request.
    #[must_use]
    pub fn part_bytes_max(self, bytes: u64) -> Multipart {
        Multipart { part_bytes_max: bytes, ..self }
    }

    /// Returns the next part, once its head has arrived, or `None` at the end of the form.
    ///
    /// # Errors
    /// Returns an error if the form is invalid or incomplete, or exceeds a limit.
    pub fn next_part(&mut self) -> io::Result<Option<Part<'_>>> {
        // The parser would skip the rest of the last part, too, but then its length would count as that of a head.
        while self.next_piece()?.is_some() {}
        self.field = None;
        let Multipart { parser, feed, .. } = self;
        let field = wait(feed, PART_HEAD_BYTES_MAX, |context| parser.poll_next_field(context))?;
        let Some(field) = field else { return Ok(None) };
        self.parts += 1;
        if self.parts > self.parts_max {
            return Err(ContentFailure::FormTooLong.into());
        }
        let name = field.name().ok_or(ContentFailure::InvalidForm)?.to_owned();
        self.field = Some(field);
        Ok(Some(Part { form: self, name, piece: Bytes::new(), bytes: 0 }))
    }

    /// Returns more content of the part, or `None` at its end.
    fn next_piece(&mut self) -> io::Result<Option<Bytes>> {
        let Some(field) = &mut self.field else { return Ok(None) };
        loop {
            let piece = wait(&self.feed, u64::MAX, |context| {
                Pin::new(&mut *field).poll_next(context).map(Option::transpose)
            })?;
            match piece {
                Some(piece) if piece.is_empty() => {}
                piece => return Ok(piece),
            }
        }
    }
}

impl Part<'_> {
    /// Returns the name of the field.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the name of the file, as the client has chosen it. Never use it as a path.
    ///
    /// A file may come without a name, for example if `filename*` comes first and isn't UTF-8.
    #[must_use]
    pub fn file_name(&self) -> Option<&str> {
        self.form.field.as_ref()?.file_name()
    }

    /// Returns the media type that the client has sent.
    #[must_use]
    pub fn media_type(&self) -> Option<&str> {
        Some(self.form.field.as_ref()?.content_type()?.as_ref())
    }

    /// Reads the content as text, up to 1 MiB.
    ///
    /// # Errors
    /// Returns an error if it is longer, if it isn't UTF-8, or if the form is invalid or incomplete.
    pub fn text(&mut self) -> io::Result<String> {
        let mut bytes = Vec::new();
        self.by_ref().take(PART_TEXT_BYTES_MAX + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > PART_TEXT_BYTES_MAX {
            return Err(ContentFailure::FormTooLong.into());
        }
        String::from_utf8(bytes).map_err(|_| ContentFailure::InvalidForm.into())
    }

    /// Stores the content in a file while it arrives, and returns its length. See
    /// [`ContentReader::save_to`](crate::ContentReader::save_to).
    ///
    /// # Errors
    /// Returns an error if the form is invalid or incomplete, or exceeds a limit, or if the file cannot be written.
    pub fn save_to(&mut self, path: impl AsRef<Path>) -> io::Result<u64> {
        save(self, path.as_ref())
    }
}

impl Read for Part<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if self.piece.is_empty() {
            let Some(piece) = self.form.next_piece()? else { return Ok(0) };
            self.piece = piece;
        }
        let count = self.piece.len().min(bytes.len());
        self.bytes += count as u64;
        if self.bytes > self.form.part_bytes_max {
            return Err(ContentFailure::FormTooLong.into());
        }
        self.piece.copy_to_slice(&mut bytes[..count]);
        Ok(count)
    }
}

impl fmt::Debug for Multipart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Multipart").field("parts", &self.parts).finish_non_exhaustive()
    }
}

impl fmt::Debug for Part<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Part").field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content;

    const HEAD: &str = "multipart/form-data; boundary=XyZ";

    /// Content that arrives in pieces of a few bytes.
    struct Slowly<'a>(&'a [u8], usize);

    impl Read for Slowly<'_> {
        fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
            let count = self.1.min(bytes.len());
            self.0.read(&mut bytes[..count])
        }
    }

    fn form(content: impl Read + Send + 'static) -> Multipart {
        let builder = Request::builder("POST", "/").with_header("Content-Type", HEAD);
        Multipart::new(&builder.build(), content).unwrap()
    }

    /// Returns a form with a text and a file.
    fn example(file: &[u8]) -> Vec<u8> {
        let start = b"a preamble\r\n--XyZ\r\nContent-Disposition: form-data; name=\"title\"\r\n\r\nh\xc3\xa9llo\r\n--XyZ\r\n\
            content-disposition: form-data; name=\"photo\"; filename=\"../a.png\"\r\nContent-Type: image/png\r\n\r\n";
        [start.as_slice(), file, b"\r\n--XyZ--\r\nan epilogue"].concat()
    }

    #[test]
    fn parts_are_read_in_order() {
        // Much of it looks like the beginning of a boundary.
        let file = b"\r\n--X\r--XyZ\n\r\n-".repeat(5000);
        let content: &'static [u8] = example(&file).leak();
        for piece in [1, 7, 1000, usize::MAX] {
            let mut form = form(Slowly(content, piece));
            let mut part = form.next_part().unwrap().unwrap();
            assert_eq!((part.name(), part.file_name(), part.media_type()), ("title", None, None));
            assert_eq!(part.text().unwrap(), "héllo");
            let mut part = form.next_part().unwrap().unwrap();
            assert_eq!((part.name(), part.file_name()), ("photo", Some("../a.png")));
            assert_eq!(part.media_type(), Some("image/png"));
            let mut read = Vec::new();
            part.read_to_end(&mut read).unwrap();
            assert!(read == file, "{} bytes", read.len());
            assert!(form.next_part().unwrap().is_none());
            assert!(form.next_part().unwrap().is_none());
        }
    }

    #[test]
    fn parts_that_nobody_reads_are_skipped() {
        let mut form = form(io::Cursor::new(example(&[b'x'; 100_000])));
        let mut names = Vec::new();
        while let Some(part) = form.next_part().unwrap() {
            names.push(part.name().to_owned());
        }
        assert_eq!(names, ["title", "photo"]);
    }

    /// The first failure of reading the whole form.
    fn failure(mut form: Multipart) -> u16 {
        let mut read = || -> io::Result<()> {
            while let Some(mut part) = form.next_part()? {
                io::copy(&mut part, &mut io::sink())?;
            }
            Ok(())
        };
        HandlerError::from(read().unwrap_err()).status()
    }

    #[test]
    fn limits_are_kept() {
        let content = || io::Cursor::new(example(&[b'x'; 1000]));
        assert_eq!(failure(form(content()).parts_max(1)), 413);
        assert_eq!(failure(form(content()).part_bytes_max(999)), 413);
        assert!(form(content()).parts_max(2).part_bytes_max(1000).next_part().is_ok());
        // A head without end, and no boundary at all.
        let head =
            Read::chain(b"--XyZ\r\nContent-Disposition: form-data; name=\"".as_slice(), io::repeat(b'x'));
        assert_eq!(failure(form(head)), 413);
        assert_eq!(failure(form(io::repeat(b'x'))), 413);
        let text = Read::chain(
            b"--XyZ\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n".as_slice(),
            io::repeat(b'x'),
        );
        let error = form(text).next_part().unwrap().unwrap().text().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
    }

    #[test]
    fn limits_have_defaults() {
        let part = "--XyZ\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nb\r\n";
        let parts = |count| io::Cursor::new(part.repeat(count) + "--XyZ--\r\n");
        let mut most = form(parts(PARTS_MAX));
        let mut count = 0;
        while most.next_part().unwrap().is_some() {
            count += 1;
        }
        assert_eq!(count, PARTS_MAX);
        assert_eq!(failure(form(parts(PARTS_MAX + 1))), 413);

        let text = |bytes: u64| {
            let bytes = usize::try_from(bytes).unwrap();
            let content = [
                b"--XyZ\r\nContent-Disposition: form-data; name=a\r\n\r\n",
                &*vec![b'x'; bytes],
                b"\r\n--XyZ--",
            ];
            form(io::Cursor::new(content.concat()))
                .next_part()
                .unwrap()
                .unwrap()
                .text()
                .map(|text| text.len() as u64)
        };
        assert_eq!(text(PART_TEXT_BYTES_MAX).unwrap(), PART_TEXT_BYTES_MAX);
        assert!(text(PART_TEXT_BYTES_MAX + 1).is_err());

        let boundary = |bytes: usize| {
            let head = format!("multipart/form-data; boundary={}", "b".repeat(bytes));
            let builder = Request::builder("POST", "/").with_header("Content-Type", &head);
            Multipart::new(&builder.build(), io::empty()).map_err(|error| error.status())
        };
        assert!(boundary(BOUNDARY_BYTES_MAX).is_ok());
        assert_eq!(boundary(BOUNDARY_BYTES_MAX + 1).unwrap_err(), 400);
    }

    #[test]
    fn parts_are_saved_once_they_are_complete() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("photo");
        let save = |content: &[u8]| {
            let mut form = form(io::Cursor::new(content.to_vec()));
            form.next_part()?;
            form.next_part()?.expect("a second part").save_to(&path)
        };
        let whole = example(b"content");
        assert_eq!(save(&whole[..whole.len() - 25]).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert!(!path.exists());
        assert_eq!(save(&whole).unwrap(), 7);
        assert_eq!(std::fs::read(&path).unwrap(), b"content");
    }

    #[test]
    fn invalid_forms_are_errors() {
        let whole = example(b"content");
        for end in [0, 5, 40, 90, 120, whole.len() - 20] {
            assert_eq!(failure(form(io::Cursor::new(whole[..end].to_vec()))), 400, "{end}");
        }
        let nameless = b"--XyZ\r\nContent-Type: text/plain\r\n\r\nx\r\n--XyZ--\r\n";
        assert_eq!(failure(form(nameless.as_slice())), 400);

        for (media_type, status) in [
            ("application/x-www-form-urlencoded", 415),
            ("multipart/mixed; boundary=a", 415),
            ("multipart/form-data", 400),
            ("multipart/form-data; boundary=\"\"", 400),
        ] {
            let builder = Request::builder("POST", "/").with_header("Content-Type", media_type);
            assert_eq!(
                Multipart::new(&builder.build(), io::empty()).unwrap_err().status(),
                status,
                "{media_type}"
            );
        }
    }

    #[test]
    fn content_that_cannot_be_read_is_an_error() {
        let (sender, reader) = content::channel();
        sender.send(&example(b"content")[..150]);
        sender.fail(ContentFailure::TooLong);
        assert_eq!(failure(form(reader)), 413);
        let (sender, reader) = content::channel();
        drop(sender);
        assert_eq!(form(reader).next_part().unwrap_err().kind(), io::ErrorKind::ConnectionAborted);
    }
}
