//! See `kseg_fuzz::bodies::clean_shutdown`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| kseg_fuzz::bodies::clean_shutdown(data));
