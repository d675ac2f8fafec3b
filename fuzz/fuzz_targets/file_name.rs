//! See `kseg_fuzz::bodies::file_name`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| kseg_fuzz::bodies::file_name(data));
