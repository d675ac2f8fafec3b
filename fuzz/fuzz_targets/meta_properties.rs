//! See `kseg_fuzz::bodies::meta_properties`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| kseg_fuzz::bodies::meta_properties(data));
