//! Committed offsets, and those in open transactions.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use kseg::log::Io;
use kseg::log::partition_dir::PartitionDir;
use kseg::report::offset_commits::OffsetCommits;
use serde_json::{Value, json};

use crate::{dirs, incidents_with, kseg, name, open_ones, pick, read, root, text};

fn partitions(data: &Path) -> impl Iterator<Item = PathBuf> {
    let all = dirs(data).into_iter();
    all.filter(|path| name(path).starts_with("__consumer_offsets-"))
}

fn load(partition: &Path) -> OffsetCommits {
    let dir = PartitionDir::open(partition).unwrap();
    let commits = OffsetCommits::load(&dir, Io::Mmap, 0, None).unwrap();
    assert_eq!(commits.unread(), None);
    commits
}

/// What `listConsumerGroupOffsets` gives.
fn groups(data: &Path) -> BTreeMap<String, Value> {
    let mut groups = BTreeMap::new();
    for partition in partitions(data) {
        for (key, commit) in load(&partition).committed() {
            let group = groups.entry(key.group.clone()).or_insert_with(|| json!({}));
            group[format!("{}-{}", key.topic, key.partition)] = json!({
                "offset": commit.offset,
                "leaderEpoch": commit.leader_epoch,
                "metadata": commit.metadata,
            });
        }
    }
    groups
}

#[test]
fn groups_have_the_offsets_the_live_broker_gave() {
    let mut compared = 0;
    for fixture in dirs(&root().join("fixtures")) {
        let answers = fixture.join("expected/groups.json");
        if !answers.is_file() {
            continue;
        }
        let ours = groups(&fixture.join("data"));
        let theirs = read(&answers);
        for (group, offsets) in theirs.as_object().unwrap() {
            compared += offsets.as_object().unwrap().len();
            assert_eq!(
                ours.get(group),
                Some(offsets),
                "{} {group}",
                fixture.display()
            );
        }
    }
    assert!(compared >= 6, "{compared}");
}

const KEYS: [(&str, &str); 3] = [
    ("group", "group"),
    ("topic", "topic"),
    ("partition", "partition"),
];

/// Key and one of the two offsets, as the incident lists them.
fn listed(commits: &[Value], offset: &'static str) -> Vec<Value> {
    let all = commits.iter().filter(|commit| !commit[offset].is_null());
    let all = all.map(|commit| {
        let mut row = pick(commit, &KEYS);
        row["offset"] = commit[offset].clone();
        row
    });
    all.collect()
}

#[test]
fn incidents_name_the_offsets_in_open_transactions_and_the_committed_ones() {
    let mut compared = 0;
    for (data, expected) in incidents_with("offsetsInOpenTransactions") {
        let rows = open_ones(&[], &data);
        let commits = rows
            .iter()
            .filter_map(|row| row["offsetCommits"].as_array());
        let commits: Vec<Value> = commits.flatten().cloned().collect();
        compared += commits.len();
        let open = listed(&commits, "offset");
        assert_eq!(json!(open), expected["offsetsInOpenTransactions"]);
        let committed = listed(&commits, "committedOffset");
        assert_eq!(json!(committed), expected["committedOffsets"]);
        let table = kseg(&["txns", "--state", "open"], &data).stdout;
        for it in commits {
            let (group, topic) = (text(&it, "group"), text(&it, "topic"));
            let (to, partition) = (&it["offset"], &it["partition"]);
            let moves = format!("moves group {group} to {to} in {topic}-{partition}; committed: ");
            assert!(table.contains(&moves), "{moves}\n{table}");
        }
    }
    assert!(compared >= 2);
}

/// What a transaction carries is committed by its marker and not before: at every offset, what is
/// committed is what the records below it say, read one by one.
#[test]
fn offsets_count_once_their_transaction_is_committed() {
    let (mut states, mut with_pending) = (0, 0);
    let fixtures = dirs(&root().join("fixtures")).into_iter();
    let all = fixtures.chain(dirs(&root().join("fixtures/incidents")));
    for data in all
        .map(|fixture| fixture.join("data"))
        .filter(|it| it.is_dir())
    {
        for partition in partitions(&data) {
            let dump = ["dump", "--records", "-o", "ndjson"];
            let rows = kseg(&dump, &partition).stdout;
            let rows = rows
                .lines()
                .map(|line| serde_json::from_str::<Value>(line).unwrap());
            let rows: Vec<Value> = rows.filter(|row| row["type"] == "record").collect();
            let dir = PartitionDir::open(&partition).unwrap();
            let mut told = Told::default();
            for (place, row) in rows.iter().enumerate() {
                told.take(row);
                let next = rows.get(place + 1);
                let is_last = next.is_none_or(|next| next["baseOffset"] != row["baseOffset"]);
                if !is_last {
                    continue;
                }
                let end = row["offset"].as_i64().unwrap() + 1;
                let ours = OffsetCommits::load(&dir, Io::Mmap, 0, Some(end)).unwrap();
                let committed: BTreeMap<String, i64> = ours
                    .committed()
                    .map(|(key, commit)| {
                        (short(&key.group, &key.topic, key.partition), commit.offset)
                    })
                    .collect();
                assert_eq!(
                    committed,
                    told.committed,
                    "{} below {end}",
                    partition.display()
                );
                states += 1;
                with_pending += u64::from(told.pending.values().any(|it| !it.is_empty()));
            }
        }
    }
    assert!(states >= 30 && with_pending >= 5, "{states} {with_pending}");
}

fn short(group: &str, topic: &str, partition: i32) -> String {
    format!("{group} {topic}-{partition}")
}

/// Offsets as the decoded records tell them; the fixtures have no plain commit between the records
/// of a transaction and its marker for the same partition of the same group.
#[derive(Default)]
struct Told {
    committed: BTreeMap<String, i64>,
    pending: BTreeMap<i64, Vec<(String, i64)>>,
}

impl Told {
    fn take(&mut self, row: &Value) {
        let producer_id = row["producerId"].as_i64().unwrap();
        match row["controlType"].as_str() {
            Some(control_type) => {
                let pending = self.pending.remove(&producer_id).unwrap_or_default();
                if control_type == "COMMIT" {
                    self.committed.extend(pending);
                }
            }
            None if row["key"]["type"] == "1" => {
                let key = &row["key"]["data"];
                let partition = key["partition"].as_i64().unwrap();
                let key = format!("{} {}-{partition}", text(key, "group"), text(key, "topic"));
                match row["value"]["data"]["offset"].as_i64() {
                    Some(offset) if producer_id >= 0 => {
                        let pending = self.pending.entry(producer_id).or_default();
                        pending.push((key, offset));
                    }
                    Some(offset) => drop(self.committed.insert(key, offset)),
                    None => drop(self.committed.remove(&key)),
                }
            }
            None => {}
        }
    }
}
