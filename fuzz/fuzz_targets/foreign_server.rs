//! libFuzzer's way in: `cargo +nightly fuzz run --features libfuzzer foreign_server`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cannery_fuzz::foreign_server(data));
