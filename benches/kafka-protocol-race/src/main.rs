//! Runs `RecordBatchDecoder::decode_batch_info` of the crate kafka-protocol over mapped segments
//! and prints the least CPU time of five runs. It checks every checksum, keeps every header, and
//! can neither skip damage nor read magic 0 and 1.

use std::fs::File;
use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::records::RecordBatchDecoder;
use memmap2::Mmap;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for path in std::env::args().skip(1) {
        let mut least = Duration::MAX;
        let mut batches = 0;
        for _ in 0..5 {
            let begin = cpu();
            let file = File::open(&path)?;
            // SAFETY: nothing changes the file while this program runs.
            let map = unsafe { Mmap::map(&file)? };
            let mut bytes = Bytes::from_owner(map);
            let headers = RecordBatchDecoder::decode_batch_info(&mut bytes)
                .map_err(|error| format!("{path}: {error}"))?;
            batches = std::hint::black_box(headers).len();
            least = least.min(cpu() - begin);
        }
        println!(
            "{path}: {batches} batches, kafka-protocol decode_batch_info {:.1} CPU ms",
            least.as_secs_f64() * 1e3
        );
    }
    Ok(())
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
