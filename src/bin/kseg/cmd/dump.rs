//! `kseg dump`: what is in a file, row by row.

use std::path::Path;

use clap::{Args, ValueEnum};
use kseg::format::file_name::{LogDirFileName, LogFileKind, LogFileName, PartitionDirName};
use kseg::format::internal_topic::InternalTopic;
use kseg::log::Error;
use kseg::log::log_dir::LogDir;
use kseg::log::mapped_file::MappedFile;
use kseg::log::partition_dir::PartitionDir;
use kseg::log::records::DEFAULT_MAX_BATCH_BYTES;
use kseg::report::content::Decoder;
use kseg::report::dump::{
    DumpCounts, DumpOptions, DumpRow, RecordOptions, SideFile, Source, dump_log, dump_side_file,
    finished,
};
use kseg::report::filter::Filter;

use crate::cli::{AsLoadedArgs, BatchFilterArgs, BytesArg, PartitionFilterArgs, PathArgs};
use crate::context::{Context, Status};
use crate::inputs::{Input, Inputs};
use crate::render::dump_json::DumpJson;
use crate::render::dump_table::DumpTable;

/// Show what is in a file: batches, records, index entries, snapshots, checkpoints
///
/// A `.log` gives one line a batch with every field of its header and its byte position; control
/// batches say COMMIT or ABORT and the coordinator epoch. Checksums are checked. Other files give
/// their rows. A directory gives all its files in order; with a filter, those whose rows know of
/// what is asked. Values are shown as they lie in the
/// file: -1 where there is no producer, no sequence, no timestamp.
///
/// With --records the records of each batch follow it. Records that only Kafka writes are decoded
/// by the topic of the directory: __consumer_offsets, __transaction_state, __share_group_state,
/// __remote_log_metadata, __cluster_metadata and its snapshots; so are control records. Other keys
/// and values are shown as text where they are UTF-8.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  kseg dump /var/lib/kafka/orders-0/00000000000000000000.log
  kseg dump -o ndjson --producer-id 1003 /var/lib/kafka/orders-0
  kseg dump --records --key-decoder int /var/lib/kafka/orders-0/00000000000000000000.log

Exit status:
  0  done
  1  done, and a batch, its records or a file are not valid
  2  could not do it: bad usage, unreadable input, no such partition")]
pub(crate) struct DumpArgs {
    #[command(flatten)]
    paths: PathArgs,
    /// Do not check checksums; reads headers only
    #[arg(long)]
    headers_only: bool,
    /// Look at no more than the first bytes of each .log, as many as these
    #[arg(long, value_name = "BYTES")]
    max_bytes: Option<u64>,
    #[command(flatten)]
    records: RecordArgs,
    #[command(flatten)]
    partitions: PartitionFilterArgs,
    #[command(flatten)]
    batches: BatchFilterArgs,
    #[command(flatten)]
    loaded: AsLoadedArgs,
}

/// How records are shown.
#[derive(Args, Debug)]
#[command(next_help_heading = "Records")]
struct RecordArgs {
    /// Show the records of each batch behind it
    #[arg(long, conflicts_with = "headers_only")]
    records: bool,
    /// How to decode keys
    #[arg(long, value_enum, value_name = "DECODER", requires = "records")]
    #[arg(default_value_t = DecoderArg::Auto)]
    key_decoder: DecoderArg,
    /// How to decode values
    #[arg(long, value_enum, value_name = "DECODER", requires = "records")]
    #[arg(default_value_t = DecoderArg::Auto)]
    value_decoder: DecoderArg,
    /// How to show bytes that are no text
    #[arg(long, value_enum, value_name = "FORM", requires = "records")]
    #[arg(default_value_t = BytesArg::Base64)]
    bytes: BytesArg,
    /// Decode neither records of internal topics nor control records
    #[arg(long, requires = "records")]
    raw: bool,
    /// Take the records for those of this internal topic where the directory does not say so
    #[arg(
        long,
        value_name = "TOPIC",
        requires = "records",
        conflicts_with = "raw"
    )]
    #[arg(value_parser = parse_internal_topic)]
    as_topic: Option<InternalTopic>,
    /// Show sizes in place of keys and values
    #[arg(long, requires = "records")]
    sizes_only: bool,
    /// The most bytes a batch may unpack to
    #[arg(long, value_name = "BYTES", requires = "records")]
    #[arg(default_value_t = DEFAULT_MAX_BATCH_BYTES)]
    max_batch_bytes: usize,
}

impl RecordArgs {
    fn options(&self) -> Option<RecordOptions> {
        self.records.then(|| RecordOptions {
            key_decoder: self.key_decoder.into(),
            value_decoder: self.value_decoder.into(),
            bytes_form: self.bytes.into(),
            raw: self.raw,
            internal_topic: self.as_topic,
            sizes_only: self.sizes_only,
            max_batch_bytes: self.max_batch_bytes,
        })
    }
}

