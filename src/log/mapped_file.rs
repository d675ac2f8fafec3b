//! A file of bytes that is only ever read: memory-mapped, or read piece by piece.
//!
//! The one module with `unsafe` code for memory maps. A broker may truncate a file while it is
//! mapped; touching a page that is gone raises SIGBUS. The handler of this module puts a page of
//! zeros in its place and marks the mapping, so that the reader ends in
//! [`Error::ChangedWhileReading`] and the process lives on.

#![allow(
    unsafe_code,
    reason = "memory maps, and the SIGBUS handler that keeps them safe"
)]

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

use memmap2::Mmap;

use super::Error;

/// How the bytes of a file are reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Io {
    /// A memory map; files that cannot be mapped are read.
    #[default]
    Mmap,
    /// `pread` into a buffer. For file systems where a map misbehaves.
    Read,
}

/// A file that was not written to for so long has no write under way.
const RECENT_WRITE: Duration = Duration::from_secs(2);
/// How long a write may rest between two of its pieces, and how often to look meanwhile.
const WRITE_PAUSE: Duration = Duration::from_millis(100);
/// What a writer is given to finish what it is doing, before bytes are called wrong.
const SETTLING: Duration = Duration::from_millis(20);
const WRITE_POLL: Duration = Duration::from_millis(2);

/// Files up to this size are copied to be looked at twice: six times Kafka's default for an index.
const MAX_COPIED: u64 = 64 << 20;
/// How often a file that changes is looked at.
const MAX_LOOKS: u32 = 20;

/// An open file whose length was fixed when it was opened: bytes that a broker appends later
/// are not part of it.
#[derive(Debug)]
pub struct MappedFile {
    path: PathBuf,
    /// Where in the file on the disk the bytes begin.
    start: u64,
    len: u64,
    /// Whether the file went on behind these bytes when it was opened, and is not looked at there.
    is_part: bool,
    /// When the file had last been written to as it was opened.
    modified: Option<SystemTime>,
    bytes: Bytes,
}

#[derive(Debug)]
enum Bytes {
    Map {
        map: Mmap,
        slot: &'static Slot,
        /// Kept to ask for the size, whatever name the file has by then.
        file: File,
    },
    File(File),
    /// No file on the disk has these bytes.
    Memory(Vec<u8>),
}

impl MappedFile {
    /// Opens a regular file for reading, changing nothing about it.
    ///
    /// # Errors
    /// If it cannot be opened or is not a regular file.
    pub fn open(path: &Path, io: Io) -> Result<Self, Error> {
        Self::of_file(path, open_regular(path)?, None, io)
    }

    /// Takes a file that is open for reading; its length is `len`, or what it is now.
    ///
    /// # Errors
    /// If its length cannot be asked for.
    pub(super) fn of_file(
        path: &Path,
        file: File,
        len: Option<u64>,
        io: Io,
    ) -> Result<Self, Error> {
        let metadata = file.metadata().map_err(|source| Error::io(path, source))?;
        let len = len.unwrap_or(metadata.len());
        Ok(Self::of_part(path, file, (0, len), false, io))
    }

    /// Opens up to `len` bytes of a regular file from `start` on, as if they were a file of their
    /// own.
    ///
    /// # Errors
    /// If it cannot be opened or is not a regular file.
    pub fn open_part(path: &Path, io: Io, start: u64, len: u64) -> Result<Self, Error> {
        let file = open_regular(path)?;
        let metadata = file.metadata().map_err(|source| Error::io(path, source))?;
        let available = metadata.len().saturating_sub(start);
        let is_part = len < available;
        let part = (start, available.min(len));
        Ok(Self::of_part(path, file, part, is_part, io))
    }

    /// Up to `len` of its bytes from `start` on, as if they were a file of their own.
    ///
    /// # Errors
    /// If it cannot be opened once more.
    pub(super) fn part(self, start: u64, len: u64) -> Result<Self, Error> {
        if start == 0 && len >= self.len {
            return Ok(self);
        }
        let available = self.len.saturating_sub(start);
        let (io, file) = match &self.bytes {
            Bytes::Map { file, .. } => (Io::Mmap, file),
            Bytes::File(file) => (Io::Read, file),
            Bytes::Memory(bytes) => {
                let skip = usize::try_from(start).unwrap_or(usize::MAX);
                let take = usize::try_from(len).unwrap_or(usize::MAX);
                let bytes = bytes.iter().copied().skip(skip).take(take).collect();
                return Ok(Self::from_bytes(&self.path, bytes));
            }
        };
        let file = file.try_clone();
        let file = file.map_err(|source| Error::io(&self.path, source))?;
        let part = (start, available.min(len));
        Ok(Self::of_part(&self.path, file, part, len < available, io))
    }

