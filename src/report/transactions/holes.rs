//! Offsets that no batch has: in one of them the marker of a transaction may have been.

/// Offsets that no batch has.
#[derive(Debug, Default)]
pub(super) struct Holes {
    pub(super) next_offset: Option<i64>,
    pub(super) count: u64,
    /// The offset of the newest hole, if it is a single one.
    newest_single: Option<i64>,
    /// The offset of the newest hole that is known for the marker of a transaction.
    claimed: Option<i64>,
    /// How many there were when the newest one came by that is no single offset.
    count_at_wide: u64,
    /// The offset that was expected where the newest damage begins.
    damaged_from: Option<i64>,
    /// From where on there are none.
    whole_from: i64,
}

impl Holes {
    #[inline]
    pub(super) fn pass(&mut self, base_offset: i64, last_offset: i64) {
        if self.next_offset != Some(base_offset) {
            self.jump(base_offset);
        }
        self.next_offset = Some(last_offset.wrapping_add(1));
    }

    /// A message of an old format, or a wrapper of some: where it begins is not known.
    pub(super) fn pass_message(&mut self, last_offset: i64) {
        self.whole_from = last_offset.wrapping_add(1);
        self.next_offset = Some(self.whole_from);
    }

    #[cold]
    fn jump(&mut self, base_offset: i64) {
        if let Some(next) = self.next_offset
            && base_offset > next
        {
            self.count += 1;
            self.newest_single = (base_offset - 1 == next).then_some(next);
            if self.newest_single.is_none() {
                self.count_at_wide = self.count;
            }
        }
        self.whole_from = base_offset;
    }

    /// The offset from which on, up to the last entry, nothing is missing and nothing damaged;
    /// `None` if the last entry is damage.
    pub(super) fn whole_from(&self) -> Option<i64> {
        self.next_offset.map(|_| self.whole_from)
    }

    /// A marker at this offset is damaged: nobody knows whose it was.
    #[cold]
    pub(super) fn damaged_marker(&mut self, offset: i64) {
        self.whole_from = offset.saturating_add(1);
    }

    /// Damage may stand for any number of offsets.
    pub(super) fn damage(&mut self) {
        self.count += 1;
        self.newest_single = None;
        self.count_at_wide = self.count;
        self.damaged_from = self.next_offset.take().or(self.damaged_from);
    }

    /// A control record at this offset says nothing.
    pub(super) fn unreadable(&mut self, offset: i64) {
        self.damaged_from = Some(offset);
        self.whole_from = offset.saturating_add(1);
    }

    /// Whether there is damage behind an offset.
    pub(super) fn is_damaged_behind(&self, offset: i64) -> bool {
        self.damaged_from.is_some_and(|from| from > offset)
    }

    /// Whether there are holes since `seen` had been passed, each of one offset.
    pub(super) fn has_singles_since(&self, seen: u64) -> bool {
        let is_claimed = self.count == seen + 1 && self.is_newest_claimed();
        self.count > seen && self.count_at_wide <= seen && !is_claimed
    }

    /// The marker of a transaction was at this offset, so that of no other was.
    pub(super) fn claim(&mut self, offset: i64) {
        self.claimed = Some(offset);
    }

    fn is_newest_claimed(&self) -> bool {
        self.newest_single.is_some() && self.newest_single == self.claimed
    }

    /// The one offset that is missing since `seen` holes had been passed, if it is just one.
    pub(super) fn single_since(&self, seen: u64) -> Option<i64> {
        self.newest_single
            .filter(|_| self.count == seen + 1 && !self.is_newest_claimed())
    }
}
