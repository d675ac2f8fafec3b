//! See `kseg_fuzz::bodies::producer_snapshot`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| kseg_fuzz::bodies::producer_snapshot(data));
