//! The PATHs of a command: what they are, and the partitions and files in them that are wanted.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use kseg::log::broker_start::DOES_NOT_START;
use kseg::log::checkpoints::{CheckpointedOffsets, Checkpoints};
use kseg::log::log_dir::{LogDir, LogPath, PartitionPath, folder_above};
use kseg::log::partition_dir::PartitionDir;
use kseg::report::filter::Filter;
use kseg::report::gaps::has_lost_all;

use crate::assumed_start::AssumedStarts;
use crate::beside::read_checkpoints;
use crate::cli::{AsLoadedArgs, PathArgs};
use crate::context::{Context, EmptyPartition};
use crate::progress::Progress;
use crate::render::text::printable;
use crate::seen::Seen;

/// What the user pointed at.
pub(crate) struct Inputs {
    paths: Vec<PathBuf>,
    filter: Filter,
    collects: bool,
    takes_files: bool,
    /// No single segment is taken for its partition.
    whole: bool,
    /// What is left of a partition without a `.log` is looked at.
    takes_remains: bool,
    /// Whether it has been said which partitions are empty: some commands look twice.
    has_told_empty: Cell<bool>,
    has_own_progress: bool,
    /// Whether what is no file is told by the command itself.
    tells_odd: bool,
    /// Whether there is no answer without the checkpoints.
    needs_checkpoints: bool,
    /// Hand out what a broker would have after its start.
    as_loaded: Option<RefCell<AssumedStarts>>,
    now_ms: Option<i64>,
    /// How often each name of a partition's directory comes.
    names: OnceCell<HashMap<OsString, u64>>,
}

/// One partition directory and what the checkpoints beside it say.
pub(crate) struct PartitionInput<'a> {
    pub(crate) dir: &'a PartitionDir,
    pub(crate) offsets: CheckpointedOffsets,
    /// What tables call it: the name of its directory, or the path where several have that name.
    pub(crate) label: String,
}

