//! Map tiles from a seed: a workload of very many very small files.
//!
//! Real tile sets are similar: half of all tiles show only sea and are the smallest possible PNG (103 bytes), a few in cities reach
//! 32 KiB, and most contents have two or three paths. Every tile here is a valid PNG of 256 × 256 pixels. We use neither a clock
//! nor floating point: every number follows from the seed, so two machines will create the same bytes. Tests, benchmarks and `cargo
//! xtask tiles` share this.
//!
//! The shape at any count, exact in the first column and approximate in the others:
//!
//! | distinct contents | median | mean | all 250,000 tiles |
//! |---|---|---|---|
//! | two fifths of the paths | 103 B | 1.34 KiB | 328 MiB |
//!
//! In a real set, the sea repeats, whereas sizes and repetitions are independent here. To keep the number of distinct contents,
//! each blank tile has a color of its own instead.

use std::fs;
use std::io;
use std::path::Path;
use std::thread;

/// A set of tiles, determined by their number and the seed. Tiles are computed on demand and in any order.
#[derive(Debug, Clone, Copy)]
pub struct Pyramid {
    count: u64,
    seed: u64,
}

/// The number of tiles of the full workload.
pub const COUNT: u64 = 250_000;

/// The seed of the published figures.
pub const SEED: u64 = 1;

impl Pyramid {
    /// Returns a pyramid of `count` tiles.
    pub fn new(count: u64, seed: u64) -> Pyramid {
        Pyramid { count, seed }
    }

    /// Returns the number of paths.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the number of different contents: exact below 16 million, the number of colors.
    pub fn distinct(&self) -> u64 {
        (self.count * 2).div_ceil(5)
    }

    /// Returns the path of a tile, `Z/X/Y.png`. Complete zoom levels come first, and the last one may be partial. `tile` counts
    /// from 0 to `count - 1`.
    pub fn path(&self, tile: u64) -> String {
        let mut zoom = 0;
        let mut tiles_before = 0;
        while tile - tiles_before >= 1 << (2 * zoom) {
            tiles_before += 1 << (2 * zoom);
            zoom += 1;
        }
        let place = tile - tiles_before;
        let x = place >> zoom;
        let y = place & ((1 << zoom) - 1);
        format!("{zoom}/{x}/{y}.png")
    }

    /// Returns the content of a tile, from 0 to `distinct - 1`. Each content will occur at least once.
    pub fn content_of(&self, tile: u64) -> u64 {
        // Multiples of a prime that is larger than any count visit every remainder once. This way, the first occurrences of all
        // contents are distributed over the whole pyramid.
        let shuffled = (u128::from(tile) * u128::from(STEP) + u128::from(self.seed)) % u128::from(self.count);
        let shuffled = u64::try_from(shuffled).expect("a remainder is smaller than the count");
        if shuffled < self.distinct() {
            shuffled
        } else {
            Noise::new(self.seed, shuffled).below(self.distinct())
        }
    }

    /// Returns the bytes of a content: a complete PNG file.
    pub fn content(&self, content: u64) -> Vec<u8> {
        // Since the content's number is the first color of its palette, no two files will be equal.
        let [_, red, green, blue] = low_32(content ^ self.seed).to_be_bytes();
        let mut noise = Noise::new(!self.seed, content);
        match detailed_size(&mut noise) {
            None => blank_png([red, green, blue]),
            Some(bytes) => detailed_png(bytes, [red, green, blue], &mut noise),
        }
    }

    /// Writes every tile below `folder` with a thread for each processor, replacing existing files. The directory will be created
    /// if necessary. Returns the sum of all sizes, in bytes.
    pub fn write_to(&self, folder: &Path) -> io::Result<u64> {
        let threads = thread::available_parallelism()?.get() as u64;
        thread::scope(|scope| {
            let workers: Vec<_> = (0..threads)
                .map(|worker| {
                    let share = self.count * worker / threads..self.count * (worker + 1) / threads;
                    scope.spawn(move || {
                        share.map(|tile| self.write_tile(folder, tile)).sum::<io::Result<u64>>()
                    })
                })
                .collect();
            workers.into_iter().map(|worker| worker.join().expect("a worker does not panic")).sum()
        })
    }

