//! Choices made by bytes, of a seed or of a fuzzer. Missing bytes count as zero.

/// The bytes that are left.
pub(crate) struct Choices<'a> {
    data: &'a [u8],
}

impl<'a> Choices<'a> {
    pub(crate) fn new(data: &'a [u8]) -> Choices<'a> {
        Choices { data }
    }

    /// Returns the next byte, or `None` at the end.
    pub(crate) fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.data.split_first()?;
        self.data = rest;
        Some(*first)
    }

    pub(crate) fn next(&mut self) -> u8 {
        self.byte().unwrap_or(0)
    }

    /// Returns `true` once in `times` times on average.
    pub(crate) fn once_in(&mut self, times: u8) -> bool {
        self.next() % times == 1
    }

    /// Returns one of the options.
    pub(crate) fn one_of<T: Copy>(&mut self, options: &[T]) -> T {
        options[usize::from(self.next()) % options.len()]
    }

    /// Returns up to 255 bytes verbatim.
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
