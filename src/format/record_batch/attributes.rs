//! The attributes of a batch: codec, timestamp type, and the marks of transactional and control
//! batches. Entries of magic 0 and 1 have the first two of them in the same bits.

/// The attribute bits of a batch. Kafka reads the low byte only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes(pub i16);

impl Attributes {
    /// Bits 0-2: the codec.
    pub const COMPRESSION_CODEC_MASK: i16 = 0x07;
    /// Bit 3: record timestamps are the time of the append.
    pub const TIMESTAMP_TYPE_MASK: i16 = 0x08;
    /// Bit 4: the batch belongs to a transaction.
    pub const TRANSACTIONAL_FLAG_MASK: i16 = 0x10;
    /// Bit 5: the batch holds control records.
    pub const CONTROL_FLAG_MASK: i16 = 0x20;
    /// Bit 6: the base timestamp is the delete horizon.
    pub const DELETE_HORIZON_FLAG_MASK: i16 = 0x40;
    /// Bits that Kafka writes as 0 and ignores when reading.
    pub const UNUSED_MASK: i16 = !0x7f;

    /// How the records are compressed.
    #[must_use]
    #[inline]
    pub fn compression_type(self) -> CompressionType {
        #[expect(clippy::cast_sign_loss, reason = "0 to 7")]
        CompressionType((self.0 & Self::COMPRESSION_CODEC_MASK) as u8)
    }

    /// Whose clock the timestamps come from.
    #[must_use]
    #[inline]
    pub fn timestamp_type(self) -> TimestampType {
        if self.0 & Self::TIMESTAMP_TYPE_MASK == 0 {
            TimestampType::CreateTime
        } else {
            TimestampType::LogAppendTime
        }
    }

    /// Whether the batch belongs to a transaction; true for its marker as well.
    #[must_use]
    #[inline]
    pub fn is_transactional(self) -> bool {
        self.0 & Self::TRANSACTIONAL_FLAG_MASK != 0
    }

    /// Whether the batch holds control records, which no consumer sees.
    #[must_use]
    #[inline]
    pub fn is_control(self) -> bool {
        self.0 & Self::CONTROL_FLAG_MASK != 0
    }

    /// Whether the base timestamp is the delete horizon.
    #[must_use]
    #[inline]
    pub fn has_delete_horizon(self) -> bool {
        self.0 & Self::DELETE_HORIZON_FLAG_MASK != 0
    }
}

/// A codec by its number. 5 to 7 fit the bits and mean nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompressionType(pub u8);

impl CompressionType {
    /// Records as they are.
    pub const NONE: Self = Self(0);
    /// RFC 1952.
    pub const GZIP: Self = Self(1);
    /// Snappy in the framing of snappy-java.
    pub const SNAPPY: Self = Self(2);
    /// An LZ4 frame.
    pub const LZ4: Self = Self(3);
    /// Zstandard; since Kafka 2.1 and only in magic 2.
    pub const ZSTD: Self = Self(4);

    /// Kafka's lower-case name; `unknown(5)` and so on for a number without one.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self.0 {
            0 => "none",
            1 => "gzip",
            2 => "snappy",
            3 => "lz4",
            4 => "zstd",
            5 => "unknown(5)",
            6 => "unknown(6)",
            7 => "unknown(7)",
            _ => "unknown",
        }
    }
}

/// Whose clock a batch's timestamps come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimestampType {
    /// Magic 0 has no timestamps.
    NoTimestampType,
    /// The producer's, one a record.
    CreateTime,
    /// The broker's, one for the whole batch: maxTimestamp.
    LogAppendTime,
}

impl TimestampType {
    /// Kafka's name, as in `kafka-dump-log`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NoTimestampType => "NoTimestampType",
            Self::CreateTime => "CreateTime",
            Self::LogAppendTime => "LogAppendTime",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_attribute_bit_has_its_meaning() {
        let none = Attributes(0);
        assert_eq!(none.compression_type().name(), "none");
        assert_eq!(none.timestamp_type(), TimestampType::CreateTime);
        assert!(!none.is_transactional() && !none.is_control() && !none.has_delete_horizon());
        let codecs = [
            "none",
            "gzip",
            "snappy",
            "lz4",
            "zstd",
            "unknown(5)",
            "unknown(6)",
        ];
        for (codec, name) in (0..).zip(codecs) {
            assert_eq!(Attributes(codec).compression_type().name(), name);
        }
        assert_eq!(
            Attributes(0x08).timestamp_type(),
            TimestampType::LogAppendTime
        );
        assert!(Attributes(0x10).is_transactional());
        assert!(Attributes(0x20).is_control());
        assert!(Attributes(0x40).has_delete_horizon());
        // The high byte means nothing, and bits do not run into each other.
        let unused = Attributes(Attributes::UNUSED_MASK);
        assert_eq!(unused.compression_type(), CompressionType::NONE);
        assert_eq!(unused.timestamp_type(), TimestampType::CreateTime);
        assert!(!unused.is_transactional() && !unused.is_control());
        assert!(!unused.has_delete_horizon());
    }
}
