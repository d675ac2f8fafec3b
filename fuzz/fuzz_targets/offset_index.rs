//! See `kseg_fuzz::bodies::offset_index`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| kseg_fuzz::bodies::offset_index(data));
