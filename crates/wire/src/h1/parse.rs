//! HTTP/1 request head parser (RFC 9112 §2–§6).
//!
//! Request smuggling starts where two parsers disagree. This is why this parser is strict: lines must end
//! with CRLF, a colon cannot follow a space, lines cannot be folded, and there must be exactly one framing.
//! Ambiguous requests are *not* repaired. The parser never allocates.

use cannery_site::{Full, Method, Target, Values};

use crate::ground::grammar::{elements, is_host, is_token_byte, parse_length, trim};
use crate::ground::scan::{is_name, last_letter, plain_name_end, target_end, value_end};
use crate::limits::{FIELDS_MAX, HEAD_BYTES_MAX, METHOD_BYTES_MAX, TARGET_BYTES_MAX};
use crate::request::head::{RequestHead, Version};
use crate::request::refusal::Refusal;

/// The head of an HTTP/1 request.
#[derive(Debug, Clone, Copy)]
pub struct Head<'a> {
    /// The parts that all HTTP versions have in common.
    pub common: RequestHead<'a>,
    /// Whether the client allows us to keep the connection open after the response.
    pub keep_alive: bool,
    /// Whether the client wants a `100 Continue` before it sends content.
    pub expects_continue: bool,
    /// The framing of the content.
    pub framing: Framing,
}

impl Head<'_> {
    /// An empty head for the parser to fill.
    pub const EMPTY: Head<'static> = Head {
        common: RequestHead::EMPTY,
        keep_alive: false,
        expects_continue: false,
        framing: Framing::Length(0),
    };
}

/// Ways to find the end of request content (RFC 9112 §6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// After this number of bytes (usually 0, because most requests do not have content).
    Length(u64),
    /// After the last chunk. We do not know the number of bytes beforehand.
    Chunked,
}

/// Outcome of [`parse`].
#[derive(Debug, Clone, Copy)]
pub(crate) enum Parsed {
    /// A complete head. The number is its length in bytes.
    Head(usize),
    /// The head is incomplete.
    More,
    /// Not a head we accept.
    Refused(Refusal),
}

/// Parses one head from the front of `input` into `head`, which is valid only after [`Parsed::Head`].
///
/// The caller provides the head, which takes half a kilobyte. Returning it by value through several functions
/// would cost more than parsing it.
pub(crate) fn parse<'a>(input: &'a [u8], head: &mut Head<'a>, is_secured: bool) -> Parsed {
    let mut reader = Reader { input, at: 0, is_secured };
    match reader.read_head(head) {
        Ok(()) if reader.at <= HEAD_BYTES_MAX => Parsed::Head(reader.at),
        Ok(()) => Parsed::Refused(Refusal::HeadTooLarge),
        Err(Stop::Refused(refusal)) => Parsed::Refused(refusal),
        Err(Stop::End) if input.len() >= HEAD_BYTES_MAX => Parsed::Refused(too_large(input)),
        Err(Stop::End) => Parsed::More,
    }
}

/// Returns the reason to refuse an incomplete head: either the target or the head as a whole is too large.
fn too_large(input: &[u8]) -> Refusal {
    let has_line_end = input.iter().take(TARGET_BYTES_MAX).any(|byte| *byte == b'\n');
    if has_line_end { Refusal::HeadTooLarge } else { Refusal::TargetTooLong }
}

/// Reasons why the parser stopped before the end of the head.
enum Stop {
    /// It needs more input.
    End,
    Refused(Refusal),
}

/// Field parser state.
struct Fields<'h, 'a> {
    head: &'h mut Head<'a>,
    /// Whether `Connection: close` was found.
    has_close: bool,
    /// Whether `Connection: keep-alive` was found.
    has_keep_alive: bool,
    content_length: Option<u64>,
    is_chunked: bool,
}

struct Reader<'a> {
    input: &'a [u8],
    at: usize,
    is_secured: bool,
}

