//! The commands that read: those of `reading-commands.txt`.

use std::fmt;
use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::program::{Run, kseg};

/// No command takes so long on what the tests give it, whatever else the machine does.
const LIMIT: Duration = Duration::from_secs(120);

/// One line of the list.
#[derive(Clone, Debug)]
pub struct ReadingCommand {
    arguments: Vec<&'static str>,
    /// Whether it takes a partition directory and nothing else.
    pub takes_partition: bool,
}

/// The list.
pub fn reading_commands() -> Vec<ReadingCommand> {
    let lines = include_str!("../data/reading-commands.txt").lines();
    lines
        .filter(|line| !line.starts_with('#') && !line.trim().is_empty())
        .map(|line| {
            let partition = line.strip_prefix("partition ");
            ReadingCommand {
                arguments: partition.unwrap_or(line).split_whitespace().collect(),
                takes_partition: partition.is_some(),
            }
        })
        .collect()
}

impl fmt::Display for ReadingCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.arguments.join(" "))
    }
}

impl ReadingCommand {
    /// The same with one more option.
    pub fn with(&self, option: &'static str) -> Self {
        let mut command = self.clone();
        command.arguments.insert(1, option);
        command
    }

    /// Whether it has no rows for what is sound.
    pub fn tells_faults_only(&self) -> bool {
        self.arguments.first() == Some(&"verify") && self.arguments.contains(&"-o")
    }

    /// The command for a path, behind another program; what it makes goes below `scratch`.
    fn command(&self, through: &[&str], path: &Path, scratch: &Path) -> Command {
        let mut command = kseg(scratch);
        if let [program, arguments @ ..] = through {
            let own = command.get_program().to_owned();
            command = Command::new(program);
            command.args(arguments).arg(own).current_dir(scratch);
        }
        for argument in &self.arguments {
            match *argument {
                "PATH" => command.arg(path),
                "OUT" => command.arg(scratch.join("out")),
                other => command.arg(other),
            };
        }
        command
    }

    /// Runs it to its end. A signal, a panic or a hang fails the test.
    pub fn run(&self, path: &Path, scratch: &Path) -> Run {
        self.run_through(&[], path, scratch)
    }

    /// The same, started by another program that takes it as its last arguments.
    pub fn run_through(&self, through: &[&str], path: &Path, scratch: &Path) -> Run {
        let _ = std::fs::remove_dir_all(scratch.join("out"));
        finish_in_time(&mut self.command(through, path, scratch), scratch)
    }
}

/// Runs a program to its end, its output kept in files below `scratch`.
pub fn finish_in_time(command: &mut Command, scratch: &Path) -> Run {
    let (stdout, stderr) = (scratch.join("stdout"), scratch.join("stderr"));
    command
        .stdin(Stdio::null())
        .stdout(File::create(&stdout).unwrap())
        .stderr(File::create(&stderr).unwrap());
    let started = Instant::now();
    let mut child = command.spawn().unwrap();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if started.elapsed() > LIMIT {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("{command:?} has not ended");
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    let text = |path| String::from_utf8(std::fs::read(path).unwrap()).unwrap();
    let run = Run {
        status: status
            .code()
            .unwrap_or_else(|| panic!("{command:?}: {status}")),
        stdout: text(stdout),
        stderr: text(stderr),
    };
    assert!(run.status <= 2, "{command:?}: {}", run.stderr);
    run
}
