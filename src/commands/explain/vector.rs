//! Requests and responses as JSON. You can use these as test vectors for other implementations that read
//! archives.

use cannery_archive::Extent;
use cannery_site::{Answer, Body, MultipartPiece};
use cannery_wire::Segment;
use serde::Serialize;

#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Vector {
    request: Request,
    response: Response,
}

#[derive(Debug, PartialEq, Serialize)]
struct Request {
    method: String,
    target: String,
    fields: Vec<Field>,
}

/// A response, without fields that depend on server flags.
#[derive(Debug, PartialEq, Serialize)]
struct Response {
    status: u16,
    fields: Vec<Field>,
    /// `None` when the server generates the body, for example for a built-in page.
    body: Option<Vec<Part>>,
}

/// Name and value. If the value is not UTF-8, we fall back to ISO 8859-1.
type Field = (String, String);

#[derive(Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub(super) enum Part {
    /// Bytes in the archive.
    Archive { position: u64, bytes: u64 },
    /// Text between ranges of the archive, or a built-in error page.
    Text { text: String },
}

impl From<Extent> for Part {
    fn from(extent: Extent) -> Part {
        Part::Archive { position: extent.position, bytes: extent.length }
    }
}

impl Vector {
    /// Creates a test vector from an HTTP/1.1 request, a response head and the body's parts.
    pub(super) fn new(request: &str, head: &[u8], body: Option<Vec<Part>>) -> Vector {
        let (request_line, fields) = split_head(request.as_bytes());
        let mut words = request_line.split(' ').map(str::to_owned);
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let request = Request { method, target, fields };

        let (status_line, fields) = split_head(head);
        let status = status_line.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or_default();
        // The date would be different each time.
        let fields = fields.into_iter().filter(|(name, _)| name != "Date").collect();
        Vector { request, response: Response { status, fields, body } }
    }
}

/// Splits the output of a connection into response head and body, using `answer` to find out how the body is
/// composed.
pub(super) fn split_output<'o>(
    inline: &'o [u8],
    segments: &[Segment],
    answer: &Answer<'_>,
) -> (&'o [u8], Vec<Part>) {
    const END: &[u8] = b"\r\n\r\n";
    let end = inline.windows(END.len()).position(|window| window == END);
    let (head, text) = inline.split_at(end.map_or(inline.len(), |position| position + END.len()));
    let has_body = !text.is_empty() || segments.iter().any(|segment| matches!(segment, Segment::Archive(..)));
    if !has_body {
        return (head, Vec::new());
    }

    let mut parts = Vec::new();
    match answer.body {
        Body::Empty => {}
        Body::Archive(extent) => parts.push(extent.into()),
        Body::BuiltIn(_) => parts.push(Part::Text { text: decode(text) }),
        Body::Multipart(multipart) => {
            let mut between = String::new();
            multipart.for_each_piece(&mut |piece| match piece {
                MultipartPiece::Text(text) => between.push_str(&decode(text)),
                MultipartPiece::Number(number) => between.push_str(&number.to_string()),
                MultipartPiece::Archive(extent) => {
                    parts.push(Part::Text { text: std::mem::take(&mut between) });
                    parts.push(extent.into());
                }
            });
            parts.push(Part::Text { text: between });
        }
    }
    (head, parts)
}

/// Splits a head into its first line and fields.
fn split_head(head: &[u8]) -> (String, Vec<Field>) {
    let text = decode(head);
    let mut lines = text.split("\r\n").take_while(|line| !line.is_empty());
    let first = lines.next().unwrap_or_default().to_owned();
    let fields = lines.filter_map(|line| line.split_once(": "));
    (first, fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

fn decode(bytes: &[u8]) -> String {
    match str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().copied().map(char::from).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vector_has_the_fields_of_request_and_response() {
        let field = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let head = b"HTTP/1.1 200 OK\r\nDate: now\r\nX: \xe4\r\n\r\n";
        let vector = Vector::new("GET /a?b HTTP/1.1\r\nHost: h\r\n\r\n", head, None);
        assert_eq!(vector.request.target, "/a?b");
        assert_eq!(vector.request.fields, [field("Host", "h")]);
        assert_eq!((vector.response.status, vector.response.fields), (200, vec![field("X", "ä")]));
    }
}
