//! Tar archives in the `ustar` format (POSIX.1-2017, "pax"), with numbers instead of names of owners.

use std::io::{self, Write};

/// Headers and contents are padded to a multiple of this.
const BLOCK_BYTES: usize = 512;

/// The longest path of an entry. The format could split longer ones, but our paths are short.
const PATH_BYTES_MAX: usize = 100;

/// The types of entries.
const FILE: u8 = b'0';
const HARD_LINK: u8 = b'1';
const SYMBOLIC_LINK: u8 = b'2';
const DIRECTORY: u8 = b'5';

/// Writes entries one after the other.
pub(crate) struct Writer<W> {
    inner: W,
    /// Modification time of all entries, in seconds since 1970.
    time: u64,
}

/// Path and attributes of an entry.
#[derive(Clone, Copy)]
pub(crate) struct Attributes<'a> {
    pub(crate) path: &'a str,
    pub(crate) mode: u32,
    /// The user and the group.
    pub(crate) owner: u32,
}

impl<W: Write> Writer<W> {
    pub(crate) fn new(inner: W, time: u64) -> Writer<W> {
        Writer { inner, time }
    }

    pub(crate) fn directory(&mut self, attributes: Attributes<'_>) -> io::Result<()> {
        let path = format!("{}/", attributes.path);
        self.header(DIRECTORY, Attributes { path: &path, ..attributes }, 0, "")
    }

    pub(crate) fn link(&mut self, attributes: Attributes<'_>, target: &str) -> io::Result<()> {
        self.header(SYMBOLIC_LINK, attributes, 0, target)
    }

    /// Writes another name of a file that was written before.
    pub(crate) fn hard_link(&mut self, attributes: Attributes<'_>, file: &str) -> io::Result<()> {
        self.header(HARD_LINK, attributes, 0, file)
    }

    pub(crate) fn file(&mut self, attributes: Attributes<'_>, content: &[u8]) -> io::Result<()> {
        self.header(FILE, attributes, content.len() as u64, "")?;
        self.inner.write_all(content)?;
        let padding = content.len().next_multiple_of(BLOCK_BYTES) - content.len();
        self.inner.write_all(&[0; BLOCK_BYTES][..padding])
    }

    /// Writes the end of the archive: two empty blocks.
    pub(crate) fn finish(mut self) -> io::Result<W> {
        self.inner.write_all(&[0; 2 * BLOCK_BYTES])?;
        Ok(self.inner)
    }

    fn header(&mut self, kind: u8, attributes: Attributes<'_>, bytes: u64, target: &str) -> io::Result<()> {
        for path in [attributes.path, target] {
            if path.len() > PATH_BYTES_MAX {
                let message = format!("{path}: a path has at most {PATH_BYTES_MAX} bytes here");
                return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
            }
        }
        let mut block = [0; BLOCK_BYTES];
        block[..attributes.path.len()].copy_from_slice(attributes.path.as_bytes());
        put_number(&mut block[100..108], u64::from(attributes.mode));
        put_number(&mut block[108..116], u64::from(attributes.owner));
        put_number(&mut block[116..124], u64::from(attributes.owner));
        put_number(&mut block[124..136], bytes);
        put_number(&mut block[136..148], self.time);
        block[156] = kind;
        block[157..157 + target.len()].copy_from_slice(target.as_bytes());
        block[257..265].copy_from_slice(b"ustar\x0000");

        // The checksum counts its own field as spaces.
        block[148..156].fill(b' ');
        let sum: u64 = block.iter().map(|&byte| u64::from(byte)).sum();
        put_number(&mut block[148..155], sum);
        // Six digits, a zero byte, and the space that is there already.
        block[154] = 0;
        self.inner.write_all(&block)
    }
}

/// Writes a number as octal digits before the last byte of the field, which stays. A larger number, such as the length of a file of more than 8 GiB,
/// is written in base 256 with the highest bit set, which is GNU's extension and understood everywhere.
fn put_number(field: &mut [u8], number: u64) {
    let width = field.len() - 1;
    let digits = format!("{number:0width$o}");
    if digits.len() == width {
        field[..width].copy_from_slice(digits.as_bytes());
        return;
    }
    field.fill(0);
    let start = field.len() - size_of::<u64>();
    field[start..].copy_from_slice(&number.to_be_bytes());
    field[0] |= 0x80;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_beyond_octal_digits_are_binary() {
        let mut field = [b'x'; 12];
        put_number(&mut field, 0o77_777_777_777);
        assert_eq!(&field, b"77777777777x");
        put_number(&mut field, 1 << 33);
        assert_eq!(field, [0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0]);
    }

    #[test]
    fn checksum_ends_with_zero_byte_and_space() {
        let mut writer = Writer::new(Vec::new(), 0);
        let attributes = Attributes { path: "directory", mode: 0o755, owner: 0 };
        writer.directory(attributes).expect("memory has no errors");
        let mut block = writer.inner;
        let field: Vec<u8> = block.splice(148..156, [b' '; 8]).collect();
        let sum: u64 = block.iter().map(|&byte| u64::from(byte)).sum();
        assert_eq!(field, format!("{sum:06o}\0 ").as_bytes());
    }

    #[test]
    fn path_that_does_not_fit_is_an_error() {
        let path = "a".repeat(PATH_BYTES_MAX + 1);
        let attributes = Attributes { path: &path, mode: 0o755, owner: 0 };
        assert!(Writer::new(Vec::new(), 0).directory(attributes).is_err());
    }
}