    fn of_part(path: &Path, file: File, part: (u64, u64), is_part: bool, io: Io) -> Self {
        let (start, len) = part;
        let modified = file.metadata().and_then(|it| it.modified()).ok();
        let bytes = match io {
            Io::Mmap if len > 0 => Self::map(file, start, len),
            Io::Mmap | Io::Read => Bytes::File(file),
        };
        Self {
            path: path.to_owned(),
            start,
            len,
            is_part,
            modified,
            bytes,
        }
    }

    /// Bytes that no file on the disk has, under the name they would have there.
    #[must_use]
    pub fn from_bytes(path: &Path, bytes: Vec<u8>) -> Self {
        Self {
            path: path.to_owned(),
            start: 0,
            len: bytes.len() as u64,
            is_part: false,
            modified: None,
            bytes: Bytes::Memory(bytes),
        }
    }

    /// Maps `len` bytes of `file`; where that cannot be done the file is read instead.
    fn map(file: File, start: u64, len: u64) -> Bytes {
        install_handler();
        let Ok(map_len) = usize::try_from(len) else {
            return Bytes::File(file);
        };
        // SAFETY: a map is unsafe because others may change the file under it. Changed bytes are
        // just other bytes to this crate, which trusts none of them and reads them through
        // `&[u8]` only; a file cut short raises SIGBUS, which the handler turns into zeros.
        let map = unsafe {
            memmap2::MmapOptions::new()
                .offset(start)
                .len(map_len)
                .map(&file)
        };
        match map {
            Ok(map) => {
                let slot = Slot::take(map.as_ptr() as usize, map_len);
                Bytes::Map { map, slot, file }
            }
            Err(_) => Bytes::File(file),
        }
    }

    /// The path it was opened by.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes in the file when it was opened.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether the file was empty when it was opened.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All bytes, if the file is mapped; an empty file always is.
    #[must_use]
    #[inline]
    pub fn mapped(&self) -> Option<&[u8]> {
        match &self.bytes {
            Bytes::Map { map, .. } => Some(map),
            Bytes::Memory(bytes) => Some(bytes),
            Bytes::File(_) if self.len == 0 => Some(&[]),
            Bytes::File(_) => None,
        }
    }

    /// Whether the file was cut short, or could not be read, since it was opened.
    ///
    /// Bytes seen before this turns true may have been zeros that are not in the file.
    #[must_use]
    #[inline]
    pub fn has_changed(&self) -> bool {
        match &self.bytes {
            Bytes::Map { slot, .. } => slot.faulted.load(Ordering::Relaxed),
            Bytes::File(_) | Bytes::Memory(_) => false,
        }
    }

    /// An error if [`MappedFile::has_changed`].
    ///
    /// # Errors
    /// [`Error::ChangedWhileReading`].
    pub fn check_unchanged(&self) -> Result<(), Error> {
        if self.has_changed() {
            Err(self.changed())
        } else {
            Ok(())
        }
    }

    /// Whether a broker is writing to the file: it is longer now than when it was opened, or,
    /// written to a moment ago, becomes so within another.
    ///
    /// A write may rest between two of its pieces, so the size of one instant does not tell.
    #[must_use]
    pub fn is_growing(&self) -> bool {
        if self.is_part {
            return false;
        }
        let started = Instant::now();
        loop {
            let Some(metadata) = self.metadata() else {
                return false;
            };
            if metadata.len() > self.start.saturating_add(self.len) {
                return true;
            }
            let age = metadata
                .modified()
                .ok()
                .and_then(|time| time.elapsed().ok());
            if age.is_none_or(|age| age > RECENT_WRITE) || started.elapsed() > WRITE_PAUSE {
                return false;
            }
            std::thread::sleep(WRITE_POLL);
        }
    }

    /// As [`MappedFile::check_unchanged`], and asks for the file's size.
    ///
    /// A file cut inside its last page raises no signal: the page shows zeros behind the cut.
    /// So what looks wrong, and the end of a walk, is checked by this.
    ///
    /// # Errors
    /// [`Error::ChangedWhileReading`].
    pub fn check_not_cut(&self) -> Result<(), Error> {
        self.check_unchanged()?;
        match self.current_len() {
            Some(len) if len < self.start.saturating_add(self.len) => Err(self.changed()),
            Some(_) | None => Ok(()),
        }
    }

