//! libFuzzer entry point: `cargo +nightly fuzz run --features libfuzzer qpack_encoder`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cannery_fuzz::qpack_encoder(data));
