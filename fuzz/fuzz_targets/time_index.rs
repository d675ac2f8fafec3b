//! See `kseg_fuzz::bodies::time_index`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| kseg_fuzz::bodies::time_index(data));
