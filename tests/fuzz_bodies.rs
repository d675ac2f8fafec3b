//! The bodies of the fuzz targets, on random bytes and on every seed: `cargo test` tries a little
//! of what `scripts/fuzz` tries for long.
#![allow(
    dead_code,
    unreachable_pub,
    reason = "modules of the crate in fuzz/, of which this compiles all and uses a part"
)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a body ends where something is not as it should be"
)]

#[path = "../fuzz/src/bodies.rs"]
mod bodies;
#[path = "../fuzz/src/seeds.rs"]
mod seeds;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use bodies::BODIES;
use proptest::prelude::*;
use seeds::Seeds;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn every_body_has_a_target_and_seeds() {
    let bodies: BTreeSet<_> = BODIES.iter().map(|(name, _)| (*name).to_owned()).collect();
    let targets = fs::read_dir(root().join("fuzz/fuzz_targets")).unwrap();
    let stem = |path: &Path| path.file_stem().unwrap().to_str().unwrap().to_owned();
    let targets: BTreeSet<_> = targets.map(|file| stem(&file.unwrap().path())).collect();
    assert_eq!(targets, bodies);
    let seeds = Seeds::collect(root());
    let seeded: BTreeSet<_> = seeds.iter().map(|(name, _)| name.to_owned()).collect();
    assert_eq!(seeded, bodies);
}

#[test]
fn every_seed_passes() {
    for (target, seeds) in Seeds::collect(root()).iter() {
        let (_, body) = BODIES.iter().find(|(name, _)| *name == target).unwrap();
        seeds.iter().for_each(|seed| body(seed));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_bytes_pass(data in prop::collection::vec(any::<u8>(), 0..512)) {
        BODIES.iter().for_each(|(_, body)| body(&data));
    }
}
