//! Transactional batches whose transaction the coordinator has to confirm first (KIP-890).
//!
//! Before the first batch of a transaction is appended, the leader asks the transaction
//! coordinator whether this partition belongs to it. While the answer is under way, an entry here
//! holds a guard that the append has to show. Nothing of this reaches the disk.

use std::collections::HashMap;

/// A token for one verification (`VerificationGuard`). No two entries have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerificationGuard(u64);

impl VerificationGuard {
    /// The guard of a request that has none; matches no entry.
    pub const SENTINEL: Self = Self(0);

    /// Whether a request with the guard `requested` passes (`VerificationGuard.verify`).
    #[must_use]
    pub fn verify(self, requested: Self) -> bool {
        requested != Self::SENTINEL && requested == self
    }
}

/// A verification that has begun (`VerificationStateEntry`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerificationStateEntry {
    /// When it began, in milliseconds.
    pub timestamp: i64,
    /// What the append has to show.
    pub verification_guard: VerificationGuard,
    /// Whether the client speaks transaction version 2.
    pub supports_epoch_bump: bool,
    /// Lowest sequence for which verification was asked in this epoch; a higher one has to wait.
    pub lowest_sequence: i32,
    /// Producer epoch of the newest request.
    pub producer_epoch: i16,
}

impl VerificationStateEntry {
    /// A retry may bring a lower sequence of the same epoch, and a new epoch begins anew
    /// (`VerificationStateEntry.maybeUpdateLowestSequenceAndEpoch`).
    fn maybe_update_lowest_sequence_and_epoch(&mut self, sequence: i32, producer_epoch: i16) {
        let is_lower = producer_epoch == self.producer_epoch && sequence < self.lowest_sequence;
        if is_lower || producer_epoch > self.producer_epoch {
            self.lowest_sequence = sequence;
            self.producer_epoch = producer_epoch;
        }
    }
}

/// What one verification is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerificationRequest {
    /// The producer.
    pub producer_id: i64,
    /// Its epoch in the batch.
    pub producer_epoch: i16,
    /// The batch's base sequence.
    pub base_sequence: i32,
    /// Whether the client speaks transaction version 2.
    pub supports_epoch_bump: bool,
}

/// The verifications under way, one a producer.
#[derive(Clone, Debug, Default)]
pub(super) struct VerificationStates {
    entries: HashMap<i64, VerificationStateEntry>,
    last_guard: u64,
}

impl VerificationStates {
    #[inline]
    pub(super) fn get(&self, producer_id: i64) -> Option<&VerificationStateEntry> {
        // Replaying a log never fills this, and looks here for every batch.
        if self.entries.is_empty() {
            return None;
        }
        self.entries.get(&producer_id)
    }

    #[inline]
    pub(super) fn remove(&mut self, producer_id: i64) {
        if !self.entries.is_empty() {
            self.entries.remove(&producer_id);
        }
    }

    /// `ProducerStateManager.maybeCreateVerificationStateEntry`.
    pub(super) fn get_or_create(
        &mut self,
        request: &VerificationRequest,
        now_ms: i64,
    ) -> VerificationStateEntry {
        let last_guard = &mut self.last_guard;
        let entry = self.entries.entry(request.producer_id).or_insert_with(|| {
            *last_guard += 1;
            VerificationStateEntry {
                timestamp: now_ms,
                verification_guard: VerificationGuard(*last_guard),
                supports_epoch_bump: request.supports_epoch_bump,
                lowest_sequence: request.base_sequence,
                producer_epoch: request.producer_epoch,
            }
        });
        entry.maybe_update_lowest_sequence_and_epoch(request.base_sequence, request.producer_epoch);
        *entry
    }

    /// Entries expire by the same age as producers (`ProducerStateManager.removeExpiredProducers`).
    pub(super) fn remove_expired(&mut self, now_ms: i64, expiration_ms: i64) {
        self.entries
            .retain(|_, entry| now_ms.wrapping_sub(entry.timestamp) < expiration_ms);
    }
}
