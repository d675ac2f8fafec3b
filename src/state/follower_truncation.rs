//! How far a follower cuts its log back before it follows a leader.
//!
//! Decides `AbstractFetcherThread` and `Partition.readRecords` (KIP-101, KIP-279, KIP-595): the
//! follower fetches behind its log end and names the epoch of its last record. The leader looks
//! where that epoch ends in its own log, and says so where the two do not go together; the follower
//! cuts back and asks again. Only leader epochs decide: other records in the same epoch go unseen.

use super::leader_epochs::{EpochEndOffset, LeaderEpochs};
use crate::format::leader_epoch_checkpoint::EpochEntry;

/// What a replica knows of its own log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaLog {
    /// Its leader epochs.
    pub epochs: LeaderEpochs,
    /// Where its log starts.
    pub log_start_offset: i64,
    /// Where its log ends.
    pub log_end_offset: i64,
    /// Its high watermark, if that is known.
    pub high_watermark: Option<i64>,
}

impl ReplicaLog {
    /// As a start has it: a log that ends below its own start is dropped, and begins anew there
    /// (`LogLoader.deleteSegmentsIfLogStartGreaterThanLogEnd`).
    fn loaded(&self) -> Self {
        if self.log_start_offset <= self.log_end_offset {
            return self.clone();
        }
        let mut epochs = self.epochs.clone();
        epochs.clear();
        Self {
            epochs,
            log_start_offset: self.log_start_offset,
            log_end_offset: self.log_start_offset,
            high_watermark: self.high_watermark,
        }
    }
}

/// What a follower does to its log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FollowerTruncation {
    /// Where its log ends then; `None` if that depends on a high watermark that is not known.
    pub truncate_to: Option<i64>,
    /// Where it ends on the way, if it takes more than one answer of the leader.
    pub steps: Vec<i64>,
    /// Everything is dropped, and the log begins anew: it is cut below its own start, or the
    /// leader's log starts behind its end.
    pub is_full: bool,
    /// What the leader answers last; `None` if it finds nothing that diverges.
    pub answer: Option<EpochEndOffset>,
}

/// The follower's log on the way.
struct Following {
    epochs: LeaderEpochs,
    start: i64,
    end: i64,
    is_full: bool,
    /// Where it ended after each cut.
    ends: Vec<i64>,
}

impl Following {
    /// Cuts the log back (`UnifiedLog.truncateTo`): below its start nothing of it is left, and it
    /// begins at the place of the cut.
    fn truncate_to(&mut self, target: i64) {
        if target < self.start && target < self.end {
            return self.start_at(target);
        }
        self.end = target.min(self.end);
        self.epochs.truncate_from_end(self.end);
        self.ends.push(self.end);
    }

    /// Drops everything (`UnifiedLog.truncateFullyAndStartAt`).
    fn start_at(&mut self, offset: i64) {
        self.is_full = true;
        self.epochs.clear();
        (self.start, self.end) = (offset, offset);
        self.ends.push(offset);
    }

    /// Where to cut after the leader has named the end of an epoch
    /// (`AbstractFetcherThread.getOffsetTruncationState`).
    fn target(&self, answer: EpochEndOffset) -> i64 {
        match self.epochs.end_offset_for(answer.leader_epoch, self.end) {
            Some(own) if own.leader_epoch == answer.leader_epoch => {
                own.end_offset.min(answer.end_offset)
            }
            // An epoch the follower does not know: back to the end of the one before it.
            Some(own) => own.end_offset,
            None => answer.end_offset,
        }
    }
}