    /// As [`MappedFile::check_not_cut`], for bytes that look wrong: where the file has been written
    /// to since it was opened, it lets the writer get on and looks at them once more.
    ///
    /// A follower that truncates and writes again has the file as long as before within an
    /// instant; what was seen in between are zeros that are not there any more.
    ///
    /// # Errors
    /// [`Error::ChangedWhileReading`] if the bytes at `position` are no longer those in `seen`.
    pub fn check_settled(&self, position: u64, seen: &[u8]) -> Result<(), Error> {
        self.check_not_cut()?;
        let modified = self.metadata().and_then(|it| it.modified().ok());
        if modified == self.modified {
            return Ok(());
        }
        std::thread::sleep(SETTLING);
        let (Bytes::Map { file, .. } | Bytes::File(file)) = &self.bytes else {
            return Ok(());
        };
        let mut now = vec![0; seen.len()];
        match file.read_exact_at(&mut now, self.start.saturating_add(position)) {
            Ok(()) if now == seen => Ok(()),
            Ok(()) | Err(_) => Err(self.changed()),
        }
    }

    fn current_len(&self) -> Option<u64> {
        Some(self.metadata()?.len())
    }

    fn metadata(&self) -> Option<std::fs::Metadata> {
        let (Bytes::Map { file, .. } | Bytes::File(file)) = &self.bytes else {
            return None;
        };
        file.metadata().ok()
    }

    pub(super) fn changed(&self) -> Error {
        Error::ChangedWhileReading {
            path: self.path.clone(),
        }
    }

    /// Fills `buffer` with the bytes at `position`, mapped or not.
    ///
    /// # Errors
    /// If the file ends before that or cannot be read.
    pub fn read_exact_at(&self, buffer: &mut [u8], position: u64) -> Result<(), Error> {
        if let Some(map) = self.mapped() {
            let start = usize::try_from(position).unwrap_or(usize::MAX);
            let end = start.saturating_add(buffer.len());
            let bytes = map.get(start..end).ok_or_else(|| self.changed())?;
            buffer.copy_from_slice(bytes);
            return self.check_unchanged();
        }
        let (Bytes::Map { file, .. } | Bytes::File(file)) = &self.bytes else {
            return Ok(());
        };
        file.read_exact_at(buffer, self.start.saturating_add(position))
            .map_err(|source| {
                if source.kind() == io::ErrorKind::UnexpectedEof {
                    self.changed()
                } else {
                    Error::io(&self.path, source)
                }
            })
    }

    /// As [`MappedFile::read_all`], as the bytes were at one moment: a broker writes to the indexes
    /// of its active segment in place, and one that is decoded meanwhile seems to have entries
    /// behind its end.
    ///
    /// Files too large for an index, and files that never come to rest, are given as they are.
    ///
    /// # Errors
    /// If the file cannot be read whole.
    pub fn read_settled(&self) -> Result<std::borrow::Cow<'_, [u8]>, Error> {
        if self.len > MAX_COPIED {
            return self.read_all();
        }
        let mut bytes = self.read_all()?.into_owned();
        for _ in 0..MAX_LOOKS {
            let again = self.read_all()?;
            if *again == *bytes {
                break;
            }
            bytes = again.into_owned();
        }
        Ok(std::borrow::Cow::Owned(bytes))
    }

    /// All bytes: the map itself, or a copy where the file is not mapped.
    ///
    /// For small files; a segment is walked instead.
    ///
    /// # Errors
    /// If the file cannot be read whole.
    pub fn read_all(&self) -> Result<std::borrow::Cow<'_, [u8]>, Error> {
        if let Some(bytes) = self.mapped() {
            return Ok(std::borrow::Cow::Borrowed(bytes));
        }
        let len = usize::try_from(self.len).map_err(|_| self.changed())?;
        // The length is the file's own, not one it claims, but a sparse file has any length.
        let mut buffer = Vec::new();
        buffer
            .try_reserve_exact(len)
            .map_err(|_| Error::io(&self.path, io::ErrorKind::OutOfMemory.into()))?;
        buffer.resize(len, 0);
        self.read_exact_at(&mut buffer, 0)?;
        Ok(std::borrow::Cow::Owned(buffer))
    }
}

impl Drop for MappedFile {
    fn drop(&mut self) {
        if let Bytes::Map { slot, .. } = &self.bytes {
            slot.release();
        }
    }
}

/// Asks the processor to fetch the bytes at `position` ahead of their use.
///
/// A walk over small batches is bound by memory latency, since each length must arrive before
/// the next batch is known; fetching a little ahead hides most of it.
#[inline]
pub(super) fn prefetch(bytes: &[u8], position: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(byte) = bytes.get(position) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing and never faults, and the address is in `bytes`.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(byte).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (bytes, position);
}

/// Opens a regular file for reading. Nothing else is opened: opening alone may make a device do
/// something.
pub(super) fn open_regular(path: &Path) -> Result<File, Error> {
    let io = |source| Error::io(path, source);
    let not_a_file = || Error::NotAFile {
        path: path.to_owned(),
    };
    if !std::fs::metadata(path).map_err(io)?.is_file() {
        return Err(not_a_file());
    }
    let file = open_read_only(path).map_err(io)?;
    // Something else may have taken the name meanwhile.
    if !file.metadata().map_err(io)?.is_file() {
        return Err(not_a_file());
    }
    Ok(file)
}

