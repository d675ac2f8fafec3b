//! See `kseg_fuzz::bodies::control_record`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| kseg_fuzz::bodies::control_record(data));
