//! gzip by Zopfli.

use std::num::NonZeroU64;

/// The version that determines the output, together with the number of iterations.
pub(super) const VERSION: &str = "zopfli-0.8.4";

pub(super) fn encode(content: &[u8], iterations: i32) -> Option<Vec<u8>> {
    let iteration_count = NonZeroU64::new(u64::try_from(iterations).ok()?)?;
    let options = ::zopfli::Options { iteration_count, ..::zopfli::Options::default() };
    let mut coded = Vec::new();
    ::zopfli::compress(options, ::zopfli::Format::Gzip, content, &mut coded).ok()?;
    Some(coded)
}
