//! libFuzzer entry point: `cargo +nightly fuzz run --features libfuzzer interop_server`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cannery_fuzz::interop_server(data));
