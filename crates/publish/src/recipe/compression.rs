//! Compression of recipes with zstd, alone or with another recipe as prefix.

use zstd_safe::{CCtx, CParameter, DCtx, DParameter, ErrorCode, InBuffer, OutBuffer, get_error_name};

use super::RecipeError;
use crate::limits::RECIPE_BYTES_MAX;

/// Level of small recipes. It takes about a second for 4 MiB.
const LEVEL: i32 = 19;
/// Level of recipes longer than [`LARGE_BYTES`], which would take too long otherwise.
const LARGE_LEVEL: i32 = 9;
const LARGE_BYTES: usize = 4 << 20;

/// Largest window that decoders accept by default, as a power of two.
const WINDOW_LOG_MAX: u32 = 27;
const WINDOW_LOG_MIN: u32 = 10;

/// Steps in which the output of the decoder grows.
const GROWTH_BYTES: usize = 256 << 10;

pub(super) fn compress(bytes: &[u8], prefix: &[u8]) -> Result<Vec<u8>, RecipeError> {
    // Matches can refer to the prefix only as far as the window reaches back.
    let reach = (bytes.len() + prefix.len()).max(1) as u64;
    let window_log = (u64::BITS - reach.leading_zeros()).clamp(WINDOW_LOG_MIN, WINDOW_LOG_MAX);
    let level = if bytes.len() > LARGE_BYTES { LARGE_LEVEL } else { LEVEL };

    let mut coder = CCtx::create();
    coder.set_parameter(CParameter::CompressionLevel(level)).map_err(failed)?;
    coder.set_parameter(CParameter::WindowLog(window_log)).map_err(failed)?;
    coder.set_parameter(CParameter::EnableLongDistanceMatching(bytes.len() > LARGE_BYTES)).map_err(failed)?;
    coder.set_parameter(CParameter::ChecksumFlag(false)).map_err(failed)?;
    if !prefix.is_empty() {
        coder.ref_prefix(prefix).map_err(failed)?;
    }
    let mut out = Vec::with_capacity(zstd_safe::compress_bound(bytes.len()));
    coder.compress2(&mut out, bytes).map_err(failed)?;
    Ok(out)
}

pub(super) fn decompress(compressed: &[u8], prefix: &[u8]) -> Result<Vec<u8>, RecipeError> {
    let mut decoder = DCtx::create();
    decoder.set_parameter(DParameter::WindowLogMax(WINDOW_LOG_MAX)).map_err(failed)?;
    if !prefix.is_empty() {
        decoder.ref_prefix(prefix).map_err(failed)?;
    }

    let mut input = InBuffer::around(compressed);
    let mut out: Vec<u8> = Vec::new();
    loop {
        out.reserve(GROWTH_BYTES);
        let before = (out.len(), input.pos());
        let length = out.len();
        let mut output = OutBuffer::around_pos(&mut out, length);
        let hint = decoder.decompress_stream(&mut output, &mut input).map_err(failed)?;
        // The frame may claim any length. What counts is what comes out of it.
        if out.len() > RECIPE_BYTES_MAX {
            return Err(RecipeError::TooLong);
        }
        if hint == 0 {
            // One frame is all there is.
            return if input.pos() == compressed.len() {
                Ok(out)
            } else {
                Err(RecipeError::Compression("something follows it"))
            };
        }
        if (out.len(), input.pos()) == before {
            return Err(RecipeError::Compression("its end is missing"));
        }
    }
}

fn failed(code: ErrorCode) -> RecipeError {
    RecipeError::Compression(get_error_name(code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patch_needs_its_base() {
        let base: Vec<u8> =
            (0..50_000_u32).flat_map(|number| number.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
        let mut changed = base.clone();
        changed[100_000] ^= 1;
        let patch = compress(&changed, &base).unwrap();
        assert!(patch.len() < 200, "{} bytes", patch.len());
        assert_eq!(decompress(&patch, &base).unwrap(), changed);
        assert_ne!(decompress(&patch, b"another base").ok(), Some(changed));
    }

    #[test]
    fn cut_and_extended_frames_are_refused() {
        let frame = compress(&[7; 1000], b"").unwrap();
        for end in 0..frame.len() {
            assert!(decompress(&frame[..end], b"").is_err(), "{end} bytes");
        }
        assert!(decompress(&[&frame[..], b"x"].concat(), b"").is_err());
    }

    #[test]
    fn long_output_is_refused() {
        let frame = compress(&vec![0; RECIPE_BYTES_MAX + (1 << 20)], b"").unwrap();
        assert!(matches!(decompress(&frame, b""), Err(RecipeError::TooLong)));
    }
}
