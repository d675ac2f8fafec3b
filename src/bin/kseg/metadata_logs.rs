//! What is said where it cannot be told which partitions a broker takes for strays.

use kseg::log::metadata_log::{ClusterMetadata, Unusable};

use crate::context::Context;

/// Names the metadata logs that were wanted and cannot be used, and why.
pub(crate) fn warn_unusable(metadata: &ClusterMetadata, context: &Context) {
    for log in metadata.unusable() {
        context.warn(&format!(
            "{}: {}: which partitions of its cluster a broker takes for strays cannot be told",
            log.path.display(),
            log.reason
        ));
        context.hint(match log.reason {
            Unusable::Newer(_) => {
                "a newer Kafka wrote it than kseg reads, 4.3.1: see there with \
                 kafka-topics.sh --describe"
            }
            Unusable::Says(_) | Unusable::Unreadable(_) => {
                "kseg verify says what is wrong with the metadata log"
            }
        });
    }
}
