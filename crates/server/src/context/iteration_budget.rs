//! Limits on what connections may do in one iteration.

/// Whatever is left of an iteration's budget.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IterationBudget {
    /// Bytes that the current connection may still receive and send.
    pub(crate) bytes: u64,
    /// TLS handshakes for which the worker may still run the expensive step.
    pub(crate) handshakes: u32,
}
