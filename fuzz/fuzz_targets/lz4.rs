//! See `kseg_fuzz::bodies::lz4`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| kseg_fuzz::bodies::lz4(data));
