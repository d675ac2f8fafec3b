//! The library's walks, the ones that are being measured.

use kseg::format::record_batch::RecordBatchHeader;

/// Follows the lengths through the library's header type and looks at every field of a header.
/// Returns the batches.
pub(crate) fn headers(bytes: &[u8]) -> u64 {
    let mut rest = bytes;
    let mut batches = 0;
    while let Ok(header) = RecordBatchHeader::ref_from(rest) {
        std::hint::black_box(header.fields());
        let Ok(size) = usize::try_from(header.size_in_bytes()) else {
            break;
        };
        rest = rest.get(size..).unwrap_or_default();
        batches += 1;
    }
    batches
}
