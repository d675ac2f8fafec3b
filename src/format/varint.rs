//! Variable-length integers: seven bits a byte, low group first. Those of records are zigzag,
//! those of flexible messages unsigned.
//!
//! Decides `org.apache.kafka.common.utils.ByteUtils`.

/// A varint (at most 5 bytes) at the beginning of `bytes`, and how many bytes it takes.
///
/// `None` if the bytes end inside it or it is longer than 5 bytes.
#[must_use]
pub fn read_varint(bytes: &[u8]) -> Option<(i32, usize)> {
    with_size(bytes, take_varint)
}

/// A varlong (at most 10 bytes) at the beginning of `bytes`, and how many bytes it takes.
///
/// `None` if the bytes end inside it or it is longer than 10 bytes.
#[must_use]
pub fn read_varlong(bytes: &[u8]) -> Option<(i64, usize)> {
    with_size(bytes, take_varlong)
}

/// An unsigned varint (at most 5 bytes, no zigzag) at the beginning of `bytes`, and how many bytes
/// it takes.
///
/// `None` if the bytes end inside it or it is longer than 5 bytes.
#[must_use]
pub fn read_uvarint(bytes: &[u8]) -> Option<(u32, usize)> {
    with_size(bytes, |rest| take_unsigned(rest, 5).map(low_bits))
}

fn with_size<'a, T>(
    bytes: &'a [u8],
    take: impl Fn(&mut &'a [u8]) -> Option<T>,
) -> Option<(T, usize)> {
    let mut rest = bytes;
    let value = take(&mut rest)?;
    Some((value, bytes.len() - rest.len()))
}

/// As [`read_varint`], and leaves in `rest` what is behind it. Without one `rest` is unchanged.
#[inline]
pub(super) fn take_varint(rest: &mut &[u8]) -> Option<i32> {
    let raw = low_bits(take_unsigned(rest, 5)?);
    Some((raw >> 1).cast_signed() ^ -(raw & 1).cast_signed())
}

/// As [`read_varlong`], and leaves in `rest` what is behind it. Without one `rest` is unchanged.
#[inline]
pub(super) fn take_varlong(rest: &mut &[u8]) -> Option<i64> {
    let raw = take_unsigned(rest, 10)?;
    Some((raw >> 1).cast_signed() ^ -(raw & 1).cast_signed())
}

/// Bits above the 32nd are dropped, as Java's int arithmetic does.
#[expect(clippy::cast_possible_truncation, reason = "Java drops the same bits")]
fn low_bits(raw: u64) -> u32 {
    raw as u32
}

/// Most take one byte, and most others two. Two are never too many.
#[inline]
fn take_unsigned(rest: &mut &[u8], max_size: usize) -> Option<u64> {
    match *rest {
        [first, behind @ ..] if first & 0x80 == 0 => {
            *rest = behind;
            Some(u64::from(*first))
        }
        [first, second, behind @ ..] if second & 0x80 == 0 => {
            *rest = behind;
            Some(u64::from(first & 0x7f) | (u64::from(*second) << 7))
        }
        _ => {
            let (value, size) = read_long_unsigned(rest, max_size)?;
            *rest = rest.get(size..).unwrap_or_default();
            Some(value)
        }
    }
}

/// Apart, so that reading the short ones stays small wherever it is inlined.
#[inline(never)]
fn read_long_unsigned(bytes: &[u8], max_size: usize) -> Option<(u64, usize)> {
    let mut value = 0u64;
    for (index, byte) in bytes.iter().take(max_size).enumerate() {
        // At most 63: ten bytes of seven bits. The shift drops what does not fit, as Java does.
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Some((value, index + 1));
        }
    }
    None
}

/// Appends `value` as a varint.
pub fn write_varint(value: i32, out: &mut Vec<u8>) {
    write_unsigned(
        u64::from(((value << 1) ^ (value >> 31)).cast_unsigned()),
        out,
    );
}

/// Appends `value` as a varlong.
pub fn write_varlong(value: i64, out: &mut Vec<u8>) {
    write_unsigned(((value << 1) ^ (value >> 63)).cast_unsigned(), out);
}

/// Appends `value` as an unsigned varint.
pub fn write_uvarint(value: u32, out: &mut Vec<u8>) {
    write_unsigned(u64::from(value), out);
}

/// Appends `value` seven bits a byte, without zigzag.
pub(super) fn write_unsigned(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    #[expect(clippy::cast_possible_truncation, reason = "below 0x80")]
    out.push(value as u8);
}

/// Bytes that `value` takes as a varint.
#[must_use]
pub fn size_of_varint(value: i32) -> usize {
    size_of_unsigned(u64::from(((value << 1) ^ (value >> 31)).cast_unsigned()))
}

/// Bytes that `value` takes as a varlong.
#[must_use]
pub fn size_of_varlong(value: i64) -> usize {
    size_of_unsigned(((value << 1) ^ (value >> 63)).cast_unsigned())
}

fn size_of_unsigned(value: u64) -> usize {
    // Zero takes a byte, too.
    (value | 1).ilog2() as usize / 7 + 1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn kafka_encodings() {
        // From ByteUtilsTest: value and the bytes Java writes.
        let cases: [(i32, &[u8]); 7] = [
            (0, &[0]),
            (-1, &[1]),
            (1, &[2]),
            (63, &[0x7e]),
            (-64, &[0x7f]),
            (64, &[0x80, 0x01]),
            (i32::MAX, &[0xfe, 0xff, 0xff, 0xff, 0x0f]),
        ];
        for (value, bytes) in cases {
            let mut out = Vec::new();
            write_varint(value, &mut out);
            assert_eq!(out, bytes);
            assert_eq!(read_varint(bytes), Some((value, bytes.len())));
        }
    }

    #[test]
    fn more_bytes_than_needed_are_read_as_java_reads_them() {
        assert_eq!(read_varint(&[0x80, 0x00]), Some((0, 2)));
        assert_eq!(read_varint(&[0xfe, 0x80, 0x00]), Some((63, 3)));
        assert_eq!(read_varlong(&[0x81, 0x00, 0x7f]), Some((-1, 2)));
    }

    #[test]
    fn overlong_and_cut_are_refused() {
        assert_eq!(read_varint(&[0x80; 5]), None);
        assert_eq!(read_varint(&[0x80, 0x80]), None);
        assert_eq!(read_varlong(&[0x80; 10]), None);
        assert_eq!(read_varint(&[]), None);
    }

    proptest! {
        #[test]
        fn varint_round_trip(value: i32) {
            let mut out = Vec::new();
            write_varint(value, &mut out);
            prop_assert_eq!(read_varint(&out), Some((value, out.len())));
            prop_assert_eq!(size_of_varint(value), out.len());
        }

        #[test]
        fn varlong_round_trip(value: i64) {
            let mut out = Vec::new();
            write_varlong(value, &mut out);
            prop_assert_eq!(read_varlong(&out), Some((value, out.len())));
            prop_assert_eq!(size_of_varlong(value), out.len());
        }

        #[test]
        fn uvarint_round_trip(value: u32) {
            let mut out = Vec::new();
            write_uvarint(value, &mut out);
            prop_assert_eq!(read_uvarint(&out), Some((value, out.len())));
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            let _ = read_uvarint(&bytes);
            let _ = read_varint(&bytes);
            let _ = read_varlong(&bytes);
        }
    }
}
