//! The Huffman code of HPACK strings (RFC 7541 appendix B).
//!
//! This code is canonical: it only depends on the lengths of the symbols. We use this to compute all tables at compile time.
//! Encoding and decoding take linear time.

use std::ops::Range;

/// Code length for each byte, in bits. The last one is for the end of a string (EOS), which MUST NOT occur in strings.
const LENGTHS: [u8; SYMBOLS] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, //
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28, //
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, //
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, //
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, //
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, //
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, //
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, //
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, //
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, //
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, //
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23, //
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, //
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, //
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, //
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, //
    30,
];

const SYMBOLS: usize = 257;
const EOS: u16 = 256;
const LENGTH_MAX: u32 = 30;
/// Number of different lengths, including 0.
const LENGTH_COUNT: usize = LENGTH_MAX as usize + 1;

/// The bytes contain EOS, or the padding of the last byte is too long or is not the start of EOS (RFC 7541 §5.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Invalid;

/// A decoded string.
pub(crate) enum Text<'a> {
    /// It was sent without the Huffman code.
    Plain(&'a [u8]),
    /// The string is in a temporary buffer. We can only keep its range, because the buffer may still be reallocated.
    Decoded(Range<usize>),
}

impl<'a> Text<'a> {
    /// Decodes a string. Uses `strings` as a temporary buffer.
    #[inline]
    pub(crate) fn decode(
        bytes: &'a [u8],
        is_coded: bool,
        strings: &mut Vec<u8>,
    ) -> Result<Text<'a>, Invalid> {
        if !is_coded {
            return Ok(Text::Plain(bytes));
        }

        let start = strings.len();
        decode(bytes, strings)?;
        Ok(Text::Decoded(start..strings.len()))
    }

    #[inline]
    pub(crate) fn resolve(self, strings: &'a [u8]) -> &'a [u8] {
        match self {
            Text::Plain(bytes) => bytes,
            Text::Decoded(range) => &strings[range],
        }
    }
}

/// Decodes a string and appends it. Five bytes will decode to at most eight.
///
/// # Errors
/// Invalid bytes are the peer's fault. Note that some bytes may have been appended already and should be ignored.
pub fn decode(coded: &[u8], out: &mut Vec<u8>) -> Result<(), Invalid> {
    let start = out.len();
    // Each symbol has at least five bits.
    out.resize(start + coded.len() * 8 / 5, 0);

    let mut bits = Bits { window: 0, count: 0 };
    let mut rest = coded;
    let mut at = start;
    while !rest.is_empty() {
        rest = bits.fill(rest);
        // We have enough bits for any symbol.
        while bits.count >= LENGTH_MAX {
            let (symbol, length) = bits.symbol();
            bits.drop(length);
            put(out, &mut at, symbol)?;
        }
    }

    // Padding is shorter than a byte and only has ones (RFC 7541 §5.2). Symbols of ones are longer, so we can't confuse them.
    bits.fill_with_ones();
    while !(bits.count < 8 && bits.window == u64::MAX) {
        let (symbol, length) = bits.symbol();
        if length > bits.count {
            return Err(Invalid);
        }
        bits.drop_before_ones(length);
        put(out, &mut at, symbol)?;
    }

    out.truncate(at);
    Ok(())
}

/// Stores a byte. If it is EOS, returns an error.
#[inline]
fn put(out: &mut [u8], at: &mut usize, symbol: u16) -> Result<(), Invalid> {
    let (Ok(byte), Some(place)) = (u8::try_from(symbol), out.get_mut(*at)) else { return Err(Invalid) };
    *place = byte;
    *at += 1;
    Ok(())
}

/// The next bits of a string, with the highest bit first.
struct Bits {
    /// Starts with `count` bits, which may be followed by some of the bits that come next.
    window: u64,
    count: u32,
}

impl Bits {
    /// Loads as many bytes as possible. Returns the rest.
    #[inline]
    fn fill<'c>(&mut self, coded: &'c [u8]) -> &'c [u8] {
        let Some(word) = coded.first_chunk() else { return self.fill_from_few(coded) };
        // If a byte does not fit completely, we load some of its bits now and again with the next word. They do not change.
        self.window |= u64::from_be_bytes(*word) >> self.count;
        let bytes = (63 - self.count) / 8;
        self.count += bytes * 8;
        &coded[bytes as usize..]
    }

    fn fill_from_few<'c>(&mut self, mut coded: &'c [u8]) -> &'c [u8] {
        while self.count < 56
            && let Some((byte, after)) = coded.split_first()
        {
            self.window |= u64::from(*byte) << (56 - self.count);
            self.count += 8;
            coded = after;
        }
        coded
    }

    /// Fills all remaining bits with ones, like EOS would.
    fn fill_with_ones(&mut self) {
        self.window |= u64::MAX >> self.count;
    }

    /// Returns the symbol at the start of the bits, and the length of its code.
    #[inline]
    fn symbol(&self) -> (u16, u32) {
        let [byte, length] = SHORT[(self.window >> (64 - SHORT_BITS)) as usize];
        if length == 0 { long_symbol((self.window >> 32) as u32) } else { (byte.into(), length.into()) }
    }

    #[inline]
    fn drop(&mut self, bits: u32) {
        self.window <<= bits;
        self.count -= bits;
    }

    /// Removes bits. Makes sure that there are still ones after the last bit.
    fn drop_before_ones(&mut self, bits: u32) {
        self.window = !(!self.window << bits);
        self.count -= bits;
    }
}

