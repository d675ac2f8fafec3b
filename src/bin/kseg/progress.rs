//! How far a run over many partitions has come: on standard error, on a terminal only.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Runs that end sooner show nothing.
const DELAY: Duration = Duration::from_millis(500);

/// A bar over the partitions of a log directory.
pub(crate) struct Progress {
    bar: ProgressBar,
    begun: Instant,
    bytes: u64,
}

impl Progress {
    /// A bar that is not drawn yet. Hidden for good where standard error is no terminal.
    pub(crate) fn new(partitions: u64) -> Self {
        let bar = ProgressBar::with_draw_target(Some(partitions), ProgressDrawTarget::hidden());
        let template = "{wide_bar} {pos} of {len} partitions, {msg}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Self {
            bar,
            begun: Instant::now(),
            bytes: 0,
        }
    }

    /// One partition with so many bytes of segments is done.
    pub(crate) fn partition_done(&mut self, bytes: u64) {
        self.bytes += bytes;
        let elapsed = self.begun.elapsed();
        if elapsed > DELAY && self.bar.is_hidden() {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a rate for people"
        )]
        let rate = (self.bytes as f64 / elapsed.as_secs_f64().max(0.001)) as u64;
        let bytes = crate::render::text::bytes(self.bytes);
        let rate = crate::render::text::bytes(rate);
        self.bar.set_message(format!("{bytes}, {rate}/s"));
        self.bar.inc(1);
    }
}

/// A bar over bytes, with what is left of the time.
pub(crate) struct ByteProgress {
    bar: Option<ProgressBar>,
    begun: Instant,
}

impl ByteProgress {
    /// A bar that is not drawn yet; `total` is asked for only where it will be.
    pub(crate) fn new(total: impl FnOnce() -> u64) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(Some(total()), ProgressDrawTarget::hidden());
            let template = "{wide_bar} {binary_bytes} of {binary_total_bytes}, \
                            {binary_bytes_per_sec}, {eta} left";
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style);
            }
            bar
        });
        Self {
            bar,
            begun: Instant::now(),
        }
    }

    /// So many more bytes are done.
    pub(crate) fn passed(&mut self, bytes: u64) {
        let Some(bar) = &self.bar else {
            return;
        };
        if bar.is_hidden() && self.begun.elapsed() > DELAY {
            bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        bar.inc(bytes);
    }
}

impl Drop for ByteProgress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
