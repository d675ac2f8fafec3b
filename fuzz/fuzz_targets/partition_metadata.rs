//! See `kseg_fuzz::bodies::partition_metadata`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| kseg_fuzz::bodies::partition_metadata(data));
