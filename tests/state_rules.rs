//! The rules one by one, and the two ways in which a log becomes state.
//!
//! What Kafka answers to whole scenarios is in `state_cases`; here every refusal is met once, by
//! its rule and numbers, and properties hold on arbitrary headers.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops at the first surprise"
)]

use kseg::format::control_record::{ControlRecordType, EndTransactionMarker};
use kseg::format::record_batch::{Attributes, MAGIC_V2, RecordBatchFields, RecordBatchHeader};
use kseg::state::append_check::Validated;
use kseg::state::verification_state::VerificationRequest;
use kseg::state::{
    AppendCheck, AppendOrigin, LogOffsetMetadata, ProducerStateManager, Refusal, SegmentProducers,
    TransactionVersion, Verdict, VerificationGuard, recover_batch,
};
use proptest::prelude::*;

const PLAIN: i16 = 0;
const TRANSACTIONAL: i16 = Attributes::TRANSACTIONAL_FLAG_MASK;
const CONTROL: i16 = TRANSACTIONAL | Attributes::CONTROL_FLAG_MASK;

#[derive(Clone, Copy, Debug)]
struct Batch {
    attributes: i16,
    offset: i64,
    epoch: i16,
    sequence: i32,
    count: i32,
    coordinator_epoch: i32,
}

fn batch(attributes: i16, offset: i64, epoch: i16, sequence: i32) -> Batch {
    Batch {
        attributes,
        offset,
        epoch,
        sequence,
        count: 1,
        coordinator_epoch: 0,
    }
}

fn marker(offset: i64, epoch: i16, coordinator_epoch: i32) -> Batch {
    Batch {
        coordinator_epoch,
        ..batch(CONTROL, offset, epoch, -1)
    }
}

impl Batch {
    fn header(self) -> RecordBatchHeader {
        RecordBatchFields {
            base_offset: self.offset,
            batch_length: 100,
            partition_leader_epoch: 0,
            magic: MAGIC_V2,
            crc: 0,
            attributes: Attributes(self.attributes),
            last_offset_delta: self.count - 1,
            base_timestamp: 5,
            max_timestamp: 5,
            producer_id: 7,
            producer_epoch: self.epoch,
            base_sequence: self.sequence,
            records_count: self.count,
        }
        .into()
    }

    fn marker(self) -> Option<EndTransactionMarker> {
        (self.attributes & Attributes::CONTROL_FLAG_MASK != 0).then_some(EndTransactionMarker {
            control_type: ControlRecordType::ABORT,
            coordinator_epoch: self.coordinator_epoch,
        })
    }

    /// The verdict of a leader that holds `log`.
    fn after(self, log: &[Self], version: TransactionVersion) -> Verdict {
        let header = self.header();
        let check = AppendCheck::for_logged_batch(&header, version);
        recovered(log).judge(&header, self.marker(), &check)
    }
}

fn recovered(log: &[Batch]) -> ProducerStateManager {
    let mut manager = ProducerStateManager::default();
    for batch in log {
        recover_batch(&mut manager, &batch.header(), batch.marker(), |_| {}).unwrap();
    }
    manager
}

fn refusal(verdict: Verdict) -> Refusal {
    match verdict {
        Verdict::Rejected(refusal) => refusal,
        Verdict::Appended | Verdict::Duplicate(_) => panic!("{verdict:?}"),
    }
}

/// Seven batches of one record: sequences 0 to 6 at offsets 100 to 106.
fn seven() -> Vec<Batch> {
    (0..7)
        .map(|n| batch(PLAIN, 100 + i64::from(n), 3, n))
        .collect()
}

#[test]
fn gap_below_window_and_inexact_repeat_are_told_apart() {
    let v0 = TransactionVersion::V0;
    let gap = refusal(batch(PLAIN, 107, 3, 9).after(&seven(), v0));
    let expected = Refusal::SequenceGap {
        expected: 7,
        found: 9,
        last_sequence: 6,
        last_offset: 106,
    };
    assert_eq!(gap, expected);
    let below = refusal(batch(PLAIN, 107, 3, 1).after(&seven(), v0));
    let expected = Refusal::BelowWindow {
        expected: 7,
        found: 1,
        first_sequence: 2,
        last_sequence: 6,
        last_offset: 106,
    };
    assert_eq!(below, expected);
    let longer = Batch {
        count: 2,
        ..batch(PLAIN, 107, 3, 4)
    };
    let inexact = refusal(longer.after(&seven(), v0));
    assert_eq!(inexact.rule(), "no-such-batch-in-window");
    for refusal in [gap, below, inexact] {
        assert_eq!(refusal.error().code(), 45);
        assert_eq!(refusal.exception(), "OutOfOrderSequenceException");
    }
}

