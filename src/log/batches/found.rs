//! What an entry is by its first bytes alone, whoever has read them: the walk, or the search for
//! the next batch behind damage.

use crate::format::legacy_record;
use crate::format::record_batch::{LOG_OVERHEAD, MAGIC_V2, MIN_BATCH_LENGTH};
use crate::log::damage::{Damage, DamageKind, ReadableFields};

/// An entry by its header alone.
#[derive(Clone, Copy, Debug)]
pub(in crate::log) enum Found {
    Batch {
        size_in_bytes: u64,
    },
    Legacy {
        size_in_bytes: u64,
    },
    Damage(Damage),
    /// The last batch was not all there when the file was opened and a broker has gone on since.
    BeingWritten {
        size_in_bytes: u64,
    },
}

impl Found {
    /// Takes the first bytes of an entry for a batch if size and magic allow it.
    pub(in crate::log) fn from_header(
        fields: ReadableFields,
        available: u64,
    ) -> Result<Self, DamageKind> {
        let (Some(length), Some(magic)) = (fields.batch_length, fields.magic) else {
            return Err(DamageKind::TornTail);
        };
        let minimum = match magic {
            legacy_record::MAGIC_V0 => legacy_record::MIN_MESSAGE_SIZE_V0,
            legacy_record::MAGIC_V1 => legacy_record::MIN_MESSAGE_SIZE_V1,
            MAGIC_V2 => MIN_BATCH_LENGTH,
            // Kafka refuses a size below 14 before it looks at the magic byte.
            _ => legacy_record::MIN_MESSAGE_SIZE_V0,
        };
        let size_in_bytes = match u64::try_from(length) {
            Ok(size) if length >= minimum => size + LOG_OVERHEAD as u64,
            _ => {
                return Err(DamageKind::BadLength {
                    found: length,
                    minimum,
                });
            }
        };
        if size_in_bytes > available {
            return Err(DamageKind::BatchPastEnd {
                size_in_bytes,
                available,
            });
        }
        match magic {
            legacy_record::MAGIC_V0 | legacy_record::MAGIC_V1 => Ok(Self::Legacy { size_in_bytes }),
            MAGIC_V2 => Ok(Self::Batch { size_in_bytes }),
            found => Err(DamageKind::UnknownMagic { found }),
        }
    }

    pub(in crate::log) fn size_in_bytes(self) -> u64 {
        match self {
            Self::Batch { size_in_bytes }
            | Self::Legacy { size_in_bytes }
            | Self::BeingWritten { size_in_bytes } => size_in_bytes,
            Self::Damage(damage) => damage.size_in_bytes,
        }
    }
}
