//! Two partitions walked side by side.
//!
//! Segments of two replicas roll at different places, so each walk stops where either segment
//! ends, and both go on with the next pair that is open. One segment a side is open at a time.

use crate::log::batches::{BatchWalk, Entry};
use crate::log::mapped_file::MappedFile;
use crate::log::partition_dir::PartitionDir;
use crate::log::partition_walk::{OpenSegment, SegmentAt, open_segment};
use crate::log::{Error, Io};

use super::kind::{Side, Sides};

/// What lies next on one side.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head<'a, 'w> {
    pub(super) at: SegmentAt<'a>,
    pub(super) entry: &'a Entry<'w>,
    /// The segment's bytes.
    pub(super) file: &'a MappedFile,
}

/// Which side goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Advance {
    One(Side),
    Both,
}

impl Advance {
    fn moves(self, side: Side) -> bool {
        self == Self::Both || self == Self::One(side)
    }
}

/// Where the reading of one side stands.
#[derive(Debug)]
pub(super) struct Cursor<'d> {
    dir: &'d PartitionDir,
    io: Io,
    next_segment: usize,
    open: Option<Opened>,
    /// Segments, by place in the directory, that vanished since it was listed.
    pub(super) vanished: Vec<usize>,
}

#[derive(Debug)]
struct Opened {
    index: usize,
    base_offset: i64,
    segment: OpenSegment,
    position: u64,
}

impl<'d> Cursor<'d> {
    pub(super) fn new(dir: &'d PartitionDir, io: Io) -> Self {
        Self {
            dir,
            io,
            next_segment: 0,
            open: None,
            vanished: Vec::new(),
        }
    }

    /// Opens the next segment if none is open and there is one.
    fn open_next(&mut self) -> Result<(), Error> {
        while self.open.is_none()
            && let Some(segment) = self.dir.segments.get(self.next_segment)
        {
            let index = self.next_segment;
            self.next_segment += 1;
            match open_segment(self.dir, segment, self.io)? {
                Some(opened) => {
                    self.open = Some(Opened {
                        index,
                        base_offset: segment.base_offset,
                        segment: opened,
                        position: 0,
                    });
                }
                // What was there before would seem lost.
                None if self.vanished.len() < index => {
                    return Err(Error::ChangedWhileReading {
                        path: self.dir.path.clone(),
                    });
                }
                None => self.vanished.push(index),
            }
        }
        Ok(())
    }

    fn walk(&self) -> Option<Walk<'_>> {
        let open = self.open.as_ref()?;
        let at = SegmentAt {
            index: open.index,
            base_offset: open.base_offset,
            file: &open.segment.name,
            size_in_bytes: open.segment.file.len(),
        };
        let file = &open.segment.file;
        let walk = BatchWalk::starting_at(file, open.position);
        Some(Walk { at, file, walk })
    }

    fn leave_at(&mut self, position: Option<u64>) {
        match (position, &mut self.open) {
            (Some(position), Some(open)) => open.position = position,
            (None, _) | (_, None) => self.open = None,
        }
    }
}

struct Walk<'f> {
    at: SegmentAt<'f>,
    file: &'f MappedFile,
    walk: BatchWalk<'f>,
}

/// Hands out what lies next on both sides, in pairs, until both are at their end; `step` says
/// which side goes on. The same entry may be handed out many times.
pub(super) fn walk_both(
    cursors: &mut Sides<Cursor<'_>>,
    mut step: impl FnMut(Sides<Option<Head<'_, '_>>>) -> Result<Advance, Error>,
) -> Result<(), Error> {
    loop {
        cursors.left.open_next()?;
        cursors.right.open_next()?;
        if cursors.left.open.is_none() && cursors.right.open.is_none() {
            return Ok(());
        }
        let positions = walk_open(&cursors.left, &cursors.right, &mut step)?;
        cursors.left.leave_at(positions.left);
        cursors.right.leave_at(positions.right);
    }
}

/// Walks the open segments until one ends. Where the walks stand then; `None` at an end.
fn walk_open(
    left: &Cursor<'_>,
    right: &Cursor<'_>,
    step: &mut impl FnMut(Sides<Option<Head<'_, '_>>>) -> Result<Advance, Error>,
) -> Result<Sides<Option<u64>>, Error> {
    let mut left = left.walk();
    let mut right = right.walk();
    let at = Sides {
        left: left.as_ref().map(|it| (it.at, it.file)),
        right: right.as_ref().map(|it| (it.at, it.file)),
    };
    let mut l = next(&mut left)?;
    let mut r = next(&mut right)?;
    loop {
        let has_ended = (at.left.is_some() && l.is_none()) || (at.right.is_some() && r.is_none());
        if has_ended {
            return Ok(Sides {
                left: l.as_ref().map(Entry::position),
                right: r.as_ref().map(Entry::position),
            });
        }
        let heads = Sides {
            left: at.left.zip(l.as_ref()).map(Head::new),
            right: at.right.zip(r.as_ref()).map(Head::new),
        };
        let advance = step(heads)?;
        if advance.moves(Side::Left) {
            l = next(&mut left)?;
        }
        if advance.moves(Side::Right) {
            r = next(&mut right)?;
        }
    }
}

impl<'a, 'w> Head<'a, 'w> {
    fn new(((at, file), entry): ((SegmentAt<'a>, &'a MappedFile), &'a Entry<'w>)) -> Self {
        Self { at, entry, file }
    }
}

fn next<'w>(walk: &'w mut Option<Walk<'_>>) -> Result<Option<Entry<'w>>, Error> {
    match walk {
        Some(walk) => walk.walk.next_entry().transpose(),
        None => Ok(None),
    }
}
