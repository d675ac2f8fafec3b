//! The commands that read, as a program of one's own calls them in the library.

use std::io;

use kseg::append::LogConfig;
use kseg::append::dry_run::row::Start;
use kseg::append::dry_run::{DryRunOptions, INDEX_MEMORY, dry_run};
use kseg::append::scenario::{FromLog, FromLogError};
use kseg::format::file_name::LogFileKind;
use kseg::log::checkpoints::CheckpointedOffsets;
use kseg::log::partition_dir::PartitionDir;
use kseg::log::{Error, Io};
use kseg::report::aborted::{AbortedOptions, aborted_partition};
use kseg::report::diff::{DiffOptions, ReplicaInput, diff_partitions};
use kseg::report::dump::{
    DumpOptions, DumpRow, RecordOptions, SideFile, Source, dump_log, dump_side_file,
};
use kseg::report::filter::Filter;
use kseg::report::gaps::{GapOptions, find_gaps};
use kseg::report::ls::{LsOptions, ls_partition};
use kseg::report::lso::lso;
use kseg::report::partition_state::{StateOptions, load_partition_state};
use kseg::report::producers::{compare_snapshots, producers};
use kseg::report::read::{IsolationLevel, PartitionReader, ReadOptions};
use kseg::report::rebuild::{RebuildOptions, SnapshotsAt, rebuild_rows};
use kseg::report::replay::{ReplayOptions, replay_log};
use kseg::report::txns::{TxnsOptions, WantedStates, txns_partition};
use kseg::report::verify::{Depth, VerifyOptions, verify_partition};
use kseg::state::TransactionVersion;

/// One command on one partition. Whatever lies there, it comes back: with an answer or an error.
pub type LibraryCommand = fn(&PartitionDir, CheckpointedOffsets) -> Result<(), Error>;

/// A batch of a test does not unpack to more.
const MAX_BATCH_BYTES: usize = 8 << 20;

/// Every command, by its name.
pub const LIBRARY_COMMANDS: &[(&str, LibraryCommand)] = &[
    ("ls", |dir, offsets| {
        let options = LsOptions {
            segments: true,
            files: true,
            ..LsOptions::default()
        };
        ls_partition(dir, offsets, options).map(drop)
    }),
    ("dump", |dir, _| dump(dir, |_| Ok(()))),
    ("read committed", |dir, offsets| {
        read(dir, offsets, IsolationLevel::ReadCommitted)
    }),
    ("read uncommitted", |dir, offsets| {
        read(dir, offsets, IsolationLevel::ReadUncommitted)
    }),
    ("producers", |dir, offsets| {
        let options = StateOptions::default();
        let Some(state) = load_partition_state(dir, offsets, options)? else {
            return Ok(());
        };
        producers(dir, &state, |_| true, |_| Ok::<_, Error>(()))?;
        compare_snapshots(dir, offsets, options, &state).map(drop)
    }),
    ("replay", |dir, offsets| {
        let options = ReplayOptions {
            io: Io::Mmap,
            filter: Filter::default(),
            from_scratch: false,
            at_offset: None,
            transaction_version: TransactionVersion::V1,
            producer_id_expiration_ms: 86_400_000,
        };
        replay_log(dir, offsets, &options, |_| Ok::<_, Error>(())).map(drop)
    }),
    ("gaps", |dir, offsets| {
        find_gaps(dir, offsets, &GapOptions::default(), |_| Ok::<_, Error>(())).map(drop)
    }),
    ("txns", |dir, offsets| {
        let options = TxnsOptions {
            states: WantedStates::ALL,
            ..TxnsOptions::default()
        };
        txns_partition(dir, offsets, &options, |_| Ok::<_, Error>(())).map(drop)
    }),
    ("aborted", |dir, offsets| {
        let options = AbortedOptions::default();
        aborted_partition(dir, offsets, &options, |_| Ok::<_, Error>(())).map(drop)
    }),
    ("lso", |dir, offsets| {
        lso(dir, offsets, StateOptions::default()).map(drop)
    }),
    ("rebuild", |dir, offsets| {
        let options = RebuildOptions {
            io: Io::Mmap,
            from_scratch: false,
            expiration: None,
            index_interval_bytes: 4096,
            snapshots_at: SnapshotsAt::BasesAndEnd,
        };
        rebuild_rows(dir, offsets, options, |_| true, |_| Ok::<_, Error>(())).map(drop)
    }),
    ("verify", |dir, offsets| {
        let options = VerifyOptions {
            depth: Depth::Records,
            max_batch_bytes: MAX_BATCH_BYTES,
            ..VerifyOptions::default()
        };
        verify_partition(dir, offsets, &options, |_| {}, |_| Ok::<_, Error>(())).map(drop)
    }),
    ("recover, clean", |dir, offsets| {
        recover(dir, offsets, Start::Clean)
    }),
    ("recover, unclean", |dir, offsets| {
        recover(dir, offsets, Start::Unclean)
    }),
    ("diff", |dir, checkpoints| {
        let options = DiffOptions {
            io: Io::Mmap,
            max_batch_bytes: MAX_BATCH_BYTES,
            side_files: true,
        };
        let replica = ReplicaInput { dir, checkpoints };
        let diff = diff_partitions(replica, replica, options)?;
        assert!(diff.row.equal, "a partition differs from itself: {diff:?}");
        Ok(())
    }),
    ("write --from", |dir, _| {
        let from = FromLog {
            dir,
            io: Io::Mmap,
            redact: false,
        };
        match from.write(&mut io::sink()) {
            Err(FromLogError::Log(error)) => Err(error),
            // What a scenario cannot say is an answer.
            Ok(_) | Err(_) => Ok(()),
        }
    }),
];

