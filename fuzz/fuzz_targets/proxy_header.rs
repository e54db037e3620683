//! libFuzzer entry point: `cargo +nightly fuzz run --features libfuzzer proxy_header`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cannery_fuzz::proxy_header(data));
