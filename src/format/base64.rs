//! Base64 with the standard alphabet and padding (RFC 4648, section 4): how bytes stand in JSON.
//!
//! Ids of topics and directories are written with another alphabet and without padding.

use std::fmt;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The letters of every twelve bits.
static PAIRS: [[u8; 2]; 4096] = pairs();

#[expect(
    clippy::indexing_slicing,
    reason = "in a constant, where going out of bounds does not compile"
)]
const fn pairs() -> [[u8; 2]; 4096] {
    let mut pairs = [[0; 2]; 4096];
    let mut bits = 0;
    while bits < pairs.len() {
        pairs[bits] = [ALPHABET[bits >> 6], ALPHABET[bits & 0x3f]];
        bits += 1;
    }
    pairs
}

/// Bytes encoded at once: a multiple of 3, so that the pieces need no padding.
const PIECE: usize = 192;

/// The text of `bytes`.
#[must_use]
pub fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3).saturating_mul(4));
    // Writing to a string does not fail.
    let _ = write(bytes, &mut text);
    text
}

/// Writes the text of `bytes`.
///
/// # Errors
/// If `out` takes no more.
pub fn write(bytes: &[u8], out: &mut impl fmt::Write) -> fmt::Result {
    let mut text = [0; PIECE / 3 * 4];
    for piece in bytes.chunks(PIECE) {
        let (groups, rest) = piece.as_chunks::<3>();
        let (fours, _) = text.as_chunks_mut::<4>();
        let mut fours = fours.iter_mut();
        for (group, four) in groups.iter().zip(&mut fours) {
            *four = letters(*group);
        }
        // n bytes fill n + 1 letters; the rest of the four is padding.
        let last = match *rest {
            [] => None,
            [a, ..] => Some(letters([a, rest.get(1).copied().unwrap_or(0), 0])),
        };
        if let (Some([a, b, c, _]), Some(four)) = (last, fours.next()) {
            *four = [a, b, if rest.len() == 2 { c } else { b'=' }, b'='];
        }
        let letters = text.get(..piece.len().div_ceil(3) * 4).unwrap_or_default();
        out.write_str(std::str::from_utf8(letters).map_err(|_| fmt::Error)?)?;
    }
    Ok(())
}

fn letters([a, b, c]: [u8; 3]) -> [u8; 4] {
    let bits = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
    let pair = |bits: usize| PAIRS.get(bits & 0xfff).copied().unwrap_or_default();
    let ([a, b], [c, d]) = (pair(bits >> 12), pair(bits));
    [a, b, c, d]
}

/// The bytes of `text`; `None` if it is not whole groups of four letters, the last one padded.
#[must_use]
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let letters = text.as_bytes();
    if !letters.len().is_multiple_of(4) {
        return None;
    }
    let unpadded = match letters {
        [front @ .., b'=', b'='] | [front @ .., b'='] => front,
        all => all,
    };
    let mut bytes = Vec::with_capacity(unpadded.len() / 4 * 3 + 2);
    for group in unpadded.chunks(4) {
        let mut bits = 0u32;
        for index in 0..4 {
            let value = group.get(index).map_or(Some(0), |byte| value(*byte))?;
            bits = bits << 6 | u32::from(value);
        }
        let [_, a, b, c] = bits.to_be_bytes();
        let size = group.len() - 1;
        bytes.extend([a, b, c].into_iter().take(size));
    }
    Some(bytes)
}

fn value(letter: u8) -> Option<u8> {
    match letter {
        b'A'..=b'Z' => Some(letter - b'A'),
        b'a'..=b'z' => Some(letter - b'a' + 26),
        b'0'..=b'9' => Some(letter - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn vectors_of_the_rfc() {
        let cases: [(&[u8], &str); 7] = [
            (b"", ""),
            (b"f", "Zg=="),
            (b"fo", "Zm8="),
            (b"foo", "Zm9v"),
            (b"foob", "Zm9vYg=="),
            (b"fooba", "Zm9vYmE="),
            (&[0xfb, 0xff], "+/8="),
        ];
        for (bytes, text) in cases {
            assert_eq!(encode(bytes), text);
            assert_eq!(decode(text).as_deref(), Some(bytes));
        }
    }

    #[test]
    fn other_text_is_refused() {
        for text in [
            "Zg", "Zg=", "Z===", "====", "Zg==Zg==", "Zm9_", "Zm9v\n", "\u{e9}aa",
        ] {
            assert_eq!(decode(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn round_trip(bytes in proptest::collection::vec(any::<u8>(), 0..1000)) {
            prop_assert_eq!(decode(&encode(&bytes)), Some(bytes));
        }

        #[test]
        fn arbitrary_text_never_panics(text: String) {
            let _ = decode(&text);
        }
    }
}
