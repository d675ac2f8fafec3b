//! What is worth telling about a batch: sequences that are not in the log, or are there already.

/// Offsets that were once taken and hold nothing now, counted from the log's first segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OffsetsGone {
    /// Whole batches taken out by the cleaner.
    pub compacted: u64,
    /// In damaged bytes or in segments that are not there, below the log start: given up already.
    pub given_up: u64,
    /// In damaged bytes or in segments that are not there.
    pub lost: u64,
}

impl OffsetsGone {
    /// What has gone since `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            compacted: self.compacted.saturating_sub(earlier.compacted),
            given_up: self.given_up.saturating_sub(earlier.given_up),
            lost: self.lost.saturating_sub(earlier.lost),
        }
    }

    /// What became of so many sequences that are not in the log, if these offsets are enough to
    /// have held them. Where some were given up and some lost, they count as lost.
    #[must_use]
    pub fn cause_of(self, missing: u64) -> Option<MissingCause> {
        let all = [self.compacted, self.given_up, self.lost];
        let all = all.into_iter().fold(0, u64::saturating_add);
        if self.compacted >= missing {
            Some(MissingCause::Compacted)
        } else if all < missing {
            None
        } else if self.lost > 0 {
            Some(MissingCause::Lost)
        } else {
            Some(MissingCause::BeforeLogStart)
        }
    }
}

/// Why sequences are not in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingCause {
    /// So many offsets were compacted away since the producer's last batch.
    Compacted,
    /// So many offsets lie in damaged bytes or missing segments since the producer's last batch.
    Lost,
    /// So many offsets were given up since the producer's last batch, or it is the first batch of
    /// the producer, or the first one after its markers, in a log whose beginning is gone.
    BeforeLogStart,
    /// The first batch of the producer in a log whose beginning is there.
    NeverStored,
    /// A leader that knew the producer would have refused the batch behind the gap.
    ExpiredOrLostState,
}

/// Something worth telling about one batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SequenceFinding {
    /// Sequences before this batch are not in the log.
    Missing {
        /// First missing sequence.
        first_sequence: i32,
        /// Last missing sequence.
        last_sequence: i32,
        /// Why.
        cause: MissingCause,
    },
    /// Some or all sequences of this batch are in the log already, or may be: which batch has
    /// them has to be looked up.
    Behind,
    /// The batch fills a gap that a later one had left.
    Reordered,
    /// A client without transactions goes on under a higher epoch, and nothing of the epoch before
    /// is in the log from a sequence on. It does so only when it gave up a request: it never got
    /// an answer, or was refused for its sequence. That may have been in another partition
    /// (`TransactionManager.bumpIdempotentEpochAndResetIdIfNeeded`, KIP-360).
    EpochRaised {
        /// The epoch before.
        known: i16,
        /// Its first sequence that was never stored.
        next_sequence: i32,
    },
    /// The batch has a lower producer epoch than one before.
    EpochRegression {
        /// The higher epoch before it.
        known: i16,
    },
    /// The marker has a lower coordinator epoch than the one before.
    CoordinatorEpochRegression {
        /// The higher coordinator epoch before it.
        known: i32,
        /// That of the marker.
        found: i32,
    },
    /// A batch of a new epoch looks like one of the last five of an older epoch.
    MaybeStoredAgain {
        /// Base offset of the older batch.
        earlier_offset: i64,
    },
    /// These offsets belong to the transaction that this marker aborts.
    Aborted {
        /// First offset of the range.
        first_offset: i64,
        /// Last offset of the range.
        last_offset: i64,
    },
}
