//! Random moments, so that machines that started together don't renew together.

use aws_lc_rs::rand;

use crate::error::Error;

/// Returns a number in `0.0..1.0`.
pub(crate) fn fraction() -> Result<f64, Error> {
    let mut bytes = [0; 4];
    rand::fill(&mut bytes).map_err(|_| Error::Crypto { why: "the system has no random numbers".into() })?;
    Ok(f64::from(u32::from_ne_bytes(bytes)) / (f64::from(u32::MAX) + 1.0))
}
