//! libFuzzer entry point: `cargo +nightly fuzz run --features libfuzzer statement`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cannery_fuzz::statement(data));
