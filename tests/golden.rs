//! What the program prints, case by case: `golden/NAME.txt` holds command line, exit status,
//! standard output and standard error. `KSEG_BLESS=1` writes the files anew; read the difference
//! before committing it.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test stops where something is not as it must be, and says so"
)]

#[path = "common/program.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "each test program compiles all of this and uses a part"
)]
mod program;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// One file under `golden/`.
struct Case {
    name: &'static str,
    /// Set if the case is about the width.
    columns: Option<u16>,
    /// Arguments, separated by spaces; paths are relative to `fixtures/`.
    arguments: &'static str,
}

const fn case(name: &'static str, arguments: &'static str) -> Case {
    Case {
        name,
        columns: None,
        arguments,
    }
}

const fn wide(name: &'static str, columns: u16, arguments: &'static str) -> Case {
    Case {
        name,
        columns: Some(columns),
        arguments,
    }
}

const CASES: &[Case] = &[
    case("overview", ""),
    case("help", "--help"),
    case("help-short", "-h"),
    // Mistakes in the arguments.
    case("usage-unknown-command", "lst s02-txn-tv2/data"),
    case("usage-unknown-option", "ls --recursive s02-txn-tv2/data"),
    case("usage-no-path", "dump"),
    case("usage-bad-number", "dump --producer-id x s02-txn-tv2/data"),
    case(
        "usage-bad-time",
        "dump --from-time yesterday s02-txn-tv2/data",
    ),
    case("usage-bad-output", "ls -o xml s02-txn-tv2/data"),
    // Paths that lead nowhere.
    case("path-missing", "ls no/such/directory"),
    case(
        "path-missing-among-others",
        "ls no-such incidents/bad-crc/data/orders-0 nor-this",
    ),
    case("path-not-kafkas", "dump README.md"),
    case("path-parent-of-log-dir", "ls s02-txn-tv2"),
    case("path-parent-of-log-dirs", "dump s14-replicas"),
    case("path-neither", "ls s02-txn-tv2/expected"),
    case("path-through-a-file", "ls README.md/orders-0"),
    // ls
    case("ls-help", "ls --help"),
    case("ls-log-dir", "ls s02-txn-tv2/data"),
    wide("ls-log-dir-80", 80, "ls s02-txn-tv2/data"),
    wide("ls-log-dir-200", 200, "ls s02-txn-tv2/data"),
    wide("ls-log-dir-20", 20, "ls s02-txn-tv2/data"),
    case(
        "ls-several-paths",
        "ls s02-txn-tv2/data/tx-0 incidents/torn-tail/data s14-replicas/data",
    ),
    case("ls-topic", "ls --topic tx s02-txn-tv2/data"),
    case(
        "ls-partition",
        "ls --topic tx --partition 2 s02-txn-tv2/data",
    ),
    case(
        "ls-no-such-partition",
        "ls --topic tx --partition 7 s02-txn-tv2/data",
    ),
    case("ls-no-such-topic", "ls --topic orders s02-txn-tv2/data"),
    case(
        "ls-file",
        "ls incidents/bad-crc/data/orders-0/00000000000000000000.log",
    ),
    case(
        "ls-segments",
        "ls --segments --topic compact-drop s05-compacted/data",
    ),
    wide(
        "ls-segments-100",
        100,
        "ls --segments --topic compact-drop s05-compacted/data",
    ),
    case(
        "ls-files",
        "ls --files incidents/interrupted-cleaner/data/state-2",
    ),
    case(
        "ls-segments-and-files",
        "ls --segments --files incidents/bad-crc/data/orders-0",
    ),
    case("ls-json", "ls -o json incidents/directory-names/data"),
    case(
        "ls-json-one",
        "ls -o json --segments --files incidents/bad-crc/data/orders-0",
    ),
    case("ls-ndjson", "ls -o ndjson s02-txn-tv2/data"),
    case("ls-not-live", "ls incidents/directory-names/data"),
    case("ls-torn-tail", "ls incidents/torn-tail/data"),
    case("ls-zero-tail", "ls incidents/zero-tail/data"),
    case(
        "ls-empty-files",
        "ls --segments incidents/legal-empty-files/data",
    ),
    case("ls-retention", "ls --segments s06-retention/data"),
    case("ls-legacy", "ls s10-legacy-1.1.1/data"),
    case(
        "ls-odd-timestamps",
        "ls --segments incidents/odd-timestamps/data",
    ),
    case(
        "ls-kraft",
        "ls --segments --files s11-kraft-metadata/data/__cluster_metadata-0",
    ),
    // dump of batches
    case("dump-help", "dump --help"),
    case("dump-help-short", "dump -h"),
    case(
        "dump-transactions",
        "dump s02-txn-tv2/data/tx-0/00000000000000000088.log",
    ),
    wide(
        "dump-transactions-80",
        80,
        "dump s02-txn-tv2/data/tx-0/00000000000000000088.log",
    ),
    wide(
        "dump-transactions-132",
        132,
        "dump s02-txn-tv2/data/tx-0/00000000000000000088.log",
    ),
    case(
        "dump-compacted",
        "dump s05-compacted/data/compact-drop-0/00000000000000000000.log",
    ),
    case(
        "dump-compacted-codecs",
        "dump s05-compacted/data/compact-drop-0/00000000000000000283.log",
    ),
    case(
        "dump-headers-only",
        "dump --headers-only incidents/bad-crc/data/orders-0/00000000000000000000.log",
    ),
    case(
        "dump-legacy-magic-0",
        "dump s10-legacy-1.1.1/data/magic0-none-0/00000000000000000023.log",
    ),
    case(
        "dump-legacy-log-append-time",
        "dump s10-legacy-1.1.1/data/magic1-append-0/00000000000000000000.log",
    ),
    case(
        "dump-upgraded",
        "dump s10-upgraded-2.4.1/data/upgraded-0/00000000000000000000.log",
    ),
    case(
        "dump-kraft",
        "dump s11-kraft-metadata/data/__cluster_metadata-0/00000000000000000000.log",
    ),
    case(
        "dump-kraft-snapshot",
        "dump \
         s11-kraft-metadata/data/__cluster_metadata-0/00000000000000000084-0000000001.checkpoint",
    ),
    case(
        "dump-kraft-bootstrap",
        "dump s11-kraft-metadata/data/bootstrap.checkpoint",
    ),
    case("dump-odd-timestamps", "dump incidents/odd-timestamps/data"),
    case("dump-partition", "dump incidents/bad-crc/data/orders-0"),
    case("dump-empty-files", "dump incidents/legal-empty-files/data"),
    case(
        "dump-several-paths",
        "dump s02-txn-tv2/data/meta.properties \
         incidents/torn-tail/data/orders-0/00000000000000000005.log",
    ),
    case("dump-json", "dump -o json incidents/bad-crc/data/orders-0"),
    case(
        "dump-json-no-rows",
        "dump -o json incidents/legal-empty-files/data/orders-0/00000000000000000000.index",
    ),
    case(
        "dump-ndjson",
        "dump -o ndjson s05-compacted/data/compact-drop-0/00000000000000000283.log",
    ),
    case(
        "dump-ndjson-legacy",
        "dump -o ndjson s10-legacy-1.1.1/data/magic1-append-0/00000000000000000000.log",
    ),
    // dump with filters
    case(
        "dump-producer",
        "dump --producer-id 3 s02-txn-tv2/data/tx-0",
    ),
    case(
        "dump-offsets",
        "dump --from-offset 100 --to-offset 112 s02-txn-tv2/data/tx-0",
    ),
    case(
        "dump-times",
        "dump --from-time 2026-11-29T15:13:00Z --to-time 2026-11-29T15:13:15Z \
         s02-txn-tv2/data/tx-0",
    ),
    case(
        "dump-times-in-milliseconds",
        "dump --from-time 1795965180000 --to-time 1795965195000 \
         s02-txn-tv2/data/tx-0/00000000000000000000.log",
    ),
    case(
        "dump-topic",
        "dump --topic tx --partition 1 --from-offset 160 s02-txn-tv2/data",
    ),
    case(
        "dump-no-such-partition",
        "dump --topic tx --partition 9 s02-txn-tv2/data",
    ),
    // dump of damage
    case(
        "dump-bad-crc",
        "dump incidents/bad-crc/data/orders-0/00000000000000000000.log",
    ),
    case(
        "dump-bad-crc-json",
        "dump -o json incidents/bad-crc/data/orders-0/00000000000000000000.log",
    ),
    case("dump-torn-tail", "dump incidents/torn-tail/data"),
    case(
        "dump-torn-tail-json",
        "dump -o json incidents/torn-tail/data/orders-3/00000000000000000005.log",
    ),
    case("dump-zero-tail", "dump incidents/zero-tail/data"),
    case(
        "dump-zero-tail-json",
        "dump -o ndjson incidents/zero-tail/data/orders-0/00000000000000000000.log",
    ),
    case(
        "dump-unreadable-snapshots",
        "dump incidents/unreadable-snapshots/data/orders-0/00000000000000000013.snapshot \
         incidents/unreadable-snapshots/data/orders-1/00000000000000000013.snapshot \
         incidents/unreadable-snapshots/data/orders-2/00000000000000000013.snapshot \
         incidents/unreadable-snapshots/data/orders-3/00000000000000000013.snapshot \
         incidents/unreadable-snapshots/data/orders-4/00000000000000000013.snapshot \
         incidents/unreadable-snapshots/data/orders-5/00000000000000000013.snapshot",
    ),
    case(
        "dump-damaged-indexes",
        "dump incidents/damaged-indexes/data/orders-0/00000000000000000006.index \
         incidents/damaged-indexes/data/orders-0/00000000000000000006.timeindex \
         incidents/damaged-indexes/data/orders-1/00000000000000000006.index \
         incidents/damaged-indexes/data/orders-1/00000000000000000006.timeindex \
         incidents/damaged-indexes/data/orders-2/00000000000000000006.index \
         incidents/damaged-indexes/data/orders-2/00000000000000000006.timeindex \
         incidents/damaged-indexes/data/orders-3/00000000000000000006.index \
         incidents/damaged-indexes/data/orders-3/00000000000000000006.timeindex \
         incidents/damaged-indexes/data/orders-4/00000000000000000006.index \
         incidents/damaged-indexes/data/orders-4/00000000000000000006.timeindex \
         incidents/damaged-indexes/data/orders-5/00000000000000000006.index \
         incidents/damaged-indexes/data/orders-5/00000000000000000006.timeindex",
    ),
    case(
        "dump-truncated-txnindex",
        "dump incidents/txnindex-too-short/data",
    ),
    case(
        "dump-leader-epoch-checkpoint-damage",
        "dump incidents/leader-epoch-checkpoint-damage/data/orders-0/leader-epoch-checkpoint \
         incidents/leader-epoch-checkpoint-damage/data/orders-1/leader-epoch-checkpoint \
         incidents/leader-epoch-checkpoint-damage/data/orders-2/leader-epoch-checkpoint \
         incidents/leader-epoch-checkpoint-damage/data/orders-3/leader-epoch-checkpoint \
         incidents/leader-epoch-checkpoint-damage/data/orders-4/leader-epoch-checkpoint \
         incidents/leader-epoch-checkpoint-damage/data/orders-5/leader-epoch-checkpoint \
         incidents/leader-epoch-checkpoint-damage/data/orders-6/leader-epoch-checkpoint",
    ),
    // dump of side files
    case(
        "dump-offset-index",
        "dump s02-txn-tv2/data/tx-0/00000000000000000088.index",
    ),
    case(
        "dump-time-index",
        "dump s02-txn-tv2/data/tx-0/00000000000000000088.timeindex",
    ),
    case(
        "dump-transaction-index",
        "dump s02-txn-tv2/data/tx-0/00000000000000000000.txnindex",
    ),
    case(
        "dump-producer-snapshot",
        "dump s02-txn-tv2/data/tx-0/00000000000000000088.snapshot",
    ),
    case(
        "dump-leader-epoch-checkpoint",
        "dump s14-replicas/data/rep-0/leader-epoch-checkpoint",
    ),
    case(
        "dump-partition-metadata",
        "dump s02-txn-tv2/data/tx-0/partition.metadata",
    ),
    case(
        "dump-quorum-state",
        "dump s11-kraft-metadata/data/__cluster_metadata-0/quorum-state",
    ),
    case(
        "dump-meta-properties",
        "dump s02-txn-tv2/data/meta.properties",
    ),
    case(
        "dump-checkpoints",
        "dump s02-txn-tv2/data/replication-offset-checkpoint \
         s02-txn-tv2/data/recovery-point-offset-checkpoint \
         s02-txn-tv2/data/log-start-offset-checkpoint s02-txn-tv2/data/cleaner-offset-checkpoint",
    ),
    case(
        "dump-side-files-ndjson",
        "dump -o ndjson s02-txn-tv2/data/tx-0/00000000000000000088.index \
         s02-txn-tv2/data/tx-0/00000000000000000088.timeindex \
         s02-txn-tv2/data/tx-0/00000000000000000000.txnindex \
         s02-txn-tv2/data/tx-0/00000000000000000088.snapshot \
         s02-txn-tv2/data/tx-0/leader-epoch-checkpoint \
         s02-txn-tv2/data/replication-offset-checkpoint s02-txn-tv2/data/meta.properties",
    ),
    // producers and lso
    case("producers-help", "producers --help"),
    case("producers-partition", "producers s02-txn-tv2/data/tx-0"),
    case("producers-json", "producers -o json s02-txn-tv2/data/tx-0"),
    case(
        "producers-file",
        "producers s02-txn-tv2/data/meta.properties",
    ),
    case("lso-help", "lso --help"),
    case("lso-log-dir", "lso s02-txn-tv2/data"),
    wide("lso-all-80", 80, "lso --all s02-txn-tv2/data"),
    wide(
        "lso-coordinators-80",
        80,
        "lso incidents/coordinator-forgot/data",
    ),
    case("lso-json", "lso -o json s02-txn-tv2/data"),
    case("lso-file", "lso s02-txn-tv2/data/meta.properties"),
    // diff
    case("diff-help", "diff --help"),
    case("diff-equal", "diff s14-replicas/data s14-replicas/data-2"),
    case(
        "diff-diverged",
        "diff s14-replicas/data s14-replicas/data-2-diverged",
    ),
    case(
        "diff-missing-tail",
        "diff incidents/replica-missing-tail/data/a/orders-0 incidents/replica-missing-tail/data/b/orders-0",
    ),
    wide(
        "diff-other-bytes-80",
        80,
        "diff incidents/replica-other-bytes/data/a incidents/replica-other-bytes/data/b",
    ),
    case(
        "diff-other-batches",
        "diff incidents/replica-other-batches/data/a incidents/replica-other-batches/data/b",
    ),
    case(
        "diff-both-corrupt",
        "diff incidents/replicas-both-corrupt/data/a incidents/replicas-both-corrupt/data/b",
    ),
    case(
        "diff-torn-tail",
        "diff s07a-truncated-tail/undamaged s07a-truncated-tail/data",
    ),
    case(
        "diff-side-files",
        "diff s07e-deleted-txnindex/undamaged s07e-deleted-txnindex/data/dmg-0",
    ),
    case(
        "diff-one-side",
        "diff --all s02-txn-tv2/data incidents/hanging-transaction/data",
    ),
    case(
        "diff-files",
        "diff incidents/replica-other-epoch/data/a/orders-0/00000000000000000000.log incidents/replica-other-epoch/data/b/orders-0/00000000000000000000.log",
    ),
    case(
        "diff-ndjson",
        "diff -o ndjson incidents/replica-other-epoch/data/a incidents/replica-other-epoch/data/b",
    ),
    case(
        "diff-file-and-directory",
        "diff incidents/bad-crc/data/orders-0/00000000000000000000.log incidents/bad-crc/data",
    ),
    case(
        "diff-no-such-partition",
        "diff --topic nothing s02-txn-tv2/data s02-txn-tv2/data",
    ),
    case("diff-one-path", "diff s02-txn-tv2/data"),
    // schema and completions; what they print is compared elsewhere or the business of clap
    case("rebuild-help", "rebuild --help"),
    // recover, and the others on what it leaves.
    case("recover-help", "recover --help"),
    case(
        "recover-loses-segments",
        "recover s07b-flipped-byte-unflushed/data",
    ),
    wide(
        "recover-loses-segments-80",
        80,
        "recover --all s07b-flipped-byte-unflushed/data",
    ),
    case(
        "recover-no-snapshots",
        "recover s07d-deleted-snapshots/data",
    ),
    wide(
        "recover-acknowledged-gone-80",
        80,
        "recover s07a-truncated-tail/data",
    ),
    case(
        "recover-txnindex-missing",
        "recover incidents/txnindex-missing/data",
    ),
    case(
        "recover-clean-warning",
        "recover --start clean incidents/txnindex-missing/data",
    ),
    case(
        "recover-damaged-indexes",
        "recover incidents/damaged-indexes/data",
    ),
    case(
        "recover-zero-tail",
        "recover --start clean incidents/zero-tail/data",
    ),
    case(
        "recover-cleaner",
        "recover incidents/interrupted-cleaner/data",
    ),
    case(
        "recover-directory-names",
        "recover --all incidents/directory-names/data",
    ),
    case("recover-clean", "recover s01-idempotent/data"),
    case("recover-metadata", "recover s11-kraft-metadata/data"),
    case(
        "recover-json",
        "recover -o json --start unclean --now 2026-01-15T08:00:08Z incidents/bad-crc/data",
    ),
    case("recover-file", "recover s02-txn-tv2/data/meta.properties"),
    case(
        "as-loaded-lso",
        "lso --as-loaded s07b-flipped-byte-unflushed/data",
    ),
    case(
        "as-loaded-does-not-load",
        "ls --as-loaded --start clean incidents/zero-tail/data",
    ),
    case("schema-help", "schema --help"),
    case("schema-list", "schema"),
    case("schema-unknown", "schema everything"),
    // replay: logged batches, and ones never written.
    case("replay-help", "replay --help"),
    case("replay-forgotten", "replay s12-expired-producers/data"),
    wide(
        "replay-forgotten-80",
        80,
        "replay s12-expired-producers/data",
    ),
    case("replay-compacted", "replay s05-compacted/data"),
    case(
        "replay-all",
        "replay --all --topic orders incidents/coordinator-epoch-goes-back/data",
    ),
    case(
        "replay-sixth-last",
        "replay --producer-id 100 --producer-epoch 2 --base-sequence 1 incidents/retry-after-restart/data",
    ),
    case(
        "replay-never-stored",
        "replay --producer-id 110 --producer-epoch 0 --base-sequence 50 incidents/client-skipped-a-sequence/data",
    ),
    case(
        "replay-retry-json",
        "replay --retry 8 -o json incidents/retry-after-restart/data",
    ),
    case(
        "replay-retry-nothing",
        "replay --retry 4711 incidents/retry-after-restart/data",
    ),
    case(
        "replay-half-a-question",
        "replay --base-sequence 1 incidents/retry-after-restart/data",
    ),
    // gaps
    case("gaps-help", "gaps --help"),
    case("gaps-classes", "gaps --all incidents/gap-classes/data"),
    wide("gaps-classes-80", 80, "gaps incidents/gap-classes/data"),
    case("gaps-duplicates", "gaps incidents/exact-duplicates/data"),
    case(
        "gaps-overlap-ndjson",
        "gaps -o ndjson incidents/offsets-go-backwards/data",
    ),
    case("gaps-healthy", "gaps s02-txn-tv2/data"),
    case("gaps-forgotten", "gaps s12-expired-producers/data"),
    // verify
    case("verify-help", "verify --help"),
    case("verify-healthy", "verify s01-idempotent/data"),
    case("verify-bad-crc", "verify s07c-flipped-byte-flushed/data"),
    wide("verify-torn-80", 80, "verify incidents/torn-tail/data"),
    case("verify-indexes", "verify incidents/damaged-indexes/data"),
    wide(
        "verify-snapshots-80",
        80,
        "verify --topic orders --partition 3 incidents/unreadable-snapshots/data",
    ),
    case(
        "verify-leader-epochs",
        "verify incidents/leader-epoch-checkpoint-damage/data",
    ),
    case("verify-txnindex", "verify s07e-deleted-txnindex/data"),
    case("verify-all", "verify --all s07e-deleted-txnindex/data"),
    wide(
        "verify-coordinators-80",
        80,
        "verify incidents/coordinator-forgot/data",
    ),
    case("verify-json", "verify -o json incidents/bad-crc/data"),
    case(
        "verify-ndjson",
        "verify -o ndjson --producer-id 22 incidents/several-open-transactions/data",
    ),
    case(
        "verify-equal-records",
        "verify --quick --equal-records incidents/foreign-records/data",
    ),
    case(
        "verify-replicas",
        "verify --deep s14-replicas/data s14-replicas/data-2",
    ),
    case(
        "verify-file",
        "verify incidents/bad-crc/data/orders-0/00000000000000000000.log",
    ),
    case(
        "verify-side-file",
        "verify incidents/bad-crc/data/orders-0/00000000000000000000.index",
    ),
    case(
        "verify-quick-and-deep",
        "verify --quick --deep incidents/bad-crc/data",
    ),
    // read, and records
    case("read-help", "read --help"),
    case("read-committed", "read s02-txn-tv2/data/tx-1"),
    wide(
        "read-uncommitted-80",
        80,
        "read --isolation-level read_uncommitted --to-offset 30 s02-txn-tv2/data/tx-1",
    ),
    case("read-count", "read --count s02-txn-tv2/data/tx-1"),
    case("read-bad-crc", "read incidents/bad-crc/data"),
    case(
        "dump-records",
        "dump --records --to-offset 12 s02-txn-tv2/data/tx-0/00000000000000000000.log",
    ),
    case(
        "dump-records-internal",
        "dump --records -o ndjson --to-offset 3 s02-txn-tv2/data/__transaction_state-0/00000000000000000000.log",
    ),
    // txns
    case("txns-help", "txns --help"),
    case(
        "txns",
        "txns --now 2026-11-29T17:00:00Z s02-txn-tv2/data/tx-1",
    ),
    wide(
        "txns-80",
        80,
        "txns --now 2026-01-15T09:00:00Z incidents/several-open-transactions/data",
    ),
    case(
        "txns-aborted-json",
        "txns --state aborted -o json incidents/fetch-inside-aborted-range/data",
    ),
    case(
        "txns-cleaned-marker",
        "txns --now 2026-01-15T09:00:00Z incidents/abort-marker-cleaned-away/data",
    ),
    case(
        "txns-older-than",
        "txns --state open --older-than 1h --now 2026-11-29T17:00:00Z s02-txn-tv2/data",
    ),
    case(
        "txns-coordinators",
        "txns --state open --now 2026-11-29T16:50:00Z incidents/coordinator-forgot/data",
    ),
    case(
        "txns-no-state-log",
        "txns --transactional-id-prefix a incidents/several-open-transactions/data",
    ),
    // aborted
    case("aborted-help", "aborted --help"),
    wide("aborted-stats-80", 80, "aborted --stats s02-txn-tv2/data"),
    case("aborted-agree", "aborted s02-txn-tv2/data/tx-1"),
    case(
        "aborted-index-missing",
        "aborted incidents/txnindex-missing/data",
    ),
    wide(
        "aborted-index-too-short-80",
        80,
        "aborted incidents/txnindex-too-short/data",
    ),
    // write
    case("write-help", "write --help"),
    case("write-unknown-example", "write --example everything"),
    case("write-no-scenario", "write --out nowhere missing.json"),
    case("completions-help", "completions --help"),
    case("completions-unknown-shell", "completions csh"),
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}

