//! libFuzzer entry point: `cargo +nightly fuzz run --features libfuzzer key`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cannery_fuzz::key(data));