/// One thing to look at, in the order it was given.
pub(crate) enum Input<'a> {
    /// A file that was named itself.
    File(&'a Path),
    /// A partition directory that the filter lets through.
    Partition(PartitionInput<'a>),
    /// A log directory, before its partitions.
    LogDir(&'a LogDir),
}

impl Inputs {
    pub(crate) fn new(paths: &PathArgs, filter: Filter) -> Self {
        Self {
            paths: paths.paths.clone(),
            filter,
            collects: false,
            takes_files: false,
            whole: false,
            takes_remains: false,
            has_told_empty: Cell::new(false),
            has_own_progress: false,
            tells_odd: false,
            needs_checkpoints: false,
            as_loaded: None,
            now_ms: None,
            names: OnceCell::new(),
        }
    }

    /// Hands out partitions as a broker would have them after its start, if that is asked for.
    /// `now_ms` is the clock by which it forgets producers.
    pub(crate) fn loaded(self, args: &AsLoadedArgs, now_ms: Option<i64>) -> Self {
        let assumed = || AssumedStarts::new(args.start.map(Into::into));
        Self {
            as_loaded: args.as_loaded.then(|| RefCell::new(assumed())),
            now_ms,
            ..self
        }
    }

    /// For a command that prints nothing before it has seen everything.
    pub(crate) fn collecting(self) -> Self {
        Self {
            collects: true,
            ..self
        }
    }

    /// For a command that looks into single files. The others take a `.log` for the partition it
    /// belongs to, as far as that file goes.
    pub(crate) fn with_files(self) -> Self {
        Self {
            takes_files: true,
            ..self
        }
    }

    /// For a command about what a broker does with a whole partition.
    pub(crate) fn whole(self) -> Self {
        Self {
            whole: true,
            ..self
        }
    }

    /// For a command that tells itself what is no file although it has the name of one.
    pub(crate) fn telling_odd_entries(self) -> Self {
        Self {
            tells_odd: true,
            ..self
        }
    }

    /// For a command that answers nothing for sure without the checkpoints a broker reads.
    pub(crate) fn needing_checkpoints(self) -> Self {
        Self {
            needs_checkpoints: true,
            ..self
        }
    }

    /// For a command that tells what is missing where a partition has lost every `.log`.
    pub(crate) fn with_remains(self) -> Self {
        Self {
            takes_remains: true,
            ..self
        }
    }

    /// For a command that tells the bytes it has passed itself.
    pub(crate) fn with_own_progress(self) -> Self {
        Self {
            has_own_progress: true,
            ..self
        }
    }

    /// Bytes of the segments that are wanted, as far as they can be told now.
    pub(crate) fn size_in_bytes(&self) -> u64 {
        let size_of = |path: &Path| PartitionDir::open(path).map_or(0, |dir| dir.size_in_bytes());
        let mut seen = Seen::of(&self.paths);
        let sizes = self.paths.iter().map(|path| match LogPath::discover(path) {
            Ok(LogPath::File(path)) if seen.is_new_file(&path) => {
                std::fs::metadata(path).map_or(0, |it| it.len())
            }
            Ok(LogPath::Partition(dir)) if seen.is_new(&dir.path) => dir.size_in_bytes(),
            Ok(LogPath::LogDir(dir)) => {
                let wanted = dir.partitions.iter().filter(|it| self.names(it));
                let new = wanted.filter(|it| seen.is_new(&it.path));
                new.map(|it| size_of(&it.path)).sum()
            }
            Ok(LogPath::File(_) | LogPath::Partition(_)) | Err(_) => 0,
        });
        sizes.sum()
    }

    /// Whether the filter lets a partition through by its name.
    fn names(&self, path: &PartitionPath) -> bool {
        let (topic, partition) = (&path.name.topic, path.name.partition);
        self.filter.wants_partition(Some(topic), Some(partition))
    }

    /// Hands out everything that is wanted, and that once. What cannot be read is complained of and
    /// passed over; only an error of `visit` ends the run.
    ///
    /// # Errors
    /// What `visit` returns, and if a filter by topic or partition let nothing through.
    pub(crate) fn for_each(
        &self,
        context: &mut Context,
        mut visit: impl FnMut(&Input<'_>, &mut Context) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mut wanted = 0;
        let mut failed = false;
        let mut seen = Seen::of(&self.paths);
        for path in &self.paths {
            match LogPath::discover(path) {
                Ok(LogPath::File(path)) => {
                    if seen.is_new_file(&path) {
                        wanted += self.file(&path, context, &mut visit)?;
                    }
                }
                Ok(LogPath::Partition(dir)) => {
                    if !seen.is_new(&dir.path) {
                        continue;
                    }
                    // First the checkpoints: what they name lies in the log that is held then.
                    let checkpoints = self.checkpoints_above(&dir.path, context);
                    match PartitionDir::hold(&dir.path) {
                        Ok(dir) => {
                            wanted +=
                                self.partition(&dir, Some(&checkpoints), context, &mut visit)?;
                        }
                        Err(error) => {
                            failed = true;
                            context.fail(&error);
                        }
                    }
                }
                Ok(LogPath::LogDir(dir)) => {
                    if seen.is_new(&dir.path) {
                        wanted += self.log_dir(&dir, &mut seen, context, &mut visit)?;
                    }
                }
                Err(error) => {
                    failed = true;
                    context.fail(&error);
                }
            }
        }
        if wanted == 0 && !failed && self.narrows_partitions() {
            anyhow::bail!("no such partition: {}", self.wanted_partition());
        }
        let assumed = self.as_loaded.as_ref();
        if let Some(note) = assumed.and_then(|it| it.borrow_mut().take_note()) {
            context.note(&note);
        }
        Ok(())
    }

    /// [`Inputs::for_each`] for commands about partitions: a file that is none is complained of,
    /// what lies beside the partitions of a log directory is passed over, and a directory without
    /// any segment is said to be empty.
    ///
    /// # Errors
    /// As [`Inputs::for_each`].
    pub(crate) fn for_each_partition(
        &self,
        context: &mut Context,
        mut visit: impl FnMut(&PartitionInput<'_>, &mut Context) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let (mut empty, mut others) = (Vec::new(), 0_u64);
        self.for_each(context, |input, context| match input {
            Input::LogDir(_) => Ok(()),
            Input::File(path) => {
                context.not_a_directory(path);
                Ok(())
            }
            Input::Partition(partition)
                if partition.dir.segments.is_empty()
                    && !(self.takes_remains && has_lost_all(partition.dir, partition.offsets)) =>
            {
                empty.push(EmptyPartition {
                    path: partition.dir.path.clone(),
                    has_lost_all: has_lost_all(partition.dir, partition.offsets),
                });
                Ok(())
            }
            Input::Partition(partition) => {
                others += 1;
                visit(partition, context)
            }
        })?;
        if !self.has_told_empty.replace(true) {
            context.empty_partitions(&empty, others == 0)?;
        }
        Ok(())
    }

    fn file(
        &self,
        path: &Path,
        context: &mut Context,
        visit: &mut impl FnMut(&Input<'_>, &mut Context) -> anyhow::Result<()>,
    ) -> anyhow::Result<u64> {
        if !self.takes_files {
            match PartitionDir::of_segment(path) {
                Ok(Some(dir)) if self.whole || self.as_loaded.is_some() => {
                    let message = format!(
                        "{}: a broker loads a partition with all of its files, not one segment",
                        path.display()
                    );
                    context.fail_with(&message, &format!("try {}", dir.path.display()));
                    return Ok(1);
                }
                Ok(Some(dir)) => return self.partition(&dir, None, context, visit),
                Ok(None) => {}
                Err(error) => {
                    context.fail(&error);
                    return Ok(1);
                }
            }
        }
        visit(&Input::File(path), context)?;
        Ok(1)
    }

    fn checkpoints_above(&self, path: &Path, context: &mut Context) -> Checkpoints {
        folder_above(path).map_or_else(Checkpoints::default, |above| {
            self.checkpoints(&above, context)
        })
    }

    fn checkpoints(&self, dir: &Path, context: &mut Context) -> Checkpoints {
        if !self.tells_odd {
            context.odd_root_files(dir);
        }
        let checkpoints = read_checkpoints(dir, context);
        let unread = checkpoints.problems.iter().filter(|it| it.defect.is_none());
        for problem in unread.filter(|_| self.needs_checkpoints) {
            let next_step = "a broker reads it at its start, and ends or goes offline if it cannot";
            context.fail_with(&problem.to_string(), next_step);
        }
        checkpoints
    }

    fn log_dir(
        &self,
        dir: &LogDir,
        seen: &mut Seen,
        context: &mut Context,
        visit: &mut impl FnMut(&Input<'_>, &mut Context) -> anyhow::Result<()>,
    ) -> anyhow::Result<u64> {
        for name in &dir.other_dirs {
            let path = dir.path.join(name);
            context.warn(&format!(
                "{}: not a partition directory; a broker {DOES_NOT_START} with it",
                path.display()
            ));
        }
        let checkpoints = self.checkpoints(&dir.path, context);
        let named = dir.partitions.iter().filter(|it| self.names(it));
        let partitions: Vec<&PartitionPath> = named.collect();
        if partitions.is_empty() && self.narrows_partitions() {
            return Ok(0);
        }
        visit(&Input::LogDir(dir), context)?;
        // Rows that stream to the terminal show how far the run has come themselves.
        let shows = !self.has_own_progress && (self.collects || !context.out_is_terminal);
        let mut progress = shows.then(|| Progress::new(partitions.len() as u64));
        let mut wanted = 0;
        for partition in partitions {
            if !seen.is_new(&partition.path) {
                wanted += 1;
                continue;
            }
            match PartitionDir::hold(&partition.path) {
                Ok(dir) => {
                    wanted += self.partition(&dir, Some(&checkpoints), context, visit)?;
                    if let Some(progress) = &mut progress {
                        progress.partition_done(dir.size_in_bytes());
                    }
                }
                Err(error) => {
                    // It is there, or was a moment ago.
                    wanted += 1;
                    if error.is_not_found() {
                        context.vanished(&partition.path);
                    } else {
                        context.fail(&error);
                    }
                }
            }
        }
        Ok(wanted)
    }

    fn partition(
        &self,
        dir: &PartitionDir,
        checkpoints: Option<&Checkpoints>,
        context: &mut Context,
        visit: &mut impl FnMut(&Input<'_>, &mut Context) -> anyhow::Result<()>,
    ) -> anyhow::Result<u64> {
        if !self.filter.wants_partition(dir.topic(), dir.partition()) {
            return Ok(0);
        }
        let offsets = match checkpoints {
            Some(checkpoints) => checkpoints.of_dir(dir),
            None => self.checkpoints_above(&dir.path, context).of_dir(dir),
        };
        let label = self.label(&dir.path);
        if !self.tells_odd {
            context.odd_entries(dir);
        }
        match &self.as_loaded {
            None => {
                let input = PartitionInput {
                    dir,
                    offsets,
                    label,
                };
                visit(&Input::Partition(input), context)?;
            }
            Some(assumed) => {
                if let Some((dir, offsets)) =
                    assumed
                        .borrow_mut()
                        .load(dir, offsets, self.now_ms, context)
                {
                    let input = PartitionInput {
                        dir: &dir,
                        offsets,
                        label,
                    };
                    visit(&Input::Partition(input), context)?;
                }
            }
        }
        Ok(1)
    }

    /// What tables call the partition in a directory.
    pub(crate) fn label(&self, path: &Path) -> String {
        let name = dir_name(path);
        let names = self.names.get_or_init(|| self.count_names());
        let is_alone = names.get(&name).is_none_or(|number| *number < 2);
        printable(&if is_alone {
            name.to_string_lossy().into_owned()
        } else {
            path.display().to_string()
        })
    }

    /// How often each name of a wanted partition's directory comes. With one log directory none
    /// comes twice.
    fn count_names(&self) -> HashMap<OsString, u64> {
        let mut names = HashMap::new();
        if self.paths.len() < 2 {
            return names;
        }
        let mut seen = Seen::of(&self.paths);
        let mut add = |path: &Path| {
            if seen.is_new(path) {
                *names.entry(dir_name(path)).or_default() += 1;
            }
        };
        for path in &self.paths {
            match LogPath::discover(path) {
                Ok(LogPath::Partition(dir)) => add(&dir.path),
                Ok(LogPath::LogDir(dir)) => {
                    let wanted = dir.partitions.iter().filter(|it| self.names(it));
                    wanted.for_each(|partition| add(&partition.path));
                }
                Ok(LogPath::File(_)) | Err(_) => {}
            }
        }
        names
    }

    fn narrows_partitions(&self) -> bool {
        self.filter.narrows_partitions()
    }

    fn wanted_partition(&self) -> String {
        match (&self.filter.topic, self.filter.partition) {
            (Some(topic), Some(partition)) => format!("{topic}-{partition}"),
            (Some(topic), None) => format!("topic {topic}"),
            (None, Some(partition)) => format!("partition {partition}"),
            (None, None) => String::new(),
        }
    }
}

/// The name of a directory, whatever it was called by.
fn dir_name(path: &Path) -> OsString {
    let own = path.file_name().map(OsString::from);
    own.or_else(|| Some(std::fs::canonicalize(path).ok()?.file_name()?.to_owned()))
        .unwrap_or_else(|| path.as_os_str().to_owned())
}
