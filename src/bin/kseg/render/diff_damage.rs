//! What `diff` prints of damage, and of files beside the logs.

use kseg::report::diff::{DamageRow, DiffRow};
use kseg::report::gaps::offset_range;

use super::diff_table::{Lines, MAX_LINES};
use super::text::{count, plural, printable};

/// Damage of either side, and what both lack.
pub(super) fn damage(row: &DiffRow, lines: &mut Lines) {
    for it in row.both_corrupt.iter().take(MAX_LINES) {
        lines.alarm(format!(
            "the same {} on both sides: {}",
            it.left.kind,
            damaged(&it.left)
        ));
    }
    for it in row.both_missing.iter().take(MAX_LINES) {
        lines.alarm(format!(
            "gone on both sides: {}; nothing tells that a cleaner took them",
            offset_range(it.first_offset, it.last_offset)
        ));
    }
    let more = row.both_missing.len().saturating_sub(MAX_LINES) as u64;
    if more > 0 {
        lines.push(format!("and {}", plural(more, "more hole", "more holes")));
    }
    if row.both_corrupt.iter().any(|both| !both.left.is_tail()) || !row.both_missing.is_empty() {
        lines.push("neither of the two can help; look for a third replica or a copy".to_owned());
    }
    if row.batches_over_limit > 0 {
        lines.push(format!(
            "the records of {} were not compared: --max-batch-bytes is too low for them",
            plural(row.batches_over_limit, "batch", "batches")
        ));
    }
    if row.records_not_looked_for > 0 {
        lines.push(format!(
            "the keys of {} were not looked for, as there are too many: taken for compacted away",
            count(row.records_not_looked_for, "record")
        ));
    }
    for (side, rows) in [("left", &row.damaged_left), ("right", &row.damaged_right)] {
        for it in rows.iter().take(MAX_LINES) {
            lines.alarm(format!("{} on the {side}: {}", it.kind, damaged(it)));
        }
    }
    let lists = [
        row.both_corrupt.len(),
        row.damaged_left.len(),
        row.damaged_right.len(),
    ];
    let more: usize = lists.iter().map(|len| len.saturating_sub(MAX_LINES)).sum();
    let more = more as u64 + row.damage_not_listed;
    if more > 0 {
        lines.push(format!("and {more} more damaged; -o json has more"));
    }
}

fn damaged(row: &DamageRow) -> String {
    let mut text = format!("{} @ {}", printable(&row.file), row.position);
    if let (Some(first), Some(last)) = (row.base_offset, row.last_offset) {
        text.push_str(&format!("  {}", offset_range(first, last)));
    }
    if let Some(next) = row.next_offset {
        text.push_str(&format!("  readers go on at {next}"));
    }
    text
}

/// What files beside the logs do not say alike.
pub(super) fn side_files(row: &DiffRow, lines: &mut Lines) {
    let rows = row.side_files.iter();
    for it in rows.filter(|it| it.is_difference || it.is_on_both_sides) {
        let side = match it.side {
            None if it.is_on_both_sides => " (both)".to_owned(),
            side => side.map_or_else(String::new, |side| format!(" ({side})")),
        };
        lines.push(format!("{}{side}: {}", printable(&it.file), it.kind));
        lines.push(format!("  {}", printable(&it.message)));
    }
}
