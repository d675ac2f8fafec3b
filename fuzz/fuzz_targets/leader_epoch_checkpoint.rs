//! See `kseg_fuzz::bodies::leader_epoch_checkpoint`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| kseg_fuzz::bodies::leader_epoch_checkpoint(data));
