//! libFuzzer entry point: `cargo +nightly fuzz run --features libfuzzer archive_open`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cannery_fuzz::archive_open(data));
