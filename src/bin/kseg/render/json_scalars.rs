//! Text, names and numbers as JSON has them, appended with few instructions.
//!
//! Most of the time of a listing goes into these. What is written is what `serde_json` writes.

/// Letters of the longest name that is written as one piece of constant bytes.
const NAME_MAX: usize = 32;

/// `"name":` of a field or variant, after a comma if there was one before it. Names are words of
/// this program, which need no escaping.
#[expect(
    clippy::inline_always,
    reason = "the name is a constant only where this is inlined, and then one store or two"
)]
#[inline(always)]
pub(super) fn write_name(out: &mut Vec<u8>, is_first: bool, name: &'static str) {
    let mut piece = [b'"'; NAME_MAX + 4];
    let [comma, _, rest @ ..] = &mut piece;
    *comma = b',';
    if let Some((letters, [_, colon, ..])) = rest.split_at_mut_checked(name.len()) {
        letters.copy_from_slice(name.as_bytes());
        *colon = b':';
    }
    match piece.get(usize::from(is_first)..name.len() + 4) {
        Some(piece) => out.extend_from_slice(piece),
        None => write_long_name(out, is_first, name),
    }
}

#[cold]
fn write_long_name(out: &mut Vec<u8>, is_first: bool, name: &'static str) {
    out.extend_from_slice(if is_first { b"\"" } else { b",\"" });
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
}

/// A string with its quotes.
#[inline]
pub(super) fn write_text(out: &mut Vec<u8>, text: &str) {
    out.reserve(text.len() + 2);
    out.push(b'"');
    write_letters(out, text);
    out.push(b'"');
}

/// A string, or a piece of one, without quotes.
#[inline]
pub(super) fn write_letters(out: &mut Vec<u8>, text: &str) {
    if is_plain(text.as_bytes()) {
        out.extend_from_slice(text.as_bytes());
    } else {
        write_escaped(out, text.as_bytes());
    }
}

/// Whether nothing in a text has to be escaped; now and then false although nothing has to be.
/// Looks at 32 bytes at once, and at eight where there are fewer.
#[inline]
fn is_plain(text: &[u8]) -> bool {
    let (blocks, rest) = text.as_chunks::<32>();
    for block in blocks {
        let found = block
            .iter()
            .fold(false, |any, byte| any | is_escaped(*byte));
        if found {
            return false;
        }
    }
    let (words, few) = rest.as_chunks::<8>();
    let mut found = 0;
    for word in words {
        found |= escaped_in(u64::from_be_bytes(*word));
    }
    match text.last_chunk::<8>() {
        Some(last) => found |= escaped_in(u64::from_be_bytes(*last)),
        None => return !few.iter().any(|byte| is_escaped(*byte)),
    }
    found == 0
}

