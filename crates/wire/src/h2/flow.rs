//! Flow-control windows (RFC 9113 §5.2, §6.9).
//!
//! A window may become negative if the peer reduces the initial window size, but will never exceed 2^31-1.

/// Initial window size for streams and connections, in both directions (RFC 9113 §6.9.2).
pub(super) const INITIAL_WINDOW_BYTES: u32 = 65_535;

/// Largest window allowed (RFC 9113 §6.9.1).
pub(super) const WINDOW_BYTES_MAX: u32 = 0x7fff_ffff;

/// Number of content bytes the peer will still accept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Window(i32);

/// Error: the window would exceed [`WINDOW_BYTES_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooLarge;

impl Window {
    /// Creates a window. `bytes` must not exceed [`WINDOW_BYTES_MAX`].
    pub(super) fn new(bytes: u32) -> Window {
        debug_assert!(bytes <= WINDOW_BYTES_MAX, "{bytes}");
        Window(i32::try_from(bytes).unwrap_or(i32::MAX))
    }

    /// Returns the number of bytes that may be sent.
    #[inline]
    pub(super) fn bytes(self) -> u32 {
        // If the window is negative, we cannot send anything.
        u32::try_from(self.0).unwrap_or(0)
    }

    /// Accounts for sent bytes. Not more than [`Window::bytes`].
    #[inline]
    pub(super) fn consume(&mut self, bytes: u32) {
        debug_assert!(bytes <= self.bytes(), "{bytes} from {self:?}");
        self.0 = self.0.saturating_sub_unsigned(bytes);
    }

    /// Enlarges the window because of a WINDOW_UPDATE.
    pub(super) fn widen(&mut self, bytes: u32) -> Result<(), TooLarge> {
        self.0 = self.0.checked_add_unsigned(bytes).ok_or(TooLarge)?;
        Ok(())
    }

    /// Adapts the window to a new initial window size (RFC 9113 §6.9.2).
    pub(super) fn shift(&mut self, before: u32, after: u32) -> Result<(), TooLarge> {
        let shifted = i64::from(self.0) + i64::from(after) - i64::from(before);
        // This can only overflow, never underflow, since we never send more than the window allowed.
        self.0 = i32::try_from(shifted).map_err(|_| TooLarge)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_can_be_negative() {
        let mut window = Window::new(100);
        window.consume(60);
        assert_eq!(window.shift(100, 10), Ok(()));
        assert_eq!((window, window.bytes()), (Window(-50), 0));
        assert_eq!(window.widen(51), Ok(()));
        assert_eq!(window.bytes(), 1);
    }

    #[test]
    fn windows_never_exceed_their_maximum() {
        let mut window = Window::new(WINDOW_BYTES_MAX - 1);
        assert_eq!(window.widen(1), Ok(()));
        assert_eq!(window.widen(1), Err(TooLarge));
        assert_eq!(window.shift(0, 1), Err(TooLarge));
        assert_eq!(window.bytes(), WINDOW_BYTES_MAX);
    }
}
