//! Which batches a command looks at.

use crate::format::record_batch::RecordBatchHeader;

/// The filters that commands share. Lower bounds include their value, upper bounds do not.
///
/// A batch passes if any offset, or any time between its first and last record, lies inside.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only this topic.
    pub topic: Option<String>,
    /// Only this partition number.
    pub partition: Option<i32>,
    /// Only batches of this producer.
    pub producer_id: Option<i64>,
    /// Nothing below this offset.
    pub from_offset: Option<i64>,
    /// Nothing at or above this offset.
    pub to_offset: Option<i64>,
    /// Nothing before this time, in milliseconds.
    pub from_time_ms: Option<i64>,
    /// Nothing at or after this time, in milliseconds.
    pub to_time_ms: Option<i64>,
}

impl Filter {
    /// Whether a partition is wanted; `None` stands for a name that is not known.
    #[must_use]
    pub fn wants_partition(&self, topic: Option<&str>, partition: Option<i32>) -> bool {
        self.topic
            .as_deref()
            .is_none_or(|wanted| topic == Some(wanted))
            && self
                .partition
                .is_none_or(|wanted| partition == Some(wanted))
    }

    /// Whether a batch is wanted.
    #[must_use]
    #[inline]
    pub fn wants_batch(&self, header: &RecordBatchHeader) -> bool {
        self.producer_id
            .is_none_or(|wanted| header.producer_id() == wanted)
            && self.wants_offsets(header.base_offset(), header.last_offset())
            && self.wants_times(first_timestamp(header), header.max_timestamp())
    }

    /// Whether any offset from `first` to `last`, both included, is wanted.
    #[must_use]
    #[inline]
    pub fn wants_offsets(&self, first: i64, last: i64) -> bool {
        self.from_offset.is_none_or(|from| last >= from)
            && self.to_offset.is_none_or(|to| first < to)
    }

    /// Whether any time from `first` to `last`, both included, is wanted.
    #[must_use]
    #[inline]
    pub fn wants_times(&self, first: i64, last: i64) -> bool {
        self.from_time_ms.is_none_or(|from| last >= from)
            && self.to_time_ms.is_none_or(|to| first < to)
    }

    /// Whether a row that belongs to one offset and no producer is wanted.
    #[must_use]
    pub fn wants_offset(&self, offset: i64) -> bool {
        self.wants_offsets(offset, offset)
    }

    /// Whether a row of this producer is wanted.
    #[must_use]
    pub fn wants_producer(&self, producer_id: i64) -> bool {
        self.producer_id.is_none_or(|wanted| producer_id == wanted)
    }

    /// Whether anything narrows the partitions.
    #[must_use]
    pub fn narrows_partitions(&self) -> bool {
        self.topic.is_some() || self.partition.is_some()
    }

    /// Whether anything narrows the producers.
    #[must_use]
    pub fn narrows_producers(&self) -> bool {
        self.producer_id.is_some()
    }

    /// Whether anything narrows the offsets.
    #[must_use]
    pub fn narrows_offsets(&self) -> bool {
        self.from_offset.is_some() || self.to_offset.is_some()
    }

    /// Whether anything narrows the times.
    #[must_use]
    pub fn narrows_times(&self) -> bool {
        self.from_time_ms.is_some() || self.to_time_ms.is_some()
    }

    /// Whether anything narrows the offsets, times or producers.
    #[must_use]
    pub fn narrows_batches(&self) -> bool {
        self.narrows_producers() || self.narrows_offsets() || self.narrows_times()
    }
}

/// The earliest time a batch is known to hold: its base timestamp, or with `LogAppendTime` and
/// where the base timestamp is missing its largest.
fn first_timestamp(header: &RecordBatchHeader) -> i64 {
    use crate::format::NO_TIMESTAMP;
    use crate::format::record_batch::TimestampType;
    match header.attributes().timestamp_type() {
        TimestampType::CreateTime if header.base_timestamp() != NO_TIMESTAMP => {
            header.base_timestamp().min(header.max_timestamp())
        }
        TimestampType::CreateTime
        | TimestampType::LogAppendTime
        | TimestampType::NoTimestampType => header.max_timestamp(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::record_batch::{Attributes, RecordBatchFields};

    fn header() -> RecordBatchHeader {
        RecordBatchFields {
            base_offset: 10,
            batch_length: 49,
            partition_leader_epoch: 0,
            magic: 2,
            crc: 0,
            attributes: Attributes(0),
            last_offset_delta: 4,
            base_timestamp: 1000,
            max_timestamp: 1200,
            producer_id: 7,
            producer_epoch: 0,
            base_sequence: 0,
            records_count: 5,
        }
        .into()
    }

    #[test]
    fn offsets_overlap_by_any_offset_of_the_batch() {
        let cases = [
            (Some(14), None, true),
            (Some(15), None, false),
            (None, Some(10), false),
            (None, Some(11), true),
            (Some(12), Some(13), true),
        ];
        for (from_offset, to_offset, wanted) in cases {
            let filter = Filter {
                from_offset,
                to_offset,
                ..Filter::default()
            };
            assert_eq!(filter.wants_batch(&header()), wanted, "{filter:?}");
        }
    }

    #[test]
    fn times_overlap_by_any_time_of_the_batch() {
        let cases = [
            (Some(1200), None, true),
            (Some(1201), None, false),
            (None, Some(1000), false),
            (None, Some(1001), true),
        ];
        for (from_time_ms, to_time_ms, wanted) in cases {
            let filter = Filter {
                from_time_ms,
                to_time_ms,
                ..Filter::default()
            };
            assert_eq!(filter.wants_batch(&header()), wanted, "{filter:?}");
        }
    }

    #[test]
    fn another_producer_is_not_wanted() {
        let filter = Filter {
            producer_id: Some(8),
            ..Filter::default()
        };
        assert!(!filter.wants_batch(&header()));
    }

    #[test]
    fn an_unknown_name_matches_no_named_topic() {
        let filter = Filter {
            topic: Some("orders".to_owned()),
            ..Filter::default()
        };
        assert!(!filter.wants_partition(None, None));
        assert!(filter.wants_partition(Some("orders"), Some(3)));
    }
}