fn is_escaped(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// Not 0 if one of eight bytes is a control character, a quote or a backslash. The high bit of
/// the lowest such byte is set, and none below it.
#[inline]
fn escaped_in(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let below = |word: u64, limit: u8| word.wrapping_sub(ONES * u64::from(limit)) & !word;
    let equal = |byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
    (below(word, 0x20) | equal(b'"') | equal(b'\\')) & HIGH
}

/// Copies eight bytes at a time up to what has to be escaped.
fn write_escaped(out: &mut Vec<u8>, mut text: &[u8]) {
    while let Some((word, behind)) = text.split_first_chunk::<8>() {
        out.extend_from_slice(word);
        // The first byte lowest.
        let found = escaped_in(u64::from_be_bytes(*word).swap_bytes());
        if found == 0 {
            text = behind;
            continue;
        }
        let plain = found.trailing_zeros() as usize / 8;
        out.truncate(out.len() - (8 - plain));
        let Some((byte, behind)) = text.get(plain..).and_then(<[u8]>::split_first) else {
            return;
        };
        write_escape(out, *byte);
        text = behind;
    }
    for byte in text {
        if is_escaped(*byte) {
            write_escape(out, *byte);
        } else {
            out.push(*byte);
        }
    }
}

fn write_escape(out: &mut Vec<u8>, byte: u8) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let short = match byte {
        b'"' | b'\\' => byte,
        0x08 => b'b',
        0x0c => b'f',
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        _ => {
            let digit = |digit: u8| DIGITS.get(usize::from(digit)).copied().unwrap_or(b'0');
            let digits = [digit(byte >> 4), digit(byte & 15)];
            out.extend_from_slice(b"\\u00");
            return out.extend_from_slice(&digits);
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

/// A number.
#[inline]
pub(super) fn write_integer(out: &mut Vec<u8>, value: i64) {
    if value < 0 {
        out.push(b'-');
    }
    write_unsigned(out, value.unsigned_abs());
}

/// A number that is not below 0. Digits go where they belong at once; `itoa` makes them in a place
/// of its own, whose copying has to wait for them.
#[inline]
pub(super) fn write_unsigned(out: &mut Vec<u8>, value: u64) {
    match u8::try_from(value) {
        Ok(digit) if digit < 10 => out.push(b'0' + digit),
        Ok(_) | Err(_) => write_digits(out, value),
    }
}

const EIGHT_DIGITS: u64 = 100_000_000;
/// Eight times `0`.
const ZEROS: u64 = 0x3030_3030_3030_3030;

fn write_digits(out: &mut Vec<u8>, value: u64) {
    let (first, last) = (value / EIGHT_DIGITS, value % EIGHT_DIGITS);
    if first == 0 {
        write_up_to_eight(out, last);
    } else if first < EIGHT_DIGITS {
        write_up_to_eight(out, first);
        out.extend_from_slice(&(eight_digits(last) + ZEROS).to_be_bytes());
    } else {
        out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
    }
}

/// A number from 1 to 99999999.
#[inline]
fn write_up_to_eight(out: &mut Vec<u8>, value: u64) {
    let digits = eight_digits(value);
    let zeros = digits.leading_zeros() / 8;
    let digits = digits.unbounded_shl(zeros * 8) + ZEROS;
    out.extend_from_slice(&digits.to_be_bytes());
    out.truncate(out.len() - zeros as usize);
}

/// The digits of a number below 100000000, the first in the highest byte: halves, then halves of
/// those, all at once in one word.
#[inline]
fn eight_digits(value: u64) -> u64 {
    let fours = ((value / 10_000) << 32) | (value % 10_000);
    // x / 100 for x below 10000, and x / 10 for x below 100.
    let hundreds = ((fours * 10_486) >> 20) & 0x7f_0000_007f;
    let twos = (hundreds << 16) | (fours - hundreds * 100);
    let tens = ((twos * 103) >> 10) & 0x000f_000f_000f_000f;
    (tens << 8) | (twos - tens * 10)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = b"before".to_vec();
        write(&mut out);
        String::from_utf8(out.split_off(6)).unwrap()
    }

    #[test]
    fn every_number_of_four_digits_is_right_in_both_halves() {
        for number in 0..10_000u64 {
            for value in [number, number * 10_000, number * 100_010_001] {
                assert_eq!(written(|out| write_unsigned(out, value)), value.to_string());
            }
        }
    }

    #[test]
    fn numbers_on_both_sides_of_each_power_of_ten() {
        let powers = (0..20).map(|power| 10u64.pow(power));
        for value in powers
            .flat_map(|power| [power - 1, power])
            .chain([u64::MAX])
        {
            assert_eq!(written(|out| write_unsigned(out, value)), value.to_string());
        }
        for value in [i64::MIN, i64::MAX, -1, -10, 0] {
            assert_eq!(written(|out| write_integer(out, value)), value.to_string());
        }
    }

    #[test]
    fn names_of_any_length() {
        let long = "aNameThatIsTooLongToBeWrittenAsOnePieceOfBytes";
        for name in ["a", "aNameThatHasTwoAndThirtyLetters1", long] {
            let quoted = format!("\"{name}\":");
            assert_eq!(written(|out| write_name(out, true, name)), quoted);
            let behind = format!(",{quoted}");
            assert_eq!(written(|out| write_name(out, false, name)), behind);
        }
    }

    #[test]
    fn one_byte_to_escape_at_every_place() {
        for byte in (0..0x20).chain([b'"', b'\\', 0x7f]) {
            for size in 1..80 {
                for place in 0..size {
                    let mut text = vec![b'~'; size];
                    text[place] = byte;
                    let text = String::from_utf8(text).unwrap();
                    let expected = serde_json::to_string(&text).unwrap();
                    assert_eq!(written(|out| write_text(out, &text)), expected);
                }
            }
        }
    }

    proptest! {
        #[test]
        fn any_number_is_right(value: i64) {
            prop_assert_eq!(written(|out| write_integer(out, value)), value.to_string());
        }

        #[test]
        fn any_text_is_as_serde_json_writes_it(text: String, bytes: Vec<u8>) {
            for text in [text, String::from_utf8_lossy(&bytes).into_owned()] {
                let expected = serde_json::to_string(&text).unwrap();
                prop_assert_eq!(written(|out| write_text(out, &text)), expected);
            }
        }
    }
}