#[test]
fn exact_repeat_within_five_is_a_duplicate() {
    for sequence in 2..7 {
        let again = batch(PLAIN, 107, 3, sequence);
        let Verdict::Duplicate(of) = again.after(&seven(), TransactionVersion::V0) else {
            panic!("sequence {sequence}");
        };
        assert_eq!(of.last_offset, 100 + i64::from(sequence));
    }
}

#[test]
fn zero_follows_the_largest_sequence() {
    let log = [batch(PLAIN, 100, 3, i32::MAX)];
    let v0 = TransactionVersion::V0;
    assert_eq!(batch(PLAIN, 101, 3, 0).after(&log, v0), Verdict::Appended);
    let gap = refusal(batch(PLAIN, 101, 3, 2).after(&log, v0));
    assert_eq!(gap.rule(), "sequence-gap");
}

#[test]
fn new_and_marker_only_epochs_start_at_zero() {
    let v0 = TransactionVersion::V0;
    let new = refusal(batch(PLAIN, 107, 4, 1).after(&seven(), v0));
    assert_eq!(new.rule(), "new-epoch-must-start-at-zero");
    let known_by_marker = refusal(batch(PLAIN, 101, 3, 1).after(&[marker(100, 3, 0)], v0));
    assert_eq!(known_by_marker.rule(), "must-start-at-zero");
    assert_eq!(batch(PLAIN, 0, 9, 50).after(&[], v0), Verdict::Appended);
}

#[test]
fn stale_epochs_are_refused() {
    let v0 = TransactionVersion::V0;
    let data = refusal(batch(PLAIN, 107, 2, 0).after(&seven(), v0));
    assert_eq!(data, Refusal::StaleProducerEpoch { known: 3, found: 2 });
    // The coordinator has fenced epoch 2 in the meantime, so its marker comes late.
    let open = [batch(TRANSACTIONAL, 100, 3, 0)];
    let late = refusal(marker(101, 2, 0).after(&open, v0));
    assert_eq!(late, Refusal::StaleMarkerEpoch { known: 3, found: 2 });
    assert_eq!(late.error().name(), "INVALID_PRODUCER_EPOCH");
    let coordinator = refusal(marker(102, 3, 4).after(&[marker(100, 3, 5)], v0));
    let expected = Refusal::StaleCoordinatorEpoch { known: 5, found: 4 };
    assert_eq!(coordinator, expected);
    assert_eq!(coordinator.error().code(), 52);
}

#[test]
fn marker_of_version_2_has_to_raise_the_epoch_of_an_open_transaction() {
    let v2 = TransactionVersion::V2;
    let open = [batch(TRANSACTIONAL, 100, 3, 0)];
    let equal = refusal(marker(101, 3, 0).after(&open, v2));
    assert_eq!(equal, Refusal::MarkerEpochNotRaised { known: 3, found: 3 });
    assert_eq!(marker(101, 4, 0).after(&open, v2), Verdict::Appended);
    let ended = [open[0], marker(101, 4, 0)];
    assert_eq!(marker(102, 4, 0).after(&ended, v2), Verdict::Appended);
    let last = [batch(TRANSACTIONAL, 100, i16::MAX, 0)];
    assert_eq!(marker(101, i16::MAX, 0).after(&last, v2), Verdict::Appended);
    let unknown = refusal(marker(101, 3, 0).after(&open, TransactionVersion::UNKNOWN));
    assert_eq!(unknown, Refusal::MarkerWithoutTransactionVersion);
}

#[test]
fn plain_batch_inside_a_transaction_is_refused_for_every_origin() {
    let mut manager = recovered(&[batch(TRANSACTIONAL, 100, 3, 0)]);
    let before = *manager.last_entry(7).unwrap();
    let plain = batch(PLAIN, 101, 3, 1);
    let expected = Refusal::OpenTransaction { first_offset: 100 };
    let refused = recover_batch(&mut manager, &plain.header(), None, |_| {}).unwrap_err();
    assert_eq!(refused, expected);
    assert_eq!(manager.last_entry(7), Some(&before));
    let log = [batch(TRANSACTIONAL, 100, 3, 0)];
    assert_eq!(refusal(plain.after(&log, TransactionVersion::V0)), expected);
}