/// What `follower` cuts off when `leader` has just been elected and begins a new epoch at its
/// log end.
#[must_use]
pub fn truncate_follower(leader: &ReplicaLog, follower: &ReplicaLog) -> FollowerTruncation {
    let (leader, follower) = (&leader.loaded(), &follower.loaded());
    let leader_epochs = elected(leader, follower);
    let mut log = Following {
        epochs: follower.epochs.clone(),
        start: follower.log_start_offset,
        end: follower.log_end_offset,
        is_full: false,
        ends: Vec::new(),
    };
    let mut last_answer = None;
    // Nothing of an older format, or from before epochs were kept, can be compared.
    if log.epochs.latest_epoch().is_none() && log.start < log.end {
        let Some(high_watermark) = follower.high_watermark else {
            return FollowerTruncation {
                truncate_to: None,
                steps: Vec::new(),
                is_full: false,
                answer: None,
            };
        };
        // A high watermark is never below the log start (`UnifiedLog.updateHighWatermark`).
        log.truncate_to(high_watermark.max(log.start));
    }
    // Each turn but the last cuts something off; one may have the log begin at the leader's start,
    // which is not behind its end.
    loop {
        let fetched_epoch = log.epochs.latest_epoch();
        let answer = fetched_epoch
            .and_then(|epoch| leader_epochs.end_offset_for(epoch, leader.log_end_offset));
        let diverging = answer.filter(|answer| {
            fetched_epoch.is_some_and(|epoch| answer.leader_epoch < epoch)
                || answer.end_offset < log.end
        });
        let before = (fetched_epoch, log.end);
        if log.end < leader.log_start_offset {
            log.start_at(leader.log_start_offset);
        } else if let Some(answer) = diverging {
            last_answer = Some(answer);
            log.truncate_to(log.target(answer));
        } else if answer.is_none() && log.end > leader.log_end_offset {
            // Without epochs the leader finds only that it has no such offset
            // (`fetchOffsetAndTruncate`).
            log.truncate_to(leader.log_end_offset);
        }
        if before == (log.epochs.latest_epoch(), log.end) {
            break;
        }
    }
    let mut steps = log.ends;
    steps.dedup();
    steps.retain(|end| *end < follower.log_end_offset || log.is_full);
    steps.pop_if(|last| *last == log.end);
    FollowerTruncation {
        truncate_to: Some(log.end),
        steps,
        is_full: log.is_full,
        answer: last_answer,
    }
}