fn file_of(case: &Case) -> PathBuf {
    folder().join(format!("{}.txt", case.name))
}

/// The text of a case's file.
fn print(case: &Case) -> String {
    let mut command = program::kseg(&fixtures());
    let words: Vec<&str> = case.arguments.split_whitespace().collect();
    command.args(&words);
    let mut line = format!("kseg {}", words.join(" "));
    if let Some(columns) = case.columns {
        command.env("COLUMNS", columns.to_string());
        line = format!("COLUMNS={columns} {line}");
    }
    let run = program::finish(&mut command);
    format!(
        "$ {}\n-- status\n{}\n-- stdout\n{}-- stderr\n{}",
        line.trim_end(),
        run.status,
        without_file_times(&run.stdout),
        run.stderr
    )
}

/// When files were written is another time in each copy.
fn without_file_times(stdout: &str) -> String {
    const TIME: &str = "YYYY-MM-DDThh:mm:ss.mmmZ";
    let mut parts = stdout.split(" (mtime)");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text.truncate(text.len() - TIME.len());
        text.push_str(TIME);
        text.push_str(" (mtime)");
        text.push_str(part);
    }
    text
}

fn is_blessing() -> bool {
    std::env::var_os("KSEG_BLESS").is_some_and(|value| value == "1")
}

