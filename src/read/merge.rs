//! A session's segments as one stream of lines.

use std::io;
use std::path::{Path, PathBuf};

use crate::trace::{Damage, FoundLine, RawLine, ReadItem, SegmentReader, about, segments, ts_of};

/// Of a session with more segments than this, no more are open at once: each run of a session that
/// goes on for years adds one.
const MANY: usize = 64;

/// Reads a session: its segments merged by (highest `ts` so far, segment, `seq`), never
/// reordered within one.
///
/// ```no_run
/// use spanledger::trace::ReadItem;
/// use spanledger::read::SessionReader;
/// let mut reader = SessionReader::open("sessions/ses_1")?;
/// while let Some(found) = reader.next()? {
///     match found {
///         ReadItem::Line(line) => println!("{} {}", line.address(), line.kind),
///         ReadItem::Damaged(damage) => eprintln!("passed over {damage}"),
///         _ => {}
///     }
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct SessionReader {
    dir: PathBuf,
    streams: Vec<Stream>,
    all_fields: bool,
}

#[derive(Debug)]
struct Stream {
    number: u32,
    reader: SegmentReader,
    /// The highest `ts` so far, the waiting line's included.
    high: Vec<u8>,
    /// A line in `reader` that was found and not returned yet.
    waiting: Option<FoundLine>,
    /// It was read to its end. Not tried again before all others are, or for each line of a long
    /// segment the ends of all others would be read.
    dry: bool,
}

impl SessionReader {
    /// Opens all segments of a session.
    pub fn open(session: impl AsRef<Path>) -> io::Result<Self> {
        let mut reader = Self {
            dir: session.as_ref().to_owned(),
            streams: Vec::new(),
            all_fields: false,
        };
        reader.refresh()?;
        Ok(reader)
    }

    /// Finds all fields of each line in one pass: for a reader that looks at several fields of most lines.
    pub(crate) fn with_all_fields(mut self) -> Self {
        self.all_fields = true;
        for stream in &mut self.streams {
            stream.reader.all_fields = true;
        }
        self
    }

    /// Looks for segments that were added since, and at the ends of the others. How many there
    /// were.
    pub fn refresh(&mut self) -> io::Result<usize> {
        let mut added = 0;
        for (number, path) in segments(&self.dir).map_err(about(&self.dir))? {
            if !self.streams.iter().any(|stream| stream.number == number) {
                self.make_room();
                let mut reader = SegmentReader::open(path)?;
                reader.all_fields = self.all_fields;
                self.streams.push(Stream {
                    number,
                    reader,
                    high: Vec::new(),
                    waiting: None,
                    dry: false,
                });
                added += 1;
            }
        }
        for stream in &mut self.streams {
            stream.dry = false;
        }
        self.streams.sort_by_key(|stream| stream.number);
        Ok(added)
    }

    /// Finds the next line of each segment that may have one.
    fn wait(&mut self) -> io::Result<()> {
        let tried = |stream: &Stream| stream.dry && stream.waiting.is_none();
        let again = self.streams.iter().all(tried);
        for at in 0..self.streams.len() {
            self.streams[at].dry &= !again;
            if self.streams[at].is_wanting() {
                if !self.streams[at].reader.is_open() {
                    self.make_room();
                }
                self.streams[at].wait()?;
            }
        }
        Ok(())
    }

    /// Closes all files if there are too many to open one more.
    fn make_room(&mut self) {
        let open = self.streams.iter().filter(|s| s.reader.is_open());
        if self.streams.len() >= MANY && open.count() >= MANY {
            self.close();
        }
    }

    /// Closes all files until the next call.
    pub(crate) fn close(&mut self) {
        self.streams.iter_mut().for_each(Stream::close);
    }

    /// Calls `with` for each segment's reader, with its number.
    pub(super) fn each(
        &mut self,
        mut with: impl FnMut(u32, &mut SegmentReader) -> io::Result<()>,
    ) -> io::Result<()> {
        for at in 0..self.streams.len() {
            self.make_room();
            let stream = &mut self.streams[at];
            with(stream.number, &mut stream.reader)?;
        }
        Ok(())
    }

    /// The segment with the oldest line that waits, and that line is at hand.
    fn oldest(&mut self) -> io::Result<Option<usize>> {
        loop {
            self.wait()?;
            let waiting = self.streams.iter().enumerate();
            let waiting = waiting.filter(|(_, s)| s.waiting.is_some());
            let oldest =
                waiting.min_by(|(_, a), (_, b)| (&a.high, a.number).cmp(&(&b.high, b.number)));
            let Some((at, _)) = oldest else {
                return Ok(None);
            };
            if self.streams[at].reader.is_open() {
                return Ok(Some(at));
            }
            // It was let go of: found again, unless the file is another by now.
            self.make_room();
            self.streams[at].waiting = None;
            self.streams[at].wait()?;
            if self.streams[at].waiting.is_some() {
                return Ok(Some(at));
            }
        }
    }

    /// When the next line was written, if one is there.
    pub(super) fn peek(&mut self) -> io::Result<Option<&[u8]>> {
        self.wait()?;
        let waiting = self.streams.iter().filter(|s| s.waiting.is_some());
        Ok(waiting.map(|stream| stream.high.as_slice()).min())
    }

    /// The session's directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The readers of its segments, with their numbers.
    pub fn segments(&mut self) -> impl Iterator<Item = (u32, &mut SegmentReader)> {
        self.streams
            .iter_mut()
            .map(|stream| (stream.number, &mut stream.reader))
    }

    /// The next line. `None`: no whole line is there now; a live session may go on.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> io::Result<Option<ReadItem<'_>>> {
        if self.streams.len() == 1 && self.streams[0].waiting.is_none() {
            // One writer, by far the most sessions: nothing to compare.
            return self.streams[0].reader.next();
        }
        let Some(index) = self.oldest()? else {
            return Ok(None);
        };
        let Stream {
            waiting, reader, ..
        } = &mut self.streams[index];
        Ok(waiting.take().map(|found| reader.parse(found)))
    }
}

impl SessionReader {
    /// Passes each line to `take`, in order. Returns what is damaged.
    pub(crate) fn each_line<E: From<io::Error>>(
        mut self,
        mut take: impl FnMut(&RawLine<'_>) -> Result<(), E>,
    ) -> Result<Vec<Damage>, E> {
        let mut damages = Vec::new();
        while let Some(item) = self.next()? {
            match item {
                ReadItem::Line(line) => take(&line)?,
                ReadItem::Damaged(damage) => damages.push(damage),
            }
        }
        Ok(damages)
    }
}

impl Stream {
    /// None is waiting, and one may be there.
    fn is_wanting(&self) -> bool {
        self.waiting.is_none() && !self.dry
    }

    /// Closes the file until it is its turn.
    fn close(&mut self) {
        match self.waiting {
            // It would have to be passed over again.
            Some(waiting) if waiting.skipped > 0 => {}
            waiting => self.reader.close(waiting.map(|waiting| waiting.start)),
        }
    }

    /// Finds the next line.
    fn wait(&mut self) -> io::Result<()> {
        self.waiting = self.reader.line()?;
        self.dry = self.waiting.is_none();
        if let Some(found) = self.waiting
            && let Some(ts) = ts_of(self.reader.bytes(found))
            && ts > self.high.as_slice()
        {
            self.high.clear();
            self.high.extend_from_slice(ts);
        }
        Ok(())
    }
}