impl<'a> Reader<'a> {
    fn read_head(&mut self, head: &mut Head<'a>) -> Result<(), Stop> {
        let common = &mut head.common;
        common.clear();

        // The request line.
        self.skip_empty_lines()?;
        common.method_name = self.method()?;
        common.request.method = Method::of(common.method_name);
        common.request.target = self.target()?;
        common.version = self.version()?;
        let is_http10 = common.version == Version::Http10;

        // All field lines, including the empty line at the end of the head.
        let fields_start = self.at;
        head.expects_continue = false;
        let mut fields =
            Fields { head, has_close: false, has_keep_alive: false, content_length: None, is_chunked: false };
        self.fields(&mut fields)?;
        let Fields { head, has_close, has_keep_alive, content_length, is_chunked } = fields;
        head.common.field_lines = &self.input[fields_start..self.at];

        // RFC 9112 §3.2: HTTP/1.1 requests must have a Host field.
        if head.common.request.host.is_none() && !is_http10 {
            return Err(Stop::Refused(Refusal::Host));
        }

        head.framing = match (content_length, is_chunked) {
            // With two framings, two parsers could disagree about where the next request begins.
            (Some(_), true) => return Err(Stop::Refused(Refusal::Framing)),
            // RFC 9112 §6.1: HTTP/1.0 has no transfer codings.
            (None, true) if is_http10 => return Err(Stop::Refused(Refusal::Framing)),
            (None, true) => Framing::Chunked,
            (length, false) => Framing::Length(length.unwrap_or(0)),
        };

        head.keep_alive = !has_close && (!is_http10 || has_keep_alive);
        head.expects_continue &= !is_http10;
        Ok(())
    }

    /// Skips empty lines before a request line (RFC 9112 §2.2).
    fn skip_empty_lines(&mut self) -> Result<(), Stop> {
        while let Some(b'\r') = self.input.get(self.at) {
            self.expect(b"\r\n", Refusal::RequestLine)?;
        }
        Ok(())
    }

    /// Parses the method. A method longer than all known ones cannot be implemented (RFC 9112 §3).
    #[inline]
    fn method(&mut self) -> Result<&'a [u8], Stop> {
        let rest = &self.input[self.at..];
        // Fast path: nearly all requests are GET.
        if let Some((b"GET ", _)) = rest.split_first_chunk() {
            self.at += 4;
            return Ok(&rest[..3]);
        }

