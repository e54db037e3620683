//! libFuzzer entry point: `cargo +nightly fuzz run --features libfuzzer interop_client`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cannery_fuzz::interop_client(data));
