//! Compressed bytes to plain ones and back, in the framings of Kafka's codecs.
//!
//! Reading takes whatever Kafka's readers take and refuses what they refuse. Writing gives the
//! bytes that Kafka 4.3.1's Java clients and brokers give at the same level. Both work on slices;
//! where compressed bytes begin and end is the matter of [`crate::format::record_batch`].
//!
//! Decides `org.apache.kafka.common.compress`.

mod gzip;
mod lz4;
mod output;
mod snappy;
mod xxhash32;
mod zstd;

use std::fmt::Display;

use self::gzip::GzipDecoder;
use self::output::Output;
use self::zstd::ZstdDecoder;
use super::record_batch::{CompressionType, MAGIC_V2};
use crate::error::{DecodeError, DecodeErrorKind};

const STRUCTURE: &str = "compressed records";

/// Decompresses one batch after another, keeping what the codecs need and the space for their
/// output.
///
/// The space stays as large as the largest batch made it.
#[derive(Debug, Default)]
pub struct Decompressor {
    output: Output,
    gzip: Option<GzipDecoder>,
    zstd: Option<ZstdDecoder>,
}

impl Decompressor {
    /// A decompressor that has seen nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The plain bytes of `input`, at most `max_output` of them.
    ///
    /// `magic` is that of the batch: magic 0 allows a wrong checksum in the LZ4 descriptor, and
    /// zstd needs magic 2. Bytes without a codec are handed back as they are, whatever their
    /// number.
    ///
    /// # Errors
    /// If there are more bytes than allowed, the stream is malformed, the codec has no meaning
    /// or does not go with the magic.
    pub fn decompress<'a>(
        &'a mut self,
        compression_type: CompressionType,
        magic: i8,
        input: &'a [u8],
        max_output: usize,
    ) -> Result<&'a [u8], DecodeError> {
        self.output.reset(max_output);
        match compression_type {
            CompressionType::NONE => return Ok(input),
            CompressionType::GZIP => {
                let gzip = self.gzip.get_or_insert_with(GzipDecoder::new);
                gzip.decode(input, &mut self.output)?;
            }
            CompressionType::SNAPPY => snappy::decode(input, &mut self.output)?,
            CompressionType::LZ4 => lz4::decode(input, magic, &mut self.output)?,
            CompressionType::ZSTD if magic < MAGIC_V2 => {
                let kind = DecodeErrorKind::CodecNotAllowed {
                    codec: compression_type.name(),
                    magic,
                };
                return Err(DecodeError::new(STRUCTURE, "", 0, kind));
            }
            CompressionType::ZSTD => {
                if self.zstd.is_none() {
                    self.zstd = ZstdDecoder::new();
                }
                match &mut self.zstd {
                    Some(zstd) => zstd.decode(input, &mut self.output)?,
                    None => return Err(malformed("zstd", 0, "no memory")),
                }
            }
            CompressionType(codec) => {
                let kind = DecodeErrorKind::UnknownCodec { codec };
                return Err(DecodeError::new(STRUCTURE, "", 0, kind));
            }
        }
        Ok(self.output.filled())
    }
}

fn malformed(codec: &'static str, position: usize, reason: impl Display) -> DecodeError {
    let kind = DecodeErrorKind::Compressed {
        codec,
        reason: reason.to_string(),
    };
    DecodeError::new(STRUCTURE, "", position as u64, kind)
}

/// Why bytes could not be compressed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompressError {
    /// Numbers 5 to 7 fit the attributes and mean nothing.
    #[error("codec {0} is not known")]
    UnknownCodec(u8),
    /// The codec's setting does not go that far, or it has none.
    #[error("{codec} has no level {level}")]
    Level {
        /// Kafka's name of the codec.
        codec: &'static str,
        /// The level asked for.
        level: i32,
    },
    /// Kafka writes that codec only in newer magics.
    #[error("{codec} cannot be used in magic {magic}")]
    NotAllowed {
        /// Kafka's name of the codec.
        codec: &'static str,
        /// The magic of the batch.
        magic: i8,
    },
    /// More bytes than a batch can hold.
    #[error("too many bytes for one batch")]
    TooLarge,
    /// The codec's library failed.
    #[error("{codec} failed: {reason}")]
    Codec {
        /// Kafka's name of the codec.
        codec: &'static str,
        /// The library's words.
        reason: String,
    },
}

impl CompressError {
    fn codec(codec: &'static str, reason: impl Display) -> Self {
        Self::Codec {
            codec,
            reason: reason.to_string(),
        }
    }
}

/// Appends `input`, compressed as Kafka does for a batch of that magic, to `out`.
///
/// `level` is that of `compression.gzip.level` and so on; without one Kafka's default is taken.
/// Without a codec the bytes are appended as they are.
///
/// # Errors
/// If the codec has no meaning, the level is out of Kafka's range for it, it does not go with
/// the magic, or the library fails. What has been appended by then is of no use.
pub fn compress(
    compression_type: CompressionType,
    level: Option<i32>,
    magic: i8,
    input: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), CompressError> {
    let level = checked_level(compression_type, level)?;
    match compression_type {
        CompressionType::NONE => out.extend_from_slice(input),
        CompressionType::GZIP => gzip::encode(input, level, out)?,
        CompressionType::SNAPPY => snappy::encode(input, out),
        CompressionType::LZ4 => lz4::encode(input, level, magic, out)?,
        CompressionType::ZSTD if magic < MAGIC_V2 => {
            let codec = compression_type.name();
            return Err(CompressError::NotAllowed { codec, magic });
        }
        CompressionType::ZSTD => zstd::encode(input, level, out)?,
        CompressionType(codec) => return Err(CompressError::UnknownCodec(codec)),
    }
    Ok(())
}

