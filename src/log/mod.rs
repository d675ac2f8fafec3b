//! Files: memory maps, segments and the walk over their batches, partition directories, broker
//! log directories.
//!
//! Everything is opened for reading only and left as it was. What is damaged inside a file is
//! handed out as [`damage::Damage`]; an [`Error`] means that a file could not be looked at.

pub mod abandoned_future;
pub mod batches;
pub mod broker_start;
pub mod checkpoints;
pub mod damage;
mod error;
pub mod extents;
mod held_files;
mod held_indexes;
pub mod last_copies;
pub mod log_dir;
pub mod log_input_stream;
pub mod lost_end;
pub mod lost_front;
pub mod mapped_file;
pub mod metadata_log;
pub mod odd_entry;
pub mod odd_root_file;
pub mod offset_ranges;
pub mod orphan_files;
pub mod overlay;
pub mod partition_dir;
mod partition_files;
pub mod partition_walk;
pub mod records;
mod resync;
pub mod segment_indexer;
pub mod settling;
pub mod strays;
pub mod swap_files;

pub use error::Error;
pub use mapped_file::Io;
