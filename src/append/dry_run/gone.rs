//! What is gone before the start: acknowledged offsets that the files do not give any more. Whoever
//! looks for them tells the row, which keeps those that lie in the log as it would be.

use std::fmt;

use serde::Serialize;

use super::row::RecoverRow;

/// Ranges that are listed; the others are only counted.
const MAX_LISTED: usize = 1000;

/// Acknowledged offsets that cannot be read any more, and that the start does not touch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct GoneOffsets {
    /// How many.
    pub offsets: u64,
    /// First of them.
    pub first_offset: Option<i64>,
    /// Last of them.
    pub last_offset: Option<i64>,
    /// The first thousand ranges, in the order in which they were found.
    pub ranges: Vec<GoneRange>,
}

/// Offsets that follow each other and are gone for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct GoneRange {
    /// First of them.
    pub first_offset: i64,
    /// Last of them.
    pub last_offset: i64,
    /// Kind of the finding, as in `verify`.
    pub kind: &'static str,
    /// Name of the `.log` they lie in; null if they are in none.
    pub file: Option<String>,
    /// Byte position of the first of them there, else null.
    pub position: Option<u64>,
}

impl GoneOffsets {
    fn add(&mut self, range: GoneRange) {
        let GoneRange {
            first_offset,
            last_offset,
            ..
        } = range;
        let span = last_offset.saturating_sub(first_offset).saturating_add(1);
        self.offsets = self
            .offsets
            .saturating_add(u64::try_from(span).unwrap_or(0));
        let lowest = self
            .first_offset
            .map_or(first_offset, |it| it.min(first_offset));
        self.first_offset = Some(lowest);
        self.last_offset = self.last_offset.max(Some(last_offset));
        let listed = self.ranges.len();
        match self.ranges.last_mut() {
            Some(before)
                if before.last_offset.checked_add(1) == Some(first_offset)
                    && before.kind == range.kind
                    && before.file == range.file =>
            {
                before.last_offset = last_offset;
            }
            _ if listed < MAX_LISTED => self.ranges.push(range),
            _ => {}
        }
    }
}

/// Ranges that a warning names.
const MAX_NAMED: usize = 5;

impl RecoverRow {
    /// Takes in offsets that are gone before the start, but for those among its losses: what lies
    /// at or above the log end, and what it removes the last copy of.
    pub fn add_gone(&mut self, range: &GoneRange) {
        let Some(end) = self.log_end_offset.filter(|_| self.loads) else {
            return;
        };
        let first = range.first_offset;
        let last = range.last_offset.min(end.saturating_sub(1));
        let parts = self.lost_spans.without(first, last);
        for (first_offset, last_offset) in parts {
            self.gone.get_or_insert_default().add(GoneRange {
                first_offset,
                last_offset,
                ..range.clone()
            });
        }
    }

    /// All that is gone has been taken in; without this it counts as not looked for. It is the same
    /// at any start, so only one of them tells it among its warnings.
    pub fn finish_gone(&mut self, is_told: bool) {
        let gone = self.gone.get_or_insert_default();
        if gone.offsets == 0 || !is_told {
            return;
        }
        let named = gone.ranges.iter().take(MAX_NAMED);
        let named: Vec<String> = named.map(GoneRange::to_string).collect();
        let others = if gone.ranges.len() > MAX_NAMED {
            ", and others"
        } else {
            ""
        };
        let (offsets, them) = match gone.offsets {
            1 => ("acknowledged offset is", "it"),
            _ => ("acknowledged offsets are", "them"),
        };
        self.warnings.push(format!(
            "{} {offsets} gone already, and no start brings {them} back: {}{others}; consumers go \
             on behind {them} or stop there; another replica may have {them}: do not let this one \
             lead; kseg verify says what to do",
            gone.offsets,
            named.join(", "),
        ));
    }

    /// Whether acknowledged offsets are gone before the start.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.gone.as_ref().is_some_and(|it| it.offsets > 0)
    }
}

impl fmt::Display for GoneRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, last, kind) = (self.first_offset, self.last_offset, self.kind);
        if first == last {
            write!(f, "{first} ({kind})")
        } else {
            write!(f, "{first}..{last} ({kind})")
        }
    }
}
