//! The first look at what came: batch by batch, before anything is assigned or written.
//!
//! Decides `UnifiedLog.analyzeAndValidateRecords`, `ByteBufferLogInputStream`.

use super::error::{Error, Rejection};
use crate::error::{DecodeError, DecodeErrorKind};
use crate::format::NO_PARTITION_LEADER_EPOCH;
use crate::format::NO_TIMESTAMP;
use crate::format::record_batch::{
    CompressionType, HEADER_SIZE, HEADER_SIZE_UP_TO_MAGIC, LOG_OVERHEAD, MAGIC_POSITION, MAGIC_V2,
    MIN_BATCH_LENGTH, RecordBatchHeader, compute_crc,
};
use crate::state::AppendOrigin;

/// Splits bytes into batches as Kafka does: a part of a batch at the end is left out.
pub(super) struct BatchesIn<'a> {
    rest: &'a [u8],
}

impl<'a> BatchesIn<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    fn read(&mut self) -> Result<Option<(&'a RecordBatchHeader, &'a [u8])>, Rejection> {
        let rest = self.rest;
        let corrupt = |field, found: i64, minimum| {
            let kind = DecodeErrorKind::BelowMinimum { found, minimum };
            Rejection::CorruptHeader(DecodeError::new("record batch", field, 0, kind))
        };
        let Some(&[_, _, _, _, _, _, _, _, a, b, c, d]) = rest.first_chunk::<LOG_OVERHEAD>() else {
            return Ok(None);
        };
        let length = i32::from_be_bytes([a, b, c, d]);
        // 14 bytes is the smallest message of magic 0.
        if length < 14 {
            return Err(corrupt("batchLength", i64::from(length), 14));
        }
        if rest.len() < HEADER_SIZE_UP_TO_MAGIC {
            return Ok(None);
        }
        let magic = rest
            .get(MAGIC_POSITION)
            .map_or(0, |byte| byte.cast_signed());
        if !(0..=MAGIC_V2).contains(&magic) {
            return Err(corrupt("magic", i64::from(magic), 0));
        }
        let size = usize::try_from(length).unwrap_or(0) + LOG_OVERHEAD;
        let Some((batch, rest)) = rest.split_at_checked(size) else {
            return Ok(None);
        };
        if magic != MAGIC_V2 {
            return Err(Rejection::Magic(magic));
        }
        let too_short = |_| corrupt("batchLength", i64::from(length), MIN_BATCH_LENGTH.into());
        let header = RecordBatchHeader::ref_from(batch).map_err(too_short)?;
        self.rest = rest;
        Ok(Some((header, batch)))
    }
}

impl<'a> Iterator for BatchesIn<'a> {
    type Item = Result<(&'a RecordBatchHeader, &'a [u8]), Rejection>;

    fn next(&mut self) -> Option<Self::Item> {
        let read = self.read();
        if read.is_err() {
            self.rest = &[];
        }
        read.transpose()
    }
}

/// The bytes of a batch behind its header.
pub(super) fn records_of(batch: &[u8]) -> &[u8] {
    batch.get(HEADER_SIZE..).unwrap_or_default()
}

/// What is known of an append (`LogAppendInfo`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Analysis {
    pub(super) first_offset: i64,
    pub(super) last_offset: i64,
    pub(super) max_timestamp: i64,
    pub(super) source_compression: CompressionType,
    /// Bytes of the batches that may be taken.
    pub(super) valid_bytes: usize,
}

/// How to look at an append.
#[derive(Clone, Copy, Debug)]
pub(super) struct Analyze {
    pub(super) origin: AppendOrigin,
    pub(super) max_message_bytes: i32,
    pub(super) leader_epoch: i32,
}

impl Analyze {
    pub(super) fn analyze(&self, records: &[u8]) -> Result<Analysis, Error> {
        let is_follower = self.origin == AppendOrigin::Replication;
        let mut analysis = Analysis {
            first_offset: -1,
            last_offset: -1,
            max_timestamp: NO_TIMESTAMP,
            source_compression: CompressionType::NONE,
            valid_bytes: 0,
        };
        let mut is_first = true;
        let mut skips = false;
        let mut fell = None;
        for batch in BatchesIn::new(records) {
            let (header, bytes) = batch?;
            if self.origin == AppendOrigin::Client && header.base_offset() != 0 {
                return Err(Rejection::BaseOffset(header.base_offset()).into());
            }
            skips = skips || (is_follower && self.is_of_later_leader(header));
            if !skips {
                if is_first {
                    analysis.first_offset = header.base_offset();
                    is_first = false;
                }
                let last_offset = header.last_offset();
                if analysis.last_offset >= last_offset {
                    fell.get_or_insert(Rejection::OffsetsOutOfOrder {
                        last_offset,
                        previous: analysis.last_offset,
                    });
                }
                analysis.last_offset = last_offset;
                self.check(header, bytes)?;
                analysis.max_timestamp = analysis.max_timestamp.max(header.max_timestamp());
                analysis.valid_bytes += bytes.len();
                let codec = header.attributes().compression_type();
                if codec != CompressionType::NONE {
                    analysis.source_compression = codec;
                }
            }
            if let Some(fell) = fell.take_if(|_| is_follower) {
                return Err(fell.into());
            }
        }
        Ok(analysis)
    }

    fn is_of_later_leader(&self, header: &RecordBatchHeader) -> bool {
        let epoch = header.partition_leader_epoch();
        epoch != NO_PARTITION_LEADER_EPOCH && epoch > self.leader_epoch
    }

    fn check(&self, header: &RecordBatchHeader, batch: &[u8]) -> Result<(), Rejection> {
        let size = batch.len() as u64;
        let max = self.max_message_bytes;
        let is_follower = self.origin == AppendOrigin::Replication;
        if !is_follower && size > u64::try_from(max).unwrap_or(0) {
            return Err(Rejection::BatchTooLarge { size, max });
        }
        let computed = compute_crc(batch);
        if computed != header.crc() {
            let stored = header.crc();
            return Err(Rejection::Corrupt { stored, computed });
        }
        Ok(())
    }
}
