//! A map keyed by producer id that iterates as `java.util.HashMap<Long, V>` does.
//!
//! The entries of a `.snapshot` file lie in the iteration order of such a map, and the order in
//! which producers enter it is in places that of another one. Byte-equal snapshots need the same
//! buckets, the same growth and the same chains, so this is that structure itself: an array of
//! buckets, each a chain of slots, long ones kept as red-black trees (`java_tree_bin`).
//! It is also a plain O(1) map, which is why the producer table uses it as is.
//!
//! Only what Kafka calls is here: `put`, `computeIfAbsent`, removal through an iterator, `clear`.
//! Checked against real Java by `tests/oracle/hash-order`.

use super::java_tree_bin::{NONE, Nodes};

/// Capacity of the first table (`HashMap.DEFAULT_INITIAL_CAPACITY`).
const DEFAULT_INITIAL_CAPACITY: usize = 16;
/// Tables do not grow beyond this (`HashMap.MAXIMUM_CAPACITY`).
const MAXIMUM_CAPACITY: usize = 1 << 30;
/// Smaller tables grow where a larger one would turn a chain into a tree
/// (`HashMap.MIN_TREEIFY_CAPACITY`).
const MIN_TREEIFY_CAPACITY: usize = 64;
/// A chain is long when a new entry meets at least this many (`HashMap.TREEIFY_THRESHOLD`).
const TREEIFY_THRESHOLD: usize = 8;
/// Half of a split tree becomes a chain again at this size (`HashMap.UNTREEIFY_THRESHOLD`).
const UNTREEIFY_THRESHOLD: usize = 6;
/// Marks the head of a bucket that is a tree. Slot numbers stay below it.
const TREE_BIT: u32 = 1 << 31;

/// Hints in a table that has grown: a power of two.
const HINTS: usize = 256;

/// Where the map keeps an entry; good until entries are removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(u32);

impl Slot {
    /// Numbers begin at 0, and those of removed entries are used again.
    pub(crate) fn number(self) -> usize {
        self.0 as usize
    }
}

/// A map from `Long` keys with Java's iteration order.
#[derive(Clone, Debug)]
pub struct JavaHashMap<V> {
    /// First slot of each bucket or [`NONE`], with [`TREE_BIT`] if the bucket is a tree. Empty
    /// until the first insertion; after that the length is a power of two.
    heads: Vec<u32>,
    /// Slots by the lower bits of their keys, the one that came last for each, or [`NONE`]: with a
    /// look here most keys are found without their bucket. Empty in the first, small table, where
    /// the heads of the buckets do as well.
    hints: Vec<u32>,
    nodes: Nodes,
    /// The values, by slot. A free slot keeps its last value until it is used again.
    values: Vec<V>,
    free: Vec<u32>,
    len: usize,
}

impl<V> Default for JavaHashMap<V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<V> JavaHashMap<V> {
    /// An empty map.
    #[must_use]
    pub fn new() -> Self {
        Self {
            heads: Vec::new(),
            hints: Vec::new(),
            nodes: Nodes::default(),
            values: Vec::new(),
            free: Vec::new(),
            len: 0,
        }
    }

    /// How many entries there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Makes room for `additional` entries without changing the order of anything: the buckets
    /// still grow step by step.
    pub fn reserve(&mut self, additional: usize) {
        self.nodes.reserve(additional);
        self.values.reserve(additional);
    }

    /// The value of `key`.
    #[must_use]
    pub fn get(&self, key: i64) -> Option<&V> {
        self.find(key).and_then(|slot| self.value(slot))
    }

    /// The value of `key`, to be changed.
    pub fn get_mut(&mut self, key: i64) -> Option<&mut V> {
        self.find(key).and_then(|slot| self.value_mut(slot))
    }

    /// The slot of `key`.
    #[inline]
    pub(crate) fn find(&self, key: i64) -> Option<Slot> {
        let likely = match self.hints.get(hint_of(key)) {
            Some(hint) => *hint,
            None => self.head(self.bucket(hash(key))),
        };
        // Neither none nor a tree.
        if likely & TREE_BIT == 0 && self.nodes.key(likely) == key {
            return Some(Slot(likely));
        }
        self.find_in_bucket(key)
    }

