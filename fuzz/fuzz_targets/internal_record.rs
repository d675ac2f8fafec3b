//! See `kseg_fuzz::bodies::internal_record`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| kseg_fuzz::bodies::internal_record(data));
