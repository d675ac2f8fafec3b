//! Logs that the cleaner has been at, and nothing else: no command may call anything of them lost
//! or damaged (`tests/data/cleaned`).

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops where something is not as it must be"
)]

mod common;
#[path = "common/program.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "each test program compiles all of this and uses a part"
)]
mod program;

use common::partitions::{folders_in, root};
use program::run;

#[test]
fn nothing_is_lost_by_the_cleaner() {
    let logs = folders_in(&root().join("tests/data/cleaned"));
    assert_eq!(logs.len(), 3);
    for log in logs {
        for command in ["gaps", "verify", "recover"] {
            let told = run(&log, [command, "state-7", "-o", "ndjson"]);
            assert_eq!(told.status, 0, "{command} {}: {told:?}", log.display());
            for alarm in ["\"corrupt\"", "\"isLoss\":true", "segment-missing"] {
                assert!(!told.stdout.contains(alarm), "{command}: {told:?}");
            }
        }
    }
}
