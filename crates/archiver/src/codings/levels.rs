//! The level that is chosen for each encoder.

use super::encoder::Encoder;

/// The level of each encoder.
///
/// A build runs only once, but its output will be sent many times. Therefore, the defaults are the highest levels that use
/// a reasonable amount of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Levels([i32; Encoder::ALL.len()]);

impl Default for Levels {
    fn default() -> Levels {
        Levels(Encoder::ALL.map(|encoder| encoder.facts().levels.1))
    }
}

impl Levels {
    /// Selects the default level.
    pub const DEFAULT_WORD: i32 = -1;
    /// Selects the highest level.
    pub const EXTREME_WORD: i32 = -2;

    /// Returns the level of `encoder`, which is always in its range.
    #[must_use]
    pub const fn of(&self, encoder: Encoder) -> i32 {
        self.0[encoder as usize]
    }

    /// Sets the level of `encoder`, which may be [`Self::DEFAULT_WORD`] or [`Self::EXTREME_WORD`].
    ///
    /// # Errors
    ///
    /// Returns an error if the encoder does not have this level. The old level will be kept.
    pub fn set(&mut self, encoder: Encoder, level: i32) -> Result<(), LevelError> {
        let (lowest, default, highest) = encoder.facts().levels;
        self.0[encoder as usize] = match level {
            Levels::DEFAULT_WORD => default,
            Levels::EXTREME_WORD => highest,
            level if encoder == Encoder::Identity || (lowest..=highest).contains(&level) => level,
            got => return Err(LevelError { encoder: encoder.name(), lowest, highest, got }),
        };
        Ok(())
    }
}

/// The encoder does not have this level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{encoder} has levels {lowest} to {highest} (or -1 for the default, -2 for the highest), not {got}")]
pub struct LevelError {
    /// Name of the encoder.
    pub encoder: &'static str,
    /// Lowest level of the encoder.
    pub lowest: i32,
    /// Highest level of the encoder.
    pub highest: i32,
    /// The requested level.
    pub got: i32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_levels_are_default_and_highest() {
        let mut levels = Levels::default();
        levels.set(Encoder::Gzip, 3).unwrap();
        assert_eq!(levels.of(Encoder::Gzip), 3);
        levels.set(Encoder::Gzip, -1).unwrap();
        assert_eq!(levels.of(Encoder::Gzip), 12);
        levels.set(Encoder::Zstd, -2).unwrap();
        assert_eq!(levels.of(Encoder::Zstd), 22);
    }

    #[test]
    fn level_out_of_range_is_rejected() {
        let mut levels = Levels::default();
        let error = levels.set(Encoder::Brotli, 12).unwrap_err();
        assert_eq!((error.lowest, error.highest, error.got), (0, 11, 12));
        assert_eq!(levels, Levels::default());
        assert!(levels.set(Encoder::Zopfli, 0).is_err());
        assert!(levels.set(Encoder::Gzip, -3).is_err());
    }

    #[test]
    fn encoders_index_their_levels() {
        for (place, encoder) in Encoder::ALL.into_iter().enumerate() {
            assert_eq!(encoder as usize, place, "{}", encoder.name());
        }
    }
}
