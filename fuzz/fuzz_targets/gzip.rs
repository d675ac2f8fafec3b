//! See `kseg_fuzz::bodies::gzip`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| kseg_fuzz::bodies::gzip(data));
