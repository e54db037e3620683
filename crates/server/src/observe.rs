//! Observability: metrics, the access log, and the status of the server.

mod access_log;
mod certificate_status;
mod metrics;
mod observer;
pub(crate) mod process_usage;
mod report;
mod request_log;
mod status;

pub(crate) use access_log::{LogFile, LogWriter, ReopenHandle};
pub(crate) use certificate_status::{
    CertificateHealth, CertificateKind, CertificateStatus, Renewal, RenewalError,
};
pub(crate) use metrics::{Counters, Http3Metric, MethodKind, RouteCounts, Snapshot};
pub(crate) use observer::{CloseReason, Observer};
pub(crate) use report::Report;
pub(crate) use request_log::{Handled, LoggedRequest, LoggedResponse, RefusedRequest};
pub(crate) use status::{
    FollowStatus, ListenerStatus, OccupiedThreads, Release, SiteStatus, Status, ThreadCount,
};