/// Opens without touching the access time where the owner may, and without waiting for a writer
/// if the path is a FIFO.
fn open_read_only(path: &Path) -> io::Result<File> {
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    #[cfg(target_os = "linux")]
    {
        let no_atime = flags | libc::O_NOATIME;
        match OpenOptions::new()
            .read(true)
            .custom_flags(no_atime)
            .open(path)
        {
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => {}
            opened => return opened,
        }
    }
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

/// One mapping that the SIGBUS handler knows. Slots are never freed, only used again, so the
/// handler can walk their list at any moment.
#[derive(Debug)]
struct Slot {
    start: AtomicUsize,
    len: AtomicUsize,
    in_use: AtomicBool,
    faulted: AtomicBool,
    next: AtomicPtr<Slot>,
}

static SLOTS: AtomicPtr<Slot> = AtomicPtr::new(std::ptr::null_mut());

/// Asked for once, since a signal handler may not.
static PAGE_SIZE: AtomicUsize = AtomicUsize::new(4096);

impl Slot {
    fn take(start: usize, len: usize) -> &'static Self {
        let slot = Self::reuse().unwrap_or_else(Self::add);
        slot.faulted.store(false, Ordering::Relaxed);
        slot.len.store(len, Ordering::Relaxed);
        slot.start.store(start, Ordering::Release);
        slot
    }

    fn reuse() -> Option<&'static Self> {
        slots().find(|slot| {
            slot.in_use
                .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
        })
    }

    fn add() -> &'static Self {
        let slot: &'static Self = Box::leak(Box::new(Self {
            start: AtomicUsize::new(0),
            len: AtomicUsize::new(0),
            in_use: AtomicBool::new(true),
            faulted: AtomicBool::new(false),
            next: AtomicPtr::new(std::ptr::null_mut()),
        }));
        let pointer = std::ptr::from_ref(slot).cast_mut();
        let mut head = SLOTS.load(Ordering::Acquire);
        loop {
            slot.next.store(head, Ordering::Relaxed);
            match SLOTS.compare_exchange(head, pointer, Ordering::Release, Ordering::Acquire) {
                Ok(_) => return slot,
                Err(newer) => head = newer,
            }
        }
    }

    fn release(&self) {
        self.start.store(0, Ordering::Relaxed);
        self.len.store(0, Ordering::Relaxed);
        self.in_use.store(false, Ordering::Release);
    }

    fn contains(&self, address: usize) -> bool {
        let start = self.start.load(Ordering::Acquire);
        start != 0 && address.wrapping_sub(start) < self.len.load(Ordering::Relaxed)
    }
}

fn slots() -> impl Iterator<Item = &'static Slot> {
    let mut pointer = SLOTS.load(Ordering::Acquire);
    std::iter::from_fn(move || {
        // SAFETY: the list holds leaked boxes only, so every non-null pointer stays valid.
        let slot = unsafe { pointer.as_ref() }?;
        pointer = slot.next.load(Ordering::Acquire);
        Some(slot)
    })
}

fn install_handler() {
    static INSTALLED: Once = Once::new();
    // SAFETY: the struct is plain data for which zero is a valid value; the handler is a
    // function of the signature that SA_SIGINFO asks for and calls only functions that are safe
    // in a signal handler.
    INSTALLED.call_once(|| unsafe {
        let page = libc::sysconf(libc::_SC_PAGESIZE);
        PAGE_SIZE.store(usize::try_from(page).unwrap_or(4096), Ordering::Relaxed);
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_sigbus as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        libc::sigemptyset(&raw mut action.sa_mask);
        libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut());
    });
}

/// Puts zeros where a page of a known mapping is gone; any other SIGBUS keeps its meaning.
extern "C" fn on_sigbus(
    _signal: libc::c_int,
    info: *mut libc::siginfo_t,
    _context: *mut libc::c_void,
) {
    // SAFETY: the kernel hands a valid siginfo to an SA_SIGINFO handler. `mmap` with MAP_FIXED
    // replaces one page inside a mapping that a live `MappedFile` owns, so nothing else is hit;
    // `sigaction` with SIG_DFL restores the default, under which the access is tried again.
    unsafe {
        let address = (*info).si_addr() as usize;
        if let Some(slot) = slots().find(|slot| slot.contains(address)) {
            slot.faulted.store(true, Ordering::Relaxed);
            let page = PAGE_SIZE.load(Ordering::Relaxed);
            let start = address & !(page - 1);
            let mapped = libc::mmap(
                start as *mut libc::c_void,
                page,
                libc::PROT_READ,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
                -1,
                0,
            );
            if mapped != libc::MAP_FAILED {
                return;
            }
        }
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = libc::SIG_DFL;
        libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut());
    }
}
