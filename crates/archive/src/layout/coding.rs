//! Content codings: their numbers in the file, their names in HTTP, and the suffixes of coded files.

/// Content coding of a representation (RFC 9110 §8.4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Coding {
    /// No coding.
    Identity,
    /// `gzip`, RFC 1952.
    Gzip,
    /// `br`, RFC 7932.
    Brotli,
    /// `zstd`, RFC 8878.
    Zstd,
}

impl Coding {
    /// All codings, ordered by their numbers in the file.
    pub const ALL: [Coding; 4] = [Coding::Identity, Coding::Gzip, Coding::Brotli, Coding::Zstd];

    /// All names in HTTP, the most frequent ones first.
    const NAMES: [(&'static str, Coding); 5] = [
        ("gzip", Coding::Gzip),
        ("br", Coding::Brotli),
        ("zstd", Coding::Zstd),
        ("identity", Coding::Identity),
        // Another name for `gzip` (RFC 9110 §8.4.1.3).
        ("x-gzip", Coding::Gzip),
    ];

    /// Returns the coding's name in HTTP.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Coding::Identity => "identity",
            Coding::Gzip => "gzip",
            Coding::Brotli => "br",
            Coding::Zstd => "zstd",
        }
    }

    /// Returns the coding with this name in HTTP, which may have any letter case.
    #[inline]
    #[must_use]
    pub fn from_name(name: &[u8]) -> Option<Coding> {
        let mut known = Coding::NAMES.into_iter();
        known.find(|(known, _)| name.eq_ignore_ascii_case(known.as_bytes())).map(|(_, coding)| coding)
    }

    /// Returns the suffixes of files that are coded already, such as `.gz`.
    #[must_use]
    pub const fn suffixes(self) -> &'static [&'static str] {
        match self {
            Coding::Identity => &[],
            Coding::Gzip => &[".gz", ".gzip"],
            Coding::Brotli => &[".br"],
            Coding::Zstd => &[".zst", ".zstd"],
        }
    }

    pub(super) fn decode(number: u8) -> Option<Coding> {
        Coding::ALL.get(usize::from(number)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_coding_has_its_number_and_name() {
        for (number, coding) in (0..).zip(Coding::ALL) {
            assert_eq!((coding as u8, Coding::decode(number)), (number, Some(coding)));
            assert_eq!(Coding::from_name(coding.name().to_ascii_uppercase().as_bytes()), Some(coding));
        }
        assert_eq!(Coding::from_name(b"X-Gzip"), Some(Coding::Gzip));
        assert_eq!(Coding::from_name(b"deflate"), None);
    }
}
