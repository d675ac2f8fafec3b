//! Every way in which two logs differ, with the first place of each.

use std::collections::BTreeMap;

use serde::Serialize;

use super::facts::BatchPlaceRow;
use super::kind::{DiffKind, Sides};

/// One way in which the logs differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Difference {
    /// Which way.
    pub kind: DiffKind,
    /// The first offset at which they differ so.
    pub first_offset: i64,
    /// How often they do: batches, or pairs of batches that overlap.
    pub times: u64,
    /// The first batch concerned on the left; if it is not there, the one that lies next.
    pub left: Option<BatchPlaceRow>,
    /// The same on the right.
    pub right: Option<BatchPlaceRow>,
}

/// Collects differences.
#[derive(Debug, Default)]
pub(super) struct Differences {
    by_kind: BTreeMap<DiffKind, Difference>,
}

impl Differences {
    pub(super) fn add(
        &mut self,
        kind: DiffKind,
        offset: i64,
        places: Sides<Option<&BatchPlaceRow>>,
    ) {
        self.by_kind
            .entry(kind)
            .or_insert_with(|| Difference {
                kind,
                first_offset: offset,
                times: 0,
                left: places.left.cloned(),
                right: places.right.cloned(),
            })
            .times += 1;
    }

    pub(super) fn has(&self, kind: DiffKind) -> bool {
        self.by_kind.contains_key(&kind)
    }

    /// Those that mean a loss come first, each group by offset. The first one says how the
    /// replicas differ.
    pub(super) fn finish(self) -> Vec<Difference> {
        let mut rows: Vec<Difference> = self.by_kind.into_values().collect();
        rows.sort_by_key(|it| (!it.kind.is_loss(), it.first_offset));
        rows
    }
}
