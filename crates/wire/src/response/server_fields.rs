//! `Date`, and other fields that the server adds to all responses.
//!
//! Sites may override some of them. We render all combinations in advance, so that a response only has to copy one slice. Once a
//! second, we update `Date`. The time is an argument.

use cannery_archive::{HpackLine, NO_LINE_ID, NewHpackLine, NewQpackLine, QpackLine};
use cannery_base::date::{HTTP_DATE_BYTES, format_http_date};

use super::head::{SERVER_FIELDS, override_bit, put_field};
use crate::compression::hpack::{self, FIRST_SERVER_LINE_ID};
use crate::compression::qpack;

const DATE_NAME: &[u8] = b"Date: ";
const ALTERNATIVE: &str = "Alt-Svc";
const END: &[u8] = b"\r\n";
const COMBINATIONS: usize = 1 << SERVER_FIELDS.len();

/// The lines at the end of each head.
#[derive(Debug)]
pub struct ServerFields {
    /// Lines for each combination of overridden fields: `Date`, then the other fields, and finally the end of the head.
    lines: Vec<Vec<u8>>,
    /// HTTP/2 lines except `Date`. Each comes with its bit in `overrides`.
    hpack_lines: Vec<(u8, NewHpackLine)>,
    /// `Date` in HTTP/2.
    hpack_date: Vec<u8>,
    /// HTTP/3 lines except `Date`. Each comes with its bit in `overrides`.
    qpack_lines: Vec<(u8, NewQpackLine)>,
    /// `Date` in HTTP/3.
    qpack_date: Vec<u8>,
    seconds: u64,
    keeps_redirects: bool,
    /// `Alt-Svc`.
    alternative: Option<String>,
    /// The fields of previews, if there may be any.
    previews: Option<Box<ServerFields>>,
}

impl ServerFields {
    /// Renders fields from [`SERVER_FIELDS`], given as names and values. `seconds` is the time since 1970.
    #[must_use]
    pub fn new(fields: &[(&str, &str)], seconds: u64) -> ServerFields {
        let lines = (0..COMBINATIONS).map(|overridden| {
            let mut lines = Vec::new();
            put_field(&mut lines, "Date", &format_http_date(seconds));
            for (name, value) in fields {
                if usize::from(override_bit(name)) & overridden == 0 {
                    put_field(&mut lines, name, value.as_bytes());
                }
            }
            lines.extend_from_slice(END);
            lines
        });

        let numbered = (FIRST_SERVER_LINE_ID..NO_LINE_ID).zip(fields);
        let hpack_lines = numbered.clone().map(|(id, (name, value))| {
            (override_bit(name), hpack::encode_line(id, &name.to_ascii_lowercase(), value.as_bytes()))
        });
        let qpack_lines = numbered.map(|(id, (name, value))| {
            (override_bit(name), qpack::encode_line(id, &name.to_ascii_lowercase(), value.as_bytes()))
        });

        let mut hpack_date = Vec::new();
        hpack::put_field(&mut hpack_date, "date", &format_http_date(seconds));
        let mut qpack_date = Vec::new();
        qpack::put_field(&mut qpack_date, "date", &format_http_date(seconds));

        let alternative = fields.iter().find(|(name, _)| *name == ALTERNATIVE);
        ServerFields {
            lines: lines.collect(),
            hpack_lines: hpack_lines.collect(),
            hpack_date,
            qpack_lines: qpack_lines.collect(),
            qpack_date,
            seconds,
            keeps_redirects: true,
            alternative: alternative.map(|(_, value)| (*value).to_owned()),
            previews: None,
        }
    }

    /// Sets whether clients may cache permanent redirects. Otherwise, they need to revalidate them each time.
    #[must_use]
    pub fn with_kept_redirects(self, keeps_redirects: bool) -> ServerFields {
        ServerFields { keeps_redirects, ..self }
    }