fn verification(epoch: i16, sequence: i32, supports_epoch_bump: bool) -> VerificationRequest {
    VerificationRequest {
        producer_id: 7,
        producer_epoch: epoch,
        base_sequence: sequence,
        supports_epoch_bump,
    }
}

fn client(verification_guard: VerificationGuard) -> AppendCheck {
    AppendCheck {
        origin: AppendOrigin::Client,
        verification_guard,
        transaction_verification_enabled: true,
        transaction_version: TransactionVersion::UNKNOWN,
    }
}

#[test]
fn verification_is_asked_once_a_transaction_and_blocks_higher_sequences() {
    let mut manager = ProducerStateManager::default();
    let header = batch(TRANSACTIONAL, 0, 0, 0).header();
    let without = manager.judge(&header, None, &client(VerificationGuard::SENTINEL));
    assert_eq!(without, Verdict::Rejected(Refusal::NoVerification));

    let low = verification(0, 0, false);
    let guard = manager
        .maybe_start_transaction_verification(&low, 1)
        .unwrap();
    let higher = batch(TRANSACTIONAL, 0, 0, 1).header();
    let pending = manager.judge(&higher, None, &client(guard));
    let expected = Refusal::LowerSequencePending {
        found: 1,
        lowest_sequence: 0,
    };
    assert_eq!(pending, Verdict::Rejected(expected));

    let place = LogOffsetMetadata::offset_only(0);
    let validated = manager.analyze_and_validate([(&header, None)], place, &client(guard));
    let Ok(Validated::Accepted(append)) = validated else {
        panic!("{validated:?}");
    };
    manager.append(append, 0, |_| {}).unwrap();
    assert!(manager.verification_state_entry(7).is_none());
    let guard = manager
        .maybe_start_transaction_verification(&low, 1)
        .unwrap();
    assert_eq!(guard, VerificationGuard::SENTINEL);
}

#[test]
fn version_2_producer_without_batches_starts_at_zero() {
    let mut manager = ProducerStateManager::default();
    let request = verification(0, 4, true);
    let guard = manager
        .maybe_start_transaction_verification(&request, 1)
        .unwrap();
    let header = batch(TRANSACTIONAL, 0, 0, 4).header();
    let expected = Refusal::UnknownProducerMustStartAtZero { found: 4 };
    let verdict = manager.judge(&header, None, &client(guard));
    assert_eq!(verdict, Verdict::Rejected(expected));
}

#[test]
fn empty_control_batch_only_makes_its_producer_known() {
    let mut manager = ProducerStateManager::default();
    let header = marker(100, 3, 5).header();
    recover_batch(&mut manager, &header, None, |_| {}).unwrap();
    let entry = manager.last_entry(7).unwrap();
    assert_eq!(entry.producer_epoch(), -1);
    assert_eq!(entry.last_timestamp(), -1);
    assert_eq!(manager.map_end_offset(), 101);
}

#[test]
fn epoch_that_returns_within_a_segment_keeps_the_window_only_when_rebuilt_at_once() {
    let log = [
        batch(PLAIN, 100, 0, 0),
        batch(PLAIN, 101, 1, 0),
        batch(PLAIN, 102, 0, 1),
    ];
    let one_by_one = recovered(&log);
    let windows = |manager: &ProducerStateManager| {
        let entry = *manager.last_entry(7).unwrap();
        entry
            .batch_metadata()
            .map(|b| b.last_offset)
            .collect::<Vec<_>>()
    };
    assert_eq!(windows(&one_by_one), [102]);

    let mut manager = recovered(log.get(..1).unwrap());
    let mut segment = SegmentProducers::new();
    for batch in log.get(1..).unwrap() {
        segment.add(&mut manager, &batch.header(), None).unwrap();
    }
    segment.take_in(&mut manager).unwrap();
    assert_eq!(windows(&manager), [100, 102]);
}

#[test]
fn late_transaction_is_one_whose_producer_is_silent() {
    let manager = recovered(&[batch(TRANSACTIONAL, 100, 3, 0)]);
    assert_eq!(manager.first_undecided_offset(), Some(100));
    assert!(!manager.has_late_transaction(5 + 900_000 + 300_000, 900_000));
    assert!(manager.has_late_transaction(5 + 900_000 + 300_001, 900_000));
}

