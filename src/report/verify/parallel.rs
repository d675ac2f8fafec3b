//! Stretches of segments, checked by several threads and handed back in the order of the log.
//!
//! The thread that walks the headers hands stretches in. When enough of them wait it lends a hand
//! itself, so that all threads are busy and no more than a bounded number of results is kept.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::batches::{SegmentContext, check_stretch};
use super::finding::Finding;
use super::resume::Searched;
use crate::log::Error;
use crate::log::partition_walk::OpenSegment;
use crate::log::records::Unpacker;

/// Findings that may wait for the stretch before them to be checked.
const MAX_WAITING: usize = 4096;
/// Stretches that may wait or be under way for each thread.
const WINDOW_PER_THREAD: usize = 8;

/// A stretch of a segment without damage.
pub(super) struct Stretch {
    pub(super) segment: Arc<OpenSegment>,
    pub(super) searched: Arc<Searched>,
    pub(super) context: SegmentContext,
    pub(super) from: u64,
    pub(super) to: u64,
}

type Checked = Result<Vec<Finding>, Error>;

/// Bytes of a segment that the walk comes to next.
struct Ahead {
    segment: Arc<OpenSegment>,
    from: u64,
    len: u64,
}

/// What the threads share.
#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    work: Condvar,
    done: Condvar,
}

#[derive(Default)]
struct State {
    ahead: Option<Ahead>,
    waiting: VecDeque<(u64, Stretch)>,
    checked: BTreeMap<u64, Checked>,
    is_closed: bool,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        // No thread panics while it holds the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks stretches until there will be no more. One thread's life.
    pub(super) fn work(&self, max_batch_bytes: usize) {
        let mut unpacker = Unpacker::new(max_batch_bytes);
        loop {
            let mut state = self.lock();
            let (number, stretch) = loop {
                // First, for the walk is what all others wait for.
                if let Some(ahead) = state.ahead.take() {
                    drop(state);
                    ahead.segment.file.map_ahead(ahead.from, ahead.len);
                    state = self.lock();
                    continue;
                }
                if let Some(next) = state.waiting.pop_front() {
                    break next;
                }
                if state.is_closed {
                    return;
                }
                state = self
                    .work
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
            };
            drop(state);
            let checked = stretch.check(&mut unpacker);
            self.lock().checked.insert(number, checked);
            self.done.notify_one();
        }
    }

    fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        // After an error nobody asks for the rest.
        state.ahead = None;
        state.waiting.clear();
        drop(state);
        self.work.notify_all();
    }
}

impl Stretch {
    fn check(&self, unpacker: &mut Unpacker) -> Checked {
        let range = (self.from, self.to);
        check_stretch(
            &self.segment,
            &self.searched,
            &self.context,
            range,
            unpacker,
        )
    }
}

enum Slot {
    Found(Box<Finding>),
    Stretch { number: u64, bytes: u64 },
}

/// The walking thread's end: takes findings and stretches in the order of the log and gives
/// findings out in that order.
pub(super) struct InOrder<'q> {
    queue: &'q Queue,
    slots: VecDeque<Slot>,
    next: u64,
    under_way: usize,
    window: usize,
    has_others: bool,
    unpacker: Unpacker,
}

impl<'q> InOrder<'q> {
    pub(super) fn new(queue: &'q Queue, threads: usize, max_batch_bytes: usize) -> Self {
        Self {
            queue,
            slots: VecDeque::new(),
            next: 0,
            under_way: 0,
            window: threads * WINDOW_PER_THREAD,
            has_others: threads > 1,
            unpacker: Unpacker::new(max_batch_bytes),
        }
    }

    /// Takes what the walk itself has found.
    pub(super) fn found(&mut self, finding: Finding) {
        self.slots.push_back(Slot::Found(Box::new(finding)));
    }

    /// Whether so much waits that it should be finished first.
    pub(super) fn is_full(&self) -> bool {
        self.slots.len() >= MAX_WAITING
    }

    /// Has another thread take the page faults of the next bytes of a segment.
    pub(super) fn map_ahead(&self, segment: &Arc<OpenSegment>, from: u64, len: u64) {
        if !self.has_others {
            return;
        }
        let segment = Arc::clone(segment);
        self.queue.lock().ahead = Some(Ahead { segment, from, len });
        self.queue.work.notify_one();
    }

    /// Hands a stretch in, if there is any byte in it. May check another one here.
    pub(super) fn submit(&mut self, stretch: Stretch) {
        let bytes = stretch.to.saturating_sub(stretch.from);
        if bytes == 0 {
            return;
        }
        let number = self.next;
        self.next += 1;
        self.slots.push_back(Slot::Stretch { number, bytes });
        self.under_way += 1;
        self.queue.lock().waiting.push_back((number, stretch));
        self.queue.work.notify_one();
        if self.under_way >= self.window {
            self.lend_a_hand();
        }
    }

    /// Checks one waiting stretch; without one, waits for the oldest result.
    fn lend_a_hand(&mut self) {
        let oldest = self.slots.iter().find_map(|slot| match slot {
            Slot::Stretch { number, .. } => Some(*number),
            Slot::Found(_) => None,
        });
        let Some(oldest) = oldest else {
            return;
        };
        let mut state = self.queue.lock();
        let (number, stretch) = loop {
            if state.checked.contains_key(&oldest) {
                return;
            }
            if let Some(waiting) = state.waiting.pop_front() {
                break waiting;
            }
            state = self
                .queue
                .done
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        };
        drop(state);
        let checked = stretch.check(&mut self.unpacker);
        self.queue.lock().checked.insert(number, checked);
    }

    /// Gives out what is ready, in order; `passed` is told the bytes of each stretch.
    pub(super) fn give<E: From<Error>>(
        &mut self,
        passed: &mut impl FnMut(u64),
        emit: &mut impl FnMut(Finding) -> Result<(), E>,
    ) -> Result<(), E> {
        while let Some(slot) = self.slots.pop_front() {
            match slot {
                Slot::Found(finding) => emit(*finding)?,
                Slot::Stretch { number, bytes } => {
                    let Some(checked) = self.queue.lock().checked.remove(&number) else {
                        self.slots.push_front(slot);
                        return Ok(());
                    };
                    self.under_way -= 1;
                    passed(bytes);
                    checked?.into_iter().try_for_each(&mut *emit)?;
                }
            }
        }
        Ok(())
    }

    /// Gives out all there is.
    pub(super) fn finish<E: From<Error>>(
        &mut self,
        passed: &mut impl FnMut(u64),
        emit: &mut impl FnMut(Finding) -> Result<(), E>,
    ) -> Result<(), E> {
        self.give(passed, emit)?;
        while !self.slots.is_empty() {
            self.lend_a_hand();
            self.give(passed, emit)?;
        }
        Ok(())
    }
}

impl Drop for InOrder<'_> {
    fn drop(&mut self) {
        self.queue.close();
    }
}