    #[inline(never)]
    fn find_in_bucket(&self, key: i64) -> Option<Slot> {
        let hash = hash(key);
        let head = *self.heads.get(self.bucket(hash))?;
        if head == NONE {
            return None;
        }
        if head & TREE_BIT != 0 {
            return self.nodes.tree_find(head & !TREE_BIT, hash, key).map(Slot);
        }
        let mut slot = head;
        while slot != NONE {
            if self.nodes.key(slot) == key {
                return Some(Slot(slot));
            }
            slot = self.nodes.next(slot);
        }
        None
    }

    #[inline]
    pub(crate) fn value(&self, slot: Slot) -> Option<&V> {
        self.values.get(slot.0 as usize)
    }

    #[inline]
    pub(crate) fn value_mut(&mut self, slot: Slot) -> Option<&mut V> {
        self.values.get_mut(slot.0 as usize)
    }

    /// `HashMap.put`: a new key goes to the end of its bucket.
    pub fn put(&mut self, key: i64, value: V) {
        if let Some(slot) = self.find(key) {
            if let Some(old) = self.value_mut(slot) {
                *old = value;
            }
            return;
        }
        self.put_new(key, value);
    }

    /// `HashMap.put` of a key that is known to be absent.
    pub(crate) fn put_new(&mut self, key: i64, value: V) -> Slot {
        if self.heads.is_empty() {
            self.resize();
        }
        let slot = self.new_slot(key, value);
        let bucket = self.bucket(hash(key));
        let head = self.head(bucket);
        if head == NONE {
            self.set_head(bucket, slot);
        } else if head & TREE_BIT != 0 {
            let first = self.nodes.tree_insert(head & !TREE_BIT, slot);
            self.set_head(bucket, first | TREE_BIT);
        } else {
            let mut last = head;
            let mut existing = 1;
            while self.nodes.next(last) != NONE {
                last = self.nodes.next(last);
                existing += 1;
            }
            self.nodes.set_next(last, slot);
            if existing >= TREEIFY_THRESHOLD {
                self.treeify_bin(bucket);
            }
        }
        self.len += 1;
        if self.len > self.threshold() {
            self.resize();
        }
        Slot(slot)
    }

    /// Whether the next `computeIfAbsent` doubles the table, be its key present or not.
    #[inline]
    fn grows_on_compute(&self) -> bool {
        self.len > self.threshold()
    }

    /// `HashMap.computeIfAbsent`: a new key goes to the *front* of its bucket, and the table
    /// grows before the insertion instead of after it.
    pub fn compute_if_absent(&mut self, key: i64, make: impl FnOnce() -> V) -> Slot {
        if self.heads.is_empty() || self.grows_on_compute() {
            self.resize();
        }
        if let Some(slot) = self.find(key) {
            return slot;
        }
        let slot = self.new_slot(key, make());
        let bucket = self.bucket(hash(key));
        let head = self.head(bucket);
        if head != NONE && head & TREE_BIT != 0 {
            let first = self.nodes.tree_insert(head & !TREE_BIT, slot);
            self.set_head(bucket, first | TREE_BIT);
        } else {
            let existing = self.nodes.chain_len(head);
            self.nodes.set_next(slot, head);
            self.set_head(bucket, slot);
            // One earlier than put: it counts the entries it has passed, put the steps between.
            if existing >= TREEIFY_THRESHOLD - 1 {
                self.treeify_bin(bucket);
            }
        }
        self.len += 1;
        Slot(slot)
    }

    /// Removes what `keep` does not want, visiting the entries in order, as
    /// `entrySet().removeIf` does. The table does not shrink.
    pub fn retain(&mut self, mut keep: impl FnMut(&V) -> bool) {
        for bucket in 0..self.heads.len() {
            let mut slot = self.head(bucket);
            if slot != NONE {
                slot &= !TREE_BIT;
            }
            let mut before = NONE;
            while slot != NONE {
                let next = self.nodes.next(slot);
                if self.value(Slot(slot)).is_none_or(&mut keep) {
                    before = slot;
                } else {
                    self.unlink(bucket, before, slot);
                }
                slot = next;
            }
        }
    }

    /// `HashMap.clear`: the table keeps its size.
    pub fn clear(&mut self) {
        self.heads.fill(NONE);
        self.hints.fill(NONE);
        self.nodes.clear();
        self.values.clear();
        self.free.clear();
        self.len = 0;
    }

