//! What lies in a file: one row a batch, one row a record if asked, one row an entry of a side
//! file.
//!
//! [`dump_log`] walks a `.log`, [`dump_side_file`] decodes any other file; both hand out rows one
//! at a time.

mod log;
mod records;
mod rows;
mod side_file;

pub use log::{DumpOptions, dump_log};
pub use records::RecordOptions;
pub use rows::{
    AbortedTxnRow, BatchOfRecord, BatchPlace, BatchRow, CheckpointRow, DamageRow, DumpRow,
    LeaderEpochRow, OffsetIndexRow, ProducerSnapshotRow, PropertyRow, RecordFields, RecordRow,
    Source, TimeIndexRow,
};
pub use side_file::{SideFile, dump_side_file, finished};

/// What a dump came across.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DumpCounts {
    /// Rows handed out.
    pub rows: u64,
    /// Batches and messages whose checksum is wrong, and stretches of damage.
    pub invalid: u64,
}