    /// Writes one tile and returns its size in bytes.
    fn write_tile(&self, folder: &Path, tile: u64) -> io::Result<u64> {
        let path = folder.join(self.path(tile));
        let bytes = self.content(self.content_of(tile));
        let written = fs::write(&path, &bytes).or_else(|error| match (error.kind(), path.parent()) {
            (io::ErrorKind::NotFound, Some(column)) => {
                fs::create_dir_all(column)?;
                fs::write(&path, &bytes)
            }
            _ => Err(error),
        });
        written.map(|()| bytes.len() as u64)
    }
}

/// This is prime and larger than any count, so that multiples of it modulo a count visit every remainder.
const STEP: u64 = 2_305_843_009_213_693_951;

/// Returns the size of a detailed tile in bytes, or `None` for a blank one.
///
/// 55 in 100 are blank, so the median is 103 bytes. For the others, a power of two is drawn by the weights of [`OCTAVES`], and then
/// a size within it: 0.55 × 103 + 0.45 × 2,940 = 1,380 bytes on average.
fn detailed_size(noise: &mut Noise) -> Option<u64> {
    if noise.below(100) < 55 {
        return None;
    }
    let mut lot = noise.below(1000);
    for (low, weight) in OCTAVES {
        if lot < weight {
            return Some(low + noise.below(low));
        }
        lot -= weight;
    }
    None
}

/// Sizes from `.0` to twice that, and the number of detailed tiles (out of a thousand) with such a size.
const OCTAVES: [(u64, u64); 8] =
    [(128, 90), (256, 130), (512, 164), (1024, 220), (2048, 200), (4096, 120), (8192, 66), (16_384, 10)];

/// Returns a tile of one color, using the 103 bytes that every map server sends.
fn blank_png(colour: [u8; 3]) -> Vec<u8> {
    png(1, &colour, &BLANK_PIXELS)
}

/// 256 rows of 33 zero bytes in the smallest possible zlib form, using two codes of one bit each.
const BLANK_PIXELS: [u8; 31] = [
    0x78, 0xda, 0xed, 0xc1, 0x01, 0x0d, 0x00, 0x00, 0x00, 0xc2, 0xa0, 0xf7, 0x4f, 0x6d, 0x0e, 0x37, 0xa0,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xbe, 0x0d, 0x21, 0x00, 0x00, 0x01,
];

/// Returns a tile of about `size` bytes with noise in the upper rows and one color in the lower rows. The amount of noise
/// determines the size, since noise does not compress. The smallest result has 143 bytes.
fn detailed_png(size: u64, first_colour: [u8; 3], noise: &mut Noise) -> Vec<u8> {
    // With one bit per pixel, there is room for 8,448 bytes; with four bits, for 33,024.
    let (depth, colours, row) = if size < 8_000 { (1, 2, 33) } else { (4, 16, 129) };
    let mut palette = first_colour.to_vec();
    palette.extend(noise.bytes(3 * (colours - 1)));

    let raw = row * 256;
    // Bytes around the noise: 8 signature, 25 header, 12 + palette, 12 pixels, 12 end, 2 + 4 zlib, 5 stored block, and about a byte
    // in twenty for each run of 258 equal bytes.
    let around = 8 + 25 + 12 + palette.len() + 12 + 12 + 6 + 5 + raw * 13 / 8 / 258 + 3;
    let size = usize::try_from(size).expect("a size below 32 KiB");
    let noisy = size.saturating_sub(around).clamp(1, raw - 1);
    let mut pixels = noise.bytes(noisy);
    // The first byte of each row tells its filter (0 is none).
    pixels.iter_mut().step_by(row).for_each(|filter| *filter = 0);
    png(depth, &palette, &zlib(&pixels, raw - noisy))
}

