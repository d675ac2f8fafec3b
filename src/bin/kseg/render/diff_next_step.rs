//! What `diff` says is to be done about a difference.

use kseg::report::diff::{DiffKind, DiffRow, LostFrontRow};

use super::diff_table::{Line, Lines};
use super::text::{optional, printable};

/// Adds what to do next.
pub(super) fn push_next(row: &DiffRow, kind: DiffKind, lines: &mut Lines) {
    for (index, line) in next_step(row, kind).into_iter().enumerate() {
        let lead = if index == 0 { "next: " } else { "      " };
        lines.0.push(line.behind(lead));
    }
}

/// What to do next about a difference.
fn next_step(row: &DiffRow, kind: DiffKind) -> Vec<Line> {
    let text = |text: &str| Line::Text(text.to_owned());
    let path = |is_left| path(row, is_left);
    let fetched_anew = |is_left: bool| {
        vec![
            Line::Text(format!("let the {} side lead: it is sound", side(!is_left))),
            Line::Text(format!(
                "stop the other broker and remove {}",
                path(is_left)
            )),
            text("so that it is fetched anew"),
        ]
    };
    match kind {
        DiffKind::OtherEpoch => {
            let offset = optional(row.first_divergent_offset);
            vec![
                text("before one side follows the other, save what it will lose:"),
                Line::Command(format!("kseg read --from-offset {offset} {}", path(true))),
                Line::Command(format!("kseg read --from-offset {offset} {}", path(false))),
            ]
        }
        DiffKind::OtherBytes => match (row.damaged_left.is_empty(), row.damaged_right.is_empty()) {
            (true, false) => fetched_anew(false),
            (false, true) => fetched_anew(true),
            (true, true) | (false, false) => {
                let offset = optional(row.first_divergent_offset);
                vec![
                    text("no broker will notice; see which side is right, and have the other"),
                    text("fetched anew:"),
                    Line::Command(format!(
                        "kseg dump --records --from-offset {offset} {}",
                        path(true)
                    )),
                    Line::Command(format!(
                        "kseg dump --records --from-offset {offset} {}",
                        path(false)
                    )),
                ]
            }
        },
        DiffKind::MissingTail => {
            let longer = side(row.left_log_end_offset > row.right_log_end_offset);
            vec![Line::Text(format!(
                "let the {longer} side lead; the other fetches what it lacks"
            ))]
        }
        DiffKind::MissingSegment => fetched_with_its_hole(row),
        DiffKind::MissingPartition | DiffKind::Compaction | DiffKind::OtherBatchSplit => {
            vec![text("nothing to do: no record is lost")]
        }
        DiffKind::SideFiles => {
            vec![text("kseg rebuild makes side files again from the log")]
        }
    }
}

/// What to do where one side lacks offsets that no fetch brings back.
fn fetched_with_its_hole(row: &DiffRow) -> Vec<Line> {
    let lines = match without_front(row) {
        Some(is_left) => [
            format!(
                "do not let the {} side lead: the other would delete",
                side(is_left)
            ),
            "what it alone has then; stop its broker and remove".to_owned(),
            path(row, is_left),
            "so that it is fetched anew".to_owned(),
        ]
        .to_vec(),
        None => [
            "a follower does not fetch what lies below its end: have the replica",
            "with the hole fetched anew from the other",
        ]
        .map(str::to_owned)
        .to_vec(),
    };
    lines.into_iter().map(Line::Text).collect()
}

fn path(row: &DiffRow, is_left: bool) -> String {
    let path = if is_left {
        &row.left_path
    } else {
        &row.right_path
    };
    printable(path.as_deref().unwrap_or("PATH"))
}

/// Whether it is the left side that lacks the first difference in its front; `None` if none does.
fn without_front(row: &DiffRow) -> Option<bool> {
    let first = row.first_divergent_offset?;
    let lacks = |lost: Option<LostFrontRow>| lost.is_some_and(|lost| first <= lost.last_offset);
    match (lacks(row.left_lost_front), lacks(row.right_lost_front)) {
        (false, false) => None,
        // Of two the one that begins later.
        (true, true) => Some(row.left_log_start_offset > row.right_log_start_offset),
        (is_left, _) => Some(is_left),
    }
}

fn side(is_left: bool) -> &'static str {
    if is_left { "left" } else { "right" }
}
