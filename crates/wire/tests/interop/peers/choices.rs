//! What happens, chosen by bytes: of a seed, or of a fuzzer.
//!
//! Never runs dry in the middle of a choice: what is not there is zero.

/// Choices that are left.
pub(crate) struct Choices<'a> {
    data: &'a [u8],
}

impl<'a> Choices<'a> {
    pub(crate) fn new(data: &'a [u8]) -> Choices<'a> {
        Choices { data }
    }

    /// The next byte; nothing at the end of all choices.
    pub(crate) fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.data.split_first()?;
        self.data = rest;
        Some(*first)
    }

    pub(crate) fn next(&mut self) -> u8 {
        self.byte().unwrap_or(0)
    }

    /// Whether something happens that does so once in so many times.
    pub(crate) fn once_in(&mut self, times: u8) -> bool {
        self.next() % times == 1
    }

    /// One of these.
    pub(crate) fn one_of<T: Copy>(&mut self, those: &[T]) -> T {
        those[usize::from(self.next()) % those.len()]
    }

    /// Bytes as they are, up to 255 of them.
    pub(crate) fn bytes(&mut self) -> &'a [u8] {
        let length = usize::from(self.next()).min(self.data.len());
        let (bytes, rest) = self.data.split_at(length);
        self.data = rest;
        bytes
    }

    pub(crate) fn number(&mut self) -> u32 {
        u32::from_be_bytes([self.next(), self.next(), self.next(), self.next()])
    }
}