/// Returns a PNG file of 256 × 256 pixels that are indices into a palette.
fn png(depth: u8, palette: &[u8], pixels: &[u8]) -> Vec<u8> {
    let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
    chunk(&mut file, *b"IHDR", &[0, 0, 1, 0, 0, 0, 1, 0, depth, 3, 0, 0, 0]);
    chunk(&mut file, *b"PLTE", palette);
    chunk(&mut file, *b"IDAT", pixels);
    chunk(&mut file, *b"IEND", &[]);
    file
}

/// Appends a chunk: length, kind, content, and the checksum of kind and content.
fn chunk(file: &mut Vec<u8>, kind: [u8; 4], content: &[u8]) {
    let length = u32::try_from(content.len()).expect("a tile is small");
    file.extend(length.to_be_bytes());
    let checked_from = file.len();
    file.extend(kind);
    file.extend(content);
    let checksum = crc32(&file[checked_from..]);
    file.extend(checksum.to_be_bytes());
}

/// Returns a zlib stream (RFC 1950) of `noisy`, stored, and `zeros` zero bytes, as repetitions.
fn zlib(noisy: &[u8], zeros: usize) -> Vec<u8> {
    let length = u16::try_from(noisy.len()).expect("a tile has less than 64 KiB");
    let mut stream = vec![0x78, 0x01];
    // A stored block that is not the last one (RFC 1951 §3.2.4).
    stream.push(0);
    stream.extend(length.to_le_bytes());
    stream.extend((!length).to_le_bytes());
    stream.extend(noisy);
    deflate_zeros(&mut stream, zeros);
    stream.extend(adler32(noisy, zeros).to_be_bytes());
    stream
}

/// Appends a last block with fixed codes (RFC 1951 §3.2.6) that unpacks to `zeros` zero bytes (at least one), using a literal
/// followed by repetitions of the byte before.
fn deflate_zeros(stream: &mut Vec<u8>, zeros: usize) {
    let mut bits = Bits { stream, pending: 0, filled: 0 };
    bits.number(0b011, 3);
    bits.code(0x30, 8);
    let mut left = zeros - 1;
    while left >= 3 {
        let length = left.min(258);
        bits.repetition(length);
        left -= length;
    }
    for _ in 0..left {
        bits.code(0x30, 8);
    }
    bits.code(0, 7);
    bits.finish();
}

/// Packs bits into bytes from the lowest bit up, as RFC 1951 §3.1.1 orders them.
struct Bits<'a> {
    stream: &'a mut Vec<u8>,
    /// Bits of the incomplete byte.
    pending: u8,
    /// Number of these bits, at most 7.
    filled: u32,
}

impl Bits<'_> {
    fn bit(&mut self, bit: bool) {
        self.pending |= u8::from(bit) << self.filled;
        self.filled += 1;
        if self.filled == 8 {
            self.stream.push(self.pending);
            self.pending = 0;
            self.filled = 0;
        }
    }

    /// Appends a number, lowest bit first.
    fn number(&mut self, value: usize, bits: u32) {
        for place in 0..bits {
            self.bit(value >> place & 1 == 1);
        }
    }

    /// Appends a Huffman code, highest bit first.
    fn code(&mut self, value: usize, bits: u32) {
        for place in (0..bits).rev() {
            self.bit(value >> place & 1 == 1);
        }
    }

    /// Appends a repetition of the previous byte, 3 to 258 times (RFC 1951 §3.2.5).
    fn repetition(&mut self, length: usize) {
        let beyond = length - 3;
        let extra = if length == 258 { 0 } else { (beyond | 1).ilog2().saturating_sub(2) };
        let symbol = match length {
            258 => 285,
            3..=10 => 254 + length,
            _ => 261 + 4 * extra as usize + (beyond >> extra & 3),
        };
        if symbol < 280 {
            self.code(symbol - 256, 7);
        } else {
            self.code(0xc0 + symbol - 280, 8);
        }
        self.number(beyond, extra);
        self.code(0, 5);
    }

    fn finish(mut self) {
        while self.filled != 0 {
            self.bit(false);
        }
    }
}

