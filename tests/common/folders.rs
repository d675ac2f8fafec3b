//! Folders of fixtures: which of them the live broker's answers are of, and copies to be changed.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The log directory of a fixture that the answers beside it are of: where the broker crashed,
/// they were taken after it had come up again.
pub fn answered_data(fixture: &Path) -> PathBuf {
    let recovered = fixture.join("recovered");
    if recovered.is_dir() {
        recovered
    } else {
        fixture.join("data")
    }
}

/// Copies a folder with all that is in it, and the times of its files.
pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), &to).unwrap();
            // A file written a moment ago is taken for one that a broker writes to.
            let modified = entry.metadata().unwrap().modified().unwrap();
            let copy = fs::File::options().write(true).open(&to).unwrap();
            copy.set_modified(modified).unwrap();
        }
    }
}

/// A copy of a partition, with the files that lie beside it; it goes with the folder.
pub fn copy_partition(partition: &Path) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(partition.parent().unwrap()).unwrap() {
        let from = entry.unwrap().path();
        if from.is_file() {
            fs::copy(&from, folder.path().join(from.file_name().unwrap())).unwrap();
        }
    }
    let path = folder.path().join(partition.file_name().unwrap());
    copy(partition, &path);
    (folder, path)
}

/// Gives a folder and the files in it an old time: what was written a moment ago is waited for.
pub fn rest(folder: &Path) {
    let earlier = SystemTime::now() - Duration::from_secs(60);
    let files = fs::read_dir(folder).unwrap().map(|it| it.unwrap().path());
    for path in files.filter(|it| it.is_file()) {
        let file = fs::File::options().write(true).open(path).unwrap();
        file.set_modified(earlier).unwrap();
    }
    let folder = fs::File::open(folder).unwrap();
    folder.set_modified(earlier).unwrap();
}
