//! Tokenizer for configuration files.
//!
//! The same tolerant tokenizer is used for all formats, as even a file with errors may tell us what it protects. Quoted text is
//! always a single token, so nothing in it can be mistaken for a key or directive.

/// Lexical rules of a format.
pub(super) struct Syntax {
    /// Starts a comment if it occurs at the start of a word. The comment will extend to the end of the line.
    pub(super) comment: &'static str,
    /// Single-character tokens.
    pub(super) marks: &'static str,
    /// Whether line ends are tokens.
    pub(super) has_lines: bool,
}

#[derive(Debug)]
pub(super) struct Token {
    pub(super) line: u32,
    pub(super) text: String,
    pub(super) is_quoted: bool,
}

impl Token {
    pub(super) fn is_mark(&self, mark: &str) -> bool {
        !self.is_quoted && self.text == mark
    }

    pub(super) fn is(&self, word: &str) -> bool {
        self.text.eq_ignore_ascii_case(word)
    }
}

pub(super) fn tokens(text: &str, syntax: &Syntax) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut line = 1;
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let mut length = first.len_utf8();
        let mut token = None;
        // Each branch sets the length of what it consumes.
        if first == '\n' {
            token = syntax.has_lines.then(|| ("\n".to_owned(), false));
        } else if rest.starts_with(syntax.comment) {
            length = rest.find('\n').unwrap_or(rest.len());
        } else if syntax.comment == "//" && rest.starts_with("/*") {
            length = rest[2..].find("*/").map_or(rest.len(), |end| end + 4);
        } else if let Some(end) = quoted_length(rest) {
            length = end;
            token = Some((content(&rest[..end]), true));
        } else if syntax.marks.contains(first) {
            token = Some((first.to_string(), false));
        } else if !first.is_whitespace() {
            let is_end = |character: char| character.is_whitespace() || syntax.marks.contains(character);
            length = rest.find(is_end).unwrap_or(rest.len());
            token = Some((rest[..length].to_owned(), false));
        }

        if let Some((text, is_quoted)) = token {
            tokens.push(Token { line, text, is_quoted });
        }
        line += u32::try_from(rest[..length].matches('\n').count()).unwrap_or(u32::MAX);
        rest = &rest[length..];
    }
    tokens
}

/// Returns the length of quoted text including the quotes.
///
/// Quotes that are not closed on their line are considered part of a word.
fn quoted_length(text: &str) -> Option<usize> {
    for quotes in ["\"\"\"", "'''"] {
        if let Some(rest) = text.strip_prefix(quotes) {
            return rest.find(quotes).map(|end| end + 6);
        }
    }
    let quote = text.bytes().next().filter(|byte| matches!(byte, b'"' | b'\'' | b'`'))?;
    let mut is_escaped = false;
    for (place, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            b'\n' => return None,
            _ if is_escaped => is_escaped = false,
            b'\\' if quote != b'\'' => is_escaped = true,
            _ if byte == quote => return Some(place + 1),
            _ => {}
        }
    }
    None
}

/// Removes quotes and escapes from quoted text.
fn content(quoted: &str) -> String {
    let length =
        if quoted.len() >= 6 && (quoted.starts_with("\"\"\"") || quoted.starts_with("'''")) { 3 } else { 1 };
    serde_json::from_str(quoted).unwrap_or_else(|_| quoted[length..quoted.len() - length].to_owned())
}

/// A key and its value. The value may be a single word or the words in a list.
pub(super) struct Pair<'t> {
    pub(super) line: u32,
    pub(super) key: &'t str,
    pub(super) values: Vec<&'t str>,
}

impl Pair<'_> {
    /// Returns `true` if the pair has this key and switches something on.
    pub(super) fn is_on(&self, key: &str) -> bool {
        self.key.eq_ignore_ascii_case(key) && !matches!(self.values[..], ["false" | "null" | "off" | "no"])
    }

    pub(super) fn has(&self, value: &str) -> bool {
        self.values.iter().any(|known| known.eq_ignore_ascii_case(value))
    }
}

/// Returns all pairs in file order, regardless of how deeply they are nested.
pub(super) fn pairs(tokens: &[Token]) -> impl Iterator<Item = Pair<'_>> {
    let is_word =
        |token: &Token| token.is_quoted || !matches!(&*token.text, "{" | "}" | "[" | "]" | "," | ":" | "=");
    tokens.windows(2).enumerate().filter_map(move |(place, window)| {
        let [key, mark] = window else { return None };
        if !is_word(key) || !(mark.is_mark(":") || mark.is_mark("=")) {
            return None;
        }

        let rest = &tokens[place + 2..];
        let values = match rest.first() {
            Some(first) if first.is_mark("[") => {
                // Lists in this list have keys of their own. Besides, reading them more than once would take too long.
                let list = rest[1..].iter().take_while(|token| !token.is_mark("[") && !token.is_mark("]"));
                list.filter(|token| is_word(token)).map(|token| &*token.text).collect()
            }
            Some(first) if is_word(first) => vec![&*first.text],
            _ => Vec::new(),
        };

        // For example, `conditions.Role` in TOML.
        let name = if key.is_quoted { &*key.text } else { key.text.rsplit('.').next().unwrap_or(&key.text) };
        Some(Pair { line: key.line, key: name, values })
    })
}
