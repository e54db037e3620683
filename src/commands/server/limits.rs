//! Resource limits of the process: open descriptors and memory (`setrlimit(2)`).

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::format;
use crate::output::Failure;

/// Sets the maximum number of open descriptors, where `None` means as many as allowed for this user.
pub(super) fn set_descriptors(wanted: Option<u64>) -> Result<(), Failure> {
    let present = getrlimit(Resource::Nofile);
    let Some(limit) = wanted else {
        // If we are not allowed to raise the limit, the server will have to make do with the current one.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: present.maximum, maximum: present.maximum });
        return Ok(());
    };
    let maximum = present.maximum.map(|maximum| maximum.max(limit));
    setrlimit(Resource::Nofile, Rlimit { current: Some(limit), maximum }).map_err(|error| {
        let allowed = present
            .maximum
            .map_or("any number".into(), |maximum| format!("at most {}", format::count(maximum)));
        Failure::failed(format!("`--limit-descriptors {limit}`: {}", io::Error::from(error)))
            .hint(format!("this user may open {allowed} here; see `ulimit -Hn`"))
    })
}

/// Limits the private, writable memory of this process, in bytes.
///
/// Mapped archives should not count, as their pages belong to the page cache. `RLIMIT_AS` would include them and is therefore
/// not used here.
pub(super) fn set_memory(limit: u64) -> Result<(), Failure> {
    let present = getrlimit(Resource::Data);
    let maximum = Some(present.maximum.map_or(limit, |maximum| maximum.min(limit)));
    setrlimit(Resource::Data, Rlimit { current: maximum, maximum })
        .map_err(|error| Failure::failed(format!("`--limit-memory`: {}", io::Error::from(error))))
}
