//! What has become of the files of an overlay, against those on the disk.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::ops::Range;

use super::content::Base;
use super::reading::{Opened, PIECE};
use super::{FileId, Overlay};
use crate::log::mapped_file::MappedFile;
use crate::log::{Error, Io};

/// What became of a file that was in the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is gone.
    Removed,
    /// It has another name.
    Renamed {
        /// That name.
        to: OsString,
    },
    /// It is shorter, with the same bytes up to there.
    Cut {
        /// Its size now.
        size_in_bytes: u64,
    },
    /// It has other bytes.
    Rewritten {
        /// Its size now, without room set aside.
        size_in_bytes: u64,
    },
    /// It was not there before.
    Made {
        /// Its size, without room set aside.
        size_in_bytes: u64,
    },
}

impl Overlay {
    /// Why a file was changed last.
    #[must_use]
    pub fn reason(&self, id: FileId) -> &str {
        self.reasons.get(&id).map_or("", |reason| reason)
    }

    /// What has become of the directory, by name: each file that is gone, has another name, size or
    /// bytes, or is new, with the reason. Zeros at the end of an index do not count where
    /// `ends_in_room` says so.
    ///
    /// # Errors
    /// If a file on the disk cannot be read.
    pub fn changes(
        &self,
        ends_in_room: impl Fn(&OsStr) -> bool,
    ) -> Result<Vec<(OsString, Change, String)>, Error> {
        let mut found = Vec::new();
        let ids: BTreeMap<FileId, &OsStr> = self
            .names
            .iter()
            .map(|(name, id)| (*id, name.as_os_str()))
            .collect();
        for (index, (name, size)) in self.original.iter().enumerate() {
            let id = FileId(index);
            let mut push = |id: FileId, name: &OsStr, change: Change| {
                let reason = match &change {
                    Change::Renamed { .. } => self.rename_reasons.get(&id).map_or("", |it| it),
                    Change::Removed
                    | Change::Cut { .. }
                    | Change::Rewritten { .. }
                    | Change::Made { .. } => self.reason(id),
                };
                found.push((name.to_owned(), change, reason.to_owned()));
            };
            match (ids.get(&id), self.names.get(name)) {
                (Some(now), _) if *now == name.as_os_str() => {
                    if let Some(change) = self.content_change(id, id, *size, &ends_in_room)? {
                        push(id, name, change);
                    }
                }
                (Some(now), other) => {
                    let to = (*now).to_owned();
                    push(id, name, Change::Renamed { to });
                    if let Some(change) = self.content_change(id, id, *size, &ends_in_room)? {
                        push(id, now, change);
                    }
                    if let Some(other) = other {
                        self.replaced(&mut push, id, *other, name, *size, &ends_in_room)?;
                    }
                }
                (None, Some(other)) => {
                    self.replaced(&mut push, id, *other, name, *size, &ends_in_room)?;
                }
                (None, None) => push(id, name, Change::Removed),
            }
        }
        let originals: BTreeSet<&OsString> = self.original.iter().map(|(name, _)| name).collect();
        for (name, id) in &self.names {
            if id.0 >= self.original.len() && !originals.contains(name) {
                let size_in_bytes = self.content(*id).data_len();
                let change = Change::Made { size_in_bytes };
                found.push((name.clone(), change, self.reason(*id).to_owned()));
            }
        }
        Ok(found)
    }

    /// Of the files that were there before, by name: up to which byte what they had is now in a
    /// file whose name `is_wanted` picks. What is in none is not listed.
    pub fn kept(&self, is_wanted: impl Fn(&OsStr) -> bool) -> BTreeMap<&OsStr, u64> {
        let mut kept = BTreeMap::new();
        for (name, id) in &self.names {
            let content = self.content(*id);
            if let Some(base) = content.base.as_ref().filter(|_| is_wanted(name)) {
                let end = kept.entry(base.name.as_os_str()).or_insert(0);
                *end = (base.start + base.len).max(*end);
            }
        }
        kept
    }

