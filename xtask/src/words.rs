//! The words of a command line, taken out one after the other. What nobody took is an error at the end.
//!
//! It knows no task and no flag by name.

use crate::error::Error;

/// The words not taken yet, in their order.
pub(crate) struct Words {
    left: Vec<String>,
}

impl Words {
    pub(crate) fn new(words: impl Iterator<Item = String>) -> Words {
        Words { left: words.collect() }
    }

    /// The first word left, whatever it is. Take flags before it.
    pub(crate) fn next(&mut self) -> Option<String> {
        if self.left.is_empty() { None } else { Some(self.left.remove(0)) }
    }

    /// Whether a flag stands anywhere.
    pub(crate) fn flag(&mut self, name: &str) -> bool {
        let place = self.left.iter().position(|word| word == name);
        place.map(|place| self.left.remove(place)).is_some()
    }

    /// Returns the number after a flag, or `default` if the flag is absent.
    pub(crate) fn number(&mut self, name: &str, default: u64) -> Result<u64, Error> {
        let Some(place) = self.left.iter().position(|word| word == name) else {
            return Ok(default);
        };
        self.left.remove(place);
        let number = if place < self.left.len() { self.left.remove(place) } else { String::new() };
        let wrong = |_| Error::Usage { problem: format!("{name} needs a number, got `{number}`") };
        number.parse().map_err(wrong)
    }

    /// Returns the words that are left, for another program.
    pub(crate) fn into_rest(self) -> Vec<String> {
        self.left
    }

    /// No word may be left.
    pub(crate) fn finish(self) -> Result<(), Error> {
        match self.left.first() {
            None => Ok(()),
            Some(word) => Err(Error::Usage { problem: format!("`{word}` means nothing here") }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Words {
        Words::new(line.split_whitespace().map(String::from))
    }

    #[test]
    fn flags_may_stand_before_and_after_what_they_belong_to() {
        let mut words = words("--seed 7 folder --count 9");
        assert_eq!(words.number("--count", 1).unwrap(), 9);
        assert_eq!(words.number("--seed", 1).unwrap(), 7);
        assert_eq!(words.number("--rounds", 5).unwrap(), 5);
        assert_eq!(words.next().as_deref(), Some("folder"));
        assert!(words.finish().is_ok());
    }

    #[test]
    fn a_word_that_nobody_takes_is_refused() {
        assert!(words("--wrong").finish().is_err());
        assert!(words("--count").number("--count", 1).is_err());
        assert!(words("--count many").number("--count", 1).is_err());
    }
}
