//! A row of `diff`.

use serde::Serialize;

use super::alone::Alone;
use super::differences::Difference;
use super::epochs::TruncationRow;
use super::facts::DamageRow;
use super::kind::DiffKind;
use super::side_files::SideFileRow;
use super::txns::DiffTxn;
use crate::report::gaps::OffsetRange;

/// The same damage on both sides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct SharedDamage {
    /// On the left.
    pub left: DamageRow,
    /// The same bytes on the right.
    pub right: DamageRow,
}

/// Offsets that are gone from the front of a log, though its start was never moved behind them, as
/// retention does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct LostFrontRow {
    /// The first of them.
    pub first_offset: i64,
    /// The last of them.
    pub last_offset: i64,
    /// Whether the topic may be tiered, as far as the log directory tells: they are in remote
    /// storage then.
    pub may_be_remote: bool,
}

/// How two replicas of a partition differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct DiffRow {
    /// Topic, as the directory's name says; null if that is no partition's name.
    pub topic: Option<String>,
    /// Partition number, as the directory's name says.
    pub partition: Option<i32>,
    /// The directory on the left; null if the partition is not there.
    pub left_path: Option<String>,
    /// The directory on the right; null if the partition is not there.
    pub right_path: Option<String>,
    /// Whether nothing was found that healthy replicas do not differ in.
    pub equal: bool,
    /// How they differ: the first difference that means a loss, else the first; null if equal.
    pub kind: Option<DiffKind>,
    /// The first offset at which they differ so; null if no offset is concerned.
    pub first_divergent_offset: Option<i64>,
    /// Whether one side has records that the other should have and has not.
    pub is_loss: bool,
    /// The highest leader epoch both logs have batches of.
    pub last_common_epoch: Option<i32>,
    /// Where that epoch ends in the log in which it ends first.
    pub last_common_end_offset: Option<i64>,
    /// Where the left log starts. What lies below the higher of the two starts is not compared, but
    /// for a front that is lost.
    pub left_log_start_offset: Option<i64>,
    /// Where the right log starts.
    pub right_log_start_offset: Option<i64>,
    /// What the left log has lost from its front; null if nothing.
    pub left_lost_front: Option<LostFrontRow>,
    /// What the right log has lost from its front; null if nothing.
    pub right_lost_front: Option<LostFrontRow>,
    /// Where the left log ends.
    pub left_log_end_offset: Option<i64>,
    /// Where the right log ends.
    pub right_log_end_offset: Option<i64>,
    /// Every way in which the logs differ, with the first place of each; those that mean a loss
    /// first.
    pub differences: Vec<Difference>,
    /// What the left side has and the right side has not, or not the same.
    pub only_in_left: Alone,
    /// What the right side has and the left side has not, or not the same.
    pub only_in_right: Alone,
    /// Transactions that have batches on one side alone.
    pub transactions: Vec<DiffTxn>,
    /// Batches of transactions that are not listed.
    pub transactions_not_listed: u64,
    /// What the right replica cuts off if the left one leads.
    pub if_left_leads: Option<TruncationRow>,
    /// What the left replica cuts off if the right one leads.
    pub if_right_leads: Option<TruncationRow>,
    /// Where the leader epochs of the left side are from: `checkpoint`; `none` if that is not
    /// there, as a broker then knows none after a clean stop; `batches` if it cannot be read, or if
    /// only `.log` files are compared.
    pub left_epoch_source: Option<&'static str>,
    /// Where those of the right side are from.
    pub right_epoch_source: Option<&'static str>,
    /// Offsets that are gone on both sides, though nothing tells that a cleaner took them; a
    /// thousand holes a side are looked at.
    pub both_missing: Vec<OffsetRange>,
    /// Batches whose records were not compared, as they unpack to more bytes than were allowed.
    pub batches_over_limit: u64,
    /// Records of a compacted log that one side lacks and whose keys were not looked for there, as
    /// there are more than some millions: they are taken for compacted away.
    pub records_not_looked_for: u64,
    /// The same damage on both sides.
    pub both_corrupt: Vec<SharedDamage>,
    /// Damage on the left that the right side has not.
    pub damaged_left: Vec<DamageRow>,
    /// Damage on the right that the left side has not.
    pub damaged_right: Vec<DamageRow>,
    /// Damage that is not listed.
    pub damage_not_listed: u64,
    /// Files beside the logs that say different things where the logs agree.
    pub side_files: Vec<SideFileRow>,
}

impl DiffRow {
    /// Whether both sides are damaged alike: they agree, and neither is sound. What a crash leaves
    /// behind the last batch is no such damage.
    #[must_use]
    pub fn is_damaged_alike(&self) -> bool {
        !self.both_missing.is_empty()
            || self.both_corrupt.iter().any(|both| !both.left.is_tail())
            || self.side_files.iter().any(|row| row.is_on_both_sides)
    }

    /// A partition that one side does not have.
    #[must_use]
    pub fn on_one_side(
        topic: Option<String>,
        partition: Option<i32>,
        left_path: Option<String>,
        right_path: Option<String>,
    ) -> Self {
        Self {
            topic,
            partition,
            left_path,
            right_path,
            equal: false,
            kind: Some(DiffKind::MissingPartition),
            first_divergent_offset: None,
            is_loss: DiffKind::MissingPartition.is_loss(),
            last_common_epoch: None,
            last_common_end_offset: None,
            left_log_start_offset: None,
            right_log_start_offset: None,
            left_lost_front: None,
            right_lost_front: None,
            left_log_end_offset: None,
            right_log_end_offset: None,
            differences: Vec::new(),
            only_in_left: Alone::default(),
            only_in_right: Alone::default(),
            transactions: Vec::new(),
            transactions_not_listed: 0,
            if_left_leads: None,
            if_right_leads: None,
            left_epoch_source: None,
            right_epoch_source: None,
            both_missing: Vec::new(),
            batches_over_limit: 0,
            records_not_looked_for: 0,
            both_corrupt: Vec::new(),
            damaged_left: Vec::new(),
            damaged_right: Vec::new(),
            damage_not_listed: 0,
            side_files: Vec::new(),
        }
    }
}
