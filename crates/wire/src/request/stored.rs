//! Copies of requests, for handlers that run later.

use cannery_site::{Method, Request};

use super::head::{RequestHead, Version};

/// A request we keep until its content is complete, or until its handler has run.
#[derive(Debug)]
pub struct StoredRequest {
    /// All parts of the head, without anything in between.
    bytes: Vec<u8>,
    /// End of each part in `bytes`, in the order of [`Part`].
    ends: [usize; PARTS],
    /// Which parts there are.
    present: [bool; PARTS],
    method: Method,
    version: Version,
    content: Vec<u8>,
}

/// A part of a head.
#[derive(Clone, Copy)]
enum Part {
    Method,
    Target,
    Host,
    Referer,
    UserAgent,
    FieldLines,
}

const PARTS: usize = 6;

impl StoredRequest {
    /// Copies a head, except conditions and codings. Only sites need those.
    #[must_use]
    pub fn new(head: &RequestHead<'_>) -> StoredRequest {
        let parts: [Option<&[u8]>; PARTS] = [
            Some(head.method_name),
            Some(head.request.target),
            head.request.host,
            head.referer,
            head.user_agent,
            Some(head.field_lines),
        ];

        let length = parts.iter().flatten().map(|part| part.len()).sum();
        let mut stored = StoredRequest {
            bytes: Vec::with_capacity(length),
            ends: [0; PARTS],
            present: parts.map(|part| part.is_some()),
            method: head.request.method,
            version: head.version,
            content: Vec::new(),
        };

        for (index, part) in parts.into_iter().enumerate() {
            stored.bytes.extend_from_slice(part.unwrap_or_default());
            stored.ends[index] = stored.bytes.len();
        }
        stored
    }

    /// Returns the head.
    #[must_use]
    pub fn head(&self) -> RequestHead<'_> {
        let method_name = self.part(Part::Method).unwrap_or_default();
        let request = Request {
            host: self.part(Part::Host),
            ..Request::new(self.method, self.part(Part::Target).unwrap_or_default())
        };

        RequestHead {
            request,
            method_name,
            version: self.version,
            referer: self.part(Part::Referer),
            user_agent: self.part(Part::UserAgent),
            field_lines: self.part(Part::FieldLines).unwrap_or_default(),
        }
    }

    /// Returns the content.
    #[must_use]
    pub fn content(&self) -> &[u8] {
        &self.content
    }

    /// Returns the content. You can append to it.
    pub fn content_mut(&mut self) -> &mut Vec<u8> {
        &mut self.content
    }

    /// Returns the memory used by this request, in bytes.
    #[must_use]
    pub fn memory(&self) -> usize {
        size_of::<StoredRequest>() + self.bytes.capacity() + self.content.capacity()
    }

    fn part(&self, part: Part) -> Option<&[u8]> {
        let index = part as usize;
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        self.present[index].then(|| &self.bytes[start..self.ends[index]])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copy_has_the_parts_of_the_head() {
        let head = RequestHead {
            request: Request { host: Some(b"example.com"), ..Request::new(Method::Other, b"/a?b") },
            method_name: b"POST",
            version: Version::Http2,
            referer: None,
            user_agent: Some(b""),
            field_lines: b"accept: */*\r\n",
        };
        let mut stored = StoredRequest::new(&head);
        stored.content_mut().extend_from_slice(b"content");

        assert_eq!(format!("{:?}", stored.head()), format!("{head:?}"));
        assert_eq!(stored.content(), b"content");

        let empty = StoredRequest::new(&RequestHead::EMPTY);
        assert_eq!(empty.head().request.host, None);
        assert_eq!(empty.head().method_name, b"");
    }
}
