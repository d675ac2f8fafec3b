//! Damage at random to the files of one partition directory, by a seed.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::segments::{magic, reseal};

/// A small generator whose numbers are the same everywhere (`xorshift64*`).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64, case: u64) -> Self {
        let mixed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (case + 1).wrapping_mul(0xbf58_476d);
        Self(mixed | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() >> 11).unwrap() % end.max(1)
    }

    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

/// Names of the files, sorted.
fn files(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Base offsets of the segments.
pub(crate) fn base_offsets(dir: &Path) -> Vec<i64> {
    let files = files(dir);
    let logs = files.iter().filter_map(|name| name.strip_suffix(".log"));
    logs.filter_map(|base| base.parse().ok()).collect()
}

/// Damages the directory in one place; says how.
pub(crate) fn damage(dir: &Path, random: &mut Random) -> Option<String> {
    let files = files(dir);
    let of =
        |suffix: &str| -> Vec<&String> { files.iter().filter(|it| it.ends_with(suffix)).collect() };
    let what = *random.pick(&[
        ".log",
        ".log",
        ".log",
        ".log",
        "batches",
        "batches",
        "batches",
        "batches",
        ".index",
        ".index",
        ".timeindex",
        ".txnindex",
        ".txnindex",
        ".snapshot",
        ".snapshot",
        ".snapshot",
        "rows",
        "checkpoint",
        "metadata",
        "segment",
        "segment",
        "all",
        "name",
        "length",
        "length",
    ]);
    let fitting = match what {
        "segment" => return move_segment(dir, random),
        "all" => {
            let suffix = *random.pick(&[".snapshot", ".txnindex", ".index", ".timeindex"]);
            for name in of(suffix) {
                fs::remove_file(dir.join(name)).unwrap();
            }
            return Some(format!("no {suffix}"));
        }
        "name" => return Some(odd_name(dir, &files, random)),
        "length" => {
            let indexes = [".index", ".timeindex", ".txnindex", ".swap", ".snapshot"];
            let suffix = *random.pick(&indexes);
            of(suffix)
        }
        "batches" => of(".log"),
        "rows" => of(".snapshot"),
        suffix => of(suffix),
    };
    if fitting.is_empty() {
        return None;
    }
    let name = *random.pick(&fitting);
    let how = match what {
        "batches" => change_batches(&dir.join(name), random),
        "rows" => change_rows(&dir.join(name), random),
        "length" => Some(change_length(&dir.join(name), random)),
        _ => change_file(dir, name, random),
    };
    how.map(|how| format!("{name}: {how}"))
}

fn change_file(dir: &Path, name: &str, random: &mut Random) -> Option<String> {
    let path = dir.join(name);
    let mut bytes = fs::read(&path).unwrap();
    let size = bytes.len();
    let how = match random.below(10) {
        0 | 1 => {
            bytes.truncate(random.below(size + 1));
            format!("cut to {}", bytes.len())
        }
        2 | 3 if size > 0 => {
            let at = random.below(size);
            bytes[at] ^= 1 << random.below(8);
            format!("flip in byte {at}")
        }
        4 if size > 0 => {
            let at = random.below(size);
            bytes[at..].fill(0);
            format!("zeros from {at}")
        }
        5 => {
            let more = *random.pick(&[1, 3, 8, 12, 17, 18, 40, 200]);
            bytes.resize(size + more, 0);
            format!("{more} zeros more")
        }
        6 => {
            let more = *random.pick(&[3, 8, 12, 34, 70]);
            bytes.extend((0..more).map(|_| u8::try_from(random.below(256)).unwrap()));
            format!("{more} bytes more")
        }
        7 => {
            fs::remove_file(&path).unwrap();
            return Some("removed".to_owned());
        }
        8 if name.ends_with(".log") && size > 61 => {
            far_offsets(&mut bytes, random);
            "offsets far apart".to_owned()
        }
        9 if name.ends_with(".log") && size > 61 => {
            let at = random.below(size / 2);
            let copy = bytes[at..(at + 100).min(size)].to_vec();
            bytes.extend(copy);
            "a piece again at the end".to_owned()
        }
        _ if name.ends_with(".snapshot") => {
            let to = format!("{:020}.snapshot", random.below(200));
            fs::rename(&path, dir.join(&to)).unwrap();
            return Some(format!("renamed to {to}"));
        }
        _ if name.ends_with("checkpoint") => {
            let lines = epoch_lines(random);
            let how = format!("other lines {lines:?}");
            bytes = lines.into_bytes();
            how
        }
        _ => return None,
    };
    fs::write(&path, bytes).unwrap();
    Some(how)
}

/// Another length: none or some entries, or the room of an active segment's index and beyond, no
/// multiple of any entry now and then. What is new is a hole; of a long file the end may be none.
fn change_length(path: &Path, random: &mut Random) -> String {
    const ROOM: u64 = 10 << 20;
    let lengths = [
        0,
        1,
        7,
        8,
        11,
        12,
        13,
        16,
        24,
        33,
        34,
        35,
        68,
        200,
        1000,
        8192,
        8196,
        65_536,
        100_000,
        ROOM - 8,
        ROOM - 4,
        ROOM - 1,
        ROOM,
        ROOM + 1,
        ROOM + 8,
        2 * ROOM + 3,
    ];
    let length = *random.pick(&lengths);
    let file = fs::File::options().write(true).open(path).unwrap();
    let size = file.metadata().unwrap().len();
    file.set_len(length).unwrap();
    let is_full = length > size && random.one_in(3);
    if is_full {
        // An entry behind zeros: the last one, and the only one of the new ones.
        let entry = [0, 0, 0, 40, 0, 0, 0, 100];
        let entry = &entry[..entry.len().min(usize::try_from(length - size).unwrap())];
        file.write_all_at(entry, length - entry.len() as u64)
            .unwrap();
    }
    format!("{length} bytes long, an entry at the end {is_full}")
}

/// A `leader-epoch-checkpoint`, sound more often than not.
fn epoch_lines(random: &mut Random) -> String {
    if random.one_in(2) {
        let fixed = [
            "0\n2\n0 0\n1 5\n",
            "0\n1\n0 0\n1 5\n",
            "1\n0\n",
            "0\n0\n",
            "0\n1\n3 7\n",
            "x",
            "0\n1\n0 x\n",
            "0\n1\n0 0 0\n",
            "0\n1\n-1 0\n",
            "0\n1\n0 -1\n",
            "0\r\n1\r\n0 0\r\n",
            "0\n1\n0 0",
            "0\n2\n0 0\n\n",
            "0\n1\n 0 0\n",
        ];
        return (*random.pick(&fixed)).to_owned();
    }
    let count = random.below(5);
    let mut out = format!("0\n{count}\n");
    let (mut epoch, mut offset) = (0, 0);
    for _ in 0..count {
        out += &format!("{epoch} {offset}\n");
        // Now and then not rising.
        epoch += random.below(4);
        offset += random.below(60);
        if random.one_in(6) {
            (epoch, offset) = (random.below(4), random.below(100));
        }
    }
    out
}

/// A file of an unusual name: a new one, or one that is there.
fn odd_name(dir: &Path, files: &[String], random: &mut Random) -> String {
    let base = random.below(150);
    let names = [
        format!("{base:020}.log"),
        format!("{base:020}.index"),
        format!("{base:020}.timeindex"),
        format!("{base:020}.txnindex"),
        format!("{base:020}.snapshot"),
        format!("{base:020}.log.swap"),
        format!("{base:020}.log.cleaned"),
        format!("{base:020}.log.deleted"),
        format!("{base:020}.index.swap"),
        format!("{base:020}.timeindex.cleaned"),
        format!("{base:020}.snapshot.deleted"),
        format!("{base:020}.log.tmp"),
        format!("{base}.log"),
        format!("{base}.index"),
        format!("{base}.snapshot"),
        format!("-{base}.snapshot"),
        format!("+{base}.snapshot"),
        format!("-{base}.log"),
        format!("-{base}.index"),
        "x.index".to_owned(),
        "x.log.swap".to_owned(),
        "x.deleted".to_owned(),
        "leader-epoch-checkpoint.tmp".to_owned(),
        "partition.metadata.tmp".to_owned(),
        "0.checkpoint.deleted".to_owned(),
        ".log".to_owned(),
    ];
    let name = random.pick(&names).clone();
    if random.one_in(2) || files.is_empty() {
        let size = *random.pick(&[0, 0, 1, 61, 100]);
        fs::write(dir.join(&name), vec![0; size]).unwrap();
        return format!("{name}, new, {size} zeros");
    }
    let from = random.pick(files).clone();
    if random.one_in(2) {
        fs::copy(dir.join(&from), dir.join(&name)).unwrap();
        return format!("{from} copied to {name}");
    }
    fs::rename(dir.join(&from), dir.join(&name)).unwrap();
    format!("{from} renamed to {name}")
}

/// All files of a segment get a suffix, or go; or copies of them get one.
fn move_segment(dir: &Path, random: &mut Random) -> Option<String> {
    let bases = base_offsets(dir);
    if bases.is_empty() {
        return None;
    }
    let base = *random.pick(&bases);
    let suffix = *random.pick(&["", ".deleted", ".cleaned", ".swap", ".swap"]);
    let copies = random.one_in(2);
    for ending in ["log", "index", "timeindex", "txnindex"] {
        let from = dir.join(format!("{base:020}.{ending}"));
        if !from.exists() {
            continue;
        }
        if suffix.is_empty() {
            fs::remove_file(&from).unwrap();
            continue;
        }
        fs::copy(&from, dir.join(format!("{base:020}.{ending}{suffix}"))).unwrap();
        if !copies {
            fs::remove_file(&from).unwrap();
        }
    }
    Some(format!("segment {base} as {suffix:?}, copied {copies}"))
}

/// Where the batches begin and end, as far as their lengths make sense.
fn batches_in(bytes: &[u8]) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut position = 0;
    while let Some(length) = bytes.get(position + 8..position + 12) {
        let length = i32::from_be_bytes(length.try_into().unwrap());
        let Ok(length) = usize::try_from(length) else {
            break;
        };
        let end = position + 12 + length;
        if length < 14 || end > bytes.len() {
            break;
        }
        found.push((position, end));
        position = end;
    }
    found
}

