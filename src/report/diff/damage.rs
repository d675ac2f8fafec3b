//! Damage, and whether it is the same on both sides.

use super::facts::DamageRow;
use super::kind::{Side, Sides};

/// Damage that is listed; more is only counted.
const MAX_LISTED: usize = 1000;

/// Damage, by whether it is the same on both sides.
#[derive(Debug, Default)]
pub(super) struct DamageLists {
    pub(super) both: Vec<Sides<DamageRow>>,
    pub(super) one: Sides<Vec<DamageRow>>,
    /// Where on each side a follower that fetches from it stops: offsets of what is damaged,
    /// ascending, as many as are listed.
    pub(super) stops: Sides<Vec<i64>>,
    pub(super) not_listed: u64,
}

impl DamageLists {
    /// A follower does not get past this offset of a side.
    pub(super) fn stop(&mut self, side: Side, offset: i64) {
        let stops = self.stops.of_mut(side);
        if stops.len() < MAX_LISTED {
            stops.push(offset);
        }
    }

    pub(super) fn same(&mut self, left: DamageRow, right: DamageRow) {
        if self.both.len() < MAX_LISTED {
            self.both.push(Sides { left, right });
        } else {
            self.not_listed += 1;
        }
    }

    pub(super) fn one(&mut self, side: Side, row: DamageRow) {
        let rows = self.one.of_mut(side);
        if rows.len() < MAX_LISTED {
            rows.push(row);
        } else {
            self.not_listed += 1;
        }
    }
}
