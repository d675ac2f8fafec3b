//! The iteration order of `JavaHashMap` against that of a real `java.util.HashMap`.
//!
//! `oracle/hash-order/golden.txt` is the output of `HashOrder.java` beside it, on OpenJDK 17.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops at the first surprise"
)]

use std::collections::{BTreeSet, HashMap};

use kseg::state::JavaHashMap;
use proptest::prelude::*;

const GOLDEN: &str = include_str!("oracle/hash-order/golden.txt");

fn keys(words: &[&str]) -> Vec<i64> {
    words.iter().map(|word| word.parse().unwrap()).collect()
}

fn fnv(keys: &[i64]) -> u64 {
    keys.iter()
        .flat_map(|key| key.to_be_bytes())
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
}

#[test]
fn order_is_that_of_java() {
    let mut map = JavaHashMap::new();
    let (mut case, mut orders) = ("", 0);
    for (number, line) in GOLDEN.lines().enumerate() {
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            ["case", name] => {
                case = name;
                map = JavaHashMap::new();
            }
            ["put", rest @ ..] => keys(rest).into_iter().for_each(|key| map.put(key, key)),
            ["compute", rest @ ..] => {
                for key in keys(rest) {
                    map.compute_if_absent(key, || key);
                }
            }
            ["remove", rest @ ..] => {
                let gone: BTreeSet<i64> = keys(rest).into_iter().collect();
                map.retain(|key| !gone.contains(key));
            }
            ["clear"] => map.clear(),
            ["order", hash, size, first @ ..] => {
                orders += 1;
                let order: Vec<i64> = map.iter().map(|(key, _)| key).collect();
                let shown: Vec<i64> = order.iter().copied().take(first.len()).collect();
                let place = format!("{case}, line {}", number + 1);
                assert_eq!(order.len().to_string(), *size, "{place}");
                assert_eq!(map.len(), order.len(), "{place}");
                assert_eq!(shown, keys(first), "{place}");
                assert_eq!(format!("{:016x}", fnv(&order)), *hash, "{place}");
                assert!(
                    order.iter().all(|key| map.get(*key) == Some(key)),
                    "{place}"
                );
            }
            _ => panic!("line {}: {line}", number + 1),
        }
    }
    assert!(orders > 300, "{orders} orders compared");
}

#[derive(Clone, Debug)]
enum Operation {
    Put(i64),
    Compute(i64),
    Remove(i64),
    Clear,
}

fn operation() -> impl Strategy<Value = Operation> {
    // Few distinct keys with few distinct hashes, so that trees come and go.
    let key = prop_oneof![
        (0_i64..40).prop_map(|k| k << 32 | k),
        (0_i64..40).prop_map(|k| k * 1024),
        any::<i64>(),
    ];
    prop_oneof![
        8 => key.clone().prop_map(Operation::Put),
        8 => key.clone().prop_map(Operation::Compute),
        6 => key.prop_map(Operation::Remove),
        1 => Just(Operation::Clear),
    ]
}

proptest! {
    #[test]
    fn holds_what_any_map_would_hold(operations in prop::collection::vec(operation(), 0..400)) {
        let mut map = JavaHashMap::new();
        let mut model = HashMap::new();
        for operation in operations {
            match operation {
                Operation::Put(key) => {
                    map.put(key, key);
                    model.insert(key, key);
                }
                Operation::Compute(key) => {
                    map.compute_if_absent(key, || key);
                    model.entry(key).or_insert(key);
                }
                Operation::Remove(key) => {
                    map.retain(|value| *value != key);
                    model.remove(&key);
                }
                Operation::Clear => {
                    map.clear();
                    model.clear();
                }
            }
            prop_assert_eq!(map.len(), model.len());
        }
        let mut held: Vec<_> = map.iter().map(|(key, _)| key).collect();
        held.sort_unstable();
        let mut expected: Vec<_> = model.keys().copied().collect();
        expected.sort_unstable();
        prop_assert_eq!(held, expected);
        for key in model.keys() {
            prop_assert_eq!(map.get(*key), Some(key));
        }
    }
}