        // We can refuse a method that is too long, even if its end has not arrived yet.
        if rest.iter().take_while(|byte| is_token_byte(**byte)).take(METHOD_BYTES_MAX + 1).count()
            > METHOD_BYTES_MAX
        {
            return Err(Stop::Refused(Refusal::Method));
        }
        self.token(b' ', Refusal::RequestLine)
    }

    /// Parses the request target (RFC 9112 §3.2) and the space after it.
    fn target(&mut self) -> Result<&'a [u8], Stop> {
        let rest = &self.input[self.at..];
        let length = target_end(rest);
        if length.unwrap_or(rest.len()) > TARGET_BYTES_MAX {
            return Err(Stop::Refused(Refusal::TargetTooLong));
        }
        let target = &rest[..length.ok_or(Stop::End)?];
        self.at += target.len();
        self.expect(b" ", Refusal::RequestLine)?;

        // The target is complete now. Most targets start with a slash and need no further checks here.
        if target.is_empty() {
            return Err(Stop::Refused(Refusal::RequestLine));
        }
        if target[0] != b'/' {
            check_authority(target, self.is_secured).map_err(Stop::Refused)?;
        }
        Ok(target)
    }

    /// Parses the version and the end of the request line.
    fn version(&mut self) -> Result<Version, Stop> {
        if self.input[self.at..].starts_with(b"HTTP/1.1\r\n") {
            self.at += 10;
            return Ok(Version::Http11);
        }

        self.expect(b"HTTP/", Refusal::RequestLine)?;
        let major = self.digit()?;
        self.expect(b".", Refusal::RequestLine)?;
        let minor = self.digit()?;
        self.expect(b"\r\n", Refusal::RequestLine)?;
        match (major, minor) {
            (b'1', b'0') => Ok(Version::Http10),
            (b'1', _) => Ok(Version::Http11),
            _ => Err(Stop::Refused(Refusal::Version)),
        }
    }

    fn digit(&mut self) -> Result<u8, Stop> {
        let byte = *self.input.get(self.at).ok_or(Stop::End)?;
        self.at += 1;
        if byte.is_ascii_digit() { Ok(byte) } else { Err(Stop::Refused(Refusal::RequestLine)) }
    }

    /// Parses the field lines and the empty line after them.
    fn fields(&mut self, fields: &mut Fields<'_, 'a>) -> Result<(), Stop> {
        for _ in 0..FIELDS_MAX + 1 {
            if self.input.get(self.at) == Some(&b'\r') {
                self.expect(b"\r\n", Refusal::FieldLine)?;
                return Ok(());
            }
            let name = self.name()?;
            let value = self.value()?;
            fields.take(name, value).map_err(Stop::Refused)?;
        }
        Err(Stop::Refused(Refusal::HeadTooLarge))
    }

    /// Parses a field name and the colon after it.
    #[inline]
    fn name(&mut self) -> Result<&'a [u8], Stop> {
        let rest = &self.input[self.at..];
        match plain_name_end(rest) {
            Some(length @ 1..) if rest[length] == b':' => {
                self.at += length + 1;
                Ok(&rest[..length])
            }
            _ => self.token(b':', Refusal::FieldLine),
        }
    }

    /// Parses a token (RFC 9110 §5.6.2) and the byte `end` after it.
    #[inline]
    fn token(&mut self, end: u8, refusal: Refusal) -> Result<&'a [u8], Stop> {
        let rest = &self.input[self.at..];
        let length = rest.iter().position(|byte| !is_token_byte(*byte)).ok_or(Stop::End)?;
        if rest[length] != end || length == 0 {
            return Err(Stop::Refused(refusal));
        }
        self.at += length + 1;
        Ok(&rest[..length])
    }

    /// Parses a field value (RFC 9110 §5.5) and the end of its line.
    #[inline]
    fn value(&mut self) -> Result<&'a [u8], Stop> {
        let rest = &self.input[self.at..];
        let length = value_end(rest).ok_or(Stop::End)?;
        self.at += length;
        self.expect(b"\r\n", Refusal::FieldLine)?;
        Ok(trim(&rest[..length]))
    }

    /// Parses exactly `bytes`.
    #[inline]
    fn expect(&mut self, bytes: &[u8], refusal: Refusal) -> Result<(), Stop> {
        let rest = &self.input[self.at..];
        if let Some(found) = rest.get(..bytes.len()) {
            if found == bytes {
                self.at += bytes.len();
                return Ok(());
            }
            return Err(Stop::Refused(refusal));
        }
        // If this can still become a match, wait for more input. Otherwise, refuse it now.
        if bytes.starts_with(rest) { Err(Stop::End) } else { Err(Stop::Refused(refusal)) }
    }
}

