//! See `kseg_fuzz::bodies::zstd`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| kseg_fuzz::bodies::zstd(data));
