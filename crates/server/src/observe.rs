//! What operators see of the server: metrics, the access log, and its state as a whole.

pub(crate) mod access_log;
pub(crate) mod metrics;
pub(crate) mod observer;
pub(crate) mod process_usage;
pub(crate) mod report;
pub(crate) mod request_log;
pub(crate) mod status;
