//! How much of what was sent has reached the peer, by what the kernel says is still unconfirmed.
//!
//! Never asks the kernel itself.

/// Bytes handed to the kernel, and those of them that the peer has confirmed.
#[derive(Debug, Default)]
pub(crate) struct Confirmed {
    handed: u64,
    /// As many as when it was last asked.
    confirmed: u64,
}

impl Confirmed {
    /// So many more bytes were handed to the kernel.
    #[inline]
    pub(crate) fn hand(&mut self, bytes: u64) {
        self.handed += bytes;
    }

    /// How many bytes the peer has confirmed since this was last asked, if so many are unconfirmed now.
    pub(crate) fn since_last(&mut self, unconfirmed: u64) -> u64 {
        // Bytes of earlier answers may be among the unconfirmed ones: then nothing of these is confirmed.
        let confirmed = self.handed.saturating_sub(unconfirmed).max(self.confirmed);
        confirmed - std::mem::replace(&mut self.confirmed, confirmed)
    }
}