impl<'a> Fields<'_, 'a> {
    #[inline]
    fn take(&mut self, name: &[u8], value: &'a [u8]) -> Result<(), Refusal> {
        // Comparing the length first will rule out most other fields.
        match name.len() {
            // RFC 9112 §3.2: there must not be more than one Host field.
            4 if is_name(name, b"host") => {
                let is_first = self.head.common.request.host.replace(value).is_none();
                return if is_first && is_host(value) { Ok(()) } else { Err(Refusal::Host) };
            }

            6 if is_name(name, b"accept") => self.head.common.request.intent.take_accept(value),
            6 if is_name(name, b"expect") => {
                for expectation in elements(value) {
                    if !expectation.eq_ignore_ascii_case(b"100-continue") {
                        return Err(Refusal::Expectation);
                    }
                    self.head.expects_continue = true;
                }
            }

            7 if is_name(name, b"referer") => self.head.common.referer = Some(value),
            10 if is_name(name, b"user-agent") => self.head.common.user_agent = Some(value),
            10 if is_name(name, b"connection") => {
                for option in value.split(|byte| *byte == b',').map(trim) {
                    self.has_close |= option.eq_ignore_ascii_case(b"close");
                    self.has_keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
                }
            }

            // Browsers send several other names of these two lengths. The last letter rules them out.
            14 if last_letter(name) == b't' && is_name(name, b"sec-fetch-dest") => {
                self.head.common.request.intent.take_destination(value);
            }
            // RFC 9110 §8.6 allows both choices: we refuse repeated lengths even if they agree.
            14 if last_letter(name) == b'h' && is_name(name, b"content-length") => {
                let length = parse_length(value).ok_or(Refusal::Framing)?;
                if self.content_length.replace(length).is_some() {
                    return Err(Refusal::Framing);
                }
            }

            15 if last_letter(name) == b'g' && is_name(name, b"accept-encoding") => {
                push(&mut self.head.common.request.accept_encoding, value)?;
            }
            17 if is_name(name, b"transfer-encoding") => {
                if self.is_chunked {
                    return Err(Refusal::Framing);
                }
                check_transfer_codings(value)?;
                self.is_chunked = true;
            }

            5 | 8 | 13 | 17 | 19 => return self.take_condition(name, value),
            _ => {}
        }
        Ok(())
    }
}

/// Fields for conditional and range requests.
impl<'a> Fields<'_, 'a> {
    /// Stores a field for conditional or range requests. Ignores other fields.
    fn take_condition(&mut self, name: &[u8], value: &'a [u8]) -> Result<(), Refusal> {
        let conditions = &mut self.head.common.request.conditions;
        match name.len() {
            5 if is_name(name, b"range") => conditions.range.push(value),
            8 if is_name(name, b"if-match") => push(&mut conditions.if_match, value)?,
            8 if is_name(name, b"if-range") => conditions.if_range.push(value),
            13 if is_name(name, b"if-none-match") => push(&mut conditions.if_none_match, value)?,
            17 if is_name(name, b"if-modified-since") => conditions.if_modified_since.push(value),
            19 if is_name(name, b"if-unmodified-since") => conditions.if_unmodified_since.push(value),
            _ => return Ok(()),
        }
        conditions.any = true;
        Ok(())
    }
}

fn push<'a>(values: &mut Values<'a>, value: &'a [u8]) -> Result<(), Refusal> {
    values.push(value).map_err(|Full| Refusal::HeadTooLarge)
}

/// Checks a target in absolute form. The authority MUST be a host without user information (RFC 9110 §4.2.1,
/// §4.2.4), and the scheme one that we serve on this connection (§7.4).
fn check_authority(target: &[u8], is_secured: bool) -> Result<(), Refusal> {
    // If the target does not have any known form, the response depends on the method.
    let Some(Target { authority: Some(authority), .. }) = Target::parse(target) else { return Ok(()) };
    if !is_host(authority) || authority.starts_with(b":") {
        return Err(Refusal::RequestLine);
    }
    match target.get(..6) {
        Some(scheme) if scheme.eq_ignore_ascii_case(b"https:") && !is_secured => Err(Refusal::Scheme),
        _ => Ok(()),
    }
}

/// Checks `Transfer-Encoding`. Unless `chunked` is the last coding, the end of the content cannot be found
/// (RFC 9112 §6.3).
///
/// In other lists, we ignore empty elements. We cannot do that here: if other parsers treat them differently,
/// we would risk request smuggling (§11.2).
fn check_transfer_codings(value: &[u8]) -> Result<(), Refusal> {
    let is_chunked = |coding: &[u8]| coding.eq_ignore_ascii_case(b"chunked");
    let mut codings = value.rsplit(|byte| *byte == b',').map(trim);
    if !codings.next().is_some_and(is_chunked) {
        return Err(Refusal::Framing);
    }
    match codings.next() {
        None => Ok(()),
        Some(coding) if is_chunked(coding) || coding.is_empty() => Err(Refusal::Framing),
        Some(_) => Err(Refusal::TransferCoding),
    }
}

#[cfg(test)]
mod tests;
