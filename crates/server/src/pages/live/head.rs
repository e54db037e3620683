//! Tokenizes the start of an HTML document (WHATWG HTML, §13.2.5) in order to find a place where a script
//! will run regardless of how the document goes on.

use super::encoding::Encoding;

/// Browsers look this far for an encoding declaration (WHATWG HTML, §13.2.3.2).
const PRESCAN_BYTES: usize = 1024;

/// Stands for any non-ASCII character.
const OTHER: u8 = 0xff;

/// Finds the position for a script, which is after `<head>`. If there is no such tag, it is before the
/// first other tag or text, since that would end the head that browsers create. In a document that declares
/// its encoding, the script has to come after the declaration.
pub(super) fn script_position(document: &[u8], encoding: Encoding, is_declared: bool) -> usize {
    let mut tokens = Tokens { document, encoding, place: 0 };
    tokens.skip_byte_order_mark();
    let mut position = loop {
        let start = tokens.place;
        match tokens.next() {
            Token::Ignored => {}
            Token::Start(name) if name == b"html" => {}
            Token::Start(name) if name == b"head" => break tokens.place,
            // Browsers ignore any other end tag before the head.
            Token::End(name) if !matches!(name.as_slice(), b"head" | b"body" | b"html" | b"br") => {}
            Token::Start(_) | Token::End(_) | Token::Other => break start,
        }
    };

    tokens.place = position;
    while is_declared && tokens.place * encoding.unit_bytes() < PRESCAN_BYTES {
        let start = tokens.place;
        match tokens.next() {
            Token::Ignored => {}
            Token::Start(name) => match name.as_slice() {
                b"meta" if tokens.contains(start, "charset") => position = tokens.place,
                b"meta" | b"link" | b"base" => {}
                b"title" | b"style" | b"script" | b"noscript" => {
                    let Some(end) = tokens.raw_text_end(&name) else { break };
                    tokens.place = end;
                }
                _ => break,
            },
            Token::End(_) | Token::Other => break,
        }
    }
    position * encoding.unit_bytes()
}

/// A token, with the details that we need here.
enum Token {
    /// White space, a comment, or a DOCTYPE.
    Ignored,
    /// A start tag. The name is in lower case.
    Start(Vec<u8>),
    End(Vec<u8>),
    /// Text or the end of the document. Also a construct that is not closed.
    Other,
}

/// Tokens of a document.
struct Tokens<'d> {
    document: &'d [u8],
    encoding: Encoding,
    /// Start of the next token, in code units.
    place: usize,
}

/// Tokenizer states inside of a tag.
#[derive(Clone, Copy)]
enum TagState {
    TagName,
    BeforeName,
    Name,
    AfterName,
    BeforeValue,
    /// A value in this kind of quotes.
    Quoted(u8),
    Unquoted,
}

