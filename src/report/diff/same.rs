//! Whether two entries are the same to the last byte.

use super::cursor::Head;
use crate::log::Error;
use crate::log::batches::Entry;
use crate::log::damage::Damage;

/// Bytes compared at once where they are no batch.
const PIECE: usize = 8 * 1024;

/// Whether two entries are the same to the last byte.
pub(super) fn is_same(left: Head<'_, '_>, right: Head<'_, '_>) -> Result<bool, Error> {
    match (left.entry, right.entry) {
        (Entry::Batch(l), Entry::Batch(r)) => {
            Ok(l.header.as_array() == r.header.as_array() && l.records()? == r.records()?)
        }
        (Entry::Legacy(l), Entry::Legacy(r)) => {
            Ok(l.size_in_bytes() == r.size_in_bytes() && l.bytes()? == r.bytes()?)
        }
        (Entry::Damage(l), Entry::Damage(r)) => {
            Ok(l.size_in_bytes == r.size_in_bytes && has_same_bytes(left, l, right, r)?)
        }
        _ => Ok(false),
    }
}

/// Whether two stretches of equal size hold the same bytes.
fn has_same_bytes(
    left: Head<'_, '_>,
    l: &Damage,
    right: Head<'_, '_>,
    r: &Damage,
) -> Result<bool, Error> {
    let mut buffers = [[0; PIECE], [0; PIECE]];
    let mut done = 0;
    while done < l.size_in_bytes {
        let size = usize::try_from(l.size_in_bytes - done).unwrap_or(PIECE);
        let size = size.min(PIECE);
        let [a, b] = &mut buffers;
        let (a, b) = (a.get_mut(..size), b.get_mut(..size));
        let (Some(a), Some(b)) = (a, b) else {
            return Ok(false);
        };
        left.file.read_exact_at(a, l.position + done)?;
        right.file.read_exact_at(b, r.position + done)?;
        if a != b {
            return Ok(false);
        }
        done += size as u64;
    }
    Ok(true)
}
