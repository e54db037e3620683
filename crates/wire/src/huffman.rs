//! The Huffman code of RFC 7541 appendix B, which HTTP/2 spells strings in, and HTTP/3 too.
//!
//! The code is canonical: the lengths say it all, and the tables below are made of them while compiling. Never
//! knows what it spells, and reads and writes in time linear in the coded bytes.

/// How many bits each byte takes; the last one is the end of the string, which never stands in one.
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
const END: u16 = 256;
const LENGTH_MAX: u32 = 30;
/// How many lengths there could be, with 0.
const LENGTH_COUNT: usize = LENGTH_MAX as usize + 1;

/// The bytes are no string in this code: the end stands in them, or what fills the last byte is too long or not
/// the end's beginning (RFC 7541 §5.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Invalid;

/// Appends the string that these bytes spell: at most eight bytes for each five.
///
/// # Errors
///
/// The peer's fault. What was appended up to there is worth nothing.
pub fn decode(coded: &[u8], out: &mut Vec<u8>) -> Result<(), Invalid> {
    let start = out.len();
    // No symbol is shorter than five bits.
    out.resize(start + coded.len() * 8 / 5, 0);
    let mut bits = Bits { window: 0, count: 0 };
    let (mut rest, mut at) = (coded, start);
    while !rest.is_empty() {
        rest = bits.fill(rest);
        // As long as there are so many, the next symbol is whole.
        while bits.count >= LENGTH_MAX {
            let (symbol, length) = bits.symbol();
            bits.drop(length);
            put(out, &mut at, symbol)?;
        }
    }
    bits.fill_with_ones();
    // RFC 7541 §5.2: what fills the last byte is less than a byte of ones, which no symbol is short enough for.
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

/// Puts a byte into the room for it; the end of the string is none.
#[inline]
fn put(out: &mut [u8], at: &mut usize, symbol: u16) -> Result<(), Invalid> {
    let (Ok(byte), Some(place)) = (u8::try_from(symbol), out.get_mut(*at)) else { return Err(Invalid) };
    *place = byte;
    *at += 1;
    Ok(())
}

/// The next bits of a string, from the highest down.
struct Bits {
    /// Behind those that count may stand some of those that follow.
    window: u64,
    count: u32,
}

impl Bits {
    /// Takes as many bytes as there is room for, or as there are; gives back the others.
    #[inline]
    fn fill<'c>(&mut self, coded: &'c [u8]) -> &'c [u8] {
        let Some(word) = coded.first_chunk() else { return self.fill_from_few(coded) };
        // Bits of a byte that is not taken whole are read once more with the next word, and are the same then.
        self.window |= u64::from_be_bytes(*word) >> self.count;
        let bytes = (63 - self.count) / 8;
        self.count += bytes * 8;
        &coded[bytes as usize..]
    }

    fn fill_from_few<'c>(&mut self, mut coded: &'c [u8]) -> &'c [u8] {
        while self.count < 56
            && let Some((byte, behind)) = coded.split_first()
        {
            self.window |= u64::from(*byte) << (56 - self.count);
            self.count += 8;
            coded = behind;
        }
        coded
    }

    /// Puts ones behind the last bit, as if the end followed.
    fn fill_with_ones(&mut self) {
        self.window |= u64::MAX >> self.count;
    }

    /// The symbol that these bits begin with, and its length.
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

    fn drop_before_ones(&mut self, bits: u32) {
        self.window = !(!self.window << bits);
        self.count -= bits;
    }
}

#[cold]
fn long_symbol(window: u32) -> (u16, u32) {
    // The longest codes end where all bits are ones: beyond them is nothing.
    let is_in = |length: &u32| window < CANON.limits[*length as usize];
    let length = (SHORT_BITS + 1..LENGTH_MAX).find(is_in).unwrap_or(LENGTH_MAX);
    let row = length as usize;
    let place = u32::from(CANON.places[row]) + (window >> (32 - length)) - CANON.firsts[row];
    (CANON.symbols[place as usize], length)
}

/// How many bytes this string takes in the code.
#[must_use]
pub fn encoded_bytes(string: &[u8]) -> usize {
    string.iter().map(|byte| usize::from(LENGTHS[usize::from(*byte)])).sum::<usize>().div_ceil(8)
}

/// Appends a string in the code.
pub fn encode(string: &[u8], out: &mut Vec<u8>) {
    out.reserve(encoded_bytes(string));
    // `bits` bits are waiting, lowest; never more than 7 + 30.
    let (mut waiting, mut bits) = (0_u64, 0);
    for byte in string {
        let length = LENGTHS[usize::from(*byte)];
        waiting = waiting << length | u64::from(CODES[usize::from(*byte)]);
        bits += u32::from(length);
        while bits >= 8 {
            bits -= 8;
            out.push((waiting >> bits).to_le_bytes()[0]);
        }
    }
    if bits > 0 {
        // RFC 7541 §5.2: filled with the beginning of the end, which is all ones.
        out.push((waiting << (8 - bits) | 0xff >> bits).to_le_bytes()[0]);
    }
}

/// The symbols in the order of their codes, by length.
struct Canon {
    symbols: [u16; SYMBOLS],
    /// For each length: how many codes have it, the first of them, where its symbol stands, and the first 32 bits that
    /// are beyond the last of them.
    counts: [u32; LENGTH_COUNT],
    firsts: [u32; LENGTH_COUNT],
    places: [u16; LENGTH_COUNT],
    limits: [u32; LENGTH_COUNT],
}

static CANON: Canon = Canon::new();

impl Canon {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "no more than 257 symbols and 2^30 codes; of the one limit that \
        does not fit, which is 2^32, the beginning is never asked for"
    )]
    const fn new() -> Canon {
        let mut canon = Canon {
            symbols: [END; SYMBOLS],
            counts: [0; LENGTH_COUNT],
            firsts: [0; LENGTH_COUNT],
            places: [0; LENGTH_COUNT],
            limits: [0; LENGTH_COUNT],
        };
        let (mut code, mut place, mut length) = (0_u64, 0, 1);
        while length < LENGTH_COUNT {
            code <<= 1;
            canon.firsts[length] = code as u32;
            canon.places[length] = place as u16;
            let mut symbol = 0;
            while symbol < SYMBOLS {
                if LENGTHS[symbol] as usize == length {
                    canon.symbols[place] = symbol as u16;
                    canon.counts[length] += 1;
                    place += 1;
                    code += 1;
                }
                symbol += 1;
            }
            canon.limits[length] = (code << (32 - length)) as u32;
            length += 1;
        }
        assert!(code == 1 << LENGTH_MAX, "a complete code");
        canon
    }
}

/// The code of each byte, in its lowest bits.
static CODES: [u32; SYMBOLS] = {
    let canon = Canon::new();
    let mut codes = [0; SYMBOLS];
    let mut length = 1;
    while length < LENGTH_COUNT {
        let mut nth = 0;
        while nth < canon.counts[length] {
            let symbol = canon.symbols[canon.places[length] as usize + nth as usize];
            codes[symbol as usize] = canon.firsts[length] + nth;
            nth += 1;
        }
        length += 1;
    }
    codes
};

/// Bits that are looked up at once: nearly all letters that fields are made of take no more.
const SHORT_BITS: u32 = 10;

/// For the next bits the byte that they begin with, and its length; 0 if it has more.
static SHORT: [[u8; 2]; 1 << SHORT_BITS] = {
    let mut table = [[0; 2]; 1 << SHORT_BITS];
    let mut byte = 0;
    while byte < END {
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
