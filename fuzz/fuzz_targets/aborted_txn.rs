//! See `kseg_fuzz::bodies::aborted_txn`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| kseg_fuzz::bodies::aborted_txn(data));
