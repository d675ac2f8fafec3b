//! Codecs compared with the bytes and answers of Kafka 4.3.1 (`tests/oracle/codec-samples`).
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a test fails by panicking"
)]

#[path = "common/payloads.rs"]
mod payloads;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use kseg::format::compression::{Decompressor, compress};
use kseg::format::record_batch::CompressionType;

const GOLDEN: &str = "tests/data/compression";

fn codec(name: &str) -> CompressionType {
    (1..=4)
        .map(CompressionType)
        .find(|codec| codec.name() == name)
        .unwrap()
}

/// Kafka has no levels for snappy; the sample files say 0.
fn level(codec: CompressionType, text: &str) -> Option<i32> {
    (codec != CompressionType::SNAPPY).then(|| text.parse().unwrap())
}

#[test]
fn golden_files_are_written_and_read() {
    let mut seen = BTreeMap::new();
    for entry in fs::read_dir(GOLDEN).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let [payload, codec_name, level_text, magic] = name.split('.').collect::<Vec<_>>()[..]
        else {
            continue;
        };
        let [kind, seed, size] = payload.split('-').collect::<Vec<_>>()[..] else {
            panic!("{name}")
        };
        let payload = payloads::make(kind, seed.parse().unwrap(), size.parse().unwrap());
        let kafka = fs::read(&path).unwrap();
        let (codec, magic) = (codec(codec_name), magic.parse().unwrap());
        let mut ours = Vec::new();
        compress(codec, level(codec, level_text), magic, &payload, &mut ours).unwrap();
        assert!(ours == kafka, "{name} is written differently");
        let mut decompressor = Decompressor::new();
        let plain = decompressor.decompress(codec, magic, &kafka, payload.len());
        assert!(plain.unwrap() == payload, "{name} is read differently");
        *seen.entry(codec_name.to_owned()).or_insert(0) += 1;
    }
    assert_eq!(
        format!("{seen:?}"),
        r#"{"gzip": 12, "lz4": 16, "snappy": 4, "zstd": 12}"#
    );
}

/// The committed file, or the one that an environment variable names.
fn lines(variable: &str, file: &str) -> String {
    let path = std::env::var(variable).unwrap_or_else(|_| format!("{GOLDEN}/{file}"));
    fs::read_to_string(Path::new(&path)).unwrap()
}

#[test]
fn compressed_sizes_and_checksums_are_those_of_kafka() {
    let mut made = (String::new(), Vec::new());
    let mut seen = BTreeMap::new();
    let mut different = Vec::new();
    let mut decompressor = Decompressor::new();
    for line in lines("KSEG_CODEC_DIGESTS", "digests.txt").lines() {
        let [kind, seed, size, codec_name, level_text, magic, length, crc] =
            line.split(' ').collect::<Vec<_>>()[..]
        else {
            panic!("{line}")
        };
        let name = format!("{kind} {seed} {size}");
        if made.0 != name {
            let payload = payloads::make(kind, seed.parse().unwrap(), size.parse().unwrap());
            made = (name, payload);
        }
        let (codec, magic) = (codec(codec_name), magic.parse().unwrap());
        let mut bytes = Vec::new();
        compress(codec, level(codec, level_text), magic, &made.1, &mut bytes).unwrap();
        let digest = format!("{} {:08x}", bytes.len(), crc32c::crc32c(&bytes));
        let counts = seen.entry(codec_name.to_owned()).or_insert((0, 0));
        counts.0 += 1;
        if digest == format!("{length} {crc}") {
            counts.1 += 1;
        } else {
            different.push(format!("{line}: {digest}"));
        }
        let plain = decompressor.decompress(codec, magic, &bytes, made.1.len());
        assert!(plain.unwrap() == made.1, "{line}");
    }
    eprintln!("payloads written, identical: {seen:?}");
    assert!(seen.len() == 4 && different.is_empty(), "{different:#?}");
}

#[test]
fn damaged_streams_are_accepted_and_refused_as_by_kafka() {
    let mut different = Vec::new();
    let mut seen = BTreeMap::new();
    let mut zero_offsets = 0;
    let mut decompressor = Decompressor::new();
    for line in lines("KSEG_CODEC_DECODES", "decodes.txt").lines() {
        let (codec_name, rest) = line.split_once(' ').unwrap();
        let (magic, rest) = rest.split_once(' ').unwrap();
        let (hex, answer) = rest.split_once(' ').unwrap();
        let bytes: Vec<u8> = (0..hex.len() / 2)
            .map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap())
            .collect();
        let magic = magic.parse().unwrap();
        let ours = match decompressor.decompress(codec(codec_name), magic, &bytes, 1 << 20) {
            Ok(plain) => format!("ok {} {:08x}", plain.len(), crc32c::crc32c(plain)),
            // The one known difference: see `format::compression::lz4`.
            Err(error)
                if codec_name == "lz4" && error.to_string().contains("0 is not a valid match") =>
            {
                zero_offsets += 1;
                continue;
            }
            Err(_) => "error".to_owned(),
        };
        *seen
            .entry((codec_name.to_owned(), answer == "error"))
            .or_insert(0) += 1;
        if ours != answer {
            different.push(format!("{line}: {ours}"));
        }
    }
    eprintln!("streams by codec and whether Kafka refuses: {seen:?}, LZ4 offset 0: {zero_offsets}");
    assert!(seen.len() == 8 && different.is_empty(), "{different:#?}");
}