/// The level, or Kafka's default, within the bounds that `CompressionType` sets; 0 for codecs
/// without levels.
fn checked_level(
    compression_type: CompressionType,
    level: Option<i32>,
) -> Result<i32, CompressError> {
    let (default, range) = match compression_type {
        CompressionType::GZIP => (-1, Some(1..=9)),
        CompressionType::LZ4 => (lz4::DEFAULT_LEVEL, Some(1..=17)),
        CompressionType::ZSTD => (3, Some(-131_072..=22)),
        _ => (0, None),
    };
    let fits = |level| range.is_some_and(|range| level == default || range.contains(&level));
    match level {
        None => Ok(default),
        Some(level) if fits(level) => Ok(level),
        Some(level) => Err(CompressError::Level {
            codec: compression_type.name(),
            level,
        }),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CODECS: [CompressionType; 4] = [
        CompressionType::GZIP,
        CompressionType::SNAPPY,
        CompressionType::LZ4,
        CompressionType::ZSTD,
    ];

    fn compressed(codec: CompressionType, input: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        compress(codec, None, 2, input, &mut out).unwrap();
        out
    }

    #[test]
    fn limit_is_exact_and_output_is_not_allocated_beyond_it() {
        let plain = vec![b'x'; 3_000_000];
        for codec in CODECS {
            let stream = compressed(codec, &plain);
            let mut decompressor = Decompressor::new();
            for limit in [0, 1, 70_000, plain.len() - 1] {
                let error = decompressor
                    .decompress(codec, 2, &stream, limit)
                    .unwrap_err();
                let kind = DecodeErrorKind::OverLimit {
                    limit: limit as u64,
                };
                assert_eq!(error.kind, kind, "{codec:?}");
                assert!(decompressor.output.capacity() <= 2 * limit + 200_000);
            }
            let read = decompressor.decompress(codec, 2, &stream, plain.len());
            assert_eq!(read.unwrap(), plain, "{codec:?}");
        }
    }

    #[test]
    fn unknown_codecs_and_old_magics_are_refused() {
        let mut decompressor = Decompressor::new();
        for codec in 5..=7 {
            let error = decompressor.decompress(CompressionType(codec), 2, b"x", 9);
            let kind = DecodeErrorKind::UnknownCodec { codec };
            assert_eq!(error.unwrap_err().kind, kind);
            let error = compress(CompressionType(codec), None, 2, b"x", &mut Vec::new());
            assert_eq!(error, Err(CompressError::UnknownCodec(codec)));
        }
        let stream = compressed(CompressionType::ZSTD, b"x");
        let error = decompressor.decompress(CompressionType::ZSTD, 1, &stream, 9);
        let error = error.unwrap_err().to_string();
        assert_eq!(
            error,
            "compressed records codec zstd is not allowed in magic 1 (at position 0)"
        );
        assert!(compress(CompressionType::ZSTD, None, 1, b"x", &mut Vec::new()).is_err());
    }

    #[test]
    fn levels_have_the_bounds_of_kafka() {
        let fits = |codec, level| compress(codec, Some(level), 2, b"x", &mut Vec::new()).is_ok();
        for (codec, good, bad) in [
            (CompressionType::GZIP, [-1, 1, 9], [-2, 0, 10]),
            (CompressionType::LZ4, [1, 9, 17], [-1, 0, 18]),
            (CompressionType::ZSTD, [-131_072, 0, 19], [-131_073, 23, 99]),
        ] {
            assert!(good.iter().all(|&level| fits(codec, level)), "{codec:?}");
            assert!(!bad.iter().any(|&level| fits(codec, level)), "{codec:?}");
        }
        assert!(!fits(CompressionType::SNAPPY, 0));
    }

    #[test]
    fn magic_0_takes_the_wrong_descriptor_checksum_of_lz4() {
        let mut stream = Vec::new();
        compress(CompressionType::LZ4, None, 0, b"old", &mut stream).unwrap();
        assert_eq!(stream[6], 0x1a);
        let mut decompressor = Decompressor::new();
        let mut read = |magic| {
            let read = decompressor.decompress(CompressionType::LZ4, magic, &stream, 9);
            read.map(<[u8]>::to_vec)
        };
        assert_eq!(read(0).unwrap(), b"old");
        assert!(read(1).unwrap_err().to_string().contains("descriptor"));
    }

    proptest! {
        #[test]
        fn round_trip(input: Vec<u8>, repeat in 1..200usize) {
            let input = input.repeat(repeat);
            let mut decompressor = Decompressor::new();
            for codec in CODECS {
                let stream = compressed(codec, &input);
                let plain = decompressor.decompress(codec, 2, &stream, input.len());
                prop_assert_eq!(plain.unwrap(), &input[..]);
            }
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>, codec in 0..8u8, magic in 0..3i8) {
            let limit = 1000;
            let codec = CompressionType(codec);
            let mut decompressor = Decompressor::new();
            if let Ok(plain) = decompressor.decompress(codec, magic, &bytes, limit) {
                prop_assert!(codec == CompressionType::NONE || plain.len() <= limit);
            }
        }

        #[test]
        fn damaged_streams_never_panic(
            input: Vec<u8>,
            codec in 1..5u8,
            at: prop::sample::Index,
            bits in 1..=255u8,
        ) {
            let codec = CompressionType(codec);
            let mut stream = compressed(codec, &input.repeat(9));
            *at.get_mut(&mut stream) ^= bits;
            let mut decompressor = Decompressor::new();
            if let Ok(plain) = decompressor.decompress(codec, 2, &stream, 1000) {
                prop_assert!(plain.len() <= 1000);
            }
        }
    }
}