/// How keys or values are decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum DecoderArg {
    /// Text where it is UTF-8, else bytes
    Auto,
    /// Text, with marks where it is not UTF-8
    String,
    /// A 32-bit integer
    Int,
    /// A 64-bit integer
    Long,
    /// JSON
    Json,
    /// Bytes, even if they are text
    Bytes,
}

impl From<DecoderArg> for Decoder {
    fn from(arg: DecoderArg) -> Self {
        match arg {
            DecoderArg::Auto => Self::Auto,
            DecoderArg::String => Self::String,
            DecoderArg::Int => Self::Int,
            DecoderArg::Long => Self::Long,
            DecoderArg::Json => Self::Json,
            DecoderArg::Bytes => Self::Bytes,
        }
    }
}

fn parse_internal_topic(name: &str) -> Result<InternalTopic, String> {
    InternalTopic::from_name(name).ok_or_else(|| {
        let names = InternalTopic::ALL.map(InternalTopic::name);
        format!("expected one of {}", names.join(", "))
    })
}

pub(crate) fn run(args: &DumpArgs, context: &mut Context) -> anyhow::Result<Status> {
    let filter = args.partitions.filter_with(&args.batches);
    let inputs = Inputs::new(&args.paths, filter.clone())
        .loaded(&args.loaded, None)
        .with_files();
    let options = DumpOptions {
        headers_only: args.headers_only,
        filter,
        records: args.records.options(),
        max_bytes: args.max_bytes,
    };
    let mut dump = Dump {
        sink: Sink::new(context, &options),
        options,
        invalid: 0,
    };
    let walked = inputs.for_each(context, |input, context| match input {
        Input::File(path) => dump.named_file(path, context),
        Input::LogDir(dir) => dump.root_files(dir, context),
        Input::Partition(partition) => dump.partition(partition.dir, context),
    });
    dump.sink.finish(context)?;
    walked?;
    Ok(if dump.invalid > 0 {
        Status::Found
    } else {
        Status::Clean
    })
}

/// Where rows go.
enum Sink {
    Json(DumpJson),
    Table(Box<DumpTable>),
}

impl Sink {
    fn new(context: &Context, options: &DumpOptions) -> Self {
        match DumpJson::for_format(context.format) {
            Some(json) => Self::Json(json),
            None => {
                let filter = &options.filter;
                let is_filtered = filter.narrows_partitions() || filter.narrows_batches();
                let with_records = options.records.is_some();
                Self::Table(Box::new(DumpTable::new(
                    context.style,
                    is_filtered,
                    with_records,
                )))
            }
        }
    }

    fn begin_file(&mut self, path: &Path, context: &mut Context) -> anyhow::Result<()> {
        if let Self::Table(table) = self {
            table.begin_file(path, &mut context.out)?;
        }
        Ok(())
    }

    fn row(&mut self, row: &DumpRow<'_>, context: &mut Context) -> anyhow::Result<()> {
        match self {
            Self::Json(json) => json.row(&mut context.out, row)?,
            Self::Table(table) => table.row(row, &mut context.out)?,
        }
        Ok(())
    }

    fn finish(self, context: &mut Context) -> anyhow::Result<()> {
        match self {
            Self::Json(json) => json.finish(&mut context.out)?,
            Self::Table(table) => table.finish(&mut context.out)?,
        }
        Ok(())
    }
}

/// How the bytes of a file are read.
enum Content {
    Batches,
    Rows(SideFile),
}

impl Content {
    fn can_answer(&self, filter: &Filter) -> bool {
        match self {
            Self::Batches => true,
            Self::Rows(side_file) => side_file.can_answer(filter),
        }
    }
}

struct Dump {
    options: DumpOptions,
    sink: Sink,
    invalid: u64,
}

impl Dump {
    /// A file the user named: anything that is not Kafka's is an error.
    fn named_file(&mut self, path: &Path, context: &mut Context) -> anyhow::Result<()> {
        let name = path
            .file_name()
            .unwrap_or(path.as_os_str())
            .to_string_lossy();
        let content = partition_file(&LogFileName::parse(&name)).or_else(|| root_file(&name));
        let Some(content) = content else {
            context.fail(&Error::UnknownFile {
                path: path.to_owned(),
            });
            return Ok(());
        };
        let above = std::fs::canonicalize(path).ok();
        let above = above
            .as_deref()
            .and_then(Path::parent)
            .and_then(Path::file_name);
        let above = above.and_then(|above| PartitionDirName::parse(&above.to_string_lossy()));
        let source = Source {
            topic: above.as_ref().map(|above| above.topic.as_str()),
            partition: above.as_ref().map(|above| above.partition),
            file: &name,
        };
        let file = MappedFile::open(path, context.io).map(Some);
        self.file(path, file, &content, source, context)
    }

