//! Maps by producer id.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};

/// A map by producer id, for look-ups of every batch.
pub(super) type ByProducer<V> = HashMap<i64, V, SpreadProducerIds>;

/// Spreads producer ids, which are small numbers close together, by one multiplication with a
/// number that differs from run to run: who writes a log cannot choose ids that collide.
#[derive(Clone, Debug)]
pub(super) struct SpreadProducerIds {
    factor: u64,
}

impl Default for SpreadProducerIds {
    fn default() -> Self {
        let random = RandomState::new().build_hasher().finish();
        // Odd, so that no two ids fall together before the upper bits are cut off.
        Self { factor: random | 1 }
    }
}

impl BuildHasher for SpreadProducerIds {
    type Hasher = ProducerIdHasher;

    fn build_hasher(&self) -> ProducerIdHasher {
        ProducerIdHasher {
            factor: self.factor,
            hash: 0,
        }
    }
}

#[derive(Debug)]
pub(super) struct ProducerIdHasher {
    factor: u64,
    hash: u64,
}

impl Hasher for ProducerIdHasher {
    #[inline]
    fn finish(&self) -> u64 {
        self.hash
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    #[inline]
    fn write_u64(&mut self, value: u64) {
        let product = (self.hash ^ value).wrapping_mul(self.factor);
        self.hash = product ^ (product >> 32);
    }

    #[inline]
    fn write_i64(&mut self, value: i64) {
        self.write_u64(value.cast_unsigned());
    }
}
