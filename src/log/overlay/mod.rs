//! A directory as it would be after changes that nobody has made: the files on the disk, and in
//! memory what of them would be removed, renamed, cut, or have other bytes.
//!
//! Nothing on the disk is touched. A segment is never copied: it is its file, up to a length. What
//! would be written to a small file lies in memory, without the room that an open index has behind
//! its entries; of indexes only so much, the others are made from their `.log` again when needed.

mod changes;
mod content;
mod reading;
mod remade;

use std::collections::{BTreeMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use self::changes::Change;
use self::content::{Base, Content, Written};
pub use self::remade::{INDEX_MEMORY, IndexKind, IndexOf};
use super::held_files::HeldFiles;
use super::odd_entry::{Odd, OddEntry};
use super::partition_dir::PartitionDir;
use super::{Error, Io};

/// A file of an [`Overlay`], whatever its name is by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(usize);

/// A directory as it would be. See the module.
#[derive(Clone, Debug)]
pub struct Overlay {
    dir: PathBuf,
    pub(super) held: HeldFiles,
    io: Io,
    contents: Vec<Content>,
    /// The name each file has, or had last.
    last_names: Vec<OsString>,
    names: BTreeMap<OsString, FileId>,
    /// Names under which no file can be opened or made, and what has them.
    taken: BTreeMap<OsString, Odd>,
    /// The names when nothing had been changed yet; ids count in their order.
    original: Vec<(OsString, u64)>,
    /// Why a file was changed last.
    reasons: BTreeMap<FileId, Arc<str>>,
    /// Why a file has another name.
    rename_reasons: BTreeMap<FileId, Arc<str>>,
    reason: Arc<str>,
    /// The indexes made anew that can be made again, oldest first, with their sizes.
    indexes: VecDeque<(FileId, u64)>,
    /// The sum of these sizes.
    index_bytes: u64,
    /// How many bytes of them are kept.
    index_memory: u64,
}

impl Overlay {
    /// Nothing changed yet: the files of `dir`.
    ///
    /// What the directory holds open is read from there, whatever a broker does meanwhile.
    ///
    /// # Errors
    /// If one of them is no regular file, or cannot be looked at.
    pub fn new(dir: &PartitionDir, io: Io) -> Result<Self, Error> {
        let is_taken = |it: &&OddEntry| it.what != Odd::LinkToNothing;
        let taken = dir.odd.iter().filter(is_taken);
        let mut overlay = Self {
            dir: dir.path.clone(),
            held: dir.held.clone(),
            io,
            contents: Vec::new(),
            last_names: Vec::new(),
            names: BTreeMap::new(),
            taken: taken.map(|it| (it.file_name.clone(), it.what)).collect(),
            original: Vec::new(),
            reasons: BTreeMap::new(),
            rename_reasons: BTreeMap::new(),
            reason: "".into(),
            indexes: VecDeque::new(),
            index_bytes: 0,
            index_memory: INDEX_MEMORY,
        };
        for file in &dir.files {
            let name = file.file_name.clone();
            let Some(len) = dir.regular_len(file)? else {
                continue;
            };
            let base = Some(Base {
                name: name.clone(),
                start: 0,
                len,
            });
            let content = Content {
                base,
                len,
                ..Content::default()
            };
            let id = overlay.add(&name, content);
            overlay.names.insert(name.clone(), id);
            overlay.original.push((name, len));
        }
        Ok(overlay)
    }

    fn add(&mut self, name: &OsStr, content: Content) -> FileId {
        self.contents.push(content);
        self.last_names.push(name.to_owned());
        FileId(self.contents.len() - 1)
    }

    /// The directory on the disk.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The names of the files, sorted.
    pub fn names(&self) -> impl Iterator<Item = &OsStr> {
        self.names.keys().map(OsString::as_os_str)
    }

    /// The names of the files, sorted, with their sizes; an open index has its full length.
    pub fn files(&self) -> impl Iterator<Item = (&OsStr, u64)> {
        self.names
            .iter()
            .map(|(name, id)| (name.as_os_str(), self.len(*id)))
    }

    /// The same with the sizes they have without room set aside.
    pub fn files_without_room(&self) -> impl Iterator<Item = (&OsStr, u64)> {
        self.names
            .iter()
            .map(|(name, id)| (name.as_os_str(), self.content(*id).data_len()))
    }

    /// The file of that name.
    #[must_use]
    pub fn find(&self, name: &OsStr) -> Option<FileId> {
        self.names.get(name).copied()
    }

    /// What has that name, if no file can be opened or made under it.
    #[must_use]
    pub fn taken_by(&self, name: &OsStr) -> Option<Odd> {
        self.taken.get(name).copied()
    }

    /// Why the next changes are made; it is remembered with each file they touch. While it is empty
    /// the earlier reasons stay.
    pub fn because(&mut self, reason: &str) {
        self.reason = reason.into();
    }

    fn note(&mut self, id: FileId) {
        if !self.reason.is_empty() {
            self.reasons.insert(id, Arc::clone(&self.reason));
        }
    }

    // ---- changing ---------------------------------------------------------------------------

    /// An empty file under that name, in place of one that may be there.
    pub fn create(&mut self, name: &OsStr) -> FileId {
        let id = self.add(name, Content::default());
        self.names.insert(name.to_owned(), id);
        self.note(id);
        id
    }

    /// Renames a file, over one that may be there; whether there was one to rename.
    pub fn rename(&mut self, from: &OsStr, to: &OsStr) -> bool {
        let Some(id) = self.names.remove(from) else {
            return false;
        };
        if let Some(replaced) = self.names.insert(to.to_owned(), id) {
            self.note(replaced);
        }
        if let Some(name) = self.last_names.get_mut(id.0) {
            to.clone_into(name);
        }
        self.note(id);
        self.rename_reasons.insert(id, Arc::clone(&self.reason));
        true
    }

    /// Removes a file; whether it was there.
    pub fn remove(&mut self, name: &OsStr) -> bool {
        let Some(id) = self.names.remove(name) else {
            return false;
        };
        self.note(id);
        true
    }

    /// Makes the file as long as that: what is behind is gone, what is new is zeros.
    pub fn set_len(&mut self, id: FileId, len: u64) {
        let is_less = len < self.content(id).data_len();
        if let Some(content) = self.contents.get_mut(id.0) {
            content.len = len;
            if len < content.written_end() {
                content.cut_written(len);
                content.recipe = None;
            }
            if let Some(base) = &mut content.base {
                base.len = base.len.min(len);
            }
        }
        if is_less {
            self.note(id);
        }
    }

    /// Writes bytes at `position`. They are kept in memory, with all that lies between them and
    /// what was written before: for side files, which are written from one place on.
    ///
    /// # Errors
    /// If the file on the disk cannot be read.
    pub fn write_at(&mut self, id: FileId, bytes: &[u8], position: u64) -> Result<(), Error> {
        self.keep(id)?;
        let end = position.saturating_add(bytes.len() as u64);
        let content = self.content(id);
        let (known_at, known_end) = match content.written_end() {
            0 => (position, position),
            known_end => (content.written_at, known_end),
        };
        // What lies between is written as well, so that it is one piece.
        let in_front = self.bytes_between(id, end, known_at)?;
        let behind = self.bytes_between(id, known_end, position)?;
        if let Some(content) = self.contents.get_mut(id.0)
            && let Written::Kept(written) = &mut content.written
        {
            let written = Arc::make_mut(written);
            content.written_at = known_at.min(position);
            if position < known_at {
                let size = usize::try_from(known_at - position).unwrap_or(usize::MAX);
                let front = [bytes, &in_front].concat();
                written.splice(..0, front.into_iter().take(size));
            }
            written.extend_from_slice(&behind);
            let start = usize::try_from(position - content.written_at).unwrap_or(usize::MAX);
            let end = start.saturating_add(bytes.len());
            if written.len() < end {
                written.resize(end, 0);
            }
            if let Some(room) = written.get_mut(start..end) {
                room.copy_from_slice(bytes);
            }
        }
        if let Some(content) = self.contents.get_mut(id.0) {
            content.len = content.len.max(end);
            content.recipe = None;
        }
        self.note(id);
        Ok(())
    }

    fn bytes_between(&self, id: FileId, start: u64, end: u64) -> Result<Vec<u8>, Error> {
        let size = usize::try_from(end.saturating_sub(start)).unwrap_or(usize::MAX);
        let mut between = vec![0; size];
        if size > 0 {
            self.read_at(id, &mut between, start)?;
        }
        Ok(between)
    }

    /// Takes what was written into memory, if it is not there: for a file that is read here and
    /// there.
    ///
    /// # Errors
    /// If the file on the disk cannot be read.
    pub fn keep(&mut self, id: FileId) -> Result<(), Error> {
        let bytes = match &self.content(id).written {
            Written::Kept(_) => return Ok(()),
            remade @ Written::Remade(..) => self.written_bytes(remade)?.into_owned(),
        };
        if let Some(content) = self.contents.get_mut(id.0) {
            content.written = Written::Kept(Arc::new(bytes));
        }
        Ok(())
    }

    /// Takes the next `len` bytes of another file over behind what `id` has of it already; whether
    /// they follow those.
    pub fn append_part(&mut self, id: FileId, from: FileId, position: u64, len: u64) -> bool {
        let Some(source) = self.content(from).base.clone() else {
            return false;
        };
        let start = source.start + position;
        let Some(content) = self.contents.get_mut(id.0) else {
            return false;
        };
        let base = content.base.get_or_insert(Base {
            name: source.name.clone(),
            start,
            len: 0,
        });
        let follows = base.name == source.name && base.start + base.len == start;
        if follows {
            base.len += len;
            content.len = content.len.max(base.len);
        }
        follows
    }

    /// Forgets what was written to a file where it is what was there before.
    ///
    /// # Errors
    /// If the file on the disk cannot be read.
    pub fn settle(&mut self, id: FileId) -> Result<(), Error> {
        let content = self.content(id);
        let Some((name, size)) = self.original.get(id.0).cloned() else {
            return Ok(());
        };
        let Written::Kept(written) = &content.written else {
            return Ok(());
        };
        let kept = content.base.as_ref().map_or(0, |base| base.len);
        let end = content.written_end();
        // What was cut off in front of it may be others than the zeros that are there now.
        if written.is_empty() || end > size || content.written_at > kept {
            return Ok(());
        }
        let mut before = vec![0; written.len()];
        let original = Base {
            name: name.clone(),
            start: 0,
            len: size,
        };
        self.open_base(&original, Io::Read)?
            .read_exact_at(&mut before, content.written_at)?;
        if before == **written
            && let Some(content) = self.contents.get_mut(id.0)
        {
            let (start, len) = (0, kept.max(end));
            content.written = Written::default();
            content.base = Some(Base { name, start, len });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overlay(files: &[(&str, &[u8])]) -> (tempfile::TempDir, Overlay) {
        let dir = tempfile::tempdir().unwrap();
        for (name, bytes) in files {
            std::fs::write(dir.path().join(name), bytes).unwrap();
        }
        let overlay = Overlay::new(&PartitionDir::open(dir.path()).unwrap(), Io::Mmap).unwrap();
        (dir, overlay)
    }

    fn bytes(overlay: &Overlay, name: &str) -> Vec<u8> {
        let id = overlay.find(OsStr::new(name)).unwrap();
        overlay.open(id).unwrap().read_all().unwrap().into_owned()
    }

    fn changes(overlay: &Overlay) -> Vec<(String, Change)> {
        let changes = overlay.changes(|name| name == "index").unwrap();
        changes
            .into_iter()
            .map(|(name, change, _)| (name.into_string().unwrap(), change))
            .collect()
    }

    #[test]
    fn a_cut_file_is_its_first_bytes() {
        let (dir, mut overlay) = overlay(&[("log", b"abcdef")]);
        let id = overlay.find(OsStr::new("log")).unwrap();
        overlay.set_len(id, 2);
        assert_eq!(bytes(&overlay, "log"), b"ab");
        assert_eq!(std::fs::read(dir.path().join("log")).unwrap(), b"abcdef");
        let cut = Change::Cut { size_in_bytes: 2 };
        assert_eq!(changes(&overlay), [("log".to_owned(), cut)]);
    }

    /// What is written far behind the beginning takes no more memory than it has bytes.
    #[test]
    fn bytes_written_far_behind_leave_those_in_front_on_the_disk() {
        let (dir, _) = overlay(&[("index", b"abcdef")]);
        let path = dir.path().join("index");
        let file = std::fs::File::options().write(true).open(path).unwrap();
        file.set_len(1 << 40).unwrap();
        let mut overlay = Overlay::new(&PartitionDir::open(dir.path()).unwrap(), Io::Mmap).unwrap();
        let id = overlay.find(OsStr::new("index")).unwrap();
        let read = |overlay: &Overlay, position| {
            let mut bytes = [9; 4];
            overlay.read_at(id, &mut bytes, position).unwrap();
            bytes
        };
        overlay.write_at(id, b"yz", (1 << 40) - 1).unwrap();
        overlay.write_at(id, b"x", (1 << 40) - 2).unwrap();
        overlay.write_at(id, b"Z", 1 << 40).unwrap();
        assert_eq!(overlay.len(id), (1 << 40) + 1);
        assert_eq!(read(&overlay, 0), *b"abcd");
        assert_eq!(read(&overlay, (1 << 40) - 3), *b"\0xyZ");
        assert_eq!(overlay.content(id).written.len(), 3);
        // In front of what was written.
        overlay.set_len(id, 9);
        overlay.write_at(id, b"89", 8).unwrap();
        overlay.write_at(id, b"BC", 1).unwrap();
        assert_eq!(bytes(&overlay, "index"), b"aBCdef\0\089");
        assert_eq!(overlay.content(id).written_at, 1);
        let rewritten = Change::Rewritten { size_in_bytes: 10 };
        assert_eq!(changes(&overlay), [("index".to_owned(), rewritten)]);
    }

    #[test]
    fn what_was_cut_off_does_not_come_back() {
        let (_dir, mut overlay) = overlay(&[("index", b"abcdef")]);
        let id = overlay.find(OsStr::new("index")).unwrap();
        overlay.set_len(id, 2);
        overlay.set_len(id, 6);
        let mut read = [1; 6];
        overlay.read_at(id, &mut read, 0).unwrap();
        assert_eq!(&read, b"ab\0\0\0\0");
    }

    #[test]
    fn bytes_written_in_front_leave_those_behind() {
        let (_dir, mut overlay) = overlay(&[("index", b"abcdef")]);
        let id = overlay.find(OsStr::new("index")).unwrap();
        overlay.write_at(id, b"X", 1).unwrap();
        assert_eq!(bytes(&overlay, "index"), b"aXcdef");
        overlay.write_at(id, b"b", 1).unwrap();
        overlay.settle(id).unwrap();
        assert_eq!(changes(&overlay), []);
    }

    #[test]
    fn a_file_that_is_written_over_by_a_renamed_one_is_gone() {
        let (_dir, mut overlay) = overlay(&[("log", b"old"), ("log.swap", b"new!")]);
        overlay.rename(OsStr::new("log.swap"), OsStr::new("log"));
        assert_eq!(bytes(&overlay, "log"), b"new!");
        let to = OsString::from("log");
        let expected = [
            ("log".to_owned(), Change::Removed),
            ("log.swap".to_owned(), Change::Renamed { to }),
        ];
        assert_eq!(changes(&overlay), expected);
    }

    #[test]
    fn pieces_of_a_file_are_its_bytes() {
        let (_dir, mut overlay) = overlay(&[("log", b"abcdef")]);
        let from = overlay.find(OsStr::new("log")).unwrap();
        let piece = overlay.create(OsStr::new("piece"));
        assert!(overlay.append_part(piece, from, 2, 2));
        assert!(overlay.append_part(piece, from, 4, 1));
        assert!(
            !overlay.append_part(piece, from, 0, 1),
            "it does not follow"
        );
        assert_eq!(bytes(&overlay, "piece"), b"cde");
    }
}