    /// Sets the fields of sites that are previews. They must begin with the same fields, because connections number them.
    #[must_use]
    pub fn with_previews(self, previews: ServerFields) -> ServerFields {
        ServerFields { previews: Some(Box::new(previews)), ..self }
    }

    /// Returns the fields of sites that are previews.
    #[must_use]
    pub fn for_previews(&self) -> &ServerFields {
        self.previews.as_deref().unwrap_or(self)
    }

    /// Returns `true` if clients may cache permanent redirects.
    pub(crate) const fn keeps_redirects(&self) -> bool {
        self.keeps_redirects
    }

    /// Returns `Alt-Svc`, if we send it.
    #[must_use]
    #[inline]
    pub fn alternative(&self) -> Option<&str> {
        self.alternative.as_deref()
    }

    /// Sets the time in seconds since 1970. If it is the same second, nothing happens.
    pub fn set_time(&mut self, seconds: u64) {
        if seconds == self.seconds {
            return;
        }

        self.seconds = seconds;
        let date = format_http_date(seconds);
        for lines in &mut self.lines {
            lines[DATE_NAME.len()..][..HTTP_DATE_BYTES].copy_from_slice(&date);
        }

        self.hpack_date.clear();
        hpack::put_field(&mut self.hpack_date, "date", &date);
        self.qpack_date.clear();
        qpack::put_field(&mut self.qpack_date, "date", &date);
        if let Some(previews) = &mut self.previews {
            previews.set_time(seconds);
        }
    }

    /// Returns the time in seconds since 1970.
    #[must_use]
    pub fn seconds(&self) -> u64 {
        self.seconds
    }

    /// Returns the lines for a response, without fields that have a bit in `overrides`.
    #[must_use]
    #[inline]
    pub fn lines(&self, overrides: u8) -> &[u8] {
        let lines = self.end_of_head(overrides);
        &lines[..lines.len() - END.len()]
    }

    /// Returns the same lines along with the empty line at the end of a head.
    #[must_use]
    #[inline]
    pub fn end_of_head(&self, overrides: u8) -> &[u8] {
        &self.lines[usize::from(overrides) % COMBINATIONS]
    }

    /// Returns `Date` for HTTP/2. It changes every second, so it should never be added to a peer's table.
    #[must_use]
    #[inline]
    pub(crate) fn hpack_date(&self) -> &[u8] {
        &self.hpack_date
    }

    /// Returns all other lines for HTTP/2, without fields that have a bit in `overrides`.
    #[inline]
    pub(crate) fn hpack_lines(&self, overrides: u8) -> impl Iterator<Item = HpackLine<'_>> {
        let left = self.hpack_lines.iter().filter(move |(bit, _)| bit & overrides == 0);
        left.map(|(_, line)| line.as_line())
    }

    /// Returns `Date` for HTTP/3. This should never be added to a peer's table.
    #[inline]
    pub(crate) fn qpack_date(&self) -> &[u8] {
        &self.qpack_date
    }

    /// Returns all other lines for HTTP/3, without fields that have a bit in `overrides`.
    #[inline]
    pub(crate) fn qpack_lines(&self, overrides: u8) -> impl Iterator<Item = QpackLine<'_>> {
        let left = self.qpack_lines.iter().filter(move |(bit, _)| bit & overrides == 0);
        left.map(|(_, line)| line.as_line())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overridden_fields_are_left_out() {
        let fields = [("Referrer-Policy", "no-referrer"), ("X-Frame-Options", "deny")];
        let mut fields = ServerFields::new(&fields, 0);
        fields.set_time(784_111_777);

        let date = b"Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n".as_slice();
        let referrer = b"Referrer-Policy: no-referrer\r\n".as_slice();
        assert_eq!(fields.lines(0), [date, referrer, b"X-Frame-Options: deny\r\n"].concat());
        assert_eq!(fields.lines(1 << 3), [date, referrer].concat());
        assert_eq!(fields.lines(0b1001), date);
        assert_eq!(fields.end_of_head(0b1001), [date, b"\r\n"].concat());
    }
}
