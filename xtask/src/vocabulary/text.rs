//! Prose and identifiers in files: comments and string literals of Rust, text of Markdown and HTML, comments of configuration.

use std::path::Path;

/// A piece of a file that is searched as a whole.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Passage {
    pub(super) kind: Kind,
    /// The line on which it starts, counted from 1.
    pub(super) line: usize,
    /// The text. Code in it is replaced by spaces, so that lines and sentences stay.
    pub(super) text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Prose,
    Identifier,
}

/// How prose is marked in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Rust,
    Markdown,
    Html,
    /// Comments start with `#`: TOML, systemd units, shell.
    Config,
}

/// Ends a sentence without a full stop: a heading, a table cell, a list item. Unicode's paragraph separator.
const PARAGRAPH: char = '\u{2029}';

impl Passage {
    /// Returns the line of a byte offset in the text.
    pub(super) fn line_at(&self, offset: usize) -> usize {
        self.line + self.text[..offset].matches('\n').count()
    }
}

impl Format {
    /// Returns the format of a file by its name, or `None` if it has no prose.
    pub(super) fn of(path: &Path) -> Option<Format> {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("rs") => Some(Format::Rust),
            Some("md") => Some(Format::Markdown),
            Some("html") => Some(Format::Html),
            Some("toml" | "service" | "socket" | "conf" | "sh") => Some(Format::Config),
            _ => path.starts_with(".ci").then_some(Format::Config),
        }
    }

    /// Returns the passages of a file.
    pub(super) fn passages(self, text: &str) -> Vec<Passage> {
        match self {
            Format::Rust => Scanner::new(text).passages(),
            Format::Markdown => vec![Passage { kind: Kind::Prose, line: 1, text: markdown(text) }],
            Format::Html => vec![Passage { kind: Kind::Prose, line: 1, text: html(text) }],
            Format::Config => vec![Passage { kind: Kind::Prose, line: 1, text: config(text) }],
        }
    }
}

/// Splits an identifier into words in lower case: `put_off`, `PutOff` and `PUT_OFF` are *put* and *off*.
pub(super) fn identifier_words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut was_lower = false;
    for part in name.split(['_', '-', '.']) {
        let mut starts_word = true;
        for letter in part.chars() {
            if starts_word || (letter.is_uppercase() && was_lower) {
                words.push(String::new());
            }
            if let Some(word) = words.last_mut() {
                word.extend(letter.to_lowercase());
            }
            (starts_word, was_lower) = (false, letter.is_lowercase());
        }
    }
    words
}

/// Blanks out fenced blocks and code in backticks. Headings, list items and table cells end sentences.
fn markdown(text: &str) -> String {
    let mut prose = String::with_capacity(text.len());
    let mut is_fenced = false;
    for line in text.lines() {
        let content = line.trim_start();
        if content.starts_with("```") {
            is_fenced = !is_fenced;
        } else if !is_fenced {
            let starts_block = content.is_empty() || content.starts_with(['#', '-', '*', '|']);
            prose.extend(starts_block.then_some(PARAGRAPH));
            prose.extend(
                without_code(line).chars().map(|letter| if letter == '|' { PARAGRAPH } else { letter }),
            );
        }
        prose.push('\n');
    }
    prose
}

/// Replaces code in backticks by spaces. Code that starts on this line and ends on another stays.
fn without_code(line: &str) -> String {
    let mut parts = line.split('`');
    let mut prose = parts.next().unwrap_or_default().to_owned();
    while let (Some(code), after) = (parts.next(), parts.next()) {
        prose.extend(code.chars().map(|_| ' '));
        prose.push_str(after.unwrap_or_default());
    }
    prose
}

/// Blanks out tags, and the content of `code`, `pre`, `script` and `style`. Every tag of a block ends a sentence.
fn html(text: &str) -> String {
    const CODE: [&str; 4] = ["code", "pre", "script", "style"];
    const INLINE: [&str; 5] = ["a", "em", "strong", "code", "span"];

    let mut prose = String::with_capacity(text.len());
    let mut code_depth = 0_u32;
    let mut rest = text;
    while let Some(start) = rest.find('<') {
        push_unless(code_depth > 0, &rest[..start], &mut prose);
        let end = rest[start..].find('>').map_or(rest.len(), |end| start + end + 1);
        let tag = &rest[start..end];
        let name: String =
            tag[1..].trim_start_matches('/').chars().take_while(char::is_ascii_alphanumeric).collect();

        if CODE.contains(&name.as_str()) {
            code_depth = if tag.starts_with("</") { code_depth.saturating_sub(1) } else { code_depth + 1 };
        }
        prose.extend((!INLINE.contains(&name.as_str())).then_some(PARAGRAPH));
        push_unless(true, tag, &mut prose);
        rest = &rest[end..];
    }

    push_unless(false, rest, &mut prose);
    prose
}

/// Appends text, or only its line breaks.
fn push_unless(is_code: bool, text: &str, prose: &mut String) {
    prose.extend(text.chars().filter(|letter| !is_code || *letter == '\n'));
}

/// Keeps comments that start with `#`.
fn config(text: &str) -> String {
    let comment =
        |line: &str| line.split_once('#').map_or(String::new(), |(_, comment)| without_code(comment));
    text.lines().map(|line| comment(line) + "\n").collect()
}

