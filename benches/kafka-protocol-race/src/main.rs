//! `RecordBatchDecoder::decode_batch_info` of the crate kafka-protocol beside kseg's walk with
//! checksums, over the same mapped segments, in turns in one process: the least CPU time of each,
//! and their ratio.
//!
//! `decode_batch_info` checks every checksum, keeps every header, and can neither skip damage nor
//! read magic 0 and 1.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::records::RecordBatchDecoder;
use kseg::log::Io;
use kseg::log::batches::BatchWalk;
use kseg::log::mapped_file::MappedFile;
use memmap2::Mmap;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Turns of each: neighbours take memory bandwidth now and then, and the least needs a quiet moment
/// for both.
const TURNS: usize = 15;

fn main() -> Result<()> {
    for path in std::env::args().skip(1) {
        let path = Path::new(&path);
        let (mut theirs, mut ours) = (Duration::MAX, Duration::MAX);
        let mut batches = 0;
        for _ in 0..TURNS {
            let begin = cpu();
            batches = decode_batch_info(path).map_err(|it| format!("{}: {it}", path.display()))?;
            theirs = theirs.min(cpu() - begin);
            let begin = cpu();
            let walked = walk_with_crc(path)?;
            ours = ours.min(cpu() - begin);
            if walked != batches {
                return Err(format!("{}: {walked} batches to {batches}", path.display()).into());
            }
        }
        println!(
            "{}: {batches} batches, CPU ms: kafka-protocol decode_batch_info {:.1}, \
             kseg walk with CRC {:.1}, ratio {:.2}",
            path.display(),
            theirs.as_secs_f64() * 1e3,
            ours.as_secs_f64() * 1e3,
            theirs.as_secs_f64() / ours.as_secs_f64()
        );
    }
    Ok(())
}

fn decode_batch_info(path: &Path) -> Result<usize> {
    let file = File::open(path)?;
    // SAFETY: nothing changes the file while this program runs.
    let map = unsafe { Mmap::map(&file)? };
    let headers = RecordBatchDecoder::decode_batch_info(&mut Bytes::from_owner(map))
        .map_err(|it| it.to_string())?;
    Ok(std::hint::black_box(headers).len())
}

/// The loop that `verify` and `rebuild` run.
fn walk_with_crc(path: &Path) -> Result<usize> {
    let file = MappedFile::open(path, Io::Mmap)?;
    let mut walk = BatchWalk::new(&file);
    let mut batches = 0;
    while let Some(batch) = walk.next_mapped() {
        std::hint::black_box(batch.header.fields());
        if !batch.is_plainly_valid() {
            return Err(format!("a bad checksum at {}", batch.position).into());
        }
        batches += 1;
    }
    match walk.next_entry() {
        None => Ok(batches),
        Some(_) => Err("not what was generated".into()),
    }
}

/// CPU time of this process, user and system.
fn cpu() -> Duration {
    // SAFETY: all-zero bytes are a valid rusage, and getrusage only writes into it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let time = |t: libc::timeval| Duration::new(t.tv_sec as u64, t.tv_usec as u32 * 1000);
    time(usage.ru_utime) + time(usage.ru_stime)
}
