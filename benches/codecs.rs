//! Decompression beside the bare library on the same stream: megabytes a second, and the ratio.
//!
//! `cargo bench --bench codecs`.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a measurement ends where something is not as it should be"
)]

#[path = "../tests/common/payloads.rs"]
mod payloads;

use kseg::format::compression::{Decompressor, compress};
use kseg::format::record_batch::CompressionType;

fn main() {
    for (size, rounds) in [(16_000, 2000), (1_100_000, 40)] {
        let payload = payloads::make("rows", 3, size);
        for codec in (1..=4).map(CompressionType) {
            let mut stream = Vec::new();
            compress(codec, None, 2, &payload, &mut stream).unwrap();
            let mut decompressor = Decompressor::new();
            let ours = best(rounds, || {
                let plain = decompressor.decompress(codec, 2, &stream, 1 << 30).unwrap();
                assert_eq!(plain.len(), size);
            });
            let mut bare_decoder = bare(codec, &stream, size);
            let bare = best(rounds, &mut bare_decoder);
            #[allow(clippy::cast_precision_loss, reason = "megabytes")]
            let speed = |seconds: f64| size as f64 / seconds / 1e6;
            println!(
                "{size} {}: {:.0} MB/s, library alone {:.0} MB/s, {:.2} times the time",
                codec.name(),
                speed(ours),
                speed(bare),
                ours / bare
            );
        }
    }
}

/// The seconds of the fastest of five series, per call.
fn best(rounds: u32, mut call: impl FnMut()) -> f64 {
    (0..5)
        .map(|_| {
            let start = std::time::Instant::now();
            for _ in 0..rounds {
                call();
            }
            start.elapsed().as_secs_f64() / f64::from(rounds)
        })
        .fold(f64::INFINITY, f64::min)
}

/// The library's own decoder on the stream, into a buffer of the right size.
fn bare<'a>(codec: CompressionType, stream: &'a [u8], size: usize) -> Box<dyn FnMut() + 'a> {
    let mut out = vec![0; size];
    match codec {
        CompressionType::GZIP => {
            let mut inflate = flate2::Decompress::new(false);
            Box::new(move || {
                inflate.reset(false);
                let finish = flate2::FlushDecompress::Finish;
                inflate.decompress(&stream[10..], &mut out, finish).unwrap();
                assert_eq!(inflate.total_out(), size as u64);
            })
        }
        CompressionType::SNAPPY => Box::new(move || {
            let (mut position, mut written) = (16, 0);
            while position < stream.len() {
                let length: [u8; 4] = stream[position..position + 4].try_into().unwrap();
                let end = position + 4 + usize::try_from(u32::from_be_bytes(length)).unwrap();
                let block = &stream[position + 4..end];
                let mut decoder = snap::raw::Decoder::new();
                written += decoder.decompress(block, &mut out[written..]).unwrap();
                position = end;
            }
            assert_eq!(written, size);
        }),
        CompressionType::LZ4 => Box::new(move || {
            let (mut position, mut written) = (7, 0);
            while written < size {
                let length: [u8; 4] = stream[position..position + 4].try_into().unwrap();
                let length = u32::from_be_bytes(length).swap_bytes();
                let end = position + 4 + usize::try_from(length).unwrap();
                let block = &stream[position + 4..end];
                written += lz4_flex::block::decompress_into(block, &mut out[written..]).unwrap();
                position = end;
            }
        }),
        _ => {
            let mut decompressor = zstd::bulk::Decompressor::new().unwrap();
            Box::new(move || {
                let written = decompressor.decompress_to_buffer(stream, &mut out).unwrap();
                assert_eq!(written, size);
            })
        }
    }
}