/// The leader's epochs once it leads: a new one from its log end on, which replaces an epoch that
/// began there without a record.
fn elected(leader: &ReplicaLog, follower: &ReplicaLog) -> LeaderEpochs {
    let mut epochs = leader.epochs.clone();
    let highest = epochs.latest_epoch().max(follower.epochs.latest_epoch());
    let entry = EpochEntry {
        epoch: highest.map_or(0, |epoch| epoch.saturating_add(1)),
        start_offset: leader.log_end_offset,
    };
    // Neither is negative, so it cannot be refused.
    let _ = epochs.assign(entry);
    epochs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(epochs: &[(i32, i64)], log_end_offset: i64) -> ReplicaLog {
        let entries = epochs.iter().map(|&(epoch, start_offset)| EpochEntry {
            epoch,
            start_offset,
        });
        ReplicaLog {
            epochs: LeaderEpochs::from_entries(entries).unwrap(),
            log_start_offset: 0,
            log_end_offset,
            high_watermark: None,
        }
    }

    fn truncated(leader: &ReplicaLog, follower: &ReplicaLog) -> (Option<i64>, Vec<i64>) {
        let done = truncate_follower(leader, follower);
        (done.truncate_to, done.steps)
    }

    #[test]
    fn a_follower_behind_or_level_keeps_all_and_one_ahead_is_cut() {
        let short = log(&[(0, 0), (2, 3)], 10);
        let long = log(&[(0, 0), (2, 3)], 14);
        assert_eq!(truncated(&long, &short), (Some(10), vec![]));
        assert_eq!(truncated(&short, &long), (Some(10), vec![]));
        assert_eq!(truncated(&short, &short), (Some(10), vec![]));
    }

    #[test]
    fn other_epochs_are_cut_to_the_end_of_the_last_common_one() {
        let a = log(&[(2, 0), (3, 11)], 15);
        let b = log(&[(2, 0), (5, 11)], 16);
        assert_eq!(truncated(&a, &b), (Some(11), vec![]));
        assert_eq!(truncated(&b, &a), (Some(11), vec![]));
    }

    #[test]
    fn fast_leader_changes_take_more_than_one_answer() {
        // KIP-279: neither knows the other's last epochs.
        let leader = log(&[(1, 0), (2, 10), (4, 15)], 20);
        let follower = log(&[(1, 0), (3, 12), (5, 14)], 18);
        let (end, steps) = truncated(&leader, &follower);
        // The leader answers (4, 20), of which the follower knows the end of 3: 14; then (2, 15)
        // of which it knows the end of 1: 12; then (1, 10).
        assert_eq!((end, steps), (Some(10), vec![14, 12]));
    }

    #[test]
    fn an_epoch_without_a_record_counts_for_nothing() {
        let leader = log(&[(1, 0), (3, 10)], 10);
        let follower = log(&[(1, 0), (2, 10)], 12);
        assert_eq!(truncated(&leader, &follower), (Some(10), vec![]));
    }

    #[test]
    fn a_leader_that_starts_behind_the_follower_makes_it_begin_anew() {
        let leader = ReplicaLog {
            log_start_offset: 100,
            ..log(&[(1, 100)], 120)
        };
        let follower = log(&[(1, 0)], 50);
        let done = truncate_follower(&leader, &follower);
        assert!(done.is_full);
        assert_eq!(done.truncate_to, Some(100));
    }

    #[test]
    fn a_log_that_ends_below_its_start_is_empty_there() {
        let empty = ReplicaLog {
            log_start_offset: 51,
            ..log(&[(1, 0)], 50)
        };
        let follower = log(&[(1, 0)], 50);
        let led = truncate_follower(&empty, &follower);
        assert_eq!((led.truncate_to, led.is_full), (Some(51), true));
        let ahead = truncate_follower(&empty, &log(&[(1, 0)], 60));
        assert_eq!(ahead.truncate_to, Some(51));
        let itself = truncate_follower(&empty, &empty);
        assert_eq!((itself.truncate_to, itself.is_full), (Some(51), false));
        let follows = truncate_follower(&follower, &empty);
        assert_eq!(follows.truncate_to, Some(50));
    }

    #[test]
    fn without_epochs_the_high_watermark_decides() {
        let leader = log(&[], 10);
        let follower = ReplicaLog {
            high_watermark: Some(7),
            ..log(&[], 12)
        };
        assert_eq!(truncated(&leader, &follower).0, Some(7));
        assert_eq!(truncated(&leader, &log(&[], 12)).0, None);
    }

    #[test]
    fn without_epochs_a_follower_ends_no_later_than_its_leader() {
        let follower = ReplicaLog {
            high_watermark: Some(10),
            ..log(&[], 12)
        };
        // Its fetch at 10 is out of range, so it takes the leader's end.
        let (end, steps) = truncated(&log(&[], 5), &follower);
        assert_eq!((end, steps), (Some(5), vec![10]));
        let empty = ReplicaLog {
            log_start_offset: 13,
            ..log(&[], 13)
        };
        let done = truncate_follower(&log(&[(0, 0)], 9), &empty);
        assert_eq!((done.truncate_to, done.is_full), (Some(9), true));
    }

    #[test]
    fn without_epochs_a_high_watermark_below_the_leaders_start_begins_anew() {
        let leader = ReplicaLog {
            log_start_offset: 10,
            ..log(&[], 20)
        };
        let follower = ReplicaLog {
            high_watermark: Some(8),
            ..log(&[], 15)
        };
        let done = truncate_follower(&leader, &follower);
        assert_eq!(done.truncate_to, Some(10));
        assert_eq!(done.steps, vec![8]);
        assert!(done.is_full);
    }

    #[test]
    fn a_follower_that_is_cut_below_its_own_start_begins_anew() {
        let leader = log(&[(0, 0), (2, 4)], 30);
        let follower = ReplicaLog {
            log_start_offset: 9,
            ..log(&[(0, 9), (1, 20)], 30)
        };
        let done = truncate_follower(&leader, &follower);
        assert_eq!((done.truncate_to, done.is_full), (Some(4), true));
    }
}