/// Computes the Adler-32 checksum (RFC 1950 §8) of `noisy`, followed by `zeros` zero bytes.
fn adler32(noisy: &[u8], zeros: usize) -> u32 {
    let mut low = 1_u64;
    let mut high = 0_u64;
    // With at most 33,024 bytes, the sums stay far below 64 bits. There is no need to reduce them on the way.
    for &byte in noisy {
        low += u64::from(byte);
        high += low;
    }
    high += low * zeros as u64;
    low_32(((high % 65_521) << 16) | (low % 65_521))
}

/// Computes the CRC-32 checksum of PNG chunks.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |sum, &byte| CRC_TABLE[usize::from(sum.to_le_bytes()[0] ^ byte)] ^ sum >> 8)
}

const CRC_TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut index: u32 = 0;
    while index < 256 {
        let mut sum = index;
        let mut bit = 0;
        while bit < 8 {
            sum = if sum & 1 == 1 { 0xedb8_8320 ^ sum >> 1 } else { sum >> 1 };
            bit += 1;
        }
        table[index as usize] = sum;
        index += 1;
    }
    table
};

/// Pseudorandom numbers from a seed (SplitMix64), the same on every machine. Not for secrets.
struct Noise {
    state: u64,
}

impl Noise {
    /// Creates the stream with this number, which differs from all other streams of the seed.
    fn new(seed: u64, stream: u64) -> Noise {
        let mut noise = Noise { state: seed };
        noise.state = noise.next().wrapping_add(stream);
        noise.state = noise.next();
        noise
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ self.state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// Returns a number below `bound`. For the bounds we use, the bias of the remainder is less than 2⁻⁴⁰.
    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(count + 8);
        while bytes.len() < count {
            bytes.extend(self.next().to_le_bytes());
        }
        bytes.truncate(count);
        bytes
    }
}

/// Returns the lowest 32 bits of a number.
fn low_32(number: u64) -> u32 {
    let [first, second, third, fourth, ..] = number.to_le_bytes();
    u32::from_le_bytes([first, second, third, fourth])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn a_small_pyramid_keeps_the_shape_of_the_large_one() {
        let pyramid = Pyramid::new(5_000, SEED);
        let tiles: Vec<_> =
            (0..pyramid.count()).map(|tile| pyramid.content(pyramid.content_of(tile))).collect();
        let mut sizes: Vec<_> = tiles.iter().map(Vec::len).collect();
        sizes.sort_unstable();
        assert_eq!(sizes[sizes.len() / 2], 103);
        let mean = sizes.iter().sum::<usize>() / sizes.len();
        assert!((1_200..1_600).contains(&mean), "mean {mean}");
        assert_eq!(tiles.iter().collect::<HashSet<_>>().len() as u64, pyramid.distinct());
    }

    #[test]
    fn paths_are_distinct_and_fill_one_zoom_level_after_the_other() {
        let pyramid = Pyramid::new(100, SEED);
        let paths: Vec<_> = (0..100).map(|tile| pyramid.path(tile)).collect();
        assert_eq!(paths[..3], ["0/0/0.png", "1/0/0.png", "1/0/1.png"]);
        assert_eq!(paths[85], "4/0/0.png");
        assert_eq!(paths.iter().collect::<HashSet<_>>().len(), 100);
    }

    #[test]
    fn bytes_are_the_same_on_every_machine() {
        let pyramid = Pyramid::new(COUNT, SEED);
        let sum = (0..200).fold(0, |sum: u32, content| sum.rotate_left(1) ^ crc32(&pyramid.content(content)));
        assert_eq!(sum, 4_000_711_149, "the published figures are for other bytes than these");
    }

    #[test]
    fn checksums_are_the_published_ones() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(b"IEND"), 0xae42_6082);
        assert_eq!(adler32(b"Wikipedia", 0), 0x11e6_0398);
        assert_eq!(adler32(&[0; 448], 8_000), adler32(&[], 8_448));
    }
}
