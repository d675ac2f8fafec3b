//! What must hold between `txns`, `aborted`, the state and the indexes, whatever Kafka says.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use kseg::log::batches::Entry;
use kseg::log::partition_dir::PartitionDir;
use kseg::log::partition_walk::walk_partition;
use kseg::log::{Error, Io};
use kseg::report::aborted::{AbortedOptions, AbortedSummary};
use kseg::report::partition_state::{StateOptions, load_partition_state};
use kseg::report::txns::BEHIND_DAMAGE;
use serde_json::{Value, json};

use crate::common::partitions::fresh_cases;
use crate::folders::rest;
use crate::{Differences, aborted, array, dirs, in_index, in_log, is_open, name, open, root, txns};

/// Every partition directory below fixtures and cases that holds segments, fresh ones as well.
fn all_partitions() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root().join("fixtures"), root().join("cases")];
    folders.extend(fresh_cases());
    while let Some(folder) = folders.pop() {
        for below in dirs(&folder) {
            let dir = PartitionDir::open(&below).unwrap();
            if dir.segments.is_empty() || dir.name.is_none() {
                folders.push(below);
            } else {
                found.push(below);
            }
        }
    }
    found.sort();
    found
}

#[test]
fn open_transactions_are_those_of_the_state() {
    let mut differences = Differences::default();
    let mut compared = 0;
    for partition in all_partitions() {
        let (dir, offsets) = open(&partition);
        let end = load_partition_state(&dir, offsets, StateOptions::default()).unwrap();
        let end = end.unwrap().log_end_offset;
        let first = dir.segments[0].base_offset;
        let middle = first + (end - first) / 2;
        for from_scratch in [false, true] {
            for at_offset in [None, Some(middle), Some(first)] {
                let options = StateOptions {
                    from_scratch,
                    at_offset,
                    ..StateOptions::default()
                };
                let state = load_partition_state(&dir, offsets, options)
                    .unwrap()
                    .unwrap();
                let theirs: Vec<(i64, i64)> = state
                    .manager
                    .ongoing_txns()
                    .map(|txn| (txn.producer_id, txn.first_offset.message_offset))
                    .collect();
                let (rows, summary) = txns(&partition, options).unwrap();
                let ours: Vec<(i64, i64)> = rows
                    .iter()
                    .filter(|row| is_open(row))
                    .map(|row| {
                        let number = |key: &str| row[key].as_i64().unwrap();
                        (number("producerId"), number("firstOffset"))
                    })
                    .collect();
                compared += 1;
                let what = format!("{} {options:?}", partition.display());
                differences.check(&what, &json!(ours), &json!(theirs));
                differences.check(
                    &what,
                    &json!([summary.last_stable_offset, summary.log_end_offset]),
                    &json!([state.offsets.last_stable_offset(), state.log_end_offset]),
                );
            }
        }
    }
    assert!(compared > 1000, "{compared}");
    differences.none();
}

/// A copy of a partition whose last `.txnindex` with rows is changed by `change`.
fn with_index(partition: &Path, change: impl FnOnce(&mut Vec<u8>)) -> (tempfile::TempDir, PathBuf) {
    let temp = tempfile::tempdir().unwrap();
    let copy = temp.path().join(name(partition));
    fs::create_dir(&copy).unwrap();
    let mut indexes = Vec::new();
    for file in fs::read_dir(partition).unwrap() {
        let file = file.unwrap().path();
        if !file.is_file() {
            continue;
        }
        let to = copy.join(file.file_name().unwrap());
        fs::write(&to, fs::read(&file).unwrap()).unwrap();
        if name(&to).ends_with(".txnindex") && fs::metadata(&to).unwrap().len() > 0 {
            indexes.push(to);
        }
    }
    indexes.sort();
    let index = indexes.last().unwrap();
    let mut bytes = fs::read(index).unwrap();
    change(&mut bytes);
    fs::write(index, bytes).unwrap();
    rest(&copy);
    (temp, copy)
}

const ROW_SIZE: usize = 34;