/// Whole batches dropped, repeated or in another order, or a field of one with another value, with
/// the checksum made right again or not.
fn change_batches(path: &Path, random: &mut Random) -> Option<String> {
    let mut bytes = fs::read(path).unwrap();
    let batches = batches_in(&bytes);
    if batches.is_empty() {
        return None;
    }
    let number = random.below(batches.len());
    let (from, to) = batches[number];
    let how = match random.below(8) {
        0 => {
            bytes.drain(from..to);
            format!("without batch {number}")
        }
        1 => {
            let copy = bytes[from..to].to_vec();
            let at = random.pick(&batches).1;
            bytes.splice(at..at, copy);
            format!("batch {number} again at {at}")
        }
        2 if number + 1 < batches.len() => {
            let next = batches[number + 1];
            bytes[from..next.1].rotate_left(to - from);
            format!("batches {number} and the next swapped")
        }
        _ => {
            let all = bytes.clone();
            let batch = &mut bytes[from..to];
            let how = if magic(batch) == 2 && batch.len() >= 61 {
                let other = random.pick(&batches).0;
                change_field(batch, all.get(other..).unwrap_or_default(), random)
            } else {
                let at = random.below(batch.len());
                batch[at] = batch[at].wrapping_add(1);
                format!("byte {at} of a batch")
            };
            let is_sealed = !random.one_in(4) && (magic(batch) != 2 || batch.len() >= 61);
            if is_sealed {
                reseal(batch);
            }
            format!("batch {number}: {how}, sealed {is_sealed}")
        }
    };
    fs::write(path, bytes).unwrap();
    Some(how)
}

