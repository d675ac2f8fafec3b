//! See `kseg_fuzz::bodies::snappy`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| kseg_fuzz::bodies::snappy(data));
