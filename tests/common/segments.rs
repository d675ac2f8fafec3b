//! Segments of fixtures as bytes, and what a walk sees in bytes.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use kseg::log::batches::{BatchWalk, Entry};
use kseg::log::damage::{Damage, DamageKind};
use kseg::log::mapped_file::MappedFile;
use kseg::log::{Error, Io};

/// The folder of all fixtures.
pub fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}

/// One thing a walk came across.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// A batch of magic 2.
    Batch(SeenBatch),
    /// An entry of magic 0 or 1.
    Legacy(SeenBatch),
    /// No batch.
    Damage(Damage),
}

/// A batch, without its place in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenBatch {
    pub position: u64,
    pub size: u64,
    pub base_offset: i64,
    pub is_valid: bool,
}

impl Seen {
    pub fn position(&self) -> u64 {
        match self {
            Self::Batch(batch) | Self::Legacy(batch) => batch.position,
            Self::Damage(damage) => damage.position,
        }
    }

    pub fn size(&self) -> u64 {
        match self {
            Self::Batch(batch) | Self::Legacy(batch) => batch.size,
            Self::Damage(damage) => damage.size_in_bytes,
        }
    }

    pub fn damage(&self) -> Option<&Damage> {
        match self {
            Self::Batch(_) | Self::Legacy(_) => None,
            Self::Damage(damage) => Some(damage),
        }
    }

    pub fn batch(&self) -> Option<&SeenBatch> {
        match self {
            Self::Batch(batch) | Self::Legacy(batch) => Some(batch),
            Self::Damage(_) => None,
        }
    }

    /// The kind, of damage.
    pub fn kind(&self) -> Option<DamageKind> {
        self.damage().map(|damage| damage.kind)
    }
}

/// Walks a file from end to end.
pub fn walk_file(path: &Path, io: Io) -> Result<Vec<Seen>, Error> {
    let file = MappedFile::open(path, io)?;
    let mut walk = BatchWalk::new(&file);
    let mut seen = Vec::new();
    while let Some(entry) = walk.next_entry() {
        seen.push(match entry? {
            Entry::Batch(batch) => {
                batch.records()?;
                batch.control_record()?;
                Seen::Batch(SeenBatch {
                    position: batch.position,
                    size: batch.size_in_bytes(),
                    base_offset: batch.header.base_offset(),
                    is_valid: batch.is_valid()?,
                })
            }
            Entry::Legacy(entry) => Seen::Legacy(SeenBatch {
                position: entry.position,
                size: entry.size_in_bytes(),
                base_offset: entry.header.offset(),
                is_valid: entry.is_valid()?,
            }),
            Entry::Damage(damage) => Seen::Damage(*damage),
        });
    }
    Ok(seen)
}

/// A folder that lasts as long as the test, for files that nobody is writing to.
pub struct Scratch {
    dir: tempfile::TempDir,
}

impl Scratch {
    pub fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    pub fn path(&self) -> PathBuf {
        self.dir.path().join("00000000000000000000.log")
    }

    /// Walks `bytes` as a file, mapped and read, and checks what holds for any bytes: both see
    /// the same, and what they see covers the file without gap or overlap.
    pub fn walk(&self, bytes: &[u8]) -> Vec<Seen> {
        let path = self.path();
        fs::write(&path, bytes).unwrap();
        // A torn tail of a file written a moment ago is waited for.
        let old = SystemTime::now() - Duration::from_secs(3600);
        let file = File::options().write(true).open(&path).unwrap();
        file.set_modified(old).unwrap();
        let seen = walk_file(&path, Io::Mmap).unwrap();
        assert_eq!(
            seen,
            walk_file(&path, Io::Read).unwrap(),
            "mapped is not read"
        );
        assert_tiles(&seen, bytes.len() as u64);
        seen
    }
}

/// Positions and sizes cover everything up to `len`, in order and without overlap.
pub fn assert_tiles(seen: &[Seen], len: u64) {
    let mut position = 0;
    for entry in seen {
        assert_eq!(entry.position(), position, "gap or overlap at {entry:?}");
        assert!(entry.size() > 0, "{entry:?}");
        position += entry.size();
    }
    assert_eq!(position, len, "the end is not covered");
}

/// Bytes of whole batches, and where each lies.
#[derive(Clone, Debug)]
pub struct Segment {
    pub name: &'static str,
    pub bytes: Vec<u8>,
    /// Position and size.
    pub batches: Vec<(usize, usize)>,
}

impl Segment {
    /// The last `count` batches of a segment of a fixture.
    pub fn of_fixture(name: &'static str, count: usize) -> Self {
        let bytes = fs::read(fixtures().join(name)).unwrap();
        let mut batches = batches_of(&bytes);
        assert!(
            batches.len() >= count,
            "{name} has {} batches",
            batches.len()
        );
        batches.drain(..batches.len() - count);
        let start = batches[0].0;
        for (position, _) in &mut batches {
            *position -= start;
        }
        Self {
            name,
            bytes: bytes[start..].to_vec(),
            batches,
        }
    }

    /// The bytes of one batch.
    pub fn batch(&self, index: usize) -> &[u8] {
        let (position, size) = self.batches[index];
        &self.bytes[position..position + size]
    }

    /// Index, position and size of the last batch.
    pub fn last(&self) -> (usize, usize, usize) {
        let index = self.batches.len() - 1;
        let (position, size) = self.batches[index];
        (index, position, size)
    }
}

/// Batches by their size fields alone: nothing of the code under test.
pub fn batches_of(bytes: &[u8]) -> Vec<(usize, usize)> {
    let mut batches = Vec::new();
    let mut position = 0;
    while position < bytes.len() {
        let length = i32::from_be_bytes(bytes[position + 8..position + 12].try_into().unwrap());
        let size = 12 + usize::try_from(length).unwrap();
        batches.push((position, size));
        position += size;
    }
    assert_eq!(position, bytes.len(), "not whole batches");
    batches
}

/// The magic byte of a batch.
pub fn magic(batch: &[u8]) -> i8 {
    i8::from_be_bytes([batch[16]])
}

/// Makes the checksum of a batch right again.
pub fn reseal(batch: &mut [u8]) {
    if magic(batch) == 2 {
        let crc = crc32c::crc32c(&batch[21..]);
        batch[17..21].copy_from_slice(&crc.to_be_bytes());
    } else {
        let crc = crc32fast::hash(&batch[16..]);
        batch[12..16].copy_from_slice(&crc.to_be_bytes());
    }
}

/// Numbers that look random and are the same in every run.
pub struct Noise(pub u64);

impl Noise {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        let words = (0..count.div_ceil(8)).map(|_| self.next().to_be_bytes());
        let mut bytes = words.collect::<Vec<_>>().concat();
        bytes.truncate(count);
        bytes
    }
}