fn offsets_in(ranges: &Value) -> i64 {
    let length = |range: &Value| range[1].as_i64().unwrap() - range[0].as_i64().unwrap() + 1;
    array(ranges).iter().map(length).sum()
}

/// Partitions whose last index row is of a transaction with records, nothing compacted, and a
/// committed transaction beside it. Copies have no checkpoints: without those nothing may differ.
fn damageable() -> Vec<(PathBuf, Value, Value)> {
    let mut found = Vec::new();
    for partition in all_partitions() {
        let Some((rows, summary)) = aborted(&partition, AbortedOptions::default()) else {
            continue;
        };
        let last_row = rows.iter().rfind(|row| in_index(row));
        let (txns, _) = txns(&partition, StateOptions::default()).unwrap();
        let committed = txns
            .iter()
            .rfind(|row| row["state"] == "COMMITTED" && row["records"].as_u64() > Some(0));
        if let (Some(row), Some(committed), false) = (last_row, committed, summary.disagrees())
            && in_log(row)
            && row["records"].as_u64() > Some(0)
            && is_same_without_checkpoints(&partition, &rows, &txns)
        {
            found.push((partition, row.clone(), committed.clone()));
        }
    }
    found
}

/// Where a log starts decides what is part of its transactions.
fn is_same_without_checkpoints(partition: &Path, rows: &[Value], transactions: &[Value]) -> bool {
    let (_temp, copy) = with_index(partition, |_| ());
    let (those, summary) = aborted(&copy, AbortedOptions::default()).unwrap();
    let (ended, _) = txns(&copy, StateOptions::default()).unwrap();
    let is_ended = |row: &&Value| !is_open(row);
    !summary.disagrees()
        && those == rows
        && ended
            .iter()
            .filter(is_ended)
            .eq(transactions.iter().filter(is_ended))
}

/// Changes the index of every partition it can, and has the outcome judged. `change` and `judge`
/// are given the last row of the index and a committed transaction.
fn damage(
    change: impl Fn(&mut Vec<u8>, &Value, &Value),
    judge: impl Fn(&[Value], AbortedSummary, &Value, &Value),
) {
    let damageable = damageable();
    assert!(damageable.len() > 20, "{}", damageable.len());
    for (partition, row, committed) in damageable {
        let (_temp, copy) = with_index(&partition, |bytes| change(bytes, &row, &committed));
        let (rows, summary) = aborted(&copy, AbortedOptions::default()).unwrap();
        assert!(summary.disagrees(), "{}", partition.display());
        judge(&rows, summary, &row, &committed);
    }
}

fn with_finding<'r>(rows: &'r [Value], finding: &str) -> &'r Value {
    rows.iter().find(|row| row["finding"] == finding).unwrap()
}

#[test]
fn missing_row_is_named_with_the_records_it_shows() {
    damage(
        |bytes, _, _| bytes.truncate(bytes.len() - ROW_SIZE),
        |rows, summary, row, _| {
            assert_eq!(summary.missing, 1);
            let missing = with_finding(rows, "txnindex-entry-missing");
            assert_eq!(missing["lastOffset"], row["lastOffset"]);
            assert_eq!(missing["exposedRecords"], row["records"]);
            assert!(offsets_in(&missing["exposedOffsets"]) >= row["records"].as_i64().unwrap());
        },
    );
}

#[test]
fn torn_row_is_named() {
    damage(
        |bytes, _, _| bytes.extend([0; 5]),
        |rows, summary, _, _| {
            assert_eq!(
                (summary.broken, summary.missing, summary.surplus),
                (1, 0, 0)
            );
            with_finding(rows, "txnindex-entry-torn");
        },
    );
}

#[test]
fn row_that_starts_late_is_named_with_the_records_it_shows() {
    damage(
        |bytes, row, _| {
            let at = bytes.len() - ROW_SIZE + 10;
            let last_offset = row["lastOffset"].as_i64().unwrap();
            bytes[at..at + 8].copy_from_slice(&last_offset.to_be_bytes());
        },
        |rows, summary, row, _| {
            assert_eq!(
                (summary.starts_late, summary.missing, summary.surplus),
                (1, 0, 0)
            );
            let late = with_finding(rows, "txnindex-entry-starts-late");
            assert_eq!(late["logFirstOffset"], row["logFirstOffset"]);
            assert_eq!(late["exposedRecords"], row["records"]);
        },
    );
}

