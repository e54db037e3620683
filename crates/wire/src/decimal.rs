//! Numbers in decimal digits, as heads have them.
//!
//! Never allocates.

/// The digits of the largest number.
pub(crate) const DIGITS_MAX: usize = 20;

/// Puts the digits of a number at the end of `room`, which has [`DIGITS_MAX`] bytes at least; returns where they begin.
#[inline]
pub(crate) fn put_digits(room: &mut [u8], number: u64) -> usize {
    let mut first = room.len();
    let mut rest = number;
    loop {
        first -= 1;
        room[first] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            return first;
        }
    }
}

/// The digits of a number.
pub(crate) struct Decimal {
    digits: [u8; DIGITS_MAX],
    first: usize,
}

impl Decimal {
    #[inline]
    pub(crate) fn of(number: u64) -> Decimal {
        let mut digits = [0; DIGITS_MAX];
        let first = put_digits(&mut digits, number);
        Decimal { digits, first }
    }

    #[inline]
    pub(crate) fn digits(&self) -> &[u8] {
        &self.digits[self.first..]
    }
}