    /// The entries in Java's iteration order.
    pub fn iter(&self) -> impl Iterator<Item = (i64, &V)> {
        self.slots_in_order()
            .filter_map(|slot| Some((self.nodes.key(slot), self.values.get(slot as usize)?)))
    }

    /// The values in Java's iteration order.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    fn slots_in_order(&self) -> impl Iterator<Item = u32> {
        self.heads
            .iter()
            .filter(|&&head| head != NONE)
            .flat_map(|&head| self.nodes.chain(head & !TREE_BIT))
    }

    /// Entries at which the table grows: three quarters of its capacity.
    #[inline]
    fn threshold(&self) -> usize {
        if self.heads.len() >= MAXIMUM_CAPACITY {
            usize::MAX
        } else {
            self.heads.len() / 4 * 3
        }
    }

    #[inline]
    fn bucket(&self, hash: i32) -> usize {
        // An empty table has no bucket 0 either, so `get` finds nothing there.
        (hash.cast_unsigned() as usize) & self.heads.len().wrapping_sub(1)
    }

    #[inline]
    fn head(&self, bucket: usize) -> u32 {
        self.heads.get(bucket).copied().unwrap_or(NONE)
    }

    fn set_head(&mut self, bucket: usize, head: u32) {
        if let Some(old) = self.heads.get_mut(bucket) {
            *old = head;
        }
    }

    fn new_slot(&mut self, key: i64, value: V) -> u32 {
        let slot = if let Some(slot) = self.free.pop() {
            self.nodes.reuse(slot, key);
            if let Some(old) = self.values.get_mut(slot as usize) {
                *old = value;
            }
            slot
        } else {
            self.values.push(value);
            self.nodes.push(key)
        };
        if let Some(hint) = self.hints.get_mut(hint_of(key)) {
            *hint = slot;
        }
        slot
    }

    fn unlink(&mut self, bucket: usize, before: u32, slot: u32) {
        let head = self.head(bucket);
        if head & TREE_BIT != 0 {
            let first = self.nodes.tree_remove(head & !TREE_BIT, slot);
            self.set_head(
                bucket,
                if first == NONE {
                    NONE
                } else {
                    first | TREE_BIT
                },
            );
        } else if before == NONE {
            self.set_head(bucket, self.nodes.next(slot));
        } else {
            self.nodes.set_next(before, self.nodes.next(slot));
        }
        let hint = self.hints.get_mut(hint_of(self.nodes.key(slot)));
        if let Some(hint) = hint.filter(|hint| **hint == slot) {
            *hint = NONE;
        }
        self.free.push(slot);
        self.len -= 1;
    }

    /// `HashMap.treeifyBin`: a long chain becomes a tree, or the table grows if it is small.
    fn treeify_bin(&mut self, bucket: usize) {
        if self.heads.len() < MIN_TREEIFY_CAPACITY {
            self.resize();
        } else {
            let first = self.nodes.treeify(self.head(bucket));
            self.set_head(bucket, first | TREE_BIT);
        }
    }

    fn make_hints(&mut self) {
        self.hints = vec![NONE; HINTS];
        for head in self.heads.iter().filter(|&&head| head != NONE) {
            for slot in self.nodes.chain(head & !TREE_BIT) {
                if let Some(hint) = self.hints.get_mut(hint_of(self.nodes.key(slot))) {
                    *hint = slot;
                }
            }
        }
    }

    /// `HashMap.resize`: doubles the table. Every bucket falls into two that keep its order.
    fn resize(&mut self) {
        let old_capacity = self.heads.len();
        if old_capacity == 0 {
            self.heads = vec![NONE; DEFAULT_INITIAL_CAPACITY];
            return;
        }
        if old_capacity >= MAXIMUM_CAPACITY {
            return;
        }
        self.heads.resize(old_capacity * 2, NONE);
        if self.hints.is_empty() {
            self.make_hints();
        }
        for bucket in 0..old_capacity {
            let head = self.head(bucket);
            if head == NONE {
                continue;
            }
            let is_tree = head & TREE_BIT != 0;
            let (low, high) = self.nodes.split(head & !TREE_BIT, |key| {
                (hash(key).cast_unsigned() as usize) & old_capacity == 0
            });
            // A tree that stays whole stays as it is.
            let whole = low.count == 0 || high.count == 0;
            for (target, half) in [(bucket, low), (bucket + old_capacity, high)] {
                let new_head = if half.count == 0 {
                    NONE
                } else if !is_tree || half.count <= UNTREEIFY_THRESHOLD {
                    half.first
                } else if whole {
                    half.first | TREE_BIT
                } else {
                    self.nodes.treeify(half.first) | TREE_BIT
                };
                self.set_head(target, new_head);
            }
        }
    }
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "only the lower bits count")]
fn hint_of(key: i64) -> usize {
    key.cast_unsigned() as usize % HINTS
}

