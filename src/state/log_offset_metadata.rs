//! An offset and, where known, its place in the log.

/// An offset with the segment and position it was found at (`LogOffsetMetadata`).
///
/// Whether the place is known matters: an offset without it is looked up in the log before it is
/// used as high watermark or first unstable offset, and the lookup answers with the base offset of
/// the batch it finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogOffsetMetadata {
    /// The offset.
    pub message_offset: i64,
    /// Base offset of its segment, -1 if not known.
    pub segment_base_offset: i64,
    /// Position of its batch in that segment's `.log`, -1 if not known.
    pub relative_position_in_segment: i32,
}

impl LogOffsetMetadata {
    /// An offset whose place is not known.
    #[must_use]
    pub fn offset_only(message_offset: i64) -> Self {
        Self {
            message_offset,
            segment_base_offset: -1,
            relative_position_in_segment: -1,
        }
    }

    /// Whether the place is not known (`LogOffsetMetadata.messageOffsetOnly`).
    #[must_use]
    pub fn message_offset_only(&self) -> bool {
        self.segment_base_offset == -1 && self.relative_position_in_segment == -1
    }

    /// Whether both places are known and this one is in an earlier segment
    /// (`LogOffsetMetadata.onOlderSegment`).
    #[must_use]
    pub fn on_older_segment(&self, that: &Self) -> bool {
        !self.message_offset_only()
            && !that.message_offset_only()
            && self.segment_base_offset < that.segment_base_offset
    }
}
