//! Files: memory maps, segments, partition directories, broker log directories.
