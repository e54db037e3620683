//! The bodies that a host is missing, as runs of ordinals: how many it has, how many it hasn't, and so on.

use crate::recipe::number::{put_number, take_number};

/// Which bodies of a recipe are missing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Missing {
    /// Pairs of counts in LEB128: bodies that the host has, and bodies after them that it hasn't.
    bytes: Vec<u8>,
}

/// The list of missing bodies is malformed, or names more bodies than the recipe has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the list of missing contents is malformed")]
pub struct MissingError;

impl Missing {
    /// Makes a list from one flag for each body.
    #[must_use]
    pub fn from_flags(flags: impl IntoIterator<Item = bool>) -> Missing {
        let mut bytes = Vec::new();
        let (mut has, mut lacks) = (0, 0);
        for is_missing in flags {
            if is_missing {
                lacks += 1;
                continue;
            }
            if lacks > 0 {
                put_number(&mut bytes, has);
                put_number(&mut bytes, lacks);
                (has, lacks) = (0, 0);
            }
            has += 1;
        }
        if lacks > 0 {
            put_number(&mut bytes, has);
            put_number(&mut bytes, lacks);
        }
        Missing { bytes }
    }

    /// Takes a list that was received.
    #[must_use]
    pub fn from_bytes(bytes: Vec<u8>) -> Missing {
        Missing { bytes }
    }

    /// Returns the list, for sending it.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns one flag for each of `count` bodies.
    ///
    /// # Errors
    /// Returns [`MissingError`] if the list names more bodies.
    pub fn flags(&self, count: usize) -> Result<Vec<bool>, MissingError> {
        let mut flags = Vec::with_capacity(count);
        let mut rest = self.bytes.as_slice();
        while !rest.is_empty() {
            for is_missing in [false, true] {
                let run = take_number(&mut rest).and_then(|run| usize::try_from(run).ok());
                let run = run.filter(|run| *run <= count - flags.len()).ok_or(MissingError)?;
                flags.resize(flags.len() + run, is_missing);
            }
        }
        flags.resize(count, false);
        Ok(flags)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_read_as_written() {
        for bits in 0..256_u32 {
            let flags: Vec<bool> = (0..8).map(|bit| bits >> bit & 1 == 1).collect();
            let missing = Missing::from_flags(flags.clone());
            assert_eq!(missing.flags(8), Ok(flags));
        }
        assert_eq!(Missing::default().flags(3), Ok(vec![false; 3]));
    }

    #[test]
    fn more_bodies_than_there_are_is_refused() {
        assert_eq!(Missing::from_flags([true; 5]).flags(4), Err(MissingError));
        let huge = Missing::from_bytes(vec![0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 1]);
        assert_eq!(huge.flags(4), Err(MissingError));
        assert_eq!(Missing::from_bytes(vec![1]).flags(4), Err(MissingError));
    }
}
