//! Base64 with the standard alphabet and padding (RFC 4648, section 4): how bytes stand in JSON.
//!
//! Ids of topics and directories are written with another alphabet and without padding.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The text of `bytes`.
#[must_use]
pub fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let mut bits = 0u32;
        for index in 0..3 {
            bits = bits << 8 | u32::from(group.get(index).copied().unwrap_or(0));
        }
        // n bytes fill n + 1 letters; the rest of the four is padding.
        for (index, shift) in [18, 12, 6, 0].into_iter().enumerate() {
            text.push(if index <= group.len() {
                letter(bits >> shift)
            } else {
                '='
            });
        }
    }
    text
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

fn letter(bits: u32) -> char {
    let index = (bits & 0x3f) as usize;
    ALPHABET.get(index).map_or('A', |byte| char::from(*byte))
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
        fn round_trip(bytes: Vec<u8>) {
            prop_assert_eq!(decode(&encode(&bytes)), Some(bytes));
        }

        #[test]
        fn arbitrary_text_never_panics(text: String) {
            let _ = decode(&text);
        }
    }
}