#[test]
fn every_case_prints_what_its_file_says() {
    let mut different = 0;
    for case in CASES {
        let printed = print(case);
        let path = file_of(case);
        if is_blessing() {
            fs::create_dir_all(folder()).unwrap();
            fs::write(&path, printed).unwrap();
        } else {
            let golden = fs::read_to_string(&path).unwrap_or_default();
            if golden != printed {
                different += 1;
                eprintln!("{}: {}", path.display(), difference(&golden, &printed));
            }
        }
    }
    assert_eq!(different, 0, "read what changed; KSEG_BLESS=1 accepts it");
}

/// The first line that is not the same.
fn difference(golden: &str, printed: &str) -> String {
    let mut lines = golden.lines().zip(printed.lines()).enumerate();
    match lines.find(|(_, (golden, printed))| golden != printed) {
        Some((index, (golden, printed))) => {
            format!(
                "line {}\n  golden  {golden:?}\n  printed {printed:?}",
                index + 1
            )
        }
        None => format!(
            "{} lines in the file, {} printed",
            golden.lines().count(),
            printed.lines().count()
        ),
    }
}

#[test]
fn every_file_has_a_case_and_every_name_is_used_once() {
    let names: BTreeSet<PathBuf> = CASES.iter().map(file_of).collect();
    assert_eq!(names.len(), CASES.len(), "a name is used twice");
    if is_blessing() {
        fs::create_dir_all(folder()).unwrap();
    }
    for entry in fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        if names.contains(&path) {
            continue;
        }
        assert!(is_blessing(), "{}: no case", path.display());
        fs::remove_file(path).unwrap();
    }
}

#[test]
fn mapped_and_read_files_print_the_same() {
    for case in CASES.iter().filter(|case| case.arguments.contains('/')) {
        let run = |io: &str| {
            let arguments = case.arguments.split_whitespace().chain(["--io", io]);
            program::run(&fixtures(), arguments)
        };
        assert_eq!(run("mmap"), run("read"), "{}", case.name);
    }
}