/// A field of a batch of magic 2 gets the value of another batch, or one near its own, or one at
/// an end of its range.
fn change_field(batch: &mut [u8], other: &[u8], random: &mut Random) -> String {
    let fields = [
        ("baseOffset", 0, 8),
        ("batchLength", 8, 12),
        ("partitionLeaderEpoch", 12, 16),
        ("magic", 16, 17),
        ("attributes", 21, 23),
        ("attributes", 21, 23),
        ("attributes", 21, 23),
        ("lastOffsetDelta", 23, 27),
        ("baseTimestamp", 27, 35),
        ("maxTimestamp", 35, 43),
        ("producerId", 43, 51),
        ("producerId", 43, 51),
        ("producerEpoch", 51, 53),
        ("producerEpoch", 51, 53),
        ("baseSequence", 53, 57),
        ("baseSequence", 53, 57),
        ("recordsCount", 57, 61),
        ("records", 61, batch.len()),
    ];
    let &(name, from, to) = random.pick(&fields);
    let size = to - from;
    let Some(field) = batch.get_mut(from..to).filter(|it| !it.is_empty()) else {
        return "nothing".to_owned();
    };
    if name == "attributes" {
        field[1] ^= *random.pick(&[0x08, 0x10, 0x20, 0x30, 0x40, 0x01, 0x80]);
        return format!("attributes {:#x}", field[1]);
    }
    if name == "records" {
        let at = random.below(size.min(40));
        field[at] = field[at].wrapping_add(*random.pick(&[1, 2, 255, 128]));
        return format!("byte {at} of the records");
    }
    match random.below(5) {
        0 if other.len() >= to => field.copy_from_slice(&other[from..to]),
        1 => field.fill(0xff),
        2 => field.fill(0),
        3 => {
            field.fill(0xff);
            field[0] = 0x7f;
        }
        _ => {
            let last = size - 1;
            let by = *random.pick(&[1, 2, 255, 254, 10]);
            field[last] = field[last].wrapping_add(by);
        }
    }
    format!("{name} {field:02x?}")
}

