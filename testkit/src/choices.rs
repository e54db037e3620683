//! Choices that the bytes of a seed or of a fuzzer determine.

/// Choices that bytes determine, in order. Missing bytes count as zero.
#[derive(Debug)]
pub struct Choices<'a> {
    data: &'a [u8],
}

impl<'a> Choices<'a> {
    /// Returns the choices that these bytes determine.
    #[must_use]
    pub fn new(data: &'a [u8]) -> Choices<'a> {
        Choices { data }
    }

    /// Returns the byte that chooses the next operation, or `None` at the end.
    pub fn operation(&mut self) -> Option<u8> {
        let (first, rest) = self.data.split_first()?;
        self.data = rest;
        Some(*first)
    }

    /// Returns the next byte.
    pub fn byte(&mut self) -> u8 {
        self.operation().unwrap_or(0)
    }

    /// Returns `true` once in `times` times on average.
    pub fn once_in(&mut self, times: u8) -> bool {
        self.byte() % times == 1
    }

    /// Returns one of the options.
    pub fn one_of<T: Copy>(&mut self, options: &[T]) -> T {
        options[usize::from(self.byte()) % options.len()]
    }

    /// Returns up to 255 bytes verbatim.
    pub fn bytes(&mut self) -> &'a [u8] {
        let length = usize::from(self.byte()).min(self.data.len());
        let (bytes, rest) = self.data.split_at(length);
        self.data = rest;
        bytes
    }

    /// Returns a number of four bytes.
    pub fn number(&mut self) -> u32 {
        u32::from_be_bytes([self.byte(), self.byte(), self.byte(), self.byte()])
    }
}