/// Below the log start nobody reads: what a missing row shows there is nothing, and a row is
/// missing only if it shows something.
#[test]
fn nothing_is_shown_below_the_log_start() {
    let (mut some, mut none) = (0, 0);
    for (partition, row, _) in damageable() {
        let (temp, copy) = with_index(&partition, |bytes| {
            bytes.truncate(bytes.len() - ROW_SIZE);
        });
        let (dir, _) = open(&copy);
        let of_transaction = |log_start: i64| {
            let (topic, number) = (dir.topic().unwrap(), dir.partition().unwrap());
            let line = format!("0\n1\n{topic} {number} {log_start}\n");
            fs::write(temp.path().join("log-start-offset-checkpoint"), line).unwrap();
            let (rows, _) = aborted(&copy, AbortedOptions::default()).unwrap();
            let mut rows = rows.into_iter();
            rows.find(|it| it["lastOffset"] == row["lastOffset"])
                .unwrap()
        };
        let first_offset = row["logFirstOffset"].as_i64().unwrap();
        let last_offset = row["lastOffset"].as_i64().unwrap();
        let whole = of_transaction(first_offset);
        let ranges = array(&whole["exposedOffsets"]);
        if let [first, rest @ ..] = ranges
            && !rest.is_empty()
        {
            let later = of_transaction(first[1].as_i64().unwrap() + 1);
            assert_eq!(later["finding"], "txnindex-entry-missing", "{later}");
            assert_eq!(array(&later["exposedOffsets"]), rest, "{later}");
            some += 1;
        }
        let nothing = of_transaction(last_offset);
        assert_eq!(nothing["finding"], Value::Null, "{nothing}");
        assert_eq!(nothing["exposedRecords"], 0, "{nothing}");
        none += 1;
    }
    assert!(some > 5 && none > 20, "{some} {none}");
}

#[test]
fn surplus_row_is_named_with_the_records_it_hides() {
    damage(
        |bytes, _, committed| {
            let number = |key: &str| committed[key].as_i64().unwrap();
            bytes.extend([0; 2]);
            bytes.extend(number("producerId").to_be_bytes());
            bytes.extend(number("firstOffset").to_be_bytes());
            bytes.extend(number("markerOffset").to_be_bytes());
            bytes.extend((number("markerOffset") + 1).to_be_bytes());
        },
        |rows, summary, _, committed| {
            assert_eq!(
                (summary.surplus, summary.missing, summary.broken),
                (1, 0, 0)
            );
            let surplus = with_finding(rows, "txnindex-entry-surplus");
            assert_eq!(surplus["hiddenRecords"], committed["records"]);
        },
    );
}

/// A consumer drops a producer from its list at an ABORT alone
/// (`CompletedFetch.nextFetchedRecord`), so a row that begins too early hides what was committed
/// from there on.
#[test]
fn row_that_begins_too_early_is_named_with_the_records_it_hides() {
    let mut seen = 0;
    for (partition, row, _) in damageable() {
        let (txns, _) = txns(&partition, StateOptions::default()).unwrap();
        let number = |row: &Value, key: &str| row[key].as_i64().unwrap();
        let mut of_producer: Vec<&Value> = txns
            .iter()
            .filter(|it| it["producerId"] == row["producerId"] && !is_open(it))
            .filter(|it| it["firstOffset"].as_i64() < row["firstOffset"].as_i64())
            .filter(|it| !it["firstOffset"].is_null())
            .collect();
        of_producer.sort_by_key(|it| number(it, "firstOffset"));
        let Some(before) = of_producer
            .last()
            .filter(|it| it["state"] == "COMMITTED" && it["records"].as_u64() > Some(0))
        else {
            continue;
        };
        let first = number(before, "firstOffset");
        let (_temp, copy) = with_index(&partition, |bytes| {
            let at = bytes.len() - ROW_SIZE + 10;
            bytes[at..at + 8].copy_from_slice(&first.to_be_bytes());
        });
        let (rows, summary) = aborted(&copy, AbortedOptions::default()).unwrap();
        assert_eq!((summary.surplus, summary.missing), (1, 0));
        let early = with_finding(&rows, "txnindex-entry-surplus");
        assert_eq!(early["lastOffset"], row["lastOffset"]);
        assert_eq!(early["hiddenRecords"], before["records"], "{early:#}");
        seen += 1;
    }
    assert!(seen > 5, "{seen}");
}

