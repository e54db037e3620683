//! libFuzzer entry point: `cargo +nightly fuzz run --features libfuzzer hpack_encoder`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cannery_fuzz::hpack_encoder(data));
