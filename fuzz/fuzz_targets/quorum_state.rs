//! See `kseg_fuzz::bodies::quorum_state`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| kseg_fuzz::bodies::quorum_state(data));
