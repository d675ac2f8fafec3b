//! Zstandard frames.
//!
//! Java's stream writes one frame without content size or checksum. It flushes before it ends,
//! so an empty last block follows the data. Readers take any number of frames.
//!
//! Decides `ZstdCompression` with zstd-jni, which brings zstd 1.5.6.

use zstd::zstd_safe::{
    CCtx, CParameter, DCtx, InBuffer, OutBuffer, ResetDirective, get_error_name,
    zstd_sys::ZSTD_EndDirective,
};

use super::output::Output;
use super::{CompressError, malformed};
use crate::error::DecodeError;

const CODEC: &str = "zstd";
/// Space offered at a time while compressing: what zstd itself advises, 128 KiB and a bit.
const STEP: usize = 132 * 1024;
/// What zstd-jni writes if nothing was written to it, whatever the level: a frame that knows
/// its content size, 0.
const EMPTY_FRAME: [u8; 9] = [0x28, 0xb5, 0x2f, 0xfd, 0x20, 0, 1, 0, 0];
/// Compressed bytes zstd-jni takes from its stream at a time (`ZSTD_DStreamInSize`).
const JAVA_CHUNK_SIZE: usize = 128 * 1024 + 3;

/// Decompresses; keeps its window and tables between streams.
pub(super) struct ZstdDecoder {
    context: DCtx<'static>,
}

impl std::fmt::Debug for ZstdDecoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ZstdDecoder").finish_non_exhaustive()
    }
}

impl ZstdDecoder {
    /// A decoder for any number of streams; `None` if there is no memory for it.
    ///
    /// Windows of up to 128 MiB are accepted, zstd's default and Kafka's.
    pub(super) fn new() -> Option<Self> {
        let context = DCtx::try_create()?;
        Some(Self { context })
    }

    /// Appends what the frames of `input` hold.
    pub(super) fn decode(&mut self, input: &[u8], output: &mut Output) -> Result<(), DecodeError> {
        self.context
            .reset(ResetDirective::SessionOnly)
            .map_err(|code| malformed(CODEC, 0, get_error_name(code)))?;
        let mut source = InBuffer::around(input);
        let mut inside_frame = false;
        let mut frame_end = 0;
        while inside_frame || source.pos() < input.len() {
            let before = source.pos();
            let space = output.space(1);
            let offered = space.len();
            let mut target = OutBuffer::around(space);
            let hint = self
                .context
                .decompress_stream(&mut target, &mut source)
                .map_err(|code| malformed(CODEC, before, get_error_name(code)))?;
            let written = target.pos();
            output.advance(written)?;
            inside_frame = hint != 0;
            if !inside_frame {
                frame_end = source.pos();
            } else if source.pos() == input.len() && written < offered {
                return cut_frame(input.len(), frame_end);
            }
        }
        Ok(())
    }
}

/// What becomes of a stream of `size` bytes that ends inside a frame, the frame before it having
/// ended at `frame_end`.
///
/// zstd-jni forgets that a frame has ended only when it takes the next chunk of its stream. A
/// further frame that is cut in the same chunk therefore passes for the end of the stream, with
/// the bytes it has given so far (`ZstdInputStreamNoFinalizer.readInternal`).
fn cut_frame(size: usize, frame_end: usize) -> Result<(), DecodeError> {
    let last_chunk = size.saturating_sub(1) / JAVA_CHUNK_SIZE * JAVA_CHUNK_SIZE;
    if frame_end > last_chunk {
        Ok(())
    } else {
        Err(malformed(CODEC, size, "stream ends early"))
    }
}

/// Appends `input` as one frame, byte for byte as zstd-jni does at that level.
pub(super) fn encode(input: &[u8], level: i32, out: &mut Vec<u8>) -> Result<(), CompressError> {
    if input.is_empty() {
        out.extend_from_slice(&EMPTY_FRAME);
        return Ok(());
    }
    let mut context = CCtx::try_create().ok_or_else(|| CompressError::codec(CODEC, "no memory"))?;
    context
        .set_parameter(CParameter::CompressionLevel(level))
        .map_err(|code| CompressError::codec(CODEC, get_error_name(code)))?;
    let mut source = InBuffer::around(input);
    // Write, flush, end: the three things Java's stream does.
    for directive in [
        ZSTD_EndDirective::ZSTD_e_continue,
        ZSTD_EndDirective::ZSTD_e_flush,
        ZSTD_EndDirective::ZSTD_e_end,
    ] {
        loop {
            out.reserve(STEP);
            let start = out.len();
            let mut target = OutBuffer::around_pos(out, start);
            let left = context
                .compress_stream2(&mut target, &mut source, directive)
                .map_err(|code| CompressError::codec(CODEC, get_error_name(code)))?;
            let done = match directive {
                ZSTD_EndDirective::ZSTD_e_continue => source.pos() == input.len(),
                ZSTD_EndDirective::ZSTD_e_flush | ZSTD_EndDirective::ZSTD_e_end => left == 0,
            };
            if done {
                break;
            }
        }
    }
    Ok(())
}
