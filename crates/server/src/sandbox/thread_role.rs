//! Thread roles. They decide which system calls a thread may make.

/// The role of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThreadRole {
    /// Serves connections. These are the only threads that process bytes from the network.
    Worker,
    /// Opens files while the server is running: new releases, certificates and ACME challenges.
    Loader,
    /// Writes the access log.
    Log,
    /// Waits for signals or timers, and notifies other threads.
    Coordinator,
    /// Receives releases from another process.
    Receiver,
    /// Waits until all other threads have ended before removing Unix sockets.
    Main,
}
