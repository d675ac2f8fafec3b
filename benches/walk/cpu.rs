//! CPU time of this process, user and system.

use std::time::Duration;

/// CPU time used so far.
pub(crate) fn used() -> Duration {
    // SAFETY: all-zero bytes are a valid rusage, and getrusage only writes into it.
    #[expect(unsafe_code, reason = "the standard library has no CPU time")]
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    duration(usage.ru_utime) + duration(usage.ru_stime)
}

fn duration(time: libc::timeval) -> Duration {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let micros = u64::try_from(time.tv_usec).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_micros(micros)
}