/// A field of a row of a snapshot gets another value, with the checksum made right again or not;
/// or a row is there twice.
fn change_rows(path: &Path, random: &mut Random) -> Option<String> {
    const HEADER: usize = 10;
    const ROW: usize = 46;
    let mut bytes = fs::read(path).unwrap();
    let count = bytes.len().checked_sub(HEADER)? / ROW;
    if count == 0 {
        return None;
    }
    let row = random.below(count);
    let from = HEADER + row * ROW;
    let how = if random.one_in(4) {
        let copy = bytes[from..from + ROW].to_vec();
        bytes.splice(from..from, copy);
        let count = u32::try_from(count + 1).unwrap();
        bytes[6..HEADER].copy_from_slice(&count.to_be_bytes());
        format!("row {row} twice")
    } else {
        let at = random.below(ROW);
        let value = *random.pick(&[0, 1, 0x7f, 0x80, 0xff]);
        bytes[from + at] = value;
        format!("byte {at} of row {row} is {value:#x}")
    };
    let is_sealed = !random.one_in(4);
    if is_sealed {
        let crc = crc32c::crc32c(&bytes[6..]);
        bytes[2..6].copy_from_slice(&crc.to_be_bytes());
    }
    fs::write(path, bytes).unwrap();
    Some(format!("{how}, sealed {is_sealed}"))
}

/// Moves the offsets of the last batches, or of one in the middle, out of reach of the index. No
/// checksum covers them.
fn far_offsets(bytes: &mut [u8], random: &mut Random) {
    let mut starts = Vec::new();
    let mut position = 0;
    while let Some(length) = bytes.get(position + 8..position + 12) {
        let length = i32::from_be_bytes(length.try_into().unwrap());
        starts.push(position);
        position += 12 + usize::try_from(length).unwrap_or(usize::MAX / 2);
    }
    let first = random.below(starts.len());
    let last = if random.one_in(3) {
        first + 1
    } else {
        starts.len()
    };
    for &start in starts.get(first..last).unwrap_or_default() {
        let field = &mut bytes[start..start + 8];
        let offset = i64::from_be_bytes(field.try_into().unwrap());
        field.copy_from_slice(&offset.wrapping_add(2_147_483_648).to_be_bytes());
    }
}