/// `HashMap.hash(Long)`: both halves of the key, then the upper bits spread down.
#[inline]
#[expect(
    clippy::cast_possible_truncation,
    reason = "Long.hashCode keeps the lower half"
)]
pub(crate) fn hash(key: i64) -> i32 {
    let folded = (key ^ (key.cast_unsigned() >> 32).cast_signed()) as i32;
    folded ^ (folded.cast_unsigned() >> 16).cast_signed()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn order(map: &JavaHashMap<i64>) -> Vec<i64> {
        map.iter().map(|(key, _)| key).collect()
    }

    #[test]
    fn ids_come_out_by_bucket_and_in_a_bucket_by_insertion() {
        // Seen in a snapshot Kafka wrote (docs/on-disk-format, entry order).
        let ids = [1000, 1001, 1008, 1009, 1010, 31, 16, 15, (1 << 32) + 5, 5];
        let mut map = JavaHashMap::new();
        for id in ids {
            map.put(id, id);
        }
        let expected = [1008, 16, 1009, 1010, (1 << 32) + 5, 5, 1000, 1001, 31, 15];
        assert_eq!(order(&map), expected);
    }

    #[test]
    fn compute_if_absent_puts_new_keys_in_front() {
        let mut map = JavaHashMap::new();
        for id in [0, 16, 32] {
            map.compute_if_absent(id, || id);
        }
        assert_eq!(order(&map), [32, 16, 0]);
    }

    proptest! {
        /// Keys with equal lower bits, removal and reuse of slots: every key is found, or not, as
        /// in any other map.
        #[test]
        fn is_a_map(
            steps in proptest::collection::vec(
                (0..20_u8, 0..40_i64, 0..3_i64, any::<i64>()),
                0..300,
            ),
        ) {
            let mut map = JavaHashMap::new();
            let mut model = std::collections::HashMap::new();
            for (step, low, high, value) in steps {
                let key = low + high * 256;
                match step {
                    0 => {
                        map.clear();
                        model.clear();
                    }
                    1 => {
                        map.retain(|kept| kept % 3 != 0);
                        model.retain(|_, kept| *kept % 3 != 0);
                    }
                    2..10 => {
                        map.put(key, value);
                        model.insert(key, value);
                    }
                    _ => {
                        let slot = map.compute_if_absent(key, || value);
                        let expected = *model.entry(key).or_insert(value);
                        prop_assert_eq!(map.value(slot), Some(&expected));
                    }
                }
                prop_assert_eq!(map.len(), model.len());
                for key in (0..40).flat_map(|low| [low, low + 256, low + 512]) {
                    prop_assert_eq!(map.get(key), model.get(&key));
                }
            }
        }
    }

    #[test]
    fn clear_keeps_the_table_size() {
        let mut map = JavaHashMap::new();
        for id in 0..13 {
            map.put(id, id);
        }
        map.clear();
        assert!(map.is_empty());
        // 16 and 1 share no bucket in a table of 32, so 1 comes first.
        map.put(16, 16);
        map.put(1, 1);
        assert_eq!(order(&map), [1, 16]);
    }

    #[test]
    fn lookup_in_one_bucket_of_many_stays_fast() {
        // Keys k and k + k<<32 hash to the same bucket; 200,000 in one chain would take minutes.
        let mut map = JavaHashMap::new();
        for high in 0..200_000_i64 {
            map.put(high << 32 | high, high);
        }
        for high in 0..200_000_i64 {
            assert_eq!(map.get(high << 32 | high), Some(&high));
        }
        map.retain(|value| value % 3 == 0);
        assert_eq!(map.len(), 66_667);
        assert_eq!(map.get(0), Some(&0));
        assert_eq!(map.get(1 << 32 | 1), None);
        assert_eq!(map.get(3 << 32 | 3), Some(&3));
    }
}