/// A row of a producer that wrote nothing there hides nothing yet, and is no row of Kafka's.
#[test]
fn rows_of_another_producer_and_repeated_rows_are_surplus() {
    damage(
        |bytes, row, _| {
            let id = row["producerId"].as_i64().unwrap() + 1_000_000;
            let at = bytes.len() - ROW_SIZE + 2;
            bytes[at..at + 8].copy_from_slice(&id.to_be_bytes());
        },
        |rows, summary, row, _| {
            assert_eq!((summary.surplus, summary.missing), (1, 1));
            let surplus = with_finding(rows, "txnindex-entry-surplus");
            assert_eq!(surplus["lastOffset"], row["lastOffset"]);
            assert_eq!(surplus["hiddenRecords"], 0);
        },
    );
    damage(
        |bytes, _, _| bytes.extend_from_within(bytes.len() - ROW_SIZE..),
        |_, summary, _, _| assert_eq!((summary.surplus, summary.missing), (1, 0)),
    );
    // One whose last offset a batch of data has.
    damage(
        |bytes, row, _| {
            let at = bytes.len() - ROW_SIZE + 18;
            let first = row["logFirstOffset"].as_i64().unwrap();
            bytes[at..at + 8].copy_from_slice(&first.to_be_bytes());
        },
        |_, summary, _, _| assert_eq!((summary.surplus, summary.missing), (1, 1)),
    );
}

/// The Java consumer holds a row's first offset against the last one of each batch.
#[test]
fn row_that_begins_inside_its_first_batch_shows_nothing() {
    let mut seen = 0;
    for (partition, row, _) in damageable() {
        let first = row["logFirstOffset"].as_i64().unwrap();
        let (_temp, copy) = with_index(&partition, |bytes| {
            let at = bytes.len() - ROW_SIZE + 10;
            bytes[at..at + 8].copy_from_slice(&(first + 1).to_be_bytes());
        });
        let (dir, _) = open(&copy);
        let mut is_inside = false;
        walk_partition(&dir, Io::Mmap, 0, |_, entry| {
            if let Entry::Batch(batch) = entry
                && batch.header.base_offset() == first
            {
                is_inside = batch.header.last_offset() > first;
            }
            Ok::<_, Error>(ControlFlow::Continue(()))
        })
        .unwrap();
        if !is_inside {
            continue;
        }
        let (rows, summary) = aborted(&copy, AbortedOptions::default()).unwrap();
        assert_eq!((summary.starts_late, summary.exposed_records), (1, 0));
        with_finding(&rows, "txnindex-entry-starts-late");
        seen += 1;
    }
    assert!(seen > 5, "{seen}");
}

