//! Fuzzing of kseg: see README.md.

pub mod bodies;
pub mod seeds;
