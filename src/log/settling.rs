//! How long what looks wrong is looked at again before it is called so: a broker at work changes
//! several files one after another, and what they say against each other in between is no fault.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime};

/// What was not written to for so long has no write under way, on an overloaded machine either.
pub const RECENT_WRITE: Duration = Duration::from_secs(2);
/// Changes within this time may not have moved a modification time.
pub const CLOCK_TICK: Duration = Duration::from_millis(50);

/// Between the first two looks; each pause is twice as long as the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
/// No more than this is waited where files never come to rest: nine pauses.
const LONGEST: Duration = Duration::from_millis(2560);
/// Nor more than this where none of them changes meanwhile: a copy made a moment ago, most likely.
const LONGEST_UNCHANGED: Duration = Duration::from_millis(640);
/// Nor more than this where the clock does not tell whether they have, and they do not change.
const LONGEST_WITHOUT_AGE: Duration = Duration::from_millis(80);

/// Some files and directories that a broker may be changing, and how long it was waited for.
///
/// Whoever sees something wrong looks again while [`Settling::wait`] is true. Where all has been
/// left alone for a while that is never: a directory at rest is not waited for.
#[derive(Clone, Debug, Default)]
pub struct Settling {
    paths: Vec<PathBuf>,
    /// When each was modified, as of the last look.
    seen: Vec<Option<SystemTime>>,
    /// Whether any has changed between two looks.
    has_moved: bool,
    pauses: u32,
    waited: Duration,
}

impl Settling {
    /// Of files or directories that change together.
    #[must_use]
    pub fn of<P: Into<PathBuf>>(paths: impl IntoIterator<Item = P>) -> Self {
        Self {
            paths: paths.into_iter().map(Into::into).collect(),
            ..Self::default()
        }
    }

    /// Lets a broker get on that may be changing them, each time for longer; false at once if they
    /// are at rest, or have been waited for long enough.
    pub fn wait(&mut self) -> bool {
        let pause = FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(self.pauses));
        let after = self.waited.saturating_add(pause);
        if after > LONGEST || !self.may_change(after) {
            return false;
        }
        thread::sleep(pause);
        self.pauses += 1;
        self.waited = after;
        true
    }

    /// Whether something is wrong still, once they have been waited for.
    pub fn persists(&mut self, mut is_wrong: impl FnMut() -> bool) -> bool {
        loop {
            if !is_wrong() {
                return false;
            }
            if !self.wait() {
                return true;
            }
        }
    }

    /// Whether one of them was written to lately. A time ahead of the clock, of another machine's
    /// or from the future of a copy, tells only whether it moves.
    fn may_change(&mut self, waited: Duration) -> bool {
        let now: Vec<_> = self.paths.iter().map(|path| modified(path)).collect();
        let ages = now.iter().map(|at| at.and_then(|at| at.elapsed().ok()));
        let (mut is_recent, mut is_unknown) = (false, false);
        for age in ages {
            is_recent |= age.is_some_and(|age| age <= RECENT_WRITE);
            is_unknown |= age.is_none();
        }
        let moves = now != self.seen;
        self.has_moved |= moves && self.pauses > 0;
        self.seen = now;
        is_recent && (self.has_moved || waited <= LONGEST_UNCHANGED)
            || is_unknown && (moves || waited <= LONGEST_WITHOUT_AGE)
    }
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|it| it.modified()).ok()
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::Instant;

    use super::*;

    /// How often, and for how long, a file is waited for that was written to `age` ago and has
    /// that set again at each look if `is_moving`.
    fn waits(modified: SystemTime, is_moving: bool) -> (u32, Duration) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let file = File::create(&path).unwrap();
        file.set_modified(modified).unwrap();
        let mut settling = Settling::of([path]);
        let started = Instant::now();
        let mut looks = 0;
        while settling.wait() {
            looks += 1;
            if is_moving {
                let later = modified + Duration::from_secs(u64::from(looks));
                file.set_modified(later).unwrap();
            }
        }
        (looks, started.elapsed())
    }

    #[test]
    fn what_is_at_rest_is_not_waited_for() {
        let (looks, _) = waits(SystemTime::now() - Duration::from_secs(3), false);
        assert_eq!(looks, 0);
        assert!(!Settling::default().wait());
    }

    #[test]
    fn what_was_written_a_moment_ago_is_waited_for_until_it_is_at_rest() {
        let (looks, took) = waits(SystemTime::now() - Duration::from_millis(1800), false);
        assert!(looks >= 1);
        assert!(took >= Duration::from_millis(200), "{took:?}");
    }

    #[test]
    fn what_was_copied_a_moment_ago_is_waited_for_a_while() {
        let (looks, took) = waits(SystemTime::now(), false);
        assert_eq!(looks, 7);
        assert!(took >= Duration::from_millis(635), "{took:?}");
    }

    /// The first look finds a file that may have been written a moment ago by another clock.
    #[test]
    fn a_time_ahead_of_the_clock_is_waited_for_only_while_it_moves() {
        let tomorrow = SystemTime::now() + Duration::from_secs(86_400);
        assert_eq!(waits(tomorrow, false).0, 4);
        assert_eq!(waits(tomorrow, true).0, 9);
    }

    #[test]
    fn what_is_gone_is_not_waited_for_long() {
        let dir = tempfile::tempdir().unwrap();
        let mut settling = Settling::of([dir.path().join("gone")]);
        let mut looks = 0;
        while settling.wait() {
            looks += 1;
        }
        assert_eq!(looks, 4);
    }
}
