//! Sets of offsets, as the ranges they make up.

use std::collections::BTreeMap;

/// Ranges that are kept apart; beyond it what lies between two of them counts as theirs. Compacted
/// logs may have a hole behind every batch.
const MAX_RANGES: usize = 1 << 20;

/// A set of offsets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OffsetRanges {
    /// First and last offset of each range; none touches another one.
    ranges: BTreeMap<i64, i64>,
}

impl OffsetRanges {
    /// Whether it has no offset.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The ranges, ascending, with first and last offset.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (i64, i64)> + '_ {
        self.ranges.iter().map(|(first, last)| (*first, *last))
    }

    /// Whether all of these offsets are in it.
    #[must_use]
    pub fn contains(&self, first: i64, last: i64) -> bool {
        let below = self.ranges.range(..=first).next_back();
        below.is_some_and(|(_, end)| *end >= last)
    }

    /// Whether one of these offsets is in it.
    #[must_use]
    pub fn touches(&self, first: i64, last: i64) -> bool {
        let below = self.ranges.range(..=last).next_back();
        below.is_some_and(|(_, end)| *end >= first)
    }

    /// The ranges of these offsets that are not in it.
    #[must_use]
    pub fn without(&self, first: i64, last: i64) -> Vec<(i64, i64)> {
        let mut left = Vec::new();
        let mut next = Some(first);
        let from = self.last_up_to(first).map_or(first, |(start, _)| start);
        for (start, end) in self
            .ranges
            .range(from..)
            .take_while(|(start, _)| **start <= last)
        {
            let Some(at) = next.filter(|at| at <= end) else {
                continue;
            };
            if at < *start {
                left.push((at, start - 1));
            }
            next = end.checked_add(1);
        }
        left.extend(next.filter(|at| *at <= last).map(|at| (at, last)));
        left
    }

    /// The ranges of these offsets that are in it.
    #[must_use]
    pub fn within(&self, first: i64, last: i64) -> Vec<(i64, i64)> {
        let from = self.last_up_to(first).map_or(first, |(start, _)| start);
        let ranges = self.ranges.range(from..);
        ranges
            .take_while(|(start, _)| **start <= last)
            .map(|(start, end)| (first.max(*start), last.min(*end)))
            .filter(|(from, to)| from <= to)
            .collect()
    }

    /// Takes offsets in; whether one of them was not in it. Without one, `first` being above
    /// `last`, nothing happens.
    pub fn add(&mut self, first: i64, last: i64) -> bool {
        if first > last || self.contains(first, last) {
            return false;
        }
        let (mut from, mut to) = (first, last);
        while let Some((start, end)) = self.last_up_to(to.saturating_add(1))
            && end >= from.saturating_sub(1)
        {
            self.ranges.remove(&start);
            (from, to) = (from.min(start), to.max(end));
        }
        if self.ranges.len() >= MAX_RANGES
            && let Some((start, _)) = self.last_up_to(from)
        {
            self.ranges.remove(&start);
            from = start;
        }
        self.ranges.insert(from, to);
        true
    }

    /// The last range that begins at or below an offset.
    fn last_up_to(&self, offset: i64) -> Option<(i64, i64)> {
        let below = self.ranges.range(..=offset).next_back();
        below.map(|(first, last)| (*first, *last))
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        /// As a set of numbers.
        #[test]
        fn it_is_the_set_of_its_offsets(parts in vec((0..60_i64, 0..9_i64), 0..20)) {
            let mut ranges = OffsetRanges::default();
            let mut set = std::collections::BTreeSet::new();
            for (first, more) in parts {
                let before = set.len();
                set.extend(first..=first + more);
                prop_assert_eq!(ranges.add(first, first + more), set.len() > before);
            }
            let all: Vec<i64> = ranges.iter().flat_map(|(first, last)| first..=last).collect();
            prop_assert_eq!(&all, &set.iter().copied().collect::<Vec<_>>());
            let apart: Vec<_> = ranges.iter().collect();
            prop_assert!(apart.windows(2).all(|it| it[0].1 + 1 < it[1].0));
            for first in 0..70 {
                for last in first..70 {
                    let inside = (first..=last).filter(|it| set.contains(it)).count();
                    let span = usize::try_from(last - first + 1).unwrap();
                    prop_assert_eq!(ranges.contains(first, last), inside == span);
                    prop_assert_eq!(ranges.touches(first, last), inside > 0);
                    let left = ranges.without(first, last);
                    let left: Vec<i64> = left.into_iter().flat_map(|(a, b)| a..=b).collect();
                    let outside = (first..=last).filter(|it| !set.contains(it));
                    prop_assert_eq!(left, outside.collect::<Vec<_>>());
                    let within = ranges.within(first, last);
                    let within: Vec<i64> = within.into_iter().flat_map(|(a, b)| a..=b).collect();
                    let inside = (first..=last).filter(|it| set.contains(it));
                    prop_assert_eq!(within, inside.collect::<Vec<_>>());
                }
            }
        }
    }

    #[test]
    fn no_offsets_change_nothing() {
        let mut ranges = OffsetRanges::default();
        assert!(!ranges.add(5, 4));
        assert!(ranges.is_empty());
        assert!(ranges.add(i64::MIN, i64::MAX));
        assert!(ranges.contains(i64::MAX, i64::MAX));
        assert_eq!(ranges.without(0, i64::MAX), []);
    }
}
