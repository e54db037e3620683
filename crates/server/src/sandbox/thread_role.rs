//! Roles of threads, which decide the system calls that they may make.

/// The role of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThreadRole {
    /// Serves connections. Only these threads process bytes from the network.
    Worker,
    /// Opens files while the server runs: new releases, certificates and ACME challenges.
    Loader,
    /// Writes the access log.
    Log,
    /// Waits for signals or timers and notifies other threads.
    Coordinator,
    /// Receives releases from another process.
    Receiver,
    /// Waits for the end of all others, and removes Unix sockets.
    Main,
}
