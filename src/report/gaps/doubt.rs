//! Whether headers can be believed.
//!
//! Looking at every checksum would make the pass read all payloads, so headers are taken as they
//! are as long as they fit what came before. Where one does not, either somebody went wrong or a
//! header was damaged, and the checksums tell which: then those of the batches up to there are
//! looked at, for what does not fit may come of believing an earlier one, and from there on those
//! of all. If one is wrong the pass begins anew and takes each such batch for what it is: bytes
//! that cannot be read, and offsets that are lost. A broker serves them until a start that recovers
//! the segment cuts the log off there (`LogSegment.recover`), and no consumer gets past.

use std::ops::ControlFlow;

use super::GapFold;
use super::finding::{Finding, GapClass, GapKind};
use crate::log::batches::{Batch, Entry};
use crate::log::partition_dir::PartitionDir;
use crate::log::partition_walk::{SegmentAt, walk_partition};
use crate::log::{Error, Io};
use crate::state::{MissingCause, SequenceFinding};

/// A segment's place in the directory and a position in it.
type At = (usize, u64);

/// Which checksums are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Checksums {
    /// None.
    Ignored,
    /// Those of the batches up to one that does not fit.
    InDoubt,
    /// Those of all: something did not fit, and what was wrong up to there is known.
    All,
}

/// Which batches may be damaged if a header does not fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Doubt {
    /// None.
    #[default]
    None,
    /// That batch. What it says is also said by sound ones, so the others are not looked at.
    Itself,
    /// It, and all before it.
    UpToIt,
    /// All, for where one does not fit many may not.
    Any,
}

impl Doubt {
    /// What a finding about a batch makes doubtful.
    pub(super) fn of(finding: &SequenceFinding) -> Self {
        match finding {
            SequenceFinding::Missing { cause, .. } => match cause {
                MissingCause::NeverStored | MissingCause::ExpiredOrLostState => Self::Any,
                MissingCause::BeforeLogStart => Self::Itself,
                MissingCause::Compacted | MissingCause::Lost => Self::None,
            },
            SequenceFinding::Behind
            | SequenceFinding::Reordered
            | SequenceFinding::EpochRegression { .. }
            | SequenceFinding::CoordinatorEpochRegression { .. } => Self::Any,
            SequenceFinding::EpochRaised { .. } => Self::Itself,
            // Of records that are there twice the bytes are compared.
            SequenceFinding::MaybeStoredAgain { .. } | SequenceFinding::Aborted { .. } => {
                Self::None
            }
        }
    }
}

/// The first batch with a wrong checksum up to a place, the one there included.
fn first_bad(dir: &PartitionDir, io: Io, to: At) -> Result<Option<At>, Error> {
    let mut bad = None;
    walk_partition(dir, io, 0, |at, entry| {
        let Entry::Batch(batch) = entry else {
            return Ok::<_, Error>(ControlFlow::Continue(()));
        };
        let place = (at.index, batch.position);
        if place <= to && !batch.is_sound()? {
            bad = Some(place);
        }
        Ok(if bad.is_some() || place >= to {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        })
    })?;
    Ok(bad)
}

/// Whether believing a damaged header leads to findings of this kind. Others have been handed out
/// by the time a pass begins anew, as the same ones.
fn is_of_doubt(finding: &Finding) -> bool {
    finding.kind != GapKind::OffsetGap || finding.class == GapClass::BAD_CRC
}

impl GapFold<'_> {
    /// The same, believing every header: no payload is read.
    pub(in crate::report) fn believing_headers(mut self) -> Self {
        self.checksums = Checksums::Ignored;
        self
    }

    /// What findings about offsets make doubtful, those about one batch: offsets that go back, and
    /// the first ones that are gone where nothing else tells of the cleaner.
    pub(super) fn doubt_of(&mut self, found: &[Finding]) -> Doubt {
        let mut doubt = Doubt::None;
        for class in found.iter().map(|it| it.class) {
            let is_between = class == GapClass::CompactedBetweenBatches;
            let is_inside = class == GapClass::CompactedInsideBatch;
            let is_cleaned = is_between || is_inside || class == GapClass::EmptyBatch;
            if class == GapClass::OffsetsNotIncreasing {
                doubt = Doubt::Any;
            } else if is_cleaned && !std::mem::replace(&mut self.was_cleaned, true) {
                let of_hole = if is_between {
                    Doubt::UpToIt
                } else {
                    Doubt::Itself
                };
                doubt = doubt.max(of_hole);
            }
        }
        doubt
    }

    /// Looks whether what does not fit about a batch comes of damage. If it does, all that was made
    /// of it and told behind `begin` is taken back.
    #[cold]
    pub(super) fn look_into(
        &mut self,
        doubt: Doubt,
        at: SegmentAt<'_>,
        batch: &Batch<'_>,
        begin: usize,
        found: &mut Vec<Finding>,
    ) -> Result<(), Error> {
        if self.checksums != Checksums::InDoubt || doubt == Doubt::Itself && batch.is_sound()? {
            return Ok(());
        }
        let to = (at.index, batch.position);
        match first_bad(self.dir, self.options.io, to)? {
            Some(first) => {
                found.truncate(begin);
                self.begin_anew(first, to, found)?;
            }
            None if doubt == Doubt::Any => self.checksums = Checksums::All,
            None => {}
        }
        Ok(())
    }

    /// Walks again up to a batch, that one included, believing no damaged one. `bad` is the first
    /// of them: up to there all is as it was.
    fn begin_anew(&mut self, bad: At, to: At, found: &mut Vec<Finding>) -> Result<(), Error> {
        let mut fold = Self::begin(self.dir, self.checkpoints, &self.options)?;
        if !self.tells_unread {
            fold = fold.without_unread();
        }
        fold.checksums = Checksums::All;
        let mut again = Vec::new();
        walk_partition(self.dir, self.options.io, 0, |at, entry| {
            let is_last = (at.index, entry.position()) == to;
            if is_last {
                fold.offsets.enter(at.index, &mut again)?;
            }
            again.retain(|it| {
                is_of_doubt(it) && (it.segment, it.position) >= (Some(bad.0), Some(bad.1))
            });
            found.append(&mut again);
            fold.entry(at, &entry, &mut again)?;
            Ok::<_, Error>(if is_last {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            })
        })?;
        found.append(&mut again);
        *self = fold;
        Ok(())
    }
}