/// Hands out every row of every file, records and all.
pub fn dump(
    dir: &PartitionDir,
    mut emit: impl FnMut(&DumpRow<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    let options = DumpOptions {
        records: Some(RecordOptions {
            max_batch_bytes: MAX_BATCH_BYTES,
            ..RecordOptions::default()
        }),
        ..DumpOptions::default()
    };
    for entry in &dir.files {
        let name = entry.name();
        let source = Source {
            topic: dir.topic(),
            partition: dir.partition(),
            file: &name,
        };
        let Some(file) = dir.open_file(entry, Io::Mmap)? else {
            continue;
        };
        let kind = match entry.parsed.kind {
            LogFileKind::Log(_)
            | LogFileKind::KRaftSnapshot(_)
            | LogFileKind::KRaftSnapshotPart(..) => {
                dump_log(&file, source, &options, &mut emit)?;
                continue;
            }
            LogFileKind::OffsetIndex(base_offset) => SideFile::OffsetIndex { base_offset },
            LogFileKind::TimeIndex(base_offset) => SideFile::TimeIndex { base_offset },
            LogFileKind::TransactionIndex(_) => SideFile::TransactionIndex,
            LogFileKind::ProducerSnapshot(_) => SideFile::ProducerSnapshot,
            LogFileKind::LeaderEpochCheckpoint => SideFile::LeaderEpochCheckpoint,
            LogFileKind::PartitionMetadata => SideFile::PartitionMetadata,
            LogFileKind::QuorumState => SideFile::QuorumState,
            LogFileKind::RemoteLogSnapshot
            | LogFileKind::NotANumber(_)
            | LogFileKind::Unknown(_) => continue,
        };
        dump_side_file(
            kind,
            &file.read_settled()?,
            source,
            &options.filter,
            &mut emit,
        )?;
    }
    Ok(())
}

fn recover(dir: &PartitionDir, offsets: CheckpointedOffsets, start: Start) -> Result<(), Error> {
    let options = DryRunOptions {
        io: Io::Mmap,
        config: LogConfig::default(),
        now_ms: None,
        is_clean: false,
        index_memory: INDEX_MEMORY,
    };
    dry_run(dir, offsets, start, &options).map(drop)
}

fn read(
    dir: &PartitionDir,
    offsets: CheckpointedOffsets,
    isolation_level: IsolationLevel,
) -> Result<(), Error> {
    let options = ReadOptions {
        isolation_level,
        count: true,
        max_batch_bytes: MAX_BATCH_BYTES,
        ..ReadOptions::default()
    };
    match PartitionReader::open(dir, offsets, &options)? {
        Some(reader) => reader.read(|_| Ok::<_, Error>(())).map(drop),
        None => Ok(()),
    }
}
