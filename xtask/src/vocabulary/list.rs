//! The list of terms: parses `xtask/vocabulary.txt` and finds its terms in prose and identifiers.

use std::collections::{BTreeMap, BTreeSet};

/// Terms, exceptions and paths.
#[derive(Debug, Default)]
pub(super) struct List {
    /// Terms for prose and identifiers, by the first word.
    prose: Terms,
    /// Terms for identifiers only, by the first word.
    identifiers: Terms,
    /// Terms that start a sentence that isn't a question, by the first word.
    openings: Terms,
    exceptions: Vec<Exception>,
    /// Paths that aren't held to the list yet, with their line in the list.
    deferred: Vec<(usize, String)>,
    /// Paths that are never searched.
    skipped: Vec<String>,
}

/// Terms that start with the same word, by that word.
type Terms = BTreeMap<String, Vec<Term>>;

#[derive(Debug)]
struct Term {
    /// As the list writes it.
    text: String,
    words: Vec<String>,
    instead: String,
}

/// A term that one file or directory may use.
#[derive(Debug)]
struct Exception {
    line: usize,
    path: String,
    term: String,
}

/// A word of prose in lower case, with its offset and whether a sentence starts with it.
struct Word {
    text: String,
    offset: usize,
    is_opening: bool,
}

impl AsRef<str> for Word {
    fn as_ref(&self) -> &str {
        &self.text
    }
}

impl List {
    /// Parses the list.
    ///
    /// # Errors
    ///
    /// Returns the number of the first line that can't be parsed, starting at 1.
    pub(super) fn parse(text: &str) -> Result<List, usize> {
        let mut list = List::default();
        let mut section = "";
        for (number, line) in (1..).zip(text.lines()) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
                section = name;
                continue;
            }
            list.add(section, number, line).ok_or(number)?;
        }
        Ok(list)
    }

    /// Adds one line of a section. Returns `None` if the line doesn't fit the section.
    fn add(&mut self, section: &str, number: usize, line: &str) -> Option<()> {
        match section {
            "prose" => add_term(&mut self.prose, line),
            "identifiers" => add_term(&mut self.identifiers, line),
            "openings" => add_term(&mut self.openings, line),
            "exceptions" => {
                let (path, rest) = line.split_once(": ")?;
                let (term, _reason) = rest.split_once(": ")?;
                self.exceptions.push(Exception { line: number, path: path.into(), term: term.into() });
                Some(())
            }
            "deferred" => {
                self.deferred.push((number, line.into()));
                Some(())
            }
            "skipped" => {
                self.skipped.push(line.into());
                Some(())
            }
            _ => None,
        }
    }

    /// Calls `found` with the offset, the term and its replacement for each listed term in `text`.
    pub(super) fn find_in_prose<'a>(&'a self, text: &str, found: &mut dyn FnMut(usize, (&'a str, &'a str))) {
        let words = words(text);
        for (place, word) in words.iter().enumerate() {
            if let Some(term) = find_term(&self.prose, &words[place..]) {
                found(word.offset, (&term.text, &term.instead));
            }
            if word.is_opening
                && !is_question(&text[word.offset..])
                && let Some(term) = find_term(&self.openings, &words[place..])
            {
                found(word.offset, (&term.text, &term.instead));
            }
        }
    }

    /// Calls `found` with the term and its replacement for each listed term among the words of an identifier.
    pub(super) fn find_in_identifier<'a>(
        &'a self,
        words: &[String],
        found: &mut dyn FnMut((&'a str, &'a str)),
    ) {
        for place in 0..words.len() {
            for terms in [&self.identifiers, &self.prose] {
                if let Some(term) = find_term(terms, &words[place..]) {
                    found((&term.text, &term.instead));
                }
            }
        }
    }

    /// Returns whether the search leaves a path out.
    pub(super) fn is_skipped(&self, path: &str) -> bool {
        self.skipped.iter().any(|skipped| is_below(path, skipped))
    }

    /// Returns the line of the exception that allows a term in a file.
    pub(super) fn exception_for(&self, path: &str, term: &str) -> Option<usize> {
        let covers = |exception: &&Exception| exception.term == term && is_below(path, &exception.path);
        self.exceptions.iter().find(covers).map(|exception| exception.line)
    }

    /// Returns the line of the deferred path that covers a file.
    pub(super) fn deferral_for(&self, path: &str) -> Option<usize> {
        self.deferred.iter().find(|(_, deferred)| is_below(path, deferred)).map(|(line, _)| *line)
    }

    /// Returns the lines of exceptions that no finding has used.
    pub(super) fn unused_exceptions(&self, used: &BTreeSet<usize>) -> impl Iterator<Item = usize> {
        self.exceptions.iter().map(|exception| exception.line).filter(|line| !used.contains(line))
    }

    /// Returns the lines of deferred paths that have no finding.
    pub(super) fn unused_deferrals(&self, used: &BTreeSet<usize>) -> impl Iterator<Item = usize> {
        self.deferred.iter().map(|(line, _)| *line).filter(|line| !used.contains(line))
    }
}

/// Adds `TERM -> INSTEAD`, or several terms with the same replacement, separated by commas.
fn add_term(terms: &mut Terms, line: &str) -> Option<()> {
    let (names, instead) = line.split_once(" -> ")?;
    for text in names.split(", ") {
        let words: Vec<String> = text.to_lowercase().split(' ').map(String::from).collect();
        let term = Term { text: text.into(), words, instead: instead.into() };
        terms.entry(term.words[0].clone()).or_default().push(term);
    }
    Some(())
}

/// Returns the term at the start of `words`.
fn find_term<'a>(terms: &'a Terms, words: &[impl AsRef<str>]) -> Option<&'a Term> {
    let matches = |term: &&Term| {
        let is_long_enough = term.words.len() <= words.len();
        is_long_enough && term.words.iter().zip(words).all(|(expected, word)| expected == word.as_ref())
    };
    terms.get(words.first()?.as_ref())?.iter().find(matches)
}

/// Splits text into words in lower case. A sentence starts after `.`, `!`, `?` or `:`, and at each paragraph.
fn words(text: &str) -> Vec<Word> {
    let mut words = Vec::new();
    let mut starts_sentence = true;
    let mut start = None;
    for (offset, letter) in text.char_indices().chain([(text.len(), ' ')]) {
        let is_part = letter.is_alphabetic() || (start.is_some() && matches!(letter, '\'' | '-'));
        match (start, is_part) {
            (None, true) => start = Some(offset),
            (Some(first), false) => {
                let word = &text[first..offset];
                let is_opening = starts_sentence && word.starts_with(char::is_uppercase);
                words.push(Word { text: word.to_lowercase(), offset: first, is_opening });
                (start, starts_sentence) = (None, false);
            }
            _ => {}
        }

        if matches!(letter, '.' | '!' | '?' | ':' | '\u{2029}') {
            starts_sentence = true;
        }
    }

    words
}

/// Returns whether the first sentence of `text` ends with a question mark.
fn is_question(text: &str) -> bool {
    text.find(['.', '!', '?', '\u{2029}']).is_some_and(|end| text[end..].starts_with('?'))
}

/// Returns whether `path` is `ancestor` or below it.
fn is_below(path: &str, ancestor: &str) -> bool {
    path.strip_prefix(ancestor).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
