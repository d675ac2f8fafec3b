//! One module per question: folds a partition into rows that serialise.
//!
//! A row's keys are a contract: Kafka's names in camelCase, every key always there, `null` for
//! what is not. Nothing here knows of terminals.

pub mod aborted;
mod by_producer;
pub mod content;
pub mod coordinator_topics;
pub mod diff;
pub mod dump;
pub mod filter;
pub mod gaps;
pub mod internal_records;
pub mod ls;
pub mod lso;
pub mod offset_commits;
pub mod partition_state;
pub mod producers;
pub mod read;
pub mod rebuild;
pub mod replay;
mod retention_time;
pub mod transaction_state;
pub mod transactions;
pub mod txns;
pub mod verify;
