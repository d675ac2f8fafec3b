//! XXH32 with seed 0: the checksum of LZ4 frames.
//!
//! Written from the published specification of xxHash. Decides
//! `net.jpountz.xxhash.XXHash32`.
#![expect(
    clippy::little_endian_bytes,
    reason = "xxHash reads its input little-endian"
)]

// The five primes of the specification.
const PRIME_1: u32 = 0x9e37_79b1;
const PRIME_2: u32 = 0x85eb_ca77;
const PRIME_3: u32 = 0xc2b2_ae3d;
const PRIME_4: u32 = 0x27d4_eb2f;
const PRIME_5: u32 = 0x1656_67b1;

/// The hash of `bytes`.
pub(super) fn xxhash32(bytes: &[u8]) -> u32 {
    let (stripes, tail) = bytes.as_chunks::<16>();
    let mut hash = if stripes.is_empty() {
        PRIME_5
    } else {
        let mut lanes = [
            PRIME_1.wrapping_add(PRIME_2),
            PRIME_2,
            0,
            0u32.wrapping_sub(PRIME_1),
        ];
        for stripe in stripes {
            let (words, _) = stripe.as_chunks::<4>();
            for (lane, word) in lanes.iter_mut().zip(words) {
                *lane = lane
                    .wrapping_add(u32::from_le_bytes(*word).wrapping_mul(PRIME_2))
                    .rotate_left(13)
                    .wrapping_mul(PRIME_1);
            }
        }
        lanes
            .iter()
            .zip([1, 7, 12, 18])
            .fold(0u32, |sum, (lane, bits)| {
                sum.wrapping_add(lane.rotate_left(bits))
            })
    };
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the specification takes the length modulo 2^32"
    )]
    let length = bytes.len() as u32;
    hash = hash.wrapping_add(length);
    let (words, rest) = tail.as_chunks::<4>();
    for word in words {
        hash = hash
            .wrapping_add(u32::from_le_bytes(*word).wrapping_mul(PRIME_3))
            .rotate_left(17)
            .wrapping_mul(PRIME_4);
    }
    for &byte in rest {
        hash = hash
            .wrapping_add(u32::from(byte).wrapping_mul(PRIME_5))
            .rotate_left(11)
            .wrapping_mul(PRIME_1);
    }
    hash = (hash ^ (hash >> 15)).wrapping_mul(PRIME_2);
    hash = (hash ^ (hash >> 13)).wrapping_mul(PRIME_3);
    hash ^ (hash >> 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lz4_frame_header_byte() {
        // FLG 0x60 and BD 0x40: Kafka writes 0x82, the second byte of the hash. Over the four
        // magic bytes as well, as for magic 0, it is 0x1a.
        assert_eq!(xxhash32(&[0x60, 0x40]) >> 8 & 0xff, 0x82);
        let with_magic = [0x04, 0x22, 0x4d, 0x18, 0x60, 0x40];
        assert_eq!(xxhash32(&with_magic) >> 8 & 0xff, 0x1a);
    }

    #[test]
    fn published_vectors() {
        assert_eq!(xxhash32(b""), 0x02cc_5d05);
        assert_eq!(xxhash32(b"a"), 0x550d_7456);
        assert_eq!(xxhash32(b"abc"), 0x32d1_53ff);
        assert_eq!(
            xxhash32(b"Nobody inspects the spammish repetition"),
            0xe229_3b2f
        );
    }
}