impl Tokens<'_> {
    fn skip_byte_order_mark(&mut self) {
        self.place = match (self.encoding, self.document) {
            (Encoding::Ascii, [0xef, 0xbb, 0xbf, ..]) => 3,
            (Encoding::Utf16Le, [0xff, 0xfe, ..]) | (Encoding::Utf16Be, [0xfe, 0xff, ..]) => 1,
            _ => 0,
        };
    }

    /// Returns a code unit if it is an ASCII character, and [`OTHER`] if it is not.
    fn at(&self, place: usize) -> Option<u8> {
        let (high, low) = match self.encoding {
            Encoding::Ascii => return self.document.get(place).copied(),
            Encoding::Utf16Le => (2 * place + 1, 2 * place),
            Encoding::Utf16Be => (2 * place, 2 * place + 1),
        };
        let (high, low) = (*self.document.get(high)?, *self.document.get(low)?);
        Some(if high == 0 && low.is_ascii() { low } else { OTHER })
    }

    /// Returns `true` if this place has this text, ignoring case.
    fn has(&self, place: usize, text: &str) -> bool {
        let mut units = (place..).zip(text.bytes());
        units.all(|(place, byte)| self.at(place).is_some_and(|found| found.eq_ignore_ascii_case(&byte)))
    }

    /// Returns `true` if this text comes before the next token.
    fn contains(&self, start: usize, text: &str) -> bool {
        (start..self.place).any(|place| self.has(place, text))
    }

    fn next(&mut self) -> Token {
        if self.at(self.place).is_some_and(is_space) {
            self.place += 1;
            return Token::Ignored;
        }
        let Some((token, end)) = self.construct(self.place) else { return Token::Other };
        self.place = end;
        token
    }

    /// Returns the tag, comment or DOCTYPE at this place, and where it ends.
    fn construct(&self, start: usize) -> Option<(Token, usize)> {
        if self.at(start)? != b'<' {
            return None;
        }
        let after = start + 2;
        match self.at(start + 1)? {
            b'!' if self.has(after, "--") => Some((Token::Ignored, self.comment_end(after + 2)?)),
            b'!' | b'?' => Some((Token::Ignored, self.next_angle(after)?)),
            b'/' if self.at(after)?.is_ascii_alphabetic() => {
                let (name, end) = self.tag(after)?;
                Some((Token::End(name), end))
            }
            b'/' => Some((Token::Ignored, self.next_angle(after)?)),
            unit if unit.is_ascii_alphabetic() => {
                let (name, end) = self.tag(start + 1)?;
                Some((Token::Start(name), end))
            }
            _ => None,
        }
    }

    /// Returns the place after the next `>`.
    fn next_angle(&self, start: usize) -> Option<usize> {
        let mut place = start;
        while self.at(place)? != b'>' {
            place += 1;
        }
        Some(place + 1)
    }

    /// Returns the end of a comment. `start` is after the `<!--`.
    fn comment_end(&self, start: usize) -> Option<usize> {
        for abrupt in [">", "->"] {
            if self.has(start, abrupt) {
                return Some(start + abrupt.len());
            }
        }
        let mut place = start;
        loop {
            for end in ["-->", "--!>"] {
                if self.has(place, end) {
                    return Some(place + end.len());
                }
            }
            self.at(place)?;
            place += 1;
        }
    }

    /// Parses the name of a tag, starting at `start`. Returns it in lower case, along with the end of
    /// the tag.
    fn tag(&self, start: usize) -> Option<(Vec<u8>, usize)> {
        let mut name = Vec::new();
        let mut state = TagState::TagName;
        let mut place = start;
        loop {
            let unit = self.at(place)?;
            place += 1;

            state = match (state, unit) {
                (TagState::Quoted(mark), _) if unit == mark => TagState::BeforeName,
                (TagState::Quoted(_), _) => state,
                (_, b'>') => return Some((name, place)),
                (TagState::TagName, b'/') => TagState::BeforeName,
                (TagState::TagName, _) if is_space(unit) => TagState::BeforeName,
                (TagState::TagName, _) => {
                    name.push(unit.to_ascii_lowercase());
                    state
                }
                (TagState::BeforeName, b'/') => state,
                (TagState::BeforeName, _) if is_space(unit) => state,
                // Even `=` starts a name.
                (TagState::BeforeName, _) => TagState::Name,
                (TagState::Name | TagState::AfterName, b'=') => TagState::BeforeValue,
                (TagState::Name | TagState::AfterName, b'/') => TagState::BeforeName,
                (TagState::Name | TagState::AfterName, _) if is_space(unit) => TagState::AfterName,
                (TagState::Name | TagState::AfterName, _) => TagState::Name,
                (TagState::BeforeValue, b'"' | b'\'') => TagState::Quoted(unit),
                (TagState::BeforeValue, _) if is_space(unit) => state,
                (TagState::Unquoted, _) if is_space(unit) => TagState::BeforeName,
                (TagState::BeforeValue | TagState::Unquoted, _) => TagState::Unquoted,
            };
        }
    }

    /// Finds the end of an element that cannot contain other elements, and whose start tag is before the
    /// next token.
    fn raw_text_end(&self, name: &[u8]) -> Option<usize> {
        let mut place = self.place;
        loop {
            // Scripts can be nested from here on.
            if name == b"script" && self.has(place, "<!--") {
                return None;
            }
            if self.has(place, "</") {
                match self.construct(place) {
                    Some((Token::End(found), end)) if found == name => return Some(end),
                    _ => {}
                }
            }
            self.at(place)?;
            place += 1;
        }
    }
}

fn is_space(unit: u8) -> bool {
    matches!(unit, b'\t' | b'\n' | b'\x0c' | b'\r' | b' ')
}
