//! What `diff` says is to be done about a difference.
//!
//! Where a side is to follow, or to be fetched anew, what it alone has goes. That is said first,
//! with the command that prints it.

use kseg::report::diff::{Alone, DiffKind, DiffRow, LostFrontRow, TruncationRow};
use kseg::report::gaps::offset_range;

use super::diff_table::{Line, Lines};
use super::text::{count, optional, printable};

/// Adds what to do next.
pub(super) fn push_next(row: &DiffRow, kind: DiffKind, lines: &mut Lines) {
    let sides = Replicas { row };
    for (index, line) in sides.next_step(kind).into_iter().enumerate() {
        let lead = if index == 0 { "next: " } else { "      " };
        lines.0.push(line.behind(lead));
    }
}

struct Replicas<'r> {
    row: &'r DiffRow,
}

impl Replicas<'_> {
    fn next_step(&self, kind: DiffKind) -> Vec<Line> {
        match kind {
            DiffKind::OtherEpoch => self.two_leaders(),
            DiffKind::OtherBytes => match (self.is_damaged(true), self.is_damaged(false)) {
                (true, false) => self.fetched_anew(true),
                (false, true) => self.fetched_anew(false),
                (true, true) | (false, false) => self.either(),
            },
            DiffKind::MissingTail => self.longer_leads(),
            DiffKind::MissingSegment | DiffKind::MissingRecords => self.without_hole(),
            DiffKind::MissingPartition | DiffKind::Compaction | DiffKind::OtherBatchSplit => {
                vec![text("nothing to do: no record is lost")]
            }
            DiffKind::SideFiles => self.side_files(),
        }
    }

    fn alone(&self, is_left: bool) -> &Alone {
        if is_left {
            &self.row.only_in_left
        } else {
            &self.row.only_in_right
        }
    }

    fn path(&self, is_left: bool) -> String {
        let path = if is_left {
            &self.row.left_path
        } else {
            &self.row.right_path
        };
        printable(path.as_deref().unwrap_or("PATH"))
    }

    /// Whether a side has damage that the other has not.
    fn is_damaged(&self, is_left: bool) -> bool {
        let rows = if is_left {
            &self.row.damaged_left
        } else {
            &self.row.damaged_right
        };
        rows.iter().any(|row| !row.is_tail())
    }

    /// Whether a side lacks offsets that the other has.
    fn has_hole(&self, is_left: bool) -> bool {
        let ranges = &self.alone(!is_left).ranges;
        ranges
            .iter()
            .any(|it| matches!(it.kind, DiffKind::MissingSegment | DiffKind::MissingRecords))
    }

    /// One side lacks offsets that no fetch brings back.
    fn without_hole(&self) -> Vec<Line> {
        let (is_left, front) = match self.without_front() {
            Some(is_left) => (is_left, true),
            None => match (self.has_hole(true), self.has_hole(false)) {
                (true, false) => (true, false),
                (false, true) => (false, false),
                (true, true) | (false, false) => return self.either(),
            },
        };
        let why = if front {
            [
                format!(
                    "do not let the {} side lead: the other would delete",
                    side(is_left)
                ),
                "what it alone has then".to_owned(),
            ]
        } else {
            [
                "a follower does not fetch what lies below its end, so the".to_owned(),
                format!(
                    "hole of the {} side stays until it is fetched anew",
                    side(is_left)
                ),
            ]
        };
        let why = why.into_iter().map(Line::Text);
        why.chain(self.fetched_anew(is_left)).collect()
    }

    /// Whether it is the left side that lacks the first difference in its front; `None` if none
    /// does.
    fn without_front(&self) -> Option<bool> {
        let row = self.row;
        let first = row.first_divergent_offset?;
        let lacks = |lost: Option<LostFrontRow>| lost.is_some_and(|lost| first <= lost.last_offset);
        match (lacks(row.left_lost_front), lacks(row.right_lost_front)) {
            (false, false) => None,
            // Of two the one that begins later.
            (true, true) => Some(row.left_log_start_offset > row.right_log_start_offset),
            (is_left, _) => Some(is_left),
        }
    }

    /// Where a side's own offsets below the start of the other end, if it has any.
    fn front(&self, is_left: bool) -> Option<(i64, i64)> {
        let row = self.row;
        let left = (row.left_log_start_offset?, row.left_log_end_offset?);
        let right = (row.right_log_start_offset?, row.right_log_end_offset?);
        let (own, other) = if is_left {
            (left, right)
        } else {
            (right, left)
        };
        let end = own.1.min(other.0);
        (own.0 < end).then_some((own.0, end.saturating_sub(1)))
    }

    /// What goes when a side follows or is fetched anew: in words, and its first and last offset.
    fn what_goes(&self, is_left: bool, with_front: bool) -> Option<(String, i64, Option<i64>)> {
        let alone = self.alone(is_left);
        let front = self.front(is_left).filter(|_| with_front);
        let lost = || alone.ranges.iter().filter(|range| range.kind.is_loss());
        let has_records = alone.readable_records > 0;
        let first = lost().map(|range| range.first_offset).min();
        let last = lost().map(|range| range.last_offset).max();
        let last = last.filter(|_| alone.ranges_not_listed == 0);
        match (front, has_records) {
            (None, false) => None,
            (None, true) => {
                let first = first.unwrap_or_else(|| self.start(is_left));
                Some((count(alone.readable_records, "record"), first, last))
            }
            (Some((from, to)), false) => Some((offset_range(from, to), from, Some(to))),
            (Some((from, to)), true) => Some((
                format!(
                    "{} and {}",
                    offset_range(from, to),
                    count(alone.readable_records, "record")
                ),
                from,
                last.map(|last| last.max(to)),
            )),
        }
    }

    /// The command that prints what lies in these offsets on a side.
    fn save(&self, is_left: bool, first: i64, last: Option<i64>) -> Line {
        // `--to-offset` is the first that is left out.
        let to = last.and_then(|last| last.checked_add(1));
        let to = to.map_or_else(String::new, |to| format!(" --to-offset {to}"));
        Line::Command(format!(
            "kseg dump --records --from-offset {first}{to} {}",
            self.path(is_left)
        ))
    }

    /// Two leaders wrote: each side may lose something.
    fn two_leaders(&self) -> Vec<Line> {
        let mut lines = Vec::new();
        for is_left in [true, false] {
            let with_front = self.follows(is_left).is_some_and(|row| row.is_full);
            if let Some((_, first, last)) = self.what_goes(is_left, with_front) {
                lines.push(self.save(is_left, first, last));
            }
        }
        if lines.is_empty() {
            return self.either();
        }
        lines.insert(
            0,
            text("before one side follows the other, save what it will lose:"),
        );
        lines
    }

    /// What a side does that follows the other.
    fn follows(&self, is_left: bool) -> Option<&TruncationRow> {
        if is_left {
            self.row.if_right_leads.as_ref()
        } else {
            self.row.if_left_leads.as_ref()
        }
    }

    /// A side is to be fetched anew from the other, which is sound.
    fn fetched_anew(&self, is_left: bool) -> Vec<Line> {
        let mut lines = Vec::new();
        let (own, other) = (side(is_left), side(!is_left));
        if let Some(stop) = self.damage_of_leader(!is_left) {
            lines.push(Line::Text(format!(
                "the {other} side is damaged too, at offset {stop}: what is fetched anew"
            )));
            lines.push(text("from it stops there; save what each side has first:"));
            for is_left in [true, false] {
                lines.push(self.save(is_left, self.start(is_left), None));
            }
            return lines;
        }
        match self.what_goes(is_left, true) {
            None => lines.push(Line::Text(format!(
                "let the {other} side lead: it has all that the {own} side has"
            ))),
            Some((what, first, last)) => {
                lines.push(Line::Text(format!(
                    "the {own} side alone has {what}: save them"
                )));
                lines.push(text("first, as they go when it is fetched anew:"));
                lines.push(self.save(is_left, first, last));
                lines.push(Line::Text(format!("then let the {other} side lead")));
            }
        }
        lines.push(Line::Text(format!(
            "stop the {own} side's broker and remove {}",
            self.path(is_left)
        )));
        lines.push(text("so that it is fetched anew"));
        lines
    }

    fn start(&self, is_left: bool) -> i64 {
        let start = if is_left {
            self.row.left_log_start_offset
        } else {
            self.row.right_log_start_offset
        };
        start.unwrap_or(0)
    }

    /// The first offset of damage that a follower of this side would meet if it fetched all.
    fn damage_of_leader(&self, is_left: bool) -> Option<String> {
        let own = if is_left {
            &self.row.damaged_left
        } else {
            &self.row.damaged_right
        };
        let both = self.row.both_corrupt.iter().map(|both| &both.left);
        let damaged = own.iter().chain(both).find(|row| !row.is_tail())?;
        Some(optional(damaged.base_offset))
    }

    /// Nothing tells which side is right.
    fn either(&self) -> Vec<Line> {
        let first = self.row.first_divergent_offset.unwrap_or(0);
        vec![
            text("no broker will notice; save both, see which side is right, and have"),
            text("the other fetched anew, which drops what it alone has:"),
            self.save(true, first, None),
            self.save(false, first, None),
        ]
    }

    /// One log ends before the other.
    fn longer_leads(&self) -> Vec<Line> {
        let is_left = self.row.left_log_end_offset > self.row.right_log_end_offset;
        let (longer, shorter) = (side(is_left), side(!is_left));
        let follower = self.follows(!is_left);
        let mut lines = Vec::new();
        let is_full = follower.is_some_and(|row| row.is_full);
        let loses = follower.is_some_and(|row| row.offsets_lost.is_none_or(|lost| lost > 0));
        if loses && let Some((what, first, last)) = self.what_goes(!is_left, is_full) {
            lines.push(Line::Text(format!(
                "the {shorter} side alone has {what}: save them first, as they"
            )));
            lines.push(Line::Text(format!("go when the {longer} side leads:")));
            lines.push(self.save(!is_left, first, last));
        }
        let stop = follower.and_then(|row| row.stops_at_offset);
        if let Some(stop) = stop {
            lines.push(Line::Text(format!(
                "the {longer} side is damaged at offset {stop}: the other fetches up to"
            )));
            lines.push(text(
                "there, fails on that batch and tries it for ever; save the tail,",
            ));
            lines.push(Line::Text(format!(
                "then let the {shorter} side lead, which cuts it off, and produce it again:"
            )));
            let from = if is_left {
                self.row.right_log_end_offset
            } else {
                self.row.left_log_end_offset
            };
            lines.push(self.save(is_left, from.unwrap_or(stop), None));
        } else if lines.is_empty() {
            lines.push(Line::Text(format!(
                "let the {longer} side lead; the other fetches what it lacks"
            )));
        } else {
            lines.push(Line::Text(format!(
                "then let the {longer} side lead; the other fetches what it lacks"
            )));
        }
        lines
    }

    fn side_files(&self) -> Vec<Line> {
        let is_of = |file: &str| {
            let mut rows = self.row.side_files.iter();
            rows.any(|row| row.is_difference && row.file == file)
        };
        let is_rebuilt = |file: &str| file != TOPIC_ID && file != LEADER_EPOCHS;
        let mut lines = Vec::new();
        let mut rows = self.row.side_files.iter();
        if rows.any(|row| row.is_difference && is_rebuilt(&row.file)) {
            lines.push(text(
                "kseg rebuild makes snapshots and .txnindex again from the log",
            ));
        }
        if is_of(LEADER_EPOCHS) {
            lines.push(text(
                "leader epochs: let the side lead that has them all; the other takes",
            ));
            lines.push(text(
                "them over only for what it fetches, so have it fetched anew if its",
            ));
            lines.push(text("broker must know them"));
        }
        if is_of(TOPIC_ID) {
            lines.push(text(
                "topic id: kafka-topics.sh --describe tells the one of the cluster; a",
            ));
            lines.push(text(
                "directory with another one is of a topic that was deleted",
            ));
        }
        lines
    }
}

const TOPIC_ID: &str = "partition.metadata";
const LEADER_EPOCHS: &str = "leader-epoch-checkpoint";

fn text(text: &str) -> Line {
    Line::Text(text.to_owned())
}

fn side(is_left: bool) -> &'static str {
    if is_left { "left" } else { "right" }
}