    fn root_files(&mut self, dir: &LogDir, context: &mut Context) -> anyhow::Result<()> {
        for name in &dir.files {
            let content = root_file(name);
            // The bootstrap snapshot is of no partition.
            let is_of_none = matches!(content, Some(Content::Batches));
            if let Some(content) = content
                && !(is_of_none && self.options.filter.narrows_partitions())
            {
                let source = Source {
                    topic: None,
                    partition: None,
                    file: name,
                };
                if content.can_answer(&self.options.filter) {
                    let path = dir.path.join(name);
                    let file = match MappedFile::open(&path, context.io) {
                        Err(error) if error.is_not_found() => Ok(None),
                        opened => opened.map(Some),
                    };
                    self.file(&path, file, &content, source, context)?;
                }
            }
        }
        Ok(())
    }

    fn partition(&mut self, dir: &PartitionDir, context: &mut Context) -> anyhow::Result<()> {
        for file in &dir.files {
            if let Some(content) = partition_file(&file.parsed)
                && content.can_answer(&self.options.filter)
            {
                let name = file.name();
                let source = Source {
                    topic: dir.topic(),
                    partition: dir.partition(),
                    file: &name,
                };
                let opened = dir.open_file(file, context.io);
                self.file(&dir.file_path(file), opened, &content, source, context)?;
            }
        }
        Ok(())
    }

    /// Dumps a file that was opened; `None` for one that has vanished.
    fn file(
        &mut self,
        path: &Path,
        opened: Result<Option<MappedFile>, Error>,
        content: &Content,
        source: Source<'_>,
        context: &mut Context,
    ) -> anyhow::Result<()> {
        let opened = opened.and_then(|file| match (file, content) {
            (Some(file), Content::Rows(kind)) => finished(file, *kind, context.io),
            (file, _) => Ok(file),
        });
        let file = match opened {
            Ok(Some(file)) => file,
            Ok(None) => {
                context.vanished(path);
                return Ok(());
            }
            Err(error) => {
                context.fail(&error);
                return Ok(());
            }
        };
        self.sink.begin_file(path, context)?;
        let counts = self.rows(&file, content, source, context);
        if let Some(counts) = context.passed(counts)? {
            self.invalid += counts.invalid;
        }
        Ok(())
    }

    fn rows(
        &mut self,
        file: &MappedFile,
        content: &Content,
        source: Source<'_>,
        context: &mut Context,
    ) -> anyhow::Result<DumpCounts> {
        let Self { options, sink, .. } = self;
        let emit = |row: &DumpRow<'_>| {
            // What was read behind a cut were zeros that are not in the file.
            file.check_unchanged()?;
            sink.row(row, context)
        };
        match content {
            Content::Batches => dump_log(file, source, options, emit),
            Content::Rows(kind) => {
                dump_side_file(*kind, &file.read_settled()?, source, &options.filter, emit)
            }
        }
    }
}

/// The content of a file in a partition directory; `None` if it has no rows.
fn partition_file(name: &LogFileName) -> Option<Content> {
    Some(match name.kind {
        LogFileKind::Log(_)
        | LogFileKind::KRaftSnapshot(_)
        | LogFileKind::KRaftSnapshotPart(..) => Content::Batches,
        LogFileKind::OffsetIndex(base_offset) => {
            Content::Rows(SideFile::OffsetIndex { base_offset })
        }
        LogFileKind::TimeIndex(base_offset) => Content::Rows(SideFile::TimeIndex { base_offset }),
        LogFileKind::TransactionIndex(_) => Content::Rows(SideFile::TransactionIndex),
        LogFileKind::ProducerSnapshot(_) => Content::Rows(SideFile::ProducerSnapshot),
        LogFileKind::LeaderEpochCheckpoint => Content::Rows(SideFile::LeaderEpochCheckpoint),
        LogFileKind::PartitionMetadata => Content::Rows(SideFile::PartitionMetadata),
        LogFileKind::QuorumState => Content::Rows(SideFile::QuorumState),
        LogFileKind::RemoteLogSnapshot | LogFileKind::NotANumber(_) | LogFileKind::Unknown(_) => {
            return None;
        }
    })
}

/// The content of a file directly in a log directory; `None` if it has no rows.
fn root_file(name: &str) -> Option<Content> {
    Some(match LogDirFileName::parse(name) {
        LogDirFileName::RecoveryPointOffsetCheckpoint
        | LogDirFileName::ReplicationOffsetCheckpoint
        | LogDirFileName::LogStartOffsetCheckpoint
        | LogDirFileName::CleanerOffsetCheckpoint => Content::Rows(SideFile::OffsetCheckpoint),
        LogDirFileName::MetaProperties => Content::Rows(SideFile::MetaProperties),
        LogDirFileName::CleanShutdown => Content::Rows(SideFile::CleanShutdown),
        LogDirFileName::BootstrapCheckpoint => Content::Batches,
        LogDirFileName::Lock
        | LogDirFileName::RemoteLogIndexCache
        | LogDirFileName::RlmmCommittedOffsets
        | LogDirFileName::Temporary(_)
        | LogDirFileName::Unknown(_) => return None,
    })
}
