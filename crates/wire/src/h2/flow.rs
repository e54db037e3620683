//! Windows (RFC 9113 §5.2, §6.9): how much content the peer has room for.
//!
//! A window can be below zero, after the peer has made all of them smaller; it can never be above 2^31-1.

/// The window that streams and connection begin with, in both directions (RFC 9113 §6.9.2).
pub(super) const WINDOW_BYTES: u32 = 65_535;

/// The largest window that there is (RFC 9113 §6.9.1).
pub(super) const WINDOW_BYTES_MAX: u32 = 0x7fff_ffff;

/// So much content the peer has room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Window(i32);

/// The window would be larger than there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooLarge;

impl Window {
    /// A window of so many bytes, at most [`WINDOW_BYTES_MAX`].
    pub(super) fn new(bytes: u32) -> Window {
        Window(i32::try_from(bytes).unwrap_or(i32::MAX))
    }

    /// How much may be sent.
    #[inline]
    pub(super) fn bytes(self) -> u32 {
        u32::try_from(self.0).unwrap_or(0)
    }

    /// So many bytes were sent, which is no more than [`Window::bytes`].
    #[inline]
    pub(super) fn take(&mut self, bytes: u32) {
        debug_assert!(bytes <= self.bytes(), "{bytes} from {self:?}");
        self.0 = self.0.saturating_sub_unsigned(bytes);
    }

    /// The peer has room for so many bytes more.
    pub(super) fn widen(&mut self, bytes: u32) -> Result<(), TooLarge> {
        self.0 = self.0.checked_add_unsigned(bytes).ok_or(TooLarge)?;
        Ok(())
    }

    /// The peer has changed the window that streams begin with, which changes those that there are by as much
    /// (RFC 9113 §6.9.2).
    pub(super) fn shift(&mut self, before: u32, after: u32) -> Result<(), TooLarge> {
        let shifted = i64::from(self.0) + i64::from(after) - i64::from(before);
        // Downwards there is room for all of them: what was taken was there before.
        self.0 = i32::try_from(shifted).map_err(|_| TooLarge)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_can_be_below_zero_and_comes_back() {
        let mut window = Window::new(100);
        window.take(60);
        assert_eq!(window.shift(100, 10), Ok(()));
        assert_eq!((window, window.bytes()), (Window(-50), 0));
        assert_eq!(window.widen(51), Ok(()));
        assert_eq!(window.bytes(), 1);
    }

    #[test]
    fn no_window_is_larger_than_there_may_be() {
        let mut window = Window::new(WINDOW_BYTES_MAX - 1);
        assert_eq!(window.widen(1), Ok(()));
        assert_eq!(window.widen(1), Err(TooLarge));
        assert_eq!(window.shift(0, 1), Err(TooLarge));
        assert_eq!(window.bytes(), WINDOW_BYTES_MAX);
    }
}