fn any_batch() -> impl Strategy<Value = (RecordBatchHeader, Option<EndTransactionMarker>)> {
    let few = (0_i64..3, -1_i16..4, prop_oneof![0_i32..6, any::<i32>()]);
    let wild = (any::<i64>(), any::<i64>(), any::<i32>());
    let bits = prop_oneof![
        Just(PLAIN),
        Just(TRANSACTIONAL),
        Just(CONTROL),
        any::<i16>()
    ];
    (few, wild, bits, any::<bool>(), -1_i32..4).prop_map(
        |((producer_id, producer_epoch, base_sequence), wild, bits, has_marker, epoch)| {
            let header: RecordBatchHeader = RecordBatchFields {
                base_offset: wild.0,
                batch_length: wild.2,
                partition_leader_epoch: 0,
                magic: MAGIC_V2,
                crc: 0,
                attributes: Attributes(bits),
                last_offset_delta: wild.2,
                base_timestamp: wild.1,
                max_timestamp: wild.1,
                producer_id,
                producer_epoch,
                base_sequence,
                records_count: wild.2,
            }
            .into();
            let marker = EndTransactionMarker {
                control_type: ControlRecordType(i16::from(epoch > 0)),
                coordinator_epoch: epoch,
            };
            (header, has_marker.then_some(marker))
        },
    )
}

proptest! {
    /// Taking a batch in directly is the same as an append of one batch.
    #[test]
    fn recovery_equals_an_append_of_one_batch(
        batches in prop::collection::vec(any_batch(), 0..60),
    ) {
        let mut direct = ProducerStateManager::default();
        let mut appended = ProducerStateManager::default();
        for (header, marker) in &batches {
            let check = AppendCheck::for_logged_batch(header, TransactionVersion::V2);
            let _ = direct.judge(header, *marker, &check);
            let mut rows = Vec::new();
            let one = recover_batch(&mut direct, header, *marker, |row| rows.push(row));
            let one = one.map(|()| rows);
            let place = LogOffsetMetadata::offset_only(header.base_offset());
            let other = appended
                .analyze_and_validate([(header, *marker)], place, &AppendCheck::REPLICATION)
                .and_then(|validated| {
                    let mut rows = Vec::new();
                    if let Validated::Accepted(append) = validated {
                        appended.append(append, header.last_offset(), |row| rows.push(row))?;
                    }
                    Ok(rows)
                });
            prop_assert_eq!(&one, &other);
            prop_assert_eq!(
                direct.snapshot_rows().collect::<Vec<_>>(),
                appended.snapshot_rows().collect::<Vec<_>>()
            );
            prop_assert_eq!(
                direct.active_producers().map(|e| e.batch_metadata().count()).collect::<Vec<_>>(),
                appended.active_producers().map(|e| e.batch_metadata().count()).collect::<Vec<_>>()
            );
        }
        prop_assert_eq!(direct.map_end_offset(), appended.map_end_offset());
    }
}

/// `ProducerAppendInfo.append` takes the time of a marker's record, of a data batch its
/// maxTimestamp. Kafka's own loading of a batch with a bit of maxTimestamp flipped gave this.
#[test]
fn a_markers_time_is_that_of_its_record() {
    let time = |attributes: i16| {
        let fields = RecordBatchFields {
            base_offset: 0,
            batch_length: 66,
            partition_leader_epoch: 0,
            magic: MAGIC_V2,
            crc: 0,
            attributes: Attributes(attributes),
            last_offset_delta: 0,
            base_timestamp: 5,
            max_timestamp: 9,
            producer_id: 7,
            producer_epoch: 0,
            base_sequence: if attributes & Attributes::CONTROL_FLAG_MASK == 0 {
                0
            } else {
                -1
            },
            records_count: 1,
        };
        let is_marker = attributes & Attributes::CONTROL_FLAG_MASK != 0;
        let marker = is_marker.then_some(EndTransactionMarker {
            control_type: ControlRecordType::COMMIT,
            coordinator_epoch: 0,
        });
        let mut manager = ProducerStateManager::default();
        recover_batch(&mut manager, &fields.into(), marker, |_| {}).unwrap();
        manager.last_entry(7).unwrap().last_timestamp()
    };
    let marker = Attributes::TRANSACTIONAL_FLAG_MASK | Attributes::CONTROL_FLAG_MASK;
    assert_eq!(time(marker), 5);
    assert_eq!(time(0), 9);
    // With log append time, and with a delete horizon in the place of baseTimestamp.
    assert_eq!(time(marker | Attributes::TIMESTAMP_TYPE_MASK), 9);
    assert_eq!(time(marker | Attributes::DELETE_HORIZON_FLAG_MASK), 9);
}
