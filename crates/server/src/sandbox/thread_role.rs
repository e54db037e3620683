//! What threads do, which decides what is left to them.

/// What a thread does, which decides what it may ask of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThreadRole {
    /// Serves connections: the only threads that see a byte of a peer.
    Worker,
    /// Opens and checks new releases.
    Releases,
    /// Writes the access log.
    Log,
    /// Waits for signals or for the time, and tells others.
    Orders,
}
