//! Standard output with a buffer that rows are made in.

use std::io::{self, StdoutLock, Write};

/// Bytes gathered before they are written.
const BUFFER_SIZE: usize = 64 * 1024;
/// Space that is kept for what comes next; a row can be larger.
const MAX_KEPT: usize = 16 * 1024 * 1024;

/// What [`io::BufWriter`] does, but what makes a row of many small pieces can put them into the
/// buffer itself.
#[derive(Debug)]
pub(crate) struct Output<W: Write = StdoutLock<'static>> {
    to: W,
    buffer: Vec<u8>,
    /// Whether the run goes on when nobody reads any more.
    is_extra: bool,
}

impl<W: Write> Output<W> {
    pub(crate) fn new(to: W) -> Self {
        Self {
            to,
            buffer: Vec::with_capacity(2 * BUFFER_SIZE),
            is_extra: false,
        }
    }

    /// From now on a closed pipe is no error: the run makes files, and what is printed comes
    /// beside them.
    pub(crate) fn take_for_extra(&mut self) {
        self.is_extra = true;
    }

    /// What became of writing, a closed pipe being no error where the run goes on.
    fn unless_closed(&self, written: io::Result<()>) -> io::Result<()> {
        match written {
            Err(error) if self.is_extra && error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            written => written,
        }
    }

    /// Takes what `append` appends to the bytes it is given; nothing of it if that fails.
    pub(super) fn append<E>(
        &mut self,
        append: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> io::Result<()>
    where
        io::Error: From<E>,
    {
        let begin = self.buffer.len();
        if let Err(error) = append(&mut self.buffer) {
            self.buffer.truncate(begin);
            return Err(error.into());
        }
        self.write_if_full()
    }

    #[inline]
    fn write_if_full(&mut self) -> io::Result<()> {
        if self.buffer.len() < BUFFER_SIZE {
            return Ok(());
        }
        self.write_buffer()
    }

    fn write_buffer(&mut self) -> io::Result<()> {
        let written = self.to.write_all(&self.buffer);
        // What could not be written is lost, and not tried again.
        if self.buffer.capacity() > MAX_KEPT {
            self.buffer = Vec::with_capacity(2 * BUFFER_SIZE);
        } else {
            self.buffer.clear();
        }
        self.unless_closed(written)
    }
}

impl<W: Write> Write for Output<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        self.write_if_full().map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.write_buffer()?;
        let flushed = self.to.flush();
        self.unless_closed(flushed)
    }
}

impl<W: Write> Drop for Output<W> {
    /// As [`io::BufWriter`]: a run that failed has still said what it knew until then.
    fn drop(&mut self) {
        let _ = self.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keeps what is written, and how much at once.
    #[derive(Default)]
    struct Writes(Vec<usize>, Vec<u8>);

    impl Write for &mut Writes {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.push(bytes.len());
            self.1.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn bytes_come_out_in_order_and_in_large_pieces() {
        let mut writes = Writes::default();
        let mut expected = Vec::new();
        let mut out = Output::new(&mut writes);
        for n in 0..20_000 {
            let piece = format!("{n},");
            expected.extend_from_slice(piece.as_bytes());
            if n % 2 == 0 {
                out.write_all(piece.as_bytes()).unwrap();
            } else {
                out.append(|text| write!(text, "{piece}")).unwrap();
            }
        }
        drop(out);
        assert_eq!(writes.1, expected);
        assert_eq!(writes.0.len(), expected.len().div_ceil(BUFFER_SIZE));
    }

    #[test]
    fn nothing_is_left_of_what_fails() {
        let mut writes = Writes::default();
        let mut out = Output::new(&mut writes);
        out.write_all(b"whole").unwrap();
        let failed = out.append(|text| {
            text.extend_from_slice(b"half");
            Err(io::Error::other("no"))
        });
        assert!(failed.is_err());
        drop(out);
        assert_eq!(writes.1, b"whole");
    }
}
