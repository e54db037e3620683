//! libFuzzer entry point: `cargo +nightly fuzz run --features libfuzzer accept_encoding`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cannery_fuzz::accept_encoding(data));