    /// The names that stand for other bytes than before, of those that `is_wanted` picks and that
    /// were there before. Zeros at the end do not count.
    ///
    /// # Errors
    /// If a file on the disk cannot be read.
    pub fn rewritten(&self, is_wanted: impl Fn(&OsStr) -> bool) -> Result<Vec<OsString>, Error> {
        let mut found = Vec::new();
        for (index, (name, size)) in self.original.iter().enumerate() {
            let (true, Some(now)) = (is_wanted(name), self.names.get(name)) else {
                continue;
            };
            let room = |_: &OsStr| true;
            let change = self.content_change(FileId(index), *now, *size, &room)?;
            if matches!(change, Some(Change::Rewritten { .. })) {
                found.push(name.clone());
            }
        }
        Ok(found)
    }

    /// Another file has the name now. One that was in the directory is listed as renamed; the one
    /// it replaced is gone.
    fn replaced(
        &self,
        push: &mut impl FnMut(FileId, &OsStr, Change),
        old: FileId,
        new: FileId,
        name: &OsStr,
        size: u64,
        ends_in_room: &impl Fn(&OsStr) -> bool,
    ) -> Result<(), Error> {
        if new.0 < self.original.len() {
            push(old, name, Change::Removed);
        } else if let Some(change) = self.content_change(old, new, size, ends_in_room)? {
            push(new, name, change);
        }
        Ok(())
    }

    fn content_change(
        &self,
        old: FileId,
        new: FileId,
        size: u64,
        ends_in_room: &impl Fn(&OsStr) -> bool,
    ) -> Result<Option<Change>, Error> {
        let content = self.content(new);
        let Some((name, _)) = self.original.get(old.0) else {
            return Ok(None);
        };
        let size_in_bytes = content.data_len();
        let is_base = content.written.is_empty()
            && content
                .base
                .as_ref()
                .is_some_and(|base| base.name == *name && base.start == 0);
        if is_base && size_in_bytes == size {
            return Ok(None);
        }
        let has_room = ends_in_room(name);
        if is_base && !has_room {
            return Ok(Some(Change::Cut { size_in_bytes }));
        }
        if has_room && old == new && Self::is_known_to_be_other(content) {
            return Ok(Some(Change::Rewritten { size_in_bytes }));
        }
        let original = Base {
            name: name.to_owned(),
            start: 0,
            len: size,
        };
        let before = self.open_base(&original, Io::Read)?;
        let now = self.opened(new)?;
        let common = size.min(size_in_bytes);
        let tails = common..size.max(size_in_bytes);
        let has_same_front = has_same_bytes(&before, &now, 0..common)?;
        // Room set aside is zeros; the other file has nothing there.
        let has_same_used = has_same_front
            && (tails.is_empty() || has_room && has_same_bytes(&before, &now, tails)?);
        if has_same_used {
            let is_cut = self.len(new) < size;
            return Ok(is_cut.then_some(Change::Cut { size_in_bytes }));
        }
        Ok(Some(
            if !has_room && has_same_front && size_in_bytes < size {
                Change::Cut { size_in_bytes }
            } else {
                Change::Rewritten { size_in_bytes }
            },
        ))
    }
}

/// Whether two files have the same bytes in a range; behind the end of one of them are zeros.
fn has_same_bytes(before: &MappedFile, now: &Opened<'_>, range: Range<u64>) -> Result<bool, Error> {
    let mut pieces = [vec![0; PIECE], vec![0; PIECE]];
    let mut position = range.start;
    while position < range.end {
        let size = usize::try_from(range.end - position).map_or(PIECE, |it| it.min(PIECE));
        let [was, is] = pieces
            .each_mut()
            .map(|piece| piece.get_mut(..size).unwrap_or_default());
        was.fill(0);
        let there = before.len().saturating_sub(position);
        let there = usize::try_from(there).map_or(size, |it| it.min(size));
        if let Some(part) = was.get_mut(..there).filter(|part| !part.is_empty()) {
            before.read_exact_at(part, position)?;
        }
        now.read_at(is, position)?;
        if was != is {
            return Ok(false);
        }
        position += size as u64;
    }
    Ok(true)
}
