//! The arguments of a command line. A task removes the ones it knows; any left at the end is an error.

use crate::error::Error;

/// The remaining arguments, in order.
pub(crate) struct Words {
    left: Vec<String>,
}

impl Words {
    pub(crate) fn new(words: impl Iterator<Item = String>) -> Words {
        Words { left: words.collect() }
    }

    /// Removes and returns the first argument. Take flags before it.
    pub(crate) fn next(&mut self) -> Option<String> {
        if self.left.is_empty() { None } else { Some(self.left.remove(0)) }
    }

    /// Removes and returns a flag, wherever it is.
    pub(crate) fn take(&mut self, flag: &str) -> Option<String> {
        let position = self.left.iter().position(|word| word == flag)?;
        Some(self.left.remove(position))
    }

    /// Removes a flag with its value, or returns `None` if the flag is absent.
    pub(crate) fn value(&mut self, name: &str) -> Result<Option<String>, Error> {
        let Some(position) = self.left.iter().position(|word| word == name) else {
            return Ok(None);
        };
        self.left.remove(position);
        if position == self.left.len() {
            return Err(Error::Usage { problem: format!("{name} needs a value") });
        }
        Ok(Some(self.left.remove(position)))
    }

    /// Returns the number after a flag, or `default` if the flag is absent.
    pub(crate) fn number(&mut self, name: &str, default: u64) -> Result<u64, Error> {
        let Some(position) = self.left.iter().position(|word| word == name) else {
            return Ok(default);
        };
        self.left.remove(position);
        let number = if position < self.left.len() { self.left.remove(position) } else { String::new() };
        let wrong = |_| Error::Usage { problem: format!("{name} needs a number, got `{number}`") };
        number.parse().map_err(wrong)
    }

    /// Returns the remaining arguments, for another program.
    pub(crate) fn into_rest(self) -> Vec<String> {
        self.left
    }

    /// Ends the parsing.
    ///
    /// # Errors
    ///
    /// Returns an error if an argument is left.
    pub(crate) fn finish(self) -> Result<(), Error> {
        match self.left.first() {
            None => Ok(()),
            Some(word) => Err(Error::Usage { problem: format!("unexpected argument `{word}`") }),
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
    fn flags_may_be_anywhere() {
        let mut words = words("--seed 7 folder --count 9");
        assert_eq!(words.number("--count", 1).unwrap(), 9);
        assert_eq!(words.number("--seed", 1).unwrap(), 7);
        assert_eq!(words.number("--rounds", 5).unwrap(), 5);
        assert_eq!(words.next().as_deref(), Some("folder"));
        assert!(words.finish().is_ok());
    }

    #[test]
    fn flags_with_values_may_be_repeated() {
        let mut words = words("--target a --check --target b");
        assert_eq!(words.value("--target").unwrap().as_deref(), Some("a"));
        assert_eq!(words.value("--target").unwrap().as_deref(), Some("b"));
        assert_eq!(words.value("--target").unwrap(), None);
        assert!(words.take("--check").is_some() && words.finish().is_ok());
    }

    #[test]
    fn unexpected_argument_is_an_error() {
        assert!(words("--wrong").finish().is_err());
        assert!(words("--count").number("--count", 1).is_err());
        assert!(words("--target").value("--target").is_err());
        assert!(words("--count many").number("--count", 1).is_err());
    }
}
