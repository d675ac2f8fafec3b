//! The program `kseg`.

fn main() {}
