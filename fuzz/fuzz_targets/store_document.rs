//! libFuzzer entry point: `cargo +nightly fuzz run --features libfuzzer store_document`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cannery_fuzz::store_document(data));
