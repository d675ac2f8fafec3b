//! See `kseg_fuzz::bodies::walk`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| kseg_fuzz::bodies::walk(data));