/// Splits Rust code into comments, string literals and identifiers.
struct Scanner<'a> {
    rest: &'a str,
    line: usize,
    passages: Vec<Passage>,
    /// The line after the last line comment, to which the next one belongs if it starts there.
    comment_continues: Option<usize>,
    is_fenced: bool,
}

impl<'a> Scanner<'a> {
    fn new(text: &'a str) -> Scanner<'a> {
        Scanner { rest: text, line: 1, passages: Vec::new(), comment_continues: None, is_fenced: false }
    }

    fn passages(mut self) -> Vec<Passage> {
        while let Some(letter) = self.rest.chars().next() {
            if self.rest.starts_with("//") {
                self.line_comment();
            } else if self.rest.starts_with("/*") {
                let end = self.rest.find("*/").map_or(self.rest.len(), |end| end + 2);
                self.push_prose(end, 2);
            } else if letter == '"' {
                let end = 1 + length_to_quote(&self.rest[1..]);
                self.literal(end, 1);
            } else if let Some((opening, closing)) = raw_string(self.rest) {
                let end = self.rest[opening..]
                    .find(&closing)
                    .map_or(self.rest.len(), |end| opening + end + closing.len());
                self.literal(end, opening);
            } else if letter == '\'' {
                self.skip(length_of_char(self.rest));
            } else if letter.is_alphabetic() || letter == '_' {
                let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
                let end = self.rest.find(|letter| !is_part(letter)).unwrap_or(self.rest.len());
                let text = self.rest[..end].to_owned();
                self.passages.push(Passage { kind: Kind::Identifier, line: self.line, text });
                self.skip(end);
            } else {
                self.skip(letter.len_utf8());
            }
        }

        self.passages
    }

    /// Takes a line comment. Comments on consecutive lines are one passage, because sentences go across lines.
    fn line_comment(&mut self) {
        let end = self.rest.find('\n').unwrap_or(self.rest.len());
        let content = self.rest[..end].trim_start_matches(['/', '!']);
        if content.trim_start().starts_with("```") {
            self.is_fenced = !self.is_fenced;
        }
        let is_code = self.is_fenced || content.trim_start().starts_with("```");
        let mut text = if is_code { String::new() } else { without_code(content) };
        if is_code || text.trim().is_empty() || text.trim_start().starts_with(['#', '-', '*', '|']) {
            text.insert(0, PARAGRAPH);
        }

        match self.passages.last_mut() {
            Some(passage) if self.comment_continues == Some(self.line) => {
                passage.text.push('\n');
                passage.text.push_str(&text);
            }
            _ => self.passages.push(Passage { kind: Kind::Prose, line: self.line, text }),
        }
        self.comment_continues = Some(self.line + 1);
        self.skip(end);
    }

    /// Takes a string literal. One without a space is a name or data, not prose.
    fn literal(&mut self, end: usize, opening: usize) {
        if self.rest[..end].contains(' ') {
            self.push_prose(end, opening);
        } else {
            self.skip(end);
        }
    }

    /// Takes `end` bytes as prose, without the opening mark.
    fn push_prose(&mut self, end: usize, opening: usize) {
        let text = self.rest[opening..end].lines().map(without_code).collect::<Vec<_>>().join("\n");
        self.passages.push(Passage { kind: Kind::Prose, line: self.line, text: without_arguments(&text) });
        self.skip(end);
    }

    fn skip(&mut self, bytes: usize) {
        self.line += self.rest[..bytes].matches('\n').count();
        self.rest = &self.rest[bytes..];
    }
}

/// Replaces `{arguments}` of a format string by spaces.
fn without_arguments(text: &str) -> String {
    let mut is_argument = false;
    let blank = |letter| {
        is_argument = (is_argument || letter == '{') && letter != '}';
        if is_argument && letter != '\n' { ' ' } else { letter }
    };
    text.chars().map(blank).collect()
}

/// Returns the length of the opening mark and the closing mark if text starts with a raw string literal.
fn raw_string(text: &str) -> Option<(usize, String)> {
    let after = text.strip_prefix("br").or_else(|| text.strip_prefix('r'))?;
    let marks = after.bytes().take_while(|byte| *byte == b'#').count();
    after[marks..].starts_with('"').then(|| {
        let opening = text.len() - after.len() + marks + 1;
        (opening, format!("\"{}", "#".repeat(marks)))
    })
}

/// Returns the length up to and including the closing quote.
fn length_to_quote(text: &str) -> usize {
    let mut letters = text.char_indices();
    while let Some((offset, letter)) = letters.next() {
        match letter {
            '\\' => drop(letters.next()),
            '"' => return offset + 1,
            _ => {}
        }
    }
    text.len()
}

/// Returns the length of a character literal, or of the quote that starts a lifetime.
fn length_of_char(text: &str) -> usize {
    let mut letters = text[1..].chars();
    match (letters.next(), letters.next()) {
        (Some('\\'), Some(escaped)) => {
            let start = 2 + escaped.len_utf8();
            text[start..].find('\'').map_or(1, |end| start + end + 1)
        }
        (Some(letter), Some('\'')) => 2 + letter.len_utf8(),
        _ => 1,
    }
}
