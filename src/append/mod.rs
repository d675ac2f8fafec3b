//! The broker's append path: a partition log that is written.
//!
//! [`PartitionLog`] takes what a broker's log takes and leaves the files a broker leaves, byte for
//! byte: it validates, assigns offsets, writes segments and their indexes, rolls, takes snapshots,
//! truncates, recovers. All rules about producers and transactions are those of [`crate::state`],
//! all bytes are those of [`crate::format`]: the ones the readers use.
//!
//! It has no threads and no clock of its own. Time is what the caller says it is, and what a
//! broker does in the background happens when the caller moves the clock
//! ([`PartitionLog::advance_clock_to`]), in the order of the due times.
//!
//! | question | module |
//! |---|---|
//! | what does the log take, and what does it answer | [`partition_log`] |
//! | what is refused, with which error | [`error`] |
//! | what is configured | [`config`] |
//! | what of a batch is checked and changed | `analyze`, `validator` |
//! | when is a segment full, when is it indexed | `segment`, `indexes` |
//! | what happens at a start | `loader`, `leftovers`, `split`, `deep_records` |
//! | what would happen at a start | [`dry_run`] |
//! | a whole story in a file, as `kseg write` reads it | [`scenario`] |
//!
//! Names are those of `org.apache.kafka.storage.internals.log` in Kafka 4.3.1.

mod analyze;
pub mod config;
mod deep_records;
pub mod dry_run;
pub mod error;
mod files;
mod index_file;
mod indexes;
mod leader_epochs;
mod leftovers;
mod load_trace;
mod loader;
mod local_log;
mod log_file;
pub mod partition_log;
pub mod scenario;
mod scheduler;
mod segment;
mod split;
mod state_files;
mod transaction_index;
mod validator;

pub use config::{BrokerCompressionType, LogConfig};
pub use error::{Error, LoadError, Rejection};
pub use loader::Checkpointed;
pub use partition_log::{Appended, LeaderAppend, PartitionLog};

use crate::format::aborted_txn::{AbortedTxn, AbortedTxnFields};
use crate::state::AbortedTxnRow;

/// A row of the state as it lies in the file.
fn aborted_txn(row: &AbortedTxnRow) -> AbortedTxn {
    AbortedTxnFields {
        producer_id: row.producer_id,
        first_offset: row.first_offset,
        last_offset: row.last_offset,
        last_stable_offset: row.last_stable_offset,
    }
    .into()
}