/// Returns the symbol at the start of 32 bits and its number of bits. It must be longer than [`SHORT_BITS`].
#[cold]
fn long_symbol(window: u32) -> (u16, u32) {
    // The longest codes don't need a limit because they go up to all ones.
    let is_in = |length: &u32| window < CANON.limits[*length as usize];
    let length = (SHORT_BITS + 1..LENGTH_MAX).find(is_in).unwrap_or(LENGTH_MAX);

    let row = length as usize;
    let position = u32::from(CANON.starts[row]) + (window >> (32 - length)) - CANON.firsts[row];
    (CANON.symbols[position as usize], length)
}

/// Returns the encoded length of a string, in bytes.
#[must_use]
pub fn encoded_bytes(string: &[u8]) -> usize {
    string.iter().map(|byte| usize::from(LENGTHS[usize::from(*byte)])).sum::<usize>().div_ceil(8)
}

/// Encodes a string and appends it.
pub fn encode(string: &[u8], out: &mut Vec<u8>) {
    out.reserve(encoded_bytes(string));
    // The lowest `bits` bits of `pending` have not been written yet. There may be up to 7 + 30 of them.
    let mut pending = 0_u64;
    let mut bits = 0;

    for byte in string {
        let length = LENGTHS[usize::from(*byte)];
        pending = pending << length | u64::from(CODES[usize::from(*byte)]);
        bits += u32::from(length);
        while bits >= 8 {
            bits -= 8;
            out.push((pending >> bits).to_le_bytes()[0]);
        }
    }

    if bits > 0 {
        // Add padding, using the start of EOS, which only has ones (RFC 7541 §5.2).
        out.push((pending << (8 - bits) | 0xff >> bits).to_le_bytes()[0]);
    }
}

/// The canonical code. Symbols are in the order of their codes.
struct Canon {
    symbols: [u16; SYMBOLS],
    /// The number of codes of each length.
    counts: [u32; LENGTH_COUNT],
    /// For each length, the first code.
    firsts: [u32; LENGTH_COUNT],
    /// For each length, the position of the first symbol in `symbols`.
    starts: [u16; LENGTH_COUNT],
    /// End of the codes of each length, exclusive and left-aligned in 32 bits.
    limits: [u32; LENGTH_COUNT],
}

static CANON: Canon = Canon::new();

impl Canon {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "at most 257 symbols and 2^30 codes; the one limit that \
        doesn't fit, 2^32, is never used"
    )]
    const fn new() -> Canon {
        let mut canon = Canon {
            symbols: [EOS; SYMBOLS],
            counts: [0; LENGTH_COUNT],
            firsts: [0; LENGTH_COUNT],
            starts: [0; LENGTH_COUNT],
            limits: [0; LENGTH_COUNT],
        };

        let mut code = 0_u64;
        let mut position = 0;
        let mut length = 1;
        while length < LENGTH_COUNT {
            code <<= 1;
            canon.firsts[length] = code as u32;
            canon.starts[length] = position as u16;

            let mut symbol = 0;
            while symbol < SYMBOLS {
                if LENGTHS[symbol] as usize == length {
                    canon.symbols[position] = symbol as u16;
                    canon.counts[length] += 1;
                    position += 1;
                    code += 1;
                }
                symbol += 1;
            }

            canon.limits[length] = (code << (32 - length)) as u32;
            length += 1;
        }

        assert!(code == 1 << LENGTH_MAX, "the code must be complete");
        canon
    }
}

/// The code of each symbol, in the lowest bits.
static CODES: [u32; SYMBOLS] = {
    let canon = Canon::new();
    let mut codes = [0; SYMBOLS];
    let mut length = 1;
    while length < LENGTH_COUNT {
        let mut nth = 0;
        while nth < canon.counts[length] {
            let symbol = canon.symbols[canon.starts[length] as usize + nth as usize];
            codes[symbol as usize] = canon.firsts[length] + nth;
            nth += 1;
        }
        length += 1;
    }
    codes
};

/// Number of bits to look up at once. Nearly all bytes in fields have codes that are not longer.
const SHORT_BITS: u32 = 10;

/// For each combination of the next bits, the byte they start with and the length of its code, or 0 if the code has more bits.
static SHORT: [[u8; 2]; 1 << SHORT_BITS] = {
    let mut table = [[0; 2]; 1 << SHORT_BITS];
    let mut byte = 0;
    while byte < EOS {
        let length = LENGTHS[byte as usize] as u32;
        if length <= SHORT_BITS {
            let first = (CODES[byte as usize] << (SHORT_BITS - length)) as usize;
            let mut at = first;
            while at < first + (1 << (SHORT_BITS - length)) {
                table[at] = [byte.to_le_bytes()[0], LENGTHS[byte as usize]];
                at += 1;
            }
        }
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests;
