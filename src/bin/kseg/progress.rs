//! How far a run over many partitions has come: on standard error, on a terminal only.

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

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
