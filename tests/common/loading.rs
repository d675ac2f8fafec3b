//! Rows of `recover` in the form in which Kafka's answers are written down.

use std::collections::BTreeMap;
use std::path::Path;

use kseg::append::dry_run::RecoverRow;
use kseg::append::dry_run::row::ActionKind;
use kseg::format::record_batch::decrement_sequence;
use kseg::log::partition_dir::PartitionDir;
use serde_json::{Value, json};

/// The row in the form of the incidents' `expected.json`.
pub fn as_expected(row: &RecoverRow) -> Value {
    let producers: Vec<Value> = row
        .producers
        .iter()
        .map(|producer| {
            let batches: Vec<Value> = producer
                .batch_metadata
                .iter()
                .map(|batch| {
                    json!({
                        // Kafka counts back from the last one, -1 of none too.
                        "firstSequence": batch.first_seq.unwrap_or_else(|| {
                            decrement_sequence(-1, batch.offset_delta)
                        }),
                        "lastSequence": batch.last_seq.unwrap_or(-1),
                        "firstOffset": batch.first_offset,
                        "lastOffset": batch.last_offset,
                        "timestamp": batch.timestamp.unwrap_or(-1),
                    })
                })
                .collect();
            json!({
                "producerId": producer.producer_id,
                "producerEpoch": producer.producer_epoch.unwrap_or(-1),
                "coordinatorEpoch": producer.coordinator_epoch.unwrap_or(-1),
                "lastSequence": producer.last_sequence.unwrap_or(-1),
                "lastDataOffset": producer.last_offset.unwrap_or(-1),
                "lastTimestamp": producer.last_timestamp.unwrap_or(-1),
                "currentTxnFirstOffset": producer.current_txn_first_offset,
                "batches": batches,
            })
        })
        .collect();
    let aborted = serde_json::to_value(&row.aborted_transactions).unwrap();
    let epochs: Vec<Value> = row
        .leader_epochs
        .iter()
        .map(|epoch| json!([epoch.epoch, epoch.start_offset]))
        .collect();
    let segments: Vec<Value> = row
        .segments
        .iter()
        .map(|it| json!({"baseOffset": it.base_offset, "size": it.size_in_bytes}))
        .collect();
    json!({
        "logStartOffset": row.log_start_offset,
        "logEndOffset": row.log_end_offset,
        "highWatermark": row.high_watermark,
        "lastStableOffset": row.last_stable_offset,
        "segments": segments,
        "producers": producers,
        "abortedTransactions": aborted,
        "leaderEpochs": epochs,
        "files": files(row),
    })
}

/// Names that are there before and after, and sizes, out of the actions alone.
pub fn files(row: &RecoverRow) -> Value {
    let dir = PartitionDir::open(Path::new(&row.path)).unwrap();
    let before: BTreeMap<String, u64> = dir
        .files
        .iter()
        .map(|file| (file.name().into_owned(), file.size_in_bytes))
        .collect();
    let mut after = before.clone();
    for kind in [ActionKind::Remove, ActionKind::Rename, ActionKind::Make] {
        let mut named = Vec::new();
        for action in row.actions.iter().filter(|action| action.kind == kind) {
            match kind {
                ActionKind::Remove => {
                    after.remove(&action.file);
                }
                ActionKind::Rename => {
                    let size = after.remove(&action.file).unwrap();
                    named.push((action.to.clone().unwrap(), size));
                }
                _ => {
                    after.insert(action.file.clone(), action.size_in_bytes.unwrap());
                }
            }
        }
        after.extend(named);
    }
    for action in &row.actions {
        match action.kind {
            ActionKind::Cut => {
                after.insert(action.file.clone(), action.position.unwrap());
            }
            ActionKind::Rewrite => {
                after.insert(action.file.clone(), action.size_in_bytes.unwrap());
            }
            _ => {}
        }
    }
    let removed: Vec<&String> = before
        .keys()
        .filter(|it| !after.contains_key(*it))
        .collect();
    let created: Vec<&String> = after
        .keys()
        .filter(|it| !before.contains_key(*it))
        .collect();
    let resized: Vec<Value> = after
        .iter()
        .filter(|(name, _)| !name.ends_with(".index") && !name.ends_with(".timeindex"))
        .filter_map(|(name, to)| {
            let from = before.get(name).filter(|from| *from != to)?;
            Some(json!({"file": name, "from": from, "to": to}))
        })
        .collect();
    json!({
        "removed": removed,
        "created": created,
        "resized": resized,
        "indexesRewritten": row.indexes_rewritten,
    })
}