/// Where no batch has the offset of the marker any more, the row alone says what was rolled back.
#[test]
fn row_whose_marker_was_cleaned_away_is_right() {
    let mut seen = 0;
    for (partition, row, _) in damageable() {
        let (_temp, copy) = with_index(&partition, |_| {});
        let (dir, _) = open(&copy);
        let mut marker = None;
        walk_partition(&dir, Io::Mmap, 0, |at, entry| {
            if let Entry::Batch(batch) = entry {
                let header = batch.header;
                if row["lastOffset"] == header.base_offset() {
                    marker = Some((at.file.to_owned(), batch.position, batch.size_in_bytes()));
                } else if let Some((file, position, size)) = &marker
                    && at.file == file
                    && batch.position == position + size
                {
                    // It is not the last one of its segment.
                    seen += 1;
                    let path = copy.join(file);
                    let mut bytes = fs::read(&path).unwrap();
                    let from = usize::try_from(*position).unwrap();
                    bytes.drain(from..from + usize::try_from(*size).unwrap());
                    fs::write(copy.join("changed"), bytes).unwrap();
                }
            }
            Ok::<_, Error>(ControlFlow::Continue(()))
        })
        .unwrap();
        let (Some((file, ..)), true) = (marker, copy.join("changed").exists()) else {
            continue;
        };
        drop(dir);
        fs::rename(copy.join("changed"), copy.join(file)).unwrap();
        rest(&copy);
        let (rows, summary) = aborted(&copy, AbortedOptions::default()).unwrap();
        let is_it = |it: &&Value| it["lastOffset"] == row["lastOffset"];
        let alone = rows.iter().find(is_it).unwrap();
        assert_eq!(alone["finding"], Value::Null, "{alone:#}");
        assert_eq!(alone["inLog"], false, "{alone:#}");
        assert_eq!(alone["records"], row["records"], "{alone:#}");
        assert_eq!((summary.surplus, summary.hidden_records), (0, 0));
    }
    assert!(seen > 5, "{seen}");
}

#[test]
fn cut_index_shows_what_its_row_hid() {
    // A whole index that is gone: every transaction with records is missing, and only those.
    damage(
        |bytes, _, _| bytes.clear(),
        |rows, summary, _, _| {
            let missing = rows.iter().filter(|row| !in_index(row)).count() as u64;
            assert!(missing > 0 && summary.missing <= missing);
            let exposed = rows.iter().filter(|row| !in_index(row));
            let exposed: u64 = exposed.map(|row| row["records"].as_u64().unwrap()).sum();
            assert_eq!(summary.exposed_records, exposed);
        },
    );
}

/// Where the marker would be nothing can be read, so the index is not wrong, and whatever comes
/// next is no part of the transaction.
#[test]
fn a_marker_that_cannot_be_read_is_no_fault_of_the_index() {
    let (mut checked, mut gone_on) = (0, 0);
    for (partition, row, _) in damageable() {
        let before = txns(&partition, StateOptions::default()).unwrap().0;
        let ended = before
            .iter()
            .find(|it| it["markerOffset"] == row["lastOffset"]);
        let Some(ended) = ended else {
            continue;
        };
        let temp = tempfile::tempdir().unwrap();
        let copy = temp.path().join(name(&partition));
        crate::folders::copy(&partition, &copy);
        let log = copy.join(ended["markerFile"].as_str().unwrap());
        let mut bytes = fs::read(&log).unwrap();
        let marker = usize::try_from(ended["markerPosition"].as_u64().unwrap()).unwrap();
        // The control record, behind the header.
        bytes[marker + 61..marker + 70].fill(0xff);
        fs::write(&log, bytes).unwrap();
        rest(&copy);
        let (rows, summary) = aborted(&copy, AbortedOptions::default()).unwrap();
        assert!(!summary.disagrees(), "{copy:?} {rows:?}");
        let told = rows.iter().find(|it| it["lastOffset"] == row["lastOffset"]);
        let told = told.unwrap();
        assert_eq!(told["reason"], "its marker cannot be read", "{told}");
        let after = txns(&copy, StateOptions::default()).unwrap().0;
        let next = after.iter().find(|it| {
            it["producerId"] == row["producerId"]
                && it["firstOffset"] == row["firstOffset"]
                && it["batches"].as_u64() > ended["batches"].as_u64()
        });
        if let Some(next) = next {
            let mut findings = array(&next["findings"]).iter();
            let is_told = findings
                .any(|it| it["kind"] == "marker-probably-cleaned" && it["reason"] == BEHIND_DAMAGE);
            assert!(is_told, "{next}");
            gone_on += 1;
        }
        checked += 1;
    }
    assert!(checked > 40 && gone_on > 3, "{checked} {gone_on}");
}
