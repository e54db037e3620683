//! What a load generator reports, whichever it was.

/// A run of a load generator without a single error.
pub(crate) struct Loaded {
    /// How many requests were answered. A whole number; what it is divided by is not.
    pub(crate) requests: f64,
    pub(crate) requests_per_second: f64,
    /// How long requests waited, in microseconds: half of them, 90 %, 99 %, 99.9 % at most so long, and the longest.
    pub(crate) waits_us: [f64; 5],
    /// What a head took on the wire in the mean, where the generator looks at it.
    pub(crate) head_bytes: Option<f64>,
    /// The whole report, for the record.
    pub(crate) raw: String,
}

/// Of a generator that does not tell.
pub(crate) const NO_WAITS: [f64; 5] = [f64::NAN; 5];
